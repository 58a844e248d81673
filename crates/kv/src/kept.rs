//! Bytes the store holds on to, in as little memory as possible.

use bytes::Bytes;
use std::ops::Deref;

/// The value of a version: 16 bytes, and one allocation of its own length.
///
/// A small value is copied in and out, which costs less than counting who shares it. A large one is
/// shared with whoever reads it.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    Own(Box<[u8]>),
    Shared(Box<Bytes>),
}

const _: () = assert!(size_of::<Kept>() == 16);

/// Values of this length and more are shared.
const SHARED_BYTES_MIN: usize = 1024;

impl Kept {
    /// A copy: what a request carries is a slice of a large buffer, and one small value must not keep
    /// all of it in memory.
    pub(crate) fn copy(bytes: &[u8]) -> Self {
        if bytes.len() < SHARED_BYTES_MIN {
            Kept::Own(bytes.into())
        } else {
            Kept::Shared(Box::new(Bytes::copy_from_slice(bytes)))
        }
    }

    /// The same bytes, and with them the buffer they are a slice of, if they are not small.
    pub(crate) fn share(bytes: &Bytes) -> Self {
        if bytes.len() < SHARED_BYTES_MIN {
            Kept::Own(bytes[..].into())
        } else {
            Kept::Shared(Box::new(bytes.clone()))
        }
    }

    /// For an answer.
    pub(crate) fn to_bytes(&self) -> Bytes {
        match self {
            Kept::Own(bytes) => Bytes::copy_from_slice(bytes),
            Kept::Shared(bytes) => Bytes::clone(bytes),
        }
    }
}

impl Default for Kept {
    /// The empty value.
    fn default() -> Self {
        Kept::Own(Box::default())
    }
}

impl Deref for Kept {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Kept::Own(bytes) => bytes,
            Kept::Shared(bytes) => bytes,
        }
    }
}
