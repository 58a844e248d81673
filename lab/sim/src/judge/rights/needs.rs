//! The rights that requests take, in the order in which they are looked up.

use super::users::Users;
use crate::judge::op::Request;
use bytes::Bytes;
use quorate_etcd_api::errors::Error;
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::{DeleteRangeRequest, PutRequest, RequestOp, TxnRequest};
use quorate_etcd_store::{Access, Asker};

/// Who asks, what rights there are, and which keys go with a lease.
struct Gate<'a> {
    users: &'a Users,
    asker: &'a Asker,
    leased: &'a dyn Fn(i64) -> Vec<Bytes>,
}

impl Users {
    /// Whether somebody has the right to a request. `leased` names the keys of a lease.
    ///
    /// # Errors
    /// What a refusal says.
    pub(super) fn admit(
        &self,
        asker: &Asker,
        request: &Request,
        leased: &dyn Fn(i64) -> Vec<Bytes>,
    ) -> Result<(), Error> {
        if !self.enabled || *asker == Asker::Server {
            return Ok(());
        }
        let gate = Gate {
            users: self,
            asker,
            leased,
        };
        match request {
            Request::Range(range) => gate.may(Access::Read, &range.key, &range.range_end),
            Request::Put(put) => gate.put(put),
            Request::Delete(delete) => gate.delete(delete),
            Request::Txn(txn) => gate.txn(txn),
            Request::Revoke(lease) | Request::Renew(lease) => gate.lease(*lease),
            Request::Grant(_) => self.demand_user(asker),
            // Whether there are users at all is told to anybody.
            Request::AuthStatus => Ok(()),
            Request::Compact(_) | Request::Auth(_) => self.demand_root(asker),
        }
    }
}

impl Gate<'_> {
    fn may(&self, access: Access, key: &[u8], range_end: &[u8]) -> Result<(), Error> {
        self.users.demand(self.asker, access, key, range_end)
    }

    fn put(&self, put: &PutRequest) -> Result<(), Error> {
        self.may(Access::Write, &put.key, b"")?;
        if put.lease != 0 {
            self.lease(put.lease)?;
        }
        match put.prev_kv {
            true => self.may(Access::Read, &put.key, b""),
            false => Ok(()),
        }
    }

    fn delete(&self, delete: &DeleteRangeRequest) -> Result<(), Error> {
        self.may(Access::Write, &delete.key, &delete.range_end)?;
        match delete.prev_kv {
            true => self.may(Access::Read, &delete.key, &delete.range_end),
            false => Ok(()),
        }
    }

    fn txn(&self, txn: &TxnRequest) -> Result<(), Error> {
        self.users.demand_user(self.asker)?;
        for compare in &txn.compare {
            self.may(Access::Read, &compare.key, &compare.range_end)?;
        }
        let both = txn.success.iter().chain(&txn.failure);
        both.into_iter().try_for_each(|op| self.part(op))
    }

    fn part(&self, op: &RequestOp) -> Result<(), Error> {
        match &op.request {
            Some(Part::RequestRange(range)) => self.may(Access::Read, &range.key, &range.range_end),
            Some(Part::RequestPut(put)) => self.put(put),
            Some(Part::RequestDeleteRange(delete)) => self.delete(delete),
            Some(Part::RequestTxn(inner)) => self.txn(inner),
            None => Ok(()),
        }
    }

    /// Whoever ends or renews a lease must be allowed to write each of its keys.
    fn lease(&self, lease: i64) -> Result<(), Error> {
        self.users.demand_user(self.asker)?;
        if self.users.demand_root(self.asker).is_ok() {
            return Ok(());
        }
        let keys = (self.leased)(lease);
        keys.iter()
            .try_for_each(|key| self.may(Access::Write, key, b""))
    }
}
