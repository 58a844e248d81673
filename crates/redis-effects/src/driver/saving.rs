//! RDBs of the own server: when they are saved, and when they may be used.

use super::api::{Note, Output};
use super::control::Ask;
use super::office::Office;
use super::resp::is_saved;
use super::{Driver, MS};
use crate::mutant::Mutant;
use crate::rdb::{Rdb, offset_of};
use crate::shared::Base;
use quorate_resp::Reply;
use std::sync::Arc;

/// How often a server is asked whether it is done.
const POLL_NS: u64 = 100 * MS;
/// How long after a failure it is tried again.
const RETRY_NS: u64 = 10_000 * MS;

/// An RDB of which part is not accepted yet.
struct Candidate {
    /// The epoch in which it was saved, of an executor.
    epoch: u64,
    base: Base,
}

/// What is being saved.
#[derive(Default)]
pub(super) struct Saving {
    rank: u64,
    replicas: u64,
    under_way: bool,
    next_ns: u64,
    candidate: Option<Candidate>,
    /// The offset from which on somebody wants an RDB.
    wanted: u64,
}

impl Saving {
    pub(super) fn want(&mut self, offset: u64) {
        self.wanted = self.wanted.max(offset);
    }

    pub(super) fn set_place(&mut self, rank: u32, replicas: u32) {
        (self.rank, self.replicas) = (u64::from(rank), u64::from(replicas));
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.under_way
    }

    pub(super) fn forget_process(&mut self) {
        self.under_way = false;
        self.candidate = None;
    }

    pub(super) fn forget_candidate(&mut self) {
        self.candidate = None;
    }
}

impl Driver {
    /// Whether somebody waits for an RDB that is newer than those there are.
    pub(super) fn is_save_wanted(&self) -> bool {
        self.saving.wanted > self.shared.lock().base.offset
    }

    /// Whether an RDB is wanted, or the stream since the last one is long. Replicas do not save long streams at the
    /// same time.
    fn is_save_due(&self) -> bool {
        if self.is_save_wanted() {
            return true;
        }
        let inner = self.shared.lock();
        let step = self.config.history_bytes.max(inner.base.rdb.len());
        let shift = step * self.saving.rank / self.saving.replicas.max(1);
        inner.history.bytes() > step + shift
    }

    pub(super) fn advance_saving(&mut self) {
        if self.now_ns < self.saving.next_ns || !self.control.is_open() {
            return;
        }
        let is_asked = self.control.is_asked(Ask::Save) || self.control.is_asked(Ask::Saving);
        let is_steady = matches!(self.office, Office::Executing(_)) || self.is_following();
        if is_asked || !is_steady {
            return;
        }
        if self.saving.under_way {
            self.saving.next_ns = self.now_ns + POLL_NS;
            self.ask(Ask::Saving, &["INFO", "persistence"]);
        } else if self.saving.candidate.is_none() && self.is_save_due() {
            self.saving.under_way = true;
            self.ask(Ask::Save, &["BGSAVE"]);
        }
    }

    pub(super) fn save_begun(&mut self, is_ok: bool) {
        self.saving.under_way = is_ok;
        if !is_ok {
            self.saving.next_ns = self.now_ns + RETRY_NS;
        }
    }

    pub(super) fn save_told(&mut self, reply: &Reply) {
        match is_saved(reply) {
            Some(true) => {
                let life = self.server.life;
                self.saving.next_ns = u64::MAX;
                self.out.push_back(Output::CollectRdb { life });
            }
            Some(false) => {
                self.saving.under_way = false;
                self.saving.next_ns = self.now_ns + RETRY_NS;
            }
            None => {}
        }
    }

    pub(super) fn rdb_saved(&mut self, rdb: Option<Arc<dyn Rdb>>) {
        self.saving.under_way = false;
        self.saving.next_ns = self.now_ns + POLL_NS;
        let found = rdb.and_then(|rdb| offset_of(&*rdb).map(|offset| Base { rdb, offset }));
        let Some(base) = found else {
            self.saving.next_ns = self.now_ns + RETRY_NS;
            return;
        };
        match &self.office {
            Office::Executing(_) if self.config.mutant == Some(Mutant::RdbAhead) => {
                let offset = base.offset.min(self.stream.len);
                self.rebase(Base { offset, ..base });
            }
            Office::Executing(office) => {
                let epoch = office.epoch;
                self.saving.candidate = Some(Candidate { epoch, base });
            }
            // What a follower has is accepted.
            Office::None if self.link.fed().is_some_and(|fed| base.offset <= fed) => {
                self.rebase(base);
            }
            _ => {}
        }
    }

    /// V7: an executor's RDB is used once the stream is as long, in the same epoch.
    pub(super) fn adopt_rdb(&mut self) {
        let (len, epoch) = (self.stream.len, self.stream.epoch);
        let is_due = self
            .saving
            .candidate
            .as_ref()
            .is_some_and(|candidate| candidate.epoch == epoch && candidate.base.offset <= len);
        if is_due && let Some(candidate) = self.saving.candidate.take() {
            self.rebase(candidate.base);
        }
    }

    /// The epoch of an executor ended at this length of the stream.
    pub(super) fn judge_candidate(&mut self, end: Option<u64>) {
        let Some(candidate) = self.saving.candidate.take() else {
            return;
        };
        if end.is_some_and(|end| candidate.base.offset <= end) {
            self.rebase(candidate.base);
        }
    }

    fn rebase(&mut self, base: Base) {
        let offset = base.offset;
        if self.shared.lock().rebase(base) {
            self.note(Note::Saved { offset });
        }
    }
}
