//! What lies where a log cannot be read any further: which segments are needed at all, and whether
//! a rest was ever acknowledged.

use super::format::{
    ALIGN, Identity, Kind, RecordHeader, SEGMENT_HEADER_BYTES, decode_mark, decode_release,
};
use super::scan::{Segment, load, record_at};
use super::{LogSource, Position};
use crate::open_error::OpenError;
use bytes::Bytes;
use std::collections::{BTreeMap, btree_map};

/// What is behind the end of the records that were read.
pub(super) struct Rest {
    /// How far the log was durable, as a mark says; before the end if none does.
    pub(super) durable: Position,
    /// The highest boot ordinal of records that were never acknowledged; `None` if there are none.
    pub(super) boot: Option<u32>,
}

/// What was seen in segments, wherever it lies: every gap asks for those behind it, and each is read once.
#[derive(Default)]
pub(super) struct Seen(BTreeMap<u64, Summary>);

/// What counts of a segment where nothing is known to follow anything.
struct Summary {
    /// The boot that its header tells of.
    header: Option<u32>,
    /// The records behind which there is none of as high a boot: where, and of which boot.
    boots: Vec<(u32, u32)>,
    /// Marks: where, of which boot, and how far the log was durable.
    marks: Vec<(u32, u32, Position)>,
}

impl Seen {
    /// Judges what follows `end` in these segments: whether the log was durable beyond it.
    pub(super) fn judge(
        &mut self,
        source: &mut dyn LogSource,
        identity: &Identity,
        numbers: &[u64],
        end: Position,
        mut boot: u32,
    ) -> Result<Rest, OpenError> {
        let mut rest = Rest {
            durable: Position::default(),
            boot: None,
        };
        for number in numbers {
            let summary = match self.0.entry(*number) {
                btree_map::Entry::Occupied(seen) => seen.into_mut(),
                btree_map::Entry::Vacant(unseen) => {
                    unseen.insert(Summary::of(&load(source, *number, identity)?))
                }
            };
            if *number != end.segment
                && let Some(header) = summary.header
            {
                rest.boot = rest.boot.max(Some(header));
                boot = boot.max(header);
            }
            let from = first_place(*number, end);
            rest.boot = rest
                .boot
                .max(summary.boot_from(from).filter(|b| *b >= boot));
            rest.durable = rest.durable.max(summary.durable_from(from, boot));
        }
        Ok(rest)
    }
}

impl Summary {
    fn of(segment: &Segment) -> Summary {
        let mut summary = Summary {
            header: segment.header.as_ref().ok().map(|header| header.boot),
            boots: Vec::new(),
            marks: Vec::new(),
        };
        for (at, record, body) in records_from(segment, Position::default()) {
            while summary
                .boots
                .pop_if(|(_, boot)| *boot <= record.boot)
                .is_some()
            {}
            summary.boots.push((at.offset, record.boot));
            if record.kind == Kind::Mark {
                let durable = decode_mark(&body).unwrap_or_default();
                summary.marks.push((at.offset, record.boot, durable));
            }
        }
        summary
    }

    /// The highest boot of the records from a place on.
    fn boot_from(&self, from: u32) -> Option<u32> {
        let mut boots = self.boots.iter();
        boots.find(|(at, _)| *at >= from).map(|(_, boot)| *boot)
    }

    /// How far the log was durable, as marks from a place on say, unless an earlier boot wrote them.
    fn durable_from(&self, from: u32, boot: u32) -> Position {
        let marks = self.marks.iter();
        let counted = marks.filter(|(at, wrote, _)| *at >= from && *wrote >= boot);
        counted
            .map(|(_, _, durable)| *durable)
            .max()
            .unwrap_or_default()
    }
}

/// The first place of a segment at which a record may lie at or behind `end`.
fn first_place(segment: u64, end: Position) -> u32 {
    let from = if segment == end.segment {
        end.offset.max(SEGMENT_HEADER_BYTES)
    } else {
        SEGMENT_HEADER_BYTES
    };
    from.next_multiple_of(ALIGN)
}

