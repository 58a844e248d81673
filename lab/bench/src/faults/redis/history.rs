//! What clients asked of one key and were told, and whether one order explains it.
//!
//! This knows nothing of logs, versions or slots: it looks at requests and replies alone. A history is linearizable if
//! each request can be given a moment between its beginning and its end, so that in the order of these moments every
//! reply is the one that a single server would have given. A request without a reply may have its moment at any later
//! time, or none.

use std::collections::{BTreeSet, HashSet};

/// The end of a request that was never answered.
pub(super) const NEVER: u64 = u64::MAX;

/// What a request of a string is about; each value is written at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Access {
    /// The value was read.
    Read(Option<u64>),
    /// The value was written, whatever was there.
    Write(u64),
    /// The value was written where another one, or none, was read before.
    Swap {
        /// What was there.
        from: Option<u64>,
        /// What was written.
        to: u64,
    },
}

/// A request and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Timed<T> {
    /// A stamp from before it was sent.
    pub(super) began: u64,
    /// A stamp from after its reply was read; [`NEVER`] if there was none.
    pub(super) ended: u64,
    pub(super) what: T,
}

/// Why no order explains the accesses of a string, if none does.
pub(super) fn check_string(history: &[Timed<Access>]) -> Result<(), String> {
    let seen: BTreeSet<u64> = history
        .iter()
        .filter_map(|access| access.what.saw())
        .collect();
    // What nobody was told of and nobody saw need not have happened, nor does leaving it out forbid anything.
    let is_told = |access: &&Timed<Access>| {
        access.ended != NEVER
            || access
                .what
                .wrote()
                .is_some_and(|value| seen.contains(&value))
    };
    let mut left: Vec<&Timed<Access>> = history.iter().filter(is_told).collect();
    left.sort_by_key(|access| access.began);
    let mut search = Search {
        history: &left,
        done: vec![0; left.len().div_ceil(64)],
        order: Vec::new(),
        tried: HashSet::new(),
    };
    match search.run() {
        true => Ok(()),
        false => Err(format!(
            "no order explains {} requests; the longest way had {}",
            left.len(),
            search
                .tried
                .iter()
                .map(|(done, _)| count(done))
                .max()
                .unwrap_or(0)
        )),
    }
}

impl Access {
    /// The value that it is known to have found.
    fn saw(&self) -> Option<u64> {
        match self {
            Access::Read(value) => *value,
            Access::Write(_) => None,
            Access::Swap { from, .. } => *from,
        }
    }

    fn wrote(&self) -> Option<u64> {
        match self {
            Access::Read(_) => None,
            Access::Write(value) | Access::Swap { to: value, .. } => Some(*value),
        }
    }

    /// The value behind it, if it may find this one.
    fn after(&self, value: Option<u64>) -> Option<Option<u64>> {
        match self {
            Access::Read(read) => (*read == value).then_some(value),
            Access::Write(written) => Some(Some(*written)),
            Access::Swap { from, to } => (*from == value).then_some(Some(*to)),
        }
    }
}

fn count(done: &[u64]) -> u32 {
    done.iter().map(|word| word.count_ones()).sum()
}

/// The search for an order: requests are taken one by one, and given back where no way leads on.
struct Search<'a> {
    /// All requests, by their beginning.
    history: &'a [&'a Timed<Access>],
    /// A bit for each request, set where it has a place in the order.
    done: Vec<u64>,
    /// The order so far: the places of requests in `history`, and the value before each.
    order: Vec<(usize, Option<u64>)>,
    /// Sets of requests and values behind them from which no way was found.
    tried: HashSet<(Vec<u64>, Option<u64>)>,
}

