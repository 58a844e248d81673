//! Requests that took long, with the time that each spent by place.

use quorate_host::Place;
use std::fmt;
use std::time::Duration;

/// Watches the times of requests as the host reports them: at a request's end it tells of the queue, of the order, and
/// of all, one after the other.
#[derive(Debug, Default)]
pub(crate) struct SlowRequests {
    /// A request that took at least so long is slow, in ns.
    from_ns: u64,
    ring_ns: u64,
    order_ns: u64,
    /// The longest of the last flushes: when it ended, and how long it took, in ns.
    flush: Option<(u64, u64)>,
}

/// A request that took long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlowRequest {
    total_ns: u64,
    ring_ns: u64,
    order_ns: u64,
    /// The longest flush of the log that ended meanwhile, in ns.
    flush_ns: Option<u64>,
}

/// A flush that ended so long ago is forgotten for any later one, in ns.
const REMEMBERED_NS: u64 = 10_000_000_000;

impl SlowRequests {
    /// Requests that take at least so long are slow.
    pub(crate) fn new(from: Duration) -> SlowRequests {
        SlowRequests {
            from_ns: u64::try_from(from.as_nanos()).unwrap_or(u64::MAX),
            ..SlowRequests::default()
        }
    }

    /// Takes note of a time that was spent; tells of the request if this ends one that was slow.
    pub(crate) fn note(&mut self, now_ns: u64, place: Place, ns: u64) -> Option<SlowRequest> {
        match place {
            Place::Ring => self.ring_ns = ns,
            Place::Order => self.order_ns = ns,
            Place::Log => {
                let is_forgotten = |(ended, longest): (u64, u64)| {
                    longest <= ns || now_ns.saturating_sub(ended) > REMEMBERED_NS
                };
                if self.flush.is_none_or(is_forgotten) {
                    self.flush = Some((now_ns, ns));
                }
            }
            Place::Total if ns >= self.from_ns => {
                let meanwhile = |(ended, _): &(u64, u64)| now_ns.saturating_sub(*ended) <= ns;
                return Some(SlowRequest {
                    total_ns: ns,
                    ring_ns: self.ring_ns,
                    order_ns: self.order_ns,
                    flush_ns: self.flush.filter(meanwhile).map(|(_, longest)| longest),
                });
            }
            Place::Total => {}
        }
        None
    }
}

impl fmt::Display for SlowRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: u64| ns as f64 / 1e6;
        write!(
            f,
            "a request took {:.1} ms: {:.1} ms until the core took it, {:.1} ms until it was decided and applied",
            ms(self.total_ns),
            ms(self.ring_ns),
            ms(self.order_ns)
        )?;
        match self.flush_ns {
            Some(ns) => write!(
                f,
                "; the longest flush of the log meanwhile took {:.1} ms",
                ms(ns)
            ),
            None => f.write_str("; no flush of the log ended meanwhile"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What is told of a request that spent so many ms in the queue and in order.
    fn told(slow: &mut SlowRequests, now_ms: u64, ring_ms: u64, order_ms: u64) -> Option<String> {
        let mut note = |place, ms| slow.note(now_ms * MS, place, ms * MS);
        assert_eq!(note(Place::Ring, ring_ms), None);
        assert_eq!(note(Place::Order, order_ms), None);
        note(Place::Total, ring_ms + order_ms).map(|slow| slow.to_string())
    }

    #[test]
    fn a_slow_request_is_told_with_its_times() {
        let mut slow = SlowRequests::new(Duration::from_millis(300));
        assert_eq!(told(&mut slow, 1_000, 1, 298), None);
        let expected = "a request took 300.0 ms: 2.0 ms until the core took it, 298.0 ms until it was decided and \
                        applied; no flush of the log ended meanwhile";
        assert_eq!(told(&mut slow, 2_000, 2, 298).as_deref(), Some(expected));
        // Of two flushes meanwhile the longer counts, and one from before does not.
        for (ended_ms, ms) in [(2_500, 200), (2_600, 20)] {
            assert_eq!(slow.note(ended_ms * MS, Place::Log, ms * MS), None);
        }
        let during = told(&mut slow, 2_700, 0, 400).unwrap();
        assert!(during.ends_with("meanwhile took 200.0 ms"), "{during}");
        let after = told(&mut slow, 3_000, 0, 400).unwrap();
        assert!(
            after.ends_with("no flush of the log ended meanwhile"),
            "{after}"
        );
    }
}
