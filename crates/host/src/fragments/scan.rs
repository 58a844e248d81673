//! Opens a store: what is in its segments, by their footers, or record by record where one is
//! missing.

use super::FragmentsOpened;
use super::format::{Head, Part, TRAILER_BYTES, decode_footer, decode_trailer};
use super::heap::Heap;
use super::writer::Unlisted;
use crate::log::{
    ALIGN, BULK_MAGIC, Identity, LogSource, SEGMENT_HEADER_BYTES, SegmentHeader, refuse,
};
use crate::open_error::OpenError;
use crate::position::Position;
use bytes::{Bytes, BytesMut};
use std::collections::BTreeMap;

/// What the segments hold.
pub(super) struct FoundSegments {
    pub(super) heap: Heap,
    /// Segments without a footer.
    pub(super) unlisted: BTreeMap<u64, Unlisted>,
    /// The last segment there is, and the highest ordinal of a boot in any.
    pub(super) last: (u64, u32),
    pub(super) opened: FragmentsOpened,
}

/// A segment's file.
#[derive(Clone, Copy)]
struct File {
    number: u64,
    bytes: u32,
}

/// Reads all segments, in the order of their numbers: of what was moved, the later copy counts.
pub(super) fn scan(
    source: &mut dyn LogSource,
    identity: &Identity,
) -> Result<FoundSegments, OpenError> {
    let segments = source.fragment_segments();
    let mut segments = segments.map_err(|error| OpenError::Io(error.to_string()))?;
    segments.sort_unstable();
    let mut found = FoundSegments {
        heap: Heap::default(),
        unlisted: BTreeMap::new(),
        last: (0, 0),
        opened: FragmentsOpened::default(),
    };
    for (number, bytes) in segments {
        found.read(source, identity, File { number, bytes })?;
    }
    Ok(found)
}

impl FoundSegments {
    fn read(
        &mut self,
        source: &mut dyn LogSource,
        identity: &Identity,
        file: File,
    ) -> Result<(), OpenError> {
        self.last.0 = file.number;
        self.opened.segments.push(file.number);
        self.heap.add_segment(file.number, file.bytes);
        if file.bytes < SEGMENT_HEADER_BYTES + TRAILER_BYTES {
            return Ok(());
        }
        let header = read(source, file, 0, SEGMENT_HEADER_BYTES)?;
        let header = SegmentHeader::decode(&header, BULK_MAGIC, file.number, identity);
        refuse(&header, file.number)?;
        let boot = header.ok().map(|header| header.boot);
        if let Some((listed, heads)) = footer(source, file)?
            && boot.is_none_or(|boot| boot == listed)
        {
            self.take(file, listed, &heads);
            return Ok(());
        }
        let content = read(source, file, 0, file.bytes)?;
        let scanned = Scanned::read(file, boot, &content);
        self.opened.scanned += 1;
        self.opened.damage.extend(scanned.damage());
        self.opened.torn.extend(scanned.torn());
        self.take(file, scanned.boot.unwrap_or(0), &scanned.heads);
        let mut heads = BytesMut::new();
        for head in &scanned.heads {
            heads.extend_from_slice(&head.encode(file.number));
        }
        let unlisted = Unlisted {
            segment_bytes: file.bytes,
            boot: scanned.boot.unwrap_or(0),
            heads,
            end: scanned.end,
            durable: 0,
        };
        self.unlisted.insert(file.number, unlisted);
        Ok(())
    }

    fn take(&mut self, file: File, boot: u32, heads: &[Head]) {
        self.last.1 = self.last.1.max(boot);
        for head in heads {
            self.opened.fragments += head.parts.len() as u64;
            for part in &head.parts {
                self.heap.insert(head.origin.fragment(file.number, part));
            }
        }
    }
}

