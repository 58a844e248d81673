//! What waits inside a host, and how much of it there may be.

use super::Look;
use crate::payloads::{CODING_MAX, STAGED_MAX};
use crate::snapshot::SNAPSHOT_UNWRITTEN_BYTES_MAX;
use quorate_core::{Application, Machine};

/// Something that waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue {
    /// The name of what waits, for people.
    pub name: &'static str,
    /// How much of it there is.
    pub len: usize,
    /// The most there may ever be.
    pub max: usize,
}

/// Messages that wait for one flush: far more than all windows and retransmissions come to while a
/// disk hangs for seconds.
const GATED_MAX: usize = 64 << 10;

impl<M: Machine, A: Application> Look<'_, M, A> {
    /// Every queue, and the most it may hold: one that holds more has no bound.
    #[must_use]
    pub fn queues(self) -> [Queue; 10] {
        let limits = &self.host.context.limits;
        // The own session's opening comes on top of what clients ask.
        let requests_max = limits.requests_max + 1;
        let (recent, recent_max) = self.host.context.storage.decided.in_memory();
        let (cached, cached_max) = self.host.payloads.cached();
        let (coded, coded_max) = self.host.payloads.coded();
        let (sessions, sessions_max) = self.host.context.applier.sessions().count();
        let piece = limits
            .snapshot_piece_bytes
            .max(limits.snapshot_chunk_bytes as usize);
        let queue = |name, len, max| Queue { name, len, max };
        [
            queue("requests", self.host.requests.count(), requests_max),
            queue(
                "commands to order",
                self.host.requests.queued(),
                requests_max,
            ),
            queue(
                "messages that wait for the disk",
                self.host.outbox.gated(),
                GATED_MAX,
            ),
            queue(
                "messages that wait for fragments",
                self.host.payloads.uncoded(),
                CODING_MAX,
            ),
            queue(
                "messages that wait for their fragments to be stored",
                self.host.payloads.staged(),
                STAGED_MAX,
            ),
            queue("decided entries in memory", recent, recent_max),
            queue("sessions", sessions, sessions_max),
            queue("payload bytes in memory", cached, cached_max),
            queue("fragment bytes made", coded, coded_max),
            queue(
                "snapshot bytes to write",
                self.host.transfer.snapshots.unwritten() as usize,
                // The last piece may be of twice the length, as entries are not divided.
                SNAPSHOT_UNWRITTEN_BYTES_MAX as usize + 2 * piece,
            ),
        ]
    }
}
