//! Snapshots on disk: files of their own beside the log, written and read on a thread of their own.
//!
//! A snapshot is long and nobody waits for it: the core hands out small jobs and goes on. The thread
//! also frees what a snapshot made superfluous.

mod drive;
mod files;
mod worker;

pub(crate) use files::SnapshotFiles;
pub(crate) use worker::SnapshotJobDone;

use crate::disk::Freed;
use quorate_core::Slot;
use quorate_host::{SnapshotRead, SnapshotWrite};
use std::sync::mpsc::Sender;
use std::time::Instant;
use tokio::sync::mpsc::UnboundedReceiver;
use worker::SnapshotJob;

/// The core's end of the thread. Neither queue is bounded: the host bounds the bytes of pieces that
/// are under way, and every peer has one read at a time.
#[derive(Debug)]
pub(crate) struct SnapshotThread {
    /// `None` for a replica that keeps no files.
    thread: Option<Thread>,
    /// The snapshot that is being written.
    writing: Option<Writing>,
    /// The last attempt failed, and people were told.
    failing: bool,
}

#[derive(Debug)]
struct Thread {
    jobs: Sender<SnapshotJob>,
    done: UnboundedReceiver<SnapshotJobDone>,
}

#[derive(Clone, Copy, Debug)]
struct Writing {
    began: Instant,
    /// A peer's, not of the own state.
    fetched: bool,
}

impl SnapshotThread {
    /// The thread's end of a replica that keeps no files.
    pub(crate) fn none() -> Self {
        SnapshotThread {
            thread: None,
            writing: None,
            failing: false,
        }
    }

    /// Starts the thread; it ends with this.
    pub(crate) fn start(files: SnapshotFiles) -> std::io::Result<Self> {
        let (jobs, done) = worker::start(files)?;
        Ok(SnapshotThread {
            thread: Some(Thread { jobs, done }),
            ..SnapshotThread::none()
        })
    }

    /// What was done next.
    pub(crate) async fn done(&mut self) -> SnapshotJobDone {
        if let Some(thread) = &mut self.thread
            && let Some(done) = thread.done.recv().await
        {
            return done;
        }
        std::future::pending().await
    }

    /// What was done meanwhile.
    fn done_already(&mut self) -> Option<SnapshotJobDone> {
        self.thread.as_mut()?.done.try_recv().ok()
    }

    fn write(&mut self, write: SnapshotWrite) {
        self.give(SnapshotJob::Write(write));
    }

    fn read(&mut self, read: SnapshotRead) {
        self.give(SnapshotJob::Read(read));
    }

    fn remove_before(&mut self, slot: Slot) {
        self.give(SnapshotJob::RemoveBefore(slot));
    }

    fn free(&mut self, freed: Freed) {
        if !freed.is_empty() {
            self.give(SnapshotJob::Free(freed));
        }
    }

    fn give(&mut self, job: SnapshotJob) {
        if let Some(thread) = &self.thread {
            // The thread ends after this.
            let _ = thread.jobs.send(job);
        }
    }
}
