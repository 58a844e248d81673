//! Frames on a peer connection: `length u32 | crc32c of the payload u32 | payload`, little-endian.

use bytes::buf::Limit;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use quorate_core::ENTRY_BYTES_MAX;
use std::fmt;

/// Bytes before each payload.
pub(crate) const HEADER_BYTES: usize = 8;
/// The largest payload: the largest entry with what a message adds to it.
pub(crate) const PAYLOAD_BYTES_MAX: usize = ENTRY_BYTES_MAX + (1 << 20);

/// Bytes that a connection asks of the kernel at once.
const READ_BYTES: usize = 64 << 10;
/// Payloads with their header of so many bytes are long.
const LONG_BYTES_MIN: usize = READ_BYTES;
/// A header is believed once what is missing is no more than so many times what has arrived.
const BELIEVED_TIMES: usize = 3;
/// Payloads below this are copied out of the read buffer, so that one kept small entry does not
/// keep a whole buffer alive.
const COPY_BYTES_MAX: usize = 16 << 10;

/// Whether a payload can be so long.
pub(crate) fn is_length(length: usize) -> bool {
    (1..=PAYLOAD_BYTES_MAX).contains(&length)
}

/// The header of a payload given in pieces; `None` if it is larger than a peer would take.
#[must_use]
pub(crate) fn header(pieces: &[Bytes]) -> Option<[u8; HEADER_BYTES]> {
    let length: usize = pieces.iter().map(Bytes::len).sum();
    if !is_length(length) {
        return None;
    }
    let checksum = match pieces {
        [one] => crc_fast::crc32_iscsi(one),
        many => {
            let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
            many.iter().for_each(|piece| digest.update(piece));
            digest.finalize() as u32
        }
    };
    let mut header = [0; HEADER_BYTES];
    header[..4].copy_from_slice(&(length as u32).to_le_bytes());
    header[4..].copy_from_slice(&checksum.to_le_bytes());
    Some(header)
}

/// Why a connection's bytes are not frames. The connection is closed: nothing after them means
/// anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FrameError {
    /// The frame has no payload.
    Empty,
    /// A length no replica sends.
    TooLong(u32),
    /// The checksum does not match the payload.
    Checksum,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::Empty => f.write_str("a frame without payload"),
            FrameError::TooLong(length) => write!(
                f,
                "a frame that claims {length} bytes, where {PAYLOAD_BYTES_MAX} are the most"
            ),
            FrameError::Checksum => f.write_str("a frame whose checksum does not match"),
        }
    }
}

/// Cuts a connection's bytes into payloads. Its memory grows only as bytes arrive.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    buffer: BytesMut,
    /// Whether the buffer is as long as the payload that arrives.
    is_fitting: bool,
}

impl FrameDecoder {
    /// Where to append what arrives next, with room for some: a few times what has arrived at the
    /// most, whatever a header promises. A long payload gets memory of its own length, since
    /// whoever keeps it keeps all of that: a buffer that is used again and grows takes twice as much
    /// each time.
    pub(crate) fn input(&mut self) -> Limit<&mut BytesMut> {
        let (arrived, missing) = (self.buffer.len(), self.missing());
        if missing == 0 || arrived + missing < LONG_BYTES_MIN {
            self.buffer.reserve(READ_BYTES);
            return (&mut self.buffer).limit(usize::MAX);
        }
        if missing > BELIEVED_TIMES * arrived {
            self.buffer.reserve(READ_BYTES);
        } else if !self.is_fitting {
            let mut fitting = BytesMut::with_capacity(arrived + missing);
            fitting.put_slice(&self.buffer);
            (self.buffer, self.is_fitting) = (fitting, true);
        }
        (&mut self.buffer).limit(missing)
    }

