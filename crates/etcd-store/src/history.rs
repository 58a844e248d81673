//! The versions of one key.

use crate::stored_value::StoredValue;
use std::collections::VecDeque;
use std::ops::Range;

/// One version of a key: what one write or deletion left behind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The value; empty in a deletion.
    pub(crate) value: StoredValue,
    /// Revision of the write.
    pub(crate) modified: i64,
    /// Revision at which the key's life began; 0 in a deletion.
    pub(crate) created: i64,
    /// Writes in the key's life, from 1; 0 in a deletion.
    pub(crate) version: i64,
    /// The lease; 0 for none.
    pub(crate) lease: i64,
    /// The change's place within the revision, from 0: the order in which watchers see changes.
    pub(crate) sub: u32,
}

impl Version {
    /// The version that a deletion leaves behind.
    pub(crate) fn deletion(modified: i64, sub: u32) -> Self {
        Version {
            value: StoredValue::default(),
            modified,
            created: 0,
            version: 0,
            lease: 0,
            sub,
        }
    }

    /// Whether the key exists after this version.
    pub(crate) fn is_live(&self) -> bool {
        self.version > 0
    }
}

/// The versions of one key, oldest first. Empty only while the key is about to be forgotten, or
/// before it is loaded.
///
/// In a store of many keys, most have one version: it takes no more than it needs. Compaction takes
/// versions from the front, a few at a time however many there are.
#[derive(Debug)]
#[allow(
    clippy::box_collection,
    reason = "the second box keeps the tree's entries at half their size"
)]
pub(crate) enum History {
    Empty,
    One(Box<Version>),
    Many(Box<VecDeque<Version>>),
}

impl History {
    /// The history of a key that begins with this version.
    pub(crate) fn new(first: Version) -> Self {
        History::One(Box::new(first))
    }

    /// Appends a version; its revision is at least the last one's.
    pub(crate) fn push(&mut self, version: Version) {
        debug_assert!(
            self.last()
                .is_none_or(|last| { (last.modified, last.sub) < (version.modified, version.sub) })
        );
        *self = match std::mem::replace(self, History::Empty) {
            History::Empty => History::new(version),
            History::One(first) => History::Many(Box::new([*first, version].into())),
            History::Many(mut versions) => {
                versions.push_back(version);
                History::Many(versions)
            }
        };
    }

    /// The key as of a revision, if it existed.
    pub(crate) fn at(&self, revision: i64) -> Option<&Version> {
        // Reads of the present are the rule: look at the end before searching.
        let last = self.last()?;
        let found = if last.modified <= revision {
            last
        } else {
            let after = self.partition_point(|v| v.modified <= revision);
            self.get(after.checked_sub(1)?)?
        };
        found.is_live().then_some(found)
    }

    /// The key as it is now, if it exists.
    pub(crate) fn now(&self) -> Option<&Version> {
        self.last().filter(|last| last.is_live())
    }

    /// The version that a change left behind, and the key before its revision, if it existed.
    pub(crate) fn change(&self, revision: i64, sub: u32) -> Option<(&Version, Option<&Version>)> {
        let place = self.partition_point(|v| (v.modified, v.sub) < (revision, sub));
        let version = self.get(place)?;
        if (version.modified, version.sub) != (revision, sub) {
            return None;
        }
        Some((version, self.before(place)))
    }

    /// The versions from a revision on, oldest first, each with the key before its revision, if it
    /// existed.
    pub(crate) fn changes_since(
        &self,
        revision: i64,
    ) -> impl Iterator<Item = (&Version, Option<&Version>)> {
        let place = self.partition_point(|v| v.modified < revision);
        self.range(place..self.len())
            .zip(place..)
            .map(|(version, place)| (version, self.before(place)))
    }

    /// The key before the revision of a version, for watchers. What the same transaction did to it
    /// earlier does not count, and a write that begins a life has nothing before it: so it is in
    /// etcd.
    fn before(&self, place: usize) -> Option<&Version> {
        let version = self.get(place)?;
        if version.is_live() && version.created == version.modified {
            return None;
        }
        let mut earlier = (0..place).rev().filter_map(|place| self.get(place));
        let before = earlier.find(|v| v.modified < version.modified)?;
        Some(before).filter(|before| before.is_live())
    }

    /// The versions that count once everything before revision `compacted` is forgotten, up to
    /// `revision`: those from `compacted` on, and what was there when it came. A deletion at
    /// `compacted` itself counts: whoever watches from there has to see it.
    pub(crate) fn kept(
        &self,
        compacted: i64,
        revision: i64,
    ) -> impl ExactSizeIterator<Item = &Version> {
        let until = self.partition_point(|v| v.modified <= revision);
        let from = self.first_kept(compacted);
        self.range(from.min(until)..until)
    }

    /// The versions of [`History::kept`] after the one of a revision and a place within it.
    pub(crate) fn kept_after(
        &self,
        compacted: i64,
        revision: i64,
        after: (i64, u32),
    ) -> impl ExactSizeIterator<Item = &Version> {
        let until = self.partition_point(|v| v.modified <= revision);
        let done = self.partition_point(|v| (v.modified, v.sub) <= after);
        let from = self.first_kept(compacted).max(done);
        self.range(from.min(until)..until)
    }

