//! What became of one run: its rate over time, and how soon writes went on after each kill.

use std::fmt;
use std::time::Duration;

use super::Mix;
use crate::timeline;
use crate::trial::Sample;
use crate::units::{show_count, show_ns};

/// One run.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) mix: Mix,
    pub(super) protocol: String,
    pub(super) duration: Duration,
    pub(super) kills: Vec<Kill>,
    /// In the order in which they were done.
    pub(super) samples: Vec<Sample>,
    /// Values that replicas put together from fragments.
    pub(super) gathered: u64,
    /// Fragments that replicas made anew.
    pub(super) rebuilt: u64,
    pub(super) violations: Vec<String>,
}

/// A leader killed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kill {
    /// Since the load began.
    pub(super) at: Duration,
    /// When it served again.
    pub(super) back: Duration,
}

impl Course {
    pub(super) fn head() -> String {
        format!(
            "{:>16} {:>12} {:>9} {:>10} {:>10} {:>12} {:>12} {:>18} {:>9} {:>8}",
            "load",
            "protocol",
            "writes",
            "before/s",
            "after/s",
            "1st kill",
            "2nd kill",
            "longest gap",
            "gathered",
            "rebuilt"
        )
    }

    /// From a kill to the first acknowledgement of a write that was sent after it.
    pub(super) fn resumed(&self, kill: Kill) -> Option<Duration> {
        let later = self
            .samples
            .iter()
            .filter(|sample| sample.is_write && sample.sent >= kill.at);
        later.map(|sample| sample.done - kill.at).min()
    }

    /// When the longest time without an acknowledged write began, and how long it was.
    fn longest_gap(&self) -> (Duration, Duration) {
        let writes = self.samples.iter().filter(|sample| sample.is_write);
        let times: Vec<Duration> = writes.map(|sample| sample.done).collect();
        let gaps = times.windows(2).map(|pair| (pair[0], pair[1] - pair[0]));
        gaps.max_by_key(|(_, gap)| *gap)
            .unwrap_or((Duration::ZERO, self.duration))
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

    /// What should not be.
    pub(super) fn wrong(&self, resume_within: Duration) -> Vec<String> {
        let name = format!("{}, {}", self.mix.name(), self.protocol);
        let lost = self.violations.iter().map(|what| format!("{name}: {what}"));
        let late = self
            .kills
            .iter()
            .filter_map(|kill| match self.resumed(*kill) {
                None => Some(format!("{name}: no write after a kill")),
                Some(time) if time > resume_within => Some(format!(
                    "{name}: the next write after a kill took {}",
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
        let first = self.kills.first().map_or(self.duration, |kill| kill.at);
        let last = self.kills.last().map_or(Duration::ZERO, |kill| kill.back);
        let (gap_at, gap) = self.longest_gap();
        let gap = format!(
            "{} at {:.1} s",
            show_ns(gap.as_nanos() as u64),
            gap_at.as_secs_f64()
        );
        let resumed = |which: usize| {
            let kill = self.kills.get(which).and_then(|kill| self.resumed(*kill));
            kill.map_or("-".to_owned(), |time| show_ns(time.as_nanos() as u64))
        };
        write!(
            out,
            "{:>16} {:>12} {:>9} {:>10} {:>10} {:>12} {:>12} {:>18} {:>9} {:>8}",
            self.mix.name(),
            self.protocol,
            show_count(writes as f64),
            show_count(self.rate(Duration::ZERO, first)),
            show_count(self.rate(last, self.duration)),
            resumed(0),
            resumed(1),
            gap,
            show_count(self.gathered as f64),
            show_count(self.rebuilt as f64),
        )
    }
}

/// Of the picture.
pub(super) const BIN: Duration = Duration::from_millis(100);

#[cfg(test)]
pub(super) mod tests {
    use super::*;

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
            mix: Mix::Write,
            protocol: "rs-paxos".to_owned(),
            duration: Duration::from_secs(1),
            kills: vec![Kill {
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
            gathered: 3,
            rebuilt: 2,
            violations: Vec::new(),
        }
    }

    #[test]
    fn writes_resume_with_one_that_was_sent_after_the_kill() {
        let course = course();
        assert_eq!(
            course.resumed(course.kills[0]),
            Some(Duration::from_millis(250))
        );
        let gap = (Duration::from_millis(550), Duration::from_millis(340));
        assert_eq!(course.longest_gap(), gap);
        assert_eq!(
            course.wrong(Duration::from_millis(250)),
            Vec::<String>::new()
        );
        assert!(course.wrong(Duration::from_millis(249))[0].contains("took 250 ms"));
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
            wrong[0].ends_with("value 7: no value") && wrong[1].ends_with("no write after a kill")
        );
    }
}
