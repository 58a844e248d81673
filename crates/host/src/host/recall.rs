//! Claims of progress, heard and made, and what a replica does that turns out to run on an old copy of its folder.

use super::Host;
use crate::api::HostEvent;
use crate::flaw::Flaw;
use crate::frame::{Body, Header};
use crate::log::{Kind, LogWriter, Position};
use crate::rollback::{ASK_NS, CLAIM_NS, Claim, NOTE_NS, Remembered, WAIT_NS};
use crate::timers::Timer;
use crate::version::REMEMBERING_LEVEL;
use quorate_core::{
    Application, Encoder, Incarnation, Machine, Member, Now, Peers, ReplicaId, Wire,
};

impl<M: Machine, A: Application> Host<M, A> {
    /// What frames say of this replica's promises.
    pub(super) fn claim(&self) -> Option<Claim> {
        let log = self.log.as_ref()?;
        let promised = match self.limits.flaw {
            Some(Flaw::ClaimsTooEarly) => log.tail(),
            _ => log.promised(),
        };
        self.rollback.claim(promised)
    }

    /// A frame of the newest epoch claims something of its sender's promises.
    pub(super) fn hear_claim(&mut self, now: Now, from: ReplicaId, header: &Header) {
        let Some(claim) = header.claim.filter(|_| header.epoch == self.epoch().number) else {
            return;
        };
        if let Some(member) = self.member(from) {
            self.rollback.hear(member, &claim);
            self.note_soon(now);
        }
    }

    /// Whether a peer that sends messages claims less than is remembered of it. It is told what is remembered.
    pub(super) fn is_outdated(&mut self, from: ReplicaId, claim: Option<&Claim>) -> bool {
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
    pub(super) fn tell_progress(&mut self, peer: ReplicaId, incarnation: Incarnation) {
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
    /// answers itself.
    pub(super) fn hear_progress(
        &mut self,
        now: Now,
        from: ReplicaId,
        remembered: Option<&Remembered>,
        waits: bool,
    ) {
        let is_forgotten = self.rollback.answered(from, remembered, waits);
        if let Some(known) = remembered.filter(|_| is_forgotten) {
            self.lose_promises(from, known);
        }
        self.stop_waiting(now);
    }

    /// Before the machine of an intact replica starts, peers are asked what they remember of it, if it has made
    /// claims.
    pub(super) fn wait_for_memory(&mut self, now: Now) {
        let is_alone = self.others().is_empty();
        if self.log.is_some() && self.rollback.has_claimed() && !is_alone {
            self.rollback.wait(now.mono_ns + WAIT_NS);
            self.arm(Timer::Ask, now.mono_ns + ASK_NS);
        }
    }

    /// A connection to a peer came up: it may not have heard the question, or have begun anew.
    pub(super) fn ask_memory(&mut self, peer: ReplicaId) {
        if self.rollback.asks(peer) {
            let incarnation = self.transition.me().incarnation;
            self.post_claim(peer, &Body::AskRemembered { incarnation });
        }
    }

    /// It is time to ask again, or to go on without answers.
    pub(super) fn ask_again(&mut self, now: Now) {
        self.stop_waiting(now);
        if self.rollback.is_waiting() {
            let peers: Vec<ReplicaId> = self.transition.peers().to_vec();
            peers.into_iter().for_each(|peer| self.ask_memory(peer));
            self.arm(Timer::Ask, now.mono_ns + ASK_NS);
        }
    }

    fn stop_waiting(&mut self, now: Now) {
        if self.rollback.is_waiting() {
            let (others, failures) = (self.others(), self.applier.failures());
            self.rollback.stop_waiting(&others, failures, now.mono_ns);
        }
    }

    /// What this replica promised since is gone with its folder, and peers rest on it: it begins again without any
    /// promises, and takes part when it has recovered.
    fn lose_promises(&mut self, peer: ReplicaId, known: &Remembered) {
        let Some(log) = &mut self.log else {
            return;
        };
        let losses = known.progress.losses.saturating_add(1);
        let at = append_lost(log, losses);
        self.rollback.lose(losses, at);
        if self.rollback.has_claimed() {
            self.append_note();
        }
        self.fall_silent();
        self.events.push(HostEvent::RolledBack {
            peer,
            remembered: known.progress.at,
            found: at,
        });
        self.restart_without_promises();
    }

    /// A flush was performed.
    pub(super) fn progress_flushed(&mut self, now: Now, promised_before: Position) {
        let Some(log) = &self.log else { return };
        if self
            .rollback
            .writing()
            .is_some_and(|end| log.is_durable(end))
        {
            self.rollback.written();
        }
        if log.promised() > promised_before && !self.is_armed(Timer::Claim) {
            self.arm(Timer::Claim, now.mono_ns + CLAIM_NS);
        }
    }

    /// Peers that heard nothing since the last promise became durable hear of it.
    pub(super) fn claim_again(&mut self) {
        if self.claim().is_some() {
            self.post(Peers::All, &Body::Beat);
        }
    }

    /// Has the log say what is news, if the group knows such records.
    pub(super) fn note_soon(&mut self, now: Now) {
        let is_known = self.epochs().level >= REMEMBERING_LEVEL || self.rollback.has_claimed();
        let is_due = self.log.is_some() && self.rollback.is_news() && is_known;
        if is_due && !self.is_armed(Timer::Note) {
            self.arm(Timer::Note, now.mono_ns + NOTE_NS);
        }
    }

    /// Writes the news down. If no flush takes that along, it gets one.
    pub(super) fn note_progress(&mut self, now: Now) {
        if self.limits.flaw == Some(Flaw::ClaimsNotNoted) && self.rollback.has_claimed() {
            return;
        }
        if self.rollback.is_news() {
            self.append_note();
            self.arm(Timer::Note, now.mono_ns + NOTE_NS);
        } else if let Some(log) = &mut self.log
            && self
                .rollback
                .writing()
                .is_some_and(|end| !log.is_durable(end))
        {
            log.want_sync();
        }
    }

    fn append_note(&mut self) {
        let Some(log) = &mut self.log else { return };
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

    /// How far this replica remembers the promises of a member to go: how often it lost them, and where in its log
    /// the last one since ends.
    #[must_use]
    pub fn remembers(&self, peer: ReplicaId) -> Option<(u64, Position)> {
        let known = self.rollback.remembered(self.member(peer)?)?;
        Some((known.progress.losses, known.progress.at))
    }

    /// How far the promises went that this replica started with, or lost last.
    #[must_use]
    pub fn began(&self) -> (u64, Position) {
        let began = self.rollback.noted().began();
        (began.losses, began.at)
    }

    /// Whether this replica may have told peers how far its promises go, and asks them when it starts.
    #[must_use]
    pub fn claims(&self) -> bool {
        self.rollback.has_claimed()
    }

    /// The member of the newest epoch with this number.
    fn member(&self, id: ReplicaId) -> Option<Member> {
        let mut members = self.epoch().members.iter();
        members.find(|member| member.id == id).copied()
    }

    /// The other members of the newest epoch.
    pub(super) fn others(&self) -> Vec<ReplicaId> {
        let members = self.epoch().members.iter().map(|member| member.id);
        members.filter(|id| *id != self.seat.me).collect()
    }
}

/// Appends that the promises before it count no more; says where.
pub(crate) fn append_lost(log: &mut LogWriter, losses: u64) -> Position {
    let mut body = Encoder::new();
    body.varint(losses);
    log.append(Kind::Lost, body, true).0
}
