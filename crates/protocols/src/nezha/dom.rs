//! Deadline-ordered multicast (paper, section 3): how long requests take, estimated where they arrive,
//! and the deadlines that follow from it.
//!
//! Only differences of clocks enter, so an offset between a gateway and a replica is a part of the
//! delay: it adds to what is held, by the spread of the replicas' clocks, and to nothing else.

use quorate_core::{MemberIndex, MemberSet, Now, SECONDS};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// Samples an estimate is made of (`W`).
const SAMPLES_MAX: usize = 256;
/// An estimate is made anew after so many samples.
const ANEW: usize = 16;
/// What is older says nothing.
const STALE_NS: u64 = 10 * SECONDS;

/// How long the requests of one gateway take to this replica.
#[derive(Clone, Debug, Default)]
pub struct Delays {
    /// When, on the own monotonic clock, and how long by the two clocks, ns.
    samples: VecDeque<(u64, i64)>,
    since: usize,
    estimate: Option<u64>,
}

impl Delays {
    /// A request came for the first time, after so long; longer than `max_ns` no delay is taken for.
    pub fn add(&mut self, mono_ns: u64, delay_ns: i64, percentile: usize, max_ns: u64) {
        while self.samples.len() >= SAMPLES_MAX
            || (self.samples.front()).is_some_and(|(at, _)| mono_ns.saturating_sub(*at) > STALE_NS)
        {
            self.samples.pop_front();
        }
        self.samples.push_back((mono_ns, delay_ns));
        self.since += 1;
        if self.since >= ANEW || self.samples.len() < ANEW {
            self.since = 0;
            self.estimate = Some(self.percentile(percentile, max_ns));
        }
    }

    /// The estimate, ns; 0 for none.
    #[must_use]
    pub fn estimate(&self) -> u64 {
        self.estimate.unwrap_or(0)
    }

    /// A percentile of the samples, ns, which clocks that are apart make negative; `None` if there is no
    /// sample.
    #[must_use]
    pub fn nearest(&self, percentile: usize) -> Option<i64> {
        let mut delays: Vec<i64> = self.samples.iter().map(|(_, delay)| *delay).collect();
        let rank = (delays.len() * percentile).div_ceil(100).max(1) - 1;
        (!delays.is_empty()).then(|| *delays.select_nth_unstable(rank).1)
    }

    fn percentile(&self, percentile: usize, max_ns: u64) -> u64 {
        match u64::try_from(self.nearest(percentile).unwrap_or(0)) {
            Ok(delay) if delay > 0 => delay.min(max_ns),
            // The clocks are too far apart to tell.
            _ => max_ns,
        }
    }
}

impl Hash for Delays {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (_, delay) in &self.samples {
            delay.hash(to);
        }
        (self.since, self.estimate).hash(to);
    }
}

/// Who is to have a request in time.
#[derive(Clone, Copy, Debug)]
pub struct ReachQuorum {
    /// The leader, who is one of them.
    pub leader: MemberIndex,
    /// How many members they are.
    pub members: usize,
}

/// A deadline that a leader has taken.
#[derive(Clone, Copy, Default, Debug)]
struct DeadlineHint {
    /// The deadline, ns since the Unix epoch.
    deadline: u64,
    /// When the leader told of it, on the own monotonic clock.
    told_ns: u64,
}

/// What a gateway knows of the way to every replica.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// Of each member, and when it was told.
    of: Vec<Option<(u64, u64)>>,
    /// The largest deadline that a leader told of lately.
    hint: DeadlineHint,
}

impl Estimates {
    /// Nothing, of so many members.
    #[must_use]
    pub fn new(n: usize) -> Estimates {
        Estimates {
            of: vec![None; n],
            hint: DeadlineHint::default(),
        }
    }

    /// A member says how long requests take to it, ns; 0 if it cannot say.
    pub fn told(&mut self, member: MemberIndex, owd_ns: u64, mono_ns: u64) {
        if owd_ns > 0 {
            self.of[member] = Some((owd_ns, mono_ns));
        }
    }

    /// A leader says which deadline it took.
    pub fn told_deadline(&mut self, deadline: u64, mono_ns: u64, max_ns: u64) {
        let is_old = mono_ns.saturating_sub(self.hint.told_ns) > max_ns;
        if deadline > self.hint.deadline || is_old {
            self.hint = DeadlineHint {
                deadline,
                told_ns: mono_ns,
            };
        }
    }

    /// What a member said of the way to it, ns, if that was not long ago.
    #[must_use]
    pub fn of(&self, member: MemberIndex, mono_ns: u64) -> Option<u64> {
        let (owd_ns, at_ns) = self.of[member]?;
        (mono_ns.saturating_sub(at_ns) <= STALE_NS).then_some(owd_ns)
    }

