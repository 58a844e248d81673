//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::messages::{Bits, Record};
use super::pool::Pool;
use super::queue::Queue;
use super::reads::Reads;
use crate::shared::decided::DecidedSet;
use crate::shared::under_way::Line;
use quorate_core::{Lsn, Machine, Now, Out, Past, Peers, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    ///
    /// Nothing was ever sent beyond the last durable record, so that continuing from it is the
    /// same as having been slow. Peers' values are gone; they are asked for again. A replica that
    /// lost its promises begins with a recovery (`rejoin.rs`).
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let mut replica = match past {
            Past::Fresh => Replica::empty(config, config.first_slot, DecidedSet::default(), out),
            Past::Lost { next, base } => {
                let mut replica = Replica::empty(config, next, base, out);
                replica.begin_rejoin(out);
                replica
            }
            Past::Intact {
                next,
                base,
                records,
            } => {
                let mut replica = Replica::empty(config, next, base, out);
                if config.holders_propose {
                    let reach = <Replica as Machine>::reach(config).unwrap_or(u64::MAX);
                    replica.doubtful = Slot(next.0.saturating_add(reach));
                }
                records
                    .into_iter()
                    .for_each(|record| replica.restore(now, record));
                replica
            }
        };
        replica.resume(out);
        replica.say_rejoin(Peers::All, out);
        replica.settle(now, out);
        replica
    }

    fn empty(config: &Config, ap: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        let everybody = u64::MAX >> (64 - config.members.len());
        Replica {
            config: Arc::new(config.clone()),
            rejoin: None,
            is_rejoin_delayed: false,
            floor: Slot(0),
            ap,
            done,
            slots: VecDeque::new(),
            spare: Vec::new(),
            pool: Pool::new(config.members.len()),
            needs: BTreeMap::new(),
            queue: Queue::default(),
            reads: Reads::default(),
            mark: ap,
            nudged: Slot(0),
            offers: Vec::new(),
            narrow: 0,
            more: 0,
            voided: Vec::new(),
            reserve: (Slot(0), Lsn(0)),
            forced: Slot(0),
            doubtful: Slot(0),
            unsaid: Bits::default(),
            written: Lsn(0),
            seq: 0,
            hlc: 0,
            up: everybody & !(1 << config.me),
            late: 0,
            probe: None,
            unflushed: VecDeque::new(),
            durable: Lsn(out.persisted().0),
            ahead: None,
            acknowledge: None,
            retransmit_armed: false,
            need_armed: false,
            catch_up_armed: false,
            line: Line::default(),
            pace: Default::default(),
            now_ns: 0,
            backoff: 0,
        }
    }

    fn restore(&mut self, now: Now, record: Record) {
        match record {
            Record::Batch { entry } => {
                let origin = self.member(entry.id.origin);
                let is_open = !self.done.entries.contains(entry.id) && !self.pool.holds(entry.id);
                if let Some(origin) = origin.filter(|_| is_open) {
                    self.see_stamp(now, entry.stamp_ns);
                    let rank_ns = self.rank_ns(now, entry.stamp_ns);
                    self.pool.insert(entry, rank_ns, origin, true);
                }
            }
            Record::Floor { slot } => self.restore_floor(slot),
            Record::Reserve { until } => {
                self.reserve = (self.reserve.0.max(until), Lsn(0));
                self.forced = self.reserve.0;
            }
            Record::Own {
                slot,
                prop,
                trail,
                q,
            } => {
                if let Some(offset) = slot.0.checked_sub(self.ap.0) {
                    self.instance_grown(offset as usize).restore(prop, trail, q);
                    if prop.is_some() {
                        self.mark = self.mark.max(slot.next());
                    }
                }
            }
        }
    }

    /// Speaks up in every slot that was under way.
    fn resume(&mut self, out: &mut Out<Self>) {
        for offset in 0..self.slots.len() {
            let slot = Slot(self.ap.0 + offset as u64);
            let Some(prop) = self.slots[offset].own().prop else {
                continue;
            };
            if let Some(id) = prop {
                self.lack(id, 0, out);
            }
            self.say(slot, Peers::All, true, out);
            self.progress(slot, false, out);
        }
    }
}
