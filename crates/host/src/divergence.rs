//! Replicas that came to different results from the same slots: who is to go on.
//!
//! A digest is chained over all that was applied, so replicas that differ at one slot differ at every later one. When
//! a difference is found, all members are asked for their digest at that slot. Those that are a majority and equal go
//! on; who differs from such a majority stops. Where no majority is equal, nobody knows who is wrong.

use quorate_core::{Decoder, Encoder, MILLIS, ReplicaId, SECONDS, Slot, Wire, WireError, majority};
use std::collections::BTreeMap;

/// How long members may take to say their digest, in ns.
const ANSWER_NS: u64 = 2 * SECONDS;
/// How often those are asked again that have not, in ns.
pub(crate) const ASK_AGAIN_NS: u64 = 200 * MILLIS;
/// How long after a verdict a difference is looked into again, in ns.
const QUIET_NS: u64 = 5 * SECONDS;

/// What a digest is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DigestOf {
    /// Of all that was applied before a slot, and its results.
    Applied,
    /// Of the snapshot of the state before a slot.
    Snapshot,
}

/// What is to become of a replica that differs from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A majority of the members is equal, and this replica is another: it stops.
    Odd,
    /// This replica is equal to a majority of the members: it goes on.
    Majority,
    /// No majority is known to be equal: nobody stops, and writes are to be refused until that changes.
    Undecided,
}

/// A slot, and what is known of the members' digests there.
#[derive(Clone, Debug)]
pub(crate) struct Poll {
    pub(crate) of: DigestOf,
    pub(crate) slot: Slot,
    pub(crate) mine: u64,
    /// With whom the difference was found.
    pub(crate) peer: ReplicaId,
    pub(crate) theirs: u64,
    digests: BTreeMap<ReplicaId, u64>,
    /// How long they may take; `None` before they were asked.
    until_ns: Option<u64>,
}

/// Looks into one difference after the other.
#[derive(Debug, Default)]
pub(crate) struct Divergence {
    poll: Option<Poll>,
    /// Differences are known until then, on the monotonic clock in ns.
    quiet_until: Option<u64>,
}

impl Divergence {
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
            peer,
            theirs,
            digests: [(peer, theirs)].into(),
            until_ns: None,
        });
    }

    /// Whether a difference was found that is to be looked into from now on.
    pub(crate) fn begin(&mut self, now_ns: u64) -> bool {
        let Some(poll) = self.poll.as_mut().filter(|poll| poll.until_ns.is_none()) else {
            return false;
        };
        poll.until_ns = Some(now_ns + ANSWER_NS);
        self.quiet_until.take_if(|until| *until <= now_ns);
        if self.quiet_until.is_some() {
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

    /// What is being asked, and which of these have not answered.
    pub(crate) fn asks(&self, peers: &[ReplicaId]) -> Option<(DigestOf, Slot, Vec<ReplicaId>)> {
        let poll = self.poll.as_ref()?;
        let silent = peers.iter().filter(|id| !poll.digests.contains_key(id));
        Some((poll.of, poll.slot, silent.copied().collect()))
    }

    /// The verdict among these members, once there is one. `me` may be none of them.
    pub(crate) fn judge(
        &mut self,
        now_ns: u64,
        me: ReplicaId,
        members: &[ReplicaId],
    ) -> Option<(Poll, Verdict)> {
        let poll = self.poll.as_ref()?;
        let digest = |id: &ReplicaId| match *id == me {
            true => Some(poll.mine),
            false => poll.digests.get(id).copied(),
        };
        let known: Vec<u64> = members.iter().filter_map(digest).collect();
        let equal = |digest: u64| known.iter().filter(|other| **other == digest).count();
        let needed = majority(members.len());
        let verdict = if equal(poll.mine) >= needed {
            Verdict::Majority
        } else if known.iter().any(|digest| equal(*digest) >= needed) {
            Verdict::Odd
        } else if known.len() == members.len() || poll.until_ns.is_some_and(|until| until <= now_ns)
        {
            Verdict::Undecided
        } else {
            return None;
        };
        self.quiet_until = Some(now_ns + QUIET_NS);
        self.poll.take().map(|poll| (poll, verdict))
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
        judged.map(|(_, verdict)| verdict)
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
        let mut begins = |now_ns| {
            divergence.found(SLOT, 1, (ReplicaId(2), 2));
            let begins = divergence.begin(now_ns);
            let members = [ReplicaId(1), ReplicaId(2)];
            assert_eq!(
                divergence.judge(now_ns, members[0], &members).is_some(),
                begins
            );
            begins
        };
        assert!(begins(2));
        assert!(!begins(3));
        assert!(begins(2 + QUIET_NS));
    }
}
