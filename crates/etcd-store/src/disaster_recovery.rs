//! Changes by hand, to the store that a cluster begins anew with after a disaster.

use crate::store::Store;
use crate::value_refs::PayloadParts;
use quorate_core::PayloadId;
use quorate_etcd_api::etcdserverpb::{CompactionRequest, DeleteRangeRequest, PutRequest};
use std::collections::BTreeSet;

/// A version of a key whose value is lost.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct UnreadableVersion {
    /// The key of the version.
    pub key: Vec<u8>,
    /// The revision that wrote it.
    pub revision: i64,
    /// Whether it is the key's present value.
    pub is_present: bool,
}

/// A key of which watchers may see a deletion at the revision from which the new cluster goes on.
const MARK: &[u8] = b"\0quorate/revisions-went-ahead";
/// The number of revisions that the mark takes.
const MARK_REVISIONS: u64 = 2;

impl Store {
    /// The versions whose values are these payloads, by key and revision.
    #[must_use]
    pub fn versions_of(&self, payloads: &BTreeSet<PayloadId>) -> Vec<UnreadableVersion> {
        let mut found = Vec::new();
        for (key, history) in &self.keys {
            let present = history.now().map(|version| (version.modified, version.sub));
            let of_payload = history.since(i64::MIN).filter(|version| {
                let reference = version.value.reference();
                reference.is_some_and(|reference| payloads.contains(&reference.id))
            });
            found.extend(of_payload.map(|version| UnreadableVersion {
                key: key.to_vec(),
                revision: version.modified,
                is_present: present == Some((version.modified, version.sub)),
            }));
        }
        found
    }

    /// Deletes these keys, and forgets all history before that: so nothing refers to what they held.
    pub fn give_up(&mut self, keys: &BTreeSet<Vec<u8>>) {
        for key in keys {
            let request = DeleteRangeRequest {
                key: key.clone().into(),
                ..DeleteRangeRequest::default()
            };
            self.delete_range(&request)
                .expect("a key that is there can be deleted");
        }
        self.forget_history();
    }

    /// Goes so many revisions ahead, and forgets all history: whoever knows a revision of the future of
    /// which this store is the past reads nothing else under its number, and watchers notice. Says
    /// whether there are so many revisions.
    #[must_use]
    pub fn bump_revision(&mut self, by: u64) -> bool {
        let revision = self.revision.checked_add_unsigned(by);
        let Some(revision) = revision.filter(|_| by >= MARK_REVISIONS) else {
            return false;
        };
        // Every revision has a change: the last one is that of a mark that comes and goes.
        self.revision = revision - MARK_REVISIONS.cast_signed();
        let put = PutRequest {
            key: MARK.into(),
            ..PutRequest::default()
        };
        self.execute_put(&put);
        self.give_up(&BTreeSet::from([MARK.to_vec()]));
        true
    }

    fn execute_put(&mut self, put: &PutRequest) {
        let put = self.put(put, &mut PayloadParts::none());
        put.expect("a key without a lease can be put");
    }

    fn forget_history(&mut self) {
        let request = CompactionRequest {
            revision: self.revision,
            physical: true,
        };
        // All of it is forgotten already, if that is refused.
        let _ = self.compact(&request);
        while self.free(usize::MAX) {}
    }
}
