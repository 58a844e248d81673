//! Reads of fragments that are under way.

use super::Fragment;
use super::heap::Key;
use crate::api::{LogRead, Store};
use crate::log::Position;
use std::collections::BTreeMap;

/// Tells the tokens of this store's reads from those of the log's.
const OWN: u64 = 1 << 63;

/// What a read is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// Somebody wants the bytes.
    Caller,
    /// The store itself, to write them elsewhere.
    Move,
}

/// A read under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) key: Key,
    pub(super) at: Position,
    pub(super) purpose: Purpose,
    /// Whether it was tried before, in vain.
    pub(super) failed: bool,
    len: u32,
}

impl Asked {
    pub(super) fn once_failed(self) -> Asked {
        Asked {
            failed: true,
            ..self
        }
    }
}

/// The reads under way, by token.
#[derive(Debug, Default)]
pub(super) struct Reads {
    asked: BTreeMap<u64, Asked>,
    next: u64,
    /// Bytes being read to be moved.
    moving_bytes: usize,
}

impl Reads {
    pub(super) fn owns(token: u64) -> bool {
        token & OWN != 0
    }

    /// A read of a fragment, to be performed.
    pub(super) fn ask(&mut self, fragment: &Fragment, purpose: Purpose) -> LogRead {
        let token = OWN | self.next;
        self.next += 1;
        let asked = Asked {
            key: fragment.key(),
            at: fragment.at,
            purpose,
            failed: false,
            len: fragment.len,
        };
        self.again(token, asked, fragment)
    }

    /// The same read once more, from where the fragment is now.
    pub(super) fn again(&mut self, token: u64, asked: Asked, fragment: &Fragment) -> LogRead {
        let (at, len) = (fragment.at, fragment.len);
        if asked.purpose == Purpose::Move {
            self.moving_bytes += len as usize;
        }
        self.asked.insert(token, Asked { at, len, ..asked });
        LogRead {
            token,
            store: Store::Bulk,
            at,
            len,
        }
    }

    /// Takes a read that is done.
    pub(super) fn take(&mut self, token: u64) -> Option<Asked> {
        let asked = self.asked.remove(&token)?;
        if asked.purpose == Purpose::Move {
            self.moving_bytes -= asked.len as usize;
        }
        Some(asked)
    }

    /// Bytes being read to be moved.
    pub(super) fn moving_bytes(&self) -> usize {
        self.moving_bytes
    }
}
