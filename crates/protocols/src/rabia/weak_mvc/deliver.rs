//! Decisions, and their delivery in slot order (Algorithm 1, lines 4 to 7).

use super::Replica;
use super::waits::end_waits;
use crate::shared::decided::DecidedSet;
use quorate_core::{EntryId, Event, Lsn, Out, Slot};

impl Replica {
    /// Takes note of an outcome, found here or told by a peer.
    pub(super) fn decide(&mut self, slot: Slot, value: Option<EntryId>, out: &mut Out<Self>) {
        let offset = self.offset(slot).expect("a decided slot is stored");
        let instance = &mut self.slots[offset];
        assert_eq!(instance.decided, None, "a slot is decided once");
        instance.decided = Some(value);
        if value.is_some() {
            self.mark = self.mark.max(slot.next());
        }
        let lane = 1 << self.config.lane(slot);
        match (value, instance.own().prop) {
            (Some(_), _) => self.narrow &= !lane,
            (None, Some(Some(_))) => self.narrow |= lane,
            (None, _) => {}
        }
        let forfeited = instance.own().prop.flatten().filter(|_| value.is_none());
        end_waits(instance, slot, out);
        if let Some(id) = forfeited {
            self.pause_after_forfeit(id, out);
        }
        if let Some(id) = value {
            let voices = self.slots[offset].voices.iter().enumerate();
            let holders = voices
                .filter(|(_, voice)| voice.prop == Some(value))
                .fold(0, |mask, (member, _)| mask | 1 << member);
            self.lack(id, holders, out);
        }
    }

    /// Own values up to `lsn` survive a crash: decisions may count them now.
    pub(super) fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.durable = self.durable.max(lsn);
        while let Some((written, slot, trail_len)) = self.unflushed.front().copied() {
            if written > lsn {
                break;
            }
            self.unflushed.pop_front();
            if let Some(instance) = self.instance_mut(slot) {
                instance.harden(trail_len);
                self.progress(slot, false, out);
            }
        }
    }

    /// Delivers every slot whose turn it is and whose payload is here. Says whether there was one.
    pub(super) fn deliver(&mut self, out: &mut Out<Self>) -> bool {
        let before = self.ap;
        while let Some(value) = self.slots.front().and_then(|slot| slot.decided) {
            let entry = match value {
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
            if let Some(id) = value {
                self.pool.remove(id);
                self.needs.remove(&id);
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
        self.needs.retain(|id, _| !done.entries.contains(*id));
        self.settle_offers(out);
    }

    /// Moves `ap`, and with it the window.
    fn pass(&mut self, next: Slot) {
        while self.ap < next {
            self.ap = self.ap.next();
            if let Some(mut instance) = self.slots.pop_front()
                && self.spare.len() < self.config.recv_window
            {
                instance.clear(self.config.mode);
                self.spare.push(instance);
            }
            if self.slots.is_empty() {
                self.ap = next;
            }
        }
        self.backoff = 0;
    }
}
