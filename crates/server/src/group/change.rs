//! Changes of a group that operators ask for, and why they do not come about.

use super::Failure;
use bytes::Bytes;
use quorate_core::{ReplicaId, Wire};
use quorate_host::epochs::precheck::{NotReady, Refused};
use quorate_host::epochs::{Alarm, Effect};
use std::collections::BTreeMap;
use std::fmt;

/// A change of the group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupChange {
    /// This is where a replica is: one that is no member may from now on follow the group.
    Address {
        /// The replica that is at the address.
        id: ReplicaId,
        /// The replica's peer port, as a URL.
        url: String,
    },
    /// A replica that is no member is not to follow any more.
    Forget(ReplicaId),
    /// A replica that follows becomes a member, in the incarnation it is in.
    Promote(ReplicaId),
    /// A member that lost its data goes on in the incarnation it is in now.
    Replace(ReplicaId),
    /// A member leaves.
    Remove(ReplicaId),
    /// The members go on with another protocol, or with other parameters of the same.
    Protocol {
        /// The name of the protocol.
        name: String,
        /// All its parameters that are not to have their defaults.
        params: BTreeMap<String, String>,
        /// Whether it may be one that is there to be compared with.
        may_measure: bool,
    },
    /// A replica that is no member yet stays a learner until it is promoted.
    Learn(ReplicaId),
    /// A member is named as the leader, where the protocol has none of its own.
    Lead(ReplicaId),
    /// An alarm is raised for the whole group, or ends.
    Alarm {
        /// The alarm to raise or to end.
        alarm: Alarm,
        /// Whether it is raised.
        is_raised: bool,
    },
}

/// Why a change of the group did not come about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeError {
    /// The request did not get through, or what became of it is not known.
    Failed(Failure),
    /// The group has no such replica.
    Unknown(ReplicaId),
    /// The replica is a member already.
    IsMember(ReplicaId),
    /// The change was not proposed, because the one before it is not done, or too many replicas are behind or not
    /// connected, as far as this replica knows. A later attempt may succeed.
    NotYet(String),
    /// The change was not proposed, because the replica that is to become a member is not running, or is behind.
    NotReady(String),
    /// The change was not proposed, because too few of the members that remain would be there.
    NoQuorum(String),
    /// The change was not proposed, or did nothing where it was decided: why, and what to do.
    Refused(String),
}

impl From<Failure> for ChangeError {
    fn from(failure: Failure) -> Self {
        ChangeError::Failed(failure)
    }
}

impl ChangeError {
    /// A change that the group's feature level does not know.
    pub(super) fn unknown_at(level: u32, what: &str, needed: u32) -> ChangeError {
        ChangeError::Refused(format!(
            "{what} take feature level {needed}, and this cluster is at {level}: it is raised by itself once all \
             replicas run a program that knows it"
        ))
    }

    /// Why a change is not even proposed.
    pub(super) fn not_proposed(why: &Refused) -> ChangeError {
        let text = why.to_string();
        match why {
            _ if may_succeed_later(why) => ChangeError::NotYet(text),
            Refused::JoinerNotReady { .. } => ChangeError::NotReady(text),
            Refused::NoQuorumNext { .. } => ChangeError::NoQuorum(text),
            _ => ChangeError::Refused(text),
        }
    }

    /// What a change came to, by the encoded result of its order.
    pub(crate) fn of(effect: Bytes) -> Result<(), ChangeError> {
        match Effect::from_bytes(effect) {
            Ok(Effect::Refused(why)) => Err(ChangeError::Refused(why.to_string())),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeError::Failed(failure) => failure.fmt(f),
            ChangeError::Unknown(id) => write!(f, "there is no replica {id} in this cluster"),
            ChangeError::IsMember(id) => write!(f, "replica {id} is a member already"),
            ChangeError::NotYet(why)
            | ChangeError::NotReady(why)
            | ChangeError::NoQuorum(why)
            | ChangeError::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ChangeError {}

/// Whether a change may make sense in a moment.
fn may_succeed_later(why: &Refused) -> bool {
    let passes = |why: &NotReady| matches!(why, NotReady::Behind(_) | NotReady::Unheard);
    match why {
        Refused::NotOpen { .. } | Refused::NoQuorumNow { .. } => true,
        Refused::NoQuorumNext { others, .. } => others.iter().any(|(_, why)| passes(why)),
        Refused::JoinerNotReady { why, .. } => passes(why),
        _ => false,
    }
}