fn read(source: &mut dyn LogSource, file: File, offset: u32, len: u32) -> Result<Bytes, OpenError> {
    let segment = file.number;
    let bytes = source.read_fragments(Position { segment, offset }, len);
    let bytes = bytes.map_err(|error| OpenError::Io(format!("bulk segment {segment}: {error}")))?;
    if bytes.len() != len as usize {
        return Err(OpenError::Io(format!("bulk segment {segment} ended early")));
    }
    Ok(bytes)
}

/// The boot that wrote a segment, and the heads of its records, if its footer is whole.
fn footer(source: &mut dyn LogSource, file: File) -> Result<Option<(u32, Vec<Head>)>, OpenError> {
    let end = file.bytes - TRAILER_BYTES;
    let trailer = read(source, file, end, TRAILER_BYTES)?;
    let length = decode_trailer(file.number, &trailer);
    let Some(length) = length.filter(|length| *length <= end - SEGMENT_HEADER_BYTES) else {
        return Ok(None);
    };
    let heads = read(source, file, end - length, length)?;
    let found = decode_footer(file.number, &heads, &trailer);
    // What is listed lies before the list.
    let lies_before =
        |head: &Head| u64::from(head.offset) + head.stride() <= u64::from(end - length);
    Ok(found.filter(|(_, heads)| heads.iter().all(lies_before)))
}

/// What a segment without a footer holds.
struct Scanned {
    /// The boot that wrote it.
    boot: Option<u32>,
    /// The heads of its records, of fragments that are whole.
    heads: Vec<Head>,
    /// Where its records end.
    end: u32,
    /// How far it was durable, as its records say.
    durable: u32,
    /// Where bytes are that hold no valid record, or none that is whole, and where the next may be.
    bad: Vec<(Position, Position)>,
}

impl Scanned {
    fn read(file: File, boot: Option<u32>, content: &[u8]) -> Scanned {
        let mut scanned = Scanned {
            boot,
            heads: Vec::new(),
            end: SEGMENT_HEADER_BYTES,
            durable: 0,
            bad: Vec::new(),
        };
        while let Some(head) = scanned.next(file.number, content) {
            scanned.take(file.number, head, content);
        }
        scanned
    }

    /// The next valid head at or behind the end of what was read. Where the segment's header is
    /// damaged, the first head that is valid says which boot's they are.
    fn next(&self, segment: u64, content: &[u8]) -> Option<Head> {
        let places = (self.end..content.len() as u32).step_by(ALIGN as usize);
        let heads = places.filter_map(|offset| {
            let bytes = &content[offset as usize..];
            // What says that it is elsewhere is not worth a checksum.
            let is_here = Head::offset_in(bytes) == Some(offset);
            let (head, _) = is_here.then(|| Head::decode(segment, bytes))??;
            Some(head)
        });
        let is_ours = |head: &Head| self.boot.is_none_or(|boot| head.boot == boot);
        let fits = |head: &Head| u64::from(head.offset) + head.stride() <= content.len() as u64;
        heads.filter(is_ours).find(fits)
    }

    fn take(&mut self, segment: u64, mut head: Head, content: &[u8]) {
        let end = head.offset + head.stride() as u32;
        let place = |offset| Position { segment, offset };
        if head.offset > self.end {
            self.bad.push((place(self.end), place(head.offset)));
        }
        let is_whole = |part: &Part| part.is(&content[part.offset as usize..part.end() as usize]);
        let parts = head.parts.len();
        head.parts.retain(is_whole);
        if head.parts.len() < parts {
            self.bad.push((place(head.offset), place(end)));
        }
        self.boot = Some(head.boot);
        self.durable = self.durable.max(head.durable);
        self.end = end;
        self.heads.push(head);
    }

    /// What was durable and is not what it was.
    fn damage(&self) -> impl Iterator<Item = (Position, Position)> {
        let bad = self.bad.iter().copied();
        bad.filter(|(from, _)| from.offset < self.durable)
    }

    /// What was never known to be durable.
    fn torn(&self) -> impl Iterator<Item = Position> {
        let bad = self
            .bad
            .iter()
            .filter(|(from, _)| from.offset >= self.durable);
        bad.map(|(from, _)| *from)
    }
}
