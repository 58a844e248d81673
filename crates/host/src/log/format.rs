//! The bytes of segments and records (`docs/reference/log-format.md` draws them).

use crate::position::Position;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use crc_fast::{CrcAlgorithm, Digest};
use quorate_core::{ClusterId, Encoder, Incarnation, ReplicaId};
use std::ops::Range;

/// The version this program writes; it reads this one and all before.
pub(crate) const FORMAT_VERSION: u32 = 1;
/// Bytes before the first record of a segment.
pub(crate) const SEGMENT_HEADER_BYTES: u32 = 4096;
/// Bytes before a record's body.
pub(crate) const RECORD_HEADER_BYTES: u32 = 32;
/// Records begin at multiples of this.
pub(crate) const ALIGN: u32 = 16;
/// A mark with its padding; every segment keeps room for one at its end.
pub(crate) const MARK_BYTES: u32 = RECORD_HEADER_BYTES + 16;

/// What a segment of the log begins with.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"QUORATEL";
/// What a segment of the fragment store begins with.
pub(crate) const BULK_MAGIC: [u8; 8] = *b"QUORATEB";
const RECORD_MAGIC: u16 = 0x7251;
const SEGMENT_FIELDS_BYTES: usize = 66;

/// Whose log this is: part of every segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) cluster: ClusterId,
    pub(crate) replica: ReplicaId,
    pub(crate) incarnation: Incarnation,
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A process started and writes from here on.
    Boot,
    /// A record of the epoch's machine.
    Machine,
    /// A slot was decided for an entry whose bytes an earlier record carries, or for none.
    Decided,
    /// A slot was decided, learned from a peer together with the entry's bytes.
    Learned,
    /// The log is durable up to the position in the body.
    Mark,
    /// Segments before the one in the body are not needed any more, and may be gone.
    Release,
    /// Promises before this were lost to damage: the machine's records there count no more.
    Lost,
    /// The replica's own part in epochs.
    Epoch,
    /// How far the promises of peers went, and those of this replica.
    Progress,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Kind::Boot => 1,
            Kind::Machine => 2,
            Kind::Decided => 3,
            Kind::Learned => 4,
            Kind::Mark => 5,
            Kind::Release => 6,
            Kind::Lost => 7,
            Kind::Epoch => 8,
            Kind::Progress => 9,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        [
            Kind::Boot,
            Kind::Machine,
            Kind::Decided,
            Kind::Learned,
            Kind::Mark,
            Kind::Release,
            Kind::Lost,
            Kind::Epoch,
            Kind::Progress,
        ]
        .into_iter()
        .find(|kind| kind.code() == code)
    }
}

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    pub(crate) identity: Identity,
    /// Its own number.
    pub(crate) segment: u64,
    /// Where the records of the segment before it end; 0 for the first, and in the fragment store.
    pub(crate) previous_end: u32,
    /// Size of the file.
    pub(crate) segment_bytes: u32,
    /// The boot that began it.
    pub(crate) boot: u32,
}

/// What is wrong with a segment's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum HeaderError {
    Invalid,
    Version(u32),
    Foreign(String),
}

impl SegmentHeader {
    pub(crate) fn encode(&self, magic: [u8; 8]) -> Bytes {
        let mut out = BytesMut::zeroed(SEGMENT_HEADER_BYTES as usize);
        let mut fields = &mut out[..];
        fields.put_slice(&magic);
        fields.put_u32_le(FORMAT_VERSION);
        fields.put_u128_le(self.identity.cluster.0);
        fields.put_u128_le(self.identity.incarnation.0);
        fields.put_u16_le(self.identity.replica.0);
        fields.put_u64_le(self.segment);
        fields.put_u32_le(self.previous_end);
        fields.put_u32_le(self.segment_bytes);
        fields.put_u32_le(self.boot);
        let crc = crc32c(&[&out[..SEGMENT_FIELDS_BYTES]]);
        out[SEGMENT_FIELDS_BYTES..SEGMENT_FIELDS_BYTES + 4].copy_from_slice(&crc.to_le_bytes());
        out.freeze()
    }

