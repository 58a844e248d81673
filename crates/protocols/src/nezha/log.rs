//! The log of a replica, and the entries beside it that its leader has not placed.

use super::Replica;
use super::digest::{Sums, Tup, hash};
use super::messages::{Body, Placed, Record};
use super::mutants::Fault;
use quorate_core::{Base, EntryId, Lsn, Out, Slot};
use std::hash::{Hash, Hasher};

/// An entry at its deadline.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) tup: Tup,
    pub(super) body: Body,
    /// What it adds to the sums.
    pub(super) hash: u128,
}

/// An unsynced entry, and what was said of it.
#[derive(Clone, Debug)]
pub(super) struct Unsynced {
    pub(super) item: Item,
    /// Unknown after a restart.
    pub(super) digest: Option<u128>,
}

impl Item {
    pub(super) fn placed(&self) -> Placed {
        Placed {
            id: self.tup.id,
            deadline: self.tup.deadline,
        }
    }
}

impl Hash for Item {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.tup, &self.body).hash(to);
    }
}

impl Hash for Unsynced {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.item, self.digest).hash(to);
    }
}

impl Replica {
    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.ap.0 + self.log.len() as u64)
    }

    /// Whether an entry is delivered, in the log, or unsynced.
    pub(super) fn knows(&self, id: EntryId) -> bool {
        self.slots.contains_key(&id) || self.un_of.contains_key(&id) || self.done.contains(id)
    }

    pub(super) fn item(&self, body: Body, deadline: u64) -> Item {
        let tup = Tup {
            deadline,
            id: body.entry.id,
        };
        let covered = match self.config.faults.is(Fault::DigestWithoutDeadlines) {
            false => tup,
            true => Tup { deadline: 0, ..tup },
        };
        Item {
            tup,
            hash: hash(&self.config.prf, covered),
            body,
        }
    }

    /// Adds to the end of the log.
    pub(super) fn push(&mut self, item: Item) {
        if let Some(sums) = &mut self.sums {
            sums.add(&item.body.footprint, item.hash);
        }
        self.bounds.raise(&item.body.footprint, item.tup);
        self.slots.insert(item.tup.id, self.end());
        self.log.push_back(item);
    }

    /// Takes an entry out of what is unsynced.
    pub(super) fn take_unsynced(&mut self, id: EntryId) -> Option<Body> {
        let deadline = self.un_of.remove(&id)?;
        let Unsynced { item, .. } = self.un.remove(&Tup { deadline, id })?;
        if let Some(sums) = &mut self.sums {
            sums.remove(&item.body.footprint, item.hash);
        }
        Some(item.body)
    }

    /// The digest of a reply about what touches this, as things are now.
    pub(super) fn digest(&self, sums: &Sums, body: &Body) -> u128 {
        let zero;
        let cv = match self.config.faults.is(Fault::DigestWithoutLives) {
            false => &self.cv,
            true => {
                zero = vec![0; self.cv.len()];
                &zero
            }
        };
        let combined;
        let sums = match self.config.faults.is(Fault::DigestOfXor) {
            false => sums,
            true => {
                combined = sums.combined(&body.footprint);
                &combined
            }
        };
        sums.digest(&self.config.prf, self.view, cv, &body.footprint)
    }

    /// Writes an entry and its place down.
    pub(super) fn write_item(&mut self, slot: Slot, item: &Item, out: &mut Out<Self>) -> Lsn {
        let view = self.view;
        if self.written.insert(item.tup.id) {
            return out.persist(Record::Append {
                view,
                slot,
                deadline: item.tup.deadline,
                body: item.body.clone(),
            });
        }
        let placed = item.placed();
        out.persist(Record::Sync { view, slot, placed })
    }
}
