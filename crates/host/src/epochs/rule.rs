//! Which reconfigurations are valid. The answer depends on the replicated state alone, never on what
//! this program knows or whom this replica hears: all replicas must give the same.

use super::change::{Expect, Reconfigure};
use super::payload_safety;
use super::state::GroupState;
use quorate_core::{
    Catalogue, Decoder, Encoder, Epoch, Member, ReplicaId, Slot, Unfit, Wire, WireError,
};
use std::fmt;

/// Why a reconfiguration did nothing. It is the command's result, and so the same everywhere: it
/// names the reason, not the words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// It was made for another epoch than the one it was applied in. Look again, and ask anew.
    Stale {
        /// The epoch it met.
        newest: Expect,
    },
    /// Nobody would be left.
    NoMembers,
    /// More members than any protocol takes.
    TooManyMembers(u64),
    /// A number is listed twice: there is one life of a replica in an epoch.
    Twice(ReplicaId),
    /// A replica is listed without a life of its own.
    NoLife(ReplicaId),
    /// Nobody knows where a new replica is reached.
    UnknownMember(ReplicaId),
    /// A life that has left may have deleted what it knew.
    Returns(Member),
    /// The feature level does not have this protocol.
    Protocol,
    /// The protocol does not work with these members and parameters: the code, say, does not fit.
    Parameters,
    /// Payloads are still on their way to the members of the last change: only members whose promises
    /// are lost may be replaced meanwhile.
    Unsettled {
        /// The epoch they have to be safe in.
        epoch: u64,
    },
    /// So many lives would have been replaced since payloads are on their way that some may be lost.
    Replaced {
        /// How many.
        count: u64,
        /// How many may be.
        most: u64,
    },
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Invalid::Stale { newest } => write!(
                f,
                "the configuration has changed meanwhile: this is epoch {} (digest {:016x}). Look at \
                 it and ask again",
                newest.epoch, newest.digest
            ),
            Invalid::NoMembers => f.write_str("a group without members cannot go on"),
            Invalid::TooManyMembers(count) => {
                write!(f, "{count} members: there may be {}", Epoch::MEMBERS_MAX)
            }
            Invalid::Twice(id) => write!(f, "replica {id} is listed twice"),
            Invalid::NoLife(id) => write!(
                f,
                "replica {id} is listed without an incarnation: start it, so that it draws one"
            ),
            Invalid::UnknownMember(id) => write!(
                f,
                "nobody knows where replica {id} is reached: give its peer address first"
            ),
            Invalid::Returns(member) => write!(
                f,
                "replica {} has left in the life {}, and may have deleted its data: start it with \
                 an empty folder, so that it draws a new one",
                member.id, member.incarnation
            ),
            Invalid::Protocol => f.write_str(
                "the protocol is unknown to the feature level of this cluster, which is raised by itself once \
                 all replicas run a program that has it",
            ),
            Invalid::Parameters => {
                f.write_str("the protocol does not work with these members and parameters")
            }
            Invalid::Unsettled { epoch } => write!(
                f,
                "payloads are still being moved to the members of epoch {epoch}: until that is done, \
                 only members that lost their data can be replaced"
            ),
            Invalid::Replaced { count, most } => write!(
                f,
                "{count} members would have been replaced while payloads are being moved, and only \
                 {most} may fail meanwhile: wait until the payloads are safe"
            ),
        }
    }
}

impl std::error::Error for Invalid {}

/// The epoch that a reconfiguration begins when it is applied at `slot`.
///
/// # Errors
/// Why it does nothing.
pub fn judge(
    state: &GroupState,
    slot: Slot,
    change: &Reconfigure,
    catalogue: &(impl Catalogue + ?Sized),
) -> Result<Epoch, Invalid> {
    let current = state.chain.newest();
    let newest = Expect::of(current);
    if change.expect != newest {
        return Err(Invalid::Stale { newest });
    }
    check_members(state, &change.configuration.members)?;
    let next = change.configuration.behind(current, slot);
    let is_other = next.protocol != current.protocol;
    if is_other && state.level < catalogue.level_of(&next.protocol) {
        return Err(Invalid::Protocol);
    }
    catalogue
        .numbers(state.level, &next)
        .map_err(|unfit| match unfit {
            Unfit::Protocol => Invalid::Protocol,
            Unfit::Parameters(_) => Invalid::Parameters,
        })?;
    payload_safety::check_unsettled(state, &next, catalogue)?;
    Ok(next)
}

