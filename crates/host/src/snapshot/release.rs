//! Giving up the part of the log that snapshots cover.
//!
//! Two snapshots stay on the disk, and the log from the older one on: if the newer one turns out
//! to be damaged, the older one and the log give the same state. What the machine still needs of
//! the part that goes is appended again first, and so is a record of where the log begins now; when
//! that is durable, the driver may delete.

use super::{Release, Snapshots};
use crate::flaw::Flaw;
use crate::host::Host;
use crate::log::{Kind, Position, encode_release};
use quorate_core::{Application, Machine, Now, Record};

/// Snapshots that stay.
const KEPT: usize = 2;
/// Snapshots that stay, at most, while a peer fetches one of them.
const KEPT_FOR_PEERS_MAX: usize = 4;
/// How long after it asked for a part of a snapshot a peer is taken to be fetching it, in ns.
const FETCHING_NS: u64 = 5_000_000_000;

impl<M: Machine, A: Application> Host<M, A> {
    /// A snapshot has become durable: prepares the release of what it makes superfluous.
    pub(super) fn release_log(&mut self, now: Now) {
        if self.snapshots.kept.len() < KEPT {
            return;
        }
        let superfluous = self.superfluous(now);
        self.snapshots.kept.drain(..superfluous);
        let oldest = self.snapshots.kept[0];
        let Some(log) = &self.log else { return };
        let place = self.decided.first_place(oldest.slot);
        let from = oldest.from.min(place.unwrap_or_else(|| log.tail()));
        let first = self.snapshots.first_to_keep(from.segment);
        self.carry_on(first);
        self.decided.release(oldest.slot);
        self.catch_up.forget_reads(first);
        let Some(log) = &mut self.log else { return };
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

    /// Appends again what is still needed and lies before this segment.
    fn carry_on(&mut self, segment: u64) {
        let end = Position { segment, offset: 0 };
        let next = self.decided.next();
        self.carry_on_epoch_record(end);
        self.carry_on_note(end);
        for record in self.retained.take_before(end, next) {
            let is_dropped =
                self.limits.flaw == Some(Flaw::ScalarsNotCarried) && record.scalar().is_some();
            if !is_dropped {
                self.append_record(record, true);
            }
        }
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
