//! Who leads: suspicion, pre-votes, votes.
//!
//! Time decides only when somebody stands, never who has won. A replica for which something waits and that
//! has heard nothing of a leader for one to two timeouts asks the others first: those that do hear of one
//! refuse, so that a replica cut off from the leader alone does not depose it, and one that was away raises
//! nobody's term. A majority that would vote for it is a chance worth a new term.

use super::Replica;
use super::messages::{LogEnd, Message, Record, Timer};
use super::mutants::Fault;
use super::role::{Candidate, Role};
use crate::shared::leadership::Trust;
use crate::shared::lives::Lives;
use quorate_core::{Boot, Due, Event, MemberIndex, MemberSet, Out, Slot};

/// Election timers after which a leader that commits nothing steps down, whoever answers it.
const TIMEOUTS_MAX: u32 = 8;

impl Replica {
    /// A term was heard of. A later one than the own ends what this replica was.
    pub(super) fn see_term(&mut self, term: u64, out: &mut Out<Self>) {
        if term > self.term {
            self.begin_term(term, None, out);
            self.step_down();
        }
    }

    /// Moves on to a term, with this vote; the record goes before whatever rests on it.
    fn begin_term(&mut self, term: u64, voted_for: Option<MemberIndex>, out: &mut Out<Self>) {
        (self.term, self.voted_for) = (term, voted_for);
        out.persist(Record::Vote { term, voted_for });
    }

    /// The leader of a term gave a sign of life. Says whether that term is not over.
    pub(super) fn follow(&mut self, from: MemberIndex, term: u64, out: &mut Out<Self>) -> bool {
        if term < self.term {
            let term = self.term;
            out.send(self.peer(from), Message::Newer { term });
            return false;
        }
        self.see_term(term, out);
        if self.is_leader() {
            self.misbehaved(from, "another leads the own term", out);
            return false;
        }
        if !matches!(self.role, Role::Follower) {
            self.step_down();
        }
        if self.leadership.follow(from, term) {
            self.offer_all(out);
            self.ask_mark_of(from, out);
        }
        true
    }

    /// Leads no more, and wants to no more.
    pub(super) fn step_down(&mut self) {
        self.role = Role::Follower;
        self.leadership.give_up();
        self.disk.clear();
    }

    /// The time for a sign of life is over.
    pub(super) fn on_election(&mut self, out: &mut Out<Self>) {
        self.armed.election = false;
        let (me, enough) = (self.config.me, self.config.thresholds.votes);
        if let Role::Leader(leader) = &mut self.role {
            let heard = std::mem::take(&mut leader.heard) | MemberSet::only(me);
            leader.timeouts += 1;
            if heard.len() < enough || leader.timeouts > TIMEOUTS_MAX {
                out.emit(Event::Branch("leader gave up"));
                self.step_down();
                self.postpone_election(out);
            }
            return;
        }
        if self.leadership.decay() {
            self.step_down();
            let has_room = self.log.len() < self.config.slots_max;
            let is_wanted = self.is_waiting() || self.leadership.is_wanted;
            if self.is_voting() && has_room && is_wanted {
                self.campaign(out);
            }
        }
        self.leadership.is_wanted = false;
    }

    /// Asks the others whether they would vote for this replica.
    fn campaign(&mut self, out: &mut Out<Self>) {
        self.leadership.campaign += 1;
        let granted = MemberSet::only(self.config.me);
        self.role = Role::Canvassing { granted };
        self.postpone_election(out);
        self.say_pre_vote(self.config.others(), out);
        self.stand_if_granted(out);
    }

    /// Asks members whether they would vote for this replica.
    pub(super) fn say_pre_vote(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::PreVote {
            boot: self.config.boot,
            campaign: self.leadership.campaign,
            last: self.log.last(),
            delivered: self.log.first(),
        };
        self.say_early(to, &message, out);
    }

    /// Whether this replica would vote for a peer that asks, as it hears of no leader. One that hears of a
    /// leader tells.
    pub(super) fn would_vote(
        &mut self,
        from: MemberIndex,
        last: LogEnd,
        delivered: Slot,
        out: &mut Out<Self>,
    ) -> bool {
        let known = &self.leadership;
        let is_led = known.trust != Trust::None && known.leader != Some(from);
        if is_led || self.is_leader() {
            self.tell(from, delivered, out);
            return false;
        }
        self.is_voting() && self.may_lead(from, last, delivered, out)
    }

    /// Whether a log is such that its owner may lead this replica: it has everything that may be committed
    /// and is known here. If not, it is given what it lacks, or this replica stands itself.
    fn may_lead(
        &mut self,
        from: MemberIndex,
        last: LogEnd,
        delivered: Slot,
        out: &mut Out<Self>,
    ) -> bool {
        if delivered < self.log.first() {
            out.inform(self.config.members[from], delivered);
        }
        let faults = self.config.faults;
        // Terms of slots that were not delivered from the own log are not known: whoever has delivered
        // them, too, has them.
        let is_sure = self.log.knows_decided() || faults.is(Fault::GrantUnknownTerm);
        if !is_sure && delivered < self.log.first() {
            out.emit(Event::Branch("candidate behind"));
            return false;
        }
        let is_late = last >= self.log.last() || faults.is(Fault::GrantOlderLog);
        self.leadership.is_wanted |= !is_late;
        is_late
    }

