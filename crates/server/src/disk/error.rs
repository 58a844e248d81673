//! What fails on a disk, and what follows from it.

use crate::transient::is_transient;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on the log. Unless it may be tried again the replica stops: what the disk holds is no longer
/// known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskError {
    verb: &'static str,
    path: PathBuf,
    why: String,
    full: bool,
    /// Whether the system had no descriptors or no memory for the moment.
    transient: bool,
}

impl DiskError {
    pub(super) fn new(verb: &'static str, path: &Path, error: &io::Error) -> Self {
        let full = is_full(error);
        DiskError {
            verb,
            path: path.into(),
            why: error.to_string(),
            full,
            transient: is_transient(error),
        }
    }

    /// What failed, and why, without what follows for the replica.
    pub(crate) fn what(&self) -> String {
        let DiskError {
            verb, path, why, ..
        } = self;
        format!("cannot {verb} {}: {why}", path.display())
    }

    /// Whether the same may be tried again: there was no space, or the system had no means for the moment. After a
    /// failed sync it may not.
    pub(crate) fn may_succeed_later(&self) -> bool {
        (self.full || self.transient) && self.verb != "sync"
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
        f.write_str(&self.what())?;
        if self.transient && self.may_succeed_later() {
            f.write_str(
                "; the system has no means for this at the moment: raise its limits (`ulimit -n`, LimitNOFILE=, \
                 fs.file-max), or let fewer programs run beside this one",
            )
        } else if self.full {
            f.write_str("; free some space on this disk and start the replica again")
        } else {
            f.write_str(
                "; the replica stops, because it no longer knows what this disk holds: check the disk \
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

    #[test]
    fn what_the_system_lacks_for_a_moment_is_not_the_disks_fault() {
        let path = Path::new("/data/1/log/0000000002.seg");
        for errno in [
            Errno::MFILE,
            Errno::NFILE,
            Errno::NOMEM,
            Errno::INTR,
            Errno::AGAIN,
        ] {
            let error = DiskError::new("create", path, &errno.into());
            assert!(
                error.may_succeed_later() && !error.is_want_of_space(),
                "{error}"
            );
            assert!(error.to_string().contains("ulimit -n"), "{error}");
            // Nobody knows what a failed sync leaves on the disk.
            assert!(!DiskError::new("sync", path, &errno.into()).may_succeed_later());
        }
        assert!(!DiskError::new("open", path, &Errno::IO.into()).may_succeed_later());
    }
}