impl Search<'_> {
    fn run(&mut self) -> bool {
        let (mut value, mut next) = (None, 0);
        loop {
            if self.order.len() == self.history.len() {
                return true;
            }
            match self.choose(next, value) {
                Some((at, after)) => {
                    self.flip(at);
                    if self.tried.insert((self.done.clone(), after)) {
                        self.order.push((at, value));
                        (value, next) = (after, 0);
                    } else {
                        self.flip(at);
                        next = at + 1;
                    }
                }
                None => match self.order.pop() {
                    Some((at, before)) => {
                        self.flip(at);
                        (value, next) = (before, at + 1);
                    }
                    None => return false,
                },
            }
        }
    }

    fn is_done(&self, at: usize) -> bool {
        self.done[at / 64] >> (at % 64) & 1 == 1
    }

    fn flip(&mut self, at: usize) {
        self.done[at / 64] ^= 1 << (at % 64);
    }

    /// The first request from this one on that can have the next place: it began before all others ended, and its
    /// reply fits the value.
    fn choose(&self, from: usize, value: Option<u64>) -> Option<(usize, Option<u64>)> {
        let first = (0..self.history.len()).find(|at| !self.is_done(*at))?;
        let mut first_end = NEVER;
        for at in first..self.history.len() {
            let access = self.history[at];
            if access.began > first_end {
                break;
            }
            if self.is_done(at) {
                continue;
            }
            first_end = first_end.min(access.ended);
        }
        (from.max(first)..self.history.len())
            .take_while(|at| self.history[*at].began <= first_end)
            .filter(|at| !self.is_done(*at))
            .find_map(|at| Some((at, self.history[at].what.after(value)?)))
    }
}

/// What a request of a counter came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Count {
    /// One was added, which made it this many, if that was told.
    Added(Option<u64>),
    /// The counter was read, and stood at this.
    Read(u64),
}

impl Timed<Count> {
    /// How many it was told.
    fn told(&self) -> Option<u64> {
        match self.what {
            Count::Added(count) => count,
            Count::Read(count) => Some(count),
        }
    }
}

/// Why no order explains the accesses of a counter that began at 0, if none does.
pub(super) fn check_counter(history: &[Timed<Count>]) -> Result<(), String> {
    let mut added = BTreeSet::new();
    for access in history {
        if let Count::Added(Some(count)) = access.what
            && !added.insert(count)
        {
            return Err(format!("two clients were told that they made it {count}"));
        }
    }
    check_times(history)?;
    check_gaps(history, &added)
}

/// Whoever asks after another was answered is told no less, and more if it adds.
fn check_times(history: &[Timed<Count>]) -> Result<(), String> {
    let told = history.iter();
    let told = told.filter_map(|access| Some((access.ended, access.told()?)));
    let mut most: Vec<(u64, u64)> = told.collect();
    most.sort_unstable();
    let mut highest = 0;
    for (_, count) in &mut most {
        highest = highest.max(*count);
        *count = highest;
    }
    for access in history {
        let Some(count) = access.told() else { continue };
        let before = most.partition_point(|(ended, _)| *ended < access.began);
        let known = before.checked_sub(1).map_or(0, |last| most[last].1);
        let least = known + u64::from(matches!(access.what, Count::Added(_)));
        if count < least {
            return Err(format!("{count} was told after {known} had been told"));
        }
    }
    Ok(())
}

