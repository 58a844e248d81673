//! Taking a snapshot of the own state: frozen at one slot, read out a piece at a time.

use super::format::{Framer, Header, Kind};
use super::load::HostState;
use super::serve::InMemory;
use super::{Kept, SnapshotHandler, SnapshotWrite};
use crate::api::{Limits, SnapshotId};
use crate::flaw::Flaw;
use crate::position::Position;
use bytes::Bytes;
use quorate_core::{Application, Machine, Slot, Wire};
use std::collections::VecDeque;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A snapshot that is being taken.
pub(super) struct Cutting<A: Application> {
    slot: Slot,
    cut: A::Cut,
    /// What is compared in the place of the bytes, for an application whose pieces differ from replica to replica.
    compared: Option<u64>,
    /// Pieces that go before the application's: small, so made at the cut.
    first: VecDeque<(Kind, Bytes)>,
    framer: Framer,
    /// Where the log goes on at the cut ([`Kept::from`]).
    from: Position,
    /// The bytes so far, of a replica without a log.
    memory: Vec<Bytes>,
}

impl<A: Application> Cutting<A> {
    pub(super) fn slot(&self) -> Slot {
        self.slot
    }
}

/// Bytes applied between two snapshots, for each byte of the first: a state that stays as long as it is costs the disk
/// a fourth of what its log does.
const STEP_PER_LENGTH: u64 = 4;
/// Bytes applied between two snapshots that are enough, if the first is no longer than that: a log beyond would be long
/// to keep and to replay.
const LONG_STEP_BYTES: u64 = 1 << 30;

/// Whether a snapshot is due when the first slot not applied is `next`, and the bytes applied went
/// from `before` to `after`.
///
/// A function of the decided prefix, so that replicas take theirs at the same slots and can compare
/// them. `last_bytes`, the length of the last one, differs where one was left out, by little; so it
/// only chooses among steps of which the longer are multiples of the shorter.
fn is_due(limits: &Limits, next: Slot, (before, after): (u64, u64), last_bytes: u64) -> bool {
    let many = last_bytes.saturating_mul(STEP_PER_LENGTH);
    let wanted = many.min(last_bytes.max(LONG_STEP_BYTES));
    let (mut bytes, mut slots) = (limits.snapshot_bytes, limits.snapshot_slots);
    while bytes > 0 && bytes < wanted {
        bytes = bytes.saturating_mul(2);
        slots = slots.saturating_mul(2);
    }
    let by_slots = slots > 0 && next.0.is_multiple_of(slots);
    by_slots || bytes > 0 && before / bytes != after / bytes
}

