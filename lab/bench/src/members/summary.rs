//! What changes of the cluster did to its clients.

use std::fmt;
use std::time::Duration;

use super::step::NOTHING;
use quorate_load::latency::Latency;
use quorate_load::trial::Sample;
use quorate_tooling::tables::Table;
use quorate_tooling::units;

/// A change that was made.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) kind: &'static str,
    pub(super) what: String,
    /// Since the load began.
    pub(super) from: Duration,
    pub(super) until: Duration,
}

/// What people read in the end.
pub(super) struct Summary<'a> {
    pub(super) done: &'a [Done],
    /// In the order in which they were acknowledged.
    pub(super) samples: &'a [Sample],
    /// When requests failed.
    pub(super) failures: &'a [Duration],
}

/// What clients saw of all changes of one kind.
struct Seen {
    count: usize,
    took: Duration,
    latency: Latency,
    gap: Duration,
    failed: usize,
}

impl Summary<'_> {
    /// The longest time without an acknowledgement that touches this stretch.
    fn gap(&self, from: Duration, until: Duration) -> Duration {
        let times = self.samples.windows(2);
        let gaps = times.map(|pair| (pair[0].done, pair[1].done));
        let touching = gaps.filter(|(begin, end)| *end >= from && *begin <= until);
        touching
            .map(|(begin, end)| end - begin)
            .max()
            .unwrap_or_default()
    }

    fn rate(&self, from: Duration, until: Duration) -> f64 {
        let within = |sample: &&Sample| (from..until).contains(&sample.done);
        let count = self.samples.iter().filter(within).count();
        count as f64 / (until - from).as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn seen(&self, kind: &str) -> Seen {
        let mut seen = Seen {
            count: 0,
            took: Duration::ZERO,
            latency: Latency::new(),
            gap: Duration::ZERO,
            failed: 0,
        };
        for done in self.done.iter().filter(|done| done.kind == kind) {
            let (from, until) = (done.from, done.until);
            seen.count += 1;
            seen.took += until - from;
            seen.gap = seen.gap.max(self.gap(from, until));
            let failed = self.failures.iter();
            seen.failed += failed.filter(|at| (from..=until).contains(at)).count();
            let touching = |sample: &&Sample| sample.done >= from && sample.sent <= until;
            for sample in self.samples.iter().filter(touching) {
                seen.latency
                    .record((sample.done - sample.sent).as_nanos() as u64);
            }
        }
        seen
    }

    fn by_kind(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&str> = Vec::new();
        for done in self.done {
            if !kinds.contains(&done.kind) {
                kinds.push(done.kind);
            }
        }
        let mut table = Table::new(&[
            "kind",
            "times",
            "took",
            "p99",
            "max",
            "longest gap",
            "above none",
            "failed",
        ]);
        let usual = kinds.contains(&NOTHING).then(|| self.seen(NOTHING).gap);
        for kind in kinds {
            let seen = self.seen(kind);
            let latency = seen.latency.summary();
            let above = usual.map(|usual| show(seen.gap.saturating_sub(usual)));
            table.add(vec![
                kind.to_owned(),
                seen.count.to_string(),
                show(seen.took / seen.count as u32),
                units::show_ns(latency.p99_ns),
                units::show_ns(latency.max_ns),
                show(seen.gap),
                above.unwrap_or("-".to_owned()),
                seen.failed.to_string(),
            ]);
        }
        write!(f, "{table}")
    }
}

fn show(time: Duration) -> String {
    units::show_ns(time.as_nanos() as u64)
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&["change", "took", "longest gap", "writes/s"]);
        for done in self.done {
            let (what, from, until) = (&done.what, done.from, done.until);
            let (took, gap) = (show(until - from), show(self.gap(from, until)));
            let rate = units::show_count(self.rate(from, until));
            table.add(vec![what.clone(), took, gap, rate]);
        }
        write!(f, "{table}")?;
        self.by_kind(f)?;
        let first = self.done.first().map_or(Duration::ZERO, |done| done.from);
        let last = self
            .samples
            .last()
            .map_or(Duration::ZERO, |sample| sample.done);
        let all = self.gap(Duration::ZERO, last);
        write!(
            f,
            "{} writes acknowledged, {} writes/s before the first change, longest gap of all {}, {} \
             requests failed",
            units::show_count(self.samples.len() as f64),
            units::show_count(self.rate(Duration::ZERO, first)),
            show(all),
            self.failures.len()
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    pub(in crate::members) fn sample(done_ms: u64) -> Sample {
        Sample {
            sent: ms(done_ms).saturating_sub(ms(5)),
            done: ms(done_ms),
            is_write: true,
        }
    }

    pub(in crate::members) fn done(kind: &'static str, from: u64, until: u64) -> Done {
        Done {
            kind,
            what: kind.to_owned(),
            from: ms(from),
            until: ms(until),
        }
    }

    #[test]
    fn a_gap_belongs_to_the_change_that_it_touches() {
        let samples = [10, 20, 120, 130, 300].map(sample);
        let summary = Summary {
            done: &[],
            samples: &samples,
            failures: &[],
        };
        assert_eq!(summary.gap(ms(0), ms(15)), ms(10));
        assert_eq!(summary.gap(ms(50), ms(60)), ms(100));
        assert_eq!(summary.gap(ms(0), ms(300)), ms(170));
    }

    #[test]
    fn a_kind_is_held_against_no_change() {
        let samples = [10, 20, 120, 130, 300, 310].map(sample);
        let done = [
            done(NOTHING, 5, 15),
            done("add", 50, 60),
            done("add", 305, 309),
        ];
        let summary = Summary {
            done: &done,
            samples: &samples,
            failures: &[ms(55), ms(200)],
        };
        let seen = summary.seen("add");
        assert_eq!((seen.count, seen.gap, seen.failed), (2, ms(100), 1));
        let page = summary.to_string();
        assert!(
            page.contains("90.0 ms") && page.contains("2 requests failed"),
            "{page}"
        );
    }
}
