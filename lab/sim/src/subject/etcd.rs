//! The key-value store as the application under test: the commands an etcd client would send.

use super::etcd_load::EtcdLoad;
use super::{Asked, Changes, Chore, Guarded, Revisions, Scope, Subject};
use crate::judge::{self, Journal, Op, Refusal, Request, Response, Returned, Sight};
use crate::requests;
use crate::values::Values;
use bytes::Bytes;
use prost::{DecodeError, Message};
use quorate_core::{Application, Payload, PayloadId};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeResponse, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseKeepAliveResponse, LeaseRevokeRequest, PutResponse, RangeRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::KeyValue;
use quorate_etcd_store::{
    Asker, AuthAnswer, AuthBoard, AuthChange, AuthQuery, AuthState, EventsQuery, Flaw, Keys,
    PendingResponse, Query, QueryAnswer, Refused, Store, command, decode_result, event_value_refs,
    fill_events,
};
use std::sync::Arc;

impl Subject for Store {
    type Request = Request;
    type Returned = Returned;
    type Workload = EtcdLoad;

    fn fresh(flaw: Option<Flaw>) -> Self {
        Store::new().with_flaw(flaw)
    }

    fn put(key: u8, value: u64, bytes: usize) -> Request {
        Request::Put(requests::put_long(key, value, bytes))
    }

    fn get(key: u8) -> Request {
        Request::Range(requests::range(key))
    }

    fn auth_status() -> Option<Request> {
        Some(Request::AuthStatus)
    }

    fn command(request: &Request, payload_min: Option<usize>) -> (Bytes, Vec<Payload>) {
        let body = match request {
            Request::Put(put) => return command::split_put(put.clone(), payload_min),
            Request::Txn(txn) => return command::split_txn(txn.clone(), payload_min),
            Request::Delete(delete) => Store::encode_delete_range(delete),
            Request::Revoke(id) => command::encode_lease_revoke(&LeaseRevokeRequest { id: *id }),
            Request::Compact(revision) => Store::encode_compact(&CompactionRequest {
                revision: *revision,
                physical: false,
            }),
            Request::Auth(change) => command::encode_auth(change),
            Request::Range(_) | Request::AuthStatus => unreachable!("reads are not commands"),
            Request::Grant(_) | Request::Renew(_) => unreachable!("tenants do this"),
        };
        (body, Vec::new())
    }

    fn read(request: &Request) -> Query {
        match request {
            Request::Range(range) => Query::Range(range.clone()),
            Request::Txn(txn) => Query::Txn(txn.clone()),
            Request::AuthStatus => Query::Auth(AuthQuery::Status),
            _ => unreachable!("writes are not queries"),
        }
    }

    fn sign(asker: &Asker, body: Bytes) -> Bytes {
        asker.sign(body)
    }

    fn asked(asker: &Asker, query: Query) -> Query {
        query.by(asker)
    }

    fn response(
        request: &Request,
        result: &Bytes,
        values: &Values,
        stamp: u64,
    ) -> Result<Returned, String> {
        let applied = match decode_result(result) {
            Ok(applied) => applied,
            Err(refused) => {
                let refused = Response::Refused(refusal(refused)?);
                return Ok(Returned::at(stamp, 0, refused));
            }
        };
        let bytes = if applied.has_pending_values {
            let (body, _) = Store::command(request, values.payload_min);
            let unfilled = PendingResponse::of_result(&body, &applied).map_err(malformed)?;
            let found = values.of(unfilled.references())?;
            unfilled.encode(found)
        } else {
            applied.response
        };
        let response = match request {
            Request::Put(_) => Response::Put(decoded(PutResponse::decode(bytes))?),
            Request::Delete(_) => Response::Delete(decoded(DeleteRangeResponse::decode(bytes))?),
            Request::Txn(_) => Response::Txn(decoded(TxnResponse::decode(bytes))?),
            Request::Revoke(_) => Response::Revoked,
            Request::Compact(_) => Response::Compacted,
            Request::Auth(_) => Response::Auth,
            other => return Err(format!("{other:?} has no result")),
        };
        Ok(Returned::at(stamp, applied.revision, response))
    }

