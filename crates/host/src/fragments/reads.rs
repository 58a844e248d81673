//! Reads of fragments that are under way.

use super::Fragment;
use super::heap::Key;
use crate::api::{LogRead, Store};
use crate::position::Position;
use bytes::Bytes;
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// Tells the tokens of this store's reads from those of the log's.
const OWN: u64 = 1 << 63;
/// How often a read is tried.
const ATTEMPTS_MAX: u32 = 5;

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
    /// How often it was tried in vain.
    failures: u32,
    /// XXH3-64 of what was read instead, the last time.
    wrong: Option<u64>,
    len: u32,
}

impl Asked {
    /// It was tried in vain: what was read instead, if anything, is not the fragment.
    pub(super) fn failed(self, wrong: Option<&Bytes>) -> Failed {
        let wrong = wrong.map(|bytes| xxh3_64(bytes));
        let is_certain = wrong.is_some() && wrong == self.wrong;
        let failures = self.failures + 1;
        if is_certain || failures == ATTEMPTS_MAX {
            return Failed::ForGood;
        }
        Failed::Maybe(Asked {
            failures,
            wrong,
            ..self
        })
    }
}

/// What a failure says of a fragment.
pub(super) enum Failed {
    /// What the disk says once may be the fault of the way here.
    Maybe(Asked),
    /// What it says twice, it holds; and what it fails to say again and again, it cannot.
    ForGood,
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
            failures: 0,
            wrong: None,
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
            store: Store::Fragments,
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
