//! The bytes of bulk records and footers (`docs/reference/log-format.md` draws them).

use super::Fragment;
use crate::log::{ALIGN, crc32c};
use crate::position::Position;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_core::{Boot, EntryId, PayloadId, ReplicaId};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a head without its parts.
const HEAD_BYTES: usize = 52;
/// Bytes of a head for each part.
const PART_BYTES: usize = 24;
/// Bytes at the end of a segment that say whether and where a footer is.
pub(super) const TRAILER_BYTES: u32 = 32;

const RECORD_MAGIC: u16 = 0x7142;
const FOOTER_MAGIC: [u8; 8] = *b"QUORATEF";
/// Reed-Solomon over GF(2^8).
const CODEC: u8 = 1;
/// The generator matrix in use.
const MATRIX: u8 = 1;

/// Whose fragments a record holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub(super) entry: EntryId,
    /// Fragments that were made of each payload.
    pub(super) n: u8,
    /// Fragments that rebuild one.
    pub(super) code: u8,
    /// Which of the fragments these are.
    pub(super) index: u8,
}

impl Origin {
    pub(super) fn of(fragment: &Fragment) -> Origin {
        Origin {
            entry: fragment.payload.entry,
            n: fragment.n,
            code: fragment.code,
            index: fragment.index,
        }
    }

    /// One of a record's fragments, in this segment.
    pub(super) fn fragment(&self, segment: u64, part: &Part) -> Fragment {
        let at = Position {
            segment,
            offset: part.offset,
        };
        let payload = PayloadId {
            entry: self.entry,
            part: part.part,
        };
        Fragment {
            payload,
            code: self.code,
            index: self.index,
            n: self.n,
            at,
            len: part.len,
            checksum: part.checksum,
            payload_len: part.payload_len,
        }
    }
}

/// What a record begins with: whose fragments follow, and where each is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) origin: Origin,
    /// Where the record begins in its segment.
    pub(super) offset: u32,
    /// The ordinal of the boot that wrote the segment.
    pub(super) boot: u32,
    /// How far the segment was durable when this was appended.
    pub(super) durable: u32,
    /// Bytes of the record as it was written, without what pads it.
    pub(super) bytes: u32,
    pub(super) parts: Vec<Part>,
}

/// One fragment of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Which payload of the entry.
    pub(super) part: u32,
    /// That payload's length in bytes.
    pub(super) payload_len: u32,
    /// Where the fragment's bytes are in the segment.
    pub(super) offset: u32,
    /// How many.
    pub(super) len: u32,
    /// XXH3-64 of them.
    pub(super) checksum: u64,
}

impl Part {
    /// Whether these are the fragment's bytes.
    pub(super) fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() == self.len as usize && xxh3_64(bytes) == self.checksum
    }

    /// Where its bytes end in the segment.
    pub(super) fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.len)
    }
}

/// What a fragment of so many bytes takes up in a segment by itself: a record and a head in the
/// footer.
pub(super) fn room_of(len: u32) -> u64 {
    let head = u64::from(Head::len_of(1));
    (head + u64::from(len)).next_multiple_of(u64::from(ALIGN)) + head
}

impl Head {
    /// Length in bytes of a head of so many parts.
    pub(super) fn len_of(parts: usize) -> u32 {
        u32::try_from(HEAD_BYTES + parts * PART_BYTES).expect("an entry has far fewer payloads")
    }

    /// Bytes from the record's start to the next one's.
    pub(super) fn stride(&self) -> u64 {
        u64::from(self.bytes).next_multiple_of(u64::from(ALIGN))
    }

    /// The head's bytes in this segment.
    pub(super) fn encode(&self, segment: u64) -> Bytes {
        let mut out = BytesMut::with_capacity(Head::len_of(self.parts.len()) as usize);
        out.put_u16_le(RECORD_MAGIC);
        let Origin {
            entry,
            n,
            code,
            index,
        } = self.origin;
        out.put_slice(&[CODEC, MATRIX, n, code, index, 0]);
        out.put_u32_le(self.offset);
        out.put_u32_le(self.boot);
        out.put_u32_le(self.durable);
        out.put_u32_le(self.bytes);
        out.put_u32_le(self.parts.len() as u32);
        out.put_u64_le(entry.boot.0);
        out.put_u64_le(entry.seq);
        out.put_u16_le(entry.origin.0);
        out.put_u16_le(0);
        for part in &self.parts {
            out.put_u32_le(part.part);
            out.put_u32_le(part.payload_len);
            out.put_u32_le(part.offset);
            out.put_u32_le(part.len);
            out.put_u64_le(part.checksum);
        }
        let crc = crc32c(&[&segment.to_le_bytes(), &out]);
        out.put_u32_le(crc);
        out.freeze()
    }