    /// Tells a peer that it would get this replica's vote.
    pub(super) fn say_pre_vote_ok(
        &mut self,
        to: MemberIndex,
        boot: Boot,
        campaign: u64,
        out: &mut Out<Self>,
    ) {
        let answer = Message::PreVoteOk {
            boot,
            campaign,
            term: self.term,
        };
        out.send_early(self.peer(to), answer);
        if self.armed.election {
            self.postpone_election(out);
        }
    }

    /// A peer would vote for this replica, if it answers the present campaign.
    pub(super) fn on_pre_vote_ok(
        &mut self,
        from: MemberIndex,
        is_mine: bool,
        term: u64,
        out: &mut Out<Self>,
    ) {
        self.leadership.see_round(term);
        if let Role::Canvassing { granted } = &mut self.role
            && is_mine
        {
            granted.insert(from);
            self.stand_if_granted(out);
        }
    }

    /// Enough would vote for this replica: begins a term, with the own vote.
    fn stand_if_granted(&mut self, out: &mut Out<Self>) {
        let Role::Canvassing { granted } = self.role else {
            return;
        };
        // Nobody gets to the last term but by words that no replica says.
        let latest = self.term.max(self.leadership.round_seen);
        let Some(term) = latest.checked_add(1) else {
            return;
        };
        if granted.len() < self.config.thresholds.votes {
            return;
        }
        self.begin_term(term, Some(self.config.me), out);
        self.role = Role::Candidate(Candidate {
            written: out.persisted(),
            granted: MemberSet::EMPTY,
        });
        self.say_vote(self.config.others(), out);
    }

    /// Asks members for their votes, but for those that gave them.
    pub(super) fn say_vote(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Role::Candidate(candidate) = &self.role {
            let message = Message::Vote {
                term: self.term,
                last: self.log.last(),
                delivered: self.log.first(),
            };
            self.say(to - candidate.granted, &message, out);
        }
    }

    /// A candidate asks for a vote.
    pub(super) fn on_vote(
        &mut self,
        from: MemberIndex,
        term: u64,
        last: LogEnd,
        delivered: Slot,
        out: &mut Out<Self>,
    ) {
        if !self.is_voting() {
            return;
        }
        if term < self.term {
            let term = self.term;
            return out.send(self.peer(from), Message::Newer { term });
        }
        let is_new = term > self.term;
        let is_free = is_new || self.voted_for.is_none_or(|voted| voted == from);
        if is_new {
            self.step_down();
        }
        let is_granted = is_free && self.may_lead(from, last, delivered, out);
        let voted_for = is_granted.then_some(from);
        if is_new || is_granted && self.voted_for.is_none() {
            self.begin_term(term, voted_for, out);
        }
        if is_granted {
            // Somebody is becoming the leader: give it time.
            self.leadership.trust = Trust::Fresh;
            self.postpone_election(out);
            let lives = self.voter.lives().clone();
            out.send(self.peer(from), Message::Voted { term, lives });
        }
    }

    /// A vote for this replica.
    pub(super) fn on_voted(
        &mut self,
        from: MemberIndex,
        term: u64,
        lives: &Lives,
        out: &mut Out<Self>,
    ) {
        if !self.is_present(from, lives, out) {
            return out.emit(Event::Branch("vote of a former life"));
        }
        if let Role::Candidate(candidate) = &mut self.role
            && term == self.term
        {
            candidate.granted.insert(from);
            self.lead_if_elected(out);
        }
    }

    /// Leads if a majority, this replica included, has voted for it.
    pub(super) fn lead_if_elected(&mut self, out: &mut Out<Self>) {
        if let Role::Candidate(candidate) = &self.role {
            let own = usize::from(self.disk.is_durable(candidate.written));
            if candidate.granted.len() + own >= self.config.thresholds.votes {
                self.lead(out);
            }
        }
    }

    /// Puts the election timer off by a whole timeout.
    pub(super) fn postpone_election(&mut self, out: &mut Out<Self>) {
        let timeout = self.config.election_ns;
        self.armed.election = true;
        out.arm(Timer::Election, Due::Within(timeout..=2 * timeout));
    }

    /// Has the election timer run if it is needed: to end a trust, or to replace a leader. Where nobody is
    /// trusted there is no reason to wait, but for others to come first.
    pub(super) fn watch_leader(&mut self, out: &mut Out<Self>) {
        let trust = self.leadership.trust;
        let is_needed = match self.role {
            Role::Leader(_) => !self.log.is_empty() || self.reads.count() > 0,
            _ => trust != Trust::None || self.is_waiting() || self.leadership.is_wanted,
        };
        if !is_needed || self.armed.election {
            return;
        }
        let is_free = trust == Trust::None && matches!(self.role, Role::Follower);
        if is_free && self.is_voting() {
            self.armed.election = true;
            let spread = self.config.election_ns / 8;
            out.arm(Timer::Election, Due::Within(0..=spread));
        } else {
            self.postpone_election(out);
        }
    }
}
