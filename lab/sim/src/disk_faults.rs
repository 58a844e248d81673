//! Damage to disks: what was acknowledged is no longer there, or is something else.
//!
//! Damage strikes where a disk is at rest. Before it stays, the disk is opened for a look: what was
//! acknowledged and is hit must be noticed, and enough must be left elsewhere. Without that nobody
//! could expect the cluster to serve.

use crate::corruption::corrupt;
use crate::disk::Disk;
use crate::inspect_disk::Inspection;
use crate::network::chance;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::{EntryId, MILLIS, Machine};
use quorate_host::{Host, Opened};
use std::rc::Rc;

/// How often another place is tried when damage would be too much.
const TRIES: usize = 6;

/// A disk that was damaged, and what a replica would find there.
struct Damaged<M: Machine, A: Subject> {
    disk: Disk,
    after: Rc<Inspection<M, A>>,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A replica is about to start: maybe its disk is not what it was.
    pub(crate) fn maybe_corrupt(&mut self, index: usize) -> Result<(), Violation> {
        let rot = self.plan.disk.rot;
        if rot == 0.0 || self.nemesis.tired || !self.is_at_rest(index) {
            return Ok(());
        }
        if !chance(&mut self.nemesis.rng, rot) {
            return Ok(());
        }
        let (before, before_found) = self.inspect_before_damage(index)?;
        for _ in 0..TRIES {
            let Some(Damaged { disk, after }) = self.try_damage(index, &before_found)? else {
                return Ok(());
            };
            // What shows that damage does no harm may be lost with power: later, at a bad time.
            let settled = &self.inspect_disk(index, &disk.settled())?.found;
            let is_out_now = is_out(&after.found);
            let is_latent = is_out(settled) && !is_out_now;
            let is_too_much = is_out_now
                && (self.without_promises(index) >= self.failures_survived()
                    || !self.may_lose_fragments(index)?);
            let is_bearable = !is_latent && !is_too_much;
            if is_bearable && self.are_copies_left(index, &before.host, &after.host)? {
                self.keep_damage(index, disk, &after.found);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Whether every undecided entry that a replica has lost is at another one.
    fn are_copies_left(
        &self,
        index: usize,
        before: &Host<M, A>,
        after: &Host<M, A>,
    ) -> Result<bool, Violation> {
        let mut lost: Vec<EntryId> = before.look().undecided_entries().collect();
        lost.retain(|entry| !after.look().has_entry(*entry));
        for (other, node) in self.nodes.iter().enumerate() {
            if lost.is_empty() {
                break;
            }
            match &node.host {
                _ if other == index => {}
                Some(host) => lost.retain(|entry| !host.look().has_entry(*entry)),
                None if self.is_at_rest(other) => {
                    let inspection = self.inspect_disk(other, &node.disk)?;
                    lost.retain(|entry| !inspection.host.look().has_entry(*entry));
                }
                None => {}
            }
        }
        Ok(lost.is_empty())
    }

    /// Power fails everywhere, and every disk is damaged somewhere.
    pub(crate) fn corrupt_everywhere(&mut self) -> Result<(), Violation> {
        let n = self.nodes.len();
        self.crash_all();
        let is_ready = |index: usize| self.nodes[index].host.is_none() && self.is_at_rest(index);
        if !(0..n).all(is_ready) || self.nodes.iter().any(|node| node.lost) {
            return Ok(());
        }
        let inspect = |index: usize| self.inspect_before_damage(index);
        let before = (0..n).map(inspect).collect::<Result<Vec<_>, _>>()?;
        for _ in 0..TRIES {
            let (mut damaged, mut settled) = (Vec::new(), Vec::new());
            for (index, (_, before)) in before.iter().enumerate() {
                if let Some(one) = self.try_damage(index, before)? {
                    settled.push(self.inspect_disk(index, &one.disk.settled())?);
                    damaged.push(one);
                }
            }
            let settled: Vec<&Opened> =
                settled.iter().map(|inspection| &inspection.found).collect();
            let found: Vec<&Opened> = damaged.iter().map(|one| &one.after.found).collect();
            let mut entries = before
                .iter()
                .flat_map(|(inspection, _)| inspection.host.look().undecided_entries());
            let is_left = |entry| {
                damaged
                    .iter()
                    .any(|one| one.after.host.look().has_entry(entry))
            };
            let is_enough =
                damaged.len() == n && are_enough_left(&found) && are_enough_left(&settled);
            if is_enough && entries.all(is_left) {
                self.totals.hit("damage everywhere");
                for (index, Damaged { disk, after }) in damaged.into_iter().enumerate() {
                    self.keep_damage(index, disk, &after.found);
                }
                return Ok(());
            }
        }
        Ok(())
    }

    /// A disk is full for a while.
    pub(crate) fn fill_disk(&mut self) {
        let rng = &mut self.nemesis.rng;
        let (index, until_ns) = (rng.usize(..self.nodes.len()), rng.u64(20..1_500) * MILLIS);
        self.nodes[index].full_until_ns = self.queue.now_ns() + until_ns;
        self.totals.hit("full disk");
    }

    pub(crate) fn is_at_rest(&self, index: usize) -> bool {
        self.nodes[index].started && !self.nodes[index].wiped
    }

    /// Damages a copy of a disk, on which a replica would find this, and looks at it. `None` if there
    /// is nothing to be damaged.
    fn try_damage(
        &mut self,
        index: usize,
        before: &Opened,
    ) -> Result<Option<Damaged<M, A>>, Violation> {
        let mut disk = self.nodes[index].disk.clone();
        let rng = &mut self.nemesis.rng;
        let snapshot = if rng.u8(..4) == 0 {
            disk.snapshots.rot_any(rng)
        } else {
            None
        };
        let what = match snapshot {
            Some(true) => "snapshot rot",
            Some(false) => "older snapshot rot",
            None => {
                let extents = disk.acknowledged(before);
                if extents.is_empty() {
                    return Ok(None);
                }
                corrupt(&mut disk.log, &extents, rng)
            }
        };
        let after = self.inspect_disk(index, &disk)?;
        let faults = |found: &Opened| found.damage.len() + found.bad_snapshots.len();
        let is_whole = before.damage.is_empty() && before.bad_snapshots.is_empty();
        // Segments that were released and are still there may be passed over.
        let is_needed = before.segments == after.found.segments;
        if is_whole && is_needed && faults(&after.found) == 0 {
            let what = format!(
                "replica {} did not notice {what}: before {before:?}, then {:?}",
                index + 1,
                after.found
            );
            return Err(Violation::new("damage", what));
        }
        self.totals.hit(what);
        Ok(Some(Damaged { disk, after }))
    }

    /// Whether a replica that starts on its disk as it is takes no part at first.
    pub(crate) fn would_be_out(&self, index: usize) -> bool {
        let inspection = self.inspect_disk(index, &self.nodes[index].disk);
        self.is_at_rest(index) && inspection.is_ok_and(|inspection| is_out(&inspection.found))
    }

    fn keep_damage(&mut self, index: usize, disk: Disk, found: &Opened) {
        let now_ns = self.queue.now_ns();
        self.trace.event(now_ns, "damage", &[index as u64], || {
            format!("r{} {found:?}", index + 1)
        });
        self.totals.hit("damage");
        if found.lost_promises {
            self.totals.hit("promises lost to damage");
        }
        if found.next < found.until {
            self.totals.hit("slots lost to damage");
        }
        let node = &mut self.nodes[index];
        node.disk = disk;
        node.damaged = true;
        node.lost |= is_out(found);
    }

    /// What a replica would find before its disk is damaged. What no mark on stable storage vouches
    /// for does not count as acknowledged: if power fails before the replica that has noticed its
    /// loss can write that down, it cannot be told any more from a torn tail.
    fn inspect_before_damage(
        &self,
        index: usize,
    ) -> Result<(Rc<Inspection<M, A>>, Opened), Violation> {
        let disk = &self.nodes[index].disk;
        let before = self.inspect_disk(index, disk)?;
        let settled = self.inspect_disk(index, &disk.settled())?;
        let mut found = before.found.clone();
        found.marked = found.marked.min(settled.found.marked);
        Ok((before, found))
    }
}

/// Whether a replica that finds this takes no part at first.
fn is_out(found: &Opened) -> bool {
    found.lost_promises || found.next < found.until
}

/// Whether no promise is lost, and every slot that one replica lacks is known to be decided by
/// another that has it.
fn are_enough_left(found: &[&Opened]) -> bool {
    let lacks = |found: &Opened, slot| {
        let mut missing = found.missing.iter();
        missing.any(|(from, to)| (*from..*to).contains(&slot))
    };
    found.iter().enumerate().all(|(me, mine)| {
        let missing = mine.missing.iter().flat_map(|(from, to)| from.0..to.0);
        !mine.lost_promises
            && missing.map(quorate_core::Slot).all(|slot| {
                let mut others = found.iter().enumerate().filter(|(other, _)| *other != me);
                others.any(|(_, other)| slot < other.until && !lacks(other, slot))
            })
    })
}
