//! What keeps a part of the log from being released, apart from decided entries: records that are
//! about undecided slots, undecided entries, and records that concern all slots.
//!
//! Slots are decided before long. The others could pin an old segment for ever, so their records
//! are kept in memory (an entry's bytes are shared with the machine) and appended again instead.

use crate::decided::Located;
use crate::log::Position;
use quorate_core::{Base, Entry, EntryId, Record, Slot};
use std::collections::BTreeMap;

/// The records of a machine that still matter, and where they are.
#[derive(Debug)]
pub(crate) struct Pins<R> {
    /// Per undecided slot, where the first record about it is.
    slots: BTreeMap<Slot, Position>,
    /// Records with an entry that is not decided.
    entries: BTreeMap<EntryId, (Located, R)>,
    /// The last record of each scalar.
    scalars: BTreeMap<u8, (Located, R)>,
    /// Records of no slot, no entry and no scalar.
    others: Vec<(Located, R)>,
}

impl<R: Record> Pins<R> {
    pub(crate) fn new() -> Self {
        Pins {
            slots: BTreeMap::new(),
            entries: BTreeMap::new(),
            scalars: BTreeMap::new(),
            others: Vec::new(),
        }
    }

    /// A record was appended, for the first time or again; `next` is the first undecided slot.
    pub(crate) fn appended(&mut self, record: R, located: Located, next: Slot) {
        if let Some(slot) = record.slot().filter(|slot| *slot >= next) {
            self.slots.entry(slot).or_insert(located.at);
        }
        if let Some(scalar) = record.scalar() {
            self.scalars.insert(scalar, (located, record));
        } else if let Some(id) = record.entry().map(|entry| entry.id) {
            self.entries.insert(id, (located, record));
        } else if record.slot().is_none() {
            self.others.push((located, record));
        }
    }

    /// Where an undecided entry's bytes are in the log, if they are.
    pub(crate) fn entry_place(&self, id: EntryId) -> Option<Located> {
        self.entries.get(&id).map(|(located, _)| *located)
    }

    /// The undecided entry of this name, if a record carries it.
    pub(crate) fn entry(&self, id: EntryId) -> Option<&Entry> {
        self.entries.get(&id)?.1.entry()
    }

    /// A slot was decided, for this entry if any.
    pub(crate) fn decided(&mut self, slot: Slot, entry: Option<EntryId>) {
        if let Some(id) = entry {
            self.entries.remove(&id);
        }
        while self
            .slots
            .first_key_value()
            .is_some_and(|(first, _)| *first <= slot)
        {
            self.slots.pop_first();
        }
    }

    /// Every slot before `next` is decided, as `base` says: gives up what that settles, and returns
    /// the entries among it.
    pub(crate) fn installed(&mut self, next: Slot, base: &impl Base) -> Vec<R> {
        self.slots = self.slots.split_off(&next);
        let settled = self.entries.extract_if(.., |id, (_, record)| {
            base.contains(*id) || record.slot().is_some_and(|slot| slot < next)
        });
        settled.map(|(_, (_, record))| record).collect()
    }

    /// Where the first record about an undecided slot is.
    pub(crate) fn first_slot_place(&self) -> Option<Position> {
        self.slots.values().min().copied()
    }

    /// Where the first record about this slot or a later one is.
    pub(crate) fn first_place_from(&self, slot: Slot) -> Option<Position> {
        self.slots.range(slot..).map(|(_, place)| *place).min()
    }

    /// Takes the records that lie before `end` and have to be appended again, in their order.
    pub(crate) fn take_before(&mut self, end: Position) -> Vec<R> {
        let is_before = |located: &Located| located.at < end;
        let mut taken: Vec<(Located, R)> = Vec::new();
        let entries = self
            .entries
            .extract_if(.., |_, (located, _)| is_before(located));
        taken.extend(entries.map(|(_, pin)| pin));
        let scalars = self
            .scalars
            .extract_if(.., |_, (located, _)| is_before(located));
        taken.extend(scalars.map(|(_, pin)| pin));
        taken.extend(
            self.others
                .extract_if(.., |(located, _)| is_before(located)),
        );
        taken.sort_by_key(|(located, _)| located.at);
        taken.into_iter().map(|(_, record)| record).collect()
    }
}