/// A digest of what the application compares, and of the host's own pieces.
fn with_host(of_application: u64, first: &VecDeque<(Kind, Bytes)>) -> u64 {
    let bodies = first.iter().map(|(_, body)| body);
    bodies.fold(of_application, |digest, body| {
        xxh3_64_with_seed(body, digest)
    })
}

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// A slot was applied. Only replicas with a log take snapshots unasked: the others have nothing
    /// to release.
    pub(crate) fn cut_if_due(&mut self, bytes_before: u64) {
        if self.context.storage.log.is_none() {
            return;
        }
        let bytes = (bytes_before, self.context.applier.bytes_total());
        let last_bytes = self.snapshots.kept.back().map_or(0, |kept| kept.bytes);
        if is_due(
            &self.context.limits,
            self.context.applier.next(),
            bytes,
            last_bytes,
        ) {
            self.cut();
        }
    }

    /// Begins a snapshot of the state as it is, unless one is being taken or fetched.
    pub(super) fn cut(&mut self) {
        let busy = self.snapshots.cutting.is_some() || self.snapshots.pull.is_some();
        // What waits in the log behind missing slots lies before where this snapshot would begin.
        if busy || !self.snapshots.storing.is_empty() || self.repair.is_under_way() {
            return;
        }
        self.context.applier.take_back();
        let slot = self.context.applier.next();
        let piece_bytes = self.context.limits.snapshot_piece_bytes;
        let header = Header::new(self.snapshots.cluster, self.context.seat.group, slot);
        let base = match self.context.limits.flaw {
            Some(Flaw::BaseNotCarried) => M::Base::default(),
            _ => self.context.base.clone(),
        };
        let applied = self.context.applier.state();
        let state = HostState { applied, base };
        let mut first = VecDeque::from([
            (Kind::Header, header.to_bytes()),
            (Kind::Host, state.to_bytes()),
        ]);
        let sessions = self.context.applier.sessions().pieces(piece_bytes);
        if self.context.limits.flaw != Some(Flaw::SessionsNotCarried) {
            first.extend(sessions.into_iter().map(|piece| (Kind::Sessions, piece)));
        }
        let tail = self
            .context
            .storage
            .log
            .as_ref()
            .map_or(Position::default(), |log| log.tail());
        if self.context.storage.log.is_some() {
            self.snapshots.writes.push(SnapshotWrite::Begin { slot });
        } else {
            // Whoever it is for will ask for what follows it.
            self.context.storage.decided.hold(Some(slot));
        }
        let app = self.context.applier.app_mut();
        let cut = app.cut();
        let compared = app.cut_digest(&cut);
        self.snapshots.cutting = Some(Cutting {
            slot,
            cut,
            compared: compared.map(|digest| with_host(digest, &first)),
            first,
            framer: Framer::default(),
            from: self
                .context
                .storage
                .retained
                .first_slot_place()
                .map_or(tail, |place| place.min(tail)),
            memory: Vec::new(),
        });
    }

    /// Takes the next piece, if the driver keeps up; says whether there is more to take.
    pub(crate) fn cut_piece(&mut self) -> bool {
        if self.snapshots.is_full() {
            return false;
        }
        let Some(cutting) = &mut self.snapshots.cutting else {
            return false;
        };
        let piece_bytes = self.context.limits.snapshot_piece_bytes;
        let app = self.context.applier.app_mut();
        let next = cutting.first.pop_front().or_else(|| {
            let piece = app.piece(&mut cutting.cut, piece_bytes);
            piece.map(|piece| (Kind::App, piece))
        });
        if next.as_ref().is_some_and(|(_, piece)| piece.is_empty()) {
            return true;
        }
        let is_last = next.is_none();
        let (kind, body) = next.unwrap_or_else(|| (Kind::End, cutting.framer.end()));
        let offset = cutting.framer.offset();
        let head = cutting.framer.head(kind, &body);
        if self.context.storage.log.is_none() {
            cutting.memory.extend([head, body]);
        } else {
            let offset = self.snapshots.write(offset, head);
            self.snapshots.write(offset, body);
        }
        if is_last {
            self.end_cut();
        }
        !is_last
    }

    fn end_cut(&mut self) {
        let Some(cutting) = self.snapshots.cutting.take() else {
            return;
        };
        let id = SnapshotId {
            slot: cutting.slot,
            bytes: cutting.framer.offset(),
            digest: cutting.framer.digest(),
        };
        let compared = cutting.compared.unwrap_or(id.digest);
        if self.context.storage.log.is_none() {
            self.snapshots.memory = Some(InMemory::new(id, compared, cutting.memory));
            return self.taken(SnapshotId {
                digest: compared,
                ..id
            });
        }
        let (slot, bytes) = (id.slot, id.bytes);
        self.snapshots
            .writes
            .push(SnapshotWrite::End { slot, bytes });
        self.snapshots.storing.push_back(Kept {
            slot,
            bytes,
            digest: id.digest,
            compared: Some(compared),
            from: cutting.from,
            asked_ns: None,
        });
    }

    /// Gives up the snapshot being taken: nothing stays pinned for it.
    pub(crate) fn release_cut(&mut self) {
        if let Some(cutting) = self.snapshots.cutting.take() {
            self.context.applier.app_mut().release(cutting.cut);
        }
    }

    /// Gives up the snapshot being taken, and its file.
    pub(super) fn abandon_cut(&mut self) {
        if let Some(cutting) = &self.snapshots.cutting {
            let slot = cutting.slot;
            if self.context.storage.log.is_some() {
                self.snapshots.writes.push(SnapshotWrite::Abandon { slot });
            }
            self.release_cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ends of prefixes, of slots of 10 bytes each, at which a snapshot is due.
    fn due(limits: &Limits, last_bytes: u64) -> Vec<u64> {
        let is_due = |next: &u64| {
            let bytes = ((next - 1) * 10, next * 10);
            is_due(limits, Slot(*next), bytes, last_bytes)
        };
        (1..=40).filter(is_due).collect()
    }

    #[test]
    fn a_long_state_does_not_make_the_log_longer_than_it_is_itself() {
        let limits = Limits::default();
        let is_due = |at: u64, last: u64| is_due(&limits, Slot(1), (at - 1, at), last);
        let dues = |last: u64| {
            (1..=(4 * LONG_STEP_BYTES) >> 20).filter(move |it| is_due(it << 20, last << 20))
        };
        let first = |last: u64| dues(last).next();
        assert_eq!([0, 32, 33].map(first), [Some(128), Some(128), Some(256)]);
        assert_eq!([256, 1024].map(first), [Some(1024); 2]);
        assert_eq!(first(1025), Some(2048));
    }

    #[test]
    fn snapshots_are_due_by_number_and_by_length_and_long_ones_less_often() {
        let limits = |snapshot_slots, snapshot_bytes| Limits {
            snapshot_slots,
            snapshot_bytes,
            ..Limits::default()
        };
        assert_eq!(due(&limits(0, 0), 0), [0; 0]);
        assert_eq!(due(&limits(15, 0), 0), [15, 30]);
        assert_eq!(due(&limits(0, 95), 0), [10, 19, 29, 38]);
        assert_eq!(due(&limits(0, 95), 23), [10, 19, 29, 38]);
        assert_eq!(due(&limits(0, 95), 24), [19, 38], "each second of those");
        assert_eq!(due(&limits(0, 95), 75), [38]);
        assert_eq!(due(&limits(15, 95), 24), [19, 30, 38], "by number, too");
        assert_eq!(due(&limits(15, 0), 300), [15, 30]);
    }
}
