//! What a new leader proposes in a slot, from what promises show of it.
//!
//! Of a slot the votes of the highest ballot count. If the leader of that ballot asked for a value by itself, it is
//! the only one that can have been chosen there: a leader votes once in a slot of its ballot, asks for nothing else,
//! and no fast round chooses anything without its vote. So its own vote says the same. Without either, an entry that
//! a fast round chose has the votes of a fast quorum, of which promises show all but those of the members that did
//! not promise. Two fast quorums and the promises have a member in common, so that at most one entry has as many.
//! If none has, nothing was chosen in that ballot, nor in any before: whoever opened a fast round in a slot knew
//! that, and whoever asked for a value there had found it. Then everything is safe, and the entry with most votes is
//! taken, which is the most likely to be wanted.

use super::messages::Vote;
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberIndex};
use std::collections::BTreeMap;

/// The vote of a member that promised, in the slot at hand.
pub(super) struct MemberVote {
    pub(super) member: MemberIndex,
    pub(super) vote: Vote,
}

/// What has to be proposed; `None` is a no-op. `leader_of` is the member that leads a ballot, `enough` is how often the
/// promises show an entry at least that a fast round chose. Mutants ignore what leaders asked for.
pub(super) fn decide(
    votes: &[MemberVote],
    leader_of: impl Fn(Ballot) -> Option<MemberIndex>,
    enough: usize,
    ignores_classic: bool,
) -> Option<Entry> {
    let highest = votes.iter().map(|of| of.vote.ballot).max()?;
    let latest = || votes.iter().filter(|of| of.vote.ballot == highest);
    let leader = leader_of(highest);
    let asked = latest().find(|of| of.vote.is_classic || Some(of.member) == leader);
    if let Some(asked) = asked.filter(|_| !ignores_classic) {
        return asked.vote.value.clone();
    }
    let mut counts: BTreeMap<Option<EntryId>, (usize, &Vote)> = BTreeMap::new();
    for MemberVote { vote, .. } in latest() {
        counts.entry(vote.name()).or_insert((0, vote)).0 += 1;
    }
    let as_chosen = counts.values().find(|(count, _)| *count >= enough);
    let most = || counts.values().max_by_key(|(count, _)| *count);
    let (_, vote) = as_chosen.or_else(most)?;
    vote.value.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, EntryBuilder, ReplicaId};

    const LEADER: usize = 0;

    fn vote(member: usize, round: u64, is_classic: bool, seq: u64) -> MemberVote {
        let id = EntryId {
            origin: ReplicaId(9),
            boot: Boot(1),
            seq,
        };
        let node = ReplicaId(1);
        MemberVote {
            member: MemberIndex::new(member),
            vote: Vote {
                ballot: Ballot { round, node },
                is_classic,
                value: (seq > 0).then(|| EntryBuilder::default().finish(id, 0)),
            },
        }
    }

    fn seq(votes: &[MemberVote], enough: usize) -> u64 {
        let leader = |_| Some(MemberIndex::new(LEADER));
        decide(votes, leader, enough, false).map_or(0, |entry| entry.id.seq)
    }

    #[test]
    fn what_has_the_votes_of_a_fast_quorum_less_those_that_promised_nothing_counts() {
        // Five members, four of a fast quorum, three promises.
        let votes = [1, 2, 3].map(|at| vote(at, 1, false, if at == 3 { 2 } else { 1 }));
        assert_eq!(seq(&votes, 2), 1);
        let votes = [1, 2, 3].map(|at| vote(at, 1, false, if at == 1 { 1 } else { 2 }));
        assert_eq!(seq(&votes, 2), 2);
    }

    #[test]
    fn a_higher_ballot_hides_a_lower_one_and_a_leaders_word_its_fast_round() {
        let votes = [
            vote(1, 1, true, 1),
            vote(2, 2, false, 2),
            vote(3, 1, true, 1),
        ];
        assert_eq!(seq(&votes, 2), 2);
        let votes = [
            vote(1, 2, false, 1),
            vote(2, 2, false, 1),
            vote(3, 2, true, 0),
        ];
        assert_eq!(seq(&votes, 2), 0, "the leader asked for a no-op");
        let votes = [
            vote(1, 2, false, 1),
            vote(2, 2, false, 1),
            vote(LEADER, 2, false, 2),
        ];
        assert_eq!(seq(&votes, 2), 2, "the leader voted for it itself");
    }

    #[test]
    fn where_anything_is_safe_it_is_what_has_most_votes_or_a_no_op() {
        let votes = [
            vote(1, 1, false, 3),
            vote(2, 1, false, 4),
            vote(3, 1, false, 4),
        ];
        assert_eq!(seq(&votes, 3), 4);
        assert_eq!(seq(&[], 2), 0);
    }
}
