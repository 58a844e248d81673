//! What a new leader of a lane has to propose where promises show something.

use super::messages::{Promise, Stamp};
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
    let classic = step.map(|step| LastVote {
        ballot: step.ballot,
        is_classic: true,
        value: held
            .filter(|held| held.is_classic && held.ballot == step.ballot)
            .map(|held| held.id),
    });
    let voted = held.filter(|held| !held.is_classic).map(|held| LastVote {
        ballot: held.ballot,
        is_classic: false,
        value: Some(held.id),
    });
    let round = promise.round.filter(|round| round.nat >= stamp);
    let none = round.map(|round| LastVote {
        ballot: round.ballot,
        is_classic: false,
        value: None,
    });
    let fast = voted.or(none);
    let rank = |vote: &LastVote| (vote.ballot, vote.is_classic);
    classic.into_iter().chain(fast).max_by_key(rank)
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
