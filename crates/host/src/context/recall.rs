//! Claims of progress, heard and made, and what a replica does that turns out to run on an old copy of its folder.

use super::Context;
use crate::api::HostEvent;
use crate::flaw::Flaw;
use crate::frame::{Body, Header};
use crate::log::{Kind, LogWriter};
use crate::position::Position;
use crate::rollback::{ASK_NS, CLAIM_NS, Claim, NOTE_NS, Remembered, WAIT_NS};
use crate::timers::Timer;
use crate::version::REMEMBERING_LEVEL;
use quorate_core::{
    Application, Encoder, Incarnation, Machine, Member, Now, Peers, ReplicaId, Wire,
};

impl<M: Machine, A: Application> Context<M, A> {
    /// What frames say of this replica's promises.
    pub(super) fn claim(&self) -> Option<Claim> {
        let log = self.storage.log.as_ref()?;
        let promised = match self.limits.flaw {
            Some(Flaw::ClaimsTooEarly) => log.tail(),
            _ => log.promised(),
        };
        self.rollback.claim(promised)
    }

    /// A frame of the newest epoch claims something of its sender's promises.
    pub(crate) fn hear_claim(&mut self, now: Now, from: ReplicaId, header: &Header) {
        let Some(claim) = header.claim.filter(|_| header.epoch == self.epoch().number) else {
            return;
        };
        if let Some(member) = self.member(from) {
            self.rollback.hear(member, &claim);
            self.note_soon(now);
        }
    }

    /// Whether a peer that sends messages claims less than is remembered of it. It is told what is remembered.
    pub(crate) fn is_outdated(&mut self, from: ReplicaId, claim: Option<&Claim>) -> bool {
        let is_blind = self.limits.flaw == Some(Flaw::ClaimsNotChecked);
        let Some(member) = self.member(from).filter(|_| !is_blind) else {
            return false;
        };
        let is_outdated = self.rollback.is_outdated(member, claim);
        if is_outdated {
            self.tell_progress(from, member.incarnation);
        }
        is_outdated
    }

    /// Tells a peer what is remembered of it, in this life.
    pub(crate) fn tell_progress(&mut self, peer: ReplicaId, incarnation: Incarnation) {
        let member = Member {
            id: peer,
            incarnation,
        };
        let remembered = self.rollback.remembered(member).copied();
        let body = Body::Remembered {
            incarnation,
            remembered,
            waits: self.rollback.is_waiting(),
        };
        self.post_claim(peer, &body);
    }

    /// A peer says what it remembers of this replica, if it means its present life, and whether it waits for such
    /// answers itself. Says whether it remembers promises that this replica has lost.
    pub(crate) fn hear_progress(
        &mut self,
        now: Now,
        from: ReplicaId,
        remembered: Option<&Remembered>,
        waits: bool,
    ) -> bool {
        let is_forgotten = self.rollback.answered(from, remembered, waits);
        let lost = remembered.filter(|_| is_forgotten && self.storage.log.is_some());
        if let Some(known) = lost {
            self.lose_promises(from, known);
        }
        self.stop_waiting(now);
        lost.is_some()
    }

    /// Before the machine of an intact replica starts, peers are asked what they remember of it, if it has made
    /// claims.
    pub(crate) fn wait_for_memory(&mut self, now: Now) {
        let is_alone = self.others().is_empty();
        if self.storage.log.is_some() && self.rollback.has_claimed() && !is_alone {
            self.rollback.wait(now.mono_ns + WAIT_NS);
            self.timers.arm(Timer::Ask, now.mono_ns + ASK_NS);
        }
    }

    /// A connection to a peer came up: it may not have heard the question, or have begun anew.
    pub(crate) fn ask_memory(&mut self, peer: ReplicaId) {
        if self.rollback.asks(peer) {
            let incarnation = self.membership.me.incarnation;
            self.post_claim(peer, &Body::AskRemembered { incarnation });
        }
    }

    /// It is time to ask again, or to go on without answers.
    pub(crate) fn ask_again(&mut self, now: Now) {
        self.stop_waiting(now);
        if self.rollback.is_waiting() {
            let peers: Vec<ReplicaId> = self.membership.peers.to_vec();
            peers.into_iter().for_each(|peer| self.ask_memory(peer));
            self.timers.arm(Timer::Ask, now.mono_ns + ASK_NS);
        }
    }

    fn stop_waiting(&mut self, now: Now) {
        if self.rollback.is_waiting() {
            let (others, failures) = (self.others(), self.applier.failures());
            self.rollback.stop_waiting(&others, failures, now.mono_ns);
        }
    }

    /// What this replica promised since is gone with its folder, and peers rest on it: the log says so.
    fn lose_promises(&mut self, peer: ReplicaId, known: &Remembered) {
        let Some(log) = &mut self.storage.log else {
            return;
        };
        let losses = known.progress.losses.saturating_add(1);
        let at = append_lost(log, losses);
        self.rollback.lose(losses, at);
        if self.rollback.has_claimed() {
            self.append_note();
        }
        self.effects.events.push(HostEvent::RolledBack {
            peer,
            remembered: known.progress.at,
            found: at,
        });
    }

    /// A flush was performed.
    pub(crate) fn progress_flushed(&mut self, now: Now, promised_before: Position) {
        let Some(log) = &self.storage.log else { return };
        if self
            .rollback
            .writing()
            .is_some_and(|end| log.is_durable(end))
        {
            self.rollback.written();
        }
        if log.promised() > promised_before && !self.timers.is_armed(Timer::Claim) {
            self.timers.arm(Timer::Claim, now.mono_ns + CLAIM_NS);
        }
    }

    /// Peers that heard nothing since the last promise became durable hear of it.
    pub(crate) fn claim_again(&mut self) {
        if self.claim().is_some() {
            self.post(Peers::All, &Body::Beat);
        }
    }

    /// Has the log say what is news, if the group knows such records.
    pub(crate) fn note_soon(&mut self, now: Now) {
        let is_known = self.epochs().level >= REMEMBERING_LEVEL || self.rollback.has_claimed();
        let is_due = self.storage.log.is_some() && self.rollback.is_news() && is_known;
        if is_due && !self.timers.is_armed(Timer::Note) {
            self.timers.arm(Timer::Note, now.mono_ns + NOTE_NS);
        }
    }

    /// Writes the news down. If no flush takes that along, it gets one.
    pub(crate) fn note_progress(&mut self, now: Now) {
        if self.limits.flaw == Some(Flaw::ClaimsNotNoted) && self.rollback.has_claimed() {
            return;
        }
        if self.rollback.is_news() {
            self.append_note();
            self.timers.arm(Timer::Note, now.mono_ns + NOTE_NS);
        } else if let Some(log) = &mut self.storage.log
            && self
                .rollback
                .writing()
                .is_some_and(|end| !log.is_durable(end))
        {
            log.want_sync();
        }
    }

    fn append_note(&mut self) {
        let Some(log) = &mut self.storage.log else {
            return;
        };
        let mut body = Encoder::new();
        self.rollback.noted().encode(&mut body);
        let (at, _) = log.append(Kind::Progress, body, false);
        self.rollback.appended(at, log.tail());
    }

    /// The last note goes on in the log, of which everything before `end` is released.
    pub(crate) fn carry_on_note(&mut self, end: Position) {
        if self.rollback.is_before(end) {
            self.append_note();
        }
    }
}

/// Appends that the promises before it count no more; says where.
pub(crate) fn append_lost(log: &mut LogWriter, losses: u64) -> Position {
    let mut body = Encoder::new();
    body.varint(losses);
    log.append(Kind::Lost, body, true).0
}
