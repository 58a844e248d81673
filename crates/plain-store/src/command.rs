//! Commands and their results, and how both are encoded.

use crate::store::Version;
use bytes::Bytes;
use quorate_core::{Admission, Decoder, Encoder, Wire, WireError};
use xxhash_rust::xxh3::xxh3_64;

/// A key and what it must be for a write to be done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// The key that the condition is about.
    pub key: Bytes,
    /// The version that the key must have; `None` if there must be no such key.
    pub version: Option<Version>,
}

/// A key and what becomes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChange {
    /// The key that changes.
    pub key: Bytes,
    /// The value that the key gets; `None` deletes the key.
    pub value: Option<Bytes>,
}

/// A command: all of its changes, in this order, if all of its conditions hold, and nothing otherwise.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Write {
    /// The conditions that must hold.
    pub conditions: Vec<Condition>,
    /// The changes that are made, in order.
    pub changes: Vec<KeyChange>,
}

/// The result of a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The write was done: the version of each changed key, in the order of the changes; `None` where it was deleted.
    Done(Vec<Option<Version>>),
    /// Not all conditions held: the version of each of their keys, in the order of the conditions.
    Unmet(Vec<Option<Version>>),
}

/// Why nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The bytes are no write.
    Malformed,
    /// Space is short, and the write stores a value.
    NoSpace,
    /// Replicas hold different states, and nobody knows which one is right.
    Corrupt,
}

/// Numbers of buckets. More of them would be more to keep for every view, fewer would have keys that differ
/// conflict.
const BUCKETS: u64 = 1 << 16;

/// The first byte of every command, so that others can come to be.
const WRITE: u8 = 1;

/// The bytes of a condition or change, at least: a length, and what must be or becomes of it.
const PART_BYTES_MIN: usize = 2;

const MALFORMED: u8 = 0;
const DONE: u8 = 1;
const UNMET: u8 = 2;
const NO_SPACE: u8 = 3;
const CORRUPT: u8 = 4;

impl Write {
    /// Stores a value.
    #[must_use]
    pub fn put(key: Bytes, value: Bytes) -> Write {
        Write::default().and_put(key, value)
    }

    /// Adds a value to store to this write.
    #[must_use]
    pub fn and_put(mut self, key: Bytes, value: Bytes) -> Write {
        let value = Some(value);
        self.changes.push(KeyChange { key, value });
        self
    }

    /// Adds a key to delete to this write.
    #[must_use]
    pub fn and_delete(mut self, key: Bytes) -> Write {
        self.changes.push(KeyChange { key, value: None });
        self
    }

    /// Adds a condition to this write.
    #[must_use]
    pub fn given(mut self, key: Bytes, version: Option<Version>) -> Write {
        self.conditions.push(Condition { key, version });
        self
    }

    /// Every key it names.
    pub fn keys(&self) -> impl Iterator<Item = &Bytes> {
        let conditions = self.conditions.iter().map(|condition| &condition.key);
        conditions.chain(self.changes.iter().map(|change| &change.key))
    }

    /// Refuses what the group's alarms do not allow.
    pub(crate) fn admit(&self, admission: Admission) -> Result<(), Refused> {
        match admission {
            Admission::All => Ok(()),
            Admission::NoGrowth if self.stores() => Err(Refused::NoSpace),
            Admission::NoGrowth => Ok(()),
            Admission::Nothing => Err(Refused::Corrupt),
        }
    }

    /// Whether it stores a value.
    fn stores(&self) -> bool {
        self.changes.iter().any(|change| change.value.is_some())
    }

    /// Whether the command with this body may make the store larger; see [`quorate_core::CommandProperties::grows`].
    pub(crate) fn grows(body: &Bytes) -> bool {
        Write::from_bytes(body.clone()).is_ok_and(|write| write.stores())
    }

