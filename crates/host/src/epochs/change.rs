//! Orders: what operators and hosts have a group decide about itself.

use super::alarms::{Alarm, AlarmChange};
use quorate_core::{Decoder, Encoder, Epoch, Member, ReplicaId, Slot, Wire, WireError};
use std::collections::BTreeMap;

/// Parameters of a configuration, at most.
const PARAMS_MAX: usize = 256;
/// Bytes of a name, a value or an address, at most.
const TEXT_BYTES_MAX: usize = 1024;
/// In front of every order: how the rest is written.
const FORMAT: u8 = 1;

/// An epoch by number and digest: what a change was made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Expect {
    /// Its number.
    pub epoch: u64,
    /// Its digest.
    pub digest: u64,
}

impl Expect {
    /// This epoch.
    #[must_use]
    pub fn of(epoch: &Epoch) -> Expect {
        Expect {
            epoch: epoch.number,
            digest: epoch.digest(),
        }
    }
}

impl Wire for Expect {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.epoch);
        out.u64(self.digest);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Expect {
            epoch: input.varint()?,
            digest: input.u64()?,
        })
    }
}

/// What an epoch is asked to be, complete. Its number, its first slot and its seed follow from where
/// it is ordered; its durability is that of the cluster and does not change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Configuration {
    /// The members, as asked for: whether they make sense is judged where it is applied.
    pub members: Vec<Member>,
    /// The registered name of the protocol.
    pub protocol: String,
    /// The protocol's parameters, by name.
    pub params: BTreeMap<String, String>,
}

impl Configuration {
    /// The configuration of an epoch.
    #[must_use]
    pub fn of(epoch: &Epoch) -> Configuration {
        Configuration {
            members: epoch.members.clone(),
            protocol: epoch.protocol.clone(),
            params: epoch.params.clone(),
        }
    }

    /// The epoch it becomes when it is applied in epoch `before` at slot `seal`.
    #[must_use]
    pub fn behind(&self, before: &Epoch, seal: Slot) -> Epoch {
        let mut members = self.members.clone();
        members.sort_unstable();
        Epoch {
            number: before.number + 1,
            first_slot: seal.next(),
            members,
            protocol: self.protocol.clone(),
            durability: before.durability,
            seed: before.digest(),
            params: self.params.clone(),
        }
    }
}

impl Wire for Configuration {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.members.len() as u64);
        self.members.iter().for_each(|member| member.encode(out));
        out.string(&self.protocol);
        out.varint(self.params.len() as u64);
        for (name, value) in &self.params {
            out.string(name);
            out.string(value);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let members = (0..input.count(17)?).map(|_| Member::decode(input));
        let members = members.collect::<Result<Vec<_>, _>>()?;
        let protocol = text(input, "name of a protocol")?;
        let mut params = BTreeMap::new();
        let count = input.count(2)?;
        if count > PARAMS_MAX {
            return Err(WireError::Range("number of parameters"));
        }
        for _ in 0..count {
            let (name, value) = (text(input, "parameter")?, text(input, "parameter")?);
            if params
                .last_key_value()
                .is_some_and(|(last, _)| *last >= name)
            {
                return Err(WireError::Range("order of parameters"));
            }
            params.insert(name, value);
        }
        Ok(Configuration {
            members,
            protocol,
            params,
        })
    }
}

/// A string of bounded length.
pub(super) fn text(input: &mut Decoder, what: &'static str) -> Result<String, WireError> {
    let text = input.string()?;
    if text.len() > TEXT_BYTES_MAX {
        return Err(WireError::Range(what));
    }
    Ok(text)
}

/// A feature level.
pub(super) fn level(input: &mut Decoder) -> Result<u32, WireError> {
    let level = u32::try_from(input.varint()?);
    level.map_err(|_| WireError::Range("feature level"))
}

/// Ends an epoch and begins the next, if it is valid where it is applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconfigure {
    /// The epoch that it was made for: in any other it does nothing. A list of members computed from
    /// an older one would bring back replicas that have left.
    pub expect: Expect,
    /// What comes next.
    pub configuration: Configuration,
}

/// What a replica says of itself to clients.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Face {
    /// A name for people.
    pub name: String,
    /// Where it serves clients, as a URL; empty when it does not say.
    pub client_url: String,
}

impl Wire for Face {
    fn encode(&self, out: &mut Encoder) {
        out.string(&self.name);
        out.string(&self.client_url);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Face {
            name: text(input, "name of a replica")?,
            client_url: text(input, "client URL")?,
        })
    }
}

