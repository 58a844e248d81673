//! A digest of the store, equal on every replica.
//!
//! XXH3-64 over the keys ascending, and within a key over its versions up to a revision, oldest
//! first, deletions included. A key with no such version is left out.
//!
//! Every field is hashed with a fixed width and every byte string with its length before it, so
//! that no two different stores feed the same bytes. Of a value that is kept as a payload its digest is
//! hashed, after its length with the highest bit set. Versions that compaction removed do not
//! count, whether their memory is free yet or not: compare replicas at equal compaction.

use crate::history::{History, Version};
use crate::query::{KeyHash, QueryAnswer};
use crate::refused::Refused;
use crate::slice::Pin;
use crate::store::Store;
use bytes::Bytes;
use std::fmt;
use std::ops::Bound;
use xxhash_rust::xxh3::Xxh3;

/// A digest that is being made, a slice at a time.
#[derive(Clone)]
pub struct HashRest {
    /// What will be answered.
    found: KeyHash,
    state: Xxh3,
    /// The key looked at last and, if its versions were not all counted, the last one that was.
    after: Option<(Bytes, Option<(i64, u32)>)>,
    /// What counts is kept meanwhile.
    pin: Pin,
}

impl PartialEq for HashRest {
    fn eq(&self, other: &Self) -> bool {
        (self.found, &self.after, &self.pin) == (other.found, &other.after, &other.pin)
            && self.state.digest() == other.state.digest()
    }
}

impl fmt::Debug for HashRest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HashRest")
            .field("found", &self.found)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl HashRest {
    pub(crate) fn new(store: &Store, revision: i64) -> Result<Self, Refused> {
        let hash_revision = match revision {
            // Before the first revision, as etcd has it, is a digest of nothing.
            revision if revision < 0 => revision,
            revision => store.view().readable(revision)?,
        };
        Ok(HashRest {
            found: KeyHash {
                hash: 0,
                hash_revision,
                compacted: store.compacted,
                revision: store.revision,
            },
            state: Xxh3::new(),
            after: None,
            pin: store.pins.pin(store.compacted),
        })
    }

    /// The digest, once it is whole.
    pub(crate) fn found(&self) -> KeyHash {
        KeyHash {
            hash: self.state.digest(),
            ..self.found
        }
    }

    /// Counts about so many keys and versions; says whether those were the last.
    pub(crate) fn read(&mut self, store: &Store, mut left: usize) -> bool {
        let from = match self.after.take() {
            None => Bound::Unbounded,
            Some((key, part)) => {
                if let Some((part, history)) = part.zip(store.keys.get(&key[..])) {
                    let part = self.add_versions(history, part, &mut left);
                    if part.is_some() {
                        self.after = Some((key, part));
                        return false;
                    }
                }
                Bound::Excluded(key)
            }
        };
        let from = from.as_ref().map(|key| &key[..]);
        for (key, history) in store.keys.range::<[u8], _>((from, Bound::Unbounded)) {
            left = left.saturating_sub(1);
            let part = self.add_key(key, history, &mut left);
            if part.is_some() || left == 0 {
                self.after = Some((Bytes::copy_from_slice(key), part));
                return false;
            }
        }
        true
    }

    /// Counts a key, and versions as far as there is time; says which was the last if there is more.
    fn add_key(&mut self, key: &[u8], history: &History, left: &mut usize) -> Option<(i64, u32)> {
        let versions = history.kept(self.found.compacted, self.found.hash_revision);
        let count = versions.len() as u64;
        if count == 0 {
            return None;
        }
        self.state.update(&(key.len() as u64).to_le_bytes());
        self.state.update(key);
        self.state.update(&count.to_le_bytes());
        self.add_versions(history, (0, 0), left)
    }

    fn add_versions(
        &mut self,
        history: &History,
        after: (i64, u32),
        left: &mut usize,
    ) -> Option<(i64, u32)> {
        let (compacted, revision) = (self.found.compacted, self.found.hash_revision);
        let mut versions = history.kept_after(compacted, revision, after);
        while let Some(version) = versions.next() {
            update(&mut self.state, version);
            *left = left.saturating_sub(1);
            if *left == 0 && versions.len() > 0 {
                return Some((version.modified, version.sub));
            }
        }
        None
    }
}

impl Store {
    pub(crate) fn begin_hash(&self, revision: i64) -> Result<QueryAnswer, Refused> {
        self.go_on_with_hash(HashRest::new(self, revision)?)
    }

    /// Goes on with a digest.
    pub(crate) fn hash_rest(&self, rest: &HashRest) -> Result<QueryAnswer, Refused> {
        if rest.found.compacted < self.compacted && !self.pins.holds(&rest.pin) {
            return Err(Refused::Compacted);
        }
        self.go_on_with_hash(rest.clone())
    }

    fn go_on_with_hash(&self, mut rest: HashRest) -> Result<QueryAnswer, Refused> {
        Ok(match rest.read(self, self.keys_per_slice) {
            true => QueryAnswer::HashKv(rest.found()),
            false => QueryAnswer::HashRest(Box::new(rest)),
        })
    }
}

fn update(hash: &mut Xxh3, version: &Version) {
    let mut fields = [0; 44];
    fields[..8].copy_from_slice(&version.modified.to_le_bytes());
    fields[8..16].copy_from_slice(&version.created.to_le_bytes());
    fields[16..24].copy_from_slice(&version.version.to_le_bytes());
    fields[24..32].copy_from_slice(&version.lease.to_le_bytes());
    let is_value_ref = version.value.reference().is_some();
    let len = version.value.len() as u64 | (u64::from(is_value_ref) << 63);
    fields[32..40].copy_from_slice(&len.to_le_bytes());
    fields[40..].copy_from_slice(&version.sub.to_le_bytes());
    hash.update(&fields);
    match version.value.bytes() {
        Ok(bytes) => hash.update(bytes),
        Err(reference) => hash.update(&reference.digest.to_le_bytes()),
    }
}
