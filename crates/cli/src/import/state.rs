//! The state of an etcd as a store.

use crate::progress::Progress;
use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_etcd_api::authpb::Permission;
use quorate_etcd_api::etcdserverpb::{AlarmMember, AlarmType};
use quorate_etcd_snapshot::{FileError, KeyRecord, RoleRecord, Source, StateReader, UserRecord};
use quorate_etcd_store::{
    ExportedAuth, ExportedRole, ExportedUser, ExportedVersion, ImportNotes, Store, StoreImport,
};
use quorate_server::{Alarm, AlarmKind};

/// A store that was imported, and what there is to say of it.
pub(super) struct Imported {
    pub(super) store: Store,
    pub(super) notes: ImportNotes,
    pub(super) leases: usize,
    pub(super) users: usize,
    pub(super) alarms: Vec<Alarm>,
}

/// Reads all that a cluster can begin with.
pub(super) fn read_state<S: Source>(
    reader: &StateReader<S>,
    progress: &Progress,
) -> Result<Imported, FileError> {
    let summary = reader.summary()?;
    let mut import = StoreImport::default();
    let auth = ExportedAuth {
        enabled: summary.auth_enabled,
        revision: summary.auth_revision,
        users: reader.users()?.into_iter().map(user).collect(),
        roles: reader.roles()?.into_iter().map(role).collect(),
    };
    let users = auth.users.len();
    import.auth(auth).map_err(FileError::Damaged)?;
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
    let alarms = reader.alarms()?.into_iter().filter_map(alarm).collect();
    Ok(Imported {
        store,
        notes,
        leases: leases.len(),
        users,
        alarms,
    })
}

/// An alarm that all members of the new cluster have, whichever had it before.
fn alarm(raised: AlarmMember) -> Option<Alarm> {
    let kind = match AlarmType::try_from(raised.alarm) {
        Ok(AlarmType::Nospace) => AlarmKind::NoSpace,
        Ok(AlarmType::Corrupt) => AlarmKind::Corrupt,
        Ok(AlarmType::None) | Err(_) => return None,
    };
    let id = ReplicaId(u16::try_from(raised.member_id).unwrap_or(NO_MEMBER));
    Some(Alarm { kind, id })
}

/// In the place of members whose numbers only an etcd has.
const NO_MEMBER: u16 = 0;

fn user(record: UserRecord) -> ExportedUser {
    ExportedUser {
        name: text(&record.name),
        password: text(&record.password),
        no_password: record.options.is_some_and(|options| options.no_password),
        roles: record.roles,
    }
}

fn role(record: RoleRecord) -> ExportedRole {
    let permissions = record.permissions.into_iter().map(|one| Permission {
        perm_type: one.kind,
        // A slice of a page would keep the whole page.
        key: Bytes::copy_from_slice(&one.key),
        range_end: Bytes::copy_from_slice(&one.range_end),
    });
    ExportedRole {
        name: text(&record.name),
        permissions: permissions.collect(),
    }
}

/// etcd has names as bytes, and takes texts for them.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
