//! How Raft finds out that there is no leader, asks for one, and repeats itself: what the shared parts need to know.

use super::Replica;
use super::messages::Message;
use super::reads::Answers;
use super::role::Role;
use crate::shared::leadership::Leadership;
use crate::shared::led::{Clockwork, Led, Standing};
use crate::shared::reads::ReadQueries;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::Timer;
use quorate_core::{Due, MemberIndex, MemberSet, Out};

/// Election timers after which a leader that commits nothing steps down, whoever answers it.
const TIMEOUTS_MAX: u32 = 8;

impl Led for Replica {
    type Answers = Answers;

    fn clockwork(&mut self) -> Clockwork<'_, u64> {
        Clockwork {
            leadership: &mut self.leadership,
            armed: &mut self.armed,
            backoff: &mut self.backoff,
            delays: &self.config.delays,
        }
    }

    fn leadership(&self) -> &Leadership<u64> {
        &self.leadership
    }

    fn reads_mut(&mut self) -> &mut ReadQueries<Answers> {
        &mut self.reads
    }

    fn standing(&self) -> Standing {
        self.role.standing()
    }

    fn is_waiting(&self) -> bool {
        self.has_requests() || !self.is_voting() || !self.log.is_empty()
    }

    fn is_leading_busily(&self) -> bool {
        !self.log.is_empty() || self.reads.count() > 0
    }

    fn is_leading_watched(&self) -> bool {
        self.is_leading_busily()
    }

    fn question(&self) -> Message {
        let needed = self.voter.known_end().unwrap_or_default();
        Message::Ask {
            next: self.log.first(),
            until: needed.max(self.log.end()),
        }
    }

    fn canvass(&mut self, out: &mut Out<Self>) {
        let granted = MemberSet::only(self.config.seating.me);
        self.role = Role::Canvassing { granted };
        self.say_pre_vote(self.config.seating.others(), out);
        self.stand_if_granted(out);
    }

    fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        self.say_early(to, &Message::ReadQ(self.query_name()), out);
    }

    fn answer_own_query(&mut self, out: &mut Out<Self>) {
        if self.is_voting() {
            self.note_answer(self.config.seating.me, self.term, self.own_mark());
        }
        self.conclude_query(out);
    }

    fn may_stand(&self) -> bool {
        self.is_voting() && self.log.len() < self.config.slots_max
    }

    fn note_link(&mut self, member: MemberIndex, _up: bool) {
        self.lose_sent(member);
    }

    fn greet(&mut self, to: MemberSet, out: &mut Out<Self>) {
        match self.role {
            Role::Leader(_) => {
                self.say_commit(to, out);
                self.send_again(to, false, out);
            }
            Role::Canvassing { .. } => self.say_pre_vote(to, out),
            Role::Candidate(_) => self.say_vote(to, out),
            Role::Follower => {}
        }
    }

    fn repeat(&mut self, out: &mut Out<Self>) {
        let others = self.config.seating.others();
        match self.role {
            Role::Leader(_) => self.send_again(others, true, out),
            Role::Canvassing { granted } => self.say_pre_vote(others - granted, out),
            Role::Candidate(_) => self.say_vote(others, out),
            Role::Follower => {}
        }
    }

    fn offer_stale(&mut self, out: &mut Out<Self>) {
        let term = self.term;
        for entry in self.offers.take_stale(self.now_ns) {
            if !self.log.has(entry.id, |of| of == term) {
                self.give(&entry, out);
                self.offers.given_again(entry.id, self.now_ns);
            }
        }
    }

    fn on_election(&mut self, out: &mut Out<Self>) {
        let (me, enough) = (self.config.seating.me, self.config.thresholds.votes);
        if let Role::Leader(leader) = &mut self.role {
            let heard = std::mem::take(&mut leader.heard) | MemberSet::only(me);
            leader.timeouts += 1;
            if heard.len() < enough || leader.timeouts > TIMEOUTS_MAX {
                self.give_up_leading(out);
            }
            return;
        }
        self.look_for_leader(out);
    }

    fn on_catch_up(&mut self, out: &mut Out<Self>) {
        self.armed.catch_up = false;
        if self.is_behind() && self.claim.catch_up(&self.config.seating, out) {
            self.armed.catch_up = true;
            out.arm(Timer::CatchUp, Due::After(self.config.delays.rtx_max_ns));
        }
    }

    fn on_patience(&mut self, out: &mut Out<Self>) {
        if self.patience.is_over() {
            self.reads.refuse_with(&mut self.backlog, out);
        }
    }
}
