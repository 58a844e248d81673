//! The part of a replica's log that is not delivered.

use super::messages::Value;
use quorate_core::{EntryId, Slot};
use std::collections::{BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

/// What a replica has in the slots from the first one not delivered on, without gaps.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// The first slot not delivered.
    pub(super) next: Slot,
    values: VecDeque<Value>,
    /// Where each entry is in `values`.
    places: BTreeSet<(EntryId, Slot)>,
    /// The slot of stamp number 0 in the session of the last view taken part in.
    pub(super) stamps_from: Slot,
}

impl Log {
    /// An empty log from a slot on, which is that of the first stamp.
    pub(super) fn at(next: Slot, stamps_from: Slot) -> Log {
        Log {
            next,
            values: VecDeque::new(),
            places: BTreeSet::new(),
            stamps_from,
        }
    }

    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.next.0 + self.values.len() as u64)
    }

    /// How many slots are not delivered.
    pub(super) fn len(&self) -> u64 {
        self.values.len() as u64
    }

    /// The stamp number of a slot, from the session's first on.
    pub(super) fn number(&self, slot: Slot) -> u64 {
        slot.0.saturating_sub(self.stamps_from.0)
    }

    /// The slot of a stamp number.
    pub(super) fn slot(&self, number: u64) -> Slot {
        Slot(self.stamps_from.0.saturating_add(number))
    }

    /// What a slot holds, if it is in the log.
    pub(super) fn get(&self, slot: Slot) -> Option<&Value> {
        let at = slot.0.checked_sub(self.next.0)?;
        self.values.get(at as usize)
    }

    /// The slots and what they hold.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Value)> {
        (self.next.0..).map(Slot).zip(&self.values)
    }

    /// All values in order.
    pub(super) fn to_vec(&self) -> Vec<Value> {
        self.values.iter().cloned().collect()
    }

    /// The first slot that holds an entry of this name.
    pub(super) fn slot_of(&self, id: EntryId) -> Option<Slot> {
        let (found, slot) = self.places.range((id, Slot(0))..).next()?;
        (*found == id).then_some(*slot)
    }

    /// Fills the slot behind the log.
    pub(super) fn push(&mut self, value: Value) {
        if let Some(entry) = &value {
            self.places.insert((entry.id, self.end()));
        }
        self.values.push_back(value);
    }

    /// A slot of the log holds a no-op, whatever it held. Says whether that is news.
    pub(super) fn void(&mut self, slot: Slot) -> bool {
        let at = slot.0.checked_sub(self.next.0);
        let value = at.and_then(|at| self.values.get_mut(at as usize));
        let Some(entry) = value.and_then(Option::take) else {
            return false;
        };
        self.places.remove(&(entry.id, slot));
        true
    }

    /// Takes out the first slot.
    pub(super) fn pop(&mut self) -> Option<Value> {
        let value = self.values.pop_front()?;
        if let Some(entry) = &value {
            self.places.remove(&(entry.id, self.next));
        }
        self.next = self.next.next();
        Some(value)
    }

    /// Everything before a slot is decided elsewhere.
    pub(super) fn skip_to(&mut self, next: Slot) {
        while self.next < next && self.pop().is_some() {}
        self.next = self.next.max(next);
    }

    pub(super) fn check(&self) {
        let entries = self.iter().filter(|(_, value)| value.is_some());
        assert_eq!(
            entries.count(),
            self.places.len(),
            "all entries have places"
        );
        for (id, slot) in &self.places {
            let held = self.get(*slot).and_then(Option::as_ref);
            assert_eq!(held.map(|entry| entry.id), Some(*id), "{slot:?} holds it");
        }
    }
}

impl Hash for Log {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.next, self.stamps_from, self.values.len()).hash(to);
        self.places.hash(to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_core::{Boot, EntryBuilder, ReplicaId};

    fn entry(seq: u64) -> Value {
        let id = EntryId {
            origin: ReplicaId(1),
            boot: Boot(1),
            seq,
        };
        Some(EntryBuilder::default().finish(id, 0))
    }

    #[test]
    fn an_entry_that_is_there_twice_is_found_as_long_as_one_of_its_slots_holds_it() {
        let mut log = Log::at(Slot(5), Slot(3));
        let id = entry(1).unwrap().id;
        [entry(1), entry(2), entry(1)]
            .into_iter()
            .for_each(|value| log.push(value));
        assert_eq!((log.end(), log.number(log.end())), (Slot(8), 5));
        assert_eq!((log.slot(5), log.slot_of(id)), (Slot(8), Some(Slot(5))));
        assert!(log.void(Slot(5)) && !log.void(Slot(5)) && !log.void(Slot(4)));
        assert_eq!(log.slot_of(id), Some(Slot(7)));
        log.check();
        log.skip_to(Slot(7));
        assert_eq!((log.next, log.len()), (Slot(7), 1));
        assert!(log.pop().is_some() && log.pop().is_none());
        log.skip_to(Slot(20));
        assert_eq!((log.end(), log.slot_of(id)), (Slot(20), None));
        log.check();
    }
}
