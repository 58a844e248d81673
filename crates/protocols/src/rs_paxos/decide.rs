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
//!
//! An acceptor whose disk lost the fragment still says that it had it. Such a value may have been
//! chosen although these acceptors cannot rebuild it: then nothing may be proposed until others have
//! promised, or the value was gathered. Who lost its promises has fragments too.

use super::fragments::Fragments;
use crate::shared::ballot::Ballot;
use quorate_core::EntryId;

/// What one acceptor has accepted in a slot. No two votes in a slot are of one acceptor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Vote {
    /// The last ballot it accepted in.
    pub(super) ballot: Ballot,
    /// The name of the value; `None` is the no-op, which every acceptor holds whole.
    pub(super) value: Option<EntryId>,
    /// The fragments that the acceptor holds of the value.
    pub(super) fragments: Fragments,
}

/// What a new leader may propose in a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Choice {
    /// Nothing was chosen, nor can be in a lower ballot: anything.
    Free,
    /// This value, which may have been chosen; any `code` of the acceptors that hold it under this
    /// coding have it between them.
    Value { value: Option<EntryId>, code: u8 },
    /// Nothing before this value is at hand: it may have been chosen under `code`, and too many
    /// fragments were lost.
    Wait { value: Option<EntryId>, code: u8 },
}

/// Decides from the votes of at least `QR` acceptors that promised; those without a vote have
/// accepted nothing. `by_value` is the rule; without it fragments count by ballot, as the paper can
/// be read.
pub(super) fn decide(votes: &[Vote], by_value: bool) -> Choice {
    let Some(highest) = votes.iter().max_by_key(|vote| vote.ballot) else {
        return Choice::Free;
    };
    let value = highest.value;
    let counts = |vote: &&Vote| vote.value == value && (by_value || vote.ballot == highest.ballot);
    let enough = |has: fn(Fragments, u8) -> bool| {
        (1..=votes.len() as u8).find(|code| {
            let holders = votes.iter().filter(counts);
            holders.filter(|vote| has(vote.fragments, *code)).count() >= usize::from(*code)
        })
    };
    match (enough(Fragments::has), enough(Fragments::had)) {
        (Some(code), _) => Choice::Value { value, code },
        (None, Some(code)) => Choice::Wait { value, code },
        (None, None) => Choice::Free,
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

    fn vote(round: u64, seq: u64, codes: &[u8]) -> Vote {
        let mut fragments = Fragments::default();
        codes.iter().for_each(|code| fragments.add(*code));
        Vote {
            ballot: ballot(round),
            value: name(seq),
            fragments,
        }
    }

    fn bereaved(round: u64, seq: u64, code: u8) -> Vote {
        let mut vote = vote(round, seq, &[]);
        vote.fragments.lose(code);
        vote
    }

    fn decide(votes: &[Vote]) -> Choice {
        super::decide(votes, true)
    }

    #[test]
    fn nothing_accepted_leaves_the_choice_free() {
        assert_eq!(decide(&[]), Choice::Free);
    }

    #[test]
    fn with_whole_values_the_highest_ballot_has_it() {
        let votes = [vote(1, 7, &[1]), vote(3, 8, &[1]), vote(2, 9, &[1])];
        let value = name(8);
        assert_eq!(decide(&votes), Choice::Value { value, code: 1 });
    }

    #[test]
    fn a_no_op_of_a_higher_ballot_wins_over_an_entry() {
        let mut noop = vote(2, 0, &[1]);
        noop.value = None;
        let votes = [vote(1, 7, &[1]), noop];
        assert_eq!(
            decide(&votes),
            Choice::Value {
                value: None,
                code: 1
            }
        );
    }

    /// Overwritten by the same value: chosen at ballot 1 by A, B, C, D with X = 3; accepted again
    /// at ballot 2 by A alone; the promises are those of A, B, C, E. No ballot has three fragments.
    #[test]
    fn fragments_count_by_value_across_ballots() {
        let votes = [vote(2, 7, &[3]), vote(1, 7, &[3]), vote(1, 7, &[3])];
        let value = name(7);
        assert_eq!(decide(&votes), Choice::Value { value, code: 3 });
        assert_eq!(super::decide(&votes, false), Choice::Free, "by ballot");
    }

    /// Overwritten by another coding of the same value: both fragments are kept, either may count.
    #[test]
    fn a_value_is_recovered_under_any_one_coding() {
        let both = vote(2, 7, &[2, 3]);
        let value = name(7);
        let votes = [both, vote(1, 7, &[2])];
        assert_eq!(decide(&votes), Choice::Value { value, code: 2 });
        let votes = [both, vote(2, 7, &[3]), vote(2, 7, &[3])];
        assert_eq!(decide(&votes), Choice::Value { value, code: 3 });
        let mixed = [vote(2, 7, &[3]), vote(1, 7, &[2])];
        assert_eq!(decide(&mixed), Choice::Free, "fragments of two codings");
    }

    #[test]
    fn one_whole_copy_suffices_and_counts_as_any_fragment() {
        let value = name(7);
        let votes = [vote(2, 7, &[3]), vote(1, 7, &[1, 3])];
        assert_eq!(decide(&votes), Choice::Value { value, code: 1 });
    }

    /// A lower ballot's value that could be rebuilt is not chosen when the highest one's cannot.
    #[test]
    fn what_cannot_be_rebuilt_was_not_chosen() {
        let votes = [vote(2, 8, &[3]), vote(1, 7, &[3]), vote(1, 7, &[3])];
        assert_eq!(decide(&votes), Choice::Free);
    }

    /// Whoever lost its fragment may have been one of those that chose the value.
    #[test]
    fn a_lost_fragment_is_neither_there_nor_proof_that_nothing_was_chosen() {
        let there = vote(1, 7, &[3]);
        let votes = [there, there, bereaved(1, 7, 3)];
        let value = name(7);
        assert_eq!(decide(&votes), Choice::Wait { value, code: 3 });
        let more = [there, there, bereaved(1, 7, 3), there];
        assert_eq!(decide(&more), Choice::Value { value, code: 3 });
        let too_few = [there, bereaved(1, 7, 3)];
        assert_eq!(decide(&too_few), Choice::Free, "two of three");
    }
}
