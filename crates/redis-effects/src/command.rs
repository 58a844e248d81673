//! Commands of the log in effects mode, and what they come to.

use bytes::Bytes;
use quorate_core::{Decoder, Encoder, ReplicaId, Wire, WireError};

/// The first byte of every body, which those of the embedded store do not have.
pub const BODY_TAG: u8 = 0xE5;

/// The family of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flavour {
    /// Redis, of whatever licence.
    Redis,
    /// Valkey, and what follows it.
    Valkey,
}

/// The version of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ServerVersion {
    /// The family of the server.
    pub flavour: Flavour,
    /// The major, minor and patch numbers.
    pub number: (u16, u16, u16),
}

impl ServerVersion {
    /// Whether a server of this version understands what one of `other` wrote.
    #[must_use]
    pub fn is_at_least(self, other: ServerVersion) -> bool {
        self.flavour == other.flavour && self.number >= other.number
    }
}

impl std::fmt::Display for ServerVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self.flavour {
            Flavour::Redis => "Redis",
            Flavour::Valkey => "Valkey",
        };
        let (major, minor, patch) = self.number;
        write!(f, "{name} {major}.{minor}.{patch}")
    }
}

/// A command of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// A replica wants to be the executor.
    Claim {
        /// The epoch that ends with it; the claim is void in any other.
        over: u64,
        /// The replica that is to execute.
        by: ReplicaId,
        /// A number of the process that claims, which no other process of the replica has. One that is started anew
        /// reads its own old claims in the log, and must not take office on them: commands of the process before it
        /// may still be on their way.
        boot: u64,
        /// The version of its server.
        version: ServerVersion,
    },
    /// Bytes of the executor's replication stream.
    Effects {
        /// The executor's epoch.
        epoch: u64,
        /// The offset of the first byte.
        start: u64,
        /// A piece of the stream.
        bytes: Bytes,
        /// Whether a unit ends with them.
        last: bool,
    },
    /// The stream is to be that of another server from now on, and nobody executes meanwhile. Feature level 6.
    Import {
        /// The epoch that ends with it; the import is void in any other.
        over: u64,
        /// The length that the stream has to have, where that matters.
        at: Option<u64>,
        /// Whether everything is brought over anew, rather than the stream that is followed gone on with.
        is_anew: bool,
        /// The version of the server whose effects follow.
        version: ServerVersion,
    },
    /// All that the other server had at an offset of its own stream is there. Feature level 6.
    Imported {
        /// The epoch of the import.
        epoch: u64,
        /// Where both streams stand.
        follows: Follows,
    },
    /// Clients are to be served here, no more by the other server. Feature level 6.
    Cutover {
        /// The epoch of the import.
        epoch: u64,
        /// The length that the stream has to have at least.
        len_min: u64,
    },
}

/// A place that the stream of another server has in common with the own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Follows {
    /// The name of the other stream: the replication id, 40 digits in hexadecimal.
    pub id: [u8; REPLICATION_ID_BYTES],
    /// The offset of the other stream.
    pub source: u64,
    /// The length of the own stream.
    pub len: u64,
}

impl Follows {
    /// The offset of the other stream, where the own one is so long.
    #[must_use]
    pub fn source_at(&self, len: u64) -> u64 {
        self.source.saturating_add(len.saturating_sub(self.len))
    }

    /// The length of the own stream, where the other one is at an offset.
    #[must_use]
    pub fn len_at(&self, source: u64) -> u64 {
        self.len.saturating_add(source.saturating_sub(self.source))
    }
}

/// The length of a replication id, in bytes.
pub const REPLICATION_ID_BYTES: usize = 40;

/// How far the data of another server is here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Import {
    /// Part of it is here: whatever there is, is no state that the other server had.
    Loading,
    /// All of it is here, and the stream since then.
    Following(Follows),
}

const CLAIM: u8 = 1;
const EFFECTS: u8 = 2;
const IMPORT: u8 = 3;
const IMPORTED: u8 = 4;
const CUTOVER: u8 = 5;

