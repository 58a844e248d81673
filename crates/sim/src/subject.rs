//! The application under test, as the workload sees it.

use crate::history::{Call, Outcome, Seen};
use bytes::Bytes;
use quorate_core::Application;

mod store;

/// An application with keys that can be stored, removed, compared and read.
pub(crate) trait Subject: Application {
    /// An empty one.
    fn fresh() -> Self;

    /// The command for a call that changes something.
    fn command(key: u8, call: Call) -> Bytes;

    /// The read of a key.
    fn read(key: u8) -> Self::Query;

    /// What the result of a command says.
    fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String>;

    /// What the answer to a read says.
    fn got(answer: &Self::Answer) -> Result<Outcome, String>;

    /// The key as it is now.
    fn look(&self, key: u8) -> Result<Option<Seen>, String> {
        Ok(Self::got(&self.query(&Self::read(key)))?.seen())
    }
}

#[cfg(test)]
pub(crate) mod registers {
    //! The smallest such application: it shows what the checkers expect of the real one.

    use super::*;
    use quorate_core::{At, Decoder, Encoder, WireError};
    use std::collections::BTreeMap;

    /// Keys with etcd's revisions.
    pub(crate) struct Registers {
        revision: u64,
        keys: BTreeMap<u8, Seen>,
    }

    impl Registers {
        fn store(&mut self, key: u8, value: u64) {
            self.revision += 1;
            let modified = self.revision;
            let seen = self.keys.entry(key).or_insert(Seen {
                value,
                version: 0,
                created: modified,
                modified,
            });
            *seen = Seen {
                value,
                version: seen.version + 1,
                modified,
                ..*seen
            };
        }

        fn execute(&mut self, mut input: Decoder) -> Result<bool, WireError> {
            let (key, kind) = (input.u8()?, input.u8()?);
            let (expected, value) = (input.u64()?, input.u64()?);
            let modified = self.keys.get(&key).map_or(0, |seen| seen.modified);
            match kind {
                0 => self.store(key, value),
                1 if self.keys.remove(&key).is_some() => self.revision += 1,
                2 if modified == expected => self.store(key, value),
                _ => return Ok(false),
            }
            Ok(true)
        }
    }

    fn encode(revision: u64, done: bool, seen: Option<Seen>) -> Bytes {
        let mut out = Encoder::new();
        out.u64(revision);
        out.u8(u8::from(done));
        let seen = seen.map(|seen| [seen.value, seen.version, seen.created, seen.modified]);
        seen.iter().flatten().for_each(|number| out.u64(*number));
        out.into_bytes()
    }

    fn decode(bytes: &Bytes) -> Result<(u64, bool, Option<Seen>), WireError> {
        let mut input = Decoder::new(bytes.clone());
        let (revision, done) = (input.u64()?, input.u8()? == 1);
        if input.remaining() == 0 {
            return Ok((revision, done, None));
        }
        let (value, version) = (input.u64()?, input.u64()?);
        let (created, modified) = (input.u64()?, input.u64()?);
        Ok((
            revision,
            done,
            Some(Seen {
                value,
                version,
                created,
                modified,
            }),
        ))
    }

    impl Application for Registers {
        type Query = u8;
        type Answer = Bytes;

        fn apply(&mut self, _at: At, body: &Bytes) -> Bytes {
            let done = self.execute(Decoder::new(body.clone())).unwrap_or(false);
            let key = body.first().copied().unwrap_or(0);
            encode(self.revision, done, self.keys.get(&key).copied())
        }

        fn query(&self, key: &u8) -> Bytes {
            encode(self.revision, true, self.keys.get(key).copied())
        }
    }

    impl Subject for Registers {
        fn fresh() -> Self {
            Registers {
                revision: 1,
                keys: BTreeMap::new(),
            }
        }

        fn command(key: u8, call: Call) -> Bytes {
            let (kind, expected, value) = match call {
                Call::Put(value) => (0, 0, value),
                Call::Delete => (1, 0, 0),
                Call::Cas { expected, value } => (2, expected, value),
                Call::Get => unreachable!("reads are not commands"),
            };
            let mut out = Encoder::new();
            out.u8(key);
            out.u8(kind);
            out.u64(expected);
            out.u64(value);
            out.into_bytes()
        }

        fn read(key: u8) -> u8 {
            key
        }

        fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String> {
            let (revision, done, seen) = decode(result).map_err(|e| e.to_string())?;
            Ok(match (call, done) {
                (Call::Put(_), _) => Outcome::Put { revision },
                (Call::Delete, existed) => Outcome::Deleted { revision, existed },
                (Call::Cas { .. }, true) => Outcome::Swapped { revision },
                (Call::Cas { .. } | Call::Get, _) => Outcome::Kept { revision, seen },
            })
        }

        fn got(answer: &Bytes) -> Result<Outcome, String> {
            let (revision, _, seen) = decode(answer).map_err(|e| e.to_string())?;
            Ok(Outcome::Got { revision, seen })
        }
    }
}
