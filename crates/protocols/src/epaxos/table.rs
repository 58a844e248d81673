//! The dependency table: what is known here, by what it touches.

use super::footprint::{Footprint, OF_CLIENTS};
use super::state::Deps;
use quorate_core::{EntryId, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// Delivered entries beyond which those are given up that nobody needs.
const DELIVERED_MAX: usize = 256;

/// What is known here: entries that are not delivered, and those delivered in slots from one on.
///
/// Invariant: `since` is at most the furthest slot before which more members than may fail have delivered everything,
/// or this replica does not vote.
#[derive(Clone, Hash, Debug)]
pub(super) struct Table {
    /// By bucket: what touches it.
    buckets: BTreeMap<u64, BTreeSet<EntryId>>,
    /// Entries that touch everything.
    alls: BTreeSet<EntryId>,
    /// Marks, which touch what roots touch alone.
    marks: BTreeSet<EntryId>,
    /// What is delivered, of all of that, from `since` on.
    delivered: BTreeMap<EntryId, Slot>,
    /// What is delivered from `since` on, in the order of slots.
    in_order: BTreeMap<Slot, (EntryId, Footprint)>,
    /// The first slot of which it is known here what was delivered.
    since: Slot,
}

impl Table {
    /// Nothing is known of slots before this one.
    pub(super) fn new(since: Slot) -> Table {
        Table {
            buckets: BTreeMap::new(),
            alls: BTreeSet::new(),
            marks: BTreeSet::new(),
            delivered: BTreeMap::new(),
            in_order: BTreeMap::new(),
            since,
        }
    }

    /// The first slot of which it is known here what was delivered.
    pub(super) fn since(&self) -> Slot {
        self.since
    }

    /// An entry is known.
    pub(super) fn add(&mut self, id: EntryId, footprint: &Footprint) {
        match footprint {
            Footprint::All => {
                self.alls.insert(id);
            }
            Footprint::Mark => {
                self.marks.insert(id);
            }
            Footprint::Buckets(buckets) => {
                for bucket in buckets.iter() {
                    self.buckets.entry(*bucket).or_default().insert(id);
                }
            }
        }
    }

    /// An entry that was known conflicts with nothing any more.
    pub(super) fn remove(&mut self, id: EntryId, footprint: &Footprint) {
        match footprint {
            Footprint::All => {
                self.alls.remove(&id);
            }
            Footprint::Mark => {
                self.marks.remove(&id);
            }
            Footprint::Buckets(buckets) => {
                for bucket in buckets.iter() {
                    let Some(ids) = self.buckets.get_mut(bucket) else {
                        continue;
                    };
                    ids.remove(&id);
                    if ids.is_empty() {
                        self.buckets.remove(bucket);
                    }
                }
            }
        }
    }

    /// An entry that was known is delivered.
    pub(super) fn deliver(&mut self, slot: Slot, id: EntryId, footprint: Footprint) {
        self.delivered.insert(id, slot);
        self.in_order.insert(slot, (id, footprint));
    }

    /// Gives up what is delivered in slots before this one, if there is much.
    pub(super) fn trim(&mut self, floor: Slot) {
        while self.in_order.len() > DELIVERED_MAX
            && let Some(oldest) = self.in_order.first_entry()
            && *oldest.key() < floor
        {
            let (slot, (id, footprint)) = oldest.remove_entry();
            self.delivered.remove(&id);
            self.remove(id, &footprint);
            self.since = self.since.max(slot.next());
        }
    }

    /// Gives up all that is delivered, whose slots may be unknown: nothing is known of slots before this one.
    pub(super) fn restart(&mut self, since: Slot) {
        for (id, footprint) in std::mem::take(&mut self.in_order).into_values() {
            self.delivered.remove(&id);
            self.remove(id, &footprint);
        }
        self.since = since;
    }

    /// What an entry conflicts with: what is not delivered, and what is in slots from one on. Entries that one start
    /// of a replica formed do not conflict by their clients: its host has requests acknowledge nothing that is not
    /// decided.
    pub(super) fn conflicting(
        &self,
        id: EntryId,
        footprint: &Footprint,
        from: Slot,
    ) -> BTreeSet<EntryId> {
        let mut all: BTreeSet<EntryId> = self.alls.clone();
        match footprint {
            Footprint::All => {
                all.extend(&self.marks);
                all.extend(self.buckets.values().flatten());
            }
            Footprint::Mark => all.extend(&self.marks),
            Footprint::Buckets(buckets) => {
                for bucket in buckets.iter() {
                    let is_of_client = *bucket & OF_CLIENTS != 0;
                    let is_apart = |other: &&EntryId| {
                        !is_of_client || (other.origin, other.boot) != (id.origin, id.boot)
                    };
                    let known = self.buckets.get(bucket).into_iter().flatten();
                    all.extend(known.filter(is_apart));
                }
            }
        }
        all.remove(&id);
        all.retain(|id| self.delivered.get(id).is_none_or(|slot| *slot >= from));
        all
    }

    /// Adds to dependencies what an entry conflicts with here.
    pub(super) fn extend(&self, deps: &mut Deps, id: EntryId, footprint: &Footprint) {
        deps.after = deps.after.max(self.since);
        deps.ids.extend(self.conflicting(id, footprint, deps.after));
        deps.ids.remove(&id);
    }

    /// Whether an entry is delivered, in a slot that is known here.
    pub(super) fn is_delivered(&self, id: EntryId) -> bool {
        self.delivered.contains_key(&id)
    }

    /// The roots that are not delivered.
    pub(super) fn roots(&self) -> impl Iterator<Item = EntryId> {
        let all = self.alls.iter().chain(&self.marks).copied();
        all.filter(|id| !self.delivered.contains_key(id))
    }
}
