//! What was used, as a table.

use std::fmt;
use std::time::Duration;

use super::{Cost, Watched};
use quorate_tooling::tables::align;
use quorate_tooling::units::show_ns;

/// All clusters that were watched.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) every: Duration,
    pub(super) all: Vec<Watched>,
}

impl Page {
    /// Replicas that are not quiet.
    pub(super) fn wrong(&self, at_most: Option<f64>) -> Vec<String> {
        let mut wrong = Vec::new();
        for one in &self.all {
            for (index, cost) in one.idle.iter().enumerate() {
                if at_most.is_some_and(|most| cost.cpu_percent > most) {
                    wrong.push(format!(
                        "{}: replica {} used {:.2} % of a core, and nobody asked for anything",
                        one.name,
                        index + 1,
                        cost.cpu_percent
                    ));
                }
            }
        }
        wrong
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let every = show_ns(self.every.as_nanos() as u64);
        writeln!(
            f,
            "{}: CPU time in percent of a core, and how often threads were woken in a second; asked: a put every {every}",
            self.title
        )?;
        let head = ["", "replica", "idle", "woken", "asked", "woken"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for one in &self.all {
            for (index, (idle, asked)) in one.idle.iter().zip(&one.asked).enumerate() {
                let name = if index == 0 { one.name.as_str() } else { "" };
                rows.push(
                    [
                        vec![name.to_owned(), (index + 1).to_string()],
                        cells(*idle),
                        cells(*asked),
                    ]
                    .concat(),
                );
            }
        }
        write!(f, "{}", align(&rows))
    }
}

fn cells(cost: Cost) -> Vec<String> {
    vec![
        format!("{:.2} %", cost.cpu_percent),
        format!("{:.0}", cost.wakeups),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_quiet_is_named() {
        let cost = |cpu_percent| Cost {
            cpu_percent,
            wakeups: 14.0,
        };
        let page = Page {
            title: "chora, 2 replicas".to_owned(),
            every: Duration::from_millis(100),
            all: vec![Watched {
                name: "mode=pulsing".to_owned(),
                idle: vec![cost(0.1), cost(1.5)],
                asked: vec![cost(2.0), cost(2.0)],
            }],
        };
        assert_eq!(
            page.wrong(Some(1.0)),
            ["mode=pulsing: replica 2 used 1.50 % of a core, and nobody asked for anything"]
        );
        assert!(page.wrong(None).is_empty());
        assert!(
            page.to_string()
                .contains("mode=pulsing        1  0.10 %     14  2.00 %     14"),
            "{page}"
        );
    }
}
