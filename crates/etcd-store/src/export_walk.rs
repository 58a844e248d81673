//! The walk over a store that an export makes, a slice at a time.

use crate::export::{ExportHead, ExportPart, ExportPlace, ExportRest, ExportedVersion};
use crate::history::Version;
use crate::refused::Refused;
use crate::store::Store;
use crate::view::key_value;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::KeyValue;
use std::ops::Bound;

/// Most bytes in one part, but for the last version.
const BYTES_MAX: usize = 1 << 20;
/// Most versions in one part: each may take a search through the whole tree.
const VERSIONS_MAX: usize = 256;

impl Store {
    pub(crate) fn begin_export(&self) -> ExportHead {
        let (revision, compacted) = (self.revision, self.compacted);
        ExportHead {
            revision,
            compacted,
            leases: self.leases.terms().collect(),
            auth: self.auth.exported(),
            rest: ExportRest {
                revision,
                compacted,
                place: ExportPlace::Older(None),
                pin: self.pins.pin(compacted),
            },
        }
    }

    /// The next versions of an export.
    pub(crate) fn export_rest(&self, rest: &ExportRest) -> Result<ExportPart, Refused> {
        if rest.compacted < self.compacted && !self.pins.holds(&rest.pin) {
            return Err(Refused::Compacted);
        }
        if rest.revision > self.revision {
            return Err(Refused::FutureRevision);
        }
        let mut found = Found::default();
        let place = match &rest.place {
            ExportPlace::Older(after) => self.export_older(rest, after.as_ref(), &mut found),
            ExportPlace::Changes(revision, sub) => {
                self.export_changes(rest, (*revision, *sub), &mut found)
            }
        };
        let next = place.map(|place| ExportRest {
            place,
            ..rest.clone()
        });
        let versions = found.versions;
        Ok(ExportPart { versions, next })
    }

    fn export_older(
        &self,
        rest: &ExportRest,
        after: Option<&Bytes>,
        found: &mut Found,
    ) -> Option<ExportPlace> {
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(&after[..]));
        // Before any compaction nothing is older.
        let keys =
            (rest.compacted > 0).then(|| self.keys.range::<[u8], _>((from, Bound::Unbounded)));
        for (passed, (key, history)) in keys.into_iter().flatten().enumerate() {
            let mut kept = history.kept(rest.compacted, rest.revision);
            let older = kept.next().filter(|first| first.modified < rest.compacted);
            if let Some(version) = older {
                found.push(key, version);
            }
            if found.is_full() || passed + 1 >= self.keys_per_slice {
                return Some(ExportPlace::Older(Some(Bytes::copy_from_slice(key))));
            }
        }
        Some(ExportPlace::Changes(rest.compacted.max(0), 0))
    }

    fn export_changes(
        &self,
        rest: &ExportRest,
        (revision, sub): (i64, u32),
        found: &mut Found,
    ) -> Option<ExportPlace> {
        let begun = self.journal.within(revision, sub);
        let changes = begun.chain(self.journal.since(revision + 1));
        for change in changes.take_while(|change| change.revision <= rest.revision) {
            if found.is_full() || found.versions.len() >= self.keys_per_slice {
                return Some(ExportPlace::Changes(change.revision, change.sub));
            }
            let history = self.keys.get(change.key);
            let version = history.and_then(|history| history.change(change.revision, change.sub));
            if let Some((version, _)) = version {
                found.push(change.key, version);
            }
        }
        None
    }
}

/// What was found so far.
#[derive(Default)]
struct Found {
    versions: Vec<ExportedVersion>,
    bytes: usize,
}

