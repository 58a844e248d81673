//! The application under test, as the workload sees it.

use crate::judge::{Request, Response};
use crate::values::Values;
use bytes::Bytes;
use quorate_core::{Application, Payload, PayloadId};
use quorate_etcd_api::mvccpb::{Event, KeyValue};
use quorate_etcd_store::Flaw;

mod store;

/// What the workload asks for besides requests whose answers are judged by revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chore {
    /// Begin a lease.
    Grant { lease: u64, ttl_s: u64 },
    /// Begin its time anew.
    Renew { lease: u64 },
}

/// The keys whose changes are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All, for the one reader of a replica that may read what was compacted but not freed.
    All,
    /// A range as requests name it, for anybody.
    Range(Bytes, Bytes),
}

impl Scope {
    /// All keys, for anybody: from the least on, whatever the end.
    pub(crate) fn every() -> Scope {
        Scope::Range(Bytes::from_static(b"\0"), Bytes::from_static(b"\0"))
    }
}

/// The answer to who asks for changes.
pub(crate) enum Changes {
    /// All changes before `next`.
    Found { events: Vec<Event>, next: i64 },
    /// They cannot be read any more; those from this revision on can.
    Compacted { readable: i64 },
}

/// An application with keys that can be stored, removed, compared and read.
pub(crate) trait Subject: Application {
    /// An empty one, which does something wrong if told to.
    fn fresh(flaw: Option<Flaw>) -> Self;

    /// The command for a request that may change something, and the values of so many bytes or more
    /// that are kept apart from it.
    fn command(request: &Request, payload_min: Option<usize>) -> (Bytes, Vec<Payload>);

    /// The query for one that only reads.
    fn read(request: &Request) -> Self::Query;

    /// What the result of a command says, and the store's revision afterwards.
    fn response(
        request: &Request,
        result: &Bytes,
        values: &Values,
    ) -> Result<(i64, Response), String>;

    /// What the answer to a query says.
    fn got(answer: &Self::Answer, values: &Values) -> Result<Response, String>;

    /// A payload that an answer names, if it does.
    fn named(answer: &Self::Answer) -> Option<(PayloadId, Payload)>;

    /// The command for a chore.
    fn chore(chore: Chore) -> Bytes;

    /// Whether a chore had the effect it was to have.
    fn is_done(chore: Chore, result: &Bytes) -> Result<bool, String>;

    /// Changes from a revision on.
    fn changes(&self, scope: &Scope, from: i64, values: &Values) -> Result<Changes, String>;

    /// All keys as they are now.
    fn content(&self, values: &Values) -> Result<Vec<KeyValue>, String>;

    /// Its revision.
    fn revision(&self) -> i64;

    /// Leases, and keys that go with them.
    fn leases(&self) -> Result<usize, String>;
}