    fn got(answer: &QueryAnswer, values: &Values, stamp: u64) -> Result<Returned, String> {
        let response = match answer {
            QueryAnswer::PendingResponse(unfilled) => {
                return Store::got(&filled(unfilled, values)?, values, stamp);
            }
            QueryAnswer::Range(range) => Response::Range(range.clone()),
            QueryAnswer::Txn(txn) => Response::Txn(txn.clone()),
            QueryAnswer::Auth(at, AuthAnswer::Status(enabled, revision)) => {
                let status = Response::AuthStatus(*enabled, *revision);
                return Ok(Returned::at(stamp, *at, status));
            }
            QueryAnswer::Refused(refused) => Response::Refused(refusal(*refused)?),
            other => return Err(format!("a read gave {other:?}")),
        };
        Ok(Returned::new(stamp, response))
    }

    fn revision_of(returned: &Returned) -> i64 {
        returned.revision
    }

    fn shows(request: &Request, returned: &Returned) -> Option<&'static str> {
        match (request, &returned.response) {
            (Request::Auth(change), Response::Auth) => {
                takes_away(change).then_some("right taken away")
            }
            (Request::Auth(_), _) => None,
            (_, Response::Refused(Refusal::Auth(_))) => Some("request refused for rights"),
            _ => None,
        }
    }

    fn named(answer: &QueryAnswer) -> Option<(PayloadId, Payload)> {
        let QueryAnswer::PendingResponse(unfilled) = answer else {
            return None;
        };
        let references = unfilled.references().ok()?;
        let first = references.first()?;
        Some((first.id, first.payload()))
    }

    fn revisions(&self) -> Option<&dyn Revisions> {
        Some(self)
    }

    fn guarded(&self) -> Option<&dyn Guarded> {
        Some(self)
    }

    fn judge(
        history: Vec<Asked<Store>>,
        chores: Vec<Op>,
        sights: &[Sight],
        journal: &Journal,
    ) -> Result<(), String> {
        let ops = history.into_iter().map(|asked| Op {
            client: asked.client,
            asker: asked.asker,
            request: asked.request,
            invoked: asked.invoked,
            returned: asked.returned,
            reader: asked.reader,
        });
        let history: Vec<Op> = ops.chain(chores).collect();
        judge::check_with_sights(&history, sights, journal).map(|_| ())
    }
}

impl Guarded for Store {
    fn state(&self) -> Arc<AuthState> {
        self.users()
    }

    fn board(&self) -> Arc<AuthBoard> {
        Store::board(self)
    }
}

impl Revisions for Store {
    fn changes(&self, scope: &Scope, from: i64, values: &Values) -> Result<Changes, String> {
        let keys = match scope {
            Scope::All => Keys::All,
            Scope::Range(key, range_end) => Keys::Span {
                key: key.clone(),
                range_end: range_end.clone(),
            },
        };
        match self.query(&Query::Events(EventsQuery { keys, from })) {
            QueryAnswer::Events(mut found) => {
                let missing = values.of(event_value_refs(&found.events))?;
                fill_events(&mut found.events, missing);
                Ok(Changes::Found {
                    events: found.events,
                    next: found.next,
                })
            }
            QueryAnswer::Refused(Refused::Compacted) => Ok(Changes::Compacted {
                readable: self.status().compacted,
            }),
            other => Err(format!("changes from {from} gave {other:?}")),
        }
    }

    fn content(&self, values: &Values) -> Result<Vec<KeyValue>, String> {
        match self.query(&Query::Range(everything()).by(&Asker::Server)) {
            QueryAnswer::Range(range) => Ok(range.kvs),
            QueryAnswer::PendingResponse(unfilled) => match filled(&unfilled, values)? {
                QueryAnswer::Range(range) => Ok(range.kvs),
                other => Err(format!("reading everything gave {other:?}")),
            },
            other => Err(format!("reading everything gave {other:?}")),
        }
    }

