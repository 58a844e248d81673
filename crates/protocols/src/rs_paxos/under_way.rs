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
    /// Fragments of a value went to these members.
    pub(super) fn sent(&mut self, to: u64, value: Option<&Entry>, now_ns: u64) {
        self.to |= to;
        self.until_ns = now_ns + value.map_or(0, |entry| entry.bulk_len() / BYTES_PER_MS * MILLIS);
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
