//! What an epoch has decided and this replica has not applied.

use quorate_core::Slot;
use std::collections::BTreeMap;

/// Decided slots of the current epoch, in whatever order they become known; they are taken out in
/// the order of slots.
///
/// A slot behind a seal exists twice: void in the sealed epoch and real in the next. So nothing is
/// kept here but with its epoch, and a seal empties the window.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Window<T> {
    epoch: u64,
    /// The first slot not applied.
    next: Slot,
    ahead: BTreeMap<Slot, T>,
}

impl<T> Window<T> {
    /// The window of an epoch, of which every slot before `next` was applied.
    #[must_use]
    pub fn new(epoch: u64, next: Slot) -> Window<T> {
        Window {
            epoch,
            next,
            ahead: BTreeMap::new(),
        }
    }

    /// The current epoch's number.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The first slot not applied.
    #[must_use]
    pub fn next(&self) -> Slot {
        self.next
    }

    /// What was decided and waits for earlier slots, ascending.
    pub fn ahead(&self) -> impl Iterator<Item = (Slot, &T)> {
        self.ahead.iter().map(|(slot, value)| (*slot, value))
    }

    /// An epoch decided a slot; says whether that is news. Of another epoch than the current one it
    /// means nothing here: an earlier one is sealed, and a later one's seal was not applied yet.
    pub fn put(&mut self, epoch: u64, slot: Slot, value: T) -> bool {
        if epoch != self.epoch || slot < self.next || self.ahead.contains_key(&slot) {
            return false;
        }
        self.ahead.insert(slot, value);
        true
    }

    /// The next slot to apply, once it is known.
    pub fn take(&mut self) -> Option<(Slot, T)> {
        let slot = self.next;
        let value = self.ahead.remove(&slot)?;
        self.next = slot.next();
        Some((slot, value))
    }

    /// The slot taken last sealed the epoch, and this one follows. Returns what is void: it counts
    /// for nothing, and its payloads may be deleted.
    pub fn seal(&mut self, epoch: u64) -> BTreeMap<Slot, T> {
        self.epoch = epoch;
        std::mem::take(&mut self.ahead)
    }

    /// A state was installed that is in this epoch, and in which every slot before `next` is applied.
    pub fn install(&mut self, epoch: u64, next: Slot) {
        if epoch != self.epoch {
            self.ahead.clear();
        }
        self.epoch = epoch;
        self.ahead = self.ahead.split_off(&next);
        self.next = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_in_order_and_only_those_of_the_current_epoch() {
        let mut window = Window::new(3, Slot(10));
        assert!(window.put(3, Slot(11), 'b'));
        assert_eq!(window.take(), None);
        assert!(!window.put(2, Slot(10), 'x'));
        assert!(!window.put(4, Slot(10), 'y'));
        assert!(!window.put(3, Slot(9), 'z'));
        assert!(window.put(3, Slot(10), 'a'));
        assert!(!window.put(3, Slot(10), 'a'));
        assert_eq!(window.take(), Some((Slot(10), 'a')));
        assert_eq!(window.take(), Some((Slot(11), 'b')));
        assert_eq!((window.take(), window.next()), (None, Slot(12)));
    }

    #[test]
    fn a_seal_voids_what_was_decided_behind_it() {
        let mut window = Window::new(1, Slot(0));
        window.put(1, Slot(0), "seal");
        window.put(1, Slot(1), "void");
        assert_eq!(window.take(), Some((Slot(0), "seal")));
        assert_eq!(window.seal(2), [(Slot(1), "void")].into());
        assert!(!window.put(1, Slot(1), "void"));
        assert!(window.put(2, Slot(1), "real"));
        assert_eq!(window.take(), Some((Slot(1), "real")));
    }

    #[test]
    fn an_installed_state_keeps_only_what_lies_behind_it_in_its_own_epoch() {
        let mut window = Window::new(1, Slot(0));
        for slot in 1..5 {
            window.put(1, Slot(slot), slot);
        }
        window.install(1, Slot(3));
        assert_eq!(window.take(), Some((Slot(3), 3)));
        window.install(2, Slot(4));
        assert_eq!((window.take(), window.ahead().count()), (None, 0));
    }
}
