//! Reads a log back, and judges how it ends.

use super::format::{
    ALIGN, HeaderError, Identity, Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES,
    SegmentHeader, decode_mark, decode_record, decode_release,
};
use super::writer::Tail;
use super::{LogSource, Position};
use crate::api::OpenError;
use bytes::Bytes;

/// One valid record.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) at: Position,
    pub(crate) kind: Kind,
    pub(crate) group: u32,
    pub(crate) epoch: u64,
    pub(crate) body: Bytes,
}

/// How a log ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Scanned {
    pub(crate) tail: Tail,
    /// The highest ordinal of a boot in the log.
    pub(crate) boot: u32,
    /// Segments that hold the log and where their files end, ascending.
    pub(crate) segments: Vec<Tail>,
    /// The latest position that a mark says is durable.
    pub(crate) marked: Position,
    /// Segments before this one were not needed any more.
    pub(crate) released: u64,
    /// Whether an unacknowledged rest was cut at the tail.
    pub(crate) torn: bool,
    pub(crate) records: u64,
}

impl Scanned {
    /// Takes note of what was cut. The next boot's ordinal is above those of the cut records too:
    /// were it one of theirs, they would be valid again as soon as new records ended at them.
    fn cut(&mut self, boot_max: Option<u32>) {
        self.torn |= boot_max.is_some();
        self.boot = self.boot.max(boot_max.unwrap_or(0));
    }
}

/// One segment in memory.
struct Segment {
    number: u64,
    bytes: Bytes,
    header: Result<SegmentHeader, HeaderError>,
}

/// Reads all records in order and hands them to `visit`.
///
/// Ends with [`OpenError::Damaged`] where an acknowledged record is missing or wrong; a rest that
/// was never acknowledged is cut.
pub(crate) fn scan(
    source: &mut dyn LogSource,
    identity: &Identity,
    mut visit: impl FnMut(Found) -> Result<(), OpenError>,
) -> Result<Option<Scanned>, OpenError> {
    let numbers = list(source)?;
    let numbers = needed(source, identity, numbers)?;
    let mut scanned: Option<Scanned> = None;
    for (index, number) in numbers.iter().enumerate() {
        let segment = load(source, *number, identity)?;
        let continues = match (&scanned, &segment.header) {
            (_, Err(_)) => false,
            (None, Ok(header)) => header.previous_end == 0 || index == 0,
            (Some(so_far), Ok(header)) => {
                header.previous_end == so_far.tail.at.offset
                    && *number == so_far.tail.at.segment + 1
                    && header.boot >= so_far.boot
            }
        };
        let end = match &scanned {
            Some(so_far) => so_far.tail.at,
            None => Position {
                segment: *number,
                offset: 0,
            },
        };
        if !continues {
            let mut rest = numbers[index..].to_vec();
            rest.extend(scanned.as_ref().map(|so_far| so_far.tail.at.segment));
            let cut = judge(source, identity, &rest, end, boot_of(&scanned))?;
            if let Some(so_far) = &mut scanned {
                so_far.cut(cut);
                so_far.torn = true;
            }
            return whole(scanned);
        }
        read_records(&segment, &mut scanned, &mut visit)?;
    }
    if let Some(so_far) = &mut scanned {
        let last = so_far.tail.at.segment;
        let cut = judge(source, identity, &[last], so_far.tail.at, so_far.boot)?;
        so_far.cut(cut);
    }
    whole(scanned)
}

/// Whether the log begins where it may: with its first segment, or with one that was not needed any
/// more or the first that was.
fn whole(scanned: Option<Scanned>) -> Result<Option<Scanned>, OpenError> {
    let Some(so_far) = &scanned else {
        return Ok(None);
    };
    let needed = so_far.released.max(1);
    match so_far.segments.first() {
        Some(first) if first.at.segment > needed => Err(OpenError::Damaged {
            at: Position {
                segment: needed,
                offset: 0,
            },
            what: format!("the segments before {} are missing", first.at.segment),
        }),
        _ => Ok(scanned),
    }
}

/// The segments that are needed. Those that are not may be gone, each by itself, or be half on their
/// way to another use: only then there is a gap among the numbers or a first one without a header,
/// and it is looked up which ones are needed.
fn needed(
    source: &mut dyn LogSource,
    identity: &Identity,
    mut numbers: Vec<u64>,
) -> Result<Vec<u64>, OpenError> {
    let Some(&first) = numbers.first() else {
        return Ok(numbers);
    };
    let is_gap = |pair: &[u64]| pair[0] + 1 < pair[1];
    if numbers.windows(2).any(is_gap) || load(source, first, identity)?.header.is_err() {
        let first = first_needed(source, identity, &numbers)?;
        numbers.retain(|number| *number >= first);
    }
    Ok(numbers)
}