fn check_members(state: &GroupState, members: &[Member]) -> Result<(), Invalid> {
    if members.is_empty() {
        return Err(Invalid::NoMembers);
    }
    if members.len() > Epoch::MEMBERS_MAX {
        return Err(Invalid::TooManyMembers(members.len() as u64));
    }
    let current = state.chain.newest();
    for (at, member) in members.iter().enumerate() {
        let id = member.id;
        if members[..at].iter().any(|other| other.id == id) {
            return Err(Invalid::Twice(id));
        }
        if member.incarnation.0 == 0 {
            return Err(Invalid::NoLife(id));
        }
        if current.index_of(id).is_none() && !state.addresses.contains_key(&id) {
            return Err(Invalid::UnknownMember(id));
        }
        if !current.has(*member) && state.chain.lists(*member) {
            return Err(Invalid::Returns(*member));
        }
    }
    Ok(())
}

const STALE: u8 = 0;
const NO_MEMBERS: u8 = 1;
const TOO_MANY_MEMBERS: u8 = 2;
const TWICE: u8 = 3;
const NO_LIFE: u8 = 4;
const UNKNOWN_MEMBER: u8 = 5;
const RETURNS: u8 = 6;
const PROTOCOL: u8 = 7;
const PARAMETERS: u8 = 8;
const UNSETTLED: u8 = 9;
const REPLACED: u8 = 10;

impl Wire for Invalid {
    fn encode(&self, out: &mut Encoder) {
        let id = |out: &mut Encoder, tag, id: &ReplicaId| {
            out.u8(tag);
            id.encode(out);
        };
        let number = |out: &mut Encoder, tag, number: u64| {
            out.u8(tag);
            out.varint(number);
        };
        match self {
            Invalid::Stale { newest } => {
                out.u8(STALE);
                newest.encode(out);
            }
            Invalid::NoMembers => out.u8(NO_MEMBERS),
            Invalid::TooManyMembers(count) => number(out, TOO_MANY_MEMBERS, *count),
            Invalid::Twice(replica) => id(out, TWICE, replica),
            Invalid::NoLife(replica) => id(out, NO_LIFE, replica),
            Invalid::UnknownMember(replica) => id(out, UNKNOWN_MEMBER, replica),
            Invalid::Returns(member) => {
                out.u8(RETURNS);
                member.encode(out);
            }
            Invalid::Protocol => out.u8(PROTOCOL),
            Invalid::Parameters => out.u8(PARAMETERS),
            Invalid::Unsettled { epoch } => number(out, UNSETTLED, *epoch),
            Invalid::Replaced { count, most } => {
                number(out, REPLACED, *count);
                out.varint(*most);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            STALE => Invalid::Stale {
                newest: Expect::decode(input)?,
            },
            NO_MEMBERS => Invalid::NoMembers,
            TOO_MANY_MEMBERS => Invalid::TooManyMembers(input.varint()?),
            TWICE => Invalid::Twice(ReplicaId::decode(input)?),
            NO_LIFE => Invalid::NoLife(ReplicaId::decode(input)?),
            UNKNOWN_MEMBER => Invalid::UnknownMember(ReplicaId::decode(input)?),
            RETURNS => Invalid::Returns(Member::decode(input)?),
            PROTOCOL => Invalid::Protocol,
            PARAMETERS => Invalid::Parameters,
            UNSETTLED => Invalid::Unsettled {
                epoch: input.varint()?,
            },
            REPLACED => Invalid::Replaced {
                count: input.varint()?,
                most: input.varint()?,
            },
            tag => return Err(WireError::Tag("reason", tag)),
        })
    }
}
