//! Who leads: the replica whose own count decides slots.

use std::time::{Duration, Instant};

use super::{Asker, Values};
use quorate_tooling::scrape;

/// The index of the replica that leads: of all that run, the only one that decides something while a
/// put is answered.
///
/// # Errors
/// A message, if no put is answered, or nobody or more than one decides.
pub async fn leader(endpoints: &[String]) -> Result<usize, String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let before = decided(endpoints)?;
        let values = Values::new(fastrand::u64(..1 << 40));
        let mut asker = Asker::new(&endpoints[0], PATIENCE)?;
        let key = values.key(0);
        asker.insist_put(PATIENCE, &key, values.value(0, 1)).await?;
        let after = decided(endpoints)?;
        let rose: Vec<usize> = (0..endpoints.len())
            .filter(|&index| after[index] > before[index])
            .collect();
        match rose[..] {
            [leader] => return Ok(leader),
            _ if Instant::now() > deadline => {
                return Err(format!(
                    "{} replicas decide slots: there is no leader",
                    rose.len()
                ));
            }
            _ => {}
        }
    }
}

/// Slots that each replica has decided by its own count.
fn decided(endpoints: &[String]) -> Result<Vec<f64>, String> {
    let of = |url: &String| {
        let page = scrape::get(url, "/metrics")?;
        Ok(scrape::value(&page, "quorate_decided_slots_total"))
    };
    endpoints.iter().map(of).collect()
}

const PATIENCE: Duration = Duration::from_secs(20);
