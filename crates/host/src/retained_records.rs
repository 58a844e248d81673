//! What keeps a part of the log from being released, apart from decided entries: records that are
//! about undecided slots, undecided entries, and records that concern all slots.
//!
//! Slots are decided before long. The others could pin an old segment for ever, so their records
//! are kept in memory (an entry's bytes are shared with the machine) and appended again instead.

use crate::decided::Located;
use crate::position::Position;
use quorate_core::{Base, Entry, EntryId, Record, Slot};
use std::collections::BTreeMap;

/// The records of a machine that still matter, and where they are.
#[derive(Debug)]
pub(crate) struct RetainedRecords<R> {
    /// Per undecided slot, where the first record about it is.
    slots: BTreeMap<Slot, Position>,
    /// Records with an entry that is not decided.
    entries: BTreeMap<EntryId, (Located, R)>,
    /// The last record of each scalar.
    scalars: BTreeMap<u8, (Located, R)>,
    /// Records of no slot, no entry and no scalar.
    others: Vec<(Located, R)>,
}

impl<R: Record> RetainedRecords<R> {
    pub(crate) fn new() -> Self {
        RetainedRecords {
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

    /// The record of this entry counts for nothing.
    pub(crate) fn forget_entry(&mut self, id: EntryId) {
        self.entries.remove(&id);
    }

    /// The undecided entries that records carry.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = EntryId> {
        self.entries.keys().copied()
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

    /// Takes the records that lie before `end` and have to be appended again, in their order. What
    /// was proposed in a slot before `next` and not decided there is given up.
    pub(crate) fn take_before(&mut self, end: Position, next: Slot) -> Vec<R> {
        self.entries
            .retain(|_, (_, record)| record.slot().is_none_or(|slot| slot >= next));
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

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, Decoder, Encoder, EntryBuilder, ReplicaId, Wire, WireError};

    /// A record of each kind.
    #[derive(Clone, PartialEq, Debug)]
    enum Kind {
        Slot(Slot),
        Entry(Entry),
        Proposal(Slot, Entry),
        Scalar(u64),
        Other,
    }

    impl Wire for Kind {
        fn encode(&self, _: &mut Encoder) {}

        fn decode(_: &mut Decoder) -> Result<Self, WireError> {
            Ok(Kind::Other)
        }
    }

    impl quorate_core::Carry for Kind {}

    impl Record for Kind {
        fn slot(&self) -> Option<Slot> {
            match self {
                Kind::Slot(slot) | Kind::Proposal(slot, _) => Some(*slot),
                _ => None,
            }
        }

        fn scalar(&self) -> Option<u8> {
            matches!(self, Kind::Scalar(_)).then_some(0)
        }

        fn entry(&self) -> Option<&Entry> {
            match self {
                Kind::Entry(entry) | Kind::Proposal(_, entry) => Some(entry),
                _ => None,
            }
        }
    }

    fn entry(seq: u64) -> Entry {
        let id = EntryId {
            origin: ReplicaId(1),
            boot: Boot(1),
            seq,
        };
        EntryBuilder::default().finish(id, 0)
    }

    fn at(segment: u64) -> Located {
        let at = Position { segment, offset: 0 };
        Located { at, len: 1 }
    }

    #[test]
    fn what_all_slots_need_is_carried_on_and_what_is_decided_or_superseded_is_not() {
        let mut retained = RetainedRecords::new();
        let records = [
            Kind::Scalar(1),
            Kind::Entry(entry(1)),
            Kind::Other,
            Kind::Scalar(2),
            Kind::Entry(entry(2)),
            Kind::Slot(Slot(7)),
            Kind::Entry(entry(3)),
        ];
        for (record, segment) in records.into_iter().zip(1..) {
            retained.appended(record, at(segment), Slot(5));
        }
        retained.decided(Slot(5), Some(entry(1).id));
        let carried = retained.take_before(at(7).at, Slot(6));
        let expected = [Kind::Other, Kind::Scalar(2), Kind::Entry(entry(2))];
        assert_eq!(carried, expected);
        assert_eq!(retained.entry_place(entry(3).id), Some(at(7)));
        assert_eq!(retained.take_before(at(7).at, Slot(6)), []);
    }

    #[test]
    fn a_proposal_is_given_up_when_its_slot_went_to_another() {
        let mut retained = RetainedRecords::new();
        let (first, second) = (
            Kind::Proposal(Slot(5), entry(1)),
            Kind::Proposal(Slot(6), entry(2)),
        );
        retained.appended(first, at(1), Slot(5));
        retained.appended(second.clone(), at(2), Slot(5));
        retained.decided(Slot(5), Some(entry(3).id));
        assert_eq!(retained.take_before(at(3).at, Slot(6)), [second]);
        assert_eq!(retained.entry_place(entry(1).id), None);
    }

    #[test]
    fn undecided_slots_pin_the_log_until_they_are_decided() {
        let mut retained = RetainedRecords::new();
        for (slot, segment) in [(7, 1), (6, 2), (6, 3), (8, 4), (4, 5)] {
            retained.appended(Kind::Slot(Slot(slot)), at(segment), Slot(5));
        }
        assert_eq!(retained.first_slot_place(), Some(at(1).at));
        assert_eq!(retained.first_place_from(Slot(8)), Some(at(4).at));
        retained.decided(Slot(7), None);
        assert_eq!(retained.first_slot_place(), Some(at(4).at));
        retained.decided(Slot(8), None);
        assert_eq!(retained.first_slot_place(), None);
    }
}
