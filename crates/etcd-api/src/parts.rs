//! The size of a transaction in parts, told from its bytes.
//!
//! An operation of two bytes becomes one of some hundred when it is decoded, so a request within the
//! limit in bytes could take gigabytes. Whoever decodes a transaction counts first.

use prost::bytes::Buf;
use prost::encoding::{WireType, decode_key, decode_varint};

/// Conditions and operations in one transaction, those of inner ones included, at most. etcd's own
/// limit, 128 along any path of nesting, is far below for all that people write.
pub const TXN_PARTS_MAX: usize = 1 << 16;

/// A [`TxnRequest`](crate::etcdserverpb::TxnRequest)'s fields with parts.
const COMPARE: u32 = 1;
const SUCCESS: u32 = 2;
const FAILURE: u32 = 3;
/// A [`RequestOp`](crate::etcdserverpb::RequestOp)'s field with an inner transaction.
const TXN: u32 = 4;

/// Whether an encoded transaction has more than [`TXN_PARTS_MAX`] conditions and operations before
/// its end, or before it stops being one.
#[must_use]
pub fn has_too_many_parts(txn: &[u8]) -> bool {
    let mut left = TXN_PARTS_MAX;
    // What is still to be looked at; inner ones first, in the order in which they are decoded.
    let mut open: Vec<(Kind, &[u8])> = vec![(Kind::Txn, txn)];
    while let Some((kind, mut bytes)) = open.pop() {
        let Some((field, inner)) = next_field(&mut bytes) else {
            continue;
        };
        if !bytes.is_empty() {
            open.push((kind, bytes));
        }
        match (kind, field) {
            (Kind::Txn, COMPARE | SUCCESS | FAILURE) => {
                let Some(less) = left.checked_sub(1) else {
                    return true;
                };
                left = less;
                if field != COMPARE {
                    open.push((Kind::Operation, inner));
                }
            }
            (Kind::Operation, TXN) => open.push((Kind::Txn, inner)),
            _ => {}
        }
    }
    false
}

/// A message that has parts in it.
#[derive(Clone, Copy)]
enum Kind {
    Txn,
    Operation,
}

/// Takes the next field: its number, and its content if that is bytes. `None` at the end, and where
/// no decoder gets further either.
fn next_field<'a>(bytes: &mut &'a [u8]) -> Option<(u32, &'a [u8])> {
    if bytes.is_empty() {
        return None;
    }
    let (field, wire_type) = decode_key(bytes).ok()?;
    let length = match wire_type {
        WireType::Varint => {
            decode_varint(bytes).ok()?;
            0
        }
        WireType::LengthDelimited => usize::try_from(decode_varint(bytes).ok()?).ok()?,
        WireType::SixtyFourBit => 8,
        WireType::ThirtyTwoBit => 4,
        // The fields of a group follow it as if they were the message's own: some may be counted
        // that are none, and none is missed.
        WireType::StartGroup | WireType::EndGroup => 0,
    };
    let content = bytes.get(..length)?;
    bytes.advance(length);
    Some((field, content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::etcdserverpb::request_op::Request;
    use crate::etcdserverpb::{Compare, PutRequest, RequestOp, TxnRequest};
    use prost::Message;

    /// A transaction with this many parts, nested as deep as decoders go.
    fn nested(parts: usize) -> TxnRequest {
        const WIDTH: usize = 2_000;
        let mut txn = TxnRequest::default();
        let mut left = parts;
        while left > 0 {
            let mut outer = TxnRequest::default();
            if txn != TxnRequest::default() {
                outer.failure.push(Request::RequestTxn(txn).into());
                left -= 1;
            }
            let width = left.min(WIDTH);
            let put = || RequestOp::from(Request::RequestPut(PutRequest::default()));
            outer.success = (0..width / 2).map(|_| put()).collect();
            outer.compare = vec![Compare::default(); width - width / 2];
            left -= width;
            txn = outer;
        }
        txn
    }

    #[test]
    fn parts_are_counted_however_they_are_nested() {
        for (parts, too_many) in [
            (0, false),
            (1, false),
            (TXN_PARTS_MAX, false),
            (TXN_PARTS_MAX + 1, true),
        ] {
            let bytes = nested(parts).encode_to_vec();
            assert_eq!(has_too_many_parts(&bytes), too_many, "{parts} parts");
        }
    }

    #[test]
    fn the_smallest_operations_and_hidden_ones_are_counted() {
        let many = TXN_PARTS_MAX + 1;
        let empty = [((SUCCESS as u8) << 3) | 2, 0].repeat(many);
        assert!(has_too_many_parts(&empty));
        assert!(!has_too_many_parts(&empty[..2 * TXN_PARTS_MAX]));
        // In a group that no message of etcd's has, and behind one.
        assert!(has_too_many_parts(&[&[0x7b][..], &empty, &[0x7c]].concat()));
        assert!(has_too_many_parts(&[&[0x7b, 0x7c][..], &empty].concat()));
        // Cut off: what comes before the end is decoded before the end is noticed.
        assert!(has_too_many_parts(&[&empty[..], &[0x12, 9, 1]].concat()));
    }
}
