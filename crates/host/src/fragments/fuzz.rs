//! Heads, footers and segments of the fragment store from hostile bytes.

use super::FragmentStore;
use super::format::{
    Head, Origin, Part, TRAILER_BYTES, decode_footer, decode_trailer, encode_footer,
};
use crate::fuzz::fuzz;
use crate::log::{BULK_MAGIC, Identity, LogSource, SEGMENT_HEADER_BYTES, SegmentHeader, crc32c};
use crate::position::Position;
use bytes::{Bytes, BytesMut};
use quorate_core::{Boot, ClusterId, EntryId, Incarnation, ReplicaId, Slot};
use quorate_fuzz::Limits;
use std::io;
use xxhash_rust::xxh3::xxh3_64;

const SEGMENT: u64 = 1;
const BOOT: u32 = 4;
/// Where the count of parts is in a head, and what a head takes without and for each of them.
const COUNT_AT: usize = 24;
const HEAD_BYTES: usize = 52;
const PART_BYTES: usize = 24;
/// Where in a trailer the length of the heads before it is.
const LENGTH_AT: usize = 20;

fn identity() -> Identity {
    Identity {
        cluster: ClusterId(1),
        replica: ReplicaId(2),
        incarnation: Incarnation(3),
    }
}

/// A record at this place, of fragments of these lengths.
fn record(offset: u32, lens: &[u32]) -> (Head, Vec<u8>) {
    let begin = offset + Head::len_of(lens.len());
    let mut head = Head {
        origin: Origin {
            entry: EntryId {
                origin: ReplicaId(1),
                boot: Boot(2),
                seq: 3,
            },
            n: 5,
            code: 3,
            index: 1,
        },
        offset,
        boot: BOOT,
        durable: SEGMENT_HEADER_BYTES,
        bytes: Head::len_of(lens.len()) + lens.iter().sum::<u32>(),
        parts: Vec::new(),
    };
    let mut body = Vec::new();
    for (part, len) in (0..).zip(lens) {
        let bytes = vec![part as u8; *len as usize];
        head.parts.push(Part {
            part,
            payload_len: 3 * len,
            offset: begin + body.len() as u32,
            len: *len,
            checksum: xxh3_64(&bytes),
        });
        body.extend_from_slice(&bytes);
    }
    body.resize(
        head.stride() as usize - Head::len_of(lens.len()) as usize,
        0,
    );
    (head, body)
}

/// The length of the head that `input` begins with, if all of it is there.
fn head_len(input: &[u8]) -> Option<usize> {
    let count = input.get(COUNT_AT..COUNT_AT + 4)?;
    let count = u32::from_le_bytes(count.try_into().expect("four bytes")) as usize;
    let length = count.checked_mul(PART_BYTES)?.checked_add(HEAD_BYTES)?;
    (length <= input.len()).then_some(length)
}

/// Puts the checksum of the head that `input` begins with right; says how long it is.
fn seal_head(input: &mut [u8]) -> Option<usize> {
    let length = head_len(input)?;
    let (covered, crc) = input[..length].split_at_mut(length - 4);
    crc.copy_from_slice(&crc32c(&[&SEGMENT.to_le_bytes(), covered]).to_le_bytes());
    Some(length)
}

/// A head is as its bytes say, or none.
pub(crate) fn heads() {
    let decode = |input: Bytes| Head::decode(SEGMENT, &input).ok_or("none");
    let seeds = [&[][..], &[300], &[0, 4096, 17]].map(|lens| record(4096, lens).0.encode(SEGMENT));
    let fuzz = fuzz("bulk-head").seeds(seeds).seal(|input| {
        seal_head(input);
    });
    fuzz.run(decode, |input, (head, length)| {
        assert_eq!(head.encode(SEGMENT), input.slice(..*length));
    });
}

/// Heads one after the other, and their trailer.
fn footer(heads: &[Head]) -> Bytes {
    let mut listed = BytesMut::new();
    for head in heads {
        listed.extend_from_slice(&head.encode(SEGMENT));
    }
    encode_footer(SEGMENT, BOOT, listed.freeze())
        .concat()
        .into()
}

