//! What can happen to a replica's files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Fills the disk under `directory` with one file, and gives its name.
pub(super) fn fill(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join("filler");
    let mut file = File::create(&path)?;
    let block = vec![0; 1 << 20];
    let mut size = block.len();
    // Ever smaller pieces, until not even a byte fits.
    while size > 0 {
        match file.write(&block[..size]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => size /= 2,
            Err(error) => return Err(error),
        }
    }
    Ok(path)
}

/// Copies a folder and everything in it.
pub(super) fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// A byte that was changed.
#[derive(Debug)]
pub(super) struct Flipped {
    pub(super) file: PathBuf,
    pub(super) offset: u64,
}

/// Changes one byte of a stopped replica's log, somewhere before the last position that the log
/// itself says is durable; none if it says of none.
pub(super) fn flip(folder: &Path, random: &mut fastrand::Rng) -> io::Result<Option<Flipped>> {
    let mut segments: Vec<(u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder.join("log"))? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| stem.parse().ok());
        if path.extension().is_some_and(|kind| kind == "seg") {
            segments.extend(number.map(|number| (number, path)));
        }
    }
    segments.sort();
    let mut durable = None;
    for (number, path) in &segments {
        durable = durable.max(last_mark(*number, &fs::read(path)?));
    }
    let Some(LogPosition {
        segment,
        offset: end,
    }) = durable
    else {
        return Ok(None);
    };
    let held = segments.iter().filter(|(number, _)| *number <= segment);
    let held: Vec<_> = held.collect();
    let (number, path) = held[random.usize(..held.len())];
    let end = match *number == segment {
        true => end,
        false => used(&fs::read(path)?),
    };
    let offset = u64::from(random.u32(..end.max(1)));
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset)?;
    file.write_all_at(&[byte[0] ^ random.u8(1..)], offset)?;
    let file = path.clone();
    Ok(Some(Flipped { file, offset }))
}

/// A position in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct LogPosition {
    segment: u64,
    offset: u32,
}

/// The latest position that a mark in a segment names: see the format of the log.
fn last_mark(segment: u64, bytes: &[u8]) -> Option<LogPosition> {
    let records = bytes.chunks_exact(ALIGN).enumerate();
    let marks = records.filter_map(|(index, head)| {
        let at = index * ALIGN;
        let is_mark = head[..3] == [0x51, 0x72, KIND_MARK] && number(&head[8..12]) == at as u64;
        let body = bytes.get(at + RECORD_HEAD..at + RECORD_HEAD + 12)?;
        (at >= SEGMENT_HEAD && is_mark)
            .then(|| LogPosition {
                segment: number(&body[..8]),
                offset: number(&body[8..]) as u32,
            })
            .filter(|named| named.segment <= segment)
    });
    marks.max()
}

/// Where a segment's content ends.
fn used(bytes: &[u8]) -> u32 {
    let last = bytes.iter().rposition(|byte| *byte != 0);
    last.map_or(0, |last| last as u32 + 1)
}

fn number(bytes: &[u8]) -> u64 {
    let digits = bytes.iter().rev();
    digits.fold(0, |number, byte| number << 8 | u64::from(*byte))
}

const ALIGN: usize = 16;
const SEGMENT_HEAD: usize = 4096;
const RECORD_HEAD: usize = 32;
const KIND_MARK: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_tooling::cleanup::TempDir;

    /// A segment with one mark, at 4096, that names the position 4160 of itself.
    fn segment() -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        bytes[SEGMENT_HEAD..][..3].copy_from_slice(&[0x51, 0x72, KIND_MARK]);
        bytes[SEGMENT_HEAD + 8..][..4].copy_from_slice(&4096u32.to_le_bytes());
        bytes[SEGMENT_HEAD + 32..][..8].copy_from_slice(&1u64.to_le_bytes());
        bytes[SEGMENT_HEAD + 40..][..4].copy_from_slice(&4160u32.to_le_bytes());
        bytes
    }

    #[test]
    fn a_byte_before_the_durable_mark_is_flipped_and_no_other() {
        assert_eq!(
            last_mark(1, &segment()),
            Some(LogPosition {
                segment: 1,
                offset: 4160
            })
        );
        let parent = std::env::temp_dir();
        let home = TempDir::new(Some(&parent)).expect("a directory");
        fs::create_dir(home.path().join("log")).expect("created");
        let path = home.path().join("log/0000000001.seg");
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..50 {
            fs::write(&path, segment()).expect("written");
            let flipped = flip(home.path(), &mut random).expect("flipped");
            let flipped = flipped.expect("there is a mark");
            let now = fs::read(&path).expect("read");
            let differing: Vec<_> = (0..now.len())
                .filter(|at| now[*at] != segment()[*at])
                .collect();
            assert_eq!(differing, [flipped.offset as usize]);
            assert!(flipped.offset < 4160);
        }
        fs::write(&path, vec![0; 8192]).expect("written");
        assert!(flip(home.path(), &mut random).expect("read").is_none());
    }
}
