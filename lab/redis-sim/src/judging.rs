//! What must hold at every moment, and in the end.

use crate::client::Phase;
use crate::fake::Fake;
use crate::history::{FinalValues, judge};
use crate::node::Node;
use crate::options::Report;
use crate::world::World;
use quorate_redis_effects::Role;

impl World {
    /// V2: a server that follows has, at its offset, the data of the stream before it.
    pub(crate) fn check_standing(&mut self, index: usize) {
        let node = &self.nodes[index];
        let Some(server) = &node.server else {
            return;
        };
        let (is_master, offset, digest) = server.standing();
        if is_master || node.driver.status().role != Role::Following {
            return;
        }
        if offset > self.reference.len() {
            self.fail(format!(
                "V2: server {index} is at {offset}, beyond the stream"
            ));
        } else if let Some(right) = self.reference.digest_at(offset)
            && right != digest
        {
            self.fail(format!(
                "V2: server {index} holds other data at offset {offset}"
            ));
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        let len = self.reference.len();
        let is_rested = |node: &Node| {
            let standing = node.server.as_ref().map(Fake::standing);
            node.applied == self.log.entries.len()
                && standing.is_some_and(|(_, offset, _)| offset == len)
                && matches!(node.driver.status().role, Role::Following | Role::Executing)
        };
        let is_master =
            |node: &&Node| (node.server.as_ref()).is_some_and(|server| server.standing().0);
        let members = || self.nodes.iter().filter(|node| node.is_member);
        // A process that is stopped may not know yet that it was deposed.
        let has_one_master = members().filter(is_master).count() <= 1;
        has_one_master
            && members().all(is_rested)
            && (self.clients.iter()).all(|client| matches!(client.phase, Phase::Idle))
    }

    pub(crate) fn judge_end(&mut self) -> Result<Report, String> {
        self.report.len = self.reference.len();
        let mut executors = 0;
        for node in self.nodes.iter().filter(|node| node.is_member) {
            let (is_master, offset, digest) =
                (node.server.as_ref().map(Fake::standing)).unwrap_or_default();
            executors += usize::from(is_master);
            if self.reference.digest_at(offset) != Some(digest) {
                let index = node.index;
                return Err(format!(
                    "server {index} holds other data in the end, at {offset}"
                ));
            }
        }
        if executors > 1 {
            return Err(format!("{executors} servers are masters in the end"));
        }
        let values = FinalValues {
            counter: self.reference.counter(),
            members: self.reference.members(),
        };
        let known = self.history.iter().filter(|op| op.answer.is_some());
        self.report.answered = known.count();
        self.report.unknown = self.history.len() - self.report.answered;
        judge(&self.history, &values)?;
        Ok(self.report)
    }
}
