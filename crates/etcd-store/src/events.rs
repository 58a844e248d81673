//! Changes as watchers see them, read from the history of the store.
//!
//! Nothing is kept for a watcher here: who has fallen behind asks again from where it stopped. An
//! answer never holds a part of a revision, and is otherwise bounded, as is the work it takes.

use crate::flaw::Flaw;
use crate::history::Version;
use crate::refused::Refused;
use crate::span::Span;
use crate::store::Store;
use crate::view::key_value;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use std::sync::atomic::{AtomicI64, Ordering};

/// Asks for changes from a revision on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsQuery {
    /// The keys whose changes are wanted.
    pub keys: Keys,
    /// The first revision wanted.
    pub from: i64,
}

/// The keys whose changes are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Keys {
    /// Every key, for the one reader that distributes changes as they come. What it has not read
    /// yet is kept even if it was compacted.
    All,
    /// A key or a range, as in a range request. What was compacted cannot be read.
    Span {
        /// The key, or the first of the range.
        key: Bytes,
        /// The end of the range.
        range_end: Bytes,
    },
}

/// An answer to [`EventsQuery`]: some changes, in order.
#[derive(Clone, PartialEq, Debug)]
pub struct Events {
    /// By revision, and within a revision in the order in which they were made; each with what was
    /// there before, if that is known. Values may be apart: see [`crate::event_value_refs`].
    pub events: Vec<Event>,
    /// Every change before this revision is told: go on from here. The present is reached once it
    /// is greater than `revision`.
    pub next: i64,
    /// The store's revision.
    pub revision: i64,
    /// The first revision that can be read; -1 before any compaction.
    pub compacted: i64,
}

/// The first revision that the reader of all changes has not read; there is none at first.
///
/// It tells how much memory may be freed, and nothing else: every replica has its own.
#[derive(Debug)]
pub(crate) struct UnreadRevision(AtomicI64);

impl Default for UnreadRevision {
    fn default() -> Self {
        UnreadRevision(AtomicI64::new(i64::MAX))
    }
}

impl Clone for UnreadRevision {
    fn clone(&self) -> Self {
        UnreadRevision(AtomicI64::new(self.get()))
    }
}

impl UnreadRevision {
    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, revision: i64) {
        self.0.store(revision, Ordering::Relaxed);
    }
}

impl Store {
    /// Reads changes. Below the compacted revision it refuses; past the present there are none.
    pub(crate) fn events(&self, watched: &EventsQuery) -> Result<Events, Refused> {
        let from = watched.from;
        let mut found = EventsFound {
            answer: Events {
                events: Vec::new(),
                next: from.max(self.revision + 1),
                revision: self.revision,
                compacted: self.compacted,
            },
            bytes: 0,
            untold: (self.flaw == Some(Flaw::WatchDropsAtCompaction)).then_some(self.compacted),
        };
        match &watched.keys {
            Keys::All => {
                // What was freed before the reader came is gone.
                let first = self.journal.first().map_or(i64::MAX, |c| c.revision);
                if from < self.compacted && from < first {
                    return Err(Refused::Compacted);
                }
                self.scan(from, Span::From(&[]), i64::MIN, &mut found);
                self.wanted.set(found.answer.next);
            }
            Keys::Span { key, range_end } => {
                if from < self.compacted {
                    return Err(Refused::Compacted);
                }
                match Span::new(key, range_end) {
                    Span::One(key) => self.scan_key(from, key, &mut found),
                    span => self.scan(from, span, self.compacted, &mut found),
                }
            }
        }
        Ok(found.answer)
    }

    /// The reader of all changes is gone: nothing is kept for it.
    pub(crate) fn unwatch(&self) {
        self.wanted.set(i64::MAX);
    }

    /// Walks the journal.
    fn scan(&self, from: i64, span: Span<'_>, readable: i64, found: &mut EventsFound) {
        let mut last = from;
        for (scanned, change) in self.journal.since(from).enumerate() {
            let between = change.revision != last;
            if between && (found.is_full() || scanned >= SCANNED_MAX) {
                found.answer.next = change.revision;
                return;
            }
            last = change.revision;
            if !span.contains(change.key) {
                continue;
            }
            let Some((key, history)) = self.keys.get_key_value(change.key) else {
                continue;
            };
            if let Some((version, before)) = history.change(change.revision, change.sub) {
                found.push(key, version, before, readable);
            }
        }
    }

    /// Walks the history of one key: that is shorter than the journal.
    fn scan_key(&self, from: i64, key: &[u8], found: &mut EventsFound) {
        let Some((key, history)) = self.keys.get_key_value(key) else {
            return;
        };
        let mut last = from;
        for (version, before) in history.changes_since(from) {
            if version.modified != last && found.is_full() {
                found.answer.next = version.modified;
                return;
            }
            last = version.modified;
            found.push(key, version, before, self.compacted);
        }
    }
}

/// What was found so far.
struct EventsFound {
    answer: Events,
    bytes: usize,
    /// A revision whose changes are not told, on purpose.
    untold: Option<i64>,
}

impl EventsFound {
    fn is_full(&self) -> bool {
        self.answer.events.len() >= EVENTS_MAX || self.bytes >= BYTES_MAX
    }

    /// What was there before a change is told if the revision before it is readable, as in etcd.
    fn push(&mut self, key: &[u8], version: &Version, before: Option<&Version>, readable: i64) {
        if self.untold == Some(version.modified) {
            return;
        }
        let before = before.filter(|_| version.modified > readable);
        let prev_kv = before.map(|before| key_value(key, before));
        self.bytes += EVENT_BYTES + key.len() + version.value.len();
        self.bytes += before.map_or(0, |before| before.value.len());
        self.answer.events.push(event(key, version, prev_kv));
    }
}

fn event(key: &[u8], version: &Version, prev_kv: Option<KeyValue>) -> Event {
    let kind = if version.is_live() {
        EventType::Put
    } else {
        EventType::Delete
    };
    Event {
        r#type: kind as i32,
        kv: Some(key_value(key, version)),
        prev_kv,
    }
}

/// Most changes in one answer, before a revision that is larger.
const EVENTS_MAX: usize = 1000;
/// Most bytes in one answer, likewise.
const BYTES_MAX: usize = 1 << 20;
/// What a change takes besides key and value.
const EVENT_BYTES: usize = 64;
/// Most changes looked at for one answer, likewise.
const SCANNED_MAX: usize = 8192;