/// Puts the checksums of a footer right.
fn seal_footer(input: &mut [u8]) {
    let Some(end) = input.len().checked_sub(TRAILER_BYTES as usize) else {
        return;
    };
    let (mut rest, trailer) = input.split_at_mut(end);
    trailer[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(end as u32).to_le_bytes());
    while let Some(length) = seal_head(rest) {
        rest = &mut rest[length..];
    }
    let crc = {
        let (heads, trailer) = input.split_at(end);
        crc32c(&[&trailer[..28], heads])
    };
    input[end + 28..].copy_from_slice(&crc.to_le_bytes());
}

/// A footer lists what its bytes say, or nothing.
pub(crate) fn footers() {
    let decode = |input: Bytes| {
        let end = input.len().checked_sub(TRAILER_BYTES as usize);
        let (heads, trailer) = input.split_at(end.ok_or("too short")?);
        let length = decode_trailer(SEGMENT, trailer).ok_or("no trailer")?;
        if length as usize != heads.len() {
            return Err("of another length");
        }
        decode_footer(SEGMENT, heads, trailer).ok_or("damaged")
    };
    let two = [record(4096, &[300]).0, record(4608, &[0, 4096, 17]).0];
    let fuzz = fuzz("bulk-footer")
        .seeds([footer(&[]), footer(&two)])
        .seal(|input| seal_footer(input));
    fuzz.run(decode, |input, (_, heads)| {
        let listed: Vec<Bytes> = heads.iter().map(|head| head.encode(SEGMENT)).collect();
        assert_eq!(
            listed.concat(),
            input[..input.len() - TRAILER_BYTES as usize]
        );
    });
}

/// A store of one segment.
struct One(Bytes);

impl LogSource for One {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    fn read(&mut self, _segment: u64) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn fragment_segments(&mut self) -> io::Result<Vec<(u64, u32)>> {
        Ok(vec![(SEGMENT, self.0.len() as u32)])
    }

    fn read_fragments(&mut self, at: Position, len: u32) -> io::Result<Bytes> {
        let from = at.offset as usize;
        Ok(self.0.slice(from..from + len as usize))
    }
}

/// Puts the checksums and places of the records in a segment right, and those of its footer.
fn seal_segment(input: &mut [u8]) {
    let mut start = 0;
    while let Some(length) = input.get(start..).and_then(head_len) {
        let offset = SEGMENT_HEADER_BYTES + start as u32;
        input[start + 8..start + 12].copy_from_slice(&offset.to_le_bytes());
        input[start + 12..start + 16].copy_from_slice(&BOOT.to_le_bytes());
        let bytes = input[start + 20..start + 24]
            .try_into()
            .expect("four bytes");
        seal_head(&mut input[start..]);
        let stride = (u32::from_le_bytes(bytes) as usize).max(length);
        start += stride.next_multiple_of(16);
    }
}

/// A segment is read as far as it makes sense, or refused: what is listed is there.
pub(crate) fn segments() {
    let header = SegmentHeader {
        identity: identity(),
        segment: SEGMENT,
        previous_end: 0,
        segment_bytes: 1 << 14,
        boot: BOOT,
    };
    let header = header.encode(BULK_MAGIC);
    let open = |input: Bytes| {
        let bytes = [&header[..], &input].concat();
        FragmentStore::open(&mut One(bytes.into()), identity(), 1 << 14)
    };
    let (first, body) = record(4096, &[300]);
    let (second, more) = record(4096 + first.stride() as u32, &[0, 512, 17]);
    let encoded = [
        &first.encode(SEGMENT)[..],
        &body,
        &second.encode(SEGMENT),
        &more,
    ]
    .concat();
    let listed = [&encoded[..], &footer(&[first, second])].concat();
    let limits = Limits {
        // The header before what is made up, and a part of an index for each few bytes of it.
        base_bytes: 64 << 10,
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let fuzz = fuzz("bulk-segment")
        .seeds([encoded, listed])
        .limits(limits)
        .seal(|input| seal_segment(input));
    fuzz.run(open, |input, (store, opened)| {
        for found in store.fragments() {
            let from = (found.at.offset - SEGMENT_HEADER_BYTES) as usize;
            let bytes = &input[from..from + found.len as usize];
            assert!(opened.scanned == 0 || found.is(bytes), "{found:?}");
        }
        assert!(opened.fragments >= store.fragments().count() as u64);
    });
}
