//! The key-value store as the application under test: the commands an etcd client would send.

use super::Subject;
use crate::history::{Call, Outcome, Seen};
use bytes::Bytes;
use prost::Message;
use quorate_etcd_api::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::response_op::Response;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest, RangeRequest, RangeResponse,
    RequestOp, TxnRequest, TxnResponse,
};
use quorate_kv::{Answer, Query, Store, decode_result};

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

    fn read_at(key: u8, revision: u64) -> Query {
        Query::Range(RangeRequest {
            revision: revision as i64,
            ..range(key)
        })
    }

    fn outcome(call: Call, result: &Bytes) -> Result<Outcome, String> {
        let applied = decode_result(result).map_err(|refused| format!("refused: {refused:?}"))?;
        let revision = number(applied.revision)?;
        let malformed = |e: prost::DecodeError| format!("the response does not decode: {e}");
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
    let Some(kv) = range.kvs.first() else {
        return Ok(None);
    };
    let text = str::from_utf8(&kv.value).ok();
    let value = text.and_then(|text| text.parse().ok());
    Ok(Some(Seen {
        value: value.ok_or_else(|| format!("{:?} holds {:?}", kv.key, kv.value))?,
        version: number(kv.version)?,
        created: number(kv.create_revision)?,
        modified: number(kv.mod_revision)?,
    }))
}

fn number(raw: i64) -> Result<u64, String> {
    u64::try_from(raw).map_err(|_| format!("{raw} is negative"))
}
