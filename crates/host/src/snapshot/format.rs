//! The bytes of a snapshot (`docs/reference/log-format.md` draws them): pieces, each with its length, its
//! kind and a checksum, and at the end their number and a digest over all of them.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use quorate_core::{ClusterId, Decoder, ENTRY_BYTES_MAX, Encoder, Group, Slot, Wire, WireError};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The version this program writes; it reads this one and all before.
const FORMAT_VERSION: u32 = 2;
/// The epoch that version 1 names.
const ONLY_EPOCH: u64 = 1;
const MAGIC: [u8; 8] = *b"QUORATES";
/// Bytes in front of the body of a piece.
pub(super) const HEAD_BYTES: usize = 16;
/// A longer piece is no piece: an application's may exceed what it was asked for by one value.
const BODY_BYTES_MAX: usize = 2 * ENTRY_BYTES_MAX;

/// What a piece is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The first: whose state it is, and before which slot.
    Header,
    /// The host's and the machine's own state.
    Host,
    /// Sessions.
    Sessions,
    /// The application's.
    App,
    /// The last: how many there were, and their digest.
    End,
}

impl Kind {
    const ALL: [Kind; 5] = [
        Kind::Header,
        Kind::Host,
        Kind::Sessions,
        Kind::App,
        Kind::End,
    ];

    fn code(self) -> u8 {
        self as u8 + 1
    }

    pub(super) fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// The body of the first piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) cluster: ClusterId,
    pub(crate) group: Group,
    /// The first slot that is not in it.
    pub(crate) next: Slot,
    /// The version that the rest is in.
    version: u32,
}

impl Header {
    pub(crate) fn new(cluster: ClusterId, group: Group, next: Slot) -> Header {
        Header {
            cluster,
            group,
            next,
            version: FORMAT_VERSION,
        }
    }

    /// Whether it is the snapshot of the same slot and group, in whatever version.
    pub(crate) fn is_of(&self, other: &Header) -> bool {
        let name = |header: &Header| (header.cluster, header.group, header.next);
        name(self) == name(other)
    }

    /// Whether the state says which epochs there were. Before, there was only the first.
    pub(crate) fn has_epochs(&self) -> bool {
        self.version >= 2
    }
}

impl Wire for Header {
    fn encode(&self, out: &mut Encoder) {
        out.slice(&MAGIC);
        out.u32(self.version);
        self.cluster.encode(out);
        self.group.encode(out);
        if self.version == 1 {
            out.varint(ONLY_EPOCH);
        }
        self.next.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        if input.array()? != MAGIC {
            return Err(WireError::Range("a snapshot's magic"));
        }
        let version = input.u32()?;
        if !(1..=FORMAT_VERSION).contains(&version) {
            return Err(WireError::Range("a snapshot's version"));
        }
        let (cluster, group) = (ClusterId::decode(input)?, Group::decode(input)?);
        if version == 1 && input.varint()? != ONLY_EPOCH {
            return Err(WireError::Range("a snapshot's epoch"));
        }
        Ok(Header {
            cluster,
            group,
            next: Slot::decode(input)?,
            version,
        })
    }
}

/// Where a sequence of pieces is: what their checksums and their digest depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Progress {
    offset: u64,
    pieces: u64,
    digest: u64,
}

impl Progress {
    /// The checksum of a piece here covers its place, so that none can stand in for another.
    pub(super) fn checksum(&self, fields: [u8; 8], body: &[u8]) -> u64 {
        let place = self.offset ^ u64::from_le_bytes(fields).rotate_left(32);
        xxh3_64_with_seed(body, place)
    }

    pub(super) fn pass(&mut self, kind: Kind, checksum: u64, body_bytes: usize) {
        self.offset += (HEAD_BYTES + body_bytes) as u64;
        if kind == Kind::End {
            return;
        }
        self.pieces += 1;
        self.digest = xxh3_64_with_seed(&checksum.to_le_bytes(), self.digest);
    }

    /// The body of the last piece.
    pub(super) fn end(&self) -> Bytes {
        let mut body = BytesMut::with_capacity(16);
        body.put_u64_le(self.pieces);
        body.put_u64_le(self.digest);
        body.freeze()
    }
}

/// Puts pieces into their frames.
#[derive(Debug, Default)]
pub(crate) struct Framer {
    at: Progress,
}

impl Framer {
    /// Bytes framed so far.
    pub(crate) fn offset(&self) -> u64 {
        self.at.offset
    }

    /// The bytes that go in front of `body`.
    pub(crate) fn head(&mut self, kind: Kind, body: &Bytes) -> Bytes {
        let mut head = BytesMut::with_capacity(HEAD_BYTES);
        let length = u32::try_from(body.len()).expect("pieces are bounded far below 4 GiB");
        let fields = fields(length, kind.code());
        let checksum = self.at.checksum(fields, body);
        head.put_slice(&fields);
        head.put_u64_le(checksum);
        self.at.pass(kind, checksum, body.len());
        head.freeze()
    }

    /// The body of the last piece.
    pub(crate) fn end(&self) -> Bytes {
        self.at.end()
    }

