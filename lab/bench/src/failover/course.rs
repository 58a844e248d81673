//! What became of one run: its rate over time, and how soon writes went on after each kill.

use std::fmt;
use std::time::Duration;

use super::Kind;
use crate::timeline;
use quorate_load::trial::Sample;
use quorate_tooling::units::{show_count, show_ns};

/// What one run measured.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) kind: Kind,
    pub(super) protocol: String,
    pub(super) duration: Duration,
    pub(super) outages: Vec<Outage>,
    /// In the order in which they were done.
    pub(super) samples: Vec<Sample>,
    /// What was watched, if anything was.
    pub(super) figure: String,
    /// What replicas said of themselves, and when.
    pub(super) watched: Vec<(Duration, f64)>,
    /// Values that replicas put together from fragments.
    pub(super) gathered: u64,
    /// Fragments that replicas made anew.
    pub(super) rebuilt: u64,
    pub(super) violations: Vec<String>,
}

/// A replica was hurt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    /// When the replica was hurt, since the load began.
    pub(super) at: Duration,
    /// When the harm was over, since the load began.
    pub(super) back: Duration,
}

/// A time without an acknowledged write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WriteGap {
    /// Since the load began.
    began: Duration,
    lasted: Duration,
}

impl Course {
    pub(super) fn head() -> String {
        format!(
            "{:>24} {:>12} {:>9} {:>10} {:>10} {:>12} {:>12} {:>18} {:>9} {:>8}",
            "load, fault",
            "protocol",
            "writes",
            "before/s",
            "after/s",
            "1st fault",
            "2nd fault",
            "longest gap",
            "gathered",
            "rebuilt"
        )
    }

    /// From a fault to the first acknowledgement of a write that was sent after it.
    pub(super) fn resumed(&self, outage: Outage) -> Option<Duration> {
        let later = self
            .samples
            .iter()
            .filter(|sample| sample.is_write && sample.sent >= outage.at);
        later.map(|sample| sample.done - outage.at).min()
    }

    /// The longest time without an acknowledged write.
    fn longest_gap(&self) -> WriteGap {
        let writes = self.samples.iter().filter(|sample| sample.is_write);
        let times: Vec<Duration> = writes.map(|sample| sample.done).collect();
        let gaps = times.windows(2).map(|pair| WriteGap {
            began: pair[0],
            lasted: pair[1] - pair[0],
        });
        gaps.max_by_key(|gap| gap.lasted).unwrap_or(WriteGap {
            began: Duration::ZERO,
            lasted: self.duration,
        })
    }

    /// Operations a second, in bins.
    pub(super) fn rates(&self) -> Vec<f64> {
        timeline::rates(&self.samples, &(Duration::ZERO..self.duration), BIN)
    }

    /// Operations a second between two times.
    fn rate(&self, from: Duration, to: Duration) -> f64 {
        let within = |sample: &&Sample| (from..to).contains(&sample.done);
        let count = self.samples.iter().filter(within).count();
        count as f64
            / (to.saturating_sub(from))
                .as_secs_f64()
                .max(f64::MIN_POSITIVE)
    }

    /// Throughput beside that of a run without faults in the same stretches of time: while a replica was
    /// away and others had gone on, and when all were back.
    pub(super) fn beside(&self, without: &Course, resume_within: Duration) -> [f64; 2] {
        let away = |course: &Course| {
            let stretches = self.outages.iter();
            let rates = stretches.map(|one| course.rate(one.at + resume_within, one.back));
            rates.sum::<f64>()
        };
        let last = self.outages.last().map_or(Duration::ZERO, |one| one.back);
        let after = |course: &Course| course.rate(last + SETTLED, self.duration);
        [away(self) / away(without), after(self) / after(without)]
    }

    /// From each fault to the next write that was acknowledged, as far as there was one.
    pub(super) fn all_resumed(&self) -> impl Iterator<Item = Duration> {
        let outages = self.outages.iter();
        outages.filter_map(|outage| self.resumed(*outage))
    }

    /// The mean of what replicas said of themselves: before the first fault, during faults, and when all were
    /// back for a while.
    pub(super) fn watched_means(&self) -> Option<[f64; 3]> {
        let first = self.outages.first()?.at;
        let last = self.outages.last()?.back;
        let is_hurt = |at: Duration| {
            let mut outages = self.outages.iter();
            outages.any(|one| (one.at..one.back).contains(&at))
        };
        let mean = |is_meant: &dyn Fn(Duration) -> bool| {
            let seen = self.watched.iter().filter(|(at, _)| is_meant(*at));
            let seen: Vec<f64> = seen.map(|(_, value)| *value).collect();
            seen.iter().sum::<f64>() / seen.len() as f64
        };
        (!self.watched.is_empty()).then(|| {
            [
                mean(&|at| at < first),
                mean(&is_hurt),
                mean(&|at| at >= last + SETTLED),
            ]
        })
    }

