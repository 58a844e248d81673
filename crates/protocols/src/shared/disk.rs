//! How far the own records are durable, and what waits for that.

use quorate_core::Lsn;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// What counts once a record is durable, with that record.
///
/// Invariant: the records do not descend, for a replica writes them in the order in which it says things.
#[derive(Clone, Debug)]
pub(crate) struct UntilDurable<T>(VecDeque<(Lsn, T)>);

impl<T> UntilDurable<T> {
    /// Something counts once a record is durable, which is no earlier than any before.
    pub(crate) fn push(&mut self, lsn: Lsn, what: T) {
        self.0.push_back((lsn, what));
    }

    /// Takes out the next thing that counts when records up to `durable` are durable.
    pub(crate) fn pop(&mut self, durable: Lsn) -> Option<T> {
        let next = self.0.pop_front_if(|(lsn, _)| *lsn <= durable);
        next.map(|(_, what)| what)
    }

    /// What waits, each with how many records have to become durable before it counts.
    pub(crate) fn distances(&self, durable: Lsn) -> impl Iterator<Item = (u64, &T)> {
        let waiting = self.0.iter();
        waiting.map(move |(lsn, what)| (lsn.0.saturating_sub(durable.0), what))
    }
}

impl<T> Default for UntilDurable<T> {
    fn default() -> Self {
        UntilDurable(VecDeque::new())
    }
}

/// How far the own records are durable, and what counts once more of them are.
///
/// Invariant: `durable` never falls.
#[derive(Clone, Debug)]
pub(crate) struct Disk<T> {
    /// Records up to this one are durable.
    durable: Lsn,
    /// What counts once a record is durable.
    waiting: UntilDurable<T>,
}

impl<T> Disk<T> {
    /// At a start everything is durable up to the last record.
    pub(crate) fn at_start(durable: Lsn) -> Self {
        Disk {
            durable,
            waiting: UntilDurable::default(),
        }
    }

    /// The last durable record.
    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    /// Whether a record is durable.
    pub(crate) fn is_durable(&self, lsn: Lsn) -> bool {
        lsn <= self.durable
    }

    /// Records up to this one are durable.
    pub(crate) fn confirm(&mut self, lsn: Lsn) {
        self.durable = self.durable.max(lsn);
    }

    /// Something counts once a record is durable, which is no earlier than any before.
    pub(crate) fn push(&mut self, lsn: Lsn, what: T) {
        self.waiting.push(lsn, what);
    }

    /// Takes out the next thing that counts by now.
    pub(crate) fn pop_durable(&mut self) -> Option<T> {
        self.waiting.pop(self.durable)
    }

    /// Whether something counts by now that was not taken out.
    #[cfg(feature = "yardsticks")]
    pub(crate) fn is_due(&self) -> bool {
        let next = self.waiting.0.front();
        next.is_some_and(|(lsn, _)| self.is_durable(*lsn))
    }

    /// Nothing that waits counts any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.0.clear();
    }

    /// What waits and is not `wanted` does not count any more.
    pub(crate) fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        self.waiting.0.retain(|(_, what)| wanted(what));
    }

    pub(crate) fn check(&self) {
        let mut waiting = self.waiting.0.iter();
        assert!(
            waiting.all(|(lsn, _)| !self.is_durable(*lsn)),
            "what is durable is not awaited"
        );
    }
}

impl<T: Hash> Hash for Disk<T> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let distances = self.waiting.distances(self.durable);
        distances.for_each(|waiting| waiting.hash(to));
    }
}
