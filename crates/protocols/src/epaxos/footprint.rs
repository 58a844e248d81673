//! What entries touch, and which of them conflict.

use bytes::Bytes;
use quorate_core::{Class, Entry, EntryId, Touches};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Buckets that an entry may touch without touching all.
const BUCKETS_MAX: usize = 1024;
/// Buckets of clients, apart from those of applications.
pub(super) const OF_CLIENTS: u64 = 1 << 63;
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
    /// These buckets, and at least one: of the application, and of clients. A client says with a request which answers
    /// it has; whoever is told that before an entry that was answered elsewhere would refuse its commands.
    Buckets(Arc<[u64]>),
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
            all.extend(buckets.into_iter().map(u64::from));
            all.insert(OF_CLIENTS | command.id.client.0);
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

/// Names of entries that stand in for others begin here; no replica forms so many.
const STAND_IN_SEQ: u64 = 1 << 61;

/// The name of what stands in for an entry that is not here. It is another name: hosts take what a record has under the
/// name of an entry for the entry.
pub(super) fn stand_in_of(id: EntryId) -> EntryId {
    EntryId {
        seq: id.seq | STAND_IN_SEQ,
        ..id
    }
}

/// Stands in for an entry that is not here in a record that must have one, so that hosts can be told to forget it.
pub(super) fn stand_in(id: EntryId) -> Entry {
    Entry::notice(stand_in_of(id), 0, Bytes::from_static(MARK))
}
