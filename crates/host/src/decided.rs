//! Where the decided log is: recent entries in memory, those since the last snapshots in the log.

use crate::position::Position;
use quorate_core::{Entry, Slot};
use std::collections::VecDeque;

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
    /// Not decided here, no longer kept, for a snapshot covers it, or not written yet.
    Absent,
}

/// The decided log of one group.
#[derive(Debug)]
pub(crate) struct DecidedLog {
    /// Where each slot's entry is in the log; the last is that of the slot before `next`. Nothing
    /// is kept here without a log.
    located: VecDeque<Located>,
    /// The last decided entries; the last is that of the slot before `next`.
    recent: VecDeque<Option<Entry>>,
    recent_bytes: usize,
    recent_bytes_max: usize,
    /// Slots from here on stay in memory although they do not fit: a peer will ask for them.
    hold: Option<Slot>,
    /// The first slot that is not decided.
    next: Slot,
}

impl DecidedLog {
    pub(crate) fn new(next: Slot, recent_bytes_max: usize) -> Self {
        DecidedLog {
            located: VecDeque::new(),
            recent: VecDeque::new(),
            recent_bytes: 0,
            recent_bytes_max,
            hold: None,
            next,
        }
    }

    /// The first slot that is not decided.
    pub(crate) fn next(&self) -> Slot {
        self.next
    }

    /// Entries in memory, and the most there may be.
    pub(crate) fn in_memory(&self) -> (usize, usize) {
        (self.recent.len(), RECENT_SLOTS_MAX * HELD_TIMES_MAX)
    }

    /// The first slot that can be had.
    pub(crate) fn first(&self) -> Slot {
        let kept = self.located.len().max(self.recent.len());
        Slot(self.next.0 - kept as u64)
    }

    /// The next slot was decided; `located` is `None` without a log.
    pub(crate) fn push(&mut self, slot: Slot, entry: Option<Entry>, located: Option<Located>) {
        self.recent_bytes += entry.as_ref().map_or(0, Entry::body_len);
        self.recent.push_back(entry);
        self.pass(slot, located);
        let held = self
            .hold
            .map_or(0, |hold| self.next.0.saturating_sub(hold.0)) as usize;
        let is_over = |log: &Self, times: usize| {
            log.recent.len() > RECENT_SLOTS_MAX * times
                || log.recent.len() > 1 && log.recent_bytes > log.recent_bytes_max * times
        };
        while is_over(self, 1) && (self.recent.len() > held || is_over(self, HELD_TIMES_MAX)) {
            self.forget_oldest();
        }
    }

    /// The next slot was decided, and is covered by a snapshot: only its place is kept.
    pub(crate) fn push_place(&mut self, slot: Slot, located: Located) {
        self.recent.clear();
        self.recent_bytes = 0;
        self.pass(slot, Some(located));
    }

    /// Goes on at `next`, without anything before it.
    pub(crate) fn restart(&mut self, next: Slot) {
        *self = DecidedLog::new(next, self.recent_bytes_max);
    }

    /// Gives up the places of slots before `slot`: their records may go.
    pub(crate) fn release(&mut self, slot: Slot) {
        let kept = self.next.0.saturating_sub(slot.0) as usize;
        let gone = self.located.len().saturating_sub(kept);
        self.located.drain(..gone);
    }

    /// A slot's entry is somewhere else now.
    pub(crate) fn relocate(&mut self, slot: Slot, located: Located) {
        let behind = self.next.0.saturating_sub(slot.0) as usize;
        if let Some(index) = self.located.len().checked_sub(behind)
            && let Some(place) = self.located.get_mut(index)
        {
            *place = located;
        }
    }

    /// Keeps slots from here on in memory beyond the usual bounds, up to a multiple of them.
    pub(crate) fn hold(&mut self, from: Option<Slot>) {
        self.hold = from;
    }

    /// The first place where the bytes of an entry of `slot` or later are.
    pub(crate) fn first_place(&self, slot: Slot) -> Option<Position> {
        let behind = self.next.0.saturating_sub(slot.0) as usize;
        let from = self.located.len().saturating_sub(behind);
        let places = self.located.range(from..).filter(|located| located.len > 0);
        places.map(|located| located.at).min()
    }

    /// How a slot can be had.
    pub(crate) fn lookup(&self, slot: Slot) -> Lookup {
        let Some(behind) = self.next.0.checked_sub(slot.0).filter(|behind| *behind > 0) else {
            return Lookup::Absent;
        };
        let behind = behind as usize;
        if let Some(index) = self.recent.len().checked_sub(behind) {
            return Lookup::Ready(self.recent[index].clone());
        }
        let index = self.located.len().checked_sub(behind);
        match index.map(|index| self.located[index]) {
            None => Lookup::Absent,
            Some(Located::NOOP) => Lookup::Ready(None),
            Some(Located::UNWRITTEN) => Lookup::Absent,
            Some(located) => Lookup::OnDisk(located),
        }
    }

    fn pass(&mut self, slot: Slot, located: Option<Located>) {
        assert_eq!(slot, self.next, "decided in order");
        self.located.extend(located);
        self.next = slot.next();
    }

    fn forget_oldest(&mut self) {
        if let Some(entry) = self.recent.pop_front() {
            self.recent_bytes -= entry.map_or(0, |entry| entry.body_len());
        }
    }
}

/// How many times the usual bounds may be held for a peer.
const HELD_TIMES_MAX: usize = 8;

/// Slots kept in memory, however small.
const RECENT_SLOTS_MAX: usize = 16 << 10;

impl Located {
    /// The place of what was applied and could not be written: with the peers.
    pub(crate) const UNWRITTEN: Located = Located {
        at: Position {
            segment: u64::MAX,
            offset: 0,
        },
        len: 0,
    };

    /// The place of a no-op: nowhere.
    pub(crate) const NOOP: Located = Located {
        at: Position {
            segment: 0,
            offset: 0,
        },
        len: 0,
    };
}
