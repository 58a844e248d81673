//! Phase 1(c): what a new leader proposes in a slot, from what the promises say of it.
//!
//! The paper's "recoverable value with the highest ballot" is ambiguous. Counting fragments per
//! ballot is unsafe: a value chosen by four accepts at ballot 1, of which one was accepted again at
//! ballot 2, shows 1 + 2 fragments to a later read quorum, and neither ballot has the three it
//! takes. So fragments are counted by the value they belong to, across ballots; a value keeps its
//! name for ever, whoever proposes it.
//!
//! Why that is right: if `v` was or can still be chosen at ballot `j`, every proposal at a ballot
//! between `j` and this one carries `v` (induction), so the accept of the highest ballot heard is
//! of `v`. The promises meet the accepts that choose `v` in at least `X` members, and each of
//! those still holds its fragment of `v`: an acceptor drops one only for another value at a higher
//! ballot, which does not exist. Hence what is not recoverable was not chosen and never will be,
//! and any value is safe.

use super::ballot::Ballot;
use quorate_core::EntryId;

/// The codings under which an acceptor holds a fragment of its value: bit `X - 1` for a code of
/// which any `X` fragments rebuild the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Held(u64);

impl Held {
    /// The whole value: its only fragment under `X = 1`, and as good as any other fragment.
    pub(super) const WHOLE: Held = Held(1);

    fn is_part(self, x: usize) -> bool {
        self.0 & (1 | 1 << (x - 1)) != 0
    }
}

/// What one acceptor has accepted in a slot. No two votes in a slot are of one acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Vote {
    /// The last ballot it accepted in.
    pub(super) ballot: Ballot,
    /// The name of the value; `None` is the no-op, which every acceptor holds whole.
    pub(super) value: Option<EntryId>,
    /// What it holds of the value.
    pub(super) held: Held,
}

/// What a new leader may propose in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    /// Nothing was chosen, nor can be in a lower ballot: anything.
    Free,
    /// This value, which may have been chosen; any `x` of the acceptors that hold it under this
    /// coding have it between them.
    Value { value: Option<EntryId>, x: usize },
}

/// Decides from the votes of at least `QR` acceptors that promised; those without a vote have
/// accepted nothing.
pub(super) fn decide(votes: &[Vote]) -> Choice {
    let Some(highest) = votes.iter().max_by_key(|vote| vote.ballot) else {
        return Choice::Free;
    };
    let value = highest.value;
    let parts = |x: usize| {
        let holders = votes.iter().filter(|vote| vote.value == value);
        holders.filter(|vote| vote.held.is_part(x)).count()
    };
    let is_recoverable = |x: &usize| parts(*x) >= *x;
    match (1..=votes.len()).find(is_recoverable) {
        Some(x) => Choice::Value { value, x },
        None => Choice::Free,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, ReplicaId};

    fn ballot(round: u64) -> Ballot {
        let node = ReplicaId(1);
        Ballot { round, node }
    }

    fn name(seq: u64) -> Option<EntryId> {
        Some(EntryId {
            origin: ReplicaId(1),
            boot: Boot(1),
            seq,
        })
    }

    fn held(codings: &[usize]) -> Held {
        Held(codings.iter().fold(0, |bits, x| bits | 1 << (x - 1)))
    }

    fn vote(round: u64, seq: u64, codings: &[usize]) -> Vote {
        Vote {
            ballot: ballot(round),
            value: name(seq),
            held: held(codings),
        }
    }

    #[test]
    fn nothing_accepted_leaves_the_choice_free() {
        assert_eq!(decide(&[]), Choice::Free);
    }

    #[test]
    fn with_whole_values_the_highest_ballot_has_it() {
        let votes = [vote(1, 7, &[1]), vote(3, 8, &[1]), vote(2, 9, &[1])];
        let value = name(8);
        assert_eq!(decide(&votes), Choice::Value { value, x: 1 });
    }

    #[test]
    fn a_no_op_of_a_higher_ballot_wins_over_an_entry() {
        let mut noop = vote(2, 0, &[1]);
        noop.value = None;
        let votes = [vote(1, 7, &[1]), noop];
        assert_eq!(decide(&votes), Choice::Value { value: None, x: 1 });
    }

    /// Overwritten by the same value: chosen at ballot 1 by A, B, C, D with X = 3; accepted again
    /// at ballot 2 by A alone; the promises are those of A, B, C, E. No ballot has three fragments.
    #[test]
    fn fragments_count_by_value_across_ballots() {
        let votes = [vote(2, 7, &[3]), vote(1, 7, &[3]), vote(1, 7, &[3])];
        let value = name(7);
        assert_eq!(decide(&votes), Choice::Value { value, x: 3 });
        for round in 1..=2 {
            let of_ballot = |vote: &&Vote| vote.ballot == ballot(round);
            assert!(votes.iter().filter(of_ballot).count() < 3);
        }
    }

    /// Overwritten by another coding of the same value: both fragments are kept, either may count.
    #[test]
    fn a_value_is_recovered_under_any_one_coding() {
        let both = vote(2, 7, &[2, 3]);
        let value = name(7);
        let votes = [both, vote(1, 7, &[2])];
        assert_eq!(decide(&votes), Choice::Value { value, x: 2 });
        let votes = [both, vote(2, 7, &[3]), vote(2, 7, &[3])];
        assert_eq!(decide(&votes), Choice::Value { value, x: 3 });
        let mixed = [vote(2, 7, &[3]), vote(1, 7, &[2])];
        assert_eq!(decide(&mixed), Choice::Free, "fragments of two codings");
    }

    #[test]
    fn one_whole_copy_suffices_and_counts_as_any_fragment() {
        let value = name(7);
        let votes = [vote(2, 7, &[3]), vote(1, 7, &[1, 3])];
        assert_eq!(decide(&votes), Choice::Value { value, x: 1 });
    }

    /// A lower ballot's value that could be rebuilt is not chosen when the highest one's cannot.
    #[test]
    fn what_cannot_be_rebuilt_was_not_chosen() {
        let votes = [vote(2, 8, &[3]), vote(1, 7, &[3]), vote(1, 7, &[3])];
        assert_eq!(decide(&votes), Choice::Free);
    }
}
