//! Reads a log back: the records in order, the gaps that damage has made among them, and how it
//! ends.

use super::format::{
    Census, HeaderError, Identity, Kind, LOG_MAGIC, RECORD_HEADER_BYTES, RecordHeader,
    SEGMENT_HEADER_BYTES, SegmentHeader, blank_behind, blank_of_header, decode_mark, decode_record,
    decode_release,
};
use super::rest::{self, Rest, Seen};
use super::writer::Tail;
use super::{LogSource, Position};
use crate::open_error::OpenError;
use bytes::Bytes;
use std::ops::{Range, RangeInclusive};

/// One valid record.
#[derive(Clone, Debug)]
pub(crate) struct FoundRecord {
    pub(crate) at: Position,
    pub(crate) kind: Kind,
    pub(crate) group: u32,
    pub(crate) epoch: u64,
    /// The ordinal of the boot that wrote it.
    pub(crate) boot: u32,
    pub(crate) body: Bytes,
}

/// Acknowledged bytes that hold no valid record any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    pub(crate) from: Position,
    /// The next valid record.
    pub(crate) to: Position,
    /// Whether a record that concerns all slots may have been among them.
    pub(crate) may_concern_all: bool,
}

impl Gap {
    /// The segments of which it takes the first records.
    pub(crate) fn ragged(&self) -> RangeInclusive<u64> {
        let is_at_start = self.from.offset <= SEGMENT_HEADER_BYTES;
        self.from.segment + u64::from(!is_at_start)..=self.to.segment
    }
}

/// What reading meets next.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Record(FoundRecord),
    Gap(Gap),
    /// What was read since the last gap may be the remains of a tail that was cut: the boot that
    /// wrote what follows is not the one before, and its beginning is missing.
    Doubt,
}

/// How a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    pub(crate) tail: Tail,
    /// The highest ordinal of a boot in the log.
    pub(crate) boot: u32,
    /// How many records concern all slots.
    pub(crate) census: Census,
    /// Segments that hold the log and where their files end, ascending.
    pub(crate) segments: Vec<Tail>,
    /// The latest position that a mark says is durable.
    pub(crate) marked: Position,
    /// Segments before this one were not needed any more.
    pub(crate) released: u64,
    /// The last segment there is, whatever it holds.
    pub(crate) last: u64,
    /// Whether an unacknowledged rest was cut at the tail.
    pub(crate) torn: bool,
    pub(crate) records: u64,
    /// Bytes that hold nothing are not as they were written. Nothing is lost.
    pub(crate) blemishes: Vec<Blank>,
    /// The same behind the mark, where power failed before all was written. The log makes them blank
    /// again, for once a mark is behind them they would look like damage.
    pub(crate) torn_blanks: Vec<Blank>,
}

/// Bytes that hold nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blank {
    /// The record, or the header of a segment, that they are behind.
    pub(crate) of: Position,
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) segment_bytes: u32,
}

/// One segment in memory.
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    pub(super) header: Result<SegmentHeader, HeaderError>,
}

/// Reads all records in order and hands them to `visit`, with the gaps among them. `None` if there
/// are no segments. A rest that was never acknowledged is cut.
pub(crate) fn scan(
    source: &mut dyn LogSource,
    identity: &Identity,
    visit: impl FnMut(Piece) -> Result<(), OpenError>,
) -> Result<Option<Scanned>, OpenError> {
    let numbers = rest::list(source)?;
    let numbers = rest::needed(source, identity, numbers)?;
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return Ok(None);
    };
    let mut reader = Reader {
        source,
        identity,
        visit,
        so_far: Scanned {
            tail: Tail {
                at: Position {
                    segment: first,
                    offset: 0,
                },
                segment_bytes: 0,
            },
            boot: 0,
            census: Census::default(),
            segments: Vec::new(),
            marked: Position::default(),
            released: 0,
            last,
            torn: false,
            records: 0,
            blemishes: Vec::new(),
            torn_blanks: Vec::new(),
        },
        behind_gap: None,
        seen: Seen::default(),
    };
    reader.read(&numbers)?;
    let mut scanned = reader.so_far;
    let blanks = std::mem::take(&mut scanned.blemishes);
    let is_marked = |blank: &Blank| blank.of < scanned.marked;
    (scanned.blemishes, scanned.torn_blanks) = blanks.into_iter().partition(is_marked);
    Ok(Some(scanned))
}

