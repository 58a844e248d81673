//! What a replica is to the others.

use crate::shared::led;
use quorate_core::{Entry, Lsn, MemberIndex, MemberSet, Slot};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// What a replica is to the others.
pub(super) type Role = led::Role<Candidate, Leader>;

/// An election under way.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    /// The record of the own vote, which counts once that is durable.
    pub(super) written: Lsn,
    /// Other members that voted for this replica.
    pub(super) granted: MemberSet,
}

impl Hash for Candidate {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.granted.hash(to);
    }
}

/// What a leader knows.
#[derive(Clone, Debug)]
pub(super) struct Leader {
    /// The slot of the no-op with which the term began: what is behind it this leader appended.
    pub(super) noop: Slot,
    /// How far each member's log is known to be the own one, by member.
    pub(super) followers: Vec<Progress>,
    /// Peers were told that every slot before this one is committed.
    pub(super) announced: Slot,
    /// Entries that wait for a slot.
    pub(super) pending: VecDeque<Entry>,
    /// The end of the log at the last retransmission timer: what is before it had its time.
    pub(super) stale_end: Slot,
    /// Members heard since the last election timer.
    pub(super) heard: MemberSet,
    /// Election timers that came due since something was committed.
    pub(super) timeouts: u32,
}

impl Leader {
    /// A leader whose log ends with its own no-op, and that has said nothing yet.
    pub(super) fn new(noop: Slot, delivered: Slot, members: usize) -> Leader {
        Leader {
            noop,
            followers: vec![Progress::beginning_at(noop); members],
            announced: delivered,
            pending: VecDeque::new(),
            stale_end: Slot(0),
            heard: MemberSet::EMPTY,
            timeouts: 0,
        }
    }

    /// The first slots not known to be in the logs of members.
    pub(super) fn matched(&self) -> impl Iterator<Item = Slot> + Clone {
        self.followers.iter().map(|follower| follower.matched)
    }

    /// What is known of a member's log.
    pub(super) fn follower(&mut self, member: MemberIndex) -> &mut Progress {
        &mut self.followers[member]
    }
}

impl Hash for Leader {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.noop, &self.followers, self.announced).hash(to);
        (self.stale_end, self.heard, self.timeouts).hash(to);
        self.pending.iter().for_each(|entry| entry.id.hash(to));
    }
}

/// How far a leader knows a member's log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// What is before this slot is on the member's disk, equal to the leader's log.
    pub(super) matched: Slot,
    /// What is before this slot was sent, or need not be.
    pub(super) sent: Slot,
    /// What was sent did not fit, and one part from this slot on was sent instead: nothing more is before
    /// something fits.
    pub(super) probe: Option<Slot>,
    /// Long batches that are on their way: the end of the last, and when it was sent first, on the own clock
    /// in ns.
    pub(super) long: Option<(Slot, u64)>,
    /// When what was sent is there and acknowledged, on the own clock in ns.
    pub(super) until_ns: u64,
}

impl Progress {
    /// Nothing is known yet of a member's log; it is taken to end with the leader's.
    fn beginning_at(end: Slot) -> Progress {
        Progress {
            matched: Slot(0),
            sent: end,
            probe: None,
            long: None,
            until_ns: 0,
        }
    }
}

impl Hash for Progress {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.matched, self.sent, self.probe).hash(to);
    }
}
