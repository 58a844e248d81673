//! What a replica is to the others in its view.

use super::messages::Reason;
use quorate_core::MemberSet;

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
