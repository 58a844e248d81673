//! What a node of a tree has: entries or children, and beside them a digest of each key.
//!
//! Digests lie close together. A search among them touches a few lines of the cache, where one among entries would
//! touch a line for each of its steps.

use crate::text::{Name, Sought};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;

/// What orders the entries of a tree.
pub(crate) trait Key: Clone {
    /// A number that never falls as keys ascend; `()` for keys that have none.
    type Digest: Copy + Ord + fmt::Debug;

    /// The digest of this key.
    fn digest(&self) -> Self::Digest;
}

impl Key for () {
    type Digest = ();

    fn digest(&self) {}
}

/// A key that is looked for.
pub(crate) trait SoughtKey<K: Key>: Copy {
    /// The digest of the key.
    fn digest(self) -> K::Digest;

    /// Where another key is as seen from this one: less if it comes before.
    fn place_of(self, other: &K) -> Ordering;
}

impl<K: Key + Ord> SoughtKey<K> for &K {
    fn digest(self) -> K::Digest {
        Key::digest(self)
    }

    fn place_of(self, other: &K) -> Ordering {
        other.cmp(self)
    }
}

impl Key for Name {
    type Digest = u64;

    fn digest(&self) -> u64 {
        self.hash()
    }
}

/// When a name ends, and the name.
impl Key for (u64, Name) {
    type Digest = u64;

    fn digest(&self) -> u64 {
        self.0
    }
}

impl SoughtKey<Name> for Sought<'_> {
    fn digest(self) -> u64 {
        self.hash()
    }

    fn place_of(self, name: &Name) -> Ordering {
        Sought::place_of(self, name)
    }
}

/// Something that has a place by its key.
pub(super) trait Keyed {
    type Key: Key;

    fn key(&self) -> &Self::Key;
}

type DigestOf<T> = <<T as Keyed>::Key as Key>::Digest;

/// Entries or children in the order of their keys.
#[derive(Clone, Debug)]
pub(super) struct Row<T: Keyed> {
    digests: Vec<DigestOf<T>>,
    items: Vec<T>,
}

impl<T: Keyed> Default for Row<T> {
    fn default() -> Self {
        let (digests, items) = (Vec::new(), Vec::new());
        Row { digests, items }
    }
}

impl<T: Keyed> Deref for Row<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T: Keyed> Row<T> {
    /// The items, to be changed without their keys.
    pub(super) fn items_mut(&mut self) -> &mut [T] {
        &mut self.items
    }

    /// Changes an item, its key as well.
    pub(super) fn change(&mut self, at: usize, change: impl FnOnce(&mut T)) {
        change(&mut self.items[at]);
        self.digests[at] = self.items[at].key().digest();
    }

    pub(super) fn insert(&mut self, at: usize, item: T) {
        self.digests.insert(at, item.key().digest());
        self.items.insert(at, item);
    }

    pub(super) fn push(&mut self, item: T) {
        self.insert(self.items.len(), item);
    }

    pub(super) fn remove(&mut self, at: usize) -> T {
        self.digests.remove(at);
        self.items.remove(at)
    }

    /// Takes out everything from this place on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let digests = self.digests.split_off(at);
        let items = self.items.split_off(at);
        Row { digests, items }
    }

    pub(super) fn append(&mut self, more: Self) {
        self.digests.extend(more.digests);
        self.items.extend(more.items);
    }

    /// Takes out everything.
    pub(super) fn take_items(&mut self) -> Vec<T> {
        self.digests.clear();
        std::mem::take(&mut self.items)
    }

    /// The place of a key, or the one that it would have.
    pub(super) fn find(&self, sought: impl SoughtKey<T::Key>) -> Result<usize, usize> {
        let (at, same) = self.of_digest(0, sought.digest());
        let found = same.binary_search_by(|item| sought.place_of(item.key()));
        found
            .map(|behind| at + behind)
            .map_err(|behind| at + behind)
    }

    /// The place behind all keys from this place on that are not greater than one.
    pub(super) fn behind(&self, from: usize, sought: impl SoughtKey<T::Key>) -> usize {
        let (at, same) = self.of_digest(from, sought.digest());
        at + same.partition_point(|item| sought.place_of(item.key()).is_le())
    }

    /// The items from a place on with this digest, and where they begin.
    fn of_digest(&self, from: usize, digest: DigestOf<T>) -> (usize, &[T]) {
        let at = from + self.digests[from..].partition_point(|other| *other < digest);
        let same = self.digests[at..]
            .iter()
            .take_while(|other| **other == digest);
        (at, &self.items[at..at + same.count()])
    }
}
