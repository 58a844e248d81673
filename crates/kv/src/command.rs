//! Commands and results, as they travel in the log.
//!
//! A command is one byte and a protobuf message:
//!
//! | first byte | the rest |
//! |---|---|
//! | `0x11` | an etcd `PutRequest` |
//! | `0x12` | an etcd `DeleteRangeRequest` |
//! | `0x13` | an etcd `TxnRequest` |
//! | `0x14` | an etcd `CompactionRequest` |
//! | `0x15` | an etcd `LeaseGrantRequest` |
//! | `0x16` | an etcd `LeaseRevokeRequest` |
//! | `0x17` | an etcd `LeaseKeepAliveRequest` |
//! | `0x18` | a [`LeaseExpiry`] |
//!
//! The high half of the first byte is the version of the format, the low half the kind of command.
//! A result is
//!
//! | first byte | the rest |
//! |---|---|
//! | `0x10` | the store's revision afterwards (8 bytes, little-endian), then the response message without its header |
//! | `0x1f` | one byte, the number of a [`Refused`] |
//!
//! The header is left out because it names the answering member, and results are the same on every
//! replica. Protobuf fields may come in any order, so a face puts the header in front of the
//! response without looking into it.

use crate::lease::LeaseExpiry;
use crate::refused::Refused;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, TxnRequest,
};
use quorate_etcd_api::has_too_many_parts;

const PUT: u8 = 0x11;
const DELETE_RANGE: u8 = 0x12;
const TXN: u8 = 0x13;
const COMPACT: u8 = 0x14;
const LEASE_GRANT: u8 = 0x15;
const LEASE_REVOKE: u8 = 0x16;
const LEASE_RENEW: u8 = 0x17;
const LEASE_EXPIRE: u8 = 0x18;
const APPLIED: u8 = 0x10;
const REFUSED: u8 = 0x1f;

/// A decoded command. Keys and values are slices of the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Write a key.
    Put(PutRequest),
    /// Delete keys.
    DeleteRange(DeleteRangeRequest),
    /// Several at once.
    Txn(TxnRequest),
    /// Forget history.
    Compact(CompactionRequest),
    /// Begin a lease.
    LeaseGrant(LeaseGrantRequest),
    /// End a lease.
    LeaseRevoke(LeaseRevokeRequest),
    /// Renew a lease.
    LeaseRenew(LeaseKeepAliveRequest),
    /// End a lease that was not renewed.
    LeaseExpire(LeaseExpiry),
}

impl Command {
    /// Reads a command body.
    pub fn decode(body: &Bytes) -> Result<Self, Refused> {
        let kind = *body.first().ok_or(Refused::Malformed)?;
        let message = body.slice(1..);
        if kind == TXN && has_too_many_parts(&message) {
            return Err(Refused::TooManyOps);
        }
        let decoded = match kind {
            PUT => PutRequest::decode(message).map(Command::Put),
            DELETE_RANGE => DeleteRangeRequest::decode(message).map(Command::DeleteRange),
            TXN => TxnRequest::decode(message).map(Command::Txn),
            COMPACT => CompactionRequest::decode(message).map(Command::Compact),
            LEASE_GRANT => LeaseGrantRequest::decode(message).map(Command::LeaseGrant),
            LEASE_REVOKE => LeaseRevokeRequest::decode(message).map(Command::LeaseRevoke),
            LEASE_RENEW => LeaseKeepAliveRequest::decode(message).map(Command::LeaseRenew),
            LEASE_EXPIRE => LeaseExpiry::decode(message).map(Command::LeaseExpire),
            _ => return Err(Refused::Malformed),
        };
        decoded.map_err(|_| Refused::Malformed)
    }
}

/// The body of a put.
#[must_use]
pub fn encode_put(request: &PutRequest) -> Bytes {
    encode(PUT, request)
}

/// The body of a deletion.
#[must_use]
pub fn encode_delete_range(request: &DeleteRangeRequest) -> Bytes {
    encode(DELETE_RANGE, request)
}

/// The body of a transaction.
#[must_use]
pub fn encode_txn(request: &TxnRequest) -> Bytes {
    encode(TXN, request)
}

/// The body of a compaction.
#[must_use]
pub fn encode_compact(request: &CompactionRequest) -> Bytes {
    encode(COMPACT, request)
}

