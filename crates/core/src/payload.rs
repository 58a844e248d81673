//! Payloads: the bulky parts of commands, which travel and are stored beside what protocols order.

use crate::ids::EntryId;
use crate::wire::{Decoder, Encoder, Wire, WireError};
use bytes::Bytes;
use std::fmt;
use xxhash_rust::xxh3::xxh3_128;

/// No payload is longer, in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// A bulky part of a command. Length and digest are known to every replica; the bytes are where the
/// command enters, and at most a fragment of them elsewhere.
#[derive(Clone)]
pub struct Payload {
    /// Length in bytes.
    pub len: u32,
    /// XXH3-128 of the bytes.
    pub digest: u128,
    /// The bytes, if they are at hand.
    pub bytes: Option<Bytes>,
}

impl Payload {
    /// The least that one takes in an encoding, in bytes.
    pub const BYTES_MIN: usize = 17;

    /// These bytes, of which the digest is computed here, once.
    ///
    /// # Panics
    /// If they are 4 GiB long or more.
    #[must_use]
    pub fn of(bytes: Bytes) -> Payload {
        Payload {
            len: u32::try_from(bytes.len()).expect("payloads are bounded far below 4 GiB"),
            digest: xxh3_128(&bytes),
            bytes: Some(bytes),
        }
    }

    /// Whether these are its bytes.
    #[must_use]
    pub fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len as usize && xxh3_128(bytes) == self.digest
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Payload) -> bool {
        (self.len, self.digest) == (other.len, other.digest)
    }
}

impl Eq for Payload {}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.len)
    }
}

impl Wire for Payload {
    fn encode(&self, out: &mut Encoder) {
        out.varint(u64::from(self.len));
        out.slice(&self.digest.to_le_bytes());
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let len = input.varint()?;
        let len = u32::try_from(len).ok();
        let len = len.filter(|len| *len as usize <= PAYLOAD_BYTES_MAX);
        Ok(Payload {
            len: len.ok_or(WireError::Range("payload length"))?,
            digest: u128::from_le_bytes(input.array()?),
            bytes: None,
        })
    }
}

/// The name of a payload: the entry its command came in, and which of that entry's payloads it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PayloadId {
    /// The entry of the payload.
    pub entry: EntryId,
    /// The place of the payload among those of all the entry's commands, from 0.
    pub part: u32,
}

impl Wire for PayloadId {
    fn encode(&self, out: &mut Encoder) {
        self.entry.encode(out);
        out.varint(u64::from(self.part));
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(PayloadId {
            entry: EntryId::decode(input)?,
            part: u32::try_from(input.varint()?).map_err(|_| WireError::Range("part"))?,
        })
    }
}

/// What is at hand of an entry's payloads: of each of them one fragment, or all of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Share {
    /// How many fragments rebuild a payload (the papers' `X` and `k`). With 1, a fragment is the
    /// whole.
    pub code: u8,
    /// The index of the fragments in the code.
    pub index: u8,
    /// One for each payload of the entry, in order.
    pub parts: Vec<Bytes>,
}

impl Share {
    /// All of it.
    #[must_use]
    pub fn whole(parts: Vec<Bytes>) -> Share {
        let (code, index) = (1, 0);
        Share { code, index, parts }
    }

    /// Whether the payloads are here as they are.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.code == 1
    }

    /// Bytes of all parts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// Whether there is nothing in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "fragment {} under {}, {} B",
            self.index,
            self.code,
            self.len()
        )
    }
}