impl Wire for ServerVersion {
    fn encode(&self, out: &mut Encoder) {
        out.u8(match self.flavour {
            Flavour::Redis => 1,
            Flavour::Valkey => 2,
        });
        let (major, minor, patch) = self.number;
        [major, minor, patch]
            .iter()
            .for_each(|part| out.varint(u64::from(*part)));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let flavour = match input.u8()? {
            1 => Flavour::Redis,
            2 => Flavour::Valkey,
            tag => return Err(WireError::Tag("family of a server", tag)),
        };
        let number = (short(input)?, short(input)?, short(input)?);
        Ok(ServerVersion { flavour, number })
    }
}

fn short(input: &mut Decoder) -> Result<u16, WireError> {
    u16::try_from(input.varint()?).map_err(|_| WireError::Range("short number"))
}

pub(crate) fn flag(input: &mut Decoder) -> Result<bool, WireError> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        tag => Err(WireError::Tag("truth value", tag)),
    }
}

pub(crate) fn encode_replica(replica: Option<ReplicaId>, out: &mut Encoder) {
    out.varint(replica.map_or(0, |replica| u64::from(replica.0) + 1));
}

pub(crate) fn decode_replica(input: &mut Decoder) -> Result<Option<ReplicaId>, WireError> {
    let number = input.varint()?.checked_sub(1);
    let replica = number.map(|number| u16::try_from(number).map(ReplicaId));
    replica
        .transpose()
        .map_err(|_| WireError::Range("number of a replica"))
}

impl Wire for Follows {
    fn encode(&self, out: &mut Encoder) {
        out.slice(&self.id);
        out.varint(self.source);
        out.varint(self.len);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let mut id = [0; REPLICATION_ID_BYTES];
        for byte in &mut id {
            *byte = input.u8()?;
        }
        Ok(Follows {
            id,
            source: input.varint()?,
            len: input.varint()?,
        })
    }
}

impl Wire for Import {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Import::Loading => out.u8(1),
            Import::Following(follows) => {
                out.u8(2);
                follows.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            1 => Ok(Import::Loading),
            2 => Follows::decode(input).map(Import::Following),
            tag => Err(WireError::Tag("state of an import", tag)),
        }
    }
}