    /// Over all pieces so far but the last.
    pub(crate) fn digest(&self) -> u64 {
        self.at.digest
    }
}

fn fields(length: u32, kind: u8) -> [u8; 8] {
    let mut fields = [0; 8];
    fields[..4].copy_from_slice(&length.to_le_bytes());
    fields[4] = kind;
    fields
}

/// Takes pieces out of their frames, from bytes that come in parts of any length.
#[derive(Debug, Default)]
pub(crate) struct Unframer {
    at: Progress,
    pending: BytesMut,
    ended: Option<u64>,
}

impl Unframer {
    /// The next bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// The next piece that is whole; the last is checked and not given.
    pub(crate) fn next(&mut self) -> Result<Option<(Kind, Bytes)>, String> {
        if self.ended.is_some() && !self.pending.is_empty() {
            return Err("bytes follow its end".into());
        }
        if self.pending.len() < HEAD_BYTES {
            return Ok(None);
        }
        let place = self.at.offset;
        let mut head = &self.pending[..HEAD_BYTES];
        let mut fields = [0; 8];
        head.copy_to_slice(&mut fields);
        let length = u32::from_le_bytes([fields[0], fields[1], fields[2], fields[3]]) as usize;
        let kind = Kind::from_code(fields[4]).filter(|_| fields[5..] == [0; 3]);
        let (Some(kind), true) = (kind, length <= BODY_BYTES_MAX) else {
            return Err(format!("there is no piece at byte {place}"));
        };
        if self.pending.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        let expected = head.get_u64_le();
        let body = Bytes::copy_from_slice(&self.pending[HEAD_BYTES..HEAD_BYTES + length]);
        if self.at.checksum(fields, &body) != expected {
            return Err(format!("the checksum at byte {place} does not match"));
        }
        self.pending.advance(HEAD_BYTES + length);
        if kind == Kind::End {
            if body != self.at.end() {
                return Err("its end is that of another snapshot".into());
            }
            self.ended = Some(self.at.digest);
            return self.next();
        }
        self.at.pass(kind, expected, length);
        Ok(Some((kind, body)))
    }

    /// The digest, once the last piece was taken.
    pub(crate) fn digest(&self) -> Option<u64> {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framed(bodies: &[&'static [u8]]) -> (Vec<u8>, u64) {
        let mut framer = Framer::default();
        let mut all = Vec::new();
        for body in bodies {
            let body = Bytes::from_static(body);
            all.extend_from_slice(&framer.head(Kind::App, &body));
            all.extend_from_slice(&body);
        }
        let body = framer.end();
        all.extend_from_slice(&framer.head(Kind::End, &body));
        all.extend_from_slice(&body);
        (all, framer.digest())
    }

    /// What can be read, in parts of `step` bytes.
    fn read(bytes: &[u8], step: usize) -> Result<(Vec<Bytes>, Option<u64>), String> {
        let mut unframer = Unframer::default();
        let mut bodies = Vec::new();
        for part in bytes.chunks(step) {
            unframer.feed(part);
            while let Some((_, body)) = unframer.next()? {
                bodies.push(body);
            }
        }
        Ok((bodies, unframer.digest()))
    }

    #[test]
    fn pieces_are_read_back_from_parts_of_any_length() {
        let (bytes, digest) = framed(&[b"one", b"", b"three"]);
        for step in 1..bytes.len() {
            let (bodies, found) = read(&bytes, step).unwrap();
            assert_eq!((bodies.len(), found), (3, Some(digest)));
            assert_eq!(&bodies[2][..], b"three");
        }
    }

    /// Scenario (etcd's #22145): a head that claims more than any piece may have, and no byte of it.
    #[test]
    fn a_piece_that_claims_too_much_is_refused_before_it_comes() {
        let (mut bytes, _) = framed(&[b"one"]);
        for (claimed, is_taken) in [(BODY_BYTES_MAX, true), (BODY_BYTES_MAX + 1, false)] {
            bytes[..4].copy_from_slice(&(claimed as u32).to_le_bytes());
            let mut unframer = Unframer::default();
            unframer.feed(&bytes[..HEAD_BYTES]);
            assert_eq!(unframer.next().is_ok(), is_taken, "{claimed} bytes");
        }
    }

    #[test]
    fn no_change_of_any_byte_and_no_missing_end_goes_unnoticed() {
        let (bytes, _) = framed(&[b"one", b"two", b"one"]);
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            let found = read(&wrong, 7);
            assert!(!matches!(found, Ok((_, Some(_)))), "byte {at}: {found:?}");
            assert_eq!(read(&bytes[..at], 7).unwrap().1, None, "cut at {at}");
        }
    }

    #[test]
    fn equal_pieces_cannot_stand_in_for_each_other() {
        let (bytes, _) = framed(&[b"one", b"two", b"one"]);
        let piece = HEAD_BYTES + 3;
        let mut wrong = bytes.clone();
        wrong.copy_within(..piece, 2 * piece);
        assert!(read(&wrong, 1000).is_err());
    }
}
