//! Proposals of NULL without a record of their own: the reserve that covers them, and how they are said.

use super::Replica;
use super::deliver::OwnValues;
use super::messages::{Bits, Message, Nulls, Record};
use quorate_core::{Lsn, Out, Peers, Slot};
use std::hash::{Hash, Hasher};

/// Where NULL may be proposed without a record, and where it has to be.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Reserve {
    /// Every slot in which NULL was proposed without a record is before this one.
    until: Slot,
    /// The record that says so.
    written: Lsn,
    /// Slots before this one and without a record may have been NULL in a former life, and are
    /// NULL again.
    pub(super) forced: Slot,
    /// NULL below this slot has a record of its own: another proposal may lie in the log that this start
    /// left out, and a later start would take it up when what it rests on is there again.
    pub(super) doubtful: Slot,
    /// Slots, from the first one not delivered, whose NULL is to be said at the end of the step.
    pub(super) unsaid: Bits,
}

impl Reserve {
    /// A former life may have proposed NULL in any slot before this one.
    pub(super) fn restore(&mut self, until: Slot) {
        self.until = self.until.max(until);
        self.written = Lsn(0);
        self.forced = self.until;
    }

    pub(super) fn fingerprint(&self, durable: Lsn, to: &mut impl Hasher) {
        (self.until, self.written <= durable).hash(to);
        (self.forced, self.doubtful).hash(to);
    }
}

impl Replica {
    /// Whether this replica has said NULL and nothing else, where the reserve alone records that.
    pub(super) fn is_bare_null(&self, offset: usize) -> bool {
        self.slots[offset].is_plain_null() && self.slot_at(offset) >= self.reserve.doubtful
    }

    /// The own NULL is proposed: the reserve records it, and it may decide at once.
    pub(super) fn propose_bare_null(&mut self, offset: usize, out: &mut Out<Self>) {
        let slot = self.slot_at(offset);
        self.cover(slot, out);
        self.reserve.unsaid.insert(offset);
        let is_durable = self.instance(slot).is_some_and(|it| it.prop_durable);
        if is_durable {
            self.progress(slot, false, out);
        }
    }

    /// Sees to it that a proposal of NULL survives a crash: it needs no record but the reserve's.
    fn cover(&mut self, slot: Slot, out: &mut Out<Self>) {
        if slot >= self.reserve.until {
            let until = Slot(self.ap.0 + 2 * self.config.window as u64);
            self.reserve.until = until;
            self.reserve.written = out.persist(Record::Reserve { until });
        }
        if self.disk.is_durable(self.reserve.written) {
            let instance = self.instance_mut(slot);
            instance.expect("it was proposed in").harden(0);
        } else {
            let trail_len = 0;
            let values = OwnValues { slot, trail_len };
            self.disk.push(out.persisted(), values);
        }
    }

    /// Says all NULLs of this step, in one message with what else is said.
    pub(super) fn say_nulls(&mut self, out: &mut Out<Self>) {
        let bits = std::mem::take(&mut self.reserve.unsaid);
        if !bits.is_empty() {
            self.say_these_nulls(bits, Peers::All, false, out);
        }
    }

    /// NULLs wait for the reserve, not for records that have nothing to do with them.
    pub(super) fn say_these_nulls(&self, bits: Bits, to: Peers, want: bool, out: &mut Out<Self>) {
        let message = Message::Nulls(Nulls {
            base: self.ap,
            bits,
            want,
            more: self.has_more(),
        });
        let is_covered = self.disk.is_durable(self.reserve.written);
        if is_covered && out.persisted() == self.written {
            out.send_early(to, message);
        } else {
            out.send(to, message);
        }
    }
}