impl Found {
    fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX || self.versions.len() >= VERSIONS_MAX
    }

    fn push(&mut self, key: &[u8], version: &Version) {
        self.bytes += size_of::<ExportedVersion>() + key.len() + version.value.len();
        let is_deletion = !version.is_live();
        let kv = match is_deletion {
            true => KeyValue {
                key: Bytes::copy_from_slice(key),
                ..KeyValue::default()
            },
            false => key_value(key, version),
        };
        self.versions.push(ExportedVersion {
            revision: version.modified,
            sub: version.sub,
            is_deletion,
            kv,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use crate::import::StoreImport;
    use quorate_core::{Application, At};
    use quorate_etcd_api::etcdserverpb::{
        CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest,
    };

    fn put(store: &mut Store, key: &str, lease: i64) {
        let request = PutRequest {
            key: Bytes::copy_from_slice(key.as_bytes()),
            value: Bytes::copy_from_slice(store.revision.to_string().as_bytes()),
            lease,
            ..PutRequest::default()
        };
        store.apply(At::default(), &command::encode_put(&request), &[]);
    }

    fn delete_all(store: &mut Store, from: &'static str, to: &'static str) {
        let request = DeleteRangeRequest {
            key: Bytes::from_static(from.as_bytes()),
            range_end: Bytes::from_static(to.as_bytes()),
            prev_kv: false,
        };
        store.apply(At::default(), &command::encode_delete_range(&request), &[]);
    }

    fn compact(store: &mut Store, revision: i64) {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        store.apply(At::default(), &command::encode_compact(&request), &[]);
    }

    /// All versions of an export that has begun, asked for in order.
    fn rest_of(store: &Store, head: &ExportHead) -> Result<Vec<ExportedVersion>, Refused> {
        let (mut all, mut next) = (Vec::new(), Some(head.rest.clone()));
        while let Some(rest) = next {
            let part = store.export_rest(&rest)?;
            assert!(part.versions.len() <= store.keys_per_slice);
            all.extend(part.versions);
            next = part.next;
        }
        all.sort_by_key(|version| (version.revision, version.sub));
        Ok(all)
    }

    /// The store that comes of what another one exports.
    fn imported(store: &Store) -> Store {
        let head = store.begin_export();
        let mut import = StoreImport::default();
        for (id, ttl_s) in &head.leases {
            import.lease(*id, *ttl_s);
        }
        import.auth(head.auth.clone()).unwrap();
        for version in rest_of(store, &head).unwrap() {
            import.add(version).unwrap();
        }
        let (store, notes) = import.finish(head.compacted).unwrap();
        assert_eq!(notes, crate::ImportNotes::default());
        store
    }

    /// Two users, of which one can see some keys; authentication stays off.
    fn with_users(store: &mut Store) {
        let auth = std::sync::Arc::make_mut(&mut store.auth);
        auth.add_user("root", "$2a$04$one", false).unwrap();
        auth.add_user("sensor", "", true).unwrap();
        auth.add_role("reader").unwrap();
        let permission = quorate_etcd_api::authpb::Permission {
            perm_type: 0,
            key: Bytes::from_static(b"a"),
            range_end: Bytes::from_static(b"b"),
        };
        auth.grant_permission("reader", Some(&permission)).unwrap();
        auth.grant_role("sensor", "reader").unwrap();
    }

    /// Keys with history, deletions, leases; some of it compacted.
    fn filled(compacted: i64) -> Store {
        let mut store = Store::new().with_slices_of(3);
        let grant = LeaseGrantRequest { id: 9, ttl: 60 };
        store.apply(At::default(), &command::encode_lease_grant(&grant), &[]);
        for at in 0..10 {
            put(&mut store, &format!("a{at}"), 0);
        }
        put(&mut store, "a3", 9);
        delete_all(&mut store, "a5", "a8");
        put(&mut store, "a6", 0);
        delete_all(&mut store, "a0", "a2");
        put(&mut store, "b", 9);
        with_users(&mut store);
        compact(&mut store, compacted);
        store
    }

    #[test]
    fn what_is_exported_imports_to_an_equal_store() {
        for compacted in [-1, 2, 5, 12, 13, 14, 15, 16] {
            let mut store = filled(compacted);
            for is_tidy in [false, true] {
                while is_tidy && store.tidy() {}
                let mut other = imported(&store);
                assert_eq!(other.hash(0), store.hash(0), "compacted at {compacted}");
                assert_eq!(other.leases.ids(), store.leases.ids());
                assert_eq!(other.lease(9, true).keys, store.lease(9, true).keys);
                assert_eq!(other.revision(), store.revision());
                assert_eq!(other.auth, store.auth);
                put(&mut other, "new", 9);
                assert_eq!(other.revision(), store.revision() + 1);
            }
        }
        assert_eq!(imported(&Store::new()).hash(0), Store::new().hash(0));
    }

    #[test]
    fn what_is_written_and_compacted_meanwhile_changes_nothing() {
        let mut store = filled(5);
        let head = store.begin_export();
        let before = rest_of(&store, &head).unwrap();
        for _ in 0..5 {
            put(&mut store, "a3", 0);
            delete_all(&mut store, "a4", "c");
        }
        let now = store.revision();
        compact(&mut store, now);
        while store.tidy() {}
        assert_eq!(rest_of(&store, &head).unwrap(), before);
        // Another store, as after an installed snapshot, keeps nothing for it.
        let other = imported(&store);
        assert_eq!(rest_of(&other, &head), Err(Refused::Compacted));
        drop(head);
        assert!(!store.is_tidy());
    }
}
