//! The changes of every revision, and the state at any of them.

use bytes::Bytes;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The first revision that can have a change.
const FIRST: i64 = 2;

/// What observers of the whole store tell: the changes of each revision, in their order.
///
/// Of a store that holds other keys, too, it may leave those out; their revisions are then
/// without changes.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Every change of a revision from `first` on and before `end` is told.
    first: i64,
    end: i64,
    changes: BTreeMap<i64, Vec<Event>>,
    /// The versions of each key, ascending; `None` where it was deleted.
    versions: BTreeMap<Bytes, Vec<Version>>,
}

#[derive(Clone, Debug)]
struct Version {
    revision: i64,
    kv: Option<KeyValue>,
}

impl Default for Journal {
    fn default() -> Self {
        Journal::new(FIRST, Vec::new())
    }
}

/// Whether a range as requests name it holds a key: a single key, everything from a key on, or
/// what lies between two.
#[must_use]
pub fn covers(key: &[u8], range_end: &[u8], name: &[u8]) -> bool {
    match range_end {
        b"" => name == key,
        b"\0" => name >= key,
        _ => key <= name && name < range_end,
    }
}

impl Journal {
    /// One that begins at a revision, with the keys there were before it.
    #[must_use]
    pub fn new(first: i64, content: Vec<KeyValue>) -> Journal {
        let version = |kv: KeyValue| {
            let (key, revision) = (kv.key.clone(), kv.mod_revision);
            let kv = Some(kv);
            (key, vec![Version { revision, kv }])
        };
        Journal {
            first,
            end: first,
            changes: BTreeMap::new(),
            versions: content.into_iter().map(version).collect(),
        }
    }

    /// The first revision it tells of.
    #[must_use]
    pub fn first(&self) -> i64 {
        self.first
    }

    /// The first revision it does not tell of yet.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }

    /// The changes of a revision.
    #[must_use]
    pub fn of(&self, revision: i64) -> &[Event] {
        self.changes.get(&revision).map_or(&[], |changes| changes)
    }

    /// Revisions with changes, and these, ascending from a revision on.
    pub fn from(&self, revision: i64) -> impl Iterator<Item = (i64, &[Event])> {
        let later = self.changes.range(revision..);
        later.map(|(revision, changes)| (*revision, &changes[..]))
    }

    /// Adds all changes from [`end`](Journal::end) on and before `next`. They must follow from
    /// what was there.
    ///
    /// # Errors
    /// Which change does not.
    pub fn add(&mut self, events: &[Event], next: i64) -> Result<(), String> {
        let mut at = self.end;
        for event in events {
            let revision = revision_of(event)?;
            if revision < at || revision >= next {
                return Err(format!(
                    "told of {} to {next}, but out of order: {event:?}",
                    self.end
                ));
            }
            at = revision;
            self.fold(revision, event)?;
            self.changes
                .entry(revision)
                .or_default()
                .push(event.clone());
        }
        self.end = self.end.max(next);
        Ok(())
    }

    /// A key at a revision.
    #[must_use]
    pub fn get(&self, key: &[u8], revision: i64) -> Option<&KeyValue> {
        at(self.versions.get(key)?, revision)
    }

    /// The keys of a range at a revision, ascending.
    pub fn range<'a>(
        &'a self,
        key: &'a [u8],
        range_end: &'a [u8],
        revision: i64,
    ) -> impl Iterator<Item = &'a KeyValue> {
        let is_one = range_end.is_empty();
        let from = self
            .versions
            .range::<[u8], _>((Bound::Included(key), Bound::Unbounded));
        let within = from.take_while(move |(name, _)| match range_end {
            _ if is_one => name[..] == *key,
            b"\0" => true,
            _ => name[..] < *range_end,
        });
        within.filter_map(move |(_, versions)| at(versions, revision))
    }

    /// Takes over one change, after a look at whether it can be.
    fn fold(&mut self, revision: i64, event: &Event) -> Result<(), String> {
        let kv = event.kv.as_ref().ok_or("an event has no key")?;
        let versions = self.versions.entry(kv.key.clone()).or_default();
        let before = versions.last().and_then(|version| version.kv.as_ref());
        let is_put = event.r#type == EventType::Put as i32;
        let (created, version) = match before {
            Some(before) => (before.create_revision, before.version + 1),
            None => (revision, 1),
        };
        let follows = if is_put {
            (kv.create_revision, kv.version) == (created, version)
        } else {
            before.is_some()
        };
        // Of a key that a transaction changes twice, both changes tell what was there before it.
        let at_first = at(versions, revision - 1);
        let tells = event.prev_kv.is_none() || event.prev_kv.as_ref() == at_first;
        if !follows || !tells {
            return Err(format!("{event:?} does not follow from {before:?}"));
        }
        let kv = is_put.then(|| kv.clone());
        versions.push(Version { revision, kv });
        Ok(())
    }
}

/// The revision of a change.
pub(super) fn revision_of(event: &Event) -> Result<i64, String> {
    let kv = event.kv.as_ref().ok_or("an event has no key")?;
    Ok(kv.mod_revision)
}

fn at(versions: &[Version], revision: i64) -> Option<&KeyValue> {
    let count = versions.partition_point(|version| version.revision <= revision);
    versions[..count].last()?.kv.as_ref()
}
