//! Performing what machines want done.

use crate::cluster::{Cluster, Disagreement, Watch};

use quorate_core::{Base, Entry, Input, Lsn, Output, Plain, Slot, carried};

impl<M: Plain, W: Watch<M>> Cluster<M, W> {
    /// Does what a machine wants done after a step; its disk flushes, unless it is stuck.
    pub fn perform(&mut self, me: usize) {
        let outputs: Vec<Output<M>> = self.nodes[me].out.drain().collect();
        for mut output in outputs {
            if W::on_output(self, me, &mut output) {
                self.perform_one(me, output);
            }
        }
        let node = &mut self.nodes[me];
        node.is_lost &= !node.is_serving();
        if node.machine.is_some() && node.flushed < node.out.persisted() {
            W::on_written(self, me);
        }
        W::on_performed(self, me);
    }

    fn perform_one(&mut self, me: usize, output: Output<M>) {
        let node = &mut self.nodes[me];
        match output {
            Output::Send { to, message, after } if after <= node.flushed => {
                self.send(me, to, &message);
            }
            Output::Send { to, message, after } => node.gated.push_back((after, to, message)),
            Output::Persist { lsn, record } => {
                if W::on_record(self, me, &record) {
                    let record = carried(&record, me as u8);
                    self.nodes[me].disk.push((lsn, record));
                }
            }
            Output::Note(_) => {}
            Output::Arm { timer, due } => {
                let due_ns = self.now_ns + self.watch.wait_ns(&due);
                node.timers.insert(timer, due_ns);
            }
            Output::Disarm(timer) => drop(node.timers.remove(&timer)),
            Output::Gather(entry) => W::on_gather(self, me, entry),
            Output::Forget(entry) => W::on_forget(self, me, entry),
            Output::CatchUp { from, .. } => self.catch_up(me, from),
            Output::Inform { peer, from } => self.inform(me, peer, from),
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::Execute { slot, entry } => W::on_execute(self, me, slot, entry),
            Output::Retract { from } => W::on_retract(self, me, from),
            Output::Tell { gateway, entry, .. } => W::on_tell(self, gateway, entry),
            Output::Reply { id, outcome } => W::on_reply(self, me, id, outcome),
            Output::Emit(event) => W::on_event(self, me, event),
        }
    }

    /// Everything that a replica has written is durable now; what waited for it leaves.
    pub fn flush(&mut self, me: usize) {
        let node = &mut self.nodes[me];
        if node.machine.is_some() {
            node.log_flushed = node.log.len();
            let written = node.out.persisted();
            self.flush_through(me, written);
        }
    }

    /// The records of a replica through `lsn` are durable now; what waited for them leaves.
    pub fn flush_through(&mut self, me: usize, lsn: Lsn) {
        let node = &mut self.nodes[me];
        if node.machine.is_none() || node.flushed >= lsn {
            return;
        }
        (node.flushed, node.flushes) = (lsn, node.flushes + 1);
        node.is_blank = false;
        let gated = std::mem::take(&mut node.gated);
        let (ready, waiting): (Vec<_>, Vec<_>) =
            gated.into_iter().partition(|(after, ..)| *after <= lsn);
        node.gated = waiting.into();
        for (_, to, message) in ready {
            self.send(me, to, &message);
        }
        self.step(me, Input::Durable(lsn));
    }

    /// A replica gets a decided slot: the next one of its log.
    pub(crate) fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let node = &mut self.nodes[me];
        assert_eq!(slot, node.next(), "deliveries have no gaps");
        let name = entry.as_ref().map(|entry| entry.id);
        let again = name.filter(|name| node.base.contains(*name));
        node.base.advance(slot, entry.as_ref());
        node.log.push(entry.clone());
        W::on_deliver(self, me, slot);
        let first = self.chosen.entry(slot).or_insert_with(|| entry.clone());
        if *first != entry {
            let (first, now) = (first.clone(), entry);
            W::on_disagreement(self, me, Disagreement::Slot { slot, first, now });
        } else if let Some(name) = again {
            W::on_disagreement(self, me, Disagreement::Twice(slot, name));
        }
    }
}
