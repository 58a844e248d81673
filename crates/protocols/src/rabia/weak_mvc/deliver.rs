//! Decisions, and their delivery in slot order (Algorithm 1, lines 4 to 7).

use super::Replica;
use super::voice::SlotValue;
use super::waits::end_waits;
use crate::shared::decided::DecidedSet;
use quorate_core::{EntryId, Event, Lsn, Out, Slot};

/// Own values in one slot: the proposal, and this many values of the trail.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct OwnValues {
    pub(super) slot: Slot,
    pub(super) trail_len: usize,
}

impl Replica {
    /// Takes note of an outcome, found here or told by a peer.
    pub(super) fn decide(&mut self, slot: Slot, value: Option<EntryId>, out: &mut Out<Self>) {
        let offset = self.offset(slot).expect("a decided slot is stored");
        let instance = &mut self.slots[offset];
        assert!(!instance.is_decided(), "a slot is decided once");
        instance.decided = value.into();
        if value.is_some() {
            self.mark = self.mark.max(slot.next());
        }
        let proposed = instance.own().prop.request();
        if value.is_some() || proposed.is_some() {
            let lane = self.config.lane(slot);
            self.lanes.set_narrow(lane, value.is_none());
        }
        let forfeited = proposed.filter(|_| value.is_none());
        end_waits(instance, slot, out);
        if let Some(id) = forfeited {
            self.pause_after_forfeit(id, out);
        }
        if let Some(id) = value {
            let holders = self.slots[offset].supporters(SlotValue::Request(id));
            self.lack(id, holders, out);
        }
    }

    /// Own values up to `lsn` survive a crash: decisions may count them now.
    pub(super) fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.disk.confirm(lsn);
        while let Some(OwnValues { slot, trail_len }) = self.disk.pop_durable() {
            if let Some(instance) = self.instance_mut(slot) {
                instance.harden(trail_len);
                self.progress(slot, false, out);
            }
        }
    }

    /// Delivers every slot whose turn it is and whose payload is here. Says whether there was one.
    pub(super) fn deliver(&mut self, out: &mut Out<Self>) -> bool {
        let before = self.ap;
        while let Some(slot) = self.slots.front().filter(|slot| slot.is_decided()) {
            let request = slot.decided.request();
            let entry = match request {
                None => None,
                Some(id) if self.done.entries.contains(id) => {
                    out.emit(Event::Branch("double decision skipped"));
                    None
                }
                Some(id) => match self.pool.get(id) {
                    Some(entry) => Some(entry.clone()),
                    None => break,
                },
            };
            self.pass_over(entry.as_ref());
            if let Some(id) = request {
                self.pool.remove(id);
                self.needs.forget(id);
            }
            out.deliver(self.ap, entry);
            self.pass(self.ap.next());
            self.settle_offers(out);
        }
        self.ap != before
    }

    /// The host caught up from a peer.
    pub(super) fn on_installed(&mut self, next: Slot, base: DecidedSet, out: &mut Out<Self>) {
        if next <= self.ap {
            return;
        }
        let skipped = (self.ap.0..next.0).map(Slot).zip(&mut self.slots);
        skipped.for_each(|(slot, instance)| end_waits(instance, slot, out));
        self.done = base;
        self.mark = self.mark.max(next);
        self.pass(next);
        let done = &self.done;
        self.pool.remove_where(|id| done.entries.contains(id));
        self.needs.retain(|id| !done.entries.contains(id));
        self.settle_offers(out);
    }

    /// Moves `ap`, and with it the window.
    fn pass(&mut self, next: Slot) {
        while self.ap < next {
            self.ap = self.ap.next();
            if let Some(mut instance) = self.slots.pop_front()
                && self.free_instances.len() < self.config.recv_window
            {
                instance.clear(self.config.mode);
                self.free_instances.push(instance);
            }
            if self.slots.is_empty() {
                self.ap = next;
            }
        }
        self.retransmission.moved();
    }
}
