//! What a replica is to the others in its view, and which timers it runs.

use super::messages::Reason;
use quorate_core::{MemberSet, Slot};

/// What a replica is to the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    /// It follows, or waits for somebody to follow.
    Follower,
    /// It asks whether the others would follow it into a new view; these would.
    Canvassing { granted: MemberSet, reason: Reason },
    /// It asks for votes in its view; it has these.
    Candidate { votes: MemberSet },
    /// It was elected, and VIEW-INIT is its own.
    Initiator,
}

/// What there was when a timer was armed: if it is the same when the timer comes due, nothing moved.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Progress {
    pub(super) view: u64,
    pub(super) verified: Slot,
    pub(super) committed: Slot,
}

/// Which timers run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Armed {
    /// And what there was when it was armed.
    pub(super) gap: Option<Progress>,
    /// The same.
    pub(super) stall: Option<Progress>,
    /// The repair timer was moved forward, for something lost.
    pub(super) is_hurried: bool,
    /// The stall timer was moved forward, for a view that cannot go on.
    pub(super) is_urgent: bool,
    pub(super) plan: bool,
    pub(super) patience: bool,
}
