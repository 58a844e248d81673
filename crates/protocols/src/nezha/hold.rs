//! How much deadlines allow for: found out by how soon answers come.
//!
//! Requests that are held for long come in time everywhere, and are answered on the fast path, late. Those that
//! are not held are answered soonest where they come in the order in which they were sent, as from one
//! gateway, and take the slow path where they do not. Which is better depends on load, clocks and network, so
//! a gateway tries: the paper has a fixed percentile, and leaves open when to raise it.

/// What is tried, in percent of what requests are thought to take.
const PERCENTS: [u64; 4] = [0, 50, 100, 200];
/// Answers after which what was tried is judged.
const ANSWERS: u64 = 16;
/// What was not tried for so many judgements is tried again.
const STALE: u32 = 60;

/// What a gateway has found out.
#[derive(Clone, Hash, Debug)]
pub(super) struct Hold {
    fixed: Option<u64>,
    trial: usize,
    /// Answers to what was sent with it, and how long they took together, ns.
    answers: u64,
    took_ns: u64,
    tried: [Tried; PERCENTS.len()],
}

#[derive(Clone, Copy, Hash, Debug, Default)]
struct Tried {
    /// How long answers took, about, ns.
    mean_ns: Option<u64>,
    /// Judgements since it was tried last.
    age: u32,
}

impl Hold {
    pub(super) fn new(fixed: Option<u64>) -> Hold {
        Hold {
            fixed,
            trial: 0,
            answers: 0,
            took_ns: 0,
            tried: Default::default(),
        }
    }

    /// What deadlines allow for now, in percent.
    pub(super) fn percent(&self) -> u64 {
        self.fixed.unwrap_or(PERCENTS[self.trial])
    }

    /// An answer came to what was sent with `percent`.
    pub(super) fn answered(&mut self, percent: u64, took_ns: u64) {
        if self.fixed.is_some() || percent != self.percent() {
            return;
        }
        self.answers += 1;
        self.took_ns = self.took_ns.saturating_add(took_ns);
        if self.answers >= ANSWERS {
            self.judge();
        }
    }

    fn judge(&mut self) {
        let mean_ns = self.took_ns / self.answers;
        (self.answers, self.took_ns) = (0, 0);
        self.tried.iter_mut().for_each(|tried| tried.age += 1);
        let tried = &mut self.tried[self.trial];
        let before_ns = tried.mean_ns.unwrap_or(mean_ns);
        (tried.mean_ns, tried.age) = (Some(before_ns / 2 + mean_ns / 2), 0);
        let untried = |tried: &Tried| tried.mean_ns.is_none() || tried.age > STALE;
        let next = self.tried.iter().position(untried);
        let best = (0..PERCENTS.len()).min_by_key(|at| self.tried[*at].mean_ns);
        self.trial = next.or(best).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers take what they take with each of [`PERCENTS`]; how often each was used.
    fn used(hold: &mut Hold, took_ns: [u64; 4]) -> [u64; 4] {
        let mut used = [0; 4];
        for _ in 0..ANSWERS * 200 {
            let percent = hold.percent();
            let at = PERCENTS.iter().position(|one| *one == percent).unwrap();
            used[at] += 1;
            hold.answered(percent, took_ns[at]);
        }
        used
    }

    #[test]
    fn what_is_answered_soonest_is_used_most_and_the_rest_is_tried_again() {
        let mut hold = Hold::new(None);
        for took_ns in [[9, 8, 3, 5], [2, 8, 9, 9], [9, 9, 9, 1]] {
            let took_ns = took_ns.map(|ms| ms * 1_000_000);
            let used = used(&mut hold, took_ns);
            let best = (0..4).min_by_key(|at| took_ns[*at]).unwrap();
            assert!(used[best] > ANSWERS * 100, "{used:?}");
            assert!(used.iter().all(|count| *count >= 2 * ANSWERS), "{used:?}");
        }
    }

    #[test]
    fn what_is_given_stays_and_answers_to_what_was_sent_before_count_for_nothing() {
        let mut hold = Hold::new(Some(75));
        hold.answered(75, 1);
        assert_eq!((hold.percent(), hold.answers), (75, 0));
        let mut hold = Hold::new(None);
        hold.answered(100, 1);
        assert_eq!(hold.answers, 0);
    }
}
