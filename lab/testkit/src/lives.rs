//! Crashes, and what replicas come back with.

use crate::cluster::{Cluster, Watch};
use quorate_core::{Base, Lsn, Past, Plain, Record, Slot};

impl<M: Plain, W: Watch<M>> Cluster<M, W> {
    /// The process dies; what was not flushed is gone.
    pub fn crash(&mut self, me: usize) {
        self.tear(me, 0);
    }

    /// The process dies; so many of the records that were not flushed came to the disk.
    pub fn tear(&mut self, me: usize, unflushed: usize) {
        let node = &mut self.nodes[me];
        let kept = node.disk.len() - node.unflushed() + unflushed;
        node.disk.truncate(kept);
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.flushed = Lsn(0);
        node.is_blank &= node.disk.is_empty();
        node.machine = None;
        node.gated.clear();
        node.gathers.clear();
        node.timers.clear();
        if W::LOGS_TEAR {
            node.log.truncate(node.log_flushed);
            node.base = M::Base::default();
            for (slot, entry) in (0..).map(Slot).zip(&node.log) {
                node.base.advance(slot, entry.as_ref());
            }
        }
    }

    /// The process comes back with its disk; without its promises, if it had lost them and written
    /// nothing since.
    pub fn restart(&mut self, me: usize) {
        if self.nodes[me].is_blank {
            return self.lose_promises(me);
        }
        let node = &mut self.nodes[me];
        let (next, base) = (node.next(), node.base.clone());
        // As hosts do: records count until what they are about is decided.
        node.disk
            .retain(|(_, record)| match (record.slot(), record.entry()) {
                (Some(slot), _) => slot >= next,
                (None, Some(entry)) => !base.contains(entry.id),
                (None, None) => true,
            });
        let records = node.disk.iter().map(|(_, record)| record.clone());
        let past = Past::Intact {
            next,
            base,
            records: records.collect(),
        };
        self.start(me, past);
    }

    /// The process comes back with its decided log, and without its promises.
    pub fn lose_promises(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.disk.clear();
        (node.is_lost, node.is_blank) = (true, true);
        let (next, base) = (node.next(), node.base.clone());
        self.start(me, Past::Lost { next, base });
    }

    /// The process comes back with nothing.
    pub fn lose_disk(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.log.clear();
        node.log_flushed = 0;
        node.base = M::Base::default();
        self.lose_promises(me);
    }
}
