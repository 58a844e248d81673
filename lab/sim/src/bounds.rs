//! Every queue has a bound, and keeps to it.

use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{TICK_NS, World};
use quorate_core::{MILLIS, Machine};

/// What arrives at a stopped replica beyond this is lost, as a full socket buffer loses it.
pub(crate) const INBOX_MAX: usize = 50_000;
/// A replica's log may not outgrow this in one seed.
pub(crate) const DISK_BYTES_MAX: usize = 256 << 20;
/// More waiting events than this are a queue without a bound.
const EVENTS_MAX: usize = 1 << 20;
/// More events than this between two ticks are messages that call forth ever more of them.
const TICK_EVENTS_MAX: u64 = 1 << 18;
/// Frames of more bytes than this between two ticks are such messages, too.
const TICK_BYTES_MAX: u64 = 256 << 20;

/// What has happened since a tick.
pub(crate) struct SinceTick {
    events: u64,
    /// Bytes that replicas had sent until then.
    sent_bytes: u64,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Counts that begin now.
    pub(crate) fn since_now(&self) -> SinceTick {
        let sent_bytes = self.network.counts.sent_bytes;
        SinceTick {
            events: 0,
            sent_bytes,
        }
    }

    /// Looks at how much waits to happen, and at how much has happened since the last tick.
    pub(crate) fn check_events(&self, since: &mut SinceTick) -> Result<(), Violation> {
        let waiting = self.queue.len();
        if waiting > EVENTS_MAX {
            return Err(Violation::new("bound", format!("{waiting} events wait")));
        }
        since.events += 1;
        let (events, within_ms) = (since.events, TICK_NS / MILLIS);
        let bytes = self.network.counts.sent_bytes - since.sent_bytes;
        if events > TICK_EVENTS_MAX || bytes > TICK_BYTES_MAX {
            let what =
                format!("{events} events and {bytes} B sent within {within_ms} ms of virtual time");
            return Err(Violation::new("bound", what));
        }
        Ok(())
    }

    /// Looks at all queues of a replica after a turn.
    pub(crate) fn check_bounds(&mut self, index: usize) -> Result<(), Violation> {
        let node = &self.nodes[index];
        let Some(host) = node.host.as_ref() else {
            return Ok(());
        };
        for queue in host.look().queues() {
            if queue.len > queue.max {
                let what = format!("replica {}: {queue:?}", index + 1);
                return Err(Violation::new("bound", what));
            }
        }
        Ok(())
    }

    /// Looks at the disk of a replica, which grows by what is written only.
    pub(crate) fn check_disk(&self, index: usize) -> Result<(), Violation> {
        let bytes = self.nodes[index].disk.bytes();
        if bytes > DISK_BYTES_MAX && self.rig.is_none() {
            let what = format!("the log of replica {} has {bytes} B", index + 1);
            return Err(Violation::new("bound", what));
        }
        Ok(())
    }
}
