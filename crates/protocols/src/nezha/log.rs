//! The log of a replica, and the entries beside it that its leader has not placed.

use super::Replica;
use super::digest::{Bounds, Sums, Tup, hash};
use super::messages::{Body, Placed, Record};
use super::mutants::Fault;
use quorate_core::{Base, EntryId, Lsn, Out, Slot};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

/// An entry at its deadline.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) tup: Tup,
    pub(super) body: Body,
    /// What the entry adds to the sums.
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

/// The log of a replica from the first slot not delivered on: of a follower, its synced part.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub(super) items: VecDeque<Item>,
    /// The slots of the entries.
    pub(super) slots: BTreeMap<EntryId, Slot>,
    /// Sums of the entries of this view; unknown where some of them were installed by the host, or before a
    /// restart.
    pub(super) sums: Option<Sums>,
    /// `hi`: the largest deadlines in the log. What is unsynced counts, too (`receive.rs`).
    pub(super) bounds: Bounds,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            items: VecDeque::new(),
            slots: BTreeMap::new(),
            sums: Some(Sums::default()),
            bounds: Bounds::default(),
        }
    }
}

impl Hash for Log {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.items, &self.sums, &self.bounds).hash(to);
    }
}

impl Log {
    /// Adds an entry to the end of a log that begins at `ap`.
    fn push(&mut self, ap: Slot, item: Item) {
        if let Some(sums) = &mut self.sums {
            sums.add(&item.body.footprint, item.hash);
        }
        self.bounds.raise(&item.body.footprint, item.tup);
        let end = Slot(ap.0 + self.items.len() as u64);
        self.slots.insert(item.tup.id, end);
        self.items.push_back(item);
    }
}

/// `un`: entries that were said to be here, and that the leader has not placed.
#[derive(Clone, Debug, Default)]
pub(super) struct UnsyncedSet {
    items: BTreeMap<Tup, Unsynced>,
    /// The deadlines of the entries.
    deadlines: BTreeMap<EntryId, u64>,
}

impl Hash for UnsyncedSet {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.items.hash(to);
    }
}

impl UnsyncedSet {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn contains(&self, id: EntryId) -> bool {
        self.deadlines.contains_key(&id)
    }

    /// The deadline of an entry, if it is unsynced.
    pub(super) fn deadline_of(&self, id: EntryId) -> Option<u64> {
        self.deadlines.get(&id).copied()
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&Unsynced> {
        let deadline = self.deadline_of(id)?;
        self.items.get(&Tup { deadline, id })
    }

    pub(super) fn insert(&mut self, unsynced: Unsynced) {
        let tup = unsynced.item.tup;
        self.deadlines.insert(tup.id, tup.deadline);
        self.items.insert(tup, unsynced);
    }

    pub(super) fn take(&mut self, id: EntryId) -> Option<Item> {
        let deadline = self.deadlines.remove(&id)?;
        let unsynced = self.items.remove(&Tup { deadline, id })?;
        Some(unsynced.item)
    }

    pub(super) fn clear(&mut self) {
        self.items.clear();
        self.deadlines.clear();
    }

    /// The entries in deadline order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Unsynced> {
        self.items.values()
    }

    /// The entries before a deadline, in deadline order.
    pub(super) fn before(&self, tup: Tup) -> impl Iterator<Item = &Unsynced> {
        self.items.range(..tup).map(|(_, unsynced)| unsynced)
    }

    /// The names of the entries, ascending.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        self.deadlines.keys().copied()
    }

    pub(super) fn check(&self) {
        let (items, deadlines) = (self.items.len(), self.deadlines.len());
        assert_eq!(items, deadlines, "no entry twice unsynced");
    }
}

impl Replica {
    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.ap.0 + self.log.items.len() as u64)
    }

    /// Whether an entry is delivered, in the log, or unsynced.
    pub(super) fn knows(&self, id: EntryId) -> bool {
        self.log.slots.contains_key(&id) || self.unsynced.contains(id) || self.done.contains(id)
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
        self.log.push(self.ap, item);
    }

    /// Takes an entry out of what is unsynced.
    pub(super) fn take_unsynced(&mut self, id: EntryId) -> Option<Body> {
        let item = self.unsynced.take(id)?;
        if let Some(sums) = &mut self.log.sums {
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
