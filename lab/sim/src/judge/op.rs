//! One request of a history, and what became of it: the messages as they travel.

use quorate_etcd_api::errors::Error;
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_etcd_api::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse,
    ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
};
use quorate_etcd_store::{Asker, AuthChange, Identity};
use std::fmt;

/// What a client asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Read keys.
    Range(RangeRequest),
    /// Store a key.
    Put(PutRequest),
    /// Delete keys.
    Delete(DeleteRangeRequest),
    /// Several at once.
    Txn(TxnRequest),
    /// End this lease, and with it its keys.
    Revoke(i64),
    /// Forget what was before this revision.
    Compact(i64),
    /// Begin this lease.
    Grant(i64),
    /// Begin the time of this lease anew.
    Renew(i64),
    /// Change users or roles.
    Auth(AuthChange),
    /// Tell whether authentication is on, and the auth revision.
    AuthStatus,
}

/// What a client was told, without headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Response {
    /// Keys.
    Range(RangeResponse),
    /// It is stored.
    Put(PutResponse),
    /// It is deleted.
    Delete(DeleteRangeResponse),
    /// What the transaction came to.
    Txn(TxnResponse),
    /// The lease is ended.
    Revoked,
    /// It is forgotten.
    Compacted,
    /// The lease is begun.
    Granted,
    /// The time of the lease is begun anew, if there is this lease.
    Renewed,
    /// Users or roles are changed.
    Auth,
    /// Whether authentication is on, and the auth revision.
    AuthStatus(bool, u64),
    /// It was not done, and changed nothing.
    Refused(Refusal),
}

/// Why a request was not done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A revision it asks for is compacted.
    Compacted,
    /// A revision it asks for is not there yet.
    Future,
    /// There is no such lease.
    LeaseNotFound,
    /// Whoever asks has no right to it, or it makes no sense of the users and roles that there are.
    Auth(Error),
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Returned {
    /// When it arrived.
    pub stamp: u64,
    /// The store's revision right after the request; 0 for a refusal.
    pub revision: i64,
    /// What it said.
    pub response: Response,
}

/// One request of the history. Times are stamps of one counter: no two are equal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Who asked.
    pub client: usize,
    /// For whom, as far as rights go.
    pub asker: Asker,
    /// What.
    pub request: Request,
    /// When it was first sent.
    pub invoked: u64,
    /// The answer; `None` if there is none: it may have taken effect at any time since, may do so
    /// later, or never.
    pub returned: Option<Returned>,
    /// Who answered, where that is known, as it is of a read that may be stale: a number for each life of
    /// each replica.
    pub reader: u64,
}

impl Request {
    /// Whether its answer may be stale.
    #[must_use]
    pub fn is_serializable(&self) -> bool {
        match self {
            Request::Range(range) => range.serializable,
            _ => false,
        }
    }

    /// The past revisions it asks for, in whichever branch.
    pub(super) fn revisions_asked(&self) -> Vec<i64> {
        let mut asked = Vec::new();
        match self {
            Request::Range(range) => asked.extend(past(range)),
            Request::Txn(txn) => each_part(txn, None, &mut |part| asked.extend(past_of(part))),
            _ => {}
        }
        asked
    }

    /// The past revisions it has read, as its answer shows.
    pub(super) fn revisions_read(&self, response: &Response) -> Vec<i64> {
        let mut read = Vec::new();
        match (self, response) {
            (Request::Txn(txn), Response::Txn(answer)) => {
                each_part(txn, Some(answer), &mut |part| read.extend(past_of(part)));
            }
            _ => read = self.revisions_asked(),
        }
        read
    }