    pub(crate) fn decode(
        bytes: &[u8],
        magic: [u8; 8],
        segment: u64,
        identity: &Identity,
    ) -> Result<SegmentHeader, HeaderError> {
        if bytes.len() < SEGMENT_HEADER_BYTES as usize || bytes[..8] != magic {
            return Err(HeaderError::Invalid);
        }
        let mut fields = &bytes[8..];
        let version = fields.get_u32_le();
        let cluster = ClusterId(fields.get_u128_le());
        let incarnation = Incarnation(fields.get_u128_le());
        let replica = ReplicaId(fields.get_u16_le());
        let header = SegmentHeader {
            identity: Identity {
                cluster,
                replica,
                incarnation,
            },
            segment: fields.get_u64_le(),
            previous_end: fields.get_u32_le(),
            segment_bytes: fields.get_u32_le(),
            boot: fields.get_u32_le(),
        };
        if crc32c(&[&bytes[..SEGMENT_FIELDS_BYTES]]) != fields.get_u32_le() {
            return Err(HeaderError::Invalid);
        }
        // The version is checked after the checksum: rot in the version field is rot.
        if version == 0 {
            return Err(HeaderError::Invalid);
        }
        if version > FORMAT_VERSION {
            return Err(HeaderError::Version(version));
        }
        header.belongs(segment, identity)?;
        Ok(header)
    }

    fn belongs(&self, segment: u64, identity: &Identity) -> Result<(), HeaderError> {
        let mine = identity;
        let its = &self.identity;
        let foreign = |what: &str, its: String, mine: String| {
            Err(HeaderError::Foreign(format!(
                "its {what} is {its}, this replica's is {mine}"
            )))
        };
        if its.cluster != mine.cluster {
            return foreign("cluster", its.cluster.to_string(), mine.cluster.to_string());
        }
        if its.replica != mine.replica {
            return foreign("replica", its.replica.to_string(), mine.replica.to_string());
        }
        if its.incarnation != mine.incarnation {
            let (its, mine) = (its.incarnation.to_string(), mine.incarnation.to_string());
            return foreign("incarnation", its, mine);
        }
        if self.segment != segment {
            // A recycled file whose new header did not reach the disk: no segment yet. If records
            // of it had been durable, a mark says so.
            return Err(HeaderError::Invalid);
        }
        Ok(())
    }
}

/// A record's header, decoded and checked against its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) kind: Kind,
    pub(crate) body_bytes: u32,
    /// How many records concern all slots ([`Census`]), this one included.
    pub(crate) census: Census,
    pub(crate) boot: u32,
    pub(crate) group: u32,
    pub(crate) epoch: u64,
}

/// Counts the records that concern all slots, in a byte: from 1 to 255 and round again; 0 in a log
/// of a program that did not count. Equal before and behind a gap, it proves that none of them was
/// lost there, provided that the gap is too short for a whole round.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Census(u8);

impl Census {
    /// After one more.
    pub(crate) fn next(self) -> Census {
        Census(self.0 % u8::MAX + 1)
    }

    /// In a log without any.
    pub(crate) fn first() -> Census {
        Census(1)
    }

    /// The same, in a log that goes on to be counted from here.
    pub(crate) fn begun(self) -> Census {
        Census(self.0.max(1))
    }

    /// Whether nothing was counted in the `bytes` between this and a `later` one.
    pub(crate) fn is_complete(self, later: Census, bytes: u64) -> bool {
        let round = u64::from(u8::MAX) * u64::from(RECORD_HEADER_BYTES);
        self.0 != 0 && self == later && bytes < round
    }
}

