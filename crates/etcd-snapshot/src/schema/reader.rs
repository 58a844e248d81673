//! The state of an etcd, out of a file.

use super::records::{LeaseRecord, MemberRecord, RoleRecord, UserRecord};
use super::revision::Revision;
use super::{
    ALARM, AUTH, AUTH_ENABLED, AUTH_REVISION, AUTH_ROLES, AUTH_USERS, CONSISTENT_INDEX,
    FINISHED_COMPACTION, KEY, LEASE, MEMBERS, META, SCHEDULED_COMPACTION, STORAGE_VERSION, TERM,
};
use crate::bolt::Database;
use crate::error::FileError;
use crate::sha256::{DIGEST_BYTES, Sha256};
use crate::source::Source;
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::AlarmMember;
use quorate_etcd_api::mvccpb::KeyValue;

/// Bytes that are digested at a time.
const DIGESTED_BYTES: usize = 1 << 20;
/// A snapshot with a digest is so much longer than a multiple of this: the least that a page can be.
const SECTOR_BYTES: u64 = 512;

/// A file with an etcd's state.
#[derive(Debug)]
pub struct StateReader<S> {
    database: Database<S>,
}

/// What a state says of itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Summary {
    /// The place in the log up to which everything is in it.
    pub consistent_index: u64,
    /// The term of that place.
    pub term: u64,
    /// The revision before which history is forgotten, or about to be; 0 for none.
    pub compacted: i64,
    /// The version of etcd whose schema it is; empty for 3.5 and before.
    pub storage_version: String,
    /// Whether users have to say who they are.
    pub auth_enabled: bool,
    /// The revision of users and roles.
    pub auth_revision: u64,
}

/// One version of a key.
#[derive(Clone, PartialEq, Debug)]
pub struct KeyRecord {
    /// The change that made the version.
    pub revision: Revision,
    /// Whether the change deleted the key.
    pub is_deletion: bool,
    /// The key and, unless it was deleted, everything else.
    pub kv: KeyValue,
}

impl<S: Source> StateReader<S> {
    /// Opens a snapshot as `etcdctl snapshot save` writes them, and checks its digest.
    ///
    /// # Errors
    /// That the digest is missing or another one, or what is wrong with the file.
    pub fn open_snapshot(source: S) -> Result<Self, FileError> {
        let end = source.bytes();
        let digest_bytes = DIGEST_BYTES as u64;
        if end % SECTOR_BYTES != digest_bytes {
            return Err(FileError::damaged(
                "it has no digest at its end: it was cut short, or is a copy out of a data folder, which has none",
            ));
        }
        let mut digest = Sha256::default();
        let mut part = vec![0; DIGESTED_BYTES];
        let mut offset = 0;
        while offset < end - digest_bytes {
            let len = (end - digest_bytes - offset).min(DIGESTED_BYTES as u64);
            let part = &mut part[..len as usize];
            source.read_at(offset, part)?;
            digest.update(part);
            offset += len;
        }
        let mut expected = [0; DIGEST_BYTES];
        source.read_at(offset, &mut expected)?;
        if digest.finish() != expected {
            return Err(FileError::damaged(
                "its digest does not match: it is not what the server sent",
            ));
        }
        StateReader::open(source)
    }