impl Scanned {
    /// Whether the log does not begin where it may: with its first segment, or with one that was
    /// not needed any more or the first that was.
    pub(crate) fn is_headless(&self) -> bool {
        let first = self.segments.first();
        first.is_some_and(|first| first.at.segment > self.released.max(1))
    }
}

struct Reader<'a, V> {
    source: &'a mut dyn LogSource,
    identity: &'a Identity,
    visit: V,
    so_far: Scanned,
    /// The boot of the first record behind the last gap, until a boot begins properly.
    behind_gap: Option<u32>,
    seen: Seen,
}

impl<V: FnMut(Piece) -> Result<(), OpenError>> Reader<'_, V> {
    fn read(&mut self, numbers: &[u64]) -> Result<(), OpenError> {
        let mut index = 0;
        while let Some(number) = numbers.get(index) {
            let segment = load(self.source, *number, self.identity)?;
            if self.continues(&segment, index == 0) {
                self.enter(&segment);
                self.chain(&segment, SEGMENT_HEADER_BYTES)?;
                index += 1;
                continue;
            }
            // The records may go on in the segment where they ended, or in a later one.
            let from = index.saturating_sub(1);
            let Some(landed) = self.jump(&numbers[from..])? else {
                self.so_far.torn = true;
                return Ok(());
            };
            index = from + landed + 1;
        }
        let last = &numbers[numbers.len() - 1..];
        while self.jump(last)?.is_some() {}
        Ok(())
    }

    /// Whether a segment's records follow those read so far.
    fn continues(&self, segment: &Segment, is_first: bool) -> bool {
        let end = self.so_far.tail.at;
        match &segment.header {
            Err(_) => false,
            Ok(_) if is_first => true,
            Ok(header) => {
                header.previous_end == end.offset
                    && segment.number == end.segment + 1
                    && header.boot >= self.so_far.boot
            }
        }
    }

    /// Looks beyond the end of what was read, in these segments. If the log was durable beyond it,
    /// goes on at the next valid record, reads on from there to the end of its segment, and says
    /// which of the segments that is.
    fn jump(&mut self, numbers: &[u64]) -> Result<Option<usize>, OpenError> {
        let (end, boot) = (self.so_far.tail.at, self.so_far.boot);
        let Rest {
            durable,
            boot: boot_max,
        } = (self.seen).judge(self.source, self.identity, numbers, end, boot)?;
        if durable <= end {
            // The next boot's ordinal is above those of the cut records too: were it one of
            // theirs, they would be valid again as soon as new records ended at them.
            self.so_far.torn |= boot_max.is_some();
            self.so_far.boot = boot.max(boot_max.unwrap_or(0));
            return Ok(None);
        }
        for (index, number) in numbers.iter().enumerate() {
            let segment = load(self.source, *number, self.identity)?;
            if *number != end.segment || self.so_far.segments.is_empty() {
                self.enter(&segment);
            }
            let boot = self.so_far.boot;
            let mut records = rest::records_from(&segment, end);
            let Some((to, header, _)) = records.find(|(_, record, _)| record.boot >= boot) else {
                continue;
            };
            self.gap(end, to, &header)?;
            self.chain(&segment, to.offset)?;
            return Ok(Some(index));
        }
        unreachable!("the mark that shows how far the log was durable is a valid record")
    }

    fn gap(&mut self, from: Position, to: Position, next: &RecordHeader) -> Result<(), OpenError> {
        let bytes = if from.segment == to.segment {
            u64::from(to.offset - from.offset)
        } else if from.segment + 1 == to.segment || from.offset == 0 {
            // Behind the last record of a segment is room for less than one, or a gap.
            u64::from(self.left_of(from)) + u64::from(to.offset - SEGMENT_HEADER_BYTES)
        } else {
            u64::MAX
        };
        let is_complete = self.so_far.census.is_complete(next.census, bytes);
        self.behind_gap = Some(next.boot);
        (self.visit)(Piece::Gap(Gap {
            from,
            to,
            may_concern_all: !is_complete,
        }))
    }

    fn left_of(&self, from: Position) -> u32 {
        let mut segments = self.so_far.segments.iter();
        let size = segments.find(|tail| tail.at.segment == from.segment);
        size.map_or(u32::MAX, |tail| {
            tail.segment_bytes.saturating_sub(from.offset)
        })
    }

    /// Takes note of a segment that belongs to the log.
    fn enter(&mut self, segment: &Segment) {
        let at = Position {
            segment: segment.number,
            offset: SEGMENT_HEADER_BYTES,
        };
        let segment_bytes = segment.bytes.len() as u32;
        self.so_far.segments.push(Tail { at, segment_bytes });
        if let Ok(header) = &segment.header {
            self.so_far.boot = self.so_far.boot.max(header.boot);
            self.so_far.tail = Tail { at, segment_bytes };
            self.examine(segment, 0, blank_of_header());
        }
    }

    /// Visits the records from a place in a segment on, up to the first that does not belong.
    fn chain(&mut self, segment: &Segment, offset: u32) -> Result<(), OpenError> {
        let segment_bytes = segment.bytes.len() as u32;
        let mut at = Position {
            segment: segment.number,
            offset,
        };
        while let Some((record, body)) = record_at(segment, at)
            && record.boot >= self.so_far.boot
        {
            self.note(segment, at, &record, &body)?;
            let (kind, group, epoch) = (record.kind, record.group, record.epoch);
            let boot = record.boot;
            (self.visit)(Piece::Record(FoundRecord {
                at,
                kind,
                group,
                epoch,
                boot,
                body,
            }))?;
            at.offset += record.stride();
        }
        self.so_far.tail = Tail { at, segment_bytes };
        Ok(())
    }

    /// Whether what should be blank is.
    fn examine(&mut self, segment: &Segment, offset: u32, blank: Range<u32>) {
        let bytes = segment.bytes.get(blank.start as usize..blank.end as usize);
        if bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)) {
            return;
        }
        self.so_far.blemishes.push(Blank {
            of: Position {
                segment: segment.number,
                offset,
            },
            from: blank.start,
            to: blank.end.min(segment.bytes.len() as u32),
            segment_bytes: segment.bytes.len() as u32,
        });
    }

    fn note(
        &mut self,
        segment: &Segment,
        at: Position,
        record: &RecordHeader,
        body: &Bytes,
    ) -> Result<(), OpenError> {
        if record.kind == Kind::Boot {
            self.behind_gap = None;
        }
        if self.behind_gap.is_some_and(|boot| record.boot > boot) {
            self.behind_gap = None;
            (self.visit)(Piece::Doubt)?;
        }
        let so_far = &mut self.so_far;
        so_far.records += 1;
        so_far.boot = record.boot;
        so_far.census = record.census;
        match record.kind {
            Kind::Mark => so_far.marked = so_far.marked.max(decode_mark(body).unwrap_or_default()),
            Kind::Release => {
                let first = decode_release(body).unwrap_or_default();
                so_far.released = so_far.released.max(first);
            }
            _ => {}
        }
        self.examine(segment, at.offset, blank_behind(at.offset, record));
        Ok(())
    }
}

