//! What a replica is to the others, and what it knows of entries and slots.

use super::messages::Promise;
use crate::shared::ballot::Ballot;
use quorate_core::{Entry, EntryId, MemberIndex, MemberSet, Slot};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// An entry that was heard of and is not delivered.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    pub(super) entry: Entry,
    /// Where it got the last vote of this replica, and in which ballot. The vote may have been replaced since.
    pub(super) place: Option<(Ballot, Slot)>,
    /// By when a long entry that was given to others is there, on the own clock in ns: nothing becomes faster by
    /// saying it again.
    pub(super) until_ns: u64,
}

impl Heard {
    /// Whether it got a vote of this replica in a ballot.
    pub(super) fn is_placed(&self, ballot: Ballot) -> bool {
        self.place.is_some_and(|(of, _)| of == ballot)
    }
}

impl Hash for Heard {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.place.hash(to);
    }
}

/// The votes of a slot, as its leader counts them.
#[derive(Clone, Default, Debug)]
pub(super) struct Tally {
    /// By member: what got its vote in the fast round.
    pub(super) votes: BTreeMap<MemberIndex, EntryId>,
    /// The leader's own vote is durable.
    pub(super) is_durable: bool,
    /// Whether the leader voted, or asked, since the last timer that would make it ask.
    pub(super) is_fresh: bool,
    /// The leader has asked for its own value.
    pub(super) is_classic: bool,
    /// Members that have accepted it.
    pub(super) accepted_by: MemberSet,
    /// By when a long value that was asked for is there, on the own clock in ns.
    pub(super) until_ns: u64,
}

impl Tally {
    /// How many members voted for an entry in the fast round.
    pub(super) fn votes_for(&self, name: EntryId) -> usize {
        self.votes.values().filter(|id| **id == name).count()
    }
}

impl Hash for Tally {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.votes, self.is_durable, self.is_classic).hash(to);
        (self.accepted_by, self.is_fresh).hash(to);
    }
}

/// Phase 1 under way.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Candidate {
    /// The own promise is durable, and counts.
    pub(super) is_written: bool,
    /// The promises of others.
    pub(super) promises: BTreeMap<MemberIndex, Promise>,
}

/// Phase 2 under way.
#[derive(Clone, Hash, Debug)]
pub(super) struct Leader {
    /// By slot that is not delivered: who voted for what.
    pub(super) tallies: BTreeMap<Slot, Tally>,
    /// All were told what is decided in the slots before this one.
    pub(super) announced: Slot,
}

/// What a replica is to the others.
#[derive(Clone, Hash, Debug)]
pub(super) enum Role {
    /// The replica votes, and waits for a leader where it has none.
    Follower,
    /// The replica asks for promises of its ballot.
    Candidate(Candidate),
    /// The replica has the promises of a majority.
    Leader(Leader),
}

/// What a replica knows of who leads.
#[derive(Clone, Copy, Default, Hash, Debug)]
pub(super) struct Trust {
    /// The leader of the promised ballot, if it was heard and is not given up.
    pub(super) leader: Option<MemberIndex>,
    /// The leader, or a candidate, was heard since the last election timer.
    pub(super) is_heard: bool,
    /// Something was delivered since then.
    pub(super) has_moved: bool,
    /// Election timers in a row at which the leader had been heard and nothing had moved.
    pub(super) strikes: u32,
    /// A peer waits for a leader.
    pub(super) is_wanted: bool,
    /// A ballot of this replica was outdone: others come first.
    pub(super) is_barred: bool,
}

/// What counts once a record is durable.
#[derive(Clone, Hash, Debug)]
pub(super) enum Written {
    /// The vote of this replica, as leader of a ballot, in a slot.
    Own { ballot: Ballot, slot: Slot },
    /// The promise of this replica of its own ballot.
    Candidacy { ballot: Ballot },
}
