//! The names of keys, and the simple requests about them.

use crate::judge::Request;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::compare::{CompareTarget, TargetUnion};
use quorate_etcd_api::etcdserverpb::request_op::Request as Part;
use quorate_etcd_api::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};

/// What the names of registers begin with, and the first name after all of them.
const REGISTERS: [&[u8]; 2] = [b"key-", b"key."];
/// The same, of the keys that go with leases.
const LEASED: [&[u8]; 2] = [b"lease-", b"lease."];
/// Names in use per lease.
const KEYS_PER_LEASE: u64 = 3;

/// The name of a register.
pub(crate) fn name(key: impl Into<u64>) -> Bytes {
    Bytes::from(format!("key-{}", key.into()))
}

/// The range of all registers.
pub(crate) fn registers() -> (Bytes, Bytes) {
    (
        Bytes::from_static(REGISTERS[0]),
        Bytes::from_static(REGISTERS[1]),
    )
}

/// The range of all keys that go with leases.
pub(crate) fn leased() -> (Bytes, Bytes) {
    (Bytes::from_static(LEASED[0]), Bytes::from_static(LEASED[1]))
}

/// Stores a key.
pub(crate) fn put(key: u8, value: u64) -> PutRequest {
    PutRequest {
        key: name(key),
        value: Bytes::from(value.to_string()),
        ..PutRequest::default()
    }
}

/// Stores a key with a value of so many bytes at least.
pub(crate) fn put_long(key: u8, value: u64, bytes: usize) -> PutRequest {
    let mut text = value.to_string().into_bytes();
    text.resize(bytes.max(text.len()), b'.');
    PutRequest {
        key: name(key),
        value: text.into(),
        ..PutRequest::default()
    }
}

/// Stores a key that goes with a lease.
pub(crate) fn attach(lease: u64, value: u64) -> Request {
    Request::Put(PutRequest {
        key: Bytes::from(format!("lease-{lease}-{}", value % KEYS_PER_LEASE)),
        value: Bytes::from(value.to_string()),
        lease: lease as i64,
        ..PutRequest::default()
    })
}

/// Removes a key.
pub(crate) fn delete(key: u8) -> DeleteRangeRequest {
    DeleteRangeRequest {
        key: name(key),
        ..DeleteRangeRequest::default()
    }
}

/// Reads a key.
pub(crate) fn range(key: u8) -> RangeRequest {
    RangeRequest {
        key: name(key),
        ..RangeRequest::default()
    }
}

/// Stores a key if it was last modified at a revision, or does not exist if that is 0; reads it
/// otherwise.
pub(crate) fn cas(key: u8, expected: i64, value: u64) -> TxnRequest {
    TxnRequest {
        compare: vec![modified(key, expected)],
        success: vec![part(Part::RequestPut(put(key, value)))],
        failure: vec![part(Part::RequestRange(range(key)))],
    }
}

/// Whether a key was last modified at a revision.
pub(crate) fn modified(key: u8, expected: i64) -> Compare {
    Compare {
        target: CompareTarget::Mod as i32,
        key: name(key),
        target_union: Some(TargetUnion::ModRevision(expected)),
        ..Compare::default()
    }
}

/// One operation of a transaction.
pub(crate) fn part(request: Part) -> RequestOp {
    RequestOp {
        request: Some(request),
    }
}
