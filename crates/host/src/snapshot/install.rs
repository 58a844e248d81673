//! Putting a fetched snapshot in the place of the own state.

use super::{Kept, SnapshotId};
use crate::api::{Answer, HostEvent};
use crate::apply::Applied;
use crate::host::{Host, answer};
use crate::requests::OwnSession;
use crate::sessions::Known;
use quorate_core::{Application, Machine, Now, Record, Refusal, RequestId};

impl<M: Machine, A: Application> Host<M, A> {
    /// The fetched snapshot is as durable as it will ever be: installs it, unless this replica has
    /// got beyond it meanwhile.
    pub(super) fn install_pulled(&mut self, now: Now) {
        let Some((id, loaded)) = self.take_pulled() else {
            return;
        };
        if id.slot <= self.applied() {
            return;
        }
        self.release_cut();
        let epoch_before = self.applier.newest().number;
        (self.applier, self.base) = loaded.into_applier(&self.applier);
        self.forget_before(id);
        self.snapshots.installed_total += 1;
        self.events.push(HostEvent::Installed { slot: id.slot });
        self.settle_requests();
        if self.applier.newest().number > epoch_before {
            self.note_seal(now);
        }
        self.payloads_installed();
        self.installed(now);
        self.go_on_from_own_log(now);
        self.answer_reads(now);
        self.arm_beat(now, 0);
        self.fetch_if_behind(now, None);
    }

    /// The log may have a gap before the snapshot now, so no older one is of use. Only the snapshot
    /// after this one releases anything: until then this is the only one.
    fn forget_before(&mut self, id: SnapshotId) {
        self.decided.restart(id.slot);
        let Some(log) = &self.log else { return };
        let tail = log.tail();
        let places = [
            self.retained.first_place_from(id.slot),
            self.repair.first_noted(id.slot),
        ];
        let from = places.into_iter().flatten().min();
        self.snapshots.storing.clear();
        self.snapshots.kept.clear();
        self.snapshots.kept.push_back(Kept {
            slot: id.slot,
            bytes: id.bytes,
            digest: id.digest,
            from: from.map_or(tail, |place| place.min(tail)),
            asked_ns: None,
        });
    }

    /// Requests that were executed within the skipped part are answered from the sessions. Where
    /// the result is gone, whoever waits learns that nobody knows, instead of nothing.
    fn settle_requests(&mut self) {
        let next = self.applied();
        let settled = self.retained.installed(next, &self.base);
        self.settle_own_session();
        for id in self.requests.writes() {
            if let Some((slot, result)) = self.applier.result(id) {
                self.answer_write(id, Applied::Result(slot, result));
            } else if matches!(
                self.applier.sessions().known(id),
                Known::Forgotten | Known::Ended
            ) {
                self.answer_write(id, Applied::Refused(Refusal::Unknown));
            }
        }
        for id in self.requests.early() {
            let is_decided = self.applier.result(id).is_some()
                || self.applier.sessions().known(id) != Known::Open;
            if is_decided {
                self.requests.decided(id);
            }
        }
        let entries = settled.iter().filter_map(Record::entry);
        for command in entries.flat_map(|entry| entry.commands()).flatten() {
            self.answer_write(command.id, Applied::Refused(Refusal::Unknown));
        }
    }

    /// The own session may have been opened, or have ended, within the skipped part.
    fn settle_own_session(&mut self) {
        let opening = self.requests.opening_id();
        match self.applier.sessions().known(opening) {
            Known::Open | Known::Forgotten => self.requests.set_session(OwnSession::Open),
            Known::Ended => self.requests.session_lost(opening.client),
            Known::Nothing => {}
        }
    }

    fn answer_write(&mut self, id: RequestId, applied: Applied) {
        if let Some(waiting) = self.requests.take_write(id) {
            let answer: Answer<A::Answer> = answer(applied);
            self.answers.push((waiting.token, answer));
        }
    }
}
