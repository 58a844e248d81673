//! Why nothing happens, for people.

use super::Look;
use quorate_core::{Application, Machine};
use std::fmt::Write;

impl<M: Machine, A: Application> Look<'_, M, A> {
    /// Where this replica is, what waits for what, and when it will look again; `mono_ns` is the
    /// present time of its monotonic clock.
    #[must_use]
    pub fn explain(self, mono_ns: u64) -> String {
        let mut text = format!(
            "slot {}, {}",
            self.host.context.applied(),
            self.host.requests.describe()
        );
        let (appended, flushing, durable) = self.host.outbox.progress();
        if durable < appended {
            let _ = write!(
                text,
                "; records appended to {}, being flushed to {}, durable to {}",
                appended.0, flushing.0, durable.0
            );
        }
        if self.host.outbox.gated() > 0 {
            let _ = write!(
                text,
                "; {} messages wait for records",
                self.host.outbox.gated()
            );
        }
        if self.host.outbox.is_silent() {
            text.push_str("; silent until its first flush");
        }
        if let Some(peer) = self.host.transfer.catch_up.fetching() {
            let _ = write!(text, "; catches up from replica {peer}");
        }
        if self.host.transfer.snapshots.is_pulling() {
            text.push_str("; fetches a snapshot");
        }
        for (timer, due_ns) in self.host.context.timers.armed() {
            let in_us = due_ns.saturating_sub(mono_ns) / 1_000;
            let _ = write!(text, "; {timer:?} in {in_us} us");
        }
        if self.host.context.rollback.is_waiting() {
            text.push_str("; waits for peers to say what they remember of it");
        } else if self.host.transfer.repair.is_under_way() {
            text.push_str("; lacks slots that damage has taken");
        }
        let machine = self.host.engine.machine().map(M::explain);
        if let Some(machine) = machine.filter(|machine| !machine.is_empty()) {
            let _ = write!(text, "; machine: {machine}");
        }
        text
    }
}