    /// Opens a file without a digest, or without checking it: an etcd's `member/snap/db`.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(source: S) -> Result<Self, FileError> {
        let database = Database::open(source)?;
        Ok(StateReader { database })
    }

    /// Bytes of the database.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.database.bytes()
    }

    /// What the state says of itself.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn summary(&self) -> Result<Summary, FileError> {
        let mut found = Summary::default();
        self.each(META, |key, value| {
            match &key[..] {
                CONSISTENT_INDEX => found.consistent_index = number(key, value)?,
                TERM => found.term = number(key, value)?,
                FINISHED_COMPACTION | SCHEDULED_COMPACTION => {
                    let revision = Revision::from_bytes(value);
                    let (revision, _) = revision.ok_or_else(|| unreadable("meta", key))?;
                    found.compacted = found.compacted.max(revision.main);
                }
                STORAGE_VERSION => {
                    found.storage_version = String::from_utf8_lossy(value).into_owned();
                }
                _ => {}
            }
            Ok::<_, FileError>(())
        })?;
        self.each(AUTH, |key, value| {
            match &key[..] {
                AUTH_ENABLED => found.auth_enabled = value[..] == [1],
                AUTH_REVISION => found.auth_revision = number(key, value)?,
                _ => {}
            }
            Ok::<_, FileError>(())
        })?;
        Ok(found)
    }

    /// Visits every version of every key, in the order in which they were made.
    ///
    /// # Errors
    /// What is damaged, or what `visit` says.
    pub fn each_key<E: From<FileError>>(
        &self,
        mut visit: impl FnMut(KeyRecord) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(KEY, |key, value| {
            let found = Revision::from_bytes(key);
            let (revision, is_deletion) = found.ok_or_else(|| unreadable("key", key))?;
            let kv = KeyValue::decode(value.clone()).map_err(|_| unreadable("key", key))?;
            visit(KeyRecord {
                revision,
                is_deletion,
                kv,
            })
        })
    }

    /// All leases, ascending by number taken as unsigned.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn leases(&self) -> Result<Vec<LeaseRecord>, FileError> {
        self.records("lease", LEASE)
    }

    /// All users, ascending by name.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn users(&self) -> Result<Vec<UserRecord>, FileError> {
        self.records("authUsers", AUTH_USERS)
    }

    /// All roles, ascending by name.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn roles(&self) -> Result<Vec<RoleRecord>, FileError> {
        self.records("authRoles", AUTH_ROLES)
    }

    /// The members of the cluster that the state was of.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn members(&self) -> Result<Vec<MemberRecord>, FileError> {
        let mut members = Vec::new();
        self.each(MEMBERS, |key, value| {
            let member = serde_json::from_slice(value);
            members.push(member.map_err(|_| unreadable("members", key))?);
            Ok::<_, FileError>(())
        })?;
        Ok(members)
    }

    /// The alarms that were raised, ascending by member.
    ///
    /// # Errors
    /// The part of the file that is damaged.
    pub fn alarms(&self) -> Result<Vec<AlarmMember>, FileError> {
        let mut alarms = Vec::new();
        self.each(ALARM, |key, _| {
            let alarm = AlarmMember::decode(key.clone());
            alarms.push(alarm.map_err(|_| unreadable("alarm", key))?);
            Ok::<_, FileError>(())
        })?;
        alarms.sort_unstable_by_key(|alarm| (alarm.member_id, alarm.alarm));
        Ok(alarms)
    }

    fn records<M: Message + Default>(
        &self,
        name: &str,
        bucket: &[u8],
    ) -> Result<Vec<M>, FileError> {
        let mut found = Vec::new();
        self.each(bucket, |key, value| {
            found.push(M::decode(value.clone()).map_err(|_| unreadable(name, key))?);
            Ok::<_, FileError>(())
        })?;
        Ok(found)
    }

    /// Visits a bucket. One that is not there has nothing in it.
    fn each<E: From<FileError>>(
        &self,
        bucket: &[u8],
        visit: impl FnMut(&Bytes, &Bytes) -> Result<(), E>,
    ) -> Result<(), E> {
        match self.database.bucket(bucket)? {
            Some(bucket) => self.database.each(&bucket, visit),
            None => Ok(()),
        }
    }
}

fn number(key: &[u8], value: &[u8]) -> Result<u64, FileError> {
    let bytes: Result<[u8; 8], _> = value.try_into();
    bytes
        .map(u64::from_be_bytes)
        .map_err(|_| unreadable("meta", key))
}

fn unreadable(bucket: &str, key: &[u8]) -> FileError {
    let key = key[..key.len().min(SHOWN_BYTES_MAX)].escape_ascii();
    FileError::Damaged(format!(
        "the record of {key} in bucket {bucket} cannot be read"
    ))
}

/// Bytes of a key that a message shows.
const SHOWN_BYTES_MAX: usize = 40;