/// The valid records of a segment that lie at or behind `end`, whether or not they follow each
/// other.
pub(super) fn records_from(
    segment: &Segment,
    end: Position,
) -> impl Iterator<Item = (Position, RecordHeader, Bytes)> {
    let number = segment.number;
    let places = first_place(number, end)..segment.bytes.len() as u32;
    let places = places.step_by(ALIGN as usize);
    places.filter_map(move |offset| {
        let at = Position {
            segment: number,
            offset,
        };
        let (record, body) = record_at(segment, at)?;
        Some((at, record, body))
    })
}

/// The numbers of the segments there are, ascending.
pub(super) fn list(source: &mut dyn LogSource) -> Result<Vec<u64>, OpenError> {
    let mut numbers = source.list().map_err(|e| OpenError::Io(e.to_string()))?;
    numbers.sort_unstable();
    Ok(numbers)
}

/// The segments that are needed. Those that are not may be gone, or be half on their
/// way to another use: only then there is a gap among the numbers, or the first one begins without
/// a header or a record, and it is looked up which ones are needed.
pub(super) fn needed(
    source: &mut dyn LogSource,
    identity: &Identity,
    mut numbers: Vec<u64>,
) -> Result<Vec<u64>, OpenError> {
    let Some(&first) = numbers.first() else {
        return Ok(numbers);
    };
    let is_gap = |pair: &[u64]| pair[0] + 1 < pair[1];
    if numbers.windows(2).any(is_gap) || !begins(&load(source, first, identity)?) {
        let first = first_needed(source, identity, &numbers)?;
        numbers.retain(|number| *number >= first);
    }
    Ok(numbers)
}

/// Whether a segment's header and first record are whole. No log begins with another segment, but
/// for what a crash left of those that were on their way out.
fn begins(segment: &Segment) -> bool {
    let at = Position {
        segment: segment.number,
        offset: SEGMENT_HEADER_BYTES,
    };
    segment.header.is_ok() && record_at(segment, at).is_some()
}

/// A release, and how far back the log is connected to its record.
struct Released {
    at: Position,
    /// The first segment needed.
    first: u64,
    connected_from: u64,
}

/// The first segment needed, as the log says; 0 if it does not. A release counts if a mark says that
/// it was durable, or if the log is connected from the segment it names to its record: one behind a
/// tail that will be cut, for example, never happened.
fn first_needed(
    source: &mut dyn LogSource,
    identity: &Identity,
    numbers: &[u64],
) -> Result<u64, OpenError> {
    let (mut releases, mut marked, mut boot) = (Vec::new(), Position::default(), 0);
    let (mut connected_from, mut end) = (0, Position::default());
    for number in numbers {
        let segment = load(source, *number, identity)?;
        let Ok(header) = &segment.header else {
            connected_from = number + 1;
            continue;
        };
        if *number != end.segment + 1 || header.previous_end != end.offset {
            connected_from = *number;
        }
        end = Position {
            segment: *number,
            offset: SEGMENT_HEADER_BYTES,
        };
        for (at, record, body) in valid_records(&segment, &mut boot) {
            match record.kind {
                Kind::Mark => marked = marked.max(decode_mark(&body).unwrap_or_default()),
                Kind::Release => releases.push(Released {
                    at,
                    first: decode_release(&body).unwrap_or(0),
                    connected_from,
                }),
                _ => {}
            }
            end.offset = at.offset + record.stride();
        }
    }
    let counts =
        |release: &&Released| release.at < marked || release.first >= release.connected_from;
    let firsts = releases.iter().filter(counts).map(|release| release.first);
    Ok(firsts.max().unwrap_or(0))
}

/// The records from the start of a segment up to the first that does not belong; `boot` is that of
/// the last record, here or before.
fn valid_records<'a>(
    segment: &'a Segment,
    boot: &'a mut u32,
) -> impl Iterator<Item = (Position, RecordHeader, Bytes)> + 'a {
    let header = segment.header.as_ref().ok();
    let belongs = header.is_some_and(|header| header.boot >= *boot);
    *boot = header.map_or(*boot, |header| header.boot.max(*boot));
    let mut at = Position {
        segment: segment.number,
        offset: SEGMENT_HEADER_BYTES,
    };
    std::iter::from_fn(move || {
        let (record, body) = record_at(segment, at).filter(|_| belongs)?;
        if record.boot < *boot {
            return None; // the remains of a tail that was cut
        }
        *boot = record.boot;
        let here = at;
        at.offset += record.stride();
        Some((here, record, body))
    })
}