    /// Where a record says that it begins, if `bytes` begin with a head.
    pub(super) fn offset_in(bytes: &[u8]) -> Option<u32> {
        let is_head = bytes.starts_with(&RECORD_MAGIC.to_le_bytes());
        let field = bytes.get(8..12).filter(|_| is_head)?;
        Some(u32::from_le_bytes(field.try_into().ok()?))
    }

    /// Reads the head that `bytes` begin with, and says how long it is; `None` if none is valid.
    /// Where it is, and in which boot's segment, is for the caller to compare.
    pub(super) fn decode(segment: u64, bytes: &[u8]) -> Option<(Head, usize)> {
        let mut fields = bytes.get(..HEAD_BYTES)?;
        if fields.get_u16_le() != RECORD_MAGIC || (fields[0], fields[1]) != (CODEC, MATRIX) {
            return None;
        }
        let (n, code, index, blank) = (fields[2], fields[3], fields[4], fields[5]);
        fields.advance(6);
        let (offset, boot, durable) = (
            fields.get_u32_le(),
            fields.get_u32_le(),
            fields.get_u32_le(),
        );
        let (record_bytes, count) = (fields.get_u32_le(), fields.get_u32_le() as usize);
        let (entry_boot, seq) = (Boot(fields.get_u64_le()), fields.get_u64_le());
        let (origin, blank_too) = (ReplicaId(fields.get_u16_le()), fields.get_u16_le());
        let length = count.checked_mul(PART_BYTES)?.checked_add(HEAD_BYTES)?;
        let (covered, mut crc) = bytes.get(..length)?.split_at(length - 4);
        let is_valid = crc32c(&[&segment.to_le_bytes(), covered]) == crc.get_u32_le();
        if !is_valid || (blank, blank_too) != (0, 0) {
            return None;
        }
        let parts = covered[HEAD_BYTES - 4..].chunks_exact(PART_BYTES);
        let entry = EntryId {
            origin,
            boot: entry_boot,
            seq,
        };
        let head = Head {
            origin: Origin {
                entry,
                n,
                code,
                index,
            },
            offset,
            boot,
            durable,
            bytes: record_bytes,
            parts: parts.map(Part::decode).collect(),
        };
        head.is_consistent().then_some((head, length))
    }

    /// Whether its fragments lie within it.
    fn is_consistent(&self) -> bool {
        let begin = u64::from(self.offset) + u64::from(Head::len_of(self.parts.len()));
        let end = u64::from(self.offset) + u64::from(self.bytes);
        let lies_within = |part: &Part| u64::from(part.offset) >= begin && part.end() <= end;
        end >= begin && end <= u64::from(u32::MAX) && self.parts.iter().all(lies_within)
    }
}

impl Part {
    fn decode(mut fields: &[u8]) -> Part {
        Part {
            part: fields.get_u32_le(),
            payload_len: fields.get_u32_le(),
            offset: fields.get_u32_le(),
            len: fields.get_u32_le(),
            checksum: fields.get_u64_le(),
        }
    }
}

/// The place of a segment's footer, written at the end of its file.
fn trailer(segment: u64, boot: u32, heads: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(TRAILER_BYTES as usize);
    out.put_slice(&FOOTER_MAGIC);
    out.put_u64_le(segment);
    out.put_u32_le(boot);
    out.put_u32_le(heads.len() as u32);
    out.put_u32_le(0);
    let crc = crc32c(&[&out, heads]);
    out.put_u32_le(crc);
    out.freeze()
}

/// A footer: the heads of the records of a segment, and the trailer. It ends where the file does.
pub(super) fn encode_footer(segment: u64, boot: u32, heads: Bytes) -> [Bytes; 2] {
    let trailer = trailer(segment, boot, &heads);
    [heads, trailer]
}

/// How many bytes of heads a segment's trailer says are before it; `None` if there is no footer.
pub(super) fn decode_trailer(segment: u64, trailer: &[u8]) -> Option<u32> {
    let mut fields = trailer.get(..TRAILER_BYTES as usize)?;
    let is_footer = fields[..8] == FOOTER_MAGIC;
    fields.advance(8);
    (is_footer && fields.get_u64_le() == segment).then(|| {
        fields.advance(4);
        fields.get_u32_le()
    })
}

/// The heads that a footer lists, and the boot that wrote the segment; `None` if it is damaged, or
/// lists what cannot be.
pub(super) fn decode_footer(
    segment: u64,
    heads: &[u8],
    trailer_found: &[u8],
) -> Option<(u32, Vec<Head>)> {
    let boot = u32::from_le_bytes(trailer_found.get(16..20)?.try_into().ok()?);
    if trailer_found != trailer(segment, boot, heads) {
        return None;
    }
    let (mut found, mut rest) = (Vec::new(), heads);
    while !rest.is_empty() {
        let (head, length) = Head::decode(segment, rest)?;
        if head.boot != boot {
            return None;
        }
        rest = &rest[length..];
        found.push(head);
    }
    Some((boot, found))
}
