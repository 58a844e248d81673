//! Bytes the store holds on to, in as little memory as possible.

use crate::value_refs::ValueRef;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::KeyValue;

/// The value of a version: 16 bytes, and one allocation of its own length.
///
/// A small value is copied in and out, which costs less than counting who shares it. A large one is
/// shared with whoever reads it. One that is kept as a payload is known by length and digest.
#[derive(Clone, Debug)]
pub(crate) enum StoredValue {
    Own(Box<[u8]>),
    Indirect(Box<Indirect>),
}

/// A value that is not in an allocation of its own: in a box, so that those that are stay small.
#[derive(Clone, Debug)]
pub(crate) enum Indirect {
    Shared(Bytes),
    Payload(Box<ValueRef>),
}

const _: () = assert!(size_of::<StoredValue>() == 16);

/// Values of this length and more are shared.
const SHARED_BYTES_MIN: usize = 1024;

impl StoredValue {
    /// A copy: what a request carries is a slice of a large buffer, and one small value must not keep
    /// all of it in memory.
    pub(crate) fn copy(bytes: &[u8]) -> Self {
        if bytes.len() < SHARED_BYTES_MIN {
            StoredValue::Own(bytes.into())
        } else {
            StoredValue::shared(Bytes::copy_from_slice(bytes))
        }
    }

    /// Shares the bytes, and with them the buffer they are a slice of, if they are not small.
    pub(crate) fn share(bytes: &Bytes) -> Self {
        if bytes.len() < SHARED_BYTES_MIN {
            StoredValue::Own(bytes[..].into())
        } else {
            StoredValue::shared(bytes.clone())
        }
    }

    /// A value that is kept as a payload.
    pub(crate) fn by_reference(reference: ValueRef) -> Self {
        StoredValue::Indirect(Box::new(Indirect::Payload(Box::new(reference))))
    }

    fn shared(bytes: Bytes) -> Self {
        StoredValue::Indirect(Box::new(Indirect::Shared(bytes)))
    }

    /// The bytes, or which payload they are.
    pub(crate) fn bytes(&self) -> Result<&[u8], &ValueRef> {
        match self {
            StoredValue::Own(bytes) => Ok(bytes),
            StoredValue::Indirect(other) => match &**other {
                Indirect::Shared(bytes) => Ok(bytes),
                Indirect::Payload(reference) => Err(reference),
            },
        }
    }

    /// The reference to the payload, if the value is kept as one.
    pub(crate) fn reference(&self) -> Option<&ValueRef> {
        self.bytes().err()
    }

    /// Length of the value, in bytes, wherever it is.
    pub(crate) fn len(&self) -> usize {
        match self.bytes() {
            Ok(bytes) => bytes.len(),
            Err(reference) => reference.len as usize,
        }
    }

    /// Estimated memory, in bytes.
    pub(crate) fn bytes_held(&self) -> u64 {
        match self.bytes() {
            Ok(bytes) => bytes.len() as u64,
            Err(_) => REFERENCE_BYTES,
        }
    }

    /// Puts the value into an answer, or what stands in its place.
    pub(crate) fn show(&self, kv: &mut KeyValue) {
        match self {
            StoredValue::Own(bytes) => kv.value = Bytes::copy_from_slice(bytes),
            StoredValue::Indirect(other) => match &**other {
                Indirect::Shared(bytes) => kv.value = bytes.clone(),
                Indirect::Payload(reference) => reference.put_in_place(kv),
            },
        }
    }
}

/// Estimated memory of a reference, and of the payload's place among those that are live.
const REFERENCE_BYTES: u64 = 2 * size_of::<ValueRef>() as u64 + 32;

impl Default for StoredValue {
    /// The empty value.
    fn default() -> Self {
        StoredValue::Own(Box::default())
    }
}
