//! A replica that lost its promises comes back, and counts in a new life. As in
//! `rs_paxos/rejoin.rs`, where the argument is given at length; here `J` is a majority of the members,
//! all others than the one that asks.
//!
//! *Votes.* Let `P` be a quorum that votes in view `v`, the former life among them. Some other member
//! `m` of `P` has answered the new life. If it had voted before, the floor is `v` or higher, and the
//! new life has no vote up to there. If after, its vote names the new life, and the candidate does not
//! count the former one's.
//!
//! *Acknowledgements.* Let `W` be a quorum whose acknowledgements commit slot `s`, the former life's
//! among them. Some other member `m` of `W` has answered. If it had appended `s` before, the new life
//! counts only once `s` is committed here. If after, its header names the new life.
//!
//! *Proposals.* A view in which the former life proposed was acknowledged by a quorum before it died,
//! so that the floor is as high: it proposes in none up to there.

use super::Replica;
use super::messages::{Message, Record};
use super::role::Role;
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::{Heard, RejoinAnswer, RejoinQuestion};
use quorate_core::{Boot, Event, MemberIndex, MemberSet, Out, Slot};

impl Replica {
    /// Whether this replica kept its promises, or has begun a new life, and may make new ones.
    pub(super) fn is_voting(&self) -> bool {
        self.voter.is_voting()
    }

    /// Begins a rejoin; its first record goes before its first message.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.voter.begin_rejoin();
        self.write_lives(false, out);
    }

    fn write_lives(&mut self, is_member: bool, out: &mut Out<Self>) {
        let (lives, mute) = (self.voter.lives().clone(), self.own.mute);
        out.persist(Record::Lives {
            lives,
            is_member,
            mute,
        });
        self.sealed = out.persisted();
    }

    /// Asks those that have not answered.
    pub(super) fn say_rejoin(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Some(RejoinQuestion { life, to }) = self.voter.question(to) {
            let message = Message::Rejoin {
                life,
                next: self.ap(),
            };
            self.send_to(to, &message, |to, message| {
                self.say(to, message, out);
            });
        }
    }

    /// Asks again. Answers that speak of slots which did not come to be committed may speak of what was
    /// cut since, so all are asked anew.
    pub(super) fn say_rejoin_again(&mut self, out: &mut Out<Self>) {
        self.voter.forget_full_answers();
        self.say_rejoin(self.config.others(), out);
    }

    /// A member begins a new life. A number that is taken is answered with the life that has it.
    pub(super) fn on_rejoin(
        &mut self,
        from: MemberIndex,
        life: Life,
        next: Slot,
        out: &mut Out<Self>,
    ) {
        if !self.is_voting() {
            return;
        }
        if next < self.ap() {
            out.inform(self.config.id(from), next);
        }
        let reborn = self.voter.note_life(from, life);
        self.forget_former_lives(reborn, out);
        self.answer_rejoin(from, life.boot, out);
    }

    /// Tells a member that has begun a life, in this start of its process, what is known of lives.
    fn answer_rejoin(&self, to: MemberIndex, boot: Boot, out: &mut Out<Self>) {
        let answer = self.voter.answer(boot, self.view, self.log.end());
        // The log may not be durable yet, and what is said of its end may be true of nobody else.
        out.send(self.peer(to), Message::RejoinA(answer));
    }

    /// A member's answer; to one that votes, that nobody counts its life any more.
    pub(super) fn on_rejoin_a(
        &mut self,
        from: MemberIndex,
        answer: &RejoinAnswer<u64>,
        out: &mut Out<Self>,
    ) {
        match self.voter.hear(from, answer) {
            Heard::Nothing if !self.is_voting() => {}
            Heard::Taken => self.say_rejoin(self.config.others(), out),
            Heard::Noted | Heard::Nothing => {
                let reborn = self.voter.note_lives(&answer.lives);
                self.forget_former_lives(reborn, out);
            }
        }
    }

    /// Moves the rejoin on as far as it goes.
    pub(super) fn rejoin_further(&mut self, out: &mut Out<Self>) {
        if let Some(floor) = self.voter.begin_life(self.ap()) {
            let view = floor.max(self.view);
            self.own.mute_through(view);
            // The vote of that view may have been given away.
            let voted = Some(self.config.me);
            out.persist(Record::View { view, voted });
            self.write_lives(true, out);
            self.voter.life_written(out.persisted());
        }
        if let Some(floor) = self.voter.end_rejoin(self.disk.durable()) {
            out.emit(Event::Branch("rejoined"));
            self.rejoined(floor, out);
        }
    }

    /// Writes that these members have later lives, and takes back what the former ones said.
    fn forget_former_lives(&mut self, reborn: MemberSet, out: &mut Out<Self>) {
        if reborn.is_empty() {
            return;
        }
        if self.voter.is_outnumbered(reborn) {
            out.emit(Event::Branch("life outnumbered"));
            self.role = Role::Follower;
            self.begin_rejoin(out);
        } else if self.voter.is_member() {
            self.write_lives(true, out);
        }
        self.traffic.forget_acks(reborn);
        match &mut self.role {
            Role::Candidate { votes } => *votes -= reborn,
            Role::Canvassing { granted, .. } => *granted -= reborn,
            Role::Follower | Role::Initiator => {}
        }
    }

    /// Takes note of what a vote or a header knows of lives. Says whether its sender's life is the present one: a
    /// sender whose life is over is told, for what it says counts nowhere, and it may hear of that from nobody else.
    pub(super) fn is_present(
        &mut self,
        from: MemberIndex,
        lives: &Lives,
        out: &mut Out<Self>,
    ) -> bool {
        let reborn = self.voter.note_lives(lives);
        self.forget_former_lives(reborn, out);
        let is_present = self.voter.is_present(from, lives);
        if !is_present && self.is_voting() {
            self.answer_rejoin(from, lives.of(from).boot, out);
        }
        is_present
    }
}
