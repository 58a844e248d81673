//! The key-value store as the application under test: the commands an etcd client would send.

use super::{Change, Changes, Chore, Scope, Subject};
use crate::history::{Call, Outcome, Seen};
use bytes::Bytes;
use prost::Message;
use quorate_core::Application;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, DeleteRangeResponse, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest, PutRequest, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use quorate_kv::{Answer, Keys, Query, Refused, Store, Watched, command, decode_result};
use std::collections::BTreeMap;

/// What the names of registers begin with.
const REGISTERS: &[u8] = b"key-";
/// What the names of keys that go with leases begin with.
const LEASED: &[u8] = b"lease-";

/// Names in use per lease.
const KEYS_PER_LEASE: u64 = 3;

impl Subject for Store {
    fn fresh() -> Self {
        Store::new()
    }

    fn command(key: u8, call: Call) -> Bytes {
        match call {
            Call::Put(value) => Store::encode_put(&put(key, value)),
            Call::Delete => Store::encode_delete_range(&DeleteRangeRequest {
                key: name(key),
                ..DeleteRangeRequest::default()
            }),
            Call::Cas { expected, value } => Store::encode_txn(&cas(key, expected, value)),
            Call::Get => unreachable!("reads are not commands"),
        }
    }

    fn read(key: u8) -> Query {
        Query::Range(range(key))
    }

    fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String> {
        let applied = decode_result(result).map_err(|refused| format!("refused: {refused:?}"))?;
        let revision = number(applied.revision)?;
        Ok(match call {
            Call::Put(_) => Outcome::Put { revision },
            Call::Delete => {
                let deleted = DeleteRangeResponse::decode(applied.response).map_err(malformed)?;
                if deleted.deleted > 1 {
                    return Err(format!("one key was deleted {} times", deleted.deleted));
                }
                Outcome::Deleted {
                    revision,
                    existed: deleted.deleted == 1,
                }
            }
            Call::Cas { .. } => {
                let txn = TxnResponse::decode(applied.response).map_err(malformed)?;
                if txn.succeeded {
                    return Ok(Outcome::Swapped { revision });
                }
                match txn.responses.into_iter().next().and_then(|op| op.response) {
                    Some(Response::ResponseRange(range)) => Outcome::Kept {
                        revision,
                        seen: seen(&range)?,
                    },
                    other => return Err(format!("a failed comparison gave {other:?}")),
                }
            }
            Call::Get => return Err("a read has no result".into()),
        })
    }

    fn chore(chore: Chore) -> Bytes {
        match chore {
            Chore::Grant { lease, ttl_s } => command::encode_lease_grant(&LeaseGrantRequest {
                id: lease as i64,
                ttl: ttl_s as i64,
            }),
            Chore::Renew { lease } => {
                command::encode_lease_renew(&LeaseKeepAliveRequest { id: lease as i64 })
            }
            Chore::Revoke { lease } => {
                command::encode_lease_revoke(&LeaseRevokeRequest { id: lease as i64 })
            }
            Chore::Attach { lease, value } => Store::encode_put(&PutRequest {
                key: Bytes::from(format!("lease-{lease}-{}", value % KEYS_PER_LEASE)),
                value: Bytes::from(value.to_string()),
                lease: lease as i64,
                ..PutRequest::default()
            }),
            Chore::Compact { revision } => Store::encode_compact(&CompactionRequest {
                revision: revision as i64,
                physical: false,
            }),
        }
    }

    fn is_done(chore: Chore, result: &Bytes) -> Result<bool, String> {
        let applied = match (decode_result(result), chore) {
            (Ok(applied), _) => applied,
            (Err(Refused::LeaseNotFound), Chore::Revoke { .. } | Chore::Attach { .. })
            | (Err(Refused::Compacted), Chore::Compact { .. }) => return Ok(false),
            (Err(refused), _) => return Err(format!("{chore:?} was refused: {refused:?}")),
        };
        if !matches!(chore, Chore::Renew { .. }) {
            return Ok(true);
        }
        let renewed = LeaseKeepAliveResponse::decode(applied.response);
        Ok(renewed.map_err(malformed)?.ttl > 0)
    }

    fn changes(&self, scope: Scope, from: u64) -> Result<Changes, String> {
        let watched = Watched {
            keys: keys(scope),
            from: from as i64,
        };
        match self.query(&Query::Events(watched)) {
            Answer::Events(found) => Ok(Changes::Found {
                changes: found.events.iter().map(change).collect::<Result<_, _>>()?,
                next: number(found.next)?,
            }),
            Answer::Refused(Refused::Compacted) => Ok(Changes::Compacted {
                readable: number(self.status().compacted)?,
            }),
            other => Err(format!("changes from {from} gave {other:?}")),
        }
    }