impl Wire for Command {
    fn encode(&self, out: &mut Encoder) {
        out.u8(BODY_TAG);
        match self {
            Command::Claim {
                over,
                by,
                boot,
                version,
            } => {
                out.u8(CLAIM);
                out.varint(*over);
                encode_replica(Some(*by), out);
                out.u64(*boot);
                version.encode(out);
            }
            Command::Effects {
                epoch,
                start,
                bytes,
                last,
            } => {
                out.u8(EFFECTS);
                out.varint(*epoch);
                out.varint(*start);
                out.u8(u8::from(*last));
                out.bytes(bytes);
            }
            Command::Import {
                over,
                at,
                is_anew,
                version,
            } => {
                out.u8(IMPORT);
                out.varint(*over);
                out.varint(at.map_or(0, |at| at.saturating_add(1)));
                out.u8(u8::from(*is_anew));
                version.encode(out);
            }
            Command::Imported { epoch, follows } => {
                out.u8(IMPORTED);
                out.varint(*epoch);
                follows.encode(out);
            }
            Command::Cutover { epoch, len_min } => {
                out.u8(CUTOVER);
                out.varint(*epoch);
                out.varint(*len_min);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            BODY_TAG => {}
            tag => return Err(WireError::Tag("first byte of a command", tag)),
        }
        match input.u8()? {
            CLAIM => Ok(Command::Claim {
                over: input.varint()?,
                by: decode_replica(input)?.ok_or(WireError::Range("number of a replica"))?,
                boot: input.u64()?,
                version: ServerVersion::decode(input)?,
            }),
            EFFECTS => {
                let (epoch, start) = (input.varint()?, input.varint()?);
                let last = flag(input)?;
                let bytes = input.bytes()?;
                match bytes.is_empty() || start.checked_add(bytes.len() as u64).is_none() {
                    true => Err(WireError::Range("piece of a stream")),
                    false => Ok(Command::Effects {
                        epoch,
                        start,
                        bytes,
                        last,
                    }),
                }
            }
            IMPORT => Ok(Command::Import {
                over: input.varint()?,
                at: input.varint()?.checked_sub(1),
                is_anew: flag(input)?,
                version: ServerVersion::decode(input)?,
            }),
            IMPORTED => Ok(Command::Imported {
                epoch: input.varint()?,
                follows: Follows::decode(input)?,
            }),
            CUTOVER => Ok(Command::Cutover {
                epoch: input.varint()?,
                len_min: input.varint()?,
            }),
            tag => Err(WireError::Tag("command", tag)),
        }
    }
}

/// What a command comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The claim began an epoch.
    Claimed {
        /// The epoch that began.
        epoch: u64,
        /// The length of the stream at which it began.
        len: u64,
    },
    /// The claim was over another epoch.
    Stale {
        /// The epoch that there is.
        epoch: u64,
        /// The replica that executes in it.
        executor: Option<ReplicaId>,
    },
    /// The bytes are part of the stream, or will be with those before them.
    Accepted {
        /// The length of the stream in whole units.
        len: u64,
    },
    /// The bytes are of an epoch that is over.
    Void {
        /// The epoch that there is.
        epoch: u64,
        /// The replica that executes in it.
        executor: Option<ReplicaId>,
    },
    /// The bytes are too far ahead of the stream to be kept: they are to be sent again.
    Beyond {
        /// The length of the stream in whole units.
        len: u64,
    },
    /// The server of the claim cannot follow the one that executed before.
    Unfit {
        /// The version that is needed at least.
        needed: ServerVersion,
    },
    /// The group's alarms leave no room.
    NoSpace,
    /// The body is no command.
    Malformed,
    /// The stream is not where the command needs it to be.
    Elsewhere {
        /// The epoch that there is.
        epoch: u64,
        /// The length of the stream in whole units.
        len: u64,
    },
}

impl Wire for Outcome {
    fn encode(&self, out: &mut Encoder) {
        let pair = |out: &mut Encoder, tag, epoch: u64, executor: Option<ReplicaId>| {
            out.u8(tag);
            out.varint(epoch);
            encode_replica(executor, out);
        };
        match *self {
            Outcome::Claimed { epoch, len } => {
                out.u8(1);
                out.varint(epoch);
                out.varint(len);
            }
            Outcome::Stale { epoch, executor } => pair(out, 2, epoch, executor),
            Outcome::Accepted { len } => {
                out.u8(3);
                out.varint(len);
            }
            Outcome::Void { epoch, executor } => pair(out, 4, epoch, executor),
            Outcome::Beyond { len } => {
                out.u8(5);
                out.varint(len);
            }
            Outcome::Unfit { needed } => {
                out.u8(6);
                needed.encode(out);
            }
            Outcome::NoSpace => out.u8(7),
            Outcome::Malformed => out.u8(8),
            Outcome::Elsewhere { epoch, len } => {
                out.u8(9);
                out.varint(epoch);
                out.varint(len);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(match input.u8()? {
            1 => Outcome::Claimed {
                epoch: input.varint()?,
                len: input.varint()?,
            },
            2 => Outcome::Stale {
                epoch: input.varint()?,
                executor: decode_replica(input)?,
            },
            3 => Outcome::Accepted {
                len: input.varint()?,
            },
            4 => Outcome::Void {
                epoch: input.varint()?,
                executor: decode_replica(input)?,
            },
            5 => Outcome::Beyond {
                len: input.varint()?,
            },
            6 => Outcome::Unfit {
                needed: ServerVersion::decode(input)?,
            },
            7 => Outcome::NoSpace,
            8 => Outcome::Malformed,
            9 => Outcome::Elsewhere {
                epoch: input.varint()?,
                len: input.varint()?,
            },
            tag => return Err(WireError::Tag("outcome of a command", tag)),
        })
    }
}
