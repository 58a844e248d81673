//! A cluster that goes over to a newer program, one replica after the other, under load.

use std::time::Instant;

use quorate_tooling::scrape;

use super::round::Round;
use crate::faults::stage::wait_until;

impl Round<'_, '_> {
    /// Kills all replicas in turn and starts each with the newer program; once the feature level has risen, the older
    /// program is refused.
    pub(super) fn upgrade(&mut self) -> Result<(), String> {
        let args = self.field.args;
        let newer = args.faults.place.binary()?;
        let older = args.older.clone().ok_or("--older is not given")?;
        self.field.replicas.set_binary(newer.clone());
        self.rolling()?;
        let Some(expected) = args.reaches else {
            return Ok(());
        };
        self.wait_for_level(expected)?;
        let last = self.field.replicas.endpoints.len() - 1;
        self.hurt = vec![last];
        let back = self.stage(|round, stage| {
            round.fault(stage, |replicas| replicas.kill(&[last]))?;
            round.field.replicas.set_binary(older);
            let words = round.field.replicas.start_in_vain(last);
            round.field.replicas.set_binary(newer);
            let words = words.map_err(|why| format!("the older program came back: {why}"))?;
            if !words.contains("feature level") {
                return Err(format!("the older program ended without a reason: {words}"));
            }
            round.restart(&[last])?;
            round.rest(stage)
        })?;
        self.report.rejoin = Some(back);
        self.judge_errors();
        self.hurt.clear();
        self.hurt_at = None;
        Ok(())
    }

    /// Waits until every replica is at a feature level.
    fn wait_for_level(&self, expected: u32) -> Result<(), String> {
        let deadline = Instant::now() + self.field.args.faults.patience;
        for url in &self.field.replicas.endpoints {
            loop {
                let page = scrape::get(url, "/status")?;
                let level = level_of(&page).ok_or_else(|| format!("{url}: no level in {page}"))?;
                if level == expected {
                    break;
                }
                if level > expected || Instant::now() > deadline {
                    return Err(format!("{url} is at feature level {level}, not {expected}"));
                }
                wait_until(Instant::now() + POLL);
            }
        }
        Ok(())
    }
}

/// The feature level that a status page tells.
fn level_of(page: &str) -> Option<u32> {
    let page: serde_json::Value = serde_json::from_str(page).ok()?;
    page.get("feature_level")?.as_u64()?.try_into().ok()
}

/// Between two looks at a status page.
const POLL: std::time::Duration = std::time::Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::level_of;

    #[test]
    fn a_level_is_read_from_a_status_page() {
        assert_eq!(level_of(r#"{"role":"voting","feature_level":3}"#), Some(3));
        assert_eq!(level_of(r#"{"role":"voting"}"#), None);
        assert_eq!(level_of("no page"), None);
    }
}