    fn revision(&self) -> i64 {
        Store::revision(self)
    }

    fn leases(&self) -> Result<usize, String> {
        match self.query(&Query::Leases.by(&Asker::Server)) {
            QueryAnswer::Leases(_, ids) => {
                let keys = Query::Range(RangeRequest {
                    keys_only: true,
                    ..everything()
                });
                let QueryAnswer::Range(range) = self.query(&keys.by(&Asker::Server)) else {
                    return Err("the keys cannot be read".into());
                };
                let leased = range.kvs.iter().filter(|kv| kv.lease != 0).count();
                Ok(ids.len() + leased)
            }
            other => Err(format!("reading the leases gave {other:?}")),
        }
    }
}

impl Chore {
    /// The command for it.
    pub(crate) fn command(self) -> Bytes {
        match self {
            Chore::Grant { lease, ttl_s } => command::encode_lease_grant(&LeaseGrantRequest {
                id: lease as i64,
                ttl: ttl_s as i64,
            }),
            Chore::Renew { lease } => {
                command::encode_lease_renew(&LeaseKeepAliveRequest { id: lease as i64 })
            }
        }
    }

    /// What its result says that arrives at this time, and whether it had the effect it was to have.
    pub(crate) fn returned(self, result: &Bytes, stamp: u64) -> Result<(Returned, bool), String> {
        let applied = match decode_result(result) {
            Ok(applied) => applied,
            Err(why) => {
                let refused = refusal(why).map_err(|_| format!("{self:?} is {why:?}"))?;
                return Ok((Returned::at(stamp, 0, Response::Refused(refused)), false));
            }
        };
        let (response, is_done) = match self {
            Chore::Grant { .. } => (Response::Granted, true),
            Chore::Renew { .. } => {
                let renewed = decoded(LeaseKeepAliveResponse::decode(applied.response))?;
                (Response::Renewed, renewed.ttl > 0)
            }
        };
        Ok((Returned::at(stamp, applied.revision, response), is_done))
    }

    /// The request of a history that it is.
    pub(crate) fn request(self) -> Request {
        match self {
            Chore::Grant { lease, .. } => Request::Grant(lease as i64),
            Chore::Renew { lease } => Request::Renew(lease as i64),
        }
    }
}

/// Whether a change takes rights away from somebody who has them.
fn takes_away(change: &AuthChange) -> bool {
    matches!(
        change,
        AuthChange::UserDelete(_)
            | AuthChange::UserRevokeRole(_)
            | AuthChange::RoleDelete(_)
            | AuthChange::RoleRevokePermission(_)
    )
}

/// A read of all keys.
fn everything() -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        ..RangeRequest::default()
    }
}

/// An answer with the values in it.
fn filled(unfilled: &PendingResponse, values: &Values) -> Result<QueryAnswer, String> {
    let found = values.of(unfilled.references())?;
    unfilled.clone().fill(found).map_err(malformed)
}

fn malformed(refused: Refused) -> String {
    format!("an answer is {refused:?}")
}

fn refusal(refused: Refused) -> Result<Refusal, String> {
    match refused {
        Refused::Compacted => Ok(Refusal::Compacted),
        Refused::FutureRevision => Ok(Refusal::Future),
        Refused::LeaseNotFound => Ok(Refusal::LeaseNotFound),
        Refused::PermissionDenied
        | Refused::AuthOldRevision
        | Refused::UserEmpty
        | Refused::UserNotFound
        | Refused::UserExists
        | Refused::RoleNotFound
        | Refused::RoleExists
        | Refused::RoleNotGranted
        | Refused::PermissionNotGranted
        | Refused::RootUserNotExist
        | Refused::RootRoleNotExist
        | Refused::InvalidAuthMgmt => Ok(Refusal::Auth(refused.error())),
        other => Err(format!(
            "nothing that was asked can be refused as {other:?}"
        )),
    }
}

fn decoded<T>(result: Result<T, DecodeError>) -> Result<T, String> {
    result.map_err(|error| format!("the response does not decode: {error}"))
}