    fn content(&self) -> Result<BTreeMap<Bytes, Seen>, String> {
        let everything = Query::Range(RangeRequest {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
            ..RangeRequest::default()
        });
        match self.query(&everything) {
            Answer::Range(range) => {
                let entry = |kv: &KeyValue| Ok((kv.key.clone(), seen_at(kv)?));
                range.kvs.iter().map(entry).collect()
            }
            other => Err(format!("reading everything gave {other:?}")),
        }
    }

    fn revision(&self) -> u64 {
        Store::revision(self).unsigned_abs()
    }

    fn leases(&self) -> Result<u64, String> {
        let Answer::Leases(_, ids) = self.query(&Query::Leases) else {
            return Err("the leases cannot be read".into());
        };
        let leased = Query::Range(RangeRequest {
            key: Bytes::from_static(LEASED),
            range_end: prefix_end(LEASED),
            count_only: true,
            ..RangeRequest::default()
        });
        let Answer::Range(range) = self.query(&leased) else {
            return Err("the keys of leases cannot be read".into());
        };
        Ok(ids.len() as u64 + number(range.count)?)
    }

    fn got(answer: &Answer) -> Result<Outcome, String> {
        let Answer::Range(range) = answer else {
            return Err(format!("a read gave {answer:?}"));
        };
        let header = range
            .header
            .as_ref()
            .ok_or("a read's answer has no header")?;
        Ok(Outcome::Got {
            revision: number(header.revision)?,
            seen: seen(range)?,
        })
    }
}

fn put(key: u8, value: u64) -> PutRequest {
    let value = Bytes::from(value.to_string());
    PutRequest {
        key: name(key),
        value,
        ..PutRequest::default()
    }
}

fn range(key: u8) -> RangeRequest {
    RangeRequest {
        key: name(key),
        ..RangeRequest::default()
    }
}

fn cas(key: u8, expected: u64, value: u64) -> TxnRequest {
    let op = |request| RequestOp {
        request: Some(request),
    };
    TxnRequest {
        compare: vec![Compare {
            result: CompareResult::Equal as i32,
            target: CompareTarget::Mod as i32,
            key: name(key),
            target_union: Some(TargetUnion::ModRevision(expected as i64)),
            ..Compare::default()
        }],
        success: vec![op(Request::RequestPut(put(key, value)))],
        failure: vec![op(Request::RequestRange(range(key)))],
    }
}

fn name(key: u8) -> Bytes {
    Bytes::from(format!("key-{key}"))
}

fn seen(range: &RangeResponse) -> Result<Option<Seen>, String> {
    range.kvs.first().map(seen_at).transpose()
}

fn seen_at(kv: &KeyValue) -> Result<Seen, String> {
    let text = str::from_utf8(&kv.value).ok();
    let value = text.and_then(|text| text.parse().ok());
    Ok(Seen {
        value: value.ok_or_else(|| format!("{:?} holds {:?}", kv.key, kv.value))?,
        version: number(kv.version)?,
        created: number(kv.create_revision)?,
        modified: number(kv.mod_revision)?,
    })
}

fn keys(scope: Scope) -> Keys {
    let prefix = |prefix: &'static [u8]| Keys::Span {
        key: Bytes::from_static(prefix),
        range_end: prefix_end(prefix),
    };
    match scope {
        Scope::All => Keys::All,
        // From the least key on, whatever its end.
        Scope::Every => Keys::Span {
            key: Bytes::from_static(b"\0"),
            range_end: Bytes::from_static(b"\0"),
        },
        Scope::Register(key) => Keys::Span {
            key: name(key),
            range_end: Bytes::new(),
        },
        Scope::Registers => prefix(REGISTERS),
        Scope::Leased => prefix(LEASED),
    }
}

/// The first key after all that begin like this.
fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end.into()
}

fn change(event: &Event) -> Result<Change, String> {
    let kv = event.kv.as_ref().ok_or("an event has no key")?;
    let register = kv.key.strip_prefix(REGISTERS);
    let register = register.and_then(|number| str::from_utf8(number).ok()?.parse().ok());
    let is_put = event.r#type == EventType::Put as i32;
    Ok(Change {
        revision: number(kv.mod_revision)?,
        key: kv.key.clone(),
        register,
        after: is_put.then(|| seen_at(kv)).transpose()?,
        before: event.prev_kv.as_ref().map(seen_at).transpose()?,
    })
}

fn malformed(error: prost::DecodeError) -> String {
    format!("the response does not decode: {error}")
}

fn number(raw: i64) -> Result<u64, String> {
    u64::try_from(raw).map_err(|_| format!("{raw} is negative"))
}