    /// The next complete payload; `None` if more bytes are needed.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(length) = self.promised()? else {
            return Ok(None);
        };
        if self.buffer.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        self.buffer.get_u32_le();
        let checksum = self.buffer.get_u32_le();
        let payload = if length < COPY_BYTES_MAX {
            let payload = Bytes::copy_from_slice(&self.buffer[..length]);
            self.buffer.advance(length);
            payload
        } else {
            self.buffer.split_to(length).freeze()
        };
        if std::mem::take(&mut self.is_fitting) {
            self.buffer = BytesMut::new();
        }
        if crc_fast::crc32_iscsi(&payload) == checksum {
            Ok(Some(payload))
        } else {
            Err(FrameError::Checksum)
        }
    }

    /// Takes bytes as they arrive, and each payload out as soon as it is whole.
    #[cfg(test)]
    pub(crate) fn feed(&mut self, mut bytes: &[u8]) -> Result<Vec<Bytes>, FrameError> {
        let mut payloads = Vec::new();
        while !bytes.is_empty() {
            let mut input = self.input();
            let count = input.remaining_mut().min(bytes.len());
            input.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            while let Some(payload) = self.next()? {
                payloads.push(payload);
            }
        }
        Ok(payloads)
    }

    /// How long the payload is that arrives next, as far as its header is here and sensible.
    pub(crate) fn expected(&self) -> usize {
        self.promised().ok().flatten().unwrap_or(0)
    }

    /// The length in the header, once that is here and sensible.
    fn promised(&self) -> Result<Option<usize>, FrameError> {
        let Some(bytes) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        match u32::from_le_bytes(*bytes) {
            0 => Err(FrameError::Empty),
            length if length as usize > PAYLOAD_BYTES_MAX => Err(FrameError::TooLong(length)),
            length => Ok(Some(length as usize)),
        }
    }

    fn missing(&self) -> usize {
        match self.promised() {
            Ok(Some(length)) => (HEADER_BYTES + length).saturating_sub(self.buffer.len()),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let payload = Bytes::copy_from_slice(payload);
        let header = header(std::slice::from_ref(&payload)).unwrap();
        [&header[..], &payload[..]].concat()
    }

    #[test]
    fn payloads_come_out_as_they_went_in_however_the_bytes_are_cut() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let payloads: Vec<Vec<u8>> = (0..rng.usize(1..8))
                .map(|_| (0..rng.usize(1..40_000)).map(|_| rng.u8(..)).collect())
                .collect();
            let stream: Vec<u8> = payloads
                .iter()
                .flat_map(|payload| framed(payload))
                .collect();
            let mut decoder = FrameDecoder::default();
            let (mut got, mut at) = (Vec::new(), 0);
            while at < stream.len() {
                let end = (at + rng.usize(1..60_000)).min(stream.len());
                got.extend(decoder.feed(&stream[at..end]).unwrap());
                at = end;
            }
            assert_eq!(got, payloads);
        }
    }

    /// As a socket's bytes arrive: into the room there is, and no further.
    fn arrive(decoder: &mut FrameDecoder, mut bytes: &[u8]) -> Vec<Bytes> {
        let mut payloads = Vec::new();
        while !bytes.is_empty() {
            let mut input = decoder.input();
            let count = input.chunk_mut().len().min(bytes.len());
            input.put_slice(&bytes[..count]);
            bytes = &bytes[count..];
            while let Some(payload) = decoder.next().unwrap() {
                payloads.push(payload);
            }
        }
        payloads
    }

    #[test]
    fn who_keeps_a_long_payload_keeps_no_more_than_that() {
        let mut decoder = FrameDecoder::default();
        for round in 0..50 {
            // What is dropped at once leaves its memory to the next.
            let length = (100 << 10) + round * 40_000;
            let mut payloads = arrive(&mut decoder, &framed(&vec![3; length]));
            assert!(arrive(&mut decoder, &framed(&[4; 50])).len() == 1);
            let payload = payloads.pop().unwrap().try_into_mut().unwrap();
            assert_eq!((payload.len(), payload.capacity()), (length, length));
        }
    }

    #[test]
    fn a_long_payload_has_memory_of_its_own() {
        let mut decoder = FrameDecoder::default();
        let stream = framed(&vec![3; 1 << 20]).repeat(3);
        let mut payloads = Vec::new();
        for piece in stream.chunks(50_000) {
            payloads.extend(decoder.feed(piece).unwrap());
        }
        drop(decoder);
        assert_eq!(payloads.len(), 3);
        for payload in payloads {
            let Ok(whole) = payload.try_into_mut() else {
                panic!("another payload is in the same memory");
            };
            let room = whole.capacity() - whole.len();
            assert!(room < READ_BYTES, "{room} bytes beside it");
        }
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let pieces = [
            Bytes::from_static(b"one "),
            Bytes::new(),
            Bytes::from_static(b"two"),
        ];
        let whole = Bytes::from(pieces.concat());
        assert_eq!(header(&pieces), header(&[whole]));
        assert_eq!(header(&[]), None);
    }

    #[test]
    fn each_kind_of_nonsense_is_named() {
        let mut huge = framed(b"x");
        huge[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        let mut flipped = framed(b"hello");
        flipped[10] ^= 4;
        let cases: [(&[u8], FrameError); 3] = [
            (&[0; 8], FrameError::Empty),
            (&huge, FrameError::TooLong(u32::MAX)),
            (&flipped, FrameError::Checksum),
        ];
        for (bytes, expected) in cases {
            let mut decoder = FrameDecoder::default();
            assert_eq!(decoder.feed(bytes), Err(expected));
        }
    }

    #[test]
    fn a_promised_length_allocates_nothing_before_its_bytes_arrive() {
        let mut decoder = FrameDecoder::default();
        let promised = (PAYLOAD_BYTES_MAX as u32).to_le_bytes();
        decoder.feed(&promised).unwrap();
        for arrived in [4, 8, 100_000, 300_000] {
            let missing = arrived - decoder.buffer.len();
            assert_eq!(decoder.feed(&vec![1; missing]), Ok(Vec::new()));
            let most = 4 * arrived.max(READ_BYTES);
            let capacity = decoder.input().get_ref().capacity();
            assert!(
                capacity <= most,
                "{capacity} bytes allocated for {arrived} arrived"
            );
        }
    }

    /// Scenario: a peer, or an attacker, sends damaged and random bytes. The decoder gives an error
    /// or waits for more; it never panics and never holds more than a few times what arrived.
    #[test]
    fn hostile_bytes_never_panic_and_never_allocate_beyond_what_arrived() {
        for seed in 0..5_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut stream = framed(&vec![rng.u8(..); rng.usize(1..2_000)]);
            match rng.u8(0..4) {
                0 => stream.truncate(rng.usize(0..stream.len())),
                1 => (0..rng.usize(1..9)).for_each(|_| {
                    let at = rng.usize(0..stream.len());
                    stream[at] ^= 1 << rng.u8(0..8);
                }),
                2 => stream[..4].copy_from_slice(&rng.u32(..).to_le_bytes()),
                _ => stream.iter_mut().for_each(|byte| *byte = rng.u8(..)),
            }
            let mut decoder = FrameDecoder::default();
            let _ = decoder.feed(&stream);
            let most = 4 * READ_BYTES.max(stream.len());
            assert!(decoder.input().get_ref().capacity() <= most, "seed {seed}");
        }
    }
}
