//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::lanes::Lanes;
use super::messages::Record;
use super::needs::Needs;
use super::pool::Pool;
use super::queue::{Names, Queue};
use super::reads::Reads;
use super::repair::{Behind, Retransmission};
use super::reserve::Reserve;
use super::waits::Presence;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::start::start_from;
use crate::shared::under_way::Line;
use quorate_core::{Lsn, Machine, MemberSet, Now, Out, Past, Peers, Slot};
use std::collections::VecDeque;
use std::sync::Arc;

impl Replica {
    /// Takes up where the past left off.
    ///
    /// Nothing was ever sent beyond the last durable record, so that continuing from it is the
    /// same as having been slow. Peers' values are gone; they are asked for again. A replica that
    /// lost its promises begins with a recovery (`rejoin.rs`).
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let is_begun = matches!(past, Past::Intact { .. });
        let (next, base, records) = start_from(past, config.first_slot);
        let mut replica = Replica::empty(config, next, base, out);
        if is_begun && config.holders_propose {
            let reach = <Replica as Machine>::reach(config).unwrap_or(u64::MAX);
            replica.reserve.doubtful = Slot(next.0.saturating_add(reach));
        }
        match records {
            Some(records) => records
                .into_iter()
                .for_each(|record| replica.restore(now, record)),
            None => replica.begin_rejoin(out),
        }
        replica.resume(out);
        replica.say_rejoin(Peers::All, out);
        replica.run_to_fixpoint(now, out);
        replica
    }

    fn empty(config: &Config, ap: Slot, done: DecidedSet, out: &Out<Self>) -> Replica {
        Replica {
            config: Arc::new(config.clone()),
            rejoin: None,
            is_rejoin_delayed: false,
            floor: Slot(0),
            ap,
            done,
            slots: VecDeque::new(),
            free_instances: Vec::new(),
            pool: Pool::new(config.members.len()),
            needs: Needs::default(),
            queue: Queue::default(),
            reads: Reads::default(),
            mark: ap,
            nudged: Slot(0),
            offers: Vec::new(),
            lanes: Lanes::default(),
            voided: Vec::new(),
            reserve: Reserve::default(),
            names: Names::new(EntryNames::new(config.my_id(), config.boot)),
            presence: Presence::of(config.others()),
            written: Lsn(0),
            disk: Disk::at_start(out.persisted()),
            behind: Behind::default(),
            acknowledge: None,
            line: Line::default(),
            now_ns: 0,
            retransmission: Retransmission::default(),
        }
    }

    fn restore(&mut self, now: Now, record: Record) {
        match record {
            Record::Batch { entry } => {
                let origin = self.config.member(entry.id.origin);
                let is_open = !self.done.entries.contains(entry.id) && !self.pool.holds(entry.id);
                if let Some(origin) = origin.filter(|_| is_open) {
                    self.see_stamp(now, entry.stamp_ns);
                    let rank_ns = self.rank_ns(now, entry.stamp_ns);
                    self.pool.insert(entry, rank_ns, origin, true);
                }
            }
            Record::Floor { slot } => self.restore_floor(slot),
            Record::Reserve { until } => {
                self.reserve.restore(until);
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
            let prop = self.slots[offset].own().prop;
            if !prop.is_heard() {
                continue;
            }
            if let Some(id) = prop.request() {
                self.lack(id, MemberSet::EMPTY, out);
            }
            self.say(slot, Peers::All, true, out);
            self.progress(slot, false, out);
        }
    }
}
