//! How a replica finds out that there is no leader, asks for one, and repeats itself: what the shared parts
//! need to know.

use super::Replica;
use super::codes::BACKOFF_SILENT;
use super::learner::LeaderClaim;
use super::messages::Message;
use super::reads::Answers;
use super::role::Role;
use crate::shared::ballot::Ballot;
use crate::shared::leadership::Leadership;
use crate::shared::led::{Clockwork, Led, Standing};
use crate::shared::reads::ReadQueries;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::Timer;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Out, Outcome, Refusal, Slot};

impl Led for Replica {
    type Answers = Answers;

    fn clockwork(&mut self) -> Clockwork<'_, Ballot> {
        Clockwork {
            leadership: &mut self.leadership,
            armed: &mut self.armed,
            backoff: &mut self.backoff,
            delays: &self.config.delays,
        }
    }

    fn leadership(&self) -> &Leadership<Ballot> {
        &self.leadership
    }

    fn reads_mut(&mut self) -> &mut ReadQueries<Answers> {
        &mut self.reads
    }

    fn standing(&self) -> Standing {
        self.role.standing()
    }

    fn is_waiting(&self) -> bool {
        self.has_requests()
            || !self.is_voting()
            || self.slots.iter().any(|slot| slot.accepted.is_some())
    }

    fn is_leading_busily(&self) -> bool {
        let is_spreading = matches!(&self.role, Role::Leader(one) if !one.spreading.is_empty());
        self.has_unchosen() || self.reads.count() > 0 || is_spreading
    }

    fn is_leading_watched(&self) -> bool {
        let is_moving = match &self.role {
            Role::Leader(leader) => !leader.gathering.is_empty() || !leader.spreading.is_empty(),
            _ => false,
        };
        self.has_unchosen() || is_moving
    }

    fn question(&self) -> Message {
        let needed = self.voter.known_end().unwrap_or(self.ap);
        Message::Ask {
            next: self.ap,
            until: needed.max(self.accepted_end()),
        }
    }

    fn canvass(&mut self, out: &mut Out<Self>) {
        let granted = MemberSet::only(self.config.seating.me);
        self.role = Role::Canvassing { granted };
        self.say_pre_vote(self.config.seating.others(), out);
        self.stand_if_granted(out);
    }

    fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        let (boot, number) = (self.config.seating.boot, self.reads.number());
        let asked = self.reads.answers().and_then(|answers| answers.asked);
        let is_still_so = |(ballot, _)| self.is_leader() && self.promised == ballot;
        let message = Message::ReadQ {
            boot,
            number,
            wants_lease: self.config.lease_ns > 0 && asked.is_some_and(is_still_so),
        };
        self.say_early(to, &message, out);
    }

    fn answer_own_query(&mut self, out: &mut Out<Self>) {
        if self.is_voting() {
            let own = self.answer_query(false);
            self.note_answer(self.config.seating.me, own);
        }
        self.conclude_query(out);
    }

    fn barred_ns(&self) -> u64 {
        self.bar_left_ns()
    }

    fn may_stand(&self) -> bool {
        self.is_voting() && !self.is_barred(self.config.seating.me)
    }

    fn note_link(&mut self, member: MemberIndex, up: bool) {
        if up {
            self.presence.regain(member);
        } else {
            self.presence.lose(member);
            self.lose_fragments_to(member);
        }
    }

    fn greet(&mut self, to: MemberSet, out: &mut Out<Self>) {
        match self.role {
            Role::Leader(_) => {
                self.say_commit(to, self.ap, out);
                self.repeat_proposals(to, false, out);
            }
            Role::Canvassing { .. } => self.say_pre_vote(to, out),
            Role::Candidate(_) => self.say_prepare(to, out),
            Role::Follower => {}
        }
    }

    fn repeat(&mut self, out: &mut Out<Self>) {
        let others = self.config.seating.others();
        match self.role {
            Role::Leader(_) => {
                // That a link is down is a hint, and may be wrong.
                let is_silent = self.backoff.repeats() >= BACKOFF_SILENT;
                let up = match is_silent {
                    true => others,
                    false => self.presence.up(),
                };
                self.repeat_proposals(others & up, true, out);
                self.shrink_codes(out);
                self.repeat_spreading(out);
            }
            Role::Canvassing { granted } => self.say_pre_vote(others - granted, out),
            Role::Candidate(_) => {
                self.say_prepare(others, out);
                self.lead_if_elected(out);
            }
            Role::Follower => {}
        }
    }

    fn on_election(&mut self, out: &mut Out<Self>) {
        if let Role::Leader(_) = self.role {
            let is_stuck = self.is_stuck();
            let is_out_of_reach = self.is_out_of_reach(out);
            if is_out_of_reach {
                out.emit(Event::Branch("fragments out of reach"));
            }
            if is_out_of_reach || is_stuck {
                self.give_up_leading(out);
            }
            return;
        }
        self.look_for_leader(out);
    }

    fn on_catch_up(&mut self, out: &mut Out<Self>) {
        self.armed.catch_up = false;
        let LeaderClaim { ballot, claim } = self.claim;
        let is_behind = self.ap < claim.upto && !self.is_leader();
        if is_behind && ballot.node != self.config.seating.my_id() {
            out.emit(Event::Branch("decided elsewhere"));
            out.catch_up(ballot.node, Slot(claim.upto.0 - 1));
            self.armed.catch_up = true;
            out.arm(Timer::CatchUp, Due::After(self.config.delays.rtx_max_ns));
        }
    }

    fn on_patience(&mut self, out: &mut Out<Self>) {
        if !self.patience.is_over() {
            return;
        }
        for command in self.backlog.drain().chain(self.large.drain()) {
            out.reply(command.id, Outcome::Refused(Refusal::NotServing));
        }
        self.reads.refuse(out);
    }

    fn offer_stale(&mut self, out: &mut Out<Self>) {
        self.forward_stale(out);
    }
}
