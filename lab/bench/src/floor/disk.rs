//! A log file written before it is used, so that a flush moves data and no metadata.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use super::{ReplicaArgs, Sync};

/// The log of one replica; it wraps around when full.
pub(super) struct Log {
    file: File,
    file_bytes: usize,
    sync: Sync,
    next: usize,
    /// Flushes so far.
    pub(super) syncs: u64,
}

impl Log {
    /// Creates the file and writes all its blocks.
    pub(super) fn create(args: &ReplicaArgs) -> io::Result<Log> {
        let file_bytes = args.file_bytes.next_multiple_of(CHUNK_BYTES);
        let mut file = File::create(&args.file)?;
        let chunk = vec![0xa5; CHUNK_BYTES];
        for _ in 0..file_bytes / CHUNK_BYTES {
            file.write_all(&chunk)?;
        }
        file.sync_all()?;
        // Large writes leave large folios in the page cache, and the kernel then handles every
        // small write as if it dirtied a megabyte. Forgotten, they come back as single pages.
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        let flags = match args.sync {
            Sync::Dsync => rustix::fs::OFlags::DSYNC.bits() as i32,
            Sync::Fdatasync | Sync::None => 0,
        };
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&args.file)?;
        Ok(Log {
            file,
            file_bytes,
            sync: args.sync,
            next: 0,
            syncs: 0,
        })
    }

    /// Appends a batch and makes it durable. Pads the batch to whole blocks, so that the disk
    /// never reads one back to change a part of it.
    pub(super) fn append(&mut self, batch: &mut Vec<u8>) -> io::Result<()> {
        let bytes = batch.len();
        batch.resize(bytes.next_multiple_of(BLOCK_BYTES), 0);
        if self.next + batch.len() > self.file_bytes {
            self.next = 0;
        }
        self.file.write_all_at(batch, self.next as u64)?;
        self.next += batch.len();
        batch.truncate(bytes);
        if self.sync == Sync::Fdatasync {
            self.file.sync_data()?;
        }
        self.syncs += 1;
        Ok(())
    }
}

const BLOCK_BYTES: usize = 4096;
const CHUNK_BYTES: usize = 1 << 20;
