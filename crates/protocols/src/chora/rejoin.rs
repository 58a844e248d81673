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
use crate::shared::rejoin::{Heard, Rejoin};
use quorate_core::{Boot, Event, MemberIndex, MemberSet, Out, Slot};

impl Replica {
    /// Whether this replica kept its promises, or has begun a new life, and may make new ones.
    pub(super) fn is_voting(&self) -> bool {
        self.rejoin.is_none()
    }

    /// Begins a rejoin; its first record goes before its first message.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.rejoin = Some(Rejoin::after(self.lives.of(self.config.me)));
        self.write_lives(false, out);
    }

    fn write_lives(&mut self, is_member: bool, out: &mut Out<Self>) {
        let (lives, mute) = (self.lives.clone(), self.own.mute);
        out.persist(Record::Lives {
            lives,
            is_member,
            mute,
        });
        self.sealed = out.persisted();
    }

    /// Asks those that have not answered.
    pub(super) fn say_rejoin(&self, to: MemberSet, out: &mut Out<Self>) {
        let rejoin = self.rejoin.as_ref();
        if let Some((life, to)) = rejoin.and_then(|rejoin| rejoin.asks(to, self.config.boot)) {
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
        let needed = self.config.thresholds.rejoin;
        if let Some(rejoin) = &mut self.rejoin
            && rejoin.is_known_by(needed)
            && rejoin.written.is_none()
        {
            rejoin.restart();
        }
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
        let mut lives = Lives::default();
        lives.note(from, life);
        if self.note_lives(&lives, out) {
            self.write_lives(true, out);
        }
        let answer = Message::RejoinA {
            boot: life.boot,
            view: self.view,
            end: self.log.end(),
            lives: self.lives.clone(),
        };
        // The log may not be durable yet, and what is said of its end may be true of nobody else.
        out.send(self.peer(from), answer);
    }

    /// A member's answer.
    pub(super) fn on_rejoin_a(
        &mut self,
        from: MemberIndex,
        (boot, lives): (Boot, &Lives),
        (view, end): (u64, Slot),
        out: &mut Out<Self>,
    ) {
        let (me, needed) = (self.config.me, self.config.thresholds.rejoin);
        let Some(rejoin) = self.rejoin.as_mut().filter(|_| boot == self.config.boot) else {
            return;
        };
        let said = (view, end);
        match rejoin.hear((from, needed), (boot, lives.of(me)), said) {
            Heard::Nothing => return,
            Heard::Taken => return self.say_rejoin(self.config.others(), out),
            Heard::Noted => {}
        }
        self.note_lives(lives, out);
    }

    /// Moves the rejoin on as far as it goes.
    pub(super) fn rejoin_further(&mut self, out: &mut Out<Self>) {
        let (needed, ap) = (self.config.thresholds.rejoin, self.ap());
        let Some(rejoin) = &mut self.rejoin else {
            return;
        };
        if rejoin.is_due(needed, ap) {
            let floor = rejoin.floor;
            let life = rejoin.life(self.config.boot);
            self.lives.note(self.config.me, life);
            self.own.mute_through(floor.max(self.view));
            let view = floor.max(self.view);
            // The vote of that view may have been given away.
            let voted = Some(self.config.me);
            out.persist(Record::View { view, voted });
            self.write_lives(true, out);
            if let Some(rejoin) = &mut self.rejoin {
                rejoin.written = Some(out.persisted());
            }
        }
        let durable = self.disk.durable();
        if let Some(rejoin) = self.rejoin.take_if(|rejoin| rejoin.is_over(durable)) {
            out.emit(Event::Branch("rejoined"));
            self.rejoined(rejoin.floor, out);
        }
    }

    /// Notes later lives of members, and takes back what their former ones said.
    fn note_lives(&mut self, lives: &Lives, out: &mut Out<Self>) -> bool {
        let reborn = self.lives.merge(lives, self.config.members.len());
        if reborn.is_empty() {
            return false;
        }
        if reborn.contains(self.config.me) && self.is_voting() {
            // A life of this replica that died early had a higher number: what this one says is
            // not counted where that is known.
            out.emit(Event::Branch("life outnumbered"));
            self.role = Role::Follower;
            self.begin_rejoin(out);
        }
        self.traffic.forget_acks(reborn);
        match &mut self.role {
            Role::Candidate { votes } => *votes -= reborn,
            Role::Canvassing { granted, .. } => *granted -= reborn,
            Role::Follower | Role::Initiator => {}
        }
        true
    }

    /// Takes note of what a vote or a header knows of lives. Says whether its sender's life is the
    /// present one.
    pub(super) fn is_present(
        &mut self,
        from: MemberIndex,
        lives: &Lives,
        out: &mut Out<Self>,
    ) -> bool {
        self.note_lives(lives, out);
        lives.of(from).number >= self.lives.of(from).number
    }

    /// Takes up the lives known before a restart, and a rejoin that it interrupted.
    pub(super) fn restore_lives(&mut self, lives: Lives, is_member: bool) {
        self.lives = lives;
        self.rejoin = (!is_member).then(|| Rejoin::after(self.lives.of(self.config.me)));
    }
}
