//! Replicas that came to different results from the same slots: who is to go on.
//!
//! A digest is chained over all that was applied, so replicas that differ at one slot differ at every later one. When
//! a difference is found, all members are asked for their digest at that slot. Those that are a majority and equal go
//! on; who differs from such a majority stops. Where no majority is equal, nobody knows who is wrong, and the group
//! takes no writes until a majority turns out to be equal.

use crate::epochs::{Alarm, AlarmChange, AlarmKind, Alarms, Scope};
use quorate_core::{Decoder, Encoder, MILLIS, ReplicaId, SECONDS, Slot, Wire, WireError, majority};
use std::collections::BTreeMap;

/// How long members may take to say their digest, in ns.
const ANSWER_NS: u64 = 2 * SECONDS;
/// How often those are asked again that have not, in ns.
pub(crate) const ASK_AGAIN_NS: u64 = 200 * MILLIS;
/// How long after a verdict a difference from the same peer is looked into again, in ns.
const QUIET_NS: u64 = 5 * SECONDS;

/// What a digest is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DigestOf {
    /// Of all that was applied before a slot, and its results.
    Applied,
    /// Of the snapshot of the state before a slot.
    Snapshot,
}

/// What is to become of a replica that compared its state with those of its peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A majority of the members is equal, and this replica is another: it stops.
    Odd,
    /// This replica is equal to a majority of the members: it goes on.
    Majority,
    /// No majority is known to be equal: nobody stops, and writes are to be refused until that changes.
    Undecided,
}

/// What a replica found that compared its digest at one slot with those of the members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    /// What was applied before this slot was compared.
    pub slot: Slot,
    /// The replica that compared.
    pub me: ReplicaId,
    /// The digest of the replica that compared.
    pub mine: u64,
    /// The digests of the other members that told theirs.
    pub digests: BTreeMap<ReplicaId, u64>,
    /// What is to be done about the difference.
    pub verdict: Verdict,
}

impl Comparison {
    /// The members whose digests are not the own one, and those digests.
    pub fn differing(&self) -> impl Iterator<Item = (ReplicaId, u64)> {
        let digests = self.digests.iter().map(|(id, digest)| (*id, *digest));
        digests.filter(|(_, digest)| *digest != self.mine)
    }

    fn is_equal(&self, id: ReplicaId) -> bool {
        id == self.me || self.digests.get(&id) == Some(&self.mine)
    }

    /// How the alarms of a group are to change after this; nothing once they have.
    ///
    /// An odd replica may raise an alarm and end before it hears of the majority. So a replica of the majority ends
    /// every doubt, also one that it did not raise.
    #[must_use]
    pub fn changes(&self, alarms: &Alarms) -> Vec<(Alarm, AlarmChange)> {
        let of = |id| Alarm {
            kind: AlarmKind::Corrupt,
            id,
        };
        let raise = |id, scope| (of(id), AlarmChange::Raise(scope));
        let mut changes: Vec<(Alarm, AlarmChange)> = Vec::new();
        match self.verdict {
            Verdict::Odd => {}
            Verdict::Undecided if self.differing().next().is_none() => {}
            Verdict::Undecided => changes.push(raise(self.me, Scope::Undecided)),
            Verdict::Majority => {
                changes.extend(self.differing().map(|(id, _)| raise(id, Scope::Member)));
                let doubts = alarms.iter().filter(|(alarm, scope)| {
                    alarm.kind == AlarmKind::Corrupt && *scope < Scope::Group
                });
                changes.extend(doubts.map(|(alarm, _)| match self.is_equal(alarm.id) {
                    true => (alarm, AlarmChange::End(Scope::Member)),
                    false => raise(alarm.id, Scope::Member),
                }));
            }
        }
        changes.retain(|(alarm, change)| alarms.would_change(*alarm, *change));
        changes
    }
}

