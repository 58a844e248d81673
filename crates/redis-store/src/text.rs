//! Byte strings that are kept, and names with the hash that orders them.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// A byte string that is never changed in place: a member, a field, an element.
pub(crate) type Text = Arc<[u8]>;

/// A name and its hash, ordered by the hash first.
///
/// The order is as good as random to whoever picks the names, does not depend on how a collection came to be, and is
/// the same on every replica: so replies, snapshots and cursors of scans follow it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Name {
    hash: u64,
    text: Text,
}

/// A name to look for, hashed once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sought<'a> {
    hash: u64,
    text: &'a [u8],
}

impl Name {
    /// The name of these bytes.
    pub(crate) fn new(text: &[u8]) -> Self {
        Sought::new(text).to_name()
    }

    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn as_sought(&self) -> Sought<'_> {
        Sought {
            hash: self.hash,
            text: &self.text,
        }
    }
}

impl<'a> Sought<'a> {
    /// Looks for these bytes.
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Sought {
            hash: xxh3_64(text),
            text,
        }
    }

    pub(crate) fn text(self) -> &'a [u8] {
        self.text
    }

    pub(crate) fn hash(self) -> u64 {
        self.hash
    }

    pub(crate) fn to_name(self) -> Name {
        Name {
            hash: self.hash,
            text: self.text.into(),
        }
    }

    /// Where a name is as seen from this one: less if it comes before.
    pub(crate) fn place_of(self, name: &Name) -> Ordering {
        let by_hash = name.hash.cmp(&self.hash);
        by_hash.then_with(|| (*name.text).cmp(self.text))
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        other.as_sought().place_of(self)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text.escape_ascii())
    }
}
