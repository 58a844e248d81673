//! What follows from the versions of a store's keys: its journal, the keys of its leases, how many keys are live.

use crate::journal::KeyChange;
use crate::store::Store;

impl Store {
    /// Finds the changes in the versions, and with them everything that follows from versions.
    ///
    /// # Errors
    /// In words, why the versions are no whole state.
    pub(crate) fn index_versions(&mut self) -> Result<(), String> {
        let mut changes = Vec::new();
        for (key, history) in &self.keys {
            if history.is_empty() {
                return Err("the last key has no version".to_owned());
            }
            for version in history.since(self.compacted) {
                changes.push((version.modified, version.sub, key));
            }
            if let Some(present) = history.now() {
                self.live += 1;
                if present.lease != 0 && !self.leases.exists(present.lease) {
                    return Err(format!("a key has lease {}", present.lease));
                }
                self.leases.attach(key, 0, present.lease);
            }
        }
        changes.sort_unstable_by_key(|(revision, sub, _)| (*revision, *sub));
        // The first revision is that of the empty store.
        let mut expected = (self.compacted.max(2), 0);
        // Of a compacted revision that deleted keys nothing need be left.
        let is_over = |(revision, subs): (i64, u32)| subs > 0 || revision == self.compacted;
        for (revision, sub, key) in changes {
            if revision == expected.0 + 1 && is_over(expected) {
                expected = (revision, 0);
            }
            if (revision, sub) != expected {
                return Err(format!("revision {} is not whole", expected.0));
            }
            self.journal.push(KeyChange { revision, sub, key });
            expected.1 += 1;
        }
        let is_whole = expected.0 == self.revision && is_over(expected);
        if !is_whole && self.revision > 1 {
            return Err(format!("revision {} is missing", self.revision));
        }
        Ok(())
    }
}
