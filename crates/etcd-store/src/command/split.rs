//! Commands of which values travel and are kept as payloads.

use super::{Command, PUT, PUT_WITH_PAYLOAD, TXN, TXN_WITH_PAYLOADS, encode};
use crate::auth::asker_and_body;
use crate::refused::Refused;
use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use quorate_core::{Decoder, Encoder, PAYLOAD_BYTES_MAX, Payload, WireError};
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{PutRequest, RequestOp, TxnRequest};

/// The body of a put and its payloads: a value of at least `bytes_min` bytes is one. Without
/// `bytes_min`, the value stays in the body.
#[must_use]
pub fn split_put(mut request: PutRequest, bytes_min: Option<usize>) -> (Bytes, Vec<Payload>) {
    match take_value(&mut request, bytes_min) {
        Some(payload) => (encode(PUT_WITH_PAYLOAD, &request), vec![payload]),
        None => (encode(PUT, &request), Vec::new()),
    }
}

/// The body of a transaction and its payloads, in the way of [`split_put`].
#[must_use]
pub fn split_txn(mut request: TxnRequest, bytes_min: Option<usize>) -> (Bytes, Vec<Payload>) {
    let (mut places, mut payloads) = (Vec::new(), Vec::new());
    let mut put: u32 = 0;
    if bytes_min.is_some() {
        each_put_mut(&mut request, &mut |request| {
            if let Some(payload) = take_value(request, bytes_min) {
                places.push(put);
                payloads.push(payload);
            }
            put += 1;
        });
    }
    if payloads.is_empty() {
        return (encode(TXN, &request), payloads);
    }
    let mut head = Encoder::new();
    head.u8(TXN_WITH_PAYLOADS);
    head.varint(places.len() as u64);
    let mut before = 0;
    for place in places {
        head.varint(u64::from(place - before));
        before = place;
    }
    let head = head.into_bytes();
    let mut body = BytesMut::with_capacity(head.len() + request.encoded_len());
    body.put(head);
    request.encode_raw(&mut body);
    (body.freeze(), payloads)
}

/// The body of the same command with nothing kept as payloads. `None` if it is not one that [`split_put`] or
/// [`split_txn`] made, with the bytes of all its payloads.
#[must_use]
pub fn join(body: &Bytes, payloads: &[Payload]) -> Option<Bytes> {
    if let Some((asker, body)) = asker_and_body(body).ok()? {
        return join_body(&body, payloads).map(|joined| asker.sign(joined));
    }
    join_body(body, payloads)
}

/// Joins a command that does not say who asks.
fn join_body(body: &Bytes, payloads: &[Payload]) -> Option<Bytes> {
    let mut values = payloads.iter().map(|payload| payload.bytes.clone());
    let joined = match Command::decode_body(body).ok()? {
        Command::PutWithPayload(mut request) => {
            request.value = values.next()??;
            encode(PUT, &request)
        }
        Command::TxnWithPayloads(mut request, places) => {
            let (mut put, mut is_whole) = (0, true);
            each_put_mut(&mut request, &mut |request| {
                if places.binary_search(&put).is_ok() {
                    let value = values.next().flatten();
                    is_whole &= value.is_some();
                    request.value = value.unwrap_or_default();
                }
                put += 1;
            });
            is_whole.then(|| encode(TXN, &request))?
        }
        _ => return None,
    };
    values.next().is_none().then_some(joined)
}

/// Takes the value out of a put, if it is to be kept as a payload.
fn take_value(request: &mut PutRequest, bytes_min: Option<usize>) -> Option<Payload> {
    let length = request.value.len();
    let is_value_ref =
        bytes_min.is_some_and(|min| length >= min.max(1)) && length <= PAYLOAD_BYTES_MAX;
    // A value that is given although the present one shall stay is refused with all of it.
    (is_value_ref && !request.ignore_value).then(|| Payload::of(std::mem::take(&mut request.value)))
}

/// Reads which puts have a payload, up to where the request begins.
pub(super) fn read_places(body: &mut Bytes) -> Result<Vec<u32>, Refused> {
    let mut input = Decoder::new(body.clone());
    let places = places(&mut input).map_err(|_| Refused::Malformed)?;
    *body = body.slice(body.len() - input.remaining()..);
    Ok(places)
}

fn places(input: &mut Decoder) -> Result<Vec<u32>, WireError> {
    let count = input.count(1)?;
    let mut places: Vec<u32> = Vec::new();
    for _ in 0..count {
        let distance = u32::try_from(input.varint()?).ok();
        let place = match (places.last(), distance) {
            (None, place) => place,
            (Some(_), Some(0)) => None,
            (Some(last), distance) => distance.and_then(|distance| last.checked_add(distance)),
        };
        places.push(place.ok_or(WireError::Range("place of a put"))?);
    }
    Ok(places)
}

/// Puts that have a payload have no value besides, and all of them exist.
pub(super) fn check(command: &Command) -> Result<(), Refused> {
    let is_free = |request: &PutRequest| request.value.is_empty() && !request.ignore_value;
    let is_sound = match command {
        Command::PutWithPayload(request) => is_free(request),
        Command::TxnWithPayloads(request, places) => {
            let mut left = &places[..];
            let (mut put, mut all_free) = (0, !places.is_empty());
            each_put(request, &mut |request| {
                if let Some((first, rest)) = left.split_first()
                    && *first == put
                {
                    left = rest;
                    all_free &= is_free(request);
                }
                put += 1;
            });
            all_free && left.is_empty()
        }
        _ => true,
    };
    is_sound.then_some(()).ok_or(Refused::Malformed)
}