impl RecordHeader {
    /// The header's bytes for a record at `at` with this body.
    pub(crate) fn encode(
        &self,
        at: Position,
        body: &[Bytes],
    ) -> [u8; RECORD_HEADER_BYTES as usize] {
        let mut out = [0u8; RECORD_HEADER_BYTES as usize];
        let mut fields = &mut out[..];
        fields.put_u16_le(RECORD_MAGIC);
        fields.put_u8(self.kind.code());
        fields.put_u8(self.census.0);
        fields.put_u32_le(self.body_bytes);
        fields.put_u32_le(at.offset);
        fields.put_u32_le(self.boot);
        fields.put_u32_le(self.group);
        fields.put_u64_le(self.epoch);
        let crc = record_crc(at.segment, &out[..28], body.iter().map(|chunk| &chunk[..]));
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Bytes from this record's start to the next one's.
    pub(crate) fn stride(&self) -> u32 {
        padded(RECORD_HEADER_BYTES + self.body_bytes)
    }
}

/// Rounds up to where the next record may begin.
pub(crate) fn padded(bytes: u32) -> u32 {
    bytes.next_multiple_of(ALIGN)
}

/// Reads the record at `at` in the bytes of its segment from there on; `None` if none is valid.
pub(crate) fn decode_record(at: Position, bytes: &[u8]) -> Option<(RecordHeader, usize)> {
    if bytes.len() < RECORD_HEADER_BYTES as usize {
        return None;
    }
    let mut fields = &bytes[..RECORD_HEADER_BYTES as usize];
    if fields.get_u16_le() != RECORD_MAGIC {
        return None;
    }
    let kind = Kind::from_code(fields.get_u8())?;
    let census = Census(fields.get_u8());
    let body_bytes = fields.get_u32_le();
    let offset = fields.get_u32_le();
    let header = RecordHeader {
        kind,
        body_bytes,
        census,
        boot: fields.get_u32_le(),
        group: fields.get_u32_le(),
        epoch: fields.get_u64_le(),
    };
    let end = (RECORD_HEADER_BYTES as usize).checked_add(body_bytes as usize)?;
    if offset != at.offset || end > bytes.len() {
        return None;
    }
    let body = &bytes[RECORD_HEADER_BYTES as usize..end];
    let crc = record_crc(at.segment, &bytes[..28], std::iter::once(body));
    (crc == fields.get_u32_le()).then_some((header, end))
}

/// The part of a segment's header that holds nothing: zeros.
pub(crate) fn blank_of_header() -> Range<u32> {
    SEGMENT_FIELDS_BYTES as u32 + 4..SEGMENT_HEADER_BYTES
}

/// What lies between a record and the next: zeros.
pub(crate) fn blank_behind(offset: u32, record: &RecordHeader) -> Range<u32> {
    offset + RECORD_HEADER_BYTES + record.body_bytes..offset + record.stride()
}

/// The body of a mark: the log is durable up to here.
pub(crate) fn encode_mark(through: Position) -> Bytes {
    let mut out = BytesMut::with_capacity(12);
    out.put_u64_le(through.segment);
    out.put_u32_le(through.offset);
    out.freeze()
}

/// Reads the body of a mark.
pub(crate) fn decode_mark(mut body: &[u8]) -> Option<Position> {
    (body.len() == 12).then(|| Position {
        segment: body.get_u64_le(),
        offset: body.get_u32_le(),
    })
}

/// The body of a release: the first segment that is still needed.
pub(crate) fn encode_release(first: u64) -> Encoder {
    let mut body = Encoder::new();
    body.u64(first);
    body
}

/// Reads the body of a release.
pub(crate) fn decode_release(body: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(body.try_into().ok()?))
}

pub(super) fn record_crc<'a>(
    segment: u64,
    header: &[u8],
    body: impl Iterator<Item = &'a [u8]>,
) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&segment.to_le_bytes());
    digest.update(header);
    body.for_each(|chunk| digest.update(chunk));
    digest.finalize() as u32
}

pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize() as u32
}
