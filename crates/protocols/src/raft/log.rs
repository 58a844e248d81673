//! The log: what is not delivered yet, and the term of what was delivered last.
//!
//! Everything before the first slot of the log is decided and belongs to the host. What the term of the
//! last decided slot was is known as long as this replica delivered it from its own log; after a restart,
//! and where the host fetched it, it is not.

use super::messages::{LogEnd, LogEntry};
use quorate_core::{Entry, EntryId, Slot};
use std::collections::VecDeque;

/// The part of the replicated log that is not delivered.
///
/// Invariants: slots are contiguous, and terms do not descend. What is in it is a stretch of some
/// leader's log.
#[derive(Clone, Hash, Debug)]
pub(super) struct Log {
    /// The first slot not delivered.
    first: Slot,
    /// The term of the slot before the first, if it is known.
    term_before: Option<u64>,
    entries: VecDeque<LogEntry>,
}

impl Log {
    /// An empty log behind what is decided.
    pub(super) fn new(first: Slot, term_before: Option<u64>) -> Log {
        Log {
            first,
            term_before,
            entries: VecDeque::new(),
        }
    }

    /// The first slot not delivered.
    pub(super) fn first(&self) -> Slot {
        self.first
    }

    /// The first slot behind the log.
    pub(super) fn end(&self) -> Slot {
        Slot(self.first.0 + self.entries.len() as u64)
    }

    /// How many slots are not delivered.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything is delivered.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is in the log, by slot.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &LogEntry)> {
        (self.first.0..).map(Slot).zip(&self.entries)
    }

    /// What is in the log from a slot on.
    pub(super) fn iter_from(&self, slot: Slot) -> impl Iterator<Item = &LogEntry> {
        let skipped = slot.0.saturating_sub(self.first.0);
        self.entries.iter().skip(skipped as usize)
    }

    fn get(&self, slot: Slot) -> Option<&LogEntry> {
        let offset = slot.0.checked_sub(self.first.0)?;
        self.entries.get(offset as usize)
    }

    /// The term of a slot that is not delivered.
    pub(super) fn term_of(&self, slot: Slot) -> Option<u64> {
        self.get(slot).map(|entry| entry.term)
    }

    /// The term of the slot before this one, if it is known.
    pub(super) fn term_before(&self, slot: Slot) -> Option<u64> {
        if slot == self.first {
            return self.term_before;
        }
        self.term_of(Slot(slot.0.checked_sub(1)?))
    }

    /// Whether the term of the last decided slot is known.
    pub(super) fn knows_decided(&self) -> bool {
        self.term_before.is_some()
    }

    /// Where the log ends. A last term that is not known counts as the lowest: such a log never wins
    /// wrongly.
    pub(super) fn last(&self) -> LogEnd {
        let last = self.entries.back().map(|entry| entry.term);
        LogEnd {
            term: last.or(self.term_before).unwrap_or(0),
            end: self.end(),
        }
    }

    /// Whether this log is equal to another before a slot, given the other's term of the slot before it.
    /// What is decided is equal in the log of every leader that can go on.
    pub(super) fn matches(&self, slot: Slot, term_before: Option<u64>) -> bool {
        let known = self.term_before(slot);
        slot <= self.first || known.is_some() && known == term_before
    }

    /// Where another log may be equal that does not match before `slot`: the end of this one, or the first
    /// slot of the term that differs.
    pub(super) fn hint(&self, slot: Slot) -> Slot {
        if slot > self.end() {
            return self.end();
        }
        let wrong = self.term_before(slot);
        let of_term = self.iter().find(|(_, entry)| Some(entry.term) == wrong);
        of_term.map_or(self.first, |(first, _)| first)
    }

    /// Adds an entry at the end.
    pub(super) fn push(&mut self, entry: LogEntry) {
        self.entries.push_back(entry);
    }

    /// Drops what is in a slot and behind it.
    pub(super) fn truncate(&mut self, from: Slot) {
        let kept = from.0.saturating_sub(self.first.0);
        self.entries.truncate(kept as usize);
    }

    /// Takes the first entry: it is delivered.
    pub(super) fn deliver(&mut self) -> Option<LogEntry> {
        let entry = self.entries.pop_front()?;
        self.term_before = Some(entry.term);
        self.first = self.first.next();
        Some(entry)
    }

    /// Everything before `next` was decided elsewhere. What was in these slots here may have been something
    /// else; what is behind them was acknowledged, and stays until a leader replaces it.
    pub(super) fn install(&mut self, next: Slot) {
        let gone = next.0.saturating_sub(self.first.0);
        let gone = (self.entries.len() as u64).min(gone);
        self.entries.drain(..gone as usize);
        (self.first, self.term_before) = (next, None);
    }

    /// Whether an entry of this name is in the log, of a term for which something holds.
    pub(super) fn has(&self, id: EntryId, is_of: impl Fn(u64) -> bool) -> bool {
        let mut entries = self.entries.iter();
        entries.any(|entry| entry.name() == Some(id) && is_of(entry.term))
    }

    /// The first slot behind every order in the log, if there is one.
    pub(super) fn orders_end(&self) -> Option<Slot> {
        let is_order = |one: &LogEntry| one.entry.as_ref().is_some_and(Entry::is_order);
        let last = self.entries.iter().rposition(is_order)?;
        Some(Slot(self.first.0 + last as u64 + 1))
    }
}