/// A command about the group itself; the host applies it, not the application.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Seals the epoch. Such a command is alone in its entry.
    Reconfigure(Reconfigure),
    /// A member began this epoch: the first slot of an epoch shows that the epoch is open.
    Opened {
        /// Which epoch.
        epoch: u64,
    },
    /// All live payloads are safe in this epoch; nothing if a newer one has begun.
    Settled {
        /// Which epoch.
        epoch: u64,
    },
    /// Where a replica is reached. Whoever is to become a member needs an address first.
    Address {
        /// Which replica.
        id: ReplicaId,
        /// Its peer address; empty to forget it.
        address: String,
    },
    /// From here on commands mean what this feature level says. Whoever submits it has seen that every
    /// replica runs a program which knows it.
    Level {
        /// Which one; nothing if it is no higher than the present one.
        level: u32,
    },
    /// What a replica says of itself to clients; nothing before feature level 2.
    Publish {
        /// Which replica.
        id: ReplicaId,
        /// What it says.
        face: Face,
    },
    /// An alarm is raised, or ends; nothing before feature level 3.
    Alarm {
        /// The alarm to raise or to end.
        alarm: Alarm,
        /// How it changes.
        change: AlarmChange,
    },
    /// A member is named as the leader, for clients; nothing before feature level 4.
    Lead {
        /// The member that is named.
        id: ReplicaId,
        /// The term that it follows: nothing if another one was named since.
        after: u64,
    },
    /// A replica that is no member is to stay a learner until it is promoted; nothing before feature level 4.
    Learn {
        /// The replica that is to stay one.
        id: ReplicaId,
    },
}

const RECONFIGURE: u8 = 0;
const OPENED: u8 = 1;
const SETTLED: u8 = 2;
const ADDRESS: u8 = 3;
const LEVEL: u8 = 4;
const PUBLISH: u8 = 5;
const ALARM: u8 = 6;
const LEAD: u8 = 7;
const LEARN: u8 = 8;

impl Order {
    /// Whether it may end its epoch: machines answer nothing early behind such a command, and quorum
    /// reads take it for a write to every key.
    #[must_use]
    pub fn seals(&self) -> bool {
        matches!(self, Order::Reconfigure(_))
    }

    /// The same of an encoded order, which need not be valid.
    #[must_use]
    pub fn may_seal(body: &[u8]) -> bool {
        matches!(body, [_, RECONFIGURE, ..])
    }
}

impl Wire for Order {
    fn encode(&self, out: &mut Encoder) {
        out.u8(FORMAT);
        match self {
            Order::Reconfigure(change) => {
                out.u8(RECONFIGURE);
                change.expect.encode(out);
                change.configuration.encode(out);
            }
            Order::Opened { epoch } => {
                out.u8(OPENED);
                out.varint(*epoch);
            }
            Order::Settled { epoch } => {
                out.u8(SETTLED);
                out.varint(*epoch);
            }
            Order::Address { id, address } => {
                out.u8(ADDRESS);
                id.encode(out);
                out.string(address);
            }
            Order::Level { level } => {
                out.u8(LEVEL);
                out.varint(u64::from(*level));
            }
            Order::Publish { id, face } => {
                out.u8(PUBLISH);
                id.encode(out);
                face.encode(out);
            }
            Order::Alarm { alarm, change } => {
                out.u8(ALARM);
                alarm.encode(out);
                change.encode(out);
            }
            Order::Lead { id, after } => {
                out.u8(LEAD);
                id.encode(out);
                out.varint(*after);
            }
            Order::Learn { id } => {
                out.u8(LEARN);
                id.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            FORMAT => {}
            other => return Err(WireError::Tag("format of an order", other)),
        }
        Ok(match input.u8()? {
            RECONFIGURE => Order::Reconfigure(Reconfigure {
                expect: Expect::decode(input)?,
                configuration: Configuration::decode(input)?,
            }),
            OPENED => Order::Opened {
                epoch: input.varint()?,
            },
            SETTLED => Order::Settled {
                epoch: input.varint()?,
            },
            ADDRESS => Order::Address {
                id: ReplicaId::decode(input)?,
                address: text(input, "address")?,
            },
            LEVEL => Order::Level {
                level: level(input)?,
            },
            PUBLISH => Order::Publish {
                id: ReplicaId::decode(input)?,
                face: Face::decode(input)?,
            },
            ALARM => Order::Alarm {
                alarm: Alarm::decode(input)?,
                change: AlarmChange::decode(input)?,
            },
            LEAD => Order::Lead {
                id: ReplicaId::decode(input)?,
                after: input.varint()?,
            },
            LEARN => Order::Learn {
                id: ReplicaId::decode(input)?,
            },
            tag => return Err(WireError::Tag("order", tag)),
        })
    }
}
