//! The state of an etcd as a store.

use super::progress::Progress;
use quorate_etcd_snapshot::{FileError, KeyRecord, Source, StateReader};
use quorate_etcd_store::{ExportedVersion, ImportNotes, Store, StoreImport};

/// A store that was imported, and what there is to say of it.
pub(super) struct Imported {
    pub(super) store: Store,
    pub(super) notes: ImportNotes,
    pub(super) leases: usize,
}

/// Reads all that a cluster can begin with.
pub(super) fn read_state<S: Source>(
    reader: &StateReader<S>,
    progress: &Progress,
) -> Result<Imported, FileError> {
    let summary = reader.summary()?;
    if summary.auth_enabled || !reader.users()?.is_empty() {
        return Err(FileError::Damaged(
            "it has users, which this program does not import: disable and delete them first"
                .to_owned(),
        ));
    }
    let mut import = StoreImport::default();
    let leases = reader.leases()?;
    for lease in &leases {
        import.lease(lease.id, lease.ttl_s);
    }
    let mut bytes = 0;
    reader.each_key(|record| {
        let KeyRecord {
            revision,
            is_deletion,
            kv,
        } = record;
        bytes += (kv.key.len() + kv.value.len()) as u64;
        progress.read(bytes);
        let sub =
            u32::try_from(revision.sub).map_err(|error| FileError::Damaged(error.to_string()))?;
        let version = ExportedVersion {
            revision: revision.main,
            sub,
            is_deletion,
            kv,
        };
        import.add(version).map_err(FileError::Damaged)
    })?;
    let (store, notes) = import
        .finish(summary.compacted)
        .map_err(FileError::Damaged)?;
    Ok(Imported {
        store,
        notes,
        leases: leases.len(),
    })
}
