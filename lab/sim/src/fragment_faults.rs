//! Damage to fragment stores: fragments of payloads are no longer there, or are something else.

use crate::corruption::corrupt;
use crate::disk::Disk;
use crate::network::chance;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::{EntryId, Machine, PayloadId};
use quorate_host::Fragment;
use std::collections::BTreeSet;

/// How often another place is tried when damage would be too much.
const TRIES: usize = 6;

/// A fragment somewhere: of which payload, under which code, and which one.
type Name = (PayloadId, u8, u8);

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A replica is about to start: maybe its fragment store is not what it was. Bytes of fragments are
    /// looked at when they are read, so that nothing has to be noticed yet.
    pub(crate) fn maybe_corrupt_fragments(&mut self, index: usize) -> Result<(), Violation> {
        let (rot, extents) = (self.plan.disk.rot, self.nodes[index].disk.bulk_extents());
        if rot == 0.0 || extents.is_empty() || self.nemesis.tired || !self.is_at_rest(index) {
            return Ok(());
        }
        if !chance(&mut self.nemesis.rng, rot) {
            return Ok(());
        }
        // What shows that a fragment is whole may be lost with power: later, at a bad time.
        let disk = self.nodes[index].disk.settled();
        let inspection = self.inspect_disk(index, &disk)?;
        let intact = &inspection.host;
        let before: BTreeSet<Name> = whole_of(intact.look().fragments(), &disk).collect();
        let elsewhere = self.whole_elsewhere(index)?;
        for _ in 0..TRIES {
            let mut disk = self.nodes[index].disk.clone();
            let what = corrupt(&mut disk.bulk, &extents, &mut self.nemesis.rng);
            let settled = disk.settled();
            let inspection = self.inspect_disk(index, &settled)?;
            let damaged = &inspection.host;
            // With the fragments of a flush of which no mark tells, what that flush wrote to the log is
            // taken for never written: rot and a lost mark at once are two faults.
            if !intact
                .look()
                .undecided_entries()
                .all(|entry| damaged.look().has_entry(entry))
            {
                continue;
            }
            let after: BTreeSet<Name> = whole_of(damaged.look().fragments(), &settled).collect();
            let mut lost = before.difference(&after);
            let spare = self.setup.failures_survived;
            if lost.all(|(payload, ..)| are_enough(*payload, &elsewhere, spare)) {
                self.totals.hit(match what {
                    "bit rot" => "bulk rot",
                    "lost sector" => "bulk sector lost",
                    _ => "bulk write misdirected",
                });
                let now_ns = self.queue.now_ns();
                let counts = [index, before.len(), after.len()].map(|count| count as u64);
                self.trace.event(now_ns, "damage", &counts, || {
                    format!(
                        "r{} has {} of {} fragments left",
                        index + 1,
                        counts[2],
                        counts[1]
                    )
                });
                self.nodes[index].disk = disk;
                self.nodes[index].damaged = true;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether a replica may lose its fragments of payloads that are live or may be decided: others
    /// have enough of each. One that is down may have lost some that it had rebuilt.
    pub(crate) fn may_lose_fragments(&self, index: usize) -> Result<bool, Violation> {
        let inspection;
        let host = match &self.nodes[index].host {
            Some(host) => host,
            None => {
                inspection = self.inspect_disk(index, &self.nodes[index].disk)?;
                &inspection.host
            }
        };
        let undecided = self.undecided_anywhere()?;
        let running = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let running: Vec<_> = running.collect();
        let fragments = host.look().fragments().map(|found| found.payload);
        let payloads: Vec<PayloadId> = fragments
            .filter(|payload| {
                let is_live = || {
                    running
                        .iter()
                        .any(|host| host.look().app().is_live(*payload))
                };
                undecided.contains(&payload.entry) || is_live()
            })
            .collect();
        if payloads.is_empty() {
            return Ok(true);
        }
        let elsewhere = self.whole_elsewhere(index)?;
        let mut payloads = payloads.into_iter();
        Ok(payloads.all(|payload| are_enough(payload, &elsewhere, 0)))
    }

    /// The entries that some replica takes to be undecided: one that lost records may not know what it
    /// has fragments of.
    fn undecided_anywhere(&self) -> Result<BTreeSet<EntryId>, Violation> {
        let mut undecided = BTreeSet::new();
        for (index, node) in self.nodes.iter().enumerate() {
            match &node.host {
                Some(host) => undecided.extend(host.look().undecided_entries()),
                None if self.is_at_rest(index) => {
                    let found = self.inspect_disk(index, &node.disk)?;
                    undecided.extend(found.host.look().undecided_entries());
                }
                None => {}
            }
        }
        Ok(undecided)
    }

    /// The fragments that are whole on the disks of all other replicas, also if their power fails now.
    fn whole_elsewhere(&self, index: usize) -> Result<BTreeSet<Name>, Violation> {
        let mut whole = BTreeSet::new();
        for (other, node) in self.nodes.iter().enumerate() {
            match &node.host {
                _ if other == index => {}
                Some(host) => whole.extend(whole_of(host.look().fragments(), &node.disk.settled())),
                None if self.is_at_rest(other) => {
                    whole.extend(self.whole_on(other, &node.disk.settled())?);
                }
                None => {}
            }
        }
        Ok(whole)
    }

    /// The fragments that a replica would find on this disk, and that are whole.
    fn whole_on(&self, index: usize, disk: &Disk) -> Result<BTreeSet<Name>, Violation> {
        let inspection = self.inspect_disk(index, disk)?;
        Ok(whole_of(inspection.host.look().fragments(), disk).collect())
    }
}

/// Whether a payload could be rebuilt from these fragments, also if so many of them are lost for good.
fn are_enough(payload: PayloadId, fragments: &BTreeSet<Name>, spare: usize) -> bool {
    (1..=u8::MAX).any(|code| {
        let fragments = fragments.range((payload, code, 0)..=(payload, code, u8::MAX));
        fragments.count() >= usize::from(code) + spare
    })
}

/// Those of these fragments that are on the disk as they were written.
fn whole_of<'a>(
    fragments: impl Iterator<Item = &'a Fragment>,
    disk: &Disk,
) -> impl Iterator<Item = Name> {
    let is_whole = |found: &&Fragment| {
        let bytes = disk.bulk.read_at(found.at, found.len);
        bytes.is_ok_and(|bytes| found.is(&bytes))
    };
    let whole = fragments.filter(is_whole);
    whole.map(|found| (found.payload, found.code, found.index))
}
