//! What fails on a disk, and what follows from it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on the log. The replica stops: what the disk holds is no longer known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    verb: &'static str,
    path: PathBuf,
    why: String,
    full: bool,
}

impl DiskError {
    pub(super) fn new(verb: &'static str, path: &Path, error: &io::Error) -> Self {
        let full = is_full(error);
        DiskError {
            verb,
            path: path.into(),
            why: error.to_string(),
            full,
        }
    }

    /// Whether nothing failed but a write for want of space.
    pub(crate) fn is_want_of_space(&self) -> bool {
        self.full && self.verb != "sync"
    }
}

pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cannot {} {}: {}",
            self.verb,
            self.path.display(),
            self.why
        )?;
        if self.full {
            f.write_str("; free some space on this disk and start the replica again")
        } else {
            f.write_str(
                "; the replica stops, for what this disk holds is no longer known: check the disk \
                 before starting it again",
            )
        }
    }
}

impl std::error::Error for DiskError {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_full_disk_and_a_broken_one_are_told_apart() {
        let path = Path::new("/data/1/log/0000000001.seg");
        let full = DiskError::new("write to", path, &Errno::NOSPC.into()).to_string();
        assert!(
            full.contains("0000000001.seg") && full.contains("free some space"),
            "{full}"
        );
        let broken = DiskError::new("sync", path, &Errno::IO.into()).to_string();
        assert!(broken.contains("check the disk"), "{broken}");
    }
}