/// Whether a replica is to compare its state with those of the members until these alarms end: one says that no
/// majority is known to be equal, or that this replica differs from one, which may be over.
#[must_use]
pub fn is_in_doubt(alarms: &Alarms, me: ReplicaId) -> bool {
    let mut corrupt = alarms
        .iter()
        .filter(|(alarm, _)| alarm.kind == AlarmKind::Corrupt);
    corrupt.any(|(alarm, scope)| match scope {
        Scope::Undecided => true,
        Scope::Member => alarm.id == me,
        Scope::Group => false,
    })
}

/// A slot, and what is known of the members' digests there.
#[derive(Clone, Debug)]
struct Poll {
    of: DigestOf,
    slot: Slot,
    mine: u64,
    /// With whom a difference was found, if that is why it is asked.
    finder: Option<ReplicaId>,
    digests: BTreeMap<ReplicaId, u64>,
    /// How long they may take; `None` before they were asked.
    until_ns: Option<u64>,
}

impl Poll {
    /// What follows among these members, once that is clear.
    fn verdict(&self, now_ns: u64, me: ReplicaId, members: &[ReplicaId]) -> Option<Verdict> {
        let digest = |id: &ReplicaId| match *id == me {
            true => Some(self.mine),
            false => self.digests.get(id).copied(),
        };
        let known: Vec<u64> = members.iter().filter_map(digest).collect();
        let equal = |digest: u64| known.iter().filter(|other| **other == digest).count();
        let needed = majority(members.len());
        let is_over = known.len() == members.len() || self.until_ns.is_some_and(|at| at <= now_ns);
        if equal(self.mine) >= needed {
            Some(Verdict::Majority)
        } else if known.iter().any(|digest| equal(*digest) >= needed) {
            Some(Verdict::Odd)
        } else {
            is_over.then_some(Verdict::Undecided)
        }
    }
}

/// Looks into one difference after the other.
#[derive(Debug, Default)]
pub(crate) struct Divergence {
    poll: Option<Poll>,
    /// That these peers differ is known, until then on the monotonic clock in ns.
    known_until: BTreeMap<ReplicaId, u64>,
}

impl Divergence {
    /// A peer's digest of something before a slot, and the own one if it is kept: the next turn looks into it if they
    /// differ.
    pub(crate) fn compare(
        &mut self,
        at: (DigestOf, Slot),
        mine: Option<u64>,
        (peer, theirs): (ReplicaId, u64),
    ) {
        if let Some(mine) = mine.filter(|mine| *mine != theirs) {
            self.found(at, mine, (peer, theirs));
        }
    }

    /// A peer's digest differs from the own one.
    pub(crate) fn found(
        &mut self,
        (of, slot): (DigestOf, Slot),
        mine: u64,
        (peer, theirs): (ReplicaId, u64),
    ) {
        self.poll.get_or_insert_with(|| Poll {
            of,
            slot,
            mine,
            finder: Some(peer),
            digests: [(peer, theirs)].into(),
            until_ns: None,
        });
    }

    /// The members are to be asked for their digests of everything applied before a slot.
    pub(crate) fn confirm(&mut self, slot: Slot, mine: u64) {
        self.poll.get_or_insert_with(|| Poll {
            of: DigestOf::Applied,
            slot,
            mine,
            finder: None,
            digests: BTreeMap::new(),
            until_ns: None,
        });
    }

