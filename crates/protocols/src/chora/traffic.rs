//! What was said and heard in the present view.

use super::messages::Header;
use quorate_core::{MemberIndex, MemberSet, Slot};

/// What was said and heard in the present view. Slots are ends: the first slot behind what is meant.
#[derive(Clone, Hash, Debug)]
pub(super) struct Traffic {
    /// By member: what it has acknowledged.
    pub(super) acked: Vec<Slot>,
    /// By member: its first own slot that nothing was heard of.
    pub(super) expected: Vec<Slot>,
    /// `latest_propose_slot`: the first slot behind all heard to be proposed.
    pub(super) latest: Slot,
    /// The first slot not known to be committed in this view.
    pub(super) claim: Slot,
    /// The highest claim heard from others.
    pub(super) heard_claim: Slot,
    /// The acknowledgement said last to everybody.
    pub(super) said_ack: Slot,
    /// Members that should hear the header.
    pub(super) owes: MemberSet,
}

impl Traffic {
    /// Nothing was said or heard among `members` members; every slot before `ap` is committed.
    pub(super) fn new(members: usize, ap: Slot) -> Traffic {
        Traffic {
            acked: vec![Slot(0); members],
            expected: vec![Slot(0); members],
            latest: ap,
            claim: Slot(0),
            heard_claim: Slot(0),
            said_ack: Slot(0),
            owes: MemberSet::EMPTY,
        }
    }

    /// Another view begins, in which nothing was said or heard yet.
    pub(super) fn restart(&mut self, ap: Slot) {
        self.acked.fill(Slot(0));
        self.expected.fill(Slot(0));
        (self.claim, self.heard_claim, self.said_ack) = (Slot(0), Slot(0), Slot(0));
        self.latest = ap;
        self.owes = MemberSet::EMPTY;
    }

    /// Takes note of a member's header. Nothing is kept of slots from `horizon` on.
    pub(super) fn hear(&mut self, from: MemberIndex, header: &Header, horizon: Slot) {
        self.acked[from] = self.acked[from].max(header.ack);
        self.heard_claim = self.heard_claim.max(header.commit);
        self.note_proposed(header.latest.min(horizon));
        self.owes.insert_if(from, header.asks);
    }

    /// Slots before `end` were proposed.
    pub(super) fn note_proposed(&mut self, end: Slot) {
        self.latest = self.latest.max(end);
    }

    /// Forgets what the former lives of members acknowledged.
    pub(super) fn forget_acks(&mut self, members: MemberSet) {
        for member in members {
            self.acked[member] = Slot(0);
        }
    }
}
