//! PQ, the queue of pending requests (section 3.1), and the batches behind it.

use super::config::Config;
use quorate_core::{Entry, EntryId, MemberIndex};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// The batches held and not yet delivered, oldest stamp first.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    held: BTreeMap<EntryId, Held>,
    /// By rank, which is the stamp unless that is absurd: the head is the oldest request.
    queue: BTreeSet<(u64, EntryId)>,
    /// By member: what is held of its batches.
    load: Vec<Load>,
}

#[derive(Clone, Debug)]
struct Held {
    entry: Entry,
    rank_ns: u64,
    origin: MemberIndex,
    persisted: bool,
    /// Too young for a slot of its own, or it was proposed in vain just now.
    frozen: bool,
    /// Known, and not to be proposed here.
    is_withheld: bool,
    /// How often it was proposed here in vain.
    forfeits: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Load {
    entries: usize,
    bytes: usize,
}

impl Pool {
    pub(super) fn new(members: usize) -> Pool {
        Pool {
            load: vec![Load::default(); members],
            ..Pool::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn holds(&self, id: EntryId) -> bool {
        self.held.contains_key(&id)
    }

    pub(super) fn get(&self, id: EntryId) -> Option<&Entry> {
        self.held.get(&id).map(|held| &held.entry)
    }

    /// Ids from the oldest.
    pub(super) fn oldest_first(&self) -> impl Iterator<Item = EntryId> {
        self.queue.iter().map(|(_, id)| *id)
    }

    /// Ids by the origins' own stamps: an order that all replicas share, whatever their clocks.
    pub(super) fn by_stamp(&self) -> impl Iterator<Item = EntryId> {
        let stamped = self
            .held
            .iter()
            .map(|(id, held)| (held.entry.stamp_ns, *id));
        let mut stamped = stamped.collect::<Vec<_>>();
        stamped.sort_unstable();
        stamped.into_iter().map(|(_, id)| id)
    }

    /// The place of a held batch in the queue.
    pub(super) fn key(&self, id: EntryId) -> Option<(u64, EntryId)> {
        self.held.get(&id).map(|held| (held.rank_ns, id))
    }

    /// Whether another batch of this size from member `origin` is within its share.
    pub(super) fn has_room(&self, origin: MemberIndex, bytes: usize, config: &Config) -> bool {
        let load = self.load[origin];
        load.entries < config.pool_entries_max && load.bytes + bytes <= config.pool_bytes_max
    }

    /// Adds a batch of member `origin` that is not held.
    pub(super) fn insert(
        &mut self,
        entry: Entry,
        rank_ns: u64,
        origin: MemberIndex,
        persisted: bool,
    ) {
        let id = entry.id;
        let load = &mut self.load[origin];
        load.entries += 1;
        load.bytes += entry.body_len();
        self.queue.insert((rank_ns, id));
        let held = Held {
            entry,
            rank_ns,
            origin,
            persisted,
            frozen: false,
            is_withheld: false,
            forfeits: 0,
        };
        let before = self.held.insert(id, held);
        assert!(before.is_none(), "batch {id:?} is held once");
    }

    /// From now on no slot is started for a held batch.
    pub(super) fn freeze(&mut self, id: EntryId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.frozen = true;
        }
    }

    /// From now on one may be.
    pub(super) fn thaw(&mut self, id: EntryId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.frozen = false;
        }
    }

    /// From now on a held batch is not proposed.
    pub(super) fn withhold(&mut self, id: EntryId) {
        if let Some(held) = self.held.get_mut(&id) {
            held.is_withheld = true;
        }
    }

    /// From now on it may be: all that has to be written of it is.
    pub(super) fn release(&mut self, id: EntryId) {
        if let Some(held) = self.held.get_mut(&id) {
            (held.is_withheld, held.persisted) = (false, true);
        }
    }

    /// Whether a batch is held that may be proposed.
    pub(super) fn may_propose(&self, id: EntryId) -> bool {
        self.held.get(&id).is_some_and(|held| !held.is_withheld)
    }

    /// A held batch was proposed in vain. Says how often before.
    pub(super) fn count_forfeit(&mut self, id: EntryId) -> Option<u32> {
        let held = self.held.get_mut(&id)?;
        held.forfeits = held.forfeits.saturating_add(1);
        Some(held.forfeits - 1)
    }

    /// Whether no slot is to be started for a batch.
    pub(super) fn is_frozen(&self, id: EntryId) -> bool {
        self.held.get(&id).is_some_and(|held| held.frozen)
    }

    /// The batch, if it still has to be written down; from now on it counts as written.
    pub(super) fn take_unwritten(&mut self, id: EntryId) -> Option<Entry> {
        let held = self.held.get_mut(&id).filter(|held| !held.persisted)?;
        held.persisted = true;
        Some(held.entry.clone())
    }

    pub(super) fn remove(&mut self, id: EntryId) {
        if let Some(held) = self.held.remove(&id) {
            self.queue.remove(&(held.rank_ns, id));
            let load = &mut self.load[held.origin];
            load.entries -= 1;
            load.bytes -= held.entry.body_len();
        }
    }

    /// Drops every batch for which this holds.
    pub(super) fn remove_where(&mut self, gone: impl Fn(EntryId) -> bool) {
        let ids = self
            .held
            .keys()
            .copied()
            .filter(|id| gone(*id))
            .collect::<Vec<_>>();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    pub(super) fn check(&self) {
        assert_eq!(
            self.held.len(),
            self.queue.len(),
            "the queue names what is held"
        );
        for (rank_ns, id) in &self.queue {
            assert_eq!(
                self.key(*id),
                Some((*rank_ns, *id)),
                "the queue names what is held"
            );
        }
        let entries = self.load.iter().map(|load| load.entries).sum::<usize>();
        assert_eq!(
            entries,
            self.held.len(),
            "every batch is on its origin's account"
        );
    }
}

impl Hash for Pool {
    fn hash<H: Hasher>(&self, to: &mut H) {
        self.queue.hash(to);
        let held = self.held.values();
        held.for_each(|held| {
            (held.persisted, held.frozen).hash(to);
            (held.is_withheld, held.forfeits).hash(to);
        });
    }
}