    /// Visits every write it may make, in whichever branch.
    pub(super) fn each_write(&self, visit: &mut dyn FnMut(Write<'_>)) {
        match self {
            Request::Put(put) => visit(Write::Put(put)),
            Request::Delete(_) => visit(Write::Delete),
            Request::Txn(txn) => each_part(txn, None, &mut |part| match part {
                Part::RequestPut(put) => visit(Write::Put(put)),
                Part::RequestDeleteRange(_) => visit(Write::Delete),
                _ => {}
            }),
            Request::Range(_)
            | Request::Revoke(_)
            | Request::Compact(_)
            | Request::Grant(_)
            | Request::Renew(_)
            | Request::Auth(_)
            | Request::AuthStatus => {}
        }
    }

    /// Whether the right to it depends on which keys go with a lease.
    pub(super) fn names_lease(&self) -> bool {
        let mut names = matches!(self, Request::Revoke(_) | Request::Renew(_));
        self.each_write(&mut |write| names |= matches!(write, Write::Put(put) if put.lease != 0));
        names
    }
}

/// Something a request may change.
pub(super) enum Write<'a> {
    Put(&'a PutRequest),
    Delete,
}

fn past(range: &RangeRequest) -> Option<i64> {
    (range.revision > 0).then_some(range.revision)
}

fn past_of(part: &Part) -> Option<i64> {
    match part {
        Part::RequestRange(range) => past(range),
        _ => None,
    }
}

/// Visits the operations of both branches, or of those that an answer says were taken.
fn each_part(txn: &TxnRequest, answer: Option<&TxnResponse>, visit: &mut dyn FnMut(&Part)) {
    let skips = |branch| answer.is_some_and(|answer| answer.succeeded != branch);
    for (branch, ops) in [(true, &txn.success), (false, &txn.failure)] {
        if skips(branch) {
            continue;
        }
        for (at, op) in ops.iter().enumerate() {
            let inner_answer = answer.and_then(|answer| answer.responses.get(at));
            match (&op.request, inner_answer.map(|answer| &answer.response)) {
                (Some(Part::RequestTxn(inner)), Some(Some(PartAnswer::ResponseTxn(answer)))) => {
                    each_part(inner, Some(answer), visit);
                }
                (Some(Part::RequestTxn(inner)), _) => each_part(inner, None, visit),
                (Some(part), _) => visit(part),
                (None, _) => {}
            }
        }
    }
}

impl Returned {
    /// An answer as it came, its headers taken off.
    #[must_use]
    pub fn new(stamp: u64, mut response: Response) -> Returned {
        let revision = response.take_revision();
        Returned {
            stamp,
            revision,
            response,
        }
    }

    /// An answer whose header was elsewhere.
    #[must_use]
    pub fn at(stamp: u64, revision: i64, mut response: Response) -> Returned {
        response.take_revision();
        Returned {
            stamp,
            revision,
            response,
        }
    }
}

impl Response {
    /// Takes off all headers; gives the revision of the outermost, 0 if there is none.
    fn take_revision(&mut self) -> i64 {
        let header = match self {
            Response::Range(range) => range.header.take(),
            Response::Put(put) => put.header.take(),
            Response::Delete(delete) => delete.header.take(),
            Response::Txn(txn) => take_headers(txn),
            Response::Revoked
            | Response::Compacted
            | Response::Granted
            | Response::Renewed
            | Response::Auth
            | Response::AuthStatus(..)
            | Response::Refused(_) => None,
        };
        header.map_or(0, |header| header.revision)
    }

    /// Whether it says that something was changed. The end of a lease does not say.
    #[must_use]
    pub fn changed(&self) -> bool {
        match self {
            Response::Put(_) => true,
            Response::Delete(delete) => delete.deleted > 0,
            Response::Txn(txn) => txn_changed(txn),
            Response::Range(_)
            | Response::Revoked
            | Response::Compacted
            | Response::Granted
            | Response::Renewed
            | Response::Auth
            | Response::AuthStatus(..)
            | Response::Refused(_) => false,
        }
    }
}

fn take_headers(txn: &mut TxnResponse) -> Option<ResponseHeader> {
    for op in &mut txn.responses {
        match &mut op.response {
            Some(PartAnswer::ResponseRange(range)) => range.header = None,
            Some(PartAnswer::ResponsePut(put)) => put.header = None,
            Some(PartAnswer::ResponseDeleteRange(delete)) => delete.header = None,
            Some(PartAnswer::ResponseTxn(inner)) => {
                take_headers(inner);
            }
            None => {}
        }
    }
    txn.header.take()
}

fn txn_changed(txn: &TxnResponse) -> bool {
    let changed = |op: &ResponseOp| match &op.response {
        Some(PartAnswer::ResponsePut(_)) => true,
        Some(PartAnswer::ResponseDeleteRange(delete)) => delete.deleted > 0,
        Some(PartAnswer::ResponseTxn(inner)) => txn_changed(inner),
        Some(PartAnswer::ResponseRange(_)) | None => false,
    };
    txn.responses.iter().any(changed)
}

/// For whom something was asked.
fn in_words(asker: &Asker) -> String {
    match asker {
        Asker::Anybody => String::new(),
        Asker::Nobody => " for nobody".to_owned(),
        Asker::Server => " for the server".to_owned(),
        Asker::User(identity) => {
            let Identity { name, revision } = identity;
            format!(" for {name} of auth revision {revision}")
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "client {} asked at {}{}: {:?}",
            self.client,
            self.invoked,
            in_words(&self.asker),
            self.request
        )?;
        match &self.returned {
            None => write!(f, ", and got no answer"),
            Some(returned) => write!(
                f,
                ", and was told at {}, of revision {}: {:?}",
                returned.stamp, returned.revision, returned.response
            ),
        }
    }
}
