//! How far the own records are durable, and what waits for that.

use quorate_core::Lsn;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

/// How far the own records are durable, and what counts once more of them are.
#[derive(Clone, Debug)]
pub(crate) struct Disk<T> {
    /// Records up to this one are durable.
    durable: Lsn,
    /// What counts once a record is durable, with that record, in the order of the records.
    waiting: VecDeque<(Lsn, T)>,
}

impl<T> Disk<T> {
    /// At a start everything is durable up to the last record.
    pub(crate) fn at_start(durable: Lsn) -> Self {
        Disk {
            durable,
            waiting: VecDeque::new(),
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
        self.waiting.push_back((lsn, what));
    }

    /// Takes out the next thing that counts by now.
    pub(crate) fn pop_durable(&mut self) -> Option<T> {
        let durable = self.durable;
        let next = self.waiting.pop_front_if(|(lsn, _)| *lsn <= durable);
        next.map(|(_, what)| what)
    }

    /// Nothing that waits counts any more.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    pub(crate) fn check(&self) {
        assert!(
            self.waiting.iter().all(|(lsn, _)| !self.is_durable(*lsn)),
            "what is durable is not awaited"
        );
    }
}

impl<T: Hash> Hash for Disk<T> {
    fn hash<H: Hasher>(&self, to: &mut H) {
        for (lsn, what) in &self.waiting {
            (lsn.0 - self.durable.0, what).hash(to);
        }
    }
}
