//! What hosts tell each other about epochs, and what each writes down for itself.

use super::change::{self, Expect};
use quorate_core::{Decoder, Encoder, Epoch, ReplicaId, Slot, Wire, WireError};
use std::collections::BTreeMap;

/// A message about epochs. It names the epoch it is about by number and digest; sender and receiver,
/// each in its life, are known from the connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Note {
    /// The sender is a member of this epoch and has the state through the seal before it durably.
    Holds {
        /// Which epoch.
        epoch: Expect,
        /// Its first slot.
        base: Slot,
    },
    /// What has become of this epoch? From a replica that has left it, or is about to.
    Ask {
        /// The newest epoch that the sender knows.
        epoch: u64,
    },
    /// The group is in this epoch: the answer to anything that speaks of an earlier one.
    Moved {
        /// The newest epoch that the sender knows.
        epoch: Epoch,
        /// What it knows of it.
        known: Known,
        /// Where replicas are reached.
        addresses: BTreeMap<ReplicaId, String>,
    },
    /// The sender is no member, has nearly all of the state and would like to be one.
    Ready {
        /// The newest epoch that it knows.
        epoch: u64,
    },
    /// The sender durably holds its fragment of every payload that earlier epochs left.
    Safe {
        /// The epoch, which the sender is a member of.
        epoch: Expect,
    },
    /// The receiver need not be told again.
    Heard {
        /// The newest epoch that the sender knows.
        epoch: u64,
        /// What it knows of it.
        known: Known,
    },
}

/// What somebody knows of an epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Known {
    /// It is open: what was acknowledged before is safe without earlier members.
    pub opened: bool,
    /// Payloads, too.
    pub settled: bool,
}

/// What a replica writes down about its own part in epochs, besides the machine's records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// It may have spoken in this epoch: the machine's records of it are its promises.
    Started {
        /// Which epoch. [`ANY_EPOCH`]: promises were lost, and nobody knows of which epochs. The last record counts.
        epoch: u64,
    },
    /// It has left, and may have deleted its data: it never speaks again in this life.
    Retired {
        /// The epoch that goes on without it.
        successor: Expect,
    },
}

/// In a [`Record::Started`]: epochs of which nothing may be known here.
pub const ANY_EPOCH: u64 = u64::MAX;

const HOLDS: u8 = 0;
const ASK: u8 = 1;
const MOVED: u8 = 2;
const HEARD: u8 = 3;
const READY: u8 = 4;
const SAFE: u8 = 5;

/// Addresses known, at most: far more than members, for replicas come and go.
pub(super) const ADDRESSES_MAX: usize = 4096;

impl Wire for Known {
    fn encode(&self, out: &mut Encoder) {
        out.u8(u8::from(self.opened) | u8::from(self.settled) << 1);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            bits @ 0..4 => Ok(Known {
                opened: bits & 1 != 0,
                settled: bits & 2 != 0,
            }),
            bits => Err(WireError::Tag("knowledge of an epoch", bits)),
        }
    }
}

impl Wire for Note {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Note::Holds { epoch, base } => {
                out.u8(HOLDS);
                epoch.encode(out);
                base.encode(out);
            }
            Note::Ask { epoch } => {
                out.u8(ASK);
                out.varint(*epoch);
            }
            Note::Moved {
                epoch,
                known,
                addresses,
            } => {
                out.u8(MOVED);
                epoch.encode(out);
                known.encode(out);
                encode_addresses(addresses, out);
            }
            Note::Ready { epoch } => {
                out.u8(READY);
                out.varint(*epoch);
            }
            Note::Safe { epoch } => {
                out.u8(SAFE);
                epoch.encode(out);
            }
            Note::Heard { epoch, known } => {
                out.u8(HEARD);
                out.varint(*epoch);
                known.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            HOLDS => Note::Holds {
                epoch: Expect::decode(input)?,
                base: Slot::decode(input)?,
            },
            ASK => Note::Ask {
                epoch: input.varint()?,
            },
            MOVED => Note::Moved {
                epoch: Epoch::decode(input)?,
                known: Known::decode(input)?,
                addresses: decode_addresses(input)?,
            },
            HEARD => Note::Heard {
                epoch: input.varint()?,
                known: Known::decode(input)?,
            },
            SAFE => Note::Safe {
                epoch: Expect::decode(input)?,
            },
            READY => Note::Ready {
                epoch: input.varint()?,
            },
            tag => return Err(WireError::Tag("note about epochs", tag)),
        })
    }
}

pub(super) fn encode_addresses(addresses: &BTreeMap<ReplicaId, String>, out: &mut Encoder) {
    out.varint(addresses.len() as u64);
    for (id, address) in addresses {
        id.encode(out);
        out.string(address);
    }
}

pub(super) fn decode_addresses(
    input: &mut Decoder,
) -> Result<BTreeMap<ReplicaId, String>, WireError> {
    let count = input.count(2)?;
    if count > ADDRESSES_MAX {
        return Err(WireError::Range("number of addresses"));
    }
    let mut addresses = BTreeMap::new();
    for _ in 0..count {
        let id = ReplicaId::decode(input)?;
        let last = addresses.last_key_value();
        if last.is_some_and(|(last, _)| *last >= id) {
            return Err(WireError::Range("order of addresses"));
        }
        addresses.insert(id, change::text(input, "address")?);
    }
    Ok(addresses)
}

const STARTED: u8 = 0;
const RETIRED: u8 = 1;

impl Wire for Record {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Record::Started { epoch } => {
                out.u8(STARTED);
                out.varint(*epoch);
            }
            Record::Retired { successor } => {
                out.u8(RETIRED);
                successor.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            STARTED => Record::Started {
                epoch: input.varint()?,
            },
            RETIRED => Record::Retired {
                successor: Expect::decode(input)?,
            },
            tag => return Err(WireError::Tag("record about epochs", tag)),
        })
    }
}