/// Reads one segment and judges its header.
pub(super) fn load(
    source: &mut dyn LogSource,
    number: u64,
    identity: &Identity,
) -> Result<Segment, OpenError> {
    let bytes = source
        .read(number)
        .map_err(|e| OpenError::Io(format!("segment {number}: {e}")))?;
    let header = SegmentHeader::decode(&bytes, LOG_MAGIC, number, identity);
    refuse(&header, number)?;
    Ok(Segment {
        number,
        bytes,
        header,
    })
}

/// What is another replica's, or too new, is not read any further.
pub(crate) fn refuse(
    header: &Result<SegmentHeader, HeaderError>,
    segment: u64,
) -> Result<(), OpenError> {
    match header {
        Err(HeaderError::Version(found)) => Err(OpenError::Version {
            segment,
            found: *found,
        }),
        Err(HeaderError::Foreign(what)) => Err(OpenError::Foreign {
            segment,
            what: what.clone(),
        }),
        Ok(_) | Err(HeaderError::Invalid) => Ok(()),
    }
}

/// The record at a place, if a valid one is there.
pub(super) fn record_at(segment: &Segment, at: Position) -> Option<(RecordHeader, Bytes)> {
    let start = at.offset as usize;
    let (record, end) = decode_record(at, segment.bytes.get(start..)?)?;
    let body = segment
        .bytes
        .slice(start + RECORD_HEADER_BYTES as usize..start + end);
    Some((record, body))
}
