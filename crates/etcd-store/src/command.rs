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
//! | `0x19` | a change of users and roles ([`AuthChange`]): one byte that says which, then etcd's request |
//! | `0x1a` | who asks: the auth revision as a varint, a user's name with its length; then another command |
//! | `0x1b` | another command, asked for by the server itself |
//! | `0x21` | an etcd `PutRequest` without its value, which is the command's payload |
//! | `0x23` | which puts have a payload each (their count, and their numbers among all puts in the order of the request, less that of the one before, as varints), then an etcd `TxnRequest` without their values |
//!
//! The high half of the first byte is the version of the format, the low half the kind of command.
//! A result is
//!
//! | first byte | the rest |
//! |---|---|
//! | `0x10` | the store's revision afterwards (8 bytes, little-endian), then the response message without its header |
//! | `0x1f` | one byte, the number of a [`Refused`] |
//! | `0x20` | as `0x10`, with values in it that are kept as payloads: see [`crate::PendingResponse`] |
//!
//! The header is left out because it names the answering member, and results are the same on every
//! replica. Protobuf fields may come in any order, so a face puts the header in front of the
//! response without looking into it.

use crate::auth::{Asker, AuthChange, BY_SERVER, BY_USER, asker_and_body, bare_body};
use crate::lease::LeaseExpiry;
use crate::pending_values::MayWait;
use crate::refused::Refused;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use quorate_core::Admission;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, TxnRequest,
};
use quorate_etcd_api::has_too_many_parts;

mod split;

pub(crate) use split::each_put_of;
pub use split::{join, split_put, split_txn};

const PUT: u8 = 0x11;
const DELETE_RANGE: u8 = 0x12;
const TXN: u8 = 0x13;
const COMPACT: u8 = 0x14;
const LEASE_GRANT: u8 = 0x15;
const LEASE_REVOKE: u8 = 0x16;
const LEASE_RENEW: u8 = 0x17;
const LEASE_EXPIRE: u8 = 0x18;
const AUTH: u8 = 0x19;
const PUT_WITH_PAYLOAD: u8 = 0x21;
const TXN_WITH_PAYLOADS: u8 = 0x23;
const APPLIED: u8 = 0x10;
const PENDING: u8 = 0x20;
const REFUSED: u8 = 0x1f;

/// Whether a command changes keys and nothing else, whatever comes of it.
pub(crate) fn changes_keys_alone(body: &Bytes) -> bool {
    match body.first() {
        Some(&(PUT | DELETE_RANGE | TXN)) => true,
        Some(&(BY_USER | BY_SERVER)) => {
            matches!(bare_body(body).first(), Some(&(PUT | DELETE_RANGE | TXN)))
        }
        _ => false,
    }
}

/// Whether a command may make the store larger. Bytes that are no command change nothing.
pub(crate) fn grows(body: &Bytes) -> bool {
    match body.first() {
        Some(&(PUT | PUT_WITH_PAYLOAD | TXN_WITH_PAYLOADS | LEASE_GRANT)) => true,
        Some(&(TXN | BY_USER | BY_SERVER)) => {
            Command::decode(body).is_ok_and(|command| command.grows())
        }
        _ => false,
    }
}

/// Who asks for a command, as it says.
#[must_use]
pub fn asker(body: &Bytes) -> Asker {
    let signed = asker_and_body(body).ok().flatten();
    signed.map_or(Asker::Anybody, |(asker, _)| asker)
}

/// A decoded command. Keys and values are slices of the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Write a key with its value.
    Put(PutRequest),
    /// Delete a range of keys.
    DeleteRange(DeleteRangeRequest),
    /// Run a transaction.
    Txn(TxnRequest),
    /// Forget history before a revision.
    Compact(CompactionRequest),
    /// Begin a lease.
    LeaseGrant(LeaseGrantRequest),
    /// End a lease.
    LeaseRevoke(LeaseRevokeRequest),
    /// Renew a lease.
    LeaseRenew(LeaseKeepAliveRequest),
    /// End a lease that was not renewed.
    LeaseExpire(LeaseExpiry),
    /// Write a key whose value is the command's payload.
    PutWithPayload(PutRequest),
    /// Run a transaction; the puts with these numbers have their values as payloads.
    TxnWithPayloads(TxnRequest, Vec<u32>),
    /// Change users or roles.
    Auth(AuthChange),
}

impl Command {
    /// Reads a command, whoever asks for it.
    pub fn decode(body: &Bytes) -> Result<Self, Refused> {
        match asker_and_body(body)? {
            Some((_, body)) => Command::decode_body(&body),
            None => Command::decode_body(body),
        }
    }

