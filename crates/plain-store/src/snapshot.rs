//! The store as a snapshot.
//!
//! A snapshot is a run of pieces, a piece a run of records, a record one byte for its kind and what belongs
//! to it (numbers are varints):
//!
//! | kind | what | content |
//! |---|---|---|
//! | 1 | head | format version |
//! | 2 | key | its bytes, its version, its value, with lengths before bytes |
//! | 3 | end | keys before it |
//!
//! The head comes first, then the keys, ascending, then the end. While a snapshot is taken, what a change
//! takes away behind the last piece is set aside, and nothing is copied: so a cut costs nothing, and commands
//! that come meanwhile cost as much as what they change.

use crate::store::{Item, Store, Version};
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};
use std::collections::BTreeMap;
use std::ops::Bound;

const HEAD: u8 = 1;
const KEY: u8 = 2;
const END: u8 = 3;

/// The version of this format.
const FORMAT: u64 = 1;

/// Where a snapshot is.
#[derive(Debug, Default)]
pub struct Cut {
    has_head: bool,
    has_end: bool,
    keys: u64,
}

/// What a store keeps for a snapshot that is being taken.
#[derive(Debug, Default)]
pub(crate) struct Cutting {
    /// The last key of the pieces so far.
    after: Option<Box<[u8]>>,
    /// Of the keys behind that one, those that changed since the cut, as they were then.
    before: BTreeMap<Box<[u8]>, Option<Item>>,
}

impl Cutting {
    /// A key changes that had this.
    pub(crate) fn note(&mut self, key: &[u8], before: Option<&Item>) {
        let is_to_come = self.after.as_deref().is_none_or(|after| after < key);
        if is_to_come && !self.before.contains_key(key) {
            self.before.insert(key.into(), before.cloned());
        }
    }
}

impl Store {
    pub(crate) fn begin_cut(&mut self) -> Cut {
        self.cutting = Some(Cutting::default());
        Cut::default()
    }

    pub(crate) fn next_piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        let mut cutting = self.cutting.take()?;
        let mut out = Encoder::new();
        if !cut.has_head {
            cut.has_head = true;
            out.u8(HEAD);
            out.varint(FORMAT);
        }
        while out.len() < bytes {
            let Some((key, item)) = self.next_item(&cutting) else {
                break;
            };
            if let Some(item) = item {
                out.u8(KEY);
                out.varint(key.len() as u64);
                out.slice(&key);
                out.varint(item.version.0);
                out.bytes(&item.value);
                cut.keys += 1;
            }
            cutting.before.remove(&key);
            cutting.after = Some(key);
        }
        if out.len() < bytes && !cut.has_end {
            cut.has_end = true;
            out.u8(END);
            out.varint(cut.keys);
        }
        if out.is_empty() {
            return None;
        }
        self.cutting = Some(cutting);
        Some(out.into_bytes())
    }

    /// The next key behind those that are in pieces, and what it had when the cut was made.
    fn next_item(&self, cutting: &Cutting) -> Option<(Box<[u8]>, Option<Item>)> {
        let after = match &cutting.after {
            Some(after) => Bound::Excluded(&**after),
            None => Bound::Unbounded,
        };
        let range = (after, Bound::Unbounded);
        let now = self.keys.range::<[u8], _>(range).next();
        let before = cutting.before.range::<[u8], _>(range).next();
        match (now, before) {
            (Some((key, item)), Some((changed, _))) if key < changed => {
                Some((key.clone(), Some(item.clone())))
            }
            (_, Some((key, item))) => Some((key.clone(), item.clone())),
            (Some((key, item)), None) => Some((key.clone(), Some(item.clone()))),
            (None, None) => None,
        }
    }
}

/// What was loaded so far.
#[derive(Debug, Default)]
pub(crate) struct Loading {
    keys: Vec<(Box<[u8]>, Item)>,
    has_head: bool,
    has_end: bool,
}

impl Store {
    /// Loads the next piece. Its bytes may come from a damaged disk: everything is checked.
    pub(crate) fn load_piece(&mut self, piece: Bytes) -> Result<(), String> {
        let mut input = Decoder::new(piece);
        let mut read = || {
            while input.remaining() > 0 {
                self.loading.record(&mut input)?;
            }
            Ok(())
        };
        let wrong = |error: WireError| format!("the store's part is damaged: {error}");
        read().map_err(wrong)
    }

    pub(crate) fn end_load(&mut self) -> Result<(), String> {
        let loading = std::mem::take(&mut self.loading);
        if !loading.has_end {
            return Err("the store's part is incomplete: it has no end".to_owned());
        }
        // Sorted, it becomes a tree without gaps in one go.
        self.keys = loading.keys.into_iter().collect();
        Ok(())
    }
}

impl Loading {
    fn record(&mut self, input: &mut Decoder) -> Result<(), WireError> {
        match (input.u8()?, self.has_head && !self.has_end) {
            (HEAD, false) if !self.has_head => {
                self.has_head = true;
                match input.varint()? {
                    FORMAT => Ok(()),
                    _ => Err(WireError::Range("format of a snapshot")),
                }
            }
            (KEY, true) => {
                let key: Box<[u8]> = input.bytes()?[..].into();
                if self.keys.last().is_some_and(|(last, _)| *last >= key) {
                    return Err(WireError::Range("order of keys"));
                }
                let version = Version(input.varint()?);
                if version.0 == 0 {
                    return Err(WireError::Range("version of a key"));
                }
                let value = Bytes::copy_from_slice(&input.bytes()?);
                self.keys.push((key, Item { version, value }));
                Ok(())
            }
            (END, true) => {
                self.has_end = true;
                match input.varint()? {
                    keys if keys == self.keys.len() as u64 => Ok(()),
                    _ => Err(WireError::Range("count of keys")),
                }
            }
            (kind, _) => Err(WireError::Tag("record of a snapshot", kind)),
        }
    }
}