/// What was counted and told to nobody was added by requests without a reply that had begun by then.
fn check_gaps(history: &[Timed<Count>], added: &BTreeSet<u64>) -> Result<(), String> {
    let silent = history.iter();
    let silent = silent.filter(|access| access.what == Count::Added(None));
    let mut begun: Vec<u64> = silent.map(|access| access.began).collect();
    begun.sort_unstable();
    for access in history {
        let Some(count) = access.told() else { continue };
        let missing = count - added.range(..=count).count() as u64;
        let may_be = begun.partition_point(|began| *began < access.ended) as u64;
        if missing > may_be {
            return Err(format!(
                "{count} was told, {missing} additions up to it to nobody, and {may_be} requests had no reply"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed<T>(began: u64, ended: u64, what: T) -> Timed<T> {
        Timed { began, ended, what }
    }

    #[test]
    fn strings_are_read_as_they_were_written() {
        use Access::{Read, Swap, Write};
        let swap = |from, to| Swap { from, to };
        // Both ways around, a write that nobody saw, one without a reply that somebody saw late.
        for good in [
            vec![
                timed(1, 4, Write(1)),
                timed(2, 3, Read(None)),
                timed(5, 6, Read(Some(1))),
            ],
            vec![timed(1, NEVER, Write(1)), timed(2, 3, Read(None))],
            vec![
                timed(1, NEVER, Write(1)),
                timed(2, 3, Read(None)),
                timed(9, 10, Read(Some(1))),
            ],
            vec![
                timed(1, 9, swap(None, 1)),
                timed(2, 8, swap(Some(1), 2)),
                timed(10, 11, Read(Some(2))),
            ],
        ] {
            assert_eq!(check_string(&good), Ok(()), "{good:?}");
        }
        // Lost, stale, unwritten, swapped twice, read backwards.
        for bad in [
            vec![timed(1, 2, Write(1)), timed(3, 4, Read(None))],
            vec![
                timed(1, 2, Write(1)),
                timed(3, 4, Write(2)),
                timed(5, 6, Read(Some(1))),
            ],
            vec![timed(1, 2, Read(Some(7)))],
            vec![timed(1, 2, swap(None, 1)), timed(1, 2, swap(None, 2))],
            vec![
                timed(1, NEVER, Write(1)),
                timed(2, 3, Read(Some(1))),
                timed(4, 5, Read(None)),
            ],
        ] {
            assert!(check_string(&bad).is_err(), "{bad:?}");
        }
    }

    /// Scenario: random histories of a true string, and the same with one reply that is another client's.
    #[test]
    fn true_histories_pass_and_changed_ones_do_not() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut history, mut value, mut written) = (Vec::new(), None, 0);
            for moment in 0..300_u64 {
                let what = match random.u8(..3) {
                    0 => Access::Read(value),
                    1 => Access::Write(moment),
                    _ => Access::Swap {
                        from: value,
                        to: moment,
                    },
                };
                if let Some(to) = what.wrote() {
                    value = Some(to);
                    written += 1;
                }
                // Around the moment, up to a few others at once.
                let (before, after) = (random.u64(..30), random.u64(1..30));
                history.push(timed(
                    (moment * 10).saturating_sub(before),
                    moment * 10 + after,
                    what,
                ));
            }
            assert!(written > 100);
            assert_eq!(check_string(&history), Ok(()), "seed {seed}");
            let reads = history.iter().enumerate();
            let mut reads =
                reads.filter(|(_, access)| matches!(access.what, Access::Read(Some(_))));
            let (last, _) = reads.next_back().expect("somebody reads");
            history[last].what = Access::Read(Some(1_000_000));
            assert!(check_string(&history).is_err(), "seed {seed}");
        }
    }

    #[test]
    fn counters_lose_nothing_and_count_nothing_twice() {
        use Count::{Added, Read};
        for good in [
            vec![
                timed(1, 2, Added(Some(1))),
                timed(3, 4, Added(Some(2))),
                timed(5, 6, Read(2)),
            ],
            vec![
                timed(1, 9, Added(Some(2))),
                timed(2, 8, Added(Some(1))),
                timed(3, 4, Read(0)),
            ],
            vec![timed(1, NEVER, Added(None)), timed(5, 6, Added(Some(2)))],
        ] {
            assert_eq!(check_counter(&good), Ok(()), "{good:?}");
        }
        for bad in [
            vec![timed(1, 2, Added(Some(1))), timed(3, 4, Added(Some(1)))],
            vec![timed(1, 2, Added(Some(1))), timed(3, 4, Read(0))],
            vec![timed(1, 2, Added(Some(2)))],
            vec![timed(1, 2, Read(1)), timed(3, NEVER, Added(None))],
            vec![timed(3, 4, Added(Some(1))), timed(1, 2, Read(1))],
        ] {
            assert!(check_counter(&bad).is_err(), "{bad:?}");
        }
    }
}