    /// The versions from a revision on, oldest first.
    pub(crate) fn since(&self, revision: i64) -> impl Iterator<Item = &Version> {
        let place = self.partition_point(|v| v.modified < revision);
        self.range(place..self.len())
    }

    /// Forgets at most `versions_max` versions that do not count, each after it was visited; see
    /// [`History::kept`].
    pub(crate) fn trim(
        &mut self,
        compacted: i64,
        versions_max: usize,
        visit: impl FnMut(&Version),
    ) {
        let count = self.first_kept(compacted).min(versions_max);
        self.range(0..count).for_each(visit);
        self.forget(count);
    }

    /// Takes the last version away.
    pub(crate) fn pop(&mut self) -> Option<Version> {
        let (last, rest) = match std::mem::replace(self, History::Empty) {
            History::Empty => (None, History::Empty),
            History::One(version) => (Some(*version), History::Empty),
            History::Many(mut versions) => {
                let last = versions.pop_back();
                let rest = match versions.len() {
                    1 => versions.pop_back().map_or(History::Empty, History::new),
                    _ => History::Many(versions),
                };
                (last, rest)
            }
        };
        *self = rest;
        last
    }

    /// The last version has no lease from now on.
    pub(crate) fn drop_lease(&mut self) {
        let last = match self {
            History::Empty => None,
            History::One(version) => Some(&mut **version),
            History::Many(versions) => versions.back_mut(),
        };
        if let Some(last) = last {
            last.lease = 0;
        }
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The last version.
    pub(crate) fn last(&self) -> Option<&Version> {
        match self {
            History::Empty => None,
            History::One(version) => Some(version),
            History::Many(versions) => versions.back(),
        }
    }

    /// Forgets the first versions, and gives memory back when much of it is unused.
    fn forget(&mut self, count: usize) {
        match self {
            History::Many(versions) => {
                versions.drain(..count);
                if versions.len() == 1 {
                    let last = versions.pop_back();
                    *self = last.map_or(History::Empty, History::new);
                } else if versions.capacity() > 8 && versions.capacity() / 4 > versions.len() {
                    versions.shrink_to(versions.len() * 2);
                }
            }
            History::One(_) if count > 0 => *self = History::Empty,
            History::One(_) | History::Empty => {}
        }
    }

    fn len(&self) -> usize {
        match self {
            History::Empty => 0,
            History::One(_) => 1,
            History::Many(versions) => versions.len(),
        }
    }

    fn get(&self, place: usize) -> Option<&Version> {
        match self {
            History::One(version) if place == 0 => Some(version),
            History::Many(versions) => versions.get(place),
            History::Empty | History::One(_) => None,
        }
    }

    /// How many of the first versions are before a place in the history.
    fn partition_point(&self, before: impl Fn(&Version) -> bool) -> usize {
        match self {
            History::Empty => 0,
            History::One(version) => usize::from(before(version)),
            History::Many(versions) => versions.partition_point(before),
        }
    }

    /// The versions at some places, all of which exist.
    fn range(&self, places: Range<usize>) -> impl ExactSizeIterator<Item = &Version> {
        let version = |place| self.get(place).expect("only places there are");
        places.map(version)
    }

    fn first_kept(&self, compacted: i64) -> usize {
        let from = self.partition_point(|v| v.modified < compacted);
        let replaced = (self.get(from)).is_some_and(|v| v.modified == compacted);
        match from.checked_sub(1) {
            Some(before) if !replaced && self.get(before).is_some_and(Version::is_live) => before,
            _ => from,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_written_at_3_and_5_deleted_at_7_written_at_9() {
        let write = |modified, created, version| Version {
            version,
            created,
            ..Version::deletion(modified, 0)
        };
        let mut history = History::new(write(3, 3, 1));
        history.push(write(5, 3, 2));
        history.push(Version::deletion(7, 0));
        history.push(write(9, 9, 1));

        let seen: Vec<_> = (2..=10)
            .map(|revision| history.at(revision).map_or(0, |v| v.modified))
            .collect();
        assert_eq!(seen, [0, 3, 3, 5, 5, 0, 0, 9, 9]);
        assert_eq!(history.now().map(|v| v.version), Some(1));

        let kept = |history: &History, compacted| -> Vec<i64> {
            history.kept(compacted, 9).map(|v| v.modified).collect()
        };
        for (compacted, expected) in [
            (-1, &[3, 5, 7, 9][..]),
            (3, &[3, 5, 7, 9]),
            (4, &[3, 5, 7, 9]),
            (5, &[5, 7, 9]),
            (6, &[5, 7, 9]),
            (7, &[7, 9]),
            (8, &[9]),
            (10, &[9]),
        ] {
            assert_eq!(kept(&history, compacted), expected);
        }
        assert_eq!(history.kept(5, 8).len(), 2);
        assert_eq!(history.kept(8, 7).len(), 0);
        let mut forgotten = Vec::new();
        history.trim(7, 1, |version| forgotten.push(version.modified));
        assert_eq!(kept(&history, -1), [5, 7, 9]);
        history.trim(7, 9, |version| forgotten.push(version.modified));
        assert_eq!(forgotten, [3, 5]);
        assert_eq!(kept(&history, -1), [7, 9]);
    }
}
