//! The folders of a replica, and the disk that they are on.

use super::finding::Finding;
use super::start::Known;
use crate::serve::Settings;
use quorate_core::Durability;
use rustix::fs::{StatFs, StatVfs, statfs, statvfs};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Less than this is too little for a log that is written in segments of 64 MiB, and for snapshots beside it.
const BYTES_MIN: u64 = 512 << 20;
/// Less than this is soon used up.
const BYTES_AMPLE: u64 = 4 << 30;
/// What one flush has to bring to the disk, about as much as a lone write.
const BLOCK: usize = 4096;
/// How many flushes are timed, and for how long at most.
const FLUSHES: usize = 64;
const FLUSHING_MAX: Duration = Duration::from_secs(2);
/// A flush that takes longer makes every write slow.
const SLOW: Duration = Duration::from_millis(10);
/// A disk that answers sooner has not written anything.
const TOO_FAST: Duration = Duration::from_micros(15);

/// What the kernel calls file systems that are no disk of this machine.
const KINDS: &[(u64, Kind)] = &[
    (0x0102_1994, Kind::Memory("tmpfs")),
    (0x8584_58f6, Kind::Memory("ramfs")),
    (0x6969, Kind::Network("NFS")),
    (0x517b, Kind::Network("SMB")),
    (0xfe53_4d42, Kind::Network("SMB")),
    (0xff53_4d42, Kind::Network("CIFS")),
    (0x794c_7630, Kind::Layer),
];

/// The kind of place that files are kept at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// A disk, as far as one can tell.
    Disk,
    /// Memory, which forgets; by its name.
    Memory(&'static str),
    /// Another machine's disk; by the protocol's name.
    Network(&'static str),
    /// The writable layer of a container, which goes with it.
    Layer,
}

/// Looks at the folder of the log, where everything is flushed, and at that of the data. Nothing is flushed on the disk
/// of a replica that runs.
pub(super) fn examine(settings: &Settings, known: &Known, runs: bool) -> Vec<Finding> {
    let log = settings.data_dir.join("log");
    let dir = match &settings.wal_dir {
        Some(dir) => dir,
        // It may lead to a disk of its own.
        None if log.exists() => &log,
        None => &settings.data_dir,
    };
    let mut found = Vec::new();
    if *dir != settings.data_dir {
        found.extend(writable(&settings.data_dir).err());
    }
    let place = match writable(dir) {
        Ok(place) => place,
        Err(finding) => {
            found.push(finding);
            return found;
        }
    };
    if known.durability == Durability::Memory {
        return found;
    }
    let kind = statfs(&place).map_or(Kind::Disk, |about: StatFs| kind_of(about.f_type));
    found.extend(statvfs(&place).ok().map(|about| space(&place, &about)));
    found.extend(of_kind(kind, &place));
    if !runs {
        found.push(match flush_times(&place) {
            Ok(times) => flushing(times, kind),
            Err(error) => Finding::problem(
                "flush",
                format!("nothing can be flushed in {}: {error}", place.display()),
                "look at the disk: `dmesg`, and whether it is full",
            ),
        });
    }
    found
}

/// The folder, or the nearest one above it that exists, if files can be made there.
fn writable(dir: &Path) -> Result<PathBuf, Finding> {
    let above = dir
        .ancestors()
        .map(|path| match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        });
    let place = above.into_iter().find(|path| path.exists());
    let place = place.unwrap_or(Path::new("/"));
    if !place.is_dir() {
        return Err(Finding::problem(
            "folder",
            format!("{} is no folder", place.display()),
            "give another --data-dir",
        ));
    }
    trial(place).map(|_| place.to_owned()).map_err(|error| {
        Finding::problem(
            "folder",
            format!("no file can be made in {}: {error}", place.display()),
            "let the user that runs Quorate own the folder (chown), or give another --data-dir",
        )
    })
}

