//! What a replica is to the others in its view.

use super::messages::Reason;
use quorate_core::MemberSet;

/// What a replica is to the others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Role {
    /// The replica follows, or waits for somebody to follow.
    Follower,
    /// The replica asks whether the others would follow it into a new view; `granted` would.
    Canvassing { granted: MemberSet, reason: Reason },
    /// The replica asks for votes in its view, and has these.
    Candidate { votes: MemberSet },
    /// The replica was elected, and VIEW-INIT is its own.
    Initiator,
}
