//! The versions of one key.

use bytes::Bytes;

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

/// The versions of one key, oldest first. Never empty.
///
/// The vector begins with room for exactly one version: in a store of many keys, most have no more.
#[derive(Debug)]
pub(crate) struct History(Vec<Version>);

impl History {
    /// The history of a key that begins with this version.
    pub(crate) fn new(first: Version) -> Self {
        History(vec![first])
    }

    /// Appends a version; its revision is at least the last one's.
    pub(crate) fn push(&mut self, version: Version) {
        debug_assert!(
            self.0
                .last()
                .is_none_or(|last| { (last.modified, last.sub) < (version.modified, version.sub) })
        );
        self.0.push(version);
    }

    /// The key as of a revision, if it existed.
    pub(crate) fn at(&self, revision: i64) -> Option<&Version> {
        // Reads of the present are the rule: look at the end before searching.
        let last = self.0.last()?;
        let found = if last.modified <= revision {
            last
        } else {
            let after = self.0.partition_point(|v| v.modified <= revision);
            &self.0[after.checked_sub(1)?]
        };
        found.is_live().then_some(found)
    }

    /// The key as it is now, if it exists.
    pub(crate) fn now(&self) -> Option<&Version> {
        self.0.last().filter(|last| last.is_live())
    }

    /// The versions up to a revision, deletions included, oldest first.
    pub(crate) fn until(&self, revision: i64) -> &[Version] {
        &self.0[..self.0.partition_point(|v| v.modified <= revision)]
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
        assert_eq!(history.until(8).len(), 3);
        assert_eq!(history.now().map(|v| v.version), Some(1));
    }
}