    /// How long a request of the gateway `inside` a member is thought to take, as deadlines have it: to the
    /// furthest member, or, with a `quorum`, to its leader and the nearest others.
    #[must_use]
    pub fn reach_ns(
        &self,
        mono_ns: u64,
        inside: Option<MemberIndex>,
        max_ns: u64,
        quorum: Option<ReachQuorum>,
    ) -> u64 {
        let delay = |member: MemberIndex| match Some(member) == inside {
            true => 0,
            false => self.of(member, mono_ns).unwrap_or(max_ns).min(max_ns),
        };
        let members = MemberSet::first(self.of.len()).iter();
        let Some(ReachQuorum {
            leader,
            members: most,
        }) = quorum
        else {
            return members.map(delay).max().unwrap_or(0);
        };
        let mut others: Vec<u64> = members.filter(|m| *m != leader).map(delay).collect();
        others.sort_unstable();
        let furthest = others.iter().take(most.saturating_sub(1)).next_back();
        delay(leader).max(furthest.copied().unwrap_or(0))
    }

    /// The deadline of a request that is sent now and allowed to take `owd_ns`: above what a leader has taken
    /// before, unless that is far away.
    #[must_use]
    pub fn deadline(&self, now: Now, owd_ns: u64, max_ns: u64) -> u64 {
        let DeadlineHint { deadline, told_ns } = self.hint;
        let is_recent = now.mono_ns.saturating_sub(told_ns) <= max_ns;
        let is_fresh = is_recent && deadline < now.clock_ns + max_ns;
        let above = if is_fresh { deadline + 1 } else { 0 };
        now.clock_ns.saturating_add(owd_ns).max(above)
    }
}

impl Hash for Estimates {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for told in &self.of {
            told.map(|(owd, _)| owd).hash(to);
        }
        self.hint.deadline.hash(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_a_percentile_and_what_makes_no_sense_is_the_cap() {
        let mut delays = Delays::default();
        for delay in (1..=100).rev() {
            delays.add(0, delay * 1000, 75, 80_000);
        }
        // Renewed every 16 samples after the first 15: the last time after 95, 100 to 6.
        assert_eq!(delays.estimate(), 77_000);
        let mut delays = Delays::default();
        delays.add(0, -5, 75, 80_000);
        assert_eq!(delays.estimate(), 80_000);
        delays.add(STALE_NS + 1, 7, 75, 80_000);
        assert_eq!(delays.estimate(), 7, "the other one is too old");
    }

    #[test]
    fn a_deadline_is_when_the_last_should_have_it() {
        let mut estimates = Estimates::new(3);
        let deadline = |estimates: &Estimates, mono_ns| {
            let owd_ns = estimates.reach_ns(mono_ns, Some(MemberIndex::new(0)), 1_000, None);
            let now = Now {
                mono_ns,
                clock_ns: 5_000,
                clock_error_ns: 0,
            };
            estimates.deadline(now, owd_ns, 1_000)
        };
        assert_eq!(deadline(&estimates, 0), 6_000);
        estimates.told(MemberIndex::new(1), 200, 0);
        estimates.told(MemberIndex::new(2), 300, 0);
        assert_eq!(deadline(&estimates, 0), 5_300);
        estimates.told_deadline(5_400, 0, 1_000);
        assert_eq!(deadline(&estimates, 0), 5_401);
        assert_eq!(deadline(&estimates, 2_000), 5_300, "of long ago");
        estimates.told_deadline(u64::MAX, 0, 1_000);
        assert_eq!(deadline(&estimates, 0), 5_300, "of a clock that is wrong");
    }

    #[test]
    fn far_members_beyond_a_fast_quorum_are_not_waited_for() {
        let mut estimates = Estimates::new(5);
        for (member, owd_ns) in [(1, 900), (2, 300), (3, 200), (4, 800)] {
            estimates.told(MemberIndex::new(member), owd_ns, 0);
        }
        let first = Some(MemberIndex::new(0));
        let quorum = |(leader, members)| ReachQuorum {
            leader: MemberIndex::new(leader),
            members,
        };
        let reach =
            |of: Option<(usize, usize)>| estimates.reach_ns(0, first, 1_000, of.map(quorum));
        assert_eq!(reach(None), 900);
        // Of five, four make a fast quorum: all but the furthest, unless that leads.
        assert_eq!(reach(Some((0, 4))), 800);
        assert_eq!(reach(Some((2, 4))), 800);
        assert_eq!(reach(Some((1, 4))), 900);
        assert_eq!(reach(Some((2, 3))), 300);
        let untold = Estimates::new(5).reach_ns(0, first, 1_000, Some(quorum((0, 4))));
        assert_eq!(untold, 1_000);
    }
}