    /// Reads a command that does not say who asks.
    pub(crate) fn decode_body(body: &Bytes) -> Result<Self, Refused> {
        let kind = *body.first().ok_or(Refused::Malformed)?;
        let mut message = body.slice(1..);
        let puts = match kind {
            TXN_WITH_PAYLOADS => split::read_places(&mut message)?,
            _ => Vec::new(),
        };
        if matches!(kind, TXN | TXN_WITH_PAYLOADS) && has_too_many_parts(&message) {
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
            AUTH => AuthChange::decode(message).map(Command::Auth),
            PUT_WITH_PAYLOAD => PutRequest::decode(message).map(Command::PutWithPayload),
            TXN_WITH_PAYLOADS => {
                TxnRequest::decode(message).map(|txn| Command::TxnWithPayloads(txn, puts))
            }
            _ => return Err(Refused::Malformed),
        };
        let command = decoded.map_err(|_| Refused::Malformed)?;
        split::check(&command)?;
        Ok(command)
    }

    /// Whether it may make the store larger: as in etcd, what puts a key, in whichever branch of a transaction, or
    /// grants a lease. Deletions are versions, too, but with them and with compactions space is made.
    fn grows(&self) -> bool {
        match self {
            Command::Put(_)
            | Command::PutWithPayload(_)
            | Command::TxnWithPayloads(..)
            | Command::LeaseGrant(_) => true,
            Command::Txn(request) => {
                let mut puts = false;
                each_put_of(&request.success, &mut |_| puts = true);
                each_put_of(&request.failure, &mut |_| puts = true);
                puts
            }
            Command::DeleteRange(_)
            | Command::Compact(_)
            | Command::LeaseRevoke(_)
            | Command::LeaseRenew(_)
            | Command::LeaseExpire(_)
            | Command::Auth(_) => false,
        }
    }

    /// Refuses what the group's alarms do not allow.
    pub(crate) fn admit(&self, admission: Admission) -> Result<(), Refused> {
        match admission {
            Admission::All => Ok(()),
            Admission::NoGrowth if self.grows() => Err(Refused::NoSpace),
            Admission::NoGrowth => Ok(()),
            Admission::Nothing => Err(Refused::Corrupt),
        }
    }

    /// The puts that have a payload each, by their numbers among all of the command's, ascending.
    #[must_use]
    pub fn puts_with_payload(&self) -> &[u32] {
        match self {
            Command::PutWithPayload(_) => &[0],
            Command::TxnWithPayloads(_, puts) => puts,
            _ => &[],
        }
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

/// The body of a change of users or roles.
#[must_use]
pub fn encode_auth(change: &AuthChange) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(AUTH);
    change.encode(&mut body);
    body.freeze()
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
    /// Whether values are missing in it: then it is for [`crate::PendingResponse::of_result`].
    pub has_pending_values: bool,
}

/// Reads a result.
pub fn decode_result(result: &Bytes) -> Result<Applied, Refused> {
    match result.split_first() {
        Some((kind @ (&APPLIED | &PENDING), rest)) => {
            let (revision, _) = rest.split_first_chunk().ok_or(Refused::Malformed)?;
            Ok(Applied {
                revision: i64::from_le_bytes(*revision),
                response: result.slice(1 + revision.len()..),
                has_pending_values: *kind == PENDING,
            })
        }
        Some((&REFUSED, [code])) => Err(Refused::from_code(*code).unwrap_or(Refused::Malformed)),
        _ => Err(Refused::Malformed),
    }
}

/// Encodes the result of a command that was applied; `response` has no header.
pub(crate) fn applied(revision: i64, response: &impl Message) -> Bytes {
    result(APPLIED, revision, response)
}

/// Encodes the result of a command that was applied, for a response that may wait for values.
pub(crate) fn applied_with_values(revision: i64, response: &(impl Message + MayWait)) -> Bytes {
    let kind = if response.waits() { PENDING } else { APPLIED };
    result(kind, revision, response)
}

fn result(kind: u8, revision: i64, response: &impl Message) -> Bytes {
    let mut result = BytesMut::with_capacity(9 + response.encoded_len());
    result.put_u8(kind);
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
            b"\x22",
            b"\x31",
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
            Ok(Applied {
                revision,
                response,
                has_pending_values: false
            })
        );
        for code in 1..=33 {
            let reason = Refused::from_code(code).expect("the numbers are dense");
            assert_eq!(decode_result(&refused(reason)), Err(reason));
        }
        for other in [&b""[..], b"\x10\x01", b"\x1f", b"\x1f\xff", b"\x00"] {
            let other = Bytes::copy_from_slice(other);
            assert_eq!(decode_result(&other), Err(Refused::Malformed));
        }
    }
}
