//! Lines in the log that others can cause, peers, clients and strangers: so many of a kind, and a count of the rest.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind within [`LINES_EVERY`].
const LINES_MAX: u64 = 4;
const LINES_EVERY: Duration = Duration::from_secs(10);

/// Decides which log lines are written, by kind: a few of each within ten seconds.
#[derive(Debug, Default)]
pub struct LogLimit(Mutex<BTreeMap<&'static str, Window>>);

#[derive(Debug)]
struct Window {
    began: Instant,
    lines: u64,
}

impl LogLimit {
    /// `None` if a line of a kind may not be written now; otherwise how many of the kind were not since the last one,
    /// which the line says.
    pub fn admit(&self, kind: &'static str) -> Option<u64> {
        self.admit_at(kind, Instant::now())
    }

    fn admit_at(&self, kind: &'static str, now: Instant) -> Option<u64> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Window {
            began: now,
            lines: 0,
        };
        let window = windows.entry(kind).or_insert(fresh);
        let mut left_out = 0;
        if now.duration_since(window.began) >= LINES_EVERY {
            left_out = window.lines.saturating_sub(LINES_MAX);
            *window = Window {
                began: now,
                lines: 0,
            };
        }
        window.lines += 1;
        (window.lines <= LINES_MAX).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scenario: 100 lines of one kind and one of another, then one of each ten seconds later.
    #[test]
    fn a_flood_of_one_kind_is_counted_and_hides_no_other() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        let written = (0..100).filter_map(|_| limit.admit_at("flood", start));
        assert_eq!(written.collect::<Vec<_>>(), [0; LINES_MAX as usize]);
        assert_eq!(limit.admit_at("other", start), Some(0));
        let later = start + LINES_EVERY;
        assert_eq!(limit.admit_at("flood", later), Some(100 - LINES_MAX));
        assert_eq!(limit.admit_at("flood", later), Some(0));
        assert_eq!(limit.admit_at("other", later), Some(0));
    }
}
