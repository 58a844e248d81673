//! Encoding of messages and records: little-endian, varints, bounded, zero-copy for bulk.
//!
//! Bytes from the network are untrusted: decoding any input returns a value or an error, never
//! panics, and never allocates more than the input's own length allows. Every value has exactly one
//! encoding: bytes that decode are those the value encodes to.

use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// A slice this long or longer is attached to the output by reference instead of being copied.
const ATTACH_BYTES_MIN: usize = 4096;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The input ended inside the named thing.
    Short(&'static str),
    /// A number is outside the range of the named thing.
    Range(&'static str),
    /// An unknown tag for the named thing.
    Tag(&'static str, u8),
    /// Bytes were left over after a complete value.
    Trailing(usize),
    /// A checksum does not match its content.
    Checksum(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Short(what) => write!(f, "input ends inside {what}"),
            WireError::Range(what) => write!(f, "number out of range for {what}"),
            WireError::Tag(what, tag) => write!(f, "unknown tag {tag} for {what}"),
            WireError::Trailing(count) => write!(f, "{count} bytes left over"),
            WireError::Checksum(what) => write!(f, "checksum of {what} does not match"),
        }
    }
}

impl std::error::Error for WireError {}

/// A value with a byte encoding of its own.
pub trait Wire: Sized {
    /// Appends the encoding to `out`.
    fn encode(&self, out: &mut Encoder);
    /// Takes one value from the front of `input`.
    fn decode(input: &mut Decoder) -> Result<Self, WireError>;

    /// The complete encoding as one piece of memory (copies attachments: not for hot paths).
    fn to_bytes(&self) -> Bytes {
        let mut out = Encoder::new();
        self.encode(&mut out);
        out.into_bytes()
    }

    /// Decodes a value that must fill `bytes` exactly.
    fn from_bytes(bytes: Bytes) -> Result<Self, WireError> {
        let mut input = Decoder::new(bytes);
        let value = Self::decode(&mut input)?;
        input.finish()?;
        Ok(value)
    }
}

/// What has an encoding that somebody else reads back, who may have to know more than the bytes.
pub trait Written {
    /// Appends the encoding to `out`.
    fn write(&self, out: &mut Encoder);

    /// The complete encoding as one piece of memory (copies attachments: not for hot paths).
    fn written(&self) -> Bytes {
        let mut out = Encoder::new();
        self.write(&mut out);
        out.into_bytes()
    }
}

impl<T: Wire> Written for T {
    fn write(&self, out: &mut Encoder) {
        self.encode(out);
    }
}

/// Builds an encoding as a list of chunks: small parts are copied together, bulk is attached by
/// reference, so that payload bytes are not copied on their way to the socket or the log.
///
/// One that is used again and again takes memory once for many encodings, which share it: it is free again when
/// all of them are gone.
#[derive(Default, Debug)]
pub struct Encoder {
    chunks: Vec<Bytes>,
    tail: BytesMut,
}

impl Encoder {
    /// An empty encoder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty encoder with room for this many bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Encoder {
            chunks: Vec::new(),
            tail: BytesMut::with_capacity(bytes),
        }
    }

    /// Bytes encoded so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum::<usize>() + self.tail.len()
    }

    /// Whether nothing was encoded yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.tail.is_empty()
    }

    /// A single byte.
    pub fn u8(&mut self, value: u8) {
        self.tail.put_u8(value);
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self, value: u32) {
        self.tail.extend_from_slice(&value.to_le_bytes());
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self, value: u64) {
        self.tail.extend_from_slice(&value.to_le_bytes());
    }

    /// One to ten bytes, seven bits each, low bits first.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.tail.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.tail.put_u8(value as u8);
    }

    /// Raw bytes without a length.
    pub fn slice(&mut self, bytes: &[u8]) {
        self.tail.extend_from_slice(bytes);
    }

    /// Bytes with their length; bulk is attached, not copied.
    pub fn bytes(&mut self, bytes: &Bytes) {
        self.varint(bytes.len() as u64);
        if bytes.len() >= ATTACH_BYTES_MIN {
            self.cut();
            self.chunks.push(bytes.clone());
        } else {
            self.tail.extend_from_slice(bytes);
        }
    }

    /// A string with its length.
    pub fn string(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.tail.extend_from_slice(text.as_bytes());
    }

    /// Everything encoded so far, in order; the encoder is empty afterwards.
    #[must_use]
    pub fn take_chunks(&mut self) -> Vec<Bytes> {
        self.cut();
        std::mem::take(&mut self.chunks)
    }

    /// Everything encoded so far as one piece of memory; the encoder is empty afterwards.
    #[must_use]
    pub fn take_bytes(&mut self) -> Bytes {
        match self.chunks.is_empty() {
            true => self.tail.split().freeze(),
            false => self.take_chunks().concat().into(),
        }
    }

    /// Everything as one piece of memory.
    #[must_use]
    pub fn into_bytes(mut self) -> Bytes {
        match self.chunks.is_empty() {
            true => self.tail.freeze(),
            false => self.take_chunks().concat().into(),
        }
    }

    fn cut(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push(self.tail.split().freeze());
        }
    }
}

