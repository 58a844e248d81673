//! What the core does for snapshots.

use super::{SnapshotJobDone, SnapshotThread, Writing};
use crate::core::Core;
use crate::metrics::seconds;
use quorate_core::Slot;
use quorate_host::{Completed, HostEvent, Release, SnapshotRead, SnapshotWrite};
use quorate_protocols::ProtocolSet;
use std::time::Instant;

impl<P: ProtocolSet> Core<P> {
    /// Passes on what the host wants done to snapshot files.
    pub(crate) fn write_snapshots(&mut self, writes: Vec<SnapshotWrite>) {
        for write in writes {
            match &write {
                SnapshotWrite::Begin { slot } => {
                    // The own state is never ahead of what is applied.
                    let fetched = *slot > self.host.look().applied();
                    let began = Instant::now();
                    self.snapshots.writing = Some(Writing { began, fetched });
                }
                SnapshotWrite::Piece { bytes, .. } if self.is_fetching() => {
                    let received = &self.metrics.snapshots.received_bytes;
                    received.increment(bytes.len() as u64);
                }
                _ => {}
            }
            self.snapshots.write(write);
        }
    }

    /// Passes on the reads of stored snapshots that the host wants.
    pub(crate) fn read_snapshots(&mut self, reads: Vec<SnapshotRead>) {
        for read in reads {
            self.snapshots.read(read);
        }
    }

    /// Has segments and snapshots deleted that the host needs no more.
    pub(crate) fn release(&mut self, release: Option<Release>, fragments: &[u64]) {
        let Some(disk) = &mut self.disk else { return };
        if let Some(release) = release {
            self.snapshots.free(disk.release(release));
            self.snapshots.remove_before(release.snapshots_before);
        }
        if !fragments.is_empty() {
            self.snapshots.free(disk.release_fragments(fragments));
        }
    }

    /// Tells the host what was done, this and what came after it.
    pub(crate) fn snapshot_job_done(&mut self, first: SnapshotJobDone) {
        let mut next = Some(first);
        while let Some(done) = next {
            self.note_snapshot_job(done);
            next = self.snapshots.done_already();
        }
    }

    fn note_snapshot_job(&mut self, done: SnapshotJobDone) {
        let now = self.clock.now();
        match done {
            SnapshotJobDone::Written(bytes) => {
                self.host.completed(now, Completed::SnapshotPiece(bytes))
            }
            SnapshotJobDone::Stored(slot, result) => {
                if let (Some(writing), Ok(())) = (self.snapshots.writing.take(), &result) {
                    let took = writing.began.elapsed();
                    let took = seconds(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
                    self.metrics.snapshots.seconds.record(took);
                }
                self.host
                    .completed(now, Completed::Snapshot { slot, result });
            }
            SnapshotJobDone::Read(read, bytes) => {
                if let Ok(bytes) = &bytes {
                    let sent = &self.metrics.snapshots.sent_bytes;
                    sent.increment(bytes.len() as u64);
                }
                self.host.completed(
                    now,
                    Completed::SnapshotRead {
                        token: read.token,
                        bytes,
                    },
                );
            }
        }
    }

    /// Notes an event about snapshots.
    pub(crate) fn note_snapshot(&mut self, event: HostEvent) {
        let metrics = &self.metrics.snapshots;
        match event {
            HostEvent::SnapshotTaken(snapshot) => {
                self.snapshots.failing = false;
                metrics.taken.increment(1);
                metrics.bytes.set(snapshot.bytes as f64);
                tracing::info!(slot = %snapshot.slot, bytes = snapshot.bytes, "snapshot taken");
            }
            HostEvent::SnapshotWanted { peer, snapshot } => {
                tracing::info!(
                    %peer, slot = %snapshot.slot, bytes = snapshot.bytes,
                    "too far behind for the peers' logs: fetching a snapshot"
                );
            }
            HostEvent::SnapshotFailed { slot, why } => {
                metrics.failed.increment(1);
                self.snapshots.note_failure(slot, &why);
            }
            HostEvent::Installed { slot } => {
                metrics.installed.increment(1);
                // They belong to the former state.
                self.forget_countdowns();
                tracing::info!(%slot, "the state is now that of a peer's snapshot");
            }
            _ => {}
        }
    }

    fn is_fetching(&self) -> bool {
        (self.snapshots.writing).is_some_and(|writing| writing.fetched)
    }
}

impl SnapshotThread {
    /// Tells people once, not at every attempt.
    fn note_failure(&mut self, slot: Slot, why: &str) {
        if self.failing {
            tracing::debug!(%slot, "a snapshot failed again: {why}");
        } else {
            tracing::warn!(
                %slot,
                "a snapshot failed: {why}; this replica goes on serving, and takes the next one later"
            );
        }
        self.failing = true;
    }
}
