//! Taking back a command that was applied ahead of its decision.
//!
//! The history keeps every version anyway, so there is nothing to write down beforehand: what a command
//! changed are the versions of its revision, and the journal names their keys. Nothing of it was freed
//! meanwhile: compaction is never ahead.

use crate::store::{KEY_BYTES, Store, VERSION_BYTES};

impl Store {
    /// Takes back the newest command that was attempted.
    pub(crate) fn take_back_attempt(&mut self) {
        let Some(revision) = self.attempts.pop_back() else {
            return;
        };
        for key in self.journal.take_since(revision + 1) {
            self.take_back_version(&key);
        }
        self.revision = revision;
    }

    fn take_back_version(&mut self, key: &[u8]) {
        let Some(history) = self.keys.get_mut(key) else {
            return;
        };
        let Some(version) = history.pop() else {
            return;
        };
        let before = history.now();
        let lease = before.map_or(0, |before| before.lease);
        match (version.is_live(), before.is_some()) {
            (true, false) => self.live -= 1,
            (false, true) => self.live += 1,
            _ => {}
        }
        if history.is_empty() {
            self.keys.remove(key);
            self.bytes -= KEY_BYTES + key.len() as u64;
        }
        self.bytes -= VERSION_BYTES + version.value.bytes_held();
        if let Some(reference) = version.value.reference() {
            self.payloads.release(reference.id);
        }
        self.leases.attach(key, version.lease, lease);
    }
}