/// Takes values from the front of a buffer; byte strings are slices of it.
#[derive(Clone, Debug)]
pub struct Decoder {
    whole: Bytes,
    /// What lies before was read.
    at: usize,
}

impl Decoder {
    /// Reads from `bytes`.
    #[must_use]
    pub fn new(bytes: Bytes) -> Self {
        Decoder {
            whole: bytes,
            at: 0,
        }
    }

    /// Bytes not read yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.whole.len() - self.at
    }

    /// A single byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        let byte = self.whole.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte.ok_or(WireError::Short("byte"))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.fixed("u32").map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.fixed("u64").map(u64::from_le_bytes)
    }

    /// A varint; more than 64 bits are an error, and so are more bytes than it needs.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(WireError::Range("varint"));
            }
            value |= bits << shift;
            if byte == 0 && shift > 0 {
                return Err(WireError::Range("varint"));
            }
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Range("varint"))
    }

    /// A varint used as a count of things that each take at least `size_min` further bytes: a
    /// count the input cannot hold is an error, so that it is safe to allocate for it.
    pub fn count(&mut self, size_min: usize) -> Result<usize, WireError> {
        let count = self.varint()?;
        if count > (self.remaining() / size_min.max(1)) as u64 {
            return Err(WireError::Range("count"));
        }
        Ok(count as usize)
    }

    /// A fixed number of raw bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.fixed("array")
    }

    /// Bytes with their length, as a slice of the input.
    pub fn bytes(&mut self) -> Result<Bytes, WireError> {
        let length = self.varint()?;
        if length > self.remaining() as u64 {
            return Err(WireError::Short("bytes"));
        }
        let from = self.at;
        self.at += length as usize;
        Ok(self.whole.slice(from..self.at))
    }

    /// A string with its length.
    pub fn string(&mut self) -> Result<String, WireError> {
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| WireError::Range("string"))
    }

    /// Checks that everything was read.
    pub fn finish(&self) -> Result<(), WireError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(WireError::Trailing(left)),
        }
    }

    fn fixed<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let rest = &self.whole[self.at..];
        let bytes = rest.first_chunk().ok_or(WireError::Short(what))?;
        self.at += N;
        Ok(*bytes)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, out: &mut Encoder) {
        match self {
            None => out.u8(0),
            Some(value) => {
                out.u8(1);
                value.encode(out);
            }
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        match input.u8()? {
            0 => Ok(None),
            1 => Ok(Some(T::decode(input)?)),
            tag => Err(WireError::Tag("option", tag)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_at_every_width() {
        for value in (0..64).flat_map(|bit| [(1u64 << bit) - 1, 1 << bit, u64::MAX >> bit]) {
            let mut out = Encoder::new();
            out.varint(value);
            let mut input = Decoder::new(out.into_bytes());
            assert_eq!(input.varint(), Ok(value));
            assert_eq!(input.finish(), Ok(()));
        }
    }

    #[test]
    fn an_overlong_varint_is_an_error() {
        let mut input = Decoder::new(Bytes::from_static(&[0xff; 11]));
        assert_eq!(input.varint(), Err(WireError::Range("varint")));
        let mut input = Decoder::new(Bytes::from_static(&[0x81, 0x00]));
        assert_eq!(input.varint(), Err(WireError::Range("varint")));
    }

    #[test]
    fn bulk_is_attached_without_a_copy_and_reads_back() {
        let bulk = Bytes::from(vec![7u8; 10_000]);
        let mut out = Encoder::new();
        out.u8(1);
        out.bytes(&bulk);
        out.u8(2);
        let chunks = out.take_chunks();
        assert_eq!(chunks[1].as_ptr(), bulk.as_ptr());
        let mut input = Decoder::new(chunks.concat().into());
        assert_eq!(
            (input.u8(), input.bytes(), input.u8()),
            (Ok(1), Ok(bulk), Ok(2))
        );
    }

    #[test]
    fn a_length_beyond_the_input_is_an_error_and_allocates_nothing() {
        let mut out = Encoder::new();
        out.varint(u64::MAX);
        let bytes = out.into_bytes();
        assert_eq!(
            Decoder::new(bytes.clone()).bytes(),
            Err(WireError::Short("bytes"))
        );
        assert_eq!(Decoder::new(bytes).count(1), Err(WireError::Range("count")));
    }
}