    /// What should not be.
    pub(super) fn wrong(&self, resume_within: Duration) -> Vec<String> {
        let name = format!("{}, {}", self.kind, self.protocol);
        let lost = self.violations.iter().map(|what| format!("{name}: {what}"));
        let late = self
            .outages
            .iter()
            .filter_map(|outage| match self.resumed(*outage) {
                None => Some(format!("{name}: no write after a fault")),
                Some(time) if time > resume_within => Some(format!(
                    "{name}: the next write after a fault took {}",
                    show_ns(time.as_nanos() as u64)
                )),
                Some(_) => None,
            });
        lost.chain(late).collect()
    }
}

impl fmt::Display for Course {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = self.samples.iter().filter(|sample| sample.is_write).count();
        let first = self.outages.first().map_or(self.duration, |one| one.at);
        let last = self.outages.last().map_or(Duration::ZERO, |one| one.back);
        let gap = self.longest_gap();
        let gap = format!(
            "{} at {:.1} s",
            show_ns(gap.lasted.as_nanos() as u64),
            gap.began.as_secs_f64()
        );
        let resumed = |which: usize| {
            let outage = self.outages.get(which);
            let outage = outage.and_then(|outage| self.resumed(*outage));
            outage.map_or("-".to_owned(), |time| show_ns(time.as_nanos() as u64))
        };
        write!(
            out,
            "{:>24} {:>12} {:>9} {:>10} {:>10} {:>12} {:>12} {:>18} {:>9} {:>8}",
            self.kind.to_string(),
            self.protocol,
            show_count(writes as f64),
            show_count(self.rate(Duration::ZERO, first)),
            show_count(self.rate(last, self.duration)),
            resumed(0),
            resumed(1),
            gap,
            show_count(self.gathered as f64),
            show_count(self.rebuilt as f64),
        )?;
        if let Some([before, meanwhile, after]) = self.watched_means() {
            write!(
                out,
                "\n{:>24} {:>12} watched: {before:.2} before faults, {meanwhile:.2} meanwhile, {after:.2} afterwards",
                "", "",
            )?;
        }
        Ok(())
    }
}

/// How long after a replica is back all is as it was.
const SETTLED: Duration = Duration::from_millis(500);
/// Of the picture.
pub(super) const BIN: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::failover::Mix;
    use crate::failover::harm::Harm;

    fn sample(sent_ms: u64, done_ms: u64, is_write: bool) -> Sample {
        Sample {
            sent: Duration::from_millis(sent_ms),
            done: Duration::from_millis(done_ms),
            is_write,
        }
    }

    /// A second, with a kill after 300 ms.
    pub(in crate::failover) fn course() -> Course {
        Course {
            kind: Kind {
                mix: Mix::Write,
                harm: Harm::Kill,
            },
            protocol: "rs-paxos".to_owned(),
            duration: Duration::from_secs(1),
            outages: vec![Outage {
                at: Duration::from_millis(300),
                back: Duration::from_millis(800),
            }],
            samples: vec![
                sample(10, 20, true),
                sample(290, 305, true),
                sample(310, 320, false),
                sample(310, 550, true),
                sample(880, 890, true),
            ],
            figure: "pulsing".to_owned(),
            watched: vec![(Duration::ZERO, 1.0), (Duration::from_millis(500), 0.0)],
            gathered: 3,
            rebuilt: 2,
            violations: Vec::new(),
        }
    }

    #[test]
    fn writes_resume_with_one_that_was_sent_after_the_kill() {
        let course = course();
        assert_eq!(
            course.resumed(course.outages[0]),
            Some(Duration::from_millis(250))
        );
        let gap = WriteGap {
            began: Duration::from_millis(550),
            lasted: Duration::from_millis(340),
        };
        assert_eq!(course.longest_gap(), gap);
        assert_eq!(
            course.wrong(Duration::from_millis(250)),
            Vec::<String>::new()
        );
        assert!(course.wrong(Duration::from_millis(249))[0].contains("took 250 ms"));
    }

    #[test]
    fn what_is_left_is_told_beside_an_equal_run() {
        let (hurt, mut whole) = (course(), course());
        let added = [(330, 340), (600, 610), (640, 700)];
        whole
            .samples
            .extend(added.map(|(sent, done)| sample(sent, done, true)));
        let seen = hurt
            .watched_means()
            .map(|[before, meanwhile, _]| [before, meanwhile]);
        assert_eq!(seen, Some([1.0, 0.0]));
        let [meanwhile, _] = hurt.beside(&whole, Duration::from_millis(100));
        assert_eq!(
            meanwhile,
            1.0 / 3.0,
            "from 400 to 800 ms: one, beside three"
        );
    }

    #[test]
    fn rates_are_counted_in_bins() {
        let rates = course().rates();
        assert_eq!(rates.len(), 10);
        assert_eq!((rates[0], rates[1], rates[3]), (10.0, 0.0, 20.0));
    }

    #[test]
    fn silence_after_a_kill_and_lost_writes_are_wrong() {
        let mut course = course();
        course.samples.truncate(3);
        course.violations.push("value 7: no value".to_owned());
        let wrong = course.wrong(Duration::from_secs(1));
        assert_eq!(wrong.len(), 2);
        assert!(
            wrong[0].ends_with("value 7: no value") && wrong[1].ends_with("no write after a fault")
        );
    }
}
