//! The machine's clocks.

use crate::fair::Now;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

static FIRST: OnceLock<Instant> = OnceLock::new();

/// What the machine's clocks show.
#[must_use]
pub fn now() -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Now {
        clock_ns: ns(since.unwrap_or_default()),
        steady_ns: ns(FIRST.get_or_init(Instant::now).elapsed()),
    }
}

/// A duration in ns.
pub(super) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
