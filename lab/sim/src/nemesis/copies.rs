//! Copies of data folders, taken while a replica runs or stands still, and put back later.
//!
//! An old copy counts as one of the failures that the protocol survives. It is put back where what the others
//! remember is enough to tell: they heard how far the promises went at least [`WINDOW_NS`] ago. Then the replica must
//! notice before its machine takes part, and no other fault strikes meanwhile.

use super::Sequel;
use crate::disk::Disk;
use crate::node::Power;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World, replica};
use quorate_core::{Incarnation, MILLIS, Machine};
use quorate_host::Position;

/// After so long the others have noted what they heard, in ns.
const WINDOW_NS: u64 = 500 * MILLIS;

/// A copy of a replica's folder.
pub(crate) struct FolderCopy {
    pub(super) disk: Disk,
    /// The life it was taken of.
    pub(super) life: Incarnation,
    /// When it is to be put back, once that is known.
    due_ns: Option<u64>,
    /// The replicas that remembered more than it holds when that became known, and how often each had started.
    rememberers: Vec<(usize, u32)>,
}

/// What is known of an old copy that was put back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OldCopy {
    /// The replica must notice before its machine takes part.
    Noticed,
    /// It is of a time before the replica made claims: whoever is told to take its messages refuses them.
    Refused,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Takes a copy of a folder, or prepares to put one back.
    pub(super) fn copy_or_put_back(&mut self) -> Result<(), Violation> {
        let index = self.nemesis.rng.usize(..self.nodes.len());
        let has_copy = self.nodes[index].copy.is_some();
        if has_copy && self.nemesis.rng.u8(..4) > 0 {
            return self.prepare_to_put_back(index);
        }
        self.copy_folder(index);
        Ok(())
    }

    pub(super) fn copy_folder(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.started || node.wiped || node.old_copy.is_some() {
            return;
        }
        let mut disk = node.disk.clone();
        disk.snapshots.crash(&mut self.nemesis.rng, None);
        let what = match &node.host {
            Some(_) => {
                disk.crash(&mut self.nemesis.rng);
                "folder copied while it was in use"
            }
            None => "folder copied while it was not in use",
        };
        node.copy = Some(FolderCopy {
            disk,
            life: node.disk_life,
            due_ns: None,
            rememberers: Vec::new(),
        });
        self.totals.hit(what);
    }

    fn prepare_to_put_back(&mut self, index: usize) -> Result<(), Violation> {
        let Some((rememberers, _)) = self.rememberers(index)? else {
            return Ok(());
        };
        let lives = rememberers.iter().map(|other| self.nodes[*other].life);
        let rememberers = rememberers.iter().copied().zip(lives).collect();
        let due_ns = self.queue.now_ns() + WINDOW_NS;
        if let Some(copy) = &mut self.nodes[index].copy {
            copy.due_ns = Some(due_ns);
            copy.rememberers = rememberers;
            let sequel = Sequel::PutBack { node: index };
            self.queue.after(WINDOW_NS, Event::Sequel(sequel));
        }
        Ok(())
    }

    /// The replicas that remember more than a copy holds, if one may be put back and they are enough to tell; and
    /// whether it would notice itself.
    fn rememberers(&self, index: usize) -> Result<Option<(Vec<usize>, OldCopy)>, Violation> {
        let (node, n) = (&self.nodes[index], self.nodes.len());
        let Some(copy) = node
            .copy
            .as_ref()
            .filter(|copy| copy.life == node.disk_life)
        else {
            return Ok(None);
        };
        let failures = self.setup.failures_survived;
        let old = self.nodes.iter().filter(|node| node.old_copy.is_some());
        let is_calm = self.nodes.iter().all(|node| node.host.is_some());
        let is_too_much = old.count() + self.without_promises(index) >= failures
            || self.newest_epoch().number > 1
            || node.old_copy.is_some()
            || !self.may_lose_fragments(index)?;
        if !is_calm || is_too_much {
            return Ok(None);
        }
        let inspection = self.inspect_disk(index, &copy.disk)?;
        let (kind, needed) = match inspection.host.look().claims() {
            true => (OldCopy::Noticed, n - 1 - failures),
            false => (OldCopy::Refused, n - 1),
        };
        let holds: (u64, Position) = inspection.host.look().began();
        let remembers = |other: &usize| {
            let host = self.nodes[*other].host.as_ref();
            host.is_some_and(|host| host.look().remembers(replica(index)) > Some(holds))
        };
        let others = (0..n).filter(|other| *other != index);
        let rememberers: Vec<usize> = others.filter(remembers).collect();
        Ok((rememberers.len() >= needed).then_some((rememberers, kind)))
    }

    /// Puts a copy back in the place of the folder, at times while everything restarts.
    pub(super) fn put_back(&mut self, index: usize) -> Result<(), Violation> {
        let Some((rememberers, kind)) = self.rememberers(index)? else {
            return Ok(());
        };
        let now_ns = self.queue.now_ns();
        let is_due = |copy: &mut FolderCopy| copy.due_ns == Some(now_ns);
        let Some(copy) = self.nodes[index].copy.take_if(is_due) else {
            return Ok(());
        };
        let is_same = |(other, life): &(usize, u32)| {
            rememberers.contains(other) && self.nodes[*other].life == *life
        };
        if !copy.rememberers.iter().all(is_same) {
            return Ok(());
        }
        self.totals.hit("old copy put back");
        self.network.mend_all();
        if self.nemesis.rng.bool() {
            self.totals.hit("old copy put back in a blackout");
            let others = (0..self.nodes.len()).filter(|other| *other != index);
            others.for_each(|other| self.crash(other));
        }
        self.end_life(index, Power::Fails);
        let node = &mut self.nodes[index];
        node.disk = copy.disk;
        node.old_copy = Some(kind);
        (node.started, node.lost, node.damaged) = (true, true, true);
        let delay = self.nemesis.rng.u64(..=self.plan.outage_max_ns);
        self.queue.after(delay, Event::Restart { node: index });
        Ok(())
    }

    /// Whether a replica runs on an old copy and has not noticed yet.
    pub(crate) fn has_old_copy(&self) -> bool {
        self.nodes.iter().any(|node| node.old_copy.is_some())
    }

    /// A replica says that its folder is an old copy.
    pub(crate) fn rolled_back(&mut self, index: usize) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        if node.old_copy.take().is_none() && !node.damaged {
            let what = format!("replica {} takes its own log for an old copy", index + 1);
            return Err(Violation::new("old copies", what));
        }
        node.lost = true;
        self.totals.hit("old copy noticed");
        Ok(())
    }

    /// No machine takes part on an old copy that its replica can notice.
    pub(crate) fn check_old_copy(&self, index: usize) -> Result<(), Violation> {
        let node = &self.nodes[index];
        let takes_part = node
            .host
            .as_ref()
            .is_some_and(|host| host.look().machine().is_some());
        if node.old_copy == Some(OldCopy::Noticed) && takes_part {
            let what = format!(
                "replica {} takes part on an old copy of its folder",
                index + 1
            );
            return Err(Violation::new("old copies", what));
        }
        Ok(())
    }
}