/// The first segment needed, as the log says; 0 if it does not. A release counts if the log is
/// connected from the segment it names to its record: one behind a tail that will be cut, for
/// example, never happened.
fn first_needed(
    source: &mut dyn LogSource,
    identity: &Identity,
    numbers: &[u64],
) -> Result<u64, OpenError> {
    let (mut first, mut boot) = (0, 0);
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
            if record.kind == Kind::Release {
                let named = decode_release(&body).unwrap_or(0);
                first = first.max(if named >= connected_from { named } else { 0 });
            }
            end.offset = at.offset + record.stride();
        }
    }
    Ok(first)
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

fn boot_of(scanned: &Option<Scanned>) -> u32 {
    scanned.as_ref().map_or(0, |so_far| so_far.boot)
}

fn list(source: &mut dyn LogSource) -> Result<Vec<u64>, OpenError> {
    let mut numbers = source.list().map_err(|e| OpenError::Io(e.to_string()))?;
    numbers.sort_unstable();
    Ok(numbers)
}

fn load(
    source: &mut dyn LogSource,
    number: u64,
    identity: &Identity,
) -> Result<Segment, OpenError> {
    let bytes = source
        .read(number)
        .map_err(|e| OpenError::Io(format!("segment {number}: {e}")))?;
    let header = SegmentHeader::decode(&bytes, number, identity);
    match &header {
        Err(HeaderError::Version(found)) => Err(OpenError::Version {
            segment: number,
            found: *found,
        }),
        Err(HeaderError::Foreign(what)) => Err(OpenError::Foreign {
            segment: number,
            what: what.clone(),
        }),
        _ => Ok(Segment {
            number,
            bytes,
            header,
        }),
    }
}

/// Visits the valid records from the start of a segment; stops at the first that is not.
fn read_records(
    segment: &Segment,
    scanned: &mut Option<Scanned>,
    visit: &mut impl FnMut(Found) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let header = segment
        .header
        .as_ref()
        .expect("only segments with a header are read");
    let so_far = scanned.get_or_insert_with(|| Scanned {
        tail: Tail {
            at: Position::default(),
            segment_bytes: 0,
        },
        boot: header.boot,
        segments: Vec::new(),
        marked: Position::default(),
        released: 0,
        torn: false,
        records: 0,
    });
    let mut at = Position {
        segment: segment.number,
        offset: SEGMENT_HEADER_BYTES,
    };
    so_far.segments.push(Tail {
        at,
        segment_bytes: segment.bytes.len() as u32,
    });
    so_far.boot = so_far.boot.max(header.boot);
    let mut boot = so_far.boot;
    for (place, record, body) in valid_records(segment, &mut boot) {
        so_far.records += 1;
        match record.kind {
            Kind::Mark => {
                let through = decode_mark(&body).unwrap_or_default();
                so_far.marked = so_far.marked.max(through);
            }
            Kind::Release => {
                let first = decode_release(&body).unwrap_or_default();
                so_far.released = so_far.released.max(first);
            }
            _ => {}
        }
        let (kind, group, epoch) = (record.kind, record.group, record.epoch);
        visit(Found {
            at: place,
            kind,
            group,
            epoch,
            body,
        })?;
        at = place;
        at.offset += record.stride();
    }
    so_far.boot = boot;
    so_far.tail = Tail {
        at,
        segment_bytes: segment.bytes.len() as u32,
    };
    Ok(())
}

fn record_at(segment: &Segment, at: Position) -> Option<(RecordHeader, Bytes)> {
    let start = at.offset as usize;
    let (record, end) = decode_record(at, segment.bytes.get(start..)?)?;
    Some((
        record,
        segment
            .bytes
            .slice(start + RECORD_HEADER_BYTES as usize..start + end),
    ))
}

/// Decides whether what follows `end` may be cut: gives the highest boot ordinal in the rest that
/// was never acknowledged, `None` if there is no rest, and an error if a mark proves that the log
/// was durable beyond `end`.
fn judge(
    source: &mut dyn LogSource,
    identity: &Identity,
    numbers: &[u64],
    end: Position,
    boot: u32,
) -> Result<Option<u32>, OpenError> {
    let mut rest = None;
    for number in numbers {
        let segment = load(source, *number, identity)?;
        if *number != end.segment
            && let Ok(header) = &segment.header
        {
            rest = rest.max(Some(header.boot));
        }
        let from = if *number == end.segment {
            end.offset.max(ALIGN)
        } else {
            ALIGN
        };
        for offset in (from.next_multiple_of(ALIGN)..segment.bytes.len() as u32).step_by(16) {
            let at = Position {
                segment: *number,
                offset,
            };
            let Some((record, body)) = record_at(&segment, at) else {
                continue;
            };
            if record.boot < boot {
                continue;
            }
            rest = rest.max(Some(record.boot));
            let through = decode_mark(&body).filter(|_| record.kind == Kind::Mark);
            if through.is_some_and(|through| through > end) {
                return Err(OpenError::Damaged {
                    at: end,
                    what: what_is_wrong(&segment, end),
                });
            }
        }
    }
    Ok(rest)
}

fn what_is_wrong(witness: &Segment, end: Position) -> String {
    if witness.number == end.segment {
        "a record's checksum does not match, although later records were durable".into()
    } else {
        format!(
            "segment {} shows that the log goes on, and its end is missing",
            witness.number
        )
    }
}
