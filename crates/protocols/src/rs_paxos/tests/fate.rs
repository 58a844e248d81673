//! What becomes of a cluster's replicas: they crash and come back, and can be looked at.

use super::net::Net;
use crate::rs_paxos::{Record, Replica};
use quorate_core::{Boot, EntryId, Lsn, Machine, Outcome, Past, Record as _, RequestId, Slot};

impl Net {
    /// The process dies: what was not flushed, and what was not said, is gone. Its decided log
    /// stays.
    pub(super) fn crash(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.machine = None;
        let flushed = node.flushed;
        node.disk.retain(|(lsn, _)| *lsn <= flushed);
        node.gated.clear();
        node.gathers.clear();
        node.timers.clear();
    }

    /// The process comes back with its disk.
    pub(super) fn restart(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let next = Slot(node.log.len() as u64);
        let is_open = |record: &Record| record.slot().is_none_or(|slot| slot >= next);
        node.disk.retain(|(_, record)| is_open(record));
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.flushed = Lsn(0);
        node.is_stuck = false;
        node.config.boot = Boot(node.config.boot.0 + 100);
        let past = Past::Intact {
            next,
            base: node.base.clone(),
            records: node.disk.iter().map(|(_, record)| record.clone()).collect(),
        };
        self.boot(me, past);
    }

    /// The process comes back without what it promised.
    pub(super) fn restart_lost(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.disk.clear();
        node.flushed = Lsn(0);
        node.config.boot = Boot(node.config.boot.0 + 100);
        let past = Past::Lost {
            next: Slot(node.log.len() as u64),
            base: node.base.clone(),
        };
        self.boot(me, past);
    }

    /// Ids in the log of a replica; `None` is a no-op.
    pub(super) fn names(&self, me: usize) -> Vec<Option<EntryId>> {
        let log = self.nodes[me].log.iter();
        log.map(|entry| entry.as_ref().map(|entry| entry.id))
            .collect()
    }

    /// How often a request is in the log of a replica.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        let entries = self.nodes[me].log.iter().flatten();
        let commands = entries.flat_map(|entry| entry.commands().flatten());
        commands.filter(|command| command.id == request).count()
    }

    pub(super) fn leads(&self, me: usize) -> bool {
        let machine = self.nodes[me].machine.as_ref();
        machine.is_some_and(Replica::is_leader)
    }

    pub(super) fn votes(&self, me: usize) -> bool {
        let machine = self.nodes[me].machine.as_ref();
        machine.is_some_and(Machine::is_serving)
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        let mut replies = self.nodes[me].replies.iter();
        replies
            .find(|(id, _)| *id == request)
            .map(|(_, outcome)| outcome.clone())
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.sent.get(name).copied().unwrap_or(0)
    }
}