    /// What the command with this body touches; see [`quorate_core::CommandProperties::touches`]. What is no
    /// command changes nothing, and is kept in order for simplicity's sake.
    pub fn touches(body: &Bytes) -> Option<Vec<u32>> {
        let write = Write::from_bytes(body.clone()).ok()?;
        Some(write.keys().map(|key| bucket(key)).collect())
    }
}

/// The bucket of a key. It must stay what it is: replicas of all versions must agree on what conflicts.
fn bucket(key: &[u8]) -> u32 {
    (xxh3_64(key) % BUCKETS) as u32
}

impl Wire for Write {
    fn encode(&self, out: &mut Encoder) {
        out.u8(WRITE);
        out.varint(self.conditions.len() as u64);
        for condition in &self.conditions {
            out.bytes(&condition.key);
            encode_version(condition.version, out);
        }
        out.varint(self.changes.len() as u64);
        for change in &self.changes {
            out.bytes(&change.key);
            out.u8(u8::from(change.value.is_some()));
            if let Some(value) = &change.value {
                out.bytes(value);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            WRITE => {}
            tag => return Err(WireError::Tag("command", tag)),
        }
        let conditions = (0..input.count(PART_BYTES_MIN)?).map(|_| {
            Ok(Condition {
                key: input.bytes()?,
                version: decode_version(input)?,
            })
        });
        let conditions = conditions.collect::<Result<_, WireError>>()?;
        let changes = (0..input.count(PART_BYTES_MIN)?).map(|_| {
            let key = input.bytes()?;
            let value = match input.u8()? {
                0 => None,
                1 => Some(input.bytes()?),
                tag => return Err(WireError::Tag("change", tag)),
            };
            Ok(KeyChange { key, value })
        });
        let changes = changes.collect::<Result<_, WireError>>()?;
        Ok(Write {
            conditions,
            changes,
        })
    }
}

impl Outcome {
    /// The result of a command, or of what was refused.
    pub(crate) fn encode(outcome: Result<&Outcome, Refused>) -> Bytes {
        let mut out = Encoder::new();
        let (tag, versions) = match outcome {
            Ok(Outcome::Done(versions)) => (DONE, &versions[..]),
            Ok(Outcome::Unmet(versions)) => (UNMET, &versions[..]),
            Err(Refused::Malformed) => (MALFORMED, &[][..]),
            Err(Refused::NoSpace) => (NO_SPACE, &[][..]),
            Err(Refused::Corrupt) => (CORRUPT, &[][..]),
        };
        out.u8(tag);
        out.varint(versions.len() as u64);
        for version in versions {
            encode_version(*version, &mut out);
        }
        out.into_bytes()
    }

    /// What the result of a command says.
    ///
    /// # Errors
    /// Why nothing was done. Bytes that are no result say that the command was none.
    pub fn decode(result: &Bytes) -> Result<Outcome, Refused> {
        let mut input = Decoder::new(result.clone());
        let decoded: Result<_, WireError> = (|| {
            let tag = input.u8()?;
            let count = input.count(1)?;
            let versions = (0..count).map(|_| decode_version(&mut input));
            let versions = versions.collect::<Result<_, WireError>>()?;
            input.finish()?;
            match tag {
                DONE => Ok(Ok(Outcome::Done(versions))),
                UNMET => Ok(Ok(Outcome::Unmet(versions))),
                NO_SPACE => Ok(Err(Refused::NoSpace)),
                CORRUPT => Ok(Err(Refused::Corrupt)),
                tag => Err(WireError::Tag("outcome", tag)),
            }
        })();
        decoded.unwrap_or(Err(Refused::Malformed))
    }
}

/// 0 stands for no such key: no version is 0.
fn encode_version(version: Option<Version>, out: &mut Encoder) {
    out.varint(version.map_or(0, |version| version.0));
}

fn decode_version(input: &mut Decoder) -> Result<Option<Version>, WireError> {
    let number = input.varint()?;
    Ok((number > 0).then_some(Version(number)))
}
