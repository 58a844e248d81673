//! The state of an etcd, into a file.
//!
//! What is written is what etcd 3.5 wrote: later ones take it as it is and bring it up to their own schema when they
//! start with it, so that a snapshot serves all of them.

use super::records::{LeaseRecord, MemberRecord, RoleRecord, UserRecord};
use super::revision::Revision;
use super::{
    ALARM, AUTH, AUTH_ENABLED, AUTH_REVISION, AUTH_ROLES, AUTH_USERS, CLUSTER, CONF_STATE,
    CONSISTENT_INDEX, FINISHED_COMPACTION, KEY, LEASE, MEMBERS, MEMBERS_REMOVED, META,
    SCHEDULED_COMPACTION, TERM,
};
use crate::bolt::DatabaseWriter;
use crate::error::FileError;
use prost::Message;
use quorate_etcd_api::etcdserverpb::AlarmMember;
use quorate_etcd_api::mvccpb::KeyValue;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};

/// A state that is being written: first all versions of keys, then the rest.
#[derive(Debug)]
pub struct StateWriter<W> {
    database: DatabaseWriter<W>,
    value: Vec<u8>,
}

/// What a state holds besides keys.
#[derive(Clone, Default, Debug)]
pub struct StateRest {
    /// The place in the log up to which everything is in it, 1 at least.
    pub consistent_index: u64,
    /// The term of that place, 1 at least.
    pub term: u64,
    /// The revision before which history is forgotten; less than 1 for none.
    pub compacted: i64,
    /// All leases, in any order.
    pub leases: Vec<LeaseRecord>,
    /// Whether users have to say who they are.
    pub auth_enabled: bool,
    /// The revision of users and roles; 0 where there never were any.
    pub auth_revision: u64,
    /// All users, in any order.
    pub users: Vec<UserRecord>,
    /// All roles, in any order.
    pub roles: Vec<RoleRecord>,
    /// The members of the cluster.
    pub members: Vec<MemberRecord>,
    /// The alarms that are raised, in any order.
    pub alarms: Vec<AlarmMember>,
}

/// Who votes, as raft's library has it in JSON.
#[derive(Serialize)]
struct ConfState {
    voters: Vec<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    learners: Vec<u64>,
    auto_leave: bool,
}

impl<W: Write + Seek> StateWriter<W> {
    /// Begins a file at the beginning of `out`.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(out: W) -> Result<Self, FileError> {
        let mut database = DatabaseWriter::new(out)?;
        database.bucket(KEY)?;
        let value = Vec::new();
        Ok(StateWriter { database, value })
    }

    /// Adds a version of a key, behind all before it.
    ///
    /// # Errors
    /// That it is out of order, or what the operating system says.
    pub fn key(
        &mut self,
        revision: Revision,
        is_deletion: bool,
        kv: &KeyValue,
    ) -> Result<(), FileError> {
        self.value.clear();
        kv.encode(&mut self.value)
            .expect("a vector takes everything");
        self.database
            .put(&revision.to_bytes(is_deletion), &self.value)
    }

    /// Adds everything else, and ends the file; says how many bytes it has.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn finish(mut self, rest: &StateRest) -> Result<(W, u64), FileError> {
        self.meta(rest)?;
        let leases = rest.leases.iter();
        self.records(
            LEASE,
            leases.map(|lease| (lease.id.to_be_bytes().to_vec(), lease)),
        )?;
        self.database.bucket(AUTH)?;
        if rest.auth_revision > 0 {
            let enabled = u8::from(rest.auth_enabled);
            self.database.put(AUTH_ENABLED, &[enabled])?;
            let revision = rest.auth_revision.to_be_bytes();
            self.database.put(AUTH_REVISION, &revision)?;
        }
        self.records(
            AUTH_USERS,
            rest.users.iter().map(|user| (user.name.to_vec(), user)),
        )?;
        self.records(
            AUTH_ROLES,
            rest.roles.iter().map(|role| (role.name.to_vec(), role)),
        )?;
        self.database.bucket(MEMBERS)?;
        let members: BTreeMap<String, &MemberRecord> = (rest.members.iter())
            .map(|member| (format!("{:x}", member.id), member))
            .collect();
        for (id, member) in members {
            self.database.put(id.as_bytes(), &json(member)?)?;
        }
        for empty in [MEMBERS_REMOVED, CLUSTER] {
            self.database.bucket(empty)?;
        }
        self.database.bucket(ALARM)?;
        let alarms: BTreeSet<Vec<u8>> = rest.alarms.iter().map(Message::encode_to_vec).collect();
        for alarm in alarms {
            self.database.put(&alarm, &[])?;
        }
        self.database.finish()
    }

    fn meta(&mut self, rest: &StateRest) -> Result<(), FileError> {
        let voting = |votes: bool| {
            let members = rest
                .members
                .iter()
                .filter(move |member| member.is_learner != votes);
            members.map(|member| member.id).collect::<Vec<u64>>()
        };
        let state = ConfState {
            voters: voting(true),
            learners: voting(false),
            auto_leave: false,
        };
        let mut meta = BTreeMap::from([
            (
                CONSISTENT_INDEX,
                rest.consistent_index.max(1).to_be_bytes().to_vec(),
            ),
            (TERM, rest.term.max(1).to_be_bytes().to_vec()),
            (CONF_STATE, json(&state)?),
        ]);
        if rest.compacted > 0 {
            let main = rest.compacted;
            let revision = Revision { main, sub: 0 }.to_bytes(false);
            meta.insert(SCHEDULED_COMPACTION, revision.clone());
            meta.insert(FINISHED_COMPACTION, revision);
        }
        self.database.bucket(META)?;
        for (key, value) in meta {
            self.database.put(key, &value)?;
        }
        Ok(())
    }

    /// Writes a bucket of records, which it sorts.
    fn records<'a, M: Message + 'a>(
        &mut self,
        bucket: &[u8],
        records: impl Iterator<Item = (Vec<u8>, &'a M)>,
    ) -> Result<(), FileError> {
        let sorted: BTreeMap<Vec<u8>, &M> = records.collect();
        self.database.bucket(bucket)?;
        for (key, record) in sorted {
            self.database.put(&key, &record.encode_to_vec())?;
        }
        Ok(())
    }
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, FileError> {
    serde_json::to_vec(value).map_err(FileError::damaged)
}
