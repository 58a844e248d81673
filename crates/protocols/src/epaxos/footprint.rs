//! What entries touch, and which of them conflict.

use bytes::Bytes;
use quorate_core::{Class, Entry, EntryId, Touches};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Buckets that an entry may touch without touching all.
const BUCKETS_MAX: usize = 1024;
/// What a mark says.
const MARK: &[u8] = &[0];
/// What the entry says that reads go through the log with.
const READ: &[u8] = &[1];

/// What an entry touches.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Footprint {
    /// Everything there is: orders, sessions, reads, and all that the application says nothing of.
    All,
    /// A mark: it has its place among marks and entries that touch everything, and makes nobody else wait.
    Mark,
    /// These buckets, and at least one.
    Buckets(Arc<[u32]>),
}

impl Footprint {
    /// What an entry touches, if the application says so of its commands.
    pub(super) fn of(entry: &Entry, touches: Option<Touches>) -> Footprint {
        if entry.count() == 0 {
            return match entry.told().is_some_and(|told| told == MARK) {
                true => Footprint::Mark,
                false => Footprint::All,
            };
        }
        let mut all = BTreeSet::new();
        for command in entry.commands() {
            let Ok(command) = command else {
                return Footprint::All;
            };
            let is_keyed = command.class == Class::Write && command.payloads.is_empty();
            let Some(buckets) = touches
                .filter(|_| is_keyed)
                .and_then(|touches| touches(&command.body))
            else {
                return Footprint::All;
            };
            all.extend(buckets);
        }
        match all.len() {
            1..=BUCKETS_MAX => Footprint::Buckets(all.into_iter().collect()),
            _ => Footprint::All,
        }
    }

    /// Whether this is of a root: all roots conflict with each other.
    pub(super) fn is_root(&self) -> bool {
        !matches!(self, Footprint::Buckets(_))
    }
}

/// A root that has no commands and nobody waits for: what is before it can be delivered.
pub(super) fn mark(id: EntryId, stamp_ns: u64) -> Entry {
    Entry::notice(id, stamp_ns, Bytes::from_static(MARK))
}

/// A root without commands behind which reads are answered.
pub(super) fn read_mark(id: EntryId, stamp_ns: u64) -> Entry {
    Entry::notice(id, stamp_ns, Bytes::from_static(READ))
}

/// In the place of an entry that is not here, where there is a place for one.
pub(super) fn stand_in(id: EntryId) -> Entry {
    Entry::notice(id, 0, Bytes::new())
}

/// The entry itself, unless it stands in for one that is not here.
pub(super) fn genuine(entry: Entry) -> Option<Entry> {
    let is_stand_in = entry.count() == 0 && entry.body_len() == 0;
    (!is_stand_in).then_some(entry)
}
