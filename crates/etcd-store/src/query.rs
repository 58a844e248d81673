//! What can be asked of the store, and what it answers.

use crate::auth::{Asker, AuthBoard, Login};
use crate::cursor::{RangeChunk, RangeCursor};
use crate::events::{Events, EventsQuery};
use crate::export::{ExportHead, ExportPart, ExportRest};
use crate::hash::HashRest;
use crate::lease::LeaseInfo;
use crate::pending_values::PendingResponse;
use crate::refused::Refused;
use crate::slice::{LargeRead, RangePart, RangeRest};
use quorate_etcd_api::authpb::Permission;
use quorate_etcd_api::etcdserverpb::{RangeRequest, RangeResponse, TxnRequest, TxnResponse};
use std::sync::Arc;

/// What can be read from a store.
#[derive(Clone, PartialEq, Debug)]
pub enum Query {
    /// Read a key or a range of keys.
    Range(RangeRequest),
    /// A transaction that only reads ([`crate::check::is_read_only`]); others are refused.
    Txn(TxnRequest),
    /// What [`LargeRead::next`] asks.
    RangeRest(RangeRest),
    /// The next chunk of a range.
    RangeChunk(Box<RangeCursor>),
    /// A digest of everything up to a revision. Walks the whole store.
    HashKv {
        /// The last revision to count; 0 for now.
        revision: i64,
    },
    /// The rest of a digest.
    HashRest(Box<HashRest>),
    /// Read changes from a revision on.
    Events(EventsQuery),
    /// Nobody reads all changes any more ([`crate::Keys::All`]).
    Unwatch,
    /// Read what is known of a lease.
    Lease {
        /// The number of the lease.
        id: i64,
        /// Whether its keys are wanted, too.
        keys: bool,
    },
    /// The numbers of all leases.
    Leases,
    /// Read figures about the store.
    Status,
    /// Begin to read everything that counts ([`ExportHead`]).
    Export,
    /// Read on in an export: what its head or the part before says.
    ExportRest(Box<ExportRest>),
    /// How many operations were applied here.
    Operations,
    /// Read users and roles.
    Auth(AuthQuery),
    /// Read what a password is to be checked against.
    Login {
        /// The name of the user.
        name: String,
    },
    /// Get the board of this replica.
    Board,
    /// Another query, by whoever asks.
    Asked(Box<AskedQuery>),
}

/// A query and who asks it.
#[derive(Clone, PartialEq, Debug)]
pub struct AskedQuery {
    /// Whoever needs the right to it.
    pub asker: Asker,
    /// What is to be read.
    pub query: Query,
}

impl Query {
    /// Makes somebody ask the query. Where nobody has to show who it is, it stays as it is.
    #[must_use]
    pub fn by(self, asker: &Asker) -> Query {
        match asker {
            Asker::Anybody => self,
            asker => Query::Asked(Box::new(AskedQuery {
                asker: asker.clone(),
                query: self,
            })),
        }
    }
}

/// What can be read of users and roles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthQuery {
    /// Whether authentication is on.
    Status,
    /// The roles of the user with this name.
    User(String),
    /// The names of all users.
    Users,
    /// The permissions of the role with this name.
    Role(String),
    /// The names of all roles.
    Roles,
}

/// The answer to an [`AuthQuery`].
#[derive(Clone, PartialEq, Debug)]
pub enum AuthAnswer {
    /// Whether authentication is on, and the auth revision.
    Status(bool, u64),
    /// Names of users or roles, ascending.
    Names(Vec<String>),
    /// The permissions of a role.
    Permissions(Vec<Permission>),
}

/// The answer to a [`Query`] of the same name. Headers hold only the revision.
#[derive(Clone, PartialEq, Debug)]
pub enum QueryAnswer {
    /// The keys of a range.
    Range(RangeResponse),
    /// Outcomes of a transaction that only reads.
    Txn(TxnResponse),
    /// Keys or a transaction that only reads, some values of which are kept as payloads.
    PendingResponse(Box<PendingResponse>),
    /// The first slice of keys or of a transaction that only reads.
    Large(Box<LargeRead>),
    /// A slice, for [`LargeRead::add`].
    RangePart(RangePart),
    /// A chunk, for [`RangeCursor::take`].
    RangeChunk(RangeChunk),
    /// A digest that is whole.
    HashKv(KeyHash),
    /// A digest that is not whole yet: to be asked for again, as [`Query::HashRest`].
    HashRest(Box<HashRest>),
    /// Changes from a revision on.
    Events(Events),
    /// The store keeps nothing for the reader of all changes any more.
    Unwatch,
    /// What is known of a lease.
    Lease(LeaseInfo),
    /// The store's revision and the numbers of all leases, ascending.
    Leases(i64, Vec<i64>),
    /// Figures about the store.
    Status(Status),
    /// The beginning of an export.
    ExportHead(Box<ExportHead>),
    /// Some versions of an export.
    ExportPart(ExportPart),
    /// The store's revision, and what was asked about users and roles.
    Auth(i64, AuthAnswer),
    /// What a password is to be checked against.
    Login(Login),
    /// The board of this replica.
    Board(Arc<AuthBoard>),
    /// How many operations were applied here.
    Operations(Operations),
    /// The query cannot be answered.
    Refused(Refused),
}

/// A digest of the store, equal on every replica that has applied the same commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHash {
    /// The digest of keys and versions.
    pub hash: u64,
    /// The last revision counted.
    pub hash_revision: i64,
    /// The first revision that can be read; -1 before any compaction.
    pub compacted: i64,
    /// The store's revision.
    pub revision: i64,
}

/// Figures about the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The store's revision.
    pub revision: i64,
    /// The first revision that can be read; -1 before any compaction.
    pub compacted: i64,
    /// Keys that exist now.
    pub keys: u64,
    /// Estimated memory of all versions, in bytes.
    pub bytes: u64,
    /// Whether the last compaction has freed all it can.
    pub tidy: bool,
}

/// Operations that this store has carried out since it was made, attempts that were taken back included. It is no part
/// of the state: a store that began with a snapshot has not carried out what is in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Operations {
    /// Puts, those of transactions included.
    pub puts: u64,
    /// Deletions of a key or a range, those of transactions included.
    pub deletions: u64,
    /// Transactions that are not within another.
    pub txns: u64,
}