    /// Whether there is something that the members are to be asked from now on.
    pub(crate) fn begin(&mut self, now_ns: u64) -> bool {
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.until_ns.is_none()) else {
            return false;
        };
        poll.until_ns = Some(now_ns + ANSWER_NS);
        let known_until = poll.finder.and_then(|peer| self.known_until.get(&peer));
        if known_until.is_some_and(|until| *until > now_ns) {
            self.poll = None;
        }
        self.poll.is_some()
    }

    /// A peer says its digest.
    pub(crate) fn heard(&mut self, from: ReplicaId, (of, slot): (DigestOf, Slot), digest: u64) {
        if let Some(poll) = &mut self.poll
            && (poll.of, poll.slot) == (of, slot)
        {
            poll.digests.insert(from, digest);
        }
    }

    /// What is being asked, the own digest, and which of these have not answered.
    pub(crate) fn asks(
        &self,
        peers: &[ReplicaId],
    ) -> Option<((DigestOf, Slot), u64, Vec<ReplicaId>)> {
        let poll = self.poll.as_ref()?;
        let silent = peers.iter().filter(|id| !poll.digests.contains_key(id));
        Some(((poll.of, poll.slot), poll.mine, silent.copied().collect()))
    }

    /// What was found among these members, once that is clear. `me` may be none of them.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        me: ReplicaId,
        members: &[ReplicaId],
    ) -> Option<Comparison> {
        let poll = self.poll.as_ref()?;
        let verdict = poll.verdict(now_ns, me, members)?;
        let mut poll = self.poll.take()?;
        poll.digests.retain(|id, _| members.contains(id));
        let comparison = Comparison {
            slot: poll.slot,
            me,
            mine: poll.mine,
            digests: poll.digests,
            verdict,
        };
        self.known_until.retain(|_, until| *until > now_ns);
        let known = comparison
            .differing()
            .map(|(id, _)| (id, now_ns + QUIET_NS));
        self.known_until.extend(known);
        Some(comparison)
    }
}

