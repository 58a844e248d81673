//! Snapshots: so that the log does not grow for ever, and a replica that was away for long comes
//! back without replaying everything.

mod api;

pub use api::{Release, SNAPSHOT_UNWRITTEN_BYTES_MAX, SnapshotId, SnapshotRead, SnapshotWrite};

use crate::host::Host;
use bytes::Bytes;
use quorate_core::{Application, Machine, Now, Slot};

impl<M: Machine, A: Application> Host<M, A> {
    /// What to do to snapshot files, in order.
    pub fn take_snapshot_writes(&mut self) -> Vec<SnapshotWrite> {
        Vec::new()
    }

    /// So many bytes of [`SnapshotWrite::Piece`]s were written (not synced), or will never be.
    pub fn snapshot_written(&mut self, _bytes: u64) {}

    /// The snapshot of this slot is durable under its name; or writing it failed, at whatever
    /// place. After a failure the driver ignores writes up to the next [`SnapshotWrite::Begin`].
    pub fn snapshot_stored(&mut self, _now: Now, _slot: Slot, _result: Result<(), String>) {}

    /// Reads of stored snapshots to perform.
    pub fn take_snapshot_reads(&mut self) -> Vec<SnapshotRead> {
        Vec::new()
    }

    /// A read of a stored snapshot is done. Fewer bytes than asked for are an error.
    pub fn snapshot_read_done(&mut self, _now: Now, _token: u64, _bytes: Result<Bytes, String>) {}

    /// What may be deleted. To be asked for after every flush; each supersedes those before.
    pub fn take_release(&mut self) -> Option<Release> {
        None
    }
}
