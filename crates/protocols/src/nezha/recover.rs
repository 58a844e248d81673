//! Starting: new, with everything promised before, or without.

use super::Replica;
use super::config::Config;
use super::log::Unsynced;
use super::messages::{Body, Placed, Record};
use super::mutants::Fault;
use super::replica::Status;
use crate::shared::decided::DecidedSet;
use quorate_core::{Base, EntryId, Now, Out, Past, Slot};
use std::collections::BTreeMap;

/// What the records say.
#[derive(Default)]
struct Written {
    view: u64,
    lnv: u64,
    /// The log with which that view began.
    start: Vec<(Slot, Placed)>,
    synced: Vec<(u64, Slot, Placed)>,
    unsynced: Vec<(u64, Placed)>,
    bodies: BTreeMap<EntryId, Body>,
    life: Option<(Vec<u64>, bool)>,
}

impl Replica {
    pub(super) fn start(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        let mut replica = match past {
            Past::Fresh => {
                Replica::empty(config, config.first_slot, DecidedSet::default(), now, out)
            }
            Past::Lost { next, base } => {
                let mut replica = Replica::empty(config, next, base, now, out);
                replica.begin_rejoin(out);
                replica
            }
            Past::Intact {
                next,
                base,
                records,
            } => {
                let mut replica = Replica::empty(config, next, base, now, out);
                replica.restore(records, out);
                replica
            }
        };
        replica.settle(out);
        replica
    }

    fn restore(&mut self, records: Vec<Record>, out: &mut Out<Self>) {
        let mut written = Written::default();
        records.into_iter().for_each(|record| written.take(record));
        let n = self.config.n();
        if let Some((cv, is_recovering)) = written.life.take() {
            self.cv = cv;
            self.cv.resize(n, 0);
            if is_recovering {
                return self.begin_rejoin(out);
            }
        }
        self.lnv = written.lnv;
        self.view = written.view.max(written.lnv);
        self.restore_log(&written);
        self.restore_unsynced(&written);
        self.log.sums = None;
        let is_decided = |id: &EntryId| self.done.contains(*id);
        self.written = written
            .bodies
            .keys()
            .copied()
            .filter(|id| !is_decided(id))
            .collect();
        for (id, body) in written.bodies {
            if !self.knows(id) {
                self.adopt(body);
            }
        }
        let is_between = self.view > self.lnv;
        let has_led =
            self.leader() == self.config.me && !self.config.faults.is(Fault::LeadAfterRestart);
        if is_between || has_led {
            // A leader may have told of more than it wrote (S12).
            self.view -= u64::from(is_between);
            self.status = Status::ViewChange;
            self.start_change(self.view + 1, out);
        }
    }

    /// The synced log. If it does not reach to what is delivered, that was decided without it.
    fn restore_log(&mut self, written: &Written) {
        let of_view = written
            .synced
            .iter()
            .filter(|(view, ..)| *view == written.lnv);
        let synced = of_view.map(|(_, slot, placed)| (*slot, *placed));
        let log: BTreeMap<Slot, Placed> = written.start.iter().copied().chain(synced).collect();
        while let Some(placed) = log.get(&self.end()) {
            let Some(body) = written.bodies.get(&placed.id) else {
                break;
            };
            let item = self.item(body.clone(), placed.deadline);
            self.push(item);
        }
        let is_fresh = self.ap == self.config.first_slot;
        self.is_unvouched = self.log.items.is_empty() && !is_fresh;
    }

    fn restore_unsynced(&mut self, written: &Written) {
        for (view, placed) in &written.unsynced {
            let Some(body) = written.bodies.get(&placed.id) else {
                continue;
            };
            if *view != written.lnv || self.log.slots.contains_key(&placed.id) {
                continue;
            }
            if self.done.contains(placed.id) {
                continue;
            }
            // A later promise of the same entry is the one that stands.
            self.take_unsynced(placed.id);
            let item = self.item(body.clone(), placed.deadline);
            let digest = None;
            self.unsynced.insert(Unsynced { item, digest });
        }
    }
}

impl Written {
    fn take(&mut self, record: Record) {
        match record {
            Record::Append {
                view,
                slot,
                deadline,
                body,
            } => {
                let id = body.entry.id;
                self.bodies.insert(id, body);
                self.synced.push((view, slot, Placed { id, deadline }));
            }
            Record::Sync { view, slot, placed } => self.synced.push((view, slot, placed)),
            Record::Unsynced {
                view,
                deadline,
                body,
            } => {
                let id = body.entry.id;
                self.bodies.insert(id, body);
                self.unsynced.push((view, Placed { id, deadline }));
            }
            Record::View { view } => self.view = self.view.max(view),
            Record::Start { view, first, log } => {
                self.lnv = view;
                let log = log.into_iter().zip(first.0..);
                self.start = log.map(|(placed, slot)| (Slot(slot), placed)).collect();
            }
            Record::Life { cv, is_recovering } => self.life = Some((cv, is_recovering)),
        }
    }
}
