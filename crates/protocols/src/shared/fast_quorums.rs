//! How many members fast rounds take.

use quorate_core::majority;

/// How many members it takes. Every number is the smallest that is safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Thresholds {
    /// Members that voted for one entry in a fast round when it is chosen, the leader among them.
    pub fast: usize,
    /// Members that accepted what a leader wants when it is chosen.
    pub classic: usize,
    /// Members whose promises make a leader.
    pub promise: usize,
    /// Members that said what a read has to wait for when it is answered.
    pub read: usize,
    /// How many votes less than promises must show of an entry that a fast round chose are taken for a sign of that;
    /// mutants alone have any.
    pub shown_less: usize,
}

impl Thresholds {
    /// The smallest safe numbers for `n` members. Any two fast quorums and any classic one have a member in common, so
    /// that promises show at most one entry that a fast round may have chosen.
    pub(crate) fn of(n: usize) -> Thresholds {
        let enough = majority(n);
        Thresholds {
            fast: n + 1 - enough.div_ceil(2),
            classic: enough,
            promise: enough,
            read: enough,
            shown_less: 0,
        }
    }

    /// How often `promises` of `n` members show an entry at least that a fast round chose.
    pub(crate) fn shown(&self, promises: usize, n: usize) -> usize {
        (promises + self.fast).saturating_sub(n + self.shown_less)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_quorums_are_the_smallest_of_which_two_meet_in_every_majority() {
        for n in 1..=64 {
            let Thresholds { fast, promise, .. } = Thresholds::of(n);
            let meet = |fast: usize| 2 * fast + promise > 2 * n;
            assert!(fast <= n && meet(fast) && !meet(fast - 1), "{n} members");
        }
        let of = |n| Thresholds::of(n).fast;
        assert_eq!([3, 5, 7].map(of), [3, 4, 6]);
        // Where f + ceil(f/2) + 1 are too few: two entries may both look chosen.
        assert_eq!([2, 6].map(of), [2, 5]);
    }
}
