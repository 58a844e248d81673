//! Putting a fetched snapshot in the place of the own state.

use super::{Kept, SnapshotHandler};
use crate::api::{HostEvent, SnapshotId};
use quorate_core::{Application, Machine};

impl<M: Machine, A: Application> SnapshotHandler<'_, M, A> {
    /// The state before the snapshot's slot is now the one that was fetched. The log may have a gap before it, so no
    /// older snapshot is of use. Only the snapshot after this one releases anything: until then this is the only one.
    pub(crate) fn installed(&mut self, id: SnapshotId) {
        self.forget_before(id);
        self.snapshots.installed_total += 1;
        let slot = id.slot;
        self.context
            .effects
            .events
            .push(HostEvent::Installed { slot });
    }

    fn forget_before(&mut self, id: SnapshotId) {
        let storage = &mut self.context.storage;
        storage.decided.restart(id.slot);
        let Some(log) = &storage.log else { return };
        let tail = log.tail();
        let places = [
            storage.retained.first_place_from(id.slot),
            self.repair.first_noted(id.slot),
        ];
        let from = places.into_iter().flatten().min();
        let compared = !self.context.applier.app().has_cut_digests();
        self.snapshots.storing.clear();
        self.snapshots.kept.clear();
        self.snapshots.kept.push_back(Kept {
            slot: id.slot,
            bytes: id.bytes,
            digest: id.digest,
            compared: compared.then_some(id.digest),
            from: from.map_or(tail, |place| place.min(tail)),
            asked_ns: None,
        });
    }
}
