//! Fragments on their way to members.
//!
//! Connections lose nothing but with themselves, and a fragment may be long under way: one that was
//! sent goes out again only when its time is over or its connection broke, however often a member
//! says that it has none.

use quorate_core::{Entry, MILLIS};
use std::hash::{Hash, Hasher};

/// Payload bytes that a leader's links move in a millisecond at least: what takes longer goes out
/// again.
const BYTES_PER_MS: u64 = 10_000;

/// What a leader's links have to move: one value goes behind the other.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Line {
    /// When it is empty, on the own clock in ns.
    until_ns: u64,
}

impl Line {
    /// Fragments of a value are given to the links. Says when they are through.
    pub(super) fn put(&mut self, value: Option<&Entry>, now_ns: u64) -> u64 {
        let bytes = value.map_or(0, Entry::bulk_len);
        self.until_ns = self.until_ns.max(now_ns) + bytes / BYTES_PER_MS * MILLIS;
        self.until_ns
    }

    /// Whether what was given to the links has had its time.
    pub(super) fn is_through(&self, now_ns: u64) -> bool {
        self.until_ns <= now_ns
    }

    /// When what was given to the links by now is through.
    pub(super) fn through_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.max(now_ns)
    }
}

/// Members to which a fragment of one value went.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct UnderWay {
    to: u64,
    /// On the own clock, in ns.
    until_ns: u64,
}

impl Hash for UnderWay {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.to.hash(to);
    }
}

impl UnderWay {
    /// Fragments of a value went to these members; by this time they are there.
    pub(super) fn sent(&mut self, to: u64, until_ns: u64) {
        self.to |= to;
        self.until_ns = until_ns;
    }

    /// Whether one is on its way to a member.
    pub(super) fn is_to(&self, member: usize) -> bool {
        self.to & 1 << member != 0
    }

    /// A retransmission timer came due: what took too long is taken for lost.
    pub(super) fn expire(&mut self, now_ns: u64) {
        if now_ns >= self.until_ns {
            self.to = 0;
        }
    }

    /// The connection to a member broke.
    pub(super) fn lose(&mut self, member: usize) {
        self.to &= !(1 << member);
    }
}