/// Visits the puts of a transaction in the order in which they are numbered: those of the first
/// branch, then those of the second; those of inner transactions where these stand.
pub(crate) fn each_put(txn: &TxnRequest, visit: &mut impl FnMut(&PutRequest)) {
    each_put_of(&txn.success, visit);
    each_put_of(&txn.failure, visit);
}

/// Visits the puts of one branch of a transaction in the order in which they are numbered.
pub(crate) fn each_put_of(ops: &[RequestOp], visit: &mut impl FnMut(&PutRequest)) {
    for op in ops {
        match &op.request {
            Some(Request::RequestPut(put)) => visit(put),
            Some(Request::RequestTxn(inner)) => each_put(inner, visit),
            _ => {}
        }
    }
}

fn each_put_mut(txn: &mut TxnRequest, visit: &mut impl FnMut(&mut PutRequest)) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match &mut op.request {
            Some(Request::RequestPut(put)) => visit(put),
            Some(Request::RequestTxn(inner)) => each_put_mut(inner, visit),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &'static str, value: &'static str) -> Request {
        Request::RequestPut(PutRequest {
            key: key.into(),
            value: value.into(),
            ..PutRequest::default()
        })
    }

    fn txn() -> TxnRequest {
        let inner = TxnRequest {
            success: vec![put("b", "").into()],
            failure: vec![put("b", "long").into()],
            ..TxnRequest::default()
        };
        TxnRequest {
            success: vec![put("a", "s").into(), Request::RequestTxn(inner).into()],
            failure: vec![put("c", "longer").into()],
            ..TxnRequest::default()
        }
    }

    #[test]
    fn long_values_leave_the_body_and_short_ones_stay() {
        let (body, payloads) = split_txn(txn(), Some(4));
        let values: Vec<_> = payloads.iter().flat_map(|payload| &payload.bytes).collect();
        assert_eq!(values, ["long", "longer"]);
        assert_eq!(&body[..4], [TXN_WITH_PAYLOADS, 2, 2, 1]);
        let command = Command::decode(&body).expect("it was just encoded");
        assert_eq!(command.puts_with_payload(), [2, 3]);
        let Command::TxnWithPayloads(found, _) = command else {
            panic!("not a transaction: {command:?}");
        };
        let mut left = Vec::new();
        each_put(&found, &mut |put| left.push(put.value.clone()));
        assert_eq!(left, ["s", "", "", ""]);

        let Request::RequestPut(put) = put("k", "long") else {
            unreachable!()
        };
        let (body, payloads) = split_put(put.clone(), Some(4));
        assert_eq!((body[0], payloads.len()), (PUT_WITH_PAYLOAD, 1));
        assert_eq!(split_put(put.clone(), Some(5)), (encode(PUT, &put), vec![]));
    }

    #[test]
    fn what_was_split_can_be_joined() {
        let (body, payloads) = split_txn(txn(), Some(4));
        assert_eq!(join(&body, &payloads), Some(encode(TXN, &txn())));
        assert_eq!(join(&body, &payloads[1..]), None);
        let Request::RequestPut(put) = put("k", "long") else {
            unreachable!()
        };
        let (body, payloads) = split_put(put.clone(), Some(4));
        assert_eq!(join(&body, &payloads), Some(encode(PUT, &put)));
        let too_many = [payloads.clone(), payloads.clone()].concat();
        assert_eq!(join(&body, &too_many), None);
        let unknown = Payload {
            bytes: None,
            ..payloads[0].clone()
        };
        assert_eq!(join(&body, &[unknown]), None);
        assert_eq!(join(&encode(PUT, &put), &[]), None);
    }

    #[test]
    fn without_a_least_length_all_is_as_it_was() {
        assert_eq!(split_txn(txn(), None), (encode(TXN, &txn()), vec![]));
        assert_eq!(split_txn(txn(), Some(7)), (encode(TXN, &txn()), vec![]));
    }

    #[test]
    fn payloads_without_a_put_to_take_them_are_malformed() {
        let (body, _) = split_txn(txn(), Some(4));
        for (places, is_sound) in [
            (&[2, 2, 1][..], true),
            (&[0][..], false),
            (&[1, 0][..], false),
            (&[1, 4][..], false),
            (&[2, 2, 0][..], false),
            (&[0xff][..], false),
        ] {
            let body = [&[TXN_WITH_PAYLOADS][..], places, &body[4..]].concat();
            let decoded = Command::decode(&body.into());
            assert_eq!(decoded.is_ok(), is_sound, "{places:?}: {decoded:?}");
        }
        let both = PutRequest {
            key: "k".into(),
            value: "v".into(),
            ..PutRequest::default()
        };
        let decoded = Command::decode(&encode(PUT_WITH_PAYLOAD, &both));
        assert_eq!(decoded, Err(Refused::Malformed));
    }
}
