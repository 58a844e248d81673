//! Snapshot files: `<slot>.snap`, complete by their name.

use bytes::Bytes;
use quorate_core::Slot;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The folder of one replica's snapshots.
#[derive(Clone, Debug)]
pub(crate) struct SnapshotFiles {
    dir: PathBuf,
}

impl SnapshotFiles {
    /// Opens or creates the folder, and removes what a crash left unfinished there.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        if !dir.is_dir() {
            fs::create_dir_all(dir)?;
            if let Some(parent) = dir.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let files = SnapshotFiles { dir: dir.into() };
        for path in files.named("tmp")? {
            tracing::info!(path = %path.display(), "an unfinished snapshot was removed");
            fs::remove_file(path)?;
        }
        Ok(files)
    }

    /// The folder of a replica that does not run; nothing in it changes.
    pub(crate) fn offline(dir: &Path) -> Self {
        SnapshotFiles { dir: dir.into() }
    }

    /// The folder that the snapshots are in.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The slots and lengths in bytes of all complete snapshots, ascending.
    pub(crate) fn list(&self) -> io::Result<Vec<(Slot, u64)>> {
        let mut found = Vec::new();
        for path in self.named("snap")? {
            let slot = path.file_stem().and_then(|stem| stem.to_str());
            if let Some(slot) = slot.and_then(|stem| stem.parse().ok()) {
                found.push((Slot(slot), fs::metadata(&path)?.len()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// A part of a snapshot, shorter only at its end.
    pub(crate) fn read(&self, slot: Slot, offset: u64, len: usize) -> io::Result<Bytes> {
        let file = File::open(self.path(slot))?;
        // The file bounds what is allocated.
        let left = file.metadata()?.len().saturating_sub(offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(len);
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, offset)?;
        Ok(bytes.into())
    }

    /// Removes the snapshots of lower slots.
    pub(crate) fn remove_before(&self, slot: Slot) -> io::Result<()> {
        for (found, _) in self.list()? {
            if found < slot {
                fs::remove_file(self.path(found))?;
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self, slot: Slot) -> PathBuf {
        self.dir.join(format!("{:020}.snap", slot.0))
    }

    /// The name of a snapshot that is being written.
    pub(crate) fn temporary(&self, slot: Slot) -> PathBuf {
        self.dir.join(format!("{:020}.tmp", slot.0))
    }

    fn named(&self, extension: &str) -> io::Result<Vec<PathBuf>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|found| found == extension) {
                paths.push(path);
            }
        }
        Ok(paths)
    }
}
