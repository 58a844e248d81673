//! A store out of what another program kept: versions in the order in which they were made.

use crate::auth::{AuthState, ExportedAuth};
use crate::export::ExportedVersion;
use crate::history::{History, Version};
use crate::lease::{LeaseTerms, TTL_S_MAX, TTL_S_MIN};
use crate::store::{KEY_BYTES, Store, VERSION_BYTES};
use crate::stored_value::StoredValue;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A store that is put together.
#[derive(Debug, Default)]
pub struct StoreImport {
    keys: BTreeMap<Box<[u8]>, History>,
    leases: BTreeMap<i64, i64>,
    auth: AuthState,
    /// The change added last.
    last: (i64, u32),
    /// The last revision behind revisions that nothing is known of; 0 for none.
    behind_gap: i64,
}

/// What came out otherwise than it was.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ImportNotes {
    /// Keys whose lease was gone; they have none now.
    pub keys_without_lease: u64,
    /// The revision before which history had to be forgotten, because some of it is missing.
    pub forgotten_before: Option<i64>,
}

impl StoreImport {
    /// Adds a lease.
    pub fn lease(&mut self, id: i64, ttl_s: i64) {
        self.leases.insert(id, ttl_s.clamp(TTL_S_MIN, TTL_S_MAX));
    }

    /// Sets users and roles.
    ///
    /// # Errors
    /// In words, what does not fit together.
    pub fn auth(&mut self, auth: ExportedAuth) -> Result<(), String> {
        self.auth = AuthState::imported(auth)?;
        Ok(())
    }

    /// Adds a version behind all before it. One without a key is the mark that `etcdutl` leaves where revisions went
    /// ahead.
    ///
    /// # Errors
    /// In words, why there can be no such version.
    pub fn add(&mut self, version: ExportedVersion) -> Result<(), String> {
        let ExportedVersion {
            revision,
            sub,
            is_deletion,
            kv,
        } = version;
        let wrong = |why: &str| Err(format!("the change {sub} of revision {revision} {why}"));
        if !(1..REVISION_MAX).contains(&revision) || (revision, sub) <= self.last {
            return wrong("is out of order");
        }
        if revision > self.last.0 + 1 && self.last.0 > 0 {
            self.behind_gap = revision;
        }
        self.last = (revision, sub);
        if kv.key.is_empty() {
            self.behind_gap = revision;
            return Ok(());
        }
        let version = match is_deletion {
            true => Version::deletion(revision, sub),
            false => Version {
                value: StoredValue::copy(&kv.value),
                modified: kv.mod_revision,
                created: kv.create_revision,
                version: kv.version,
                lease: kv.lease,
                sub,
            },
        };
        let is_sound = version.created > 0 && version.created <= revision && version.version > 0;
        if !is_deletion && (version.modified != revision || !is_sound) {
            return wrong("contradicts itself");
        }
        match self.keys.get_mut(&kv.key[..]) {
            Some(history) => history.push(version),
            None => drop(self.keys.insert(kv.key[..].into(), History::new(version))),
        }
        Ok(())
    }

    /// The store, in which history before `compacted` is forgotten; less than 1 for none.
    ///
    /// # Errors
    /// In words, why what was added is no whole state.
    pub fn finish(self, compacted: i64) -> Result<(Store, ImportNotes), String> {
        let mut notes = ImportNotes::default();
        let mut store = Store {
            revision: self.last.0.max(compacted).max(1),
            compacted: if compacted > 0 { compacted } else { -1 },
            auth: Arc::new(self.auth),
            ..Store::default()
        };
        if self.behind_gap > compacted.max(1) + 1 {
            notes.forgotten_before = Some(self.behind_gap);
            store.compacted = self.behind_gap;
        }
        for (renewal, (id, ttl_s)) in (1..).zip(self.leases) {
            store.leases.put_back(id, LeaseTerms { ttl_s, renewal });
            store.leases.set_renewals(renewal);
        }
        let mut keys = self.keys;
        keys.retain(|_, history| {
            history.trim(store.compacted, usize::MAX, |_| {});
            !history.is_empty()
        });
        for (key, history) in &mut keys {
            let lease = history.now().map_or(0, |present| present.lease);
            if lease != 0 && !store.leases.exists(lease) {
                history.drop_lease();
                notes.keys_without_lease += 1;
            }
            store.bytes += KEY_BYTES + key.len() as u64;
            let versions = history.since(i64::MIN);
            let bytes = versions.map(|version| VERSION_BYTES + version.value.bytes_held());
            store.bytes += bytes.sum::<u64>();
        }
        store.keys = keys;
        store.index_versions()?;
        Ok((store, notes))
    }
}

