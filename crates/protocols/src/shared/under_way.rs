//! Fragments, and long batches, on their way to members.
//!
//! Connections lose nothing but with themselves, and a fragment may be long under way: one that was
//! sent goes out again only when its time is over or its connection broke, however often a member
//! says that it has none, or nothing.

use quorate_core::pace::{self, under_way_ns};
use quorate_core::{Entry, MemberIndex, MemberSet, SECONDS};
use std::hash::{Hash, Hasher};

/// No line is longer: where links are much faster, it would grow for as long as there is load, and what
/// is lost would be taken to be on its way for as long.
const LINE_NS_MAX: u64 = 30 * SECONDS;

/// What a leader's links have to move: one value goes behind the other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Line {
    /// When it is empty, on the own clock in ns.
    until_ns: u64,
}

impl Line {
    /// Fragments of a value, of which `code` rebuild it, are given to the links to these members. Says
    /// when they are through.
    pub(crate) fn put(
        &mut self,
        value: Option<&Entry>,
        code: u8,
        to: MemberSet,
        now_ns: u64,
    ) -> u64 {
        let fragment_bytes = value.map_or(0, Entry::bulk_len) / u64::from(code.max(1));
        self.put_bytes(fragment_bytes, to, now_ns)
    }

    /// Gives `bytes` to each link to these members. Says when they are through, ns.
    pub(crate) fn put_bytes(&mut self, bytes: u64, to: MemberSet, now_ns: u64) -> u64 {
        let bytes = bytes * to.len() as u64;
        let until_ns = self.until_ns.clamp(now_ns, now_ns + LINE_NS_MAX);
        self.until_ns = until_ns + under_way_ns(bytes);
        self.until_ns
    }

    /// Whether what was given to the links has had its time.
    pub(crate) fn is_through(&self, now_ns: u64) -> bool {
        self.until_ns <= now_ns
    }

    /// When what was given to the links by now is through.
    pub(crate) fn through_ns(&self, now_ns: u64) -> u64 {
        self.until_ns.max(now_ns)
    }
}

/// Whether a batch that travels whole is so long that links notice when it is said twice.
pub(crate) fn is_long(entry: &Entry) -> bool {
    entry.bulk_len() == 0 && pace::is_long(entry.body_len())
}

/// How long links take at most to move a batch to these members, if they have nothing else to move.
pub(crate) fn alone_ns(entry: &Entry, to: MemberSet) -> u64 {
    under_way_ns(entry.body_len() as u64 * to.len() as u64)
}

/// Members to which a fragment of one value went.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct UnderWay {
    to: MemberSet,
    /// On the own clock, in ns.
    since_ns: u64,
    until_ns: u64,
}

impl Hash for UnderWay {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.to.hash(to);
    }
}

impl UnderWay {
    /// Fragments of a value go to these members; by this time, on the own clock in ns, they are there.
    pub(crate) fn new(to: MemberSet, until_ns: u64) -> Self {
        UnderWay {
            to,
            since_ns: 0,
            until_ns,
        }
    }

    /// Fragments of a value went to these members; by this time they are there.
    pub(crate) fn sent(&mut self, to: MemberSet, until_ns: u64) {
        self.to |= to;
        self.until_ns = until_ns;
    }

    /// Fragments of a value went to these members for the first time; by this time they are there.
    pub(crate) fn begin(&mut self, now_ns: u64, to: MemberSet, until_ns: u64) {
        self.since_ns = now_ns;
        self.sent(to, until_ns);
    }

    /// When it went out for the first time, on the own clock.
    pub(crate) fn since_ns(&self) -> u64 {
        self.since_ns
    }

    /// The members that one is on its way to.
    pub(crate) fn members(&self) -> MemberSet {
        self.to
    }

    /// Adds the members of another.
    pub(crate) fn join(&mut self, other: UnderWay) {
        self.to |= other.to;
        self.until_ns = self.until_ns.max(other.until_ns);
    }

    /// Whether one is on its way to a member.
    pub(crate) fn is_to(&self, member: MemberIndex) -> bool {
        self.to.contains(member)
    }

    /// A retransmission timer came due: what took too long is taken for lost.
    pub(crate) fn expire(&mut self, now_ns: u64) {
        if now_ns >= self.until_ns {
            self.to = MemberSet::EMPTY;
        }
    }

    /// The connection to a member broke.
    pub(crate) fn lose(&mut self, member: MemberIndex) {
        self.to.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_core::{
        Class, Command, EntryBuilder, EntryId, MILLIS, Payload, Principal, RequestId,
    };

    fn value(len: usize) -> Entry {
        let mut builder = EntryBuilder::default();
        builder.push(&Command {
            id: RequestId::default(),
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: Bytes::new(),
            payloads: vec![Payload::of(Bytes::from(vec![1; len]))],
        });
        builder.finish(EntryId::default(), 0)
    }

    #[test]
    fn the_line_is_as_long_as_what_the_links_carry_and_never_much_longer_than_they_may_need() {
        let (value, mut line) = (value(30_000), Line::default());
        let others = MemberSet::from_bits(0b11110);
        assert_eq!(line.put(Some(&value), 1, others, 5), 5 + 12 * MILLIS);
        assert_eq!(line.put(Some(&value), 3, others, 5), 5 + 16 * MILLIS);
        assert_eq!(
            line.put(Some(&value), 3, MemberSet::EMPTY, 5),
            5 + 16 * MILLIS
        );
        assert_eq!(line.put(None, 1, others, 5), 5 + 16 * MILLIS);
        assert!(!line.is_through(15 * MILLIS) && line.is_through(17 * MILLIS));
        for _ in 0..10_000 {
            line.put(Some(&value), 1, others, 5);
        }
        assert!(line.is_through(LINE_NS_MAX + 13 * MILLIS));
    }
}
