//! The store as an application.

use crate::command::{Outcome, Refused, Write};
use crate::snapshot::{Cut, Cutting, Loading};
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Encoder, Payload, Wire};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use xxhash_rust::xxh3::xxh3_64;

/// The version of a key's value: one more with every write while the key exists. A key that is created begins with a
/// number nobody can foresee, so a version names the same value for ever, though nothing is kept of keys that are
/// gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

impl Version {
    /// That of the next write. A version that nobody would come to in a lifetime begins anew.
    fn next(self) -> Version {
        Version(self.0.checked_add(1).unwrap_or(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The value of a key and its version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// The version of the value.
    pub version: Version,
    /// The value of the key.
    pub value: Bytes,
}

/// A read of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// The values of these keys, all at one time.
    Get(Vec<Bytes>),
    /// How many keys there are.
    Count,
}

/// The answer to a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QueryAnswer {
    /// What each of the keys has, in their order; `None` for nothing.
    Got(Vec<Option<Item>>),
    /// The number of keys.
    Count(u64),
}

/// The plain key-value store.
#[derive(Debug, Default)]
pub struct Store {
    pub(crate) keys: BTreeMap<Box<[u8]>, Item>,
    /// What each command that may have to be taken back has changed, oldest first.
    attempts: VecDeque<Changed>,
    /// The snapshot that is being taken.
    pub(crate) cutting: Option<Cutting>,
    /// The snapshot that is being loaded.
    pub(crate) loading: Loading,
}

/// Keys that a command changed, and what they had before.
type Changed = Vec<(Box<[u8]>, Option<Item>)>;

impl Store {
    /// What the bodies of commands say by themselves.
    pub const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows: Write::grows,
        touches: Some(Write::touches),
        ..CommandProperties::UNKNOWN
    };

    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Store::default()
    }

    fn execute(&mut self, at: At, body: &Bytes) -> Result<Outcome, Refused> {
        let write = Write::from_bytes(body.clone()).map_err(|_| Refused::Malformed)?;
        write.admit(at.admission)?;
        let version = |key: &Bytes| self.keys.get(&key[..]).map(|item| item.version);
        let conditions = write.conditions.iter();
        let found: Vec<_> = conditions.map(|wanted| version(&wanted.key)).collect();
        let wanted = write.conditions.iter().map(|wanted| wanted.version);
        if !wanted.eq(found.iter().copied()) {
            return Ok(Outcome::Unmet(found));
        }
        let changes = write.changes.into_iter().zip(0u32..);
        let versions = changes.map(|(change, part)| {
            let version = match (self.keys.get(&change.key[..]), &change.value) {
                (_, None) => None,
                (Some(before), Some(_)) => Some(before.version.next()),
                (None, Some(_)) => Some(first_version(at, part)),
            };
            // A copy: the command is a part of something larger that would stay in memory with it.
            let item = version.zip(change.value).map(|(version, value)| Item {
                version,
                value: Bytes::copy_from_slice(&value),
            });
            self.set(&change.key, item);
            version
        });
        Ok(Outcome::Done(versions.collect()))
    }

    /// Changes a key, for a snapshot that is being taken and whoever may take it back to know.
    fn set(&mut self, key: &[u8], item: Option<Item>) {
        let before = match item {
            Some(item) => self.keys.insert(key.into(), item),
            None => self.keys.remove(key),
        };
        if let Some(cutting) = &mut self.cutting {
            cutting.note(key, before.as_ref());
        }
        if let Some(attempt) = self.attempts.back_mut() {
            attempt.push((key.into(), before));
        }
    }
}

/// The first version of a key that this change creates: drawn from what names the change wherever it ends
/// up in the log.
fn first_version(at: At, part: u32) -> Version {
    let mut name = Encoder::new();
    at.payload.entry.encode(&mut name);
    name.u32(at.index);
    name.u32(part);
    // Short enough for numbers of JSON, with room to grow, and never 0.
    Version(xxh3_64(&name.into_bytes()) % FIRST_VERSION_MAX + 1)
}

/// First versions, at most: a quarter of what a JSON number can be.
const FIRST_VERSION_MAX: u64 = 1 << 51;

impl Application for Store {
    type Query = Query;
    type Answer = QueryAnswer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        // What is applied for good is taken back by nobody. Nothing is ahead of it by then.
        debug_assert!(self.attempts.is_empty(), "decided behind what is not");
        Outcome::encode(self.execute(at, body).as_ref().map_err(|wrong| *wrong))
    }

    fn command_properties(&self) -> CommandProperties {
        Store::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        true
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.attempts.push_back(Vec::new());
        Outcome::encode(self.execute(at, body).as_ref().map_err(|wrong| *wrong))
    }

    fn keep(&mut self) {
        self.attempts.pop_front();
    }

    fn retract(&mut self) {
        let attempt = self.attempts.pop_back().unwrap_or_default();
        // What comes back is not to be noted as something that was attempted.
        let others = std::mem::take(&mut self.attempts);
        for (key, before) in attempt.into_iter().rev() {
            self.set(&key, before);
        }
        self.attempts = others;
    }

    fn query(&self, query: &Query) -> QueryAnswer {
        match query {
            Query::Get(keys) => {
                let item = |key: &Bytes| self.keys.get(&key[..]).cloned();
                QueryAnswer::Got(keys.iter().map(item).collect())
            }
            Query::Count => QueryAnswer::Count(self.keys.len() as u64),
        }
    }

    fn cut(&mut self) -> Cut {
        self.begin_cut()
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        self.next_piece(cut, bytes)
    }

    fn release(&mut self, _: Cut) {
        self.cutting = None;
    }

    fn empty(&self) -> Self {
        Store::new()
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.load_piece(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        self.end_load()
    }
}
