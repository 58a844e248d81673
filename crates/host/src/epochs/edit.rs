//! What operators ask for, as changes of the present configuration.

use super::change::Configuration;
use quorate_core::{Epoch, Member, ReplicaId};
use std::collections::BTreeMap;
use std::fmt;

/// A change of one thing. Asking again for what is so already is no error: whoever did not hear the
/// answer asks again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Edit {
    /// A new member.
    Add(Member),
    /// This replica leaves.
    Remove(ReplicaId),
    /// A member comes back in a new life, its promises lost.
    Replace(Member),
    /// Another protocol, or other parameters of the same.
    Protocol {
        /// Its registered name.
        name: String,
        /// All its parameters that are not to have their defaults.
        params: BTreeMap<String, String>,
    },
}

/// Why a configuration cannot be changed so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EditError {
    /// There is no such member.
    UnknownMember(ReplicaId),
    /// A member of this number is there, in another life.
    OtherLife(Member),
    /// Nobody would be left.
    LastMember(ReplicaId),
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditError::UnknownMember(id) => write!(f, "replica {id} is not a member"),
            EditError::OtherLife(member) => write!(
                f,
                "replica {} is a member already, in the life {}: replace it instead of adding it",
                member.id, member.incarnation
            ),
            EditError::LastMember(id) => write!(
                f,
                "replica {id} is the last member: a group without members cannot go on"
            ),
        }
    }
}

impl std::error::Error for EditError {}

impl Edit {
    /// What the configuration of `epoch` becomes; `None` if it is so already.
    ///
    /// # Errors
    /// [`EditError`].
    pub fn of(&self, epoch: &Epoch) -> Result<Option<Configuration>, EditError> {
        let mut next = Configuration::of(epoch);
        let place = |id: ReplicaId| epoch.index_of(id);
        match self {
            Edit::Add(member) => match place(member.id) {
                Some(at) if epoch.members[at] != *member => {
                    return Err(EditError::OtherLife(epoch.members[at]));
                }
                Some(_) => {}
                None => next.members.push(*member),
            },
            Edit::Remove(id) => match place(*id) {
                Some(_) if epoch.n() == 1 => return Err(EditError::LastMember(*id)),
                Some(at) => {
                    next.members.remove(at);
                }
                None => {}
            },
            Edit::Replace(member) => {
                let at = place(member.id).ok_or(EditError::UnknownMember(member.id))?;
                next.members[at] = *member;
            }
            Edit::Protocol { name, params } => {
                next.protocol.clone_from(name);
                next.params.clone_from(params);
            }
        }
        next.members.sort_unstable();
        Ok((next != Configuration::of(epoch)).then_some(next))
    }
}
