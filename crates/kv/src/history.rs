//! The versions of one key.

use bytes::Bytes;
use std::collections::VecDeque;

/// One version of a key: what one write or deletion left behind.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// The value; empty in a deletion.
    pub(crate) value: Bytes,
    /// Revision of the write.
    pub(crate) modified: i64,
    /// Revision at which the key's life began; 0 in a deletion.
    pub(crate) created: i64,
    /// Writes in the key's life, from 1; 0 in a deletion.
    pub(crate) version: i64,
    /// The lease; 0 for none.
    pub(crate) lease: i64,
    /// Which change within the revision, from 0: the order in which watchers see them.
    pub(crate) sub: u32,
}

impl Version {
    /// A deletion.
    pub(crate) fn deletion(modified: i64, sub: u32) -> Self {
        Version {
            value: Bytes::new(),
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

/// The versions of one key, oldest first. Empty only while the key is about to be forgotten.
///
/// It begins with room for exactly one version: in a store of many keys, most have no more.
/// Compaction takes versions from the front, a few at a time however many there are.
#[derive(Debug)]
pub(crate) struct History(VecDeque<Version>);

impl History {
    /// The history of a key that begins with this version.
    pub(crate) fn new(first: Version) -> Self {
        let mut versions = VecDeque::with_capacity(1);
        versions.push_back(first);
        History(versions)
    }

    /// Appends a version; its revision is at least the last one's.
    pub(crate) fn push(&mut self, version: Version) {
        debug_assert!(
            self.0
                .back()
                .is_none_or(|last| { (last.modified, last.sub) < (version.modified, version.sub) })
        );
        self.0.push_back(version);
    }

    /// The key as of a revision, if it existed.
    pub(crate) fn at(&self, revision: i64) -> Option<&Version> {
        // Reads of the present are the rule: look at the end before searching.
        let last = self.0.back()?;
        let found = if last.modified <= revision {
            last
        } else {
            let after = self.0.partition_point(|v| v.modified <= revision);
            self.0.get(after.checked_sub(1)?)?
        };
        found.is_live().then_some(found)
    }

    /// The key as it is now, if it exists.
    pub(crate) fn now(&self) -> Option<&Version> {
        self.0.back().filter(|last| last.is_live())
    }

    /// The version that a change left behind, and the key before its revision, if it existed.
    pub(crate) fn change(&self, revision: i64, sub: u32) -> Option<(&Version, Option<&Version>)> {
        let place = self
            .0
            .partition_point(|v| (v.modified, v.sub) < (revision, sub));
        let version = self.0.get(place)?;
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
        let place = self.0.partition_point(|v| v.modified < revision);
        (place..self.0.len()).map(move |place| (&self.0[place], self.before(place)))
    }

    /// The key before the revision of a version, for watchers. What the same transaction did to it
    /// earlier does not count, and a write that begins a life has nothing before it: so it is in
    /// etcd.
    fn before(&self, place: usize) -> Option<&Version> {
        let version = self.0.get(place)?;
        if version.is_live() && version.created == version.modified {
            return None;
        }
        let mut earlier = self.0.range(..place).rev();
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
        let until = self.0.partition_point(|v| v.modified <= revision);
        let from = self.first_kept(compacted);
        self.0.range(from.min(until)..until)
    }

    /// Forgets at most `versions_max` versions that do not count; see [`History::kept`]. Returns the
    /// versions forgotten and the bytes of their values.
    pub(crate) fn trim(&mut self, compacted: i64, versions_max: usize) -> (u64, u64) {
        let count = self.first_kept(compacted).min(versions_max);
        let bytes = self
            .0
            .drain(..count)
            .map(|version| version.value.len() as u64);
        let bytes = bytes.sum();
        if self.0.capacity() > 8 && self.0.capacity() / 4 > self.0.len() {
            self.0.shrink_to(self.0.len() * 2);
        }
        (count as u64, bytes)
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn first_kept(&self, compacted: i64) -> usize {
        let from = self.0.partition_point(|v| v.modified < compacted);
        let replaced = (self.0.get(from)).is_some_and(|v| v.modified == compacted);
        match from.checked_sub(1) {
            Some(before) if !replaced && self.0[before].is_live() => before,
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
        assert_eq!(history.trim(7, 1), (1, 0));
        assert_eq!(kept(&history, -1), [5, 7, 9]);
        assert_eq!(history.trim(7, 9), (1, 0));
        assert_eq!(kept(&history, -1), [7, 9]);
    }
}
