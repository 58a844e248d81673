//! What lies where a log cannot be read any further: which segments are needed at all, and whether
//! a rest was ever acknowledged.

use super::format::{
    ALIGN, Identity, Kind, RecordHeader, SEGMENT_HEADER_BYTES, decode_mark, decode_release,
};
use super::scan::{Segment, load, record_at};
use super::{LogSource, Position};
use crate::opened::OpenError;
use bytes::Bytes;

/// What is behind the end of the records that were read.
pub(super) struct Rest {
    /// How far the log was durable, as a mark says; before the end if none does.
    pub(super) durable: Position,
    /// The highest boot ordinal of records that were never acknowledged; `None` if there are none.
    pub(super) boot: Option<u32>,
}

/// Judges what follows `end` in these segments: whether the log was durable beyond it.
pub(super) fn judge(
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
        let segment = load(source, *number, identity)?;
        if *number != end.segment
            && let Ok(header) = &segment.header
        {
            rest.boot = rest.boot.max(Some(header.boot));
            boot = boot.max(header.boot);
        }
        for (_, record, body) in records_from(&segment, end) {
            if record.boot < boot {
                continue;
            }
            rest.boot = rest.boot.max(Some(record.boot));
            if record.kind == Kind::Mark {
                rest.durable = rest.durable.max(decode_mark(&body).unwrap_or_default());
            }
        }
    }
    Ok(rest)
}

/// The valid records of a segment that lie at or behind `end`, whether or not they follow each
/// other.
pub(super) fn records_from(
    segment: &Segment,
    end: Position,
) -> impl Iterator<Item = (Position, RecordHeader, Bytes)> {
    let number = segment.number;
    let from = if number == end.segment {
        end.offset.max(SEGMENT_HEADER_BYTES)
    } else {
        SEGMENT_HEADER_BYTES
    };
    let places = (from.next_multiple_of(ALIGN)..segment.bytes.len() as u32).step_by(ALIGN as usize);
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
