//! What is stuck where.

use crate::report::Violation;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A liveness violation that names what is stuck where.
    pub(crate) fn stuck(&self, why: &str) -> Violation {
        let mut what = format!(
            "{why}, in {:?}, {} operations done",
            self.phase, self.clients.completed
        );
        for (index, node) in self.nodes.iter().enumerate() {
            what.push_str(&format!("\n    replica {}: ", index + 1));
            match &node.host {
                None => what.push_str("down"),
                Some(host) => {
                    let (slot, digest) = host.digest();
                    let role = if node.lost { "lost its promises, " } else { "" };
                    let counters = host.counters();
                    let (waiting, leases) = (host.waiting(), host.app().leases());
                    let countdown = node.countdowns.next();
                    what.push_str(&format!(
                        "{role}at slot {slot}, {digest:016x}, {counters:?}, {waiting} requests \
                         wait, leases and their keys: {leases:?}, next \
                         countdown: {countdown:?}"
                    ));
                }
            }
        }
        what.push_str(&self.clients.describe_pending());
        Violation::new("liveness", what)
    }
}
