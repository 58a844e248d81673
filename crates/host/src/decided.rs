//! Where the decided log is: recent entries in memory, all of them in the log.

use crate::log::Position;
use quorate_core::{Entry, EntryId, Slot};
use std::collections::{BTreeMap, VecDeque};

/// Where the record that carries an entry is; no bytes for a no-op.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Located {
    pub(crate) at: Position,
    pub(crate) len: u32,
}

/// How a decided slot can be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Lookup {
    /// At hand; `None` is a no-op.
    Ready(Option<Entry>),
    /// In the log.
    OnDisk(Located),
    /// Not decided here, or no longer kept.
    Absent,
}

/// The decided log of one group.
#[derive(Debug)]
pub(crate) struct DecidedLog {
    first: Slot,
    /// Where each slot's entry is in the log, from `first`.
    located: VecDeque<Located>,
    recent_first: Slot,
    recent: VecDeque<Option<Entry>>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    /// Entries in the log that are not decided yet.
    stored: BTreeMap<EntryId, Located>,
}

impl DecidedLog {
    pub(crate) fn new(first: Slot, recent_bytes_max: usize) -> Self {
        DecidedLog {
            first,
            located: VecDeque::new(),
            recent_first: first,
            recent: VecDeque::new(),
            recent_bytes: 0,
            recent_bytes_max,
            stored: BTreeMap::new(),
        }
    }

    /// An undecided entry's bytes are in the log.
    pub(crate) fn store(&mut self, id: EntryId, located: Located) {
        self.stored.entry(id).or_insert(located);
    }

    /// Where an undecided entry's bytes are in the log, if they are.
    pub(crate) fn stored(&self, id: EntryId) -> Option<Located> {
        self.stored.get(&id).copied()
    }

    /// The next slot was decided.
    pub(crate) fn push(&mut self, slot: Slot, entry: Option<Entry>, located: Located) {
        assert_eq!(
            slot.0,
            self.first.0 + self.located.len() as u64,
            "decided in order"
        );
        if let Some(entry) = &entry {
            self.stored.remove(&entry.id);
            self.recent_bytes += entry.body_len();
        }
        self.located.push_back(located);
        self.recent.push_back(entry);
        // What is not in the log at all (a diskless replica) is kept as long as it fits, too.
        while self.recent_bytes > self.recent_bytes_max && self.recent.len() > 1 {
            self.forget_oldest();
        }
        while self.recent.len() > RECENT_SLOTS_MAX {
            self.forget_oldest();
        }
    }

    /// How a slot can be had.
    pub(crate) fn lookup(&self, slot: Slot) -> Lookup {
        if slot < self.first {
            return Lookup::Absent;
        }
        if slot >= self.recent_first {
            let index = (slot.0 - self.recent_first.0) as usize;
            return self
                .recent
                .get(index)
                .map_or(Lookup::Absent, |e| Lookup::Ready(e.clone()));
        }
        match self.located[(slot.0 - self.first.0) as usize] {
            Located { len: 0, at } if at == NOOP => Lookup::Ready(None),
            Located { len: 0, .. } => Lookup::Absent,
            located => Lookup::OnDisk(located),
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.recent.pop_front() {
            self.recent_bytes -= entry.map_or(0, |entry| entry.body_len());
            self.recent_first = self.recent_first.next();
        }
    }
}

/// Slots kept in memory, however small.
const RECENT_SLOTS_MAX: usize = 16 << 10;

/// Where no-ops are: nowhere.
const NOOP: Position = Position {
    segment: 0,
    offset: 0,
};

impl Located {
    /// The place of a no-op.
    pub(crate) const NOOP: Located = Located { at: NOOP, len: 0 };
    /// The place of an entry that is not in any log.
    pub(crate) const NOWHERE: Located = Located {
        at: Position {
            segment: 0,
            offset: 1,
        },
        len: 0,
    };
}
