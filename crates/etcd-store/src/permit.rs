//! The rights that commands and queries take.
//!
//! | what | needs |
//! |---|---|
//! | put | write; read for the previous value; with a lease, write for every key of the lease |
//! | deletion | write; read for previous values |
//! | range | read |
//! | transaction | read for what conditions name; what the operations of both branches need, whichever is taken |
//! | revocation or renewal of a lease | write for every key of the lease |
//! | keys of a lease, list of leases | read for every key of the lease, or of all leases |
//! | grant of a lease | to be a user |
//! | whether authentication is on | nothing |
//! | compaction, users and roles | the role root |
//!
//! The role root has every right. A user may see its own roles, and the permissions of these.

use crate::auth::{Access, Asker, AuthState};
use crate::command::Command;
use crate::flaw::Flaw;
use crate::query::{AuthQuery, Query};
use crate::refused::Refused;
use crate::store::Store;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

/// Who asks, and for what rights are looked up.
struct Gate<'a> {
    state: &'a AuthState,
    store: &'a Store,
    asker: &'a Asker,
}

impl Store {
    /// Refuses a command that its asker has no right to.
    pub(crate) fn permit_command(&self, asker: &Asker, command: &Command) -> Result<(), Refused> {
        if !self.auth.is_enabled() || *asker == Asker::Server {
            return Ok(());
        }
        if self.flaw == Some(Flaw::RightsOfFaceSuffice) && self.auth.is_outdated(asker) {
            return Ok(());
        }
        let gate = self.gate(asker);
        match command {
            Command::Put(request) | Command::PutWithPayload(request) => gate.put(request),
            Command::DeleteRange(request) => gate.delete_range(request),
            Command::Txn(request) | Command::TxnWithPayloads(request, _) => gate.txn(request),
            Command::Compact(_) => self.auth.check_root(asker),
            Command::LeaseGrant(_) => self.auth.check_user(asker),
            Command::LeaseRevoke(request) => gate.lease(request.id, Access::Write),
            Command::LeaseRenew(request) => gate.lease(request.id, Access::Write),
            // Only replicas order it, by themselves.
            Command::LeaseExpire(_) => Ok(()),
            Command::Auth(change) => change.permit(&self.auth, asker),
        }
    }

    /// Refuses a query that its asker has no right to. Those that only faces ask for themselves take none.
    pub(crate) fn permit_query(&self, asker: &Asker, query: &Query) -> Result<(), Refused> {
        if !self.auth.is_enabled() || *asker == Asker::Server {
            return Ok(());
        }
        if self.flaw == Some(Flaw::ReadsNotChecked) {
            return Ok(());
        }
        let gate = self.gate(asker);
        match query {
            Query::Range(request) => gate.range(request),
            Query::RangeChunk(cursor) => gate.range(cursor.request()),
            Query::Txn(request) => gate.txn(request),
            Query::Lease { id, keys: true } => gate.lease(*id, Access::Read),
            Query::Lease { keys: false, .. } => self.auth.check_user(asker),
            Query::Leases => {
                self.auth.check_user(asker)?;
                let mut ids = self.leases.ids().into_iter();
                ids.try_for_each(|id| gate.lease(id, Access::Read))
            }
            Query::Auth(AuthQuery::Status) => Ok(()),
            Query::Auth(AuthQuery::User(name)) if asker.name() == Some(name) => Ok(()),
            Query::Auth(AuthQuery::Role(role)) if self.auth.has_role(asker, role) => Ok(()),
            Query::Auth(_) => self.auth.check_root(asker),
            Query::RangeRest(_)
            | Query::HashKv { .. }
            | Query::HashRest(_)
            | Query::Events(_)
            | Query::Unwatch
            | Query::Status
            | Query::Operations
            | Query::Export
            | Query::ExportRest(_)
            | Query::Login { .. }
            | Query::Board
            | Query::Asked(_) => Ok(()),
        }
    }

    fn gate<'a>(&'a self, asker: &'a Asker) -> Gate<'a> {
        Gate {
            state: &self.auth,
            store: self,
            asker,
        }
    }
}

impl Gate<'_> {
    fn check(&self, access: Access, key: &[u8], range_end: &[u8]) -> Result<(), Refused> {
        self.state.check(self.asker, access, key, range_end)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.store.flaw == Some(flaw)
    }

    fn put(&self, request: &PutRequest) -> Result<(), Refused> {
        self.check(Access::Write, &request.key, &[])?;
        if request.lease != 0 {
            // Who may not revoke a lease must not make it longer lived or bind others' keys to its own.
            self.lease(request.lease, Access::Write)?;
        }
        if request.prev_kv && !self.has(Flaw::PreviousValueNotChecked) {
            self.check(Access::Read, &request.key, &[])?;
        }
        Ok(())
    }

    fn delete_range(&self, request: &DeleteRangeRequest) -> Result<(), Refused> {
        self.check(Access::Write, &request.key, &request.range_end)?;
        if request.prev_kv && !self.has(Flaw::PreviousValueNotChecked) {
            self.check(Access::Read, &request.key, &request.range_end)?;
        }
        Ok(())
    }

    fn range(&self, request: &RangeRequest) -> Result<(), Refused> {
        self.check(Access::Read, &request.key, &request.range_end)
    }

    fn txn(&self, request: &TxnRequest) -> Result<(), Refused> {
        // One that names no key at all takes an identity that is not out of date, as any other.
        self.state.check_user(self.asker)?;
        for condition in &request.compare {
            self.check(Access::Read, &condition.key, &condition.range_end)?;
        }
        self.branch(&request.success)?;
        self.branch(&request.failure)
    }

    fn branch(&self, operations: &[RequestOp]) -> Result<(), Refused> {
        let requests = operations.iter().filter_map(|op| op.request.as_ref());
        requests.into_iter().try_for_each(|request| match request {
            Request::RequestRange(range) => self.range(range),
            Request::RequestPut(put) => self.put(put),
            Request::RequestDeleteRange(delete) => self.delete_range(delete),
            Request::RequestTxn(_) if self.has(Flaw::InnerTxnNotChecked) => Ok(()),
            Request::RequestTxn(inner) => self.txn(inner),
        })
    }

    /// Every key of a lease. One that does not exist has none.
    fn lease(&self, id: i64, access: Access) -> Result<(), Refused> {
        self.state.check_user(self.asker)?;
        if self.state.check_root(self.asker).is_ok() {
            return Ok(());
        }
        let mut keys = self.store.leases.keys(id);
        keys.try_for_each(|key| self.check(access, key, &[]))
    }
}