/// Far from where counting on from a revision could overflow.
const REVISION_MAX: i64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_core::Application;
    use quorate_etcd_api::mvccpb::KeyValue;

    fn write(key: &'static str, revision: i64, lease: i64) -> ExportedVersion {
        ExportedVersion {
            revision,
            sub: 0,
            is_deletion: false,
            kv: KeyValue {
                key: Bytes::from_static(key.as_bytes()),
                create_revision: revision,
                mod_revision: revision,
                version: 1,
                value: Bytes::new(),
                lease,
            },
        }
    }

    fn import(
        versions: impl IntoIterator<Item = ExportedVersion>,
        compacted: i64,
    ) -> Result<(Store, ImportNotes), String> {
        let mut import = StoreImport::default();
        for version in versions {
            import.add(version)?;
        }
        import.finish(compacted)
    }

    #[test]
    fn a_key_whose_lease_is_gone_has_none() {
        let (store, notes) = import([write("a", 2, 5)], -1).unwrap();
        assert_eq!(notes.keys_without_lease, 1);
        assert_eq!(store.keys[&b"a"[..]].now().unwrap().lease, 0);
    }

    #[test]
    fn history_before_a_gap_is_forgotten_and_revisions_go_on_behind_it() {
        let mark = ExportedVersion {
            kv: KeyValue::default(),
            ..write("", 1000, 0)
        };
        let marked = [write("a", 2, 0), write("b", 3, 0), mark.clone()];
        let (store, notes) = import(marked.clone(), -1).unwrap();
        assert_eq!((store.revision(), store.compacted), (1000, 1000));
        assert_eq!((notes.forgotten_before, store.live), (Some(1000), 2));
        // As etcdutl leaves it with --mark-compacted, which is nothing to tell people of.
        let (store, notes) = import(marked.clone(), 1000).unwrap();
        assert_eq!((store.revision(), notes), (1000, ImportNotes::default()));
        let more = marked
            .into_iter()
            .chain([write("c", 1001, 0), write("d", 1002, 0)]);
        let (mut store, _) = import(more, -1).unwrap();
        assert_eq!(
            (store.revision(), store.compacted, store.live),
            (1002, 1000, 4)
        );
        // What was imported loads from a snapshot of its own.
        let (mut cut, mut other) = (store.cut(), Store::new());
        while let Some(piece) = store.piece(&mut cut, 1 << 16) {
            other.load(piece).unwrap();
        }
        other.loaded().unwrap();
        assert_eq!(other.hash(0), store.hash(0));
    }

    #[test]
    fn a_compacted_revision_whose_change_is_gone_is_whole() {
        let (store, _) = import([write("a", 2, 0)], 3).unwrap();
        assert_eq!((store.revision(), store.compacted, store.live), (3, 3, 1));
        let (store, _) = import([write("a", 2, 0), write("a", 4, 0)], 3).unwrap();
        assert_eq!((store.revision(), store.compacted), (4, 3));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let out_of_order = import([write("a", 3, 0), write("b", 2, 0)], -1);
        assert!(out_of_order.unwrap_err().contains("out of order"));
        let mut version = write("a", 2, 0);
        version.kv.mod_revision = 3;
        assert!(import([version], -1).unwrap_err().contains("contradicts"));
        let mut second = write("a", 2, 0);
        second.sub = 1;
        assert!(import([second], -1).is_err());
    }
}
