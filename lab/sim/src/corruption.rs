//! Ways in which bytes on a disk come to be something else.

use crate::disk::Disk;
use crate::segments::Segments;
use fastrand::Rng;
use quorate_host::{Opened, Position};

/// What is damaged as one piece where a sector is.
const SECTOR_BYTES: usize = 512;

/// A part of a store, in one segment: from here up to there.
pub(crate) type Extent = (u64, usize, usize);

/// Damages bytes in these extents; says how.
pub(crate) fn corrupt(disk: &mut Segments, extents: &[Extent], rng: &mut Rng) -> &'static str {
    match rng.u8(..4) {
        0 => {
            let (segment, from, to) = place(extents, rng);
            let end = (from + SECTOR_BYTES).min(to);
            disk.overwrite(segment, from, &vec![0xdb; end - from]);
            "lost sector"
        }
        1 => {
            // A write landed elsewhere: what is there now belongs to another place.
            let (segment, from, to) = place(extents, rng);
            let (source, other, other_to) = place(extents, rng);
            let len = rng
                .usize(1..=SECTOR_BYTES)
                .min(to - from)
                .min(other_to - other);
            let bytes = disk.copy(source, other, len);
            let differs = bytes != disk.copy(segment, from, len);
            disk.overwrite(segment, from, &bytes);
            if differs {
                return "misdirected write";
            }
            flip(disk, extents, rng, None);
            "bit rot"
        }
        _ => {
            let first = flip(disk, extents, rng, None);
            if rng.bool() {
                flip(disk, extents, rng, Some(first));
            }
            "bit rot"
        }
    }
}

/// Flips a bit of a byte, unless that is the one that was flipped before: twice might be nothing.
/// Says where.
fn flip(
    disk: &mut Segments,
    extents: &[Extent],
    rng: &mut Rng,
    before: Option<(u64, usize)>,
) -> (u64, usize) {
    let (segment, at, _) = place(extents, rng);
    let byte = disk.copy(segment, at, 1)[0] ^ (1 << rng.u8(..8));
    if before != Some((segment, at)) {
        disk.overwrite(segment, at, &[byte]);
    }
    (segment, at)
}

/// A place in one of the extents, and where that ends; half of the time near the end of the log,
/// where the promises are that still matter.
fn place(extents: &[Extent], rng: &mut Rng) -> Extent {
    let index = rng.usize(..extents.len() * 2).min(extents.len() - 1);
    let (segment, from, to) = extents[index];
    let is_last = index + 1 == extents.len();
    let from = if is_last && rng.bool() {
        from.max(to.saturating_sub(SECTOR_BYTES))
    } else {
        from
    };
    (segment, rng.usize(from..to), to)
}

impl Disk {
    /// The parts of the log that hold what was acknowledged, as a look at it found.
    pub(crate) fn acknowledged(&self, found: &Opened) -> Vec<Extent> {
        let Position { segment, offset } = found.marked;
        let end = |number: u64| {
            if number == segment {
                return Some(offset as usize);
            }
            // The next segment's header says where this one's records end.
            let field = self.log.copy_if_there(number + 1, 54, 4)?;
            Some(u32::from_le_bytes(field.try_into().ok()?) as usize)
        };
        let numbers = found.segments.iter().copied();
        let parts = numbers.filter(|number| *number <= segment);
        let extents = parts.filter_map(|number| Some((number, 0, end(number)?)));
        extents
            .filter(|(number, _, end)| {
                self.log.copy_if_there(*number, 0, *end).is_some() && *end > 0
            })
            .collect()
    }

    /// The parts of the fragment store that were written.
    pub(crate) fn bulk_extents(&self) -> Vec<Extent> {
        let ends = self.bulk.ends().filter(|(_, end)| *end > 0);
        ends.map(|(segment, end)| (segment, 0, end)).collect()
    }
}
