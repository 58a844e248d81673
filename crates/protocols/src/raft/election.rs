//! Who leads: suspicion, pre-votes, votes.
//!
//! Time decides only when somebody stands, never who has won. A replica for which something waits and that
//! has heard nothing of a leader for one to two timeouts asks the others first: those that do hear of one
//! refuse, so that a replica cut off from the leader alone does not depose it, and one that was away raises
//! nobody's term. A majority that would vote for it is a chance worth a new term.

use super::Replica;
use super::messages::{LogEnd, Message, Record};
use super::mutants::Fault;
use super::role::{Candidate, Role};
use crate::shared::leadership::Trust;
use crate::shared::led::Led;
use crate::shared::lives::Lives;
use crate::shared::question::QuestionName;
use crate::shared::rejoins::Rejoins;
use quorate_core::{Event, MemberIndex, MemberSet, Out, Slot};

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
        if !matches!(self.role, Role::Follower) && !self.is_preferred() {
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

    /// The name of the present campaign.
    pub(super) fn campaign_name(&self) -> QuestionName {
        QuestionName {
            boot: self.config.seating.boot,
            number: self.leadership.campaign,
        }
    }

    /// Asks members whether they would vote for this replica.
    pub(super) fn say_pre_vote(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::PreVote {
            campaign: self.campaign_name(),
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
        if self.is_led_against(from) {
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
            out.inform(self.config.seating.members[from], delivered);
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
        campaign: QuestionName,
        out: &mut Out<Self>,
    ) {
        let term = self.term;
        let answer = Message::PreVoteOk { campaign, term };
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
    pub(super) fn stand_if_granted(&mut self, out: &mut Out<Self>) {
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
        self.begin_term(term, Some(self.config.seating.me), out);
        self.role = Role::Candidate(Candidate {
            written: out.persisted(),
            granted: MemberSet::EMPTY,
        });
        self.say_vote(self.config.seating.others(), out);
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
}
