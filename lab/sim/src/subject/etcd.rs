//! The key-value store as the application under test: the commands an etcd client would send.

use super::etcd_load::EtcdLoad;
use super::{Asked, Changes, Chore, Revisions, Scope, Subject};
use crate::judge::{self, Journal, Op, Refusal, Request, Response, Returned};
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
    EventsQuery, Flaw, Keys, PendingResponse, Query, QueryAnswer, Refused, Store, command,
    decode_result, event_value_refs, fill_events,
};

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
            Request::Range(_) => unreachable!("reads are not commands"),
        };
        (body, Vec::new())
    }

    fn read(request: &Request) -> Query {
        match request {
            Request::Range(range) => Query::Range(range.clone()),
            Request::Txn(txn) => Query::Txn(txn.clone()),
            _ => unreachable!("writes are not queries"),
        }
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
            Request::Range(_) => return Err("a read has no result".into()),
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
            QueryAnswer::Refused(refused) => Response::Refused(refusal(*refused)?),
            other => return Err(format!("a read gave {other:?}")),
        };
        Ok(Returned::new(stamp, response))
    }

    fn revision_of(returned: &Returned) -> i64 {
        returned.revision
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

    fn judge(history: Vec<Asked<Store>>, chores: Vec<Op>, journal: &Journal) -> Result<(), String> {
        let ops = history.into_iter().map(|asked| Op {
            client: asked.client,
            request: asked.request,
            invoked: asked.invoked,
            returned: asked.returned,
            reader: asked.reader,
        });
        let history: Vec<Op> = ops.chain(chores).collect();
        judge::check(&history, journal).map(|_| ())
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
        match self.query(&Query::Range(everything())) {
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
        match self.query(&Query::Leases) {
            QueryAnswer::Leases(_, ids) => {
                let keys = Query::Range(RangeRequest {
                    keys_only: true,
                    ..everything()
                });
                let QueryAnswer::Range(range) = self.query(&keys) else {
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

    /// Whether it had the effect it was to have.
    pub(crate) fn is_done(self, result: &Bytes) -> Result<bool, String> {
        let applied = decode_result(result);
        let applied = applied.map_err(|refused| format!("{self:?} was refused: {refused:?}"))?;
        if matches!(self, Chore::Grant { .. }) {
            return Ok(true);
        }
        let renewed = decoded(LeaseKeepAliveResponse::decode(applied.response))?;
        Ok(renewed.ttl > 0)
    }
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
        other => Err(format!(
            "nothing that was asked can be refused as {other:?}"
        )),
    }
}

fn decoded<T>(result: Result<T, DecodeError>) -> Result<T, String> {
    result.map_err(|error| format!("the response does not decode: {error}"))
}