/// A file without a name, which is gone when it is closed, however this program ends.
fn trial(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!(".quorate-doctor-{}", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[allow(
    clippy::unnecessary_cast,
    reason = "the type of the number is another one on other machines"
)]
fn kind_of(magic: impl TryInto<u64>) -> Kind {
    let magic = magic.try_into().unwrap_or(0);
    let mut kinds = KINDS.iter();
    let known = kinds.find(|(named, _)| *named == magic);
    known.map_or(Kind::Disk, |(_, kind)| *kind)
}

/// What is to be said of a file system that keeps nothing, or keeps it elsewhere.
fn of_kind(kind: Kind, place: &Path) -> Option<Finding> {
    let place = place.display();
    Some(match kind {
        Kind::Disk => return None,
        Kind::Memory(name) => Finding::problem(
            "file-system",
            format!(
                "{place} is in memory ({name}): what is acknowledged is gone when the machine is"
            ),
            "give a --data-dir on a disk, or say --durability memory if that is what you want",
        ),
        Kind::Network(name) => Finding::note(
            "file-system",
            format!("{place} is on another machine ({name}), which all replicas may depend on"),
            "give each replica a disk of its own machine",
        ),
        Kind::Layer => Finding::note(
            "file-system",
            format!("{place} is in the writable layer of a container, and goes with it"),
            "mount a volume there",
        ),
    })
}

/// The bytes that are free at a place, held against what a log needs.
fn space(place: &Path, about: &StatVfs) -> Finding {
    let free = about.f_bavail.saturating_mul(about.f_frsize);
    let text = format!("{} MiB are free at {}", free >> 20, place.display());
    match free {
        BYTES_AMPLE.. => Finding::fine("space", text),
        BYTES_MIN.. => Finding::note("space", text, "that is soon used up: watch it"),
        _ => Finding::problem(
            "space",
            text,
            "free some: with less than 512 MiB a replica refuses writes before long",
        ),
    }
}

/// How long it takes until a block is on the disk, as often as there was time for, ascending.
fn flush_times(dir: &Path) -> io::Result<Vec<Duration>> {
    let file = trial(dir)?;
    let block = [0x5a; BLOCK];
    let at = |index: usize| (index * BLOCK) as u64;
    // Written once before, as segments of the log are.
    for index in 0..FLUSHES {
        file.write_all_at(&block, at(index))?;
    }
    file.sync_all()?;
    let began = Instant::now();
    let mut times = Vec::new();
    for index in 0..FLUSHES {
        let each = Instant::now();
        file.write_all_at(&block, at(index))?;
        file.sync_data()?;
        times.push(each.elapsed());
        if began.elapsed() > FLUSHING_MAX {
            break;
        }
    }
    times.sort();
    Ok(times)
}

/// What times of flushes say of a disk.
fn flushing(times: Vec<Duration>, kind: Kind) -> Finding {
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let longest = times.last().copied().unwrap_or_default();
    let text = format!(
        "a write is on disk after {} us in the median of {}, {} us at most",
        median.as_micros(),
        times.len(),
        longest.as_micros()
    );
    match kind {
        Kind::Memory(_) => Finding::fine("flush", text),
        _ if median > SLOW => Finding::note(
            "flush",
            format!("{text}: every write of a client waits for that"),
            "give the log a fast disk of its own (--wal-dir)",
        ),
        _ if median < TOO_FAST => Finding::note(
            "flush",
            format!("{text}, which is sooner than disks are: something says so before it is"),
            "a power failure may take what was acknowledged; look for a cache without a battery: the settings of the \
             virtual machine, or `hdparm -W`",
        ),
        _ => Finding::fine("flush", text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Verdict;

    #[test]
    fn what_keeps_nothing_or_elsewhere_is_named() {
        let place = Path::new("/data");
        assert_eq!(of_kind(kind_of(0xef53_u64), place), None);
        let verdict = |magic: u64| of_kind(kind_of(magic), place).map(|one| one.verdict);
        assert_eq!(verdict(0x0102_1994), Some(Verdict::Problem));
        assert_eq!(verdict(0x6969), Some(Verdict::Note));
        assert_eq!(verdict(0x794c_7630), Some(Verdict::Note));
    }

    #[test]
    fn slow_disks_and_those_that_lie_are_told_from_good_ones() {
        let of = |micros: u64, kind| flushing(vec![Duration::from_micros(micros); 9], kind);
        let verdict = |micros| of(micros, Kind::Disk).verdict;
        assert_eq!(verdict(300), Verdict::Fine);
        assert!(of(20_000, Kind::Disk).text.contains("waits for that"));
        assert_eq!(verdict(20_000), Verdict::Note);
        assert!(of(2, Kind::Disk).text.contains("before it is"));
        assert_eq!(of(2, Kind::Memory("tmpfs")).verdict, Verdict::Fine);
    }

    #[test]
    fn a_trial_leaves_nothing_behind_and_finds_the_nearest_folder() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        assert_eq!(writable(&deep).unwrap(), dir.path());
        assert!(!flush_times(dir.path()).unwrap().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let finding = writable(&file.join("below")).unwrap_err();
        assert!(finding.text.ends_with("is no folder"), "{}", finding.text);
    }
}
