//! Giving up the part of the log that snapshots cover.
//!
//! Two snapshots stay on the disk, and the log from the older one on: if the newer one turns out
//! to be damaged, the older one and the log give the same state. What the machine still needs of
//! the part that goes is appended again first, and so is a record of where the log begins now; when
//! that is durable, the driver may delete.

use super::{Release, SnapshotHandler, Snapshots};
use crate::log::{Kind, encode_release};
use quorate_core::{Application, Machine, Now};

/// Snapshots that stay.
const KEPT: usize = 2;
/// Snapshots that stay, at most, while a peer fetches one of them.
const KEPT_FOR_PEERS_MAX: usize = 4;
/// How long after it asked for a part of a snapshot a peer is taken to be fetching it, in ns.
const FETCHING_NS: u64 = 5_000_000_000;

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// A snapshot has become durable: gives up those that it makes superfluous. Returns the first segment of the log
    /// that is still needed: what the parts of the host need of those before is to be appended again, and then
    /// [`Self::release_log`] is called.
    pub(super) fn drop_superfluous(&mut self, now: Now) -> Option<u64> {
        if self.snapshots.kept.len() < KEPT {
            return None;
        }
        let superfluous = self.superfluous(now);
        self.snapshots.kept.drain(..superfluous);
        let oldest = self.snapshots.kept[0];
        let storage = &self.context.storage;
        let tail = storage.log.as_ref()?.tail();
        let place = storage.decided.first_place(oldest.slot);
        let from = oldest.from.min(place.unwrap_or(tail));
        Some(self.snapshots.first_to_keep(from.segment))
    }

    /// Gives up the log before this segment, once it is durable that it begins there.
    pub(crate) fn release_log(&mut self, first: u64) {
        let oldest = self.snapshots.kept[0];
        self.context.storage.decided.release(oldest.slot);
        self.catch_up.forget_reads(first);
        let Some(log) = &mut self.context.storage.log else {
            return;
        };
        log.append(Kind::Release, encode_release(first), true);
        let release = Release {
            segments_before: first,
            snapshots_before: oldest.slot,
        };
        self.snapshots.release = Some((log.tail(), release));
    }

    /// How many of the oldest snapshots are not needed. What follows a snapshot that a peer is
    /// fetching stays in the log for a while, or the peer could never get from one to the other.
    fn superfluous(&self, now: Now) -> usize {
        let kept = &self.snapshots.kept;
        let is_fetched = |asked: Option<u64>| {
            asked.is_some_and(|asked_ns| now.mono_ns < asked_ns.saturating_add(FETCHING_NS))
        };
        let usual = kept.len() - KEPT;
        let first = kept.len().saturating_sub(KEPT_FOR_PEERS_MAX);
        (first..usual)
            .find(|index| is_fetched(kept[*index].asked_ns))
            .unwrap_or(usual)
    }
}

impl<M: Machine, A: Application> Snapshots<M, A> {
    /// Where the log may begin if what it holds from this segment on is needed: not with one whose
    /// first records are damaged.
    fn first_to_keep(&self, needed: u64) -> u64 {
        let mut first = needed;
        while self.ragged.contains(&first) {
            first -= 1;
        }
        first
    }
}
