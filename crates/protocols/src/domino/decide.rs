//! What a new leader of a lane has to propose where promises show something.

use super::messages::{Held, Promise, Stamp};
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberIndex};
use std::collections::BTreeMap;

/// The last vote of a member at a position, as its promise shows it: of the highest ballot, and in that what its
/// leader wanted rather than a vote of the fast round.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LastVote {
    ballot: Ballot,
    is_classic: bool,
    value: Option<EntryId>,
}

fn last_vote(promise: &Promise, stamp: Stamp) -> Option<LastVote> {
    let shown = promise.shown.iter().find(|shown| shown.stamp == stamp);
    let held = shown.map(|shown| shown.held);
    // Steps reach further and further, by lower and lower ballots.
    let step = promise.steps.iter().find(|step| step.through >= stamp);
    // An entry is written before the stretch that it is accepted in. Where only the first came to the disk, it is
    // accepted all the same: the record of what it was before is gone.
    let is_last = |held: &Held| step.is_none_or(|step| step.ballot <= held.ballot);
    let asked = held.filter(|held| held.is_classic && is_last(held));
    let classic = asked
        .map(|held| (held.ballot, Some(held.id)))
        .or(step.map(|step| (step.ballot, None)));
    let voted = held.filter(|held| !held.is_classic);
    let round = promise.round.filter(|round| round.nat >= stamp);
    let fast = voted
        .map(|held| (held.ballot, Some(held.id)))
        .or(round.map(|round| (round.ballot, None)));
    let of = |is_classic| {
        move |(ballot, value)| LastVote {
            ballot,
            is_classic,
            value,
        }
    };
    let all = [classic.map(of(true)), fast.map(of(false))];
    let rank = |vote: &LastVote| (vote.ballot, vote.is_classic);
    all.into_iter().flatten().max_by_key(rank)
}

/// What has to be proposed at a position, given the promises of a quorum by member; `None` is a no-op. `leader_of` is
/// the member that leads a ballot, `enough` is how often promises show at least what a fast round chose.
///
/// What was not chosen for sure may have been nothing: a member that has delivered an entry, and started again, may
/// have forgotten that it accepted it, and shows a no-op. So nothing but what may be chosen is proposed.
pub(super) fn decide(
    promises: &BTreeMap<MemberIndex, &Promise>,
    stamp: Stamp,
    leader_of: impl Fn(Ballot) -> Option<MemberIndex>,
    enough: usize,
) -> Option<EntryId> {
    let votes = promises.iter();
    let votes = votes.filter_map(|(at, promise)| Some((*at, last_vote(promise, stamp)?)));
    let votes: Vec<(MemberIndex, LastVote)> = votes.collect();
    let highest = votes.iter().map(|(_, vote)| vote.ballot).max()?;
    let latest = || votes.iter().filter(|(_, vote)| vote.ballot == highest);
    let leader = leader_of(highest);
    let mut asked = latest().filter(|(at, vote)| vote.is_classic || Some(*at) == leader);
    if let Some((_, vote)) = asked.next() {
        return vote.value;
    }
    let mut counts = BTreeMap::new();
    for (_, vote) in latest() {
        *counts.entry(vote.value).or_insert(0) += 1;
    }
    let chosen = counts.into_iter().find(|(_, count)| *count >= enough);
    chosen.and_then(|(value, _)| value)
}

/// All entries that promises show behind a position, by position.
pub(super) fn shown<'a>(
    promises: &BTreeMap<MemberIndex, &'a Promise>,
    behind: Stamp,
) -> BTreeMap<Stamp, Vec<&'a Entry>> {
    let mut all: BTreeMap<Stamp, Vec<&Entry>> = BTreeMap::new();
    for promise in promises.values() {
        for shown in promise.shown.iter().filter(|shown| shown.stamp > behind) {
            all.entry(shown.stamp).or_default().push(&shown.entry);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domino::messages::{LaneNo, Mark, Round, Shown, Step};
    use quorate_core::{Boot, EntryBuilder, ReplicaId};

    const AT: Stamp = Stamp(50);

    fn ballot(round: u64) -> Ballot {
        let node = ReplicaId(1);
        Ballot { round, node }
    }

    fn id(seq: u64) -> EntryId {
        EntryId {
            origin: ReplicaId(9),
            boot: Boot(1),
            seq,
        }
    }

    /// A promise that shows an entry with a vote of a ballot, in a fast round or of its leader, or none at all.
    fn promise(round: u64, is_classic: bool, seq: u64) -> Promise {
        let ballot = ballot(round);
        let held = Held {
            ballot,
            is_classic,
            id: id(seq),
        };
        let shown = (seq > 0).then(|| Shown {
            stamp: AT,
            held,
            entry: EntryBuilder::default().finish(id(seq), 0),
        });
        let nat = Stamp(60);
        let through = nat;
        Promise {
            lane: LaneNo(5),
            ballot: Ballot::default(),
            mark: Mark::default(),
            steps: Vec::from_iter(is_classic.then_some(Step { through, ballot })),
            round: Some(Round { ballot, nat }),
            shown: shown.into_iter().collect(),
        }
    }

    /// What is proposed, as its number, where these members of five promised, the first of which leads all ballots.
    fn seq(promises: &[(usize, Promise)]) -> u64 {
        let members = promises.iter();
        let by_member = members.map(|(at, promise)| (MemberIndex::new(*at), promise));
        let leader = |_| Some(MemberIndex::new(0));
        decide(&by_member.collect(), AT, leader, 2).map_or(0, |id| id.seq)
    }

    #[test]
    fn what_promises_show_often_enough_may_be_chosen_and_nothing_else_is_proposed() {
        let fast = |at, seq| (at, promise(1, false, seq));
        assert_eq!(seq(&[fast(1, 1), fast(2, 1), fast(3, 2)]), 1);
        assert_eq!(seq(&[fast(1, 0), fast(2, 0), fast(3, 2)]), 0);
        assert_eq!(seq(&[fast(1, 1), fast(2, 3), fast(3, 2)]), 0);
        assert_eq!(
            seq(&[fast(1, 1), fast(2, 1), fast(0, 2)]),
            2,
            "its leader voted otherwise"
        );
    }

    #[test]
    fn a_leader_outdoes_its_fast_round_and_a_higher_ballot_all_lower_ones() {
        let of = |at, round, is_classic, seq| (at, promise(round, is_classic, seq));
        let asked = of(3, 1, true, 2);
        assert_eq!(
            seq(&[of(1, 1, false, 1), of(2, 1, false, 1), asked.clone()]),
            2
        );
        assert_eq!(
            seq(&[of(1, 1, false, 1), of(2, 1, false, 1), of(3, 1, true, 0)]),
            0
        );
        assert_eq!(seq(&[of(1, 2, false, 1), of(2, 2, false, 1), asked]), 1);
    }

    #[test]
    fn an_entry_without_the_stretch_it_was_asked_for_in_is_accepted() {
        let mut torn = promise(2, true, 1);
        let last = |promise: &Promise| last_vote(promise, AT).map(|vote| (vote.ballot, vote.value));
        torn.steps[0].ballot = ballot(1);
        assert_eq!(last(&torn), Some((ballot(2), Some(id(1)))));
        torn.steps.clear();
        assert_eq!(last(&torn), Some((ballot(2), Some(id(1)))));
        torn.round = None;
        assert_eq!(last(&torn), Some((ballot(2), Some(id(1)))));
    }
}
