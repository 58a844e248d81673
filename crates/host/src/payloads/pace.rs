//! A rate in bytes a second.

use quorate_core::{MILLIS, SECONDS};

/// What was allowed for so long, and was not used, may be used at once, in ns.
const BURST_NS: u64 = 50 * MILLIS;
/// What is held up is looked at again so often at most, in ns.
const TICK_NS: u64 = 10 * MILLIS;

/// Holds something to so many bytes a second.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// From when on more may begin, on the replica's clock in ns.
    free_ns: u64,
}

impl Pace {
    /// Whether so many bytes may begin now; they are counted if so.
    pub(super) fn take(&mut self, now_ns: u64, bytes: u64, rate: u64) -> bool {
        if self.free_ns > now_ns {
            return false;
        }
        let takes_ns = u128::from(bytes) * u128::from(SECONDS) / u128::from(rate.max(1));
        let takes_ns = u64::try_from(takes_ns).unwrap_or(u64::MAX);
        let from_ns = self.free_ns.max(now_ns.saturating_sub(BURST_NS));
        self.free_ns = from_ns.saturating_add(takes_ns);
        true
    }

    /// When to look again, if nothing may begin now.
    pub(super) fn held_until(&self, now_ns: u64) -> Option<u64> {
        let tick_ns = self.free_ns.div_ceil(TICK_NS).saturating_mul(TICK_NS);
        (self.free_ns > now_ns).then_some(tick_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_over_any_time_and_what_was_not_used_is_soon_lost() {
        let mut pace = Pace::default();
        let mut begun = |from_ms: u64, until_ms: u64| -> u64 {
            let times = (from_ms..until_ms).map(|ms| ms * MILLIS);
            let taken = times.map(|now_ns| {
                let all = std::iter::from_fn(|| pace.take(now_ns, 100, 10_000).then_some(100));
                all.sum::<u64>()
            });
            taken.sum()
        };
        // 50 ms in advance at first, and never more than one that is under way when it has to stop.
        assert_eq!(begun(1000, 2000), 10_000 + 500);
        assert_eq!(begun(2000, 3000), 10_000);
        assert_eq!(begun(9000, 10_000), 10_000 + 500);
        assert_eq!(pace.held_until(9_999 * MILLIS), Some(10_000 * MILLIS));
        assert_eq!(pace.held_until(10_000 * MILLIS), None);
        let mut pace = Pace::default();
        assert!((0..1000).all(|_| pace.take(7, u32::MAX.into(), u64::MAX)));
    }
}
