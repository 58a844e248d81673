//! What is decided and what clients were told: one history, whatever happens. The application's state
//! shows what came before what, bucket by bucket, so that results show it, too.

use super::super::Footprint;
use bytes::Bytes;
use quorate_core::{Command, Entry, RequestId, Slot, Touches};
use std::collections::{BTreeMap, BTreeSet};

/// Buckets of keys there are.
pub(super) const BUCKETS: usize = 3;

/// What the application came to, in every bucket.
pub(super) type State = [u64; BUCKETS];

/// What was true when a read began.
struct Begun {
    decided: u64,
    answered: BTreeSet<RequestId>,
}

#[derive(Default)]
pub(super) struct History {
    pub(super) touches: Option<Touches>,
    /// What is decided, and what the application came to.
    pub(super) decided: Vec<(Option<Entry>, State)>,
    /// Where the commands among it are, and what came of them.
    results: BTreeMap<RequestId, (Slot, Bytes)>,
    /// What clients were told.
    pub(super) answered: BTreeMap<RequestId, (Slot, Bytes)>,
    reads: BTreeMap<RequestId, Begun>,
    pub(super) reads_done: usize,
}

/// The buckets that a command of these tests names: all, if none.
pub(super) fn named(body: &Bytes) -> Option<Vec<u32>> {
    let buckets = body.iter().map(|bucket| u32::from(*bucket));
    (!body.is_empty()).then(|| buckets.collect())
}

impl History {
    /// An empty history of commands that touch these buckets.
    pub(super) fn of(touches: Option<Touches>) -> History {
        History {
            touches,
            ..History::default()
        }
    }

    fn footprint(&self, entry: &Entry) -> Vec<usize> {
        let commands: Vec<Command> = entry.commands().flatten().collect();
        let of = |command: &Command| self.touches.and_then(|touches| touches(&command.body));
        let named: Option<Vec<Vec<u32>>> = commands.iter().map(of).collect();
        let named = named.map(|named| Footprint::of(named.concat()));
        match named {
            Some(Footprint::Buckets(buckets)) => buckets.iter().map(|b| *b as usize).collect(),
            _ => (0..BUCKETS).collect(),
        }
    }

    /// The state after an entry, which depends on what conflicts with it alone.
    pub(super) fn state_after(&self, before: State, entry: Option<&Entry>) -> State {
        let mut state = before;
        if let Some(entry) = entry {
            let words = [u64::from(entry.id.origin.0), entry.id.boot.0, entry.id.seq];
            for bucket in self.footprint(entry) {
                state[bucket] = words.into_iter().fold(before[bucket].wrapping_add(1), mix);
            }
        }
        state
    }

    /// What the commands of an entry come to: what the buckets are that it touches.
    pub(super) fn result(&self, state: State, entry: &Entry) -> Bytes {
        let touched = self.footprint(entry).into_iter();
        touched.flat_map(|b| state[b].to_le_bytes()).collect()
    }

    /// Somebody delivers something.
    pub(super) fn decide(&mut self, me: usize, slot: Slot, entry: Option<Entry>, state: State) {
        if let Some((first, _)) = self.decided.get(slot.0 as usize) {
            assert_eq!(*first, entry, "{me} delivers {slot:?}");
            return;
        }
        if let Some(entry) = &entry {
            let result = self.result(state, entry);
            for command in entry.commands().flatten() {
                let before = self.results.insert(command.id, (slot, result.clone()));
                assert_eq!(before, None, "{:?} is decided twice", command.id);
            }
        }
        self.decided.push((entry, state));
        self.check_answers();
    }

    /// A client is told.
    pub(super) fn answer(&mut self, id: RequestId, slot: Slot, result: Bytes) {
        let before = self.answered.insert(id, (slot, result));
        assert_eq!(before, None, "{id:?} is answered twice");
        self.check_answers();
    }

    pub(super) fn begin_read(&mut self, id: RequestId) {
        let begun = Begun {
            decided: self.decided.len() as u64,
            answered: self.answered.keys().copied().collect(),
        };
        self.reads.insert(id, begun);
    }

    /// A client reads what is before a slot.
    pub(super) fn end_read(&mut self, id: RequestId, slot: Slot) {
        let Some(begun) = self.reads.remove(&id) else {
            return;
        };
        assert!(slot.0 >= begun.decided, "a stale read at {slot:?}");
        for write in begun.answered {
            let at = self.results.get(&write).map(|(at, _)| *at);
            let is_seen = at.is_some_and(|at| at < slot);
            assert!(is_seen, "a stale read at {slot:?}: {write:?} is at {at:?}");
        }
        self.reads_done += 1;
    }

    /// What clients were told is what is decided, once it is. Where entries commute they may change
    /// places.
    fn check_answers(&self) {
        for (id, (slot, result)) in &self.answered {
            match self.results.get(id) {
                Some((at, decided)) => {
                    assert_eq!(decided, result, "the result of {id:?} in {slot:?}");
                    let has_moved = at != slot && self.touches.is_none();
                    assert!(!has_moved, "{id:?} was answered in {slot:?}, is in {at:?}");
                }
                None => {
                    let is_to_come = slot.0 as usize >= self.decided.len();
                    let may_move = self.touches.is_some();
                    assert!(is_to_come || may_move, "{id:?} was answered in {slot:?}");
                }
            }
        }
    }

    /// At the end: whatever was answered is decided.
    pub(super) fn check_all(&self) {
        self.check_answers();
        for (id, (slot, _)) in &self.answered {
            assert!(self.results.contains_key(id), "{id:?} in {slot:?} is lost");
        }
    }
}

fn mix(state: u64, word: u64) -> u64 {
    (state ^ word)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}