impl Wire for DigestOf {
    fn encode(&self, out: &mut Encoder) {
        out.u8(u8::from(*self == DigestOf::Snapshot));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(DigestOf::Applied),
            1 => Ok(DigestOf::Snapshot),
            tag => Err(WireError::Tag("digest", tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: (DigestOf, Slot) = (DigestOf::Applied, Slot(9));

    /// What replica 1 with digest 1 comes to among so many members, given those of some others.
    fn verdict(n: u16, others: &[(u16, u64)], late: bool) -> Option<Verdict> {
        let members: Vec<ReplicaId> = (1..=n).map(ReplicaId).collect();
        let mut divergence = Divergence::default();
        let (peer, theirs) = others[0];
        divergence.found(SLOT, 1, (ReplicaId(peer), theirs));
        assert!(divergence.begin(5));
        for (id, digest) in others {
            divergence.heard(ReplicaId(*id), SLOT, *digest);
            divergence.heard(ReplicaId(*id), (DigestOf::Snapshot, Slot(9)), 77);
        }
        let now_ns = if late { 5 + ANSWER_NS } else { 6 };
        let judged = divergence.judge(now_ns, members[0], &members);
        judged.map(|comparison| comparison.verdict)
    }

    #[test]
    fn who_is_equal_to_a_majority_goes_on_and_who_is_not_stops() {
        let cases = [
            (3, &[(2, 2), (3, 1)][..], Some(Verdict::Majority)),
            (3, &[(2, 2), (3, 2)], Some(Verdict::Odd)),
            (3, &[(2, 2), (3, 3)], Some(Verdict::Undecided)),
            (3, &[(2, 2)], None),
            (2, &[(2, 2)], Some(Verdict::Undecided)),
            (5, &[(2, 2), (3, 1), (4, 1)], Some(Verdict::Majority)),
            (5, &[(2, 2), (3, 2), (4, 2)], Some(Verdict::Odd)),
            (5, &[(2, 2), (3, 2), (4, 1)], None),
            (4, &[(2, 2), (3, 2), (4, 1)], Some(Verdict::Undecided)),
        ];
        for (n, others, expected) in cases {
            assert_eq!(verdict(n, others, false), expected, "{n}: {others:?}");
            let in_the_end = expected.or(Some(Verdict::Undecided));
            assert_eq!(verdict(n, others, true), in_the_end, "{n}: {others:?}");
        }
    }

    #[test]
    fn one_difference_is_looked_into_once_in_a_while() {
        let mut divergence = Divergence::default();
        let members = [1, 2, 3].map(ReplicaId);
        let mut begins = |now_ns, peer| {
            divergence.found(SLOT, 1, (ReplicaId(peer), 2));
            let begins = divergence.begin(now_ns);
            divergence.heard(ReplicaId(5 - peer), SLOT, 1);
            assert_eq!(
                divergence.judge(now_ns, members[0], &members).is_some(),
                begins
            );
            begins
        };
        assert!(begins(2, 2));
        assert!(!begins(3, 2));
        assert!(begins(3, 3));
        assert!(begins(2 + QUIET_NS, 2));
    }
    fn comparison(verdict: Verdict, digests: &[(u16, u64)]) -> Comparison {
        Comparison {
            slot: Slot(9),
            me: ReplicaId(1),
            mine: 1,
            digests: digests
                .iter()
                .map(|(id, digest)| (ReplicaId(*id), *digest))
                .collect(),
            verdict,
        }
    }

    fn corrupt(id: u16) -> Alarm {
        Alarm {
            kind: AlarmKind::Corrupt,
            id: ReplicaId(id),
        }
    }

    /// The alarms after what each of these comparisons comes to, beginning with none.
    fn after(comparisons: &[&Comparison]) -> Vec<(u16, Scope)> {
        let mut alarms = Alarms::default();
        for found in comparisons {
            for (alarm, change) in found.changes(&alarms) {
                assert!(alarms.change(alarm, change), "{change:?}");
            }
            assert_eq!(found.changes(&alarms), [], "{found:?}");
        }
        alarms
            .iter()
            .map(|(alarm, scope)| (alarm.id.0, scope))
            .collect()
    }

    #[test]
    fn an_odd_member_gets_an_alarm_and_so_does_the_group_while_nobody_knows_which_one_that_is() {
        let undecided = comparison(Verdict::Undecided, &[(2, 2)]);
        let majority = comparison(Verdict::Majority, &[(2, 2), (3, 1)]);
        assert_eq!(after(&[&undecided]), [(1, Scope::Undecided)]);
        assert_eq!(after(&[&majority]), [(2, Scope::Member)]);
        assert_eq!(after(&[&undecided, &majority]), [(2, Scope::Member)]);
        // Nobody differs among those that answered: no verdict about those that did not.
        let alone = comparison(Verdict::Undecided, &[]);
        assert_eq!(after(&[&undecided, &alone]), [(1, Scope::Undecided)]);
        assert_eq!(after(&[&alone]), []);
    }

    /// The odd one raised an alarm about itself, as if nobody knew, and ended: the others go on, and it keeps the alarm.
    #[test]
    fn a_majority_ends_the_doubt_of_who_has_ended() {
        let mut its = comparison(Verdict::Undecided, &[(1, 1)]);
        (its.me, its.mine) = (ReplicaId(3), 3);
        let equal = comparison(Verdict::Majority, &[(2, 1)]);
        assert_eq!(after(&[&its, &equal]), [(3, Scope::Member)]);
        // It does not bring the doubt back.
        assert_eq!(after(&[&its, &equal, &its]), [(3, Scope::Member)]);
        // It begins anew, and is equal.
        let mut anew = comparison(Verdict::Majority, &[(1, 1), (2, 1)]);
        anew.me = ReplicaId(3);
        assert_eq!(after(&[&its, &equal, &anew]), []);
    }

    #[test]
    fn states_are_compared_while_an_alarm_may_be_over() {
        let mut alarms = Alarms::default();
        let doubts = |alarms: &Alarms| [1, 2].map(|id| is_in_doubt(alarms, ReplicaId(id)));
        assert_eq!(doubts(&alarms), [false, false]);
        alarms.change(corrupt(2), AlarmChange::Raise(Scope::Undecided));
        assert_eq!(doubts(&alarms), [true, true]);
        alarms.change(corrupt(2), AlarmChange::Raise(Scope::Member));
        assert_eq!(doubts(&alarms), [false, true]);
        alarms.change(corrupt(2), AlarmChange::Raise(Scope::Group));
        assert_eq!(doubts(&alarms), [false, false]);
    }
}