/// The body of a lease's grant.
#[must_use]
pub fn encode_lease_grant(request: &LeaseGrantRequest) -> Bytes {
    encode(LEASE_GRANT, request)
}

/// The body of a lease's revocation.
#[must_use]
pub fn encode_lease_revoke(request: &LeaseRevokeRequest) -> Bytes {
    encode(LEASE_REVOKE, request)
}

/// The body of a lease's renewal.
#[must_use]
pub fn encode_lease_renew(request: &LeaseKeepAliveRequest) -> Bytes {
    encode(LEASE_RENEW, request)
}

/// The body of a lease's expiry.
#[must_use]
pub fn encode_expiry(expiry: &LeaseExpiry) -> Bytes {
    encode(LEASE_EXPIRE, expiry)
}

fn encode(kind: u8, request: &impl Message) -> Bytes {
    let mut body = BytesMut::with_capacity(1 + request.encoded_len());
    body.put_u8(kind);
    request.encode_raw(&mut body);
    body.freeze()
}

/// The result of a command that was not refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Applied {
    /// The store's revision afterwards.
    pub revision: i64,
    /// The response message of the request's kind, encoded, without its header.
    pub response: Bytes,
}

/// Reads a result.
pub fn decode_result(result: &Bytes) -> Result<Applied, Refused> {
    match result.split_first() {
        Some((&APPLIED, rest)) => {
            let (revision, _) = rest.split_first_chunk().ok_or(Refused::Malformed)?;
            Ok(Applied {
                revision: i64::from_le_bytes(*revision),
                response: result.slice(1 + revision.len()..),
            })
        }
        Some((&REFUSED, [code])) => Err(Refused::from_code(*code).unwrap_or(Refused::Malformed)),
        _ => Err(Refused::Malformed),
    }
}

/// Encodes the result of a command that was applied; `response` has no header.
pub(crate) fn applied(revision: i64, response: &impl Message) -> Bytes {
    let mut result = BytesMut::with_capacity(9 + response.encoded_len());
    result.put_u8(APPLIED);
    result.put_i64_le(revision);
    response.encode_raw(&mut result);
    result.freeze()
}

/// Encodes a refusal.
pub(crate) fn refused(refused: Refused) -> Bytes {
    Bytes::copy_from_slice(&[REFUSED, refused as u8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_back_as_they_were() {
        let put = PutRequest {
            key: Bytes::from_static(b"k"),
            value: Bytes::from_static(b"v"),
            lease: -5,
            prev_kv: true,
            ..PutRequest::default()
        };
        assert_eq!(Command::decode(&encode_put(&put)), Ok(Command::Put(put)));
        let delete = DeleteRangeRequest {
            key: Bytes::from_static(b"a"),
            range_end: Bytes::from_static(b"\0"),
            prev_kv: false,
        };
        assert_eq!(
            Command::decode(&encode_delete_range(&delete)),
            Ok(Command::DeleteRange(delete))
        );
        let compact = CompactionRequest {
            revision: 9,
            physical: true,
        };
        assert_eq!(
            Command::decode(&encode_compact(&compact)),
            Ok(Command::Compact(compact))
        );
        let txn = TxnRequest::default();
        assert_eq!(Command::decode(&encode_txn(&txn)), Ok(Command::Txn(txn)));
    }

    #[test]
    fn what_is_no_command_is_malformed() {
        for body in [
            &b""[..],
            b"\x10",
            b"\x1e",
            b"\x21",
            b"\x11\x0a\xff",
            b"\x13\x12\x01\xff",
        ] {
            let body = Bytes::copy_from_slice(body);
            assert_eq!(Command::decode(&body), Err(Refused::Malformed), "{body:?}");
        }
    }

    #[test]
    fn results_come_back_as_they_were() {
        let response = Bytes::from_static(b"\x10\x03");
        let result = [&b"\x10\x07\0\0\0\0\0\0\0"[..], &response].concat();
        let revision = 7;
        assert_eq!(
            decode_result(&Bytes::from(result)),
            Ok(Applied { revision, response })
        );
        for code in 1..=13 {
            let reason = Refused::from_code(code).expect("the numbers are dense");
            assert_eq!(decode_result(&refused(reason)), Err(reason));
        }
        for other in [&b""[..], b"\x10\x01", b"\x1f", b"\x1f\xff", b"\x00"] {
            let other = Bytes::copy_from_slice(other);
            assert_eq!(decode_result(&other), Err(Refused::Malformed));
        }
    }
}
