//! Disks, crashes, and what comes back after them.

use super::{Actor, BaseOf, Record, Stage};
use quorate_core::{Base, Boot, Input, Lsn, Machine, Out, Past, Record as _, Slot};
use quorate_protocols::{Protocol, SabotagedConfig};

impl<P: Protocol> Stage<P> {
    pub(super) fn start(&mut self, me: usize, past: Past<Actor<P>>) {
        let now = self.now(me);
        let sabotage = self.sabotage;
        let node = &mut self.nodes[me];
        node.seat.boot = Boot((node.starts << 8) | (me as u64 + 1));
        node.starts += 1;
        let inner = P::config(&node.seat).expect("the parameters were checked");
        let config = SabotagedConfig { inner, sabotage };
        node.out = Out::default();
        node.machine = Some(Actor::<P>::recover(&config, past, now, &mut node.out));
        self.perform(me);
    }

    /// Everything persisted so far is durable now; what waited for it leaves.
    pub(crate) fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        let lsn = node.out.persisted();
        node.flushed = lsn;
        node.is_lost = false;
        node.log_flushed = node.log.len();
        for (_, to, message) in std::mem::take(&mut node.gated) {
            self.send(me, to, message);
        }
        self.step(me, Input::Durable(lsn));
    }

    /// From now on flushes of a replica happen by themselves, or only on command.
    pub(crate) fn set_slow(&mut self, me: usize, is_slow: bool) {
        self.nodes[me].is_slow = is_slow;
        self.perform(me);
    }

    /// The process dies; what was not flushed is gone.
    pub(crate) fn crash(&mut self, me: usize) {
        self.waiting.retain(|_, taker| *taker != me);
        let node = &mut self.nodes[me];
        node.machine = None;
        let flushed = node.flushed;
        node.disk.retain(|(lsn, _)| *lsn <= flushed);
        node.gated.clear();
        node.gathers.clear();
        node.timers.clear();
        node.log.truncate(node.log_flushed);
        node.base = BaseOf::<P>::default();
        for (slot, entry) in (0..).map(Slot).zip(&node.log) {
            node.base.advance(slot, entry.as_ref());
        }
    }

    /// The process comes back with its disk.
    pub(crate) fn restart(&mut self, me: usize) {
        if self.nodes[me].is_lost {
            return self.restart_lost(me);
        }
        let node = &mut self.nodes[me];
        let next = Slot(node.log.len() as u64);
        let base = node.base.clone();
        let is_open = |record: &Record<P>| {
            let entry = record.entry();
            record.slot().is_none_or(|slot| slot >= next)
                && entry.is_none_or(|entry| !node.log.iter().flatten().any(|e| e.id == entry.id))
        };
        node.disk.retain(|(_, record)| is_open(record));
        node.disk.iter_mut().for_each(|(lsn, _)| *lsn = Lsn(0));
        node.flushed = Lsn(0);
        let records = node.disk.iter().map(|(_, record)| record.clone()).collect();
        let past = Past::Intact {
            next,
            base,
            records,
        };
        self.start(me, past);
    }

    /// The process comes back with nothing.
    pub(crate) fn restart_lost(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        node.is_lost = true;
        node.disk.clear();
        node.log.clear();
        node.log_flushed = 0;
        node.base = BaseOf::<P>::default();
        node.flushed = Lsn(0);
        let (next, base) = (Slot(0), BaseOf::<P>::default());
        self.start(me, Past::Lost { next, base });
    }
}
