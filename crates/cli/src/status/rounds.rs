//! What replicas that run Chora measure of its network model, as a table.

use super::report::Report;
use super::table::{align, name, time, uptime};
use std::collections::BTreeMap;

/// The table; nothing where no replica runs Chora.
pub(super) fn render(report: &Report) -> String {
    let headings = [
        "id", "view", "mode", "for", "T", "needed", "round", "early", "alpha", "beta", "kappa",
        "S90", "S99", "casts",
    ];
    let mut rows = vec![headings.map(str::to_owned).to_vec()];
    let mut message_us = None;
    for replica in &report.replicas {
        let is_chora = |protocol: &String| protocol == "chora";
        let page = replica
            .status
            .as_ref()
            .filter(|page| is_chora(&page.protocol));
        let (Some(_), Some(figures)) = (page, &replica.figures) else {
            continue;
        };
        message_us = message_us.or(figures.protocol.get("message_us").copied());
        rows.push([vec![name(replica)], cells(&figures.protocol)].concat());
    }
    let Some(message_us) = message_us else {
        return String::new();
    };
    format!(
        "\nrounds, as measured last; a message is said to cost {} (message_ns); casts: multicasts per commit\n",
        time(message_us)
    ) + &align(&rows)
}

fn cells(figures: &BTreeMap<String, f64>) -> Vec<String> {
    let show = |name: &str, words: &dyn Fn(f64) -> String| {
        figures
            .get(name)
            .map_or("-".to_owned(), |value| words(*value))
    };
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let ratio = |value: f64| match value {
        value if value < 0.095 => format!("{value:.3}"),
        value => format!("{value:.2}"),
    };
    let mode = |pulsing: f64| match pulsing > 0.0 {
        true => "pulsing".to_owned(),
        false => "responsive".to_owned(),
    };
    vec![
        show("view", &|view| format!("{view:.0}")),
        show("pulsing", &mode),
        show("mode_ms", &|ms| uptime((ms / 1e3) as u64)),
        show("round_us", &time),
        show("round_needed_us", &time),
        show("round_mean_us", &time),
        show("early_share", &percent),
        show("efficiency", &ratio),
        show("effectiveness", &ratio),
        show("kappa", &ratio),
        show("synchrony_90", &ratio),
        show("synchrony_99", &ratio),
        show("multicasts_per_commit", &ratio),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_measured_is_a_dash() {
        let told = [("pulsing", 1.0), ("round_us", 140.2), ("kappa", 0.0213)];
        let told = told.map(|(name, value)| (name.to_owned(), value));
        let cells = cells(&BTreeMap::from(told));
        assert_eq!(cells[..4], ["-", "pulsing", "-", "140us"]);
        assert_eq!(cells[9], "0.021");
    }
}
