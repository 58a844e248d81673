//! Values that are kept as payloads: what the store knows of them, and which of them it still wants.
//!
//! A value that came as a payload is a [`ValueRef`] here. Length and digest are all that counts,
//! comparisons for equality and digests of the store need; nothing else here ever asks for bytes.
//!
//! While a response is put together, a key whose value is apart holds the encoded reference in the
//! value's place, and its version is negative. That form never leaves: [`crate::PendingResponse`] and
//! [`crate::Events`] have the ways from it to what a client may see.

use crate::command::each_put_of;
use crate::refused::Refused;
use quorate_core::{Decoder, Encoder, Payload, PayloadId, Wire, WireError};
use quorate_etcd_api::etcdserverpb::RequestOp;
use quorate_etcd_api::mvccpb::KeyValue;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A value that is kept as a payload: which payload it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ValueRef {
    /// The name of the payload that holds the value.
    pub id: PayloadId,
    /// The value's length in bytes.
    pub len: u32,
    /// The XXH3-128 digest of the value's bytes.
    pub digest: u128,
}

impl ValueRef {
    pub(crate) fn new(id: PayloadId, payload: &Payload) -> Self {
        ValueRef {
            id,
            len: payload.len,
            digest: payload.digest,
        }
    }

    /// The payload, without its bytes.
    #[must_use]
    pub fn payload(&self) -> Payload {
        Payload {
            len: self.len,
            digest: self.digest,
            bytes: None,
        }
    }

    /// The one in the place of a key's value, if there is one.
    #[must_use]
    pub fn of(kv: &KeyValue) -> Option<Result<Self, Refused>> {
        let found = || ValueRef::from_bytes(kv.value.clone()).map_err(|_| Refused::Malformed);
        is_value_ref(kv).then(found)
    }

    /// Puts it in the place of a key's value.
    pub(crate) fn put_in_place(&self, kv: &mut KeyValue) {
        kv.value = self.to_bytes();
        kv.version = -kv.version;
    }
}

impl Wire for ValueRef {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        self.payload().encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let id = PayloadId::decode(input)?;
        Ok(ValueRef::new(id, &Payload::decode(input)?))
    }
}

/// Whether a reference stands in the place of a key's value.
pub(crate) fn is_value_ref(kv: &KeyValue) -> bool {
    kv.version < 0
}

/// The payloads that versions refer to.
#[derive(Debug, Default)]
pub(crate) struct LivePayloads {
    live: BTreeMap<PayloadId, HeldPayload>,
    /// Payloads that ceased to be live.
    dead: Vec<PayloadId>,
}

/// A payload and how many versions refer to it: a put that keeps the value makes another one.
#[derive(Debug)]
struct HeldPayload {
    len: u32,
    digest: u128,
    versions: u64,
}

impl LivePayloads {
    /// A version refers to it. Says no if it is known as another one.
    pub(crate) fn hold(&mut self, reference: &ValueRef) -> bool {
        let ValueRef { id, len, digest } = *reference;
        let versions = 0;
        let held = self.live.entry(id).or_insert(HeldPayload {
            len,
            digest,
            versions,
        });
        held.versions += 1;
        (held.len, held.digest) == (len, digest)
    }

    /// A version that referred to it is gone.
    pub(crate) fn release(&mut self, id: PayloadId) {
        if let Some(held) = self.live.get_mut(&id) {
            held.versions -= 1;
            if held.versions == 0 {
                self.live.remove(&id);
                self.dead.push(id);
            }
        }
    }

    /// A command that brought so many is over: those that it did not keep are dead.
    pub(crate) fn settle(&mut self, first: PayloadId, count: usize) {
        let brought = (0..count).map(|part| nth(first, part));
        let dead = brought.filter(|id| !self.live.contains_key(id));
        self.dead.extend(dead);
    }

    pub(crate) fn is_live(&self, id: PayloadId) -> bool {
        self.live.contains_key(&id)
    }

    pub(crate) fn take_dead(&mut self) -> Vec<PayloadId> {
        std::mem::take(&mut self.dead)
    }

    pub(crate) fn after(&self, id: Option<PayloadId>, most: usize) -> Vec<(PayloadId, Payload)> {
        let from = id.map_or(Bound::Unbounded, Bound::Excluded);
        let live = self.live.range((from, Bound::Unbounded)).take(most);
        live.map(|(id, held)| {
            let (len, digest, bytes) = (held.len, held.digest, None);
            (*id, Payload { len, digest, bytes })
        })
        .collect()
    }
}

/// The name of the payload so many places behind a command's first.
fn nth(first: PayloadId, place: usize) -> PayloadId {
    PayloadId {
        part: first.part.wrapping_add(place as u32),
        ..first
    }
}

/// Gives the payloads of a command to its puts, which are visited in order.
pub(crate) struct PayloadParts<'a> {
    first: PayloadId,
    payloads: &'a [Payload],
    /// The puts that have a payload: their numbers among all puts of the command, ascending.
    puts: &'a [u32],
    /// The number of the next put.
    put: u32,
    /// How many payloads are given.
    given: usize,
}

impl<'a> PayloadParts<'a> {
    /// For a command without payloads.
    pub(crate) fn none() -> Self {
        PayloadParts::new(PayloadId::default(), &[], &[])
    }

    /// As many payloads as puts that have one.
    pub(crate) fn new(first: PayloadId, payloads: &'a [Payload], puts: &'a [u32]) -> Self {
        debug_assert_eq!(payloads.len(), puts.len());
        PayloadParts {
            first,
            payloads,
            puts,
            put: 0,
            given: 0,
        }
    }

    /// The value of the next put, if it is apart.
    pub(crate) fn next(&mut self) -> Option<ValueRef> {
        let put = self.put;
        self.put += 1;
        if self.puts.get(self.given) != Some(&put) {
            return None;
        }
        let payload = self.payloads.get(self.given)?;
        let id = nth(self.first, self.given);
        self.given += 1;
        Some(ValueRef::new(id, payload))
    }

    /// Passes the puts of operations that are not done.
    pub(crate) fn skip(&mut self, ops: &[RequestOp]) {
        if self.given == self.puts.len() {
            return;
        }
        each_put_of(ops, &mut |_| {
            self.next();
        });
    }
}
