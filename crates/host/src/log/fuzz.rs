//! Segments and records from hostile bytes.

use super::format::{
    ALIGN, Census, Identity, Kind, LOG_MAGIC, RECORD_HEADER_BYTES, RecordHeader,
    SEGMENT_HEADER_BYTES, SegmentHeader, crc32c, decode_record, padded, record_crc,
};
use super::{LogSource, Piece, Position, encode_release, scan};
use crate::fuzz::fuzz;
use crate::log::format::encode_mark;
use bytes::Bytes;
use quorate_core::{ClusterId, Incarnation, ReplicaId, Slot};
use quorate_fuzz::Limits;
use std::io;

const SEGMENT: u64 = 1;
/// The fields of a segment's header, without their checksum.
const FIELDS_BYTES: usize = 66;

fn identity() -> Identity {
    Identity {
        cluster: ClusterId(1),
        replica: ReplicaId(2),
        incarnation: Incarnation(3),
    }
}

fn header() -> SegmentHeader {
    SegmentHeader {
        identity: identity(),
        segment: SEGMENT,
        previous_end: 0,
        segment_bytes: 1 << 14,
        boot: 1,
    }
}

/// Puts the checksum of a segment's header right.
fn seal_header(input: &mut [u8]) {
    if input.len() >= FIELDS_BYTES + 4 {
        let crc = crc32c(&[&input[..FIELDS_BYTES]]);
        input[FIELDS_BYTES..FIELDS_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The header of a segment is as its fields say, or refused.
pub(crate) fn headers() {
    let decode = |input: Bytes| {
        let mut bytes = input.to_vec();
        bytes.resize(SEGMENT_HEADER_BYTES as usize, 0);
        SegmentHeader::decode(&bytes, LOG_MAGIC, SEGMENT, &identity())
            .map_err(|error| format!("{error:?}"))
    };
    let seeds = [header().encode(LOG_MAGIC).slice(..FIELDS_BYTES + 4)];
    let limits = Limits {
        base_bytes: 16 << 10,
        ..Limits::default()
    };
    let fuzz = fuzz("segment-header")
        .seeds(seeds)
        .limits(limits)
        .seal(|input| seal_header(input));
    fuzz.run(decode, |input, header| {
        assert_eq!(
            header.encode(LOG_MAGIC)[..FIELDS_BYTES],
            input[..FIELDS_BYTES]
        );
    });
}

/// Where the records of a segment begin.
const FIRST: Position = Position {
    segment: SEGMENT,
    offset: SEGMENT_HEADER_BYTES,
};

/// Puts the checksums and places of the records in `input` right, as far as there are any.
fn seal_records(input: &mut [u8]) {
    const HEAD: usize = RECORD_HEADER_BYTES as usize;
    let mut start = 0;
    while input.len() >= start + HEAD {
        let length: [u8; 4] = input[start + 4..start + 8].try_into().expect("four bytes");
        let offset = FIRST.offset + start as u32;
        input[start + 8..start + 12].copy_from_slice(&offset.to_le_bytes());
        let end = (start + HEAD).saturating_add(u32::from_le_bytes(length) as usize);
        if end > input.len() {
            return;
        }
        let (head, body) = input[start..end].split_at(HEAD);
        let crc = record_crc(SEGMENT, &head[..28], std::iter::once(body));
        input[start + 28..start + HEAD].copy_from_slice(&crc.to_le_bytes());
        start = end.next_multiple_of(ALIGN as usize);
    }
}

/// Records of every kind, one after the other.
fn sample() -> Vec<u8> {
    let bodies = [
        (Kind::Boot, Bytes::from_static(&[7; 8])),
        (Kind::Machine, Bytes::from_static(b"of the protocol")),
        (Kind::Decided, Bytes::from_static(&[5, 0])),
        (Kind::Mark, encode_mark(FIRST)),
        (Kind::Release, encode_release(1).into_bytes()),
        (Kind::Boot, Bytes::from_static(&[9; 8])),
    ];
    let mut out = Vec::new();
    for (number, (kind, body)) in bodies.into_iter().enumerate() {
        let header = RecordHeader {
            kind,
            body_bytes: body.len() as u32,
            census: Census::first(),
            boot: 1 + number as u32 / 5,
            group: 0,
            epoch: 1,
        };
        let offset = FIRST.offset + out.len() as u32;
        let at = Position { offset, ..FIRST };
        out.extend_from_slice(&header.encode(at, std::slice::from_ref(&body)));
        out.extend_from_slice(&body);
        out.resize(padded(out.len() as u32) as usize, 0);
    }
    out
}

/// A record is as its header says, or none.
pub(crate) fn records() {
    let decode = |input: Bytes| decode_record(FIRST, &input).ok_or("none");
    let fuzz = fuzz("record")
        .seeds([sample()])
        .seal(|input| seal_records(input));
    fuzz.run(decode, |input, (header, end)| {
        let body = input.slice(RECORD_HEADER_BYTES as usize..*end);
        let head = header.encode(FIRST, &[body]);
        assert_eq!(head[..], input[..RECORD_HEADER_BYTES as usize]);
    });
}

/// A log of one segment.
struct One(Bytes);

impl LogSource for One {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(vec![SEGMENT])
    }

    fn read(&mut self, _segment: u64) -> io::Result<Bytes> {
        Ok(self.0.clone())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Stands for the length of a gap, in the place of a record's.
const GAP: usize = usize::MAX;

/// A log is read up to where it stops making sense, or refused: what is read lies within it.
pub(crate) fn segments() {
    let read = |input: Bytes| {
        let bytes = [&header().encode(LOG_MAGIC)[..], &input].concat();
        let mut found = Vec::new();
        let scanned = scan(&mut One(bytes.into()), &identity(), |piece| {
            match piece {
                Piece::Record(record) => found.push((record.at, record.body.len())),
                Piece::Gap(gap) => found.push((gap.to, GAP)),
                Piece::Doubt => {}
            }
            Ok(())
        });
        scanned.map(|scanned| (scanned.expect("there is a header"), found))
    };
    let limits = Limits {
        base_bytes: 16 << 10,
        ..Limits::default()
    };
    let fuzz = fuzz("segment")
        .seeds([sample()])
        .limits(limits)
        .seal(|input| seal_records(input));
    fuzz.run(read, |input, (scanned, found)| {
        let records = found.iter().filter(|(_, length)| *length != GAP);
        assert_eq!(scanned.records, records.count() as u64);
        let mut end = FIRST.offset;
        for (at, length) in found {
            if *length == GAP {
                assert!(at.offset > end, "a gap leads on");
                end = at.offset;
                continue;
            }
            assert_eq!(
                (at.segment, at.offset),
                (SEGMENT, end),
                "without other gaps"
            );
            end = padded(end + RECORD_HEADER_BYTES + *length as u32);
        }
        assert_eq!(scanned.tail.at.offset, end);
        assert!(end <= padded(FIRST.offset + input.len() as u32));
    });
}
