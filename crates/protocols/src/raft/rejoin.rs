//! A replica that lost its promises comes back, and votes in a new life.
//!
//! Let `R` be that replica, and `R'` its new life. Two things its former self said could be contradicted: a
//! vote in term `t`, by voting for another; an append in slot `s`, by a vote for a candidate without it.
//! `R'` asks the others, and takes part once `J` of them, a majority of the members without `R`, none
//! rejoining itself, have taken note of the new life, durably, and have answered with their terms (the
//! latest is the floor: `R'` counts as having voted in it) and with the end of the slots they know anything
//! of (before the last of these ends everything is decided and delivered here first).
//!
//! *Votes.* Let `V` be the votes of `t` that a candidate counts, `R`'s among them. `|V| - 1 + J > N - 1`, so
//! some other member `m` voted in `t` and has answered `R'`. If `m` voted before it answered, the floor is
//! `t` or later. If after, its vote names `R'`, and the candidate does not count `R`'s
//! ([`crate::shared::lives`]).
//!
//! *Appends.* Let `W` be the members by whose logs the entry of `s` is committed, `R`'s among them. As
//! before, some other member `m` in `W` has answered `R'`. If it had the entry before, the end is beyond
//! `s`, and `R'` takes part only once `s` is decided. If it got it after, its answer to the leader names
//! `R'`, and the leader does not count what `R` had.
//!
//! If `m` has lost its promises since, its own new life knows as much: `J` members and `R'` know of `R'`, and
//! any `J` that answer `m` include one. Lives that took part have different numbers, for any two sets of `J`
//! others meet.
//!
//! The cluster ends idle slots for it: its questions ask for that (`Message::Ask`). While it does not vote
//! it keeps its log as it is on the disk, and learns from the hosts of others: so what it knows after a
//! restart is what it knew before.

use super::Replica;
use super::messages::{Message, Record};
use super::role::Role;
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::{Heard, RejoinAnswer, RejoinQuestion};
use quorate_core::{Event, MemberIndex, MemberSet, Out, Slot};

impl Replica {
    /// Begins a rejoin; its first record goes before its first message.
    pub(super) fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.voter.begin_rejoin();
        self.write_lives(false, out);
    }

    fn write_lives(&self, is_member: bool, out: &mut Out<Self>) {
        let lives = self.voter.lives().clone();
        out.persist(Record::Lives { lives, is_member });
    }

    /// Asks those that have not answered.
    pub(super) fn say_rejoin(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Some(RejoinQuestion { life, to }) = self.voter.question(to) {
            let next = self.log.first();
            self.say(to, &Message::Rejoin { life, next }, out);
        }
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
        if next < self.log.first() {
            out.inform(self.config.members[from], next);
        }
        let reborn = self.voter.note_life(from, life);
        if self.forget_former_lives(reborn, out) {
            self.write_lives(true, out);
            if self.leadership.leader == Some(from) {
                self.leadership.give_up();
            }
        }
        let answer = self.voter.answer(life.boot, self.term, self.log.end());
        out.send(self.peer(from), Message::RejoinA(answer));
    }

    /// A member's answer.
    pub(super) fn on_rejoin_a(
        &mut self,
        from: MemberIndex,
        answer: &RejoinAnswer<u64>,
        out: &mut Out<Self>,
    ) {
        match self.voter.hear(from, answer) {
            Heard::Nothing => {}
            Heard::Taken => self.say_rejoin(self.config.others(), out),
            Heard::Noted => {
                let reborn = self.voter.note_lives(&answer.lives);
                self.forget_former_lives(reborn, out);
            }
        }
    }

    /// Moves the rejoin on as far as it goes.
    pub(super) fn rejoin_further(&mut self, out: &mut Out<Self>) {
        if let Some(floor) = self.voter.begin_life(self.log.first()) {
            // Whom the former lives voted for in the floor's term is not known: nobody else gets that vote.
            self.term = self.term.max(floor);
            self.voted_for = Some(self.config.me);
            let (term, voted_for) = (self.term, self.voted_for);
            out.persist(Record::Vote { term, voted_for });
            self.write_lives(true, out);
            self.voter.life_written(out.persisted());
        }
        if self.voter.end_rejoin(self.disk.durable()).is_some() {
            out.emit(Event::Branch("rejoined"));
        }
    }

    /// Takes back what the former lives of these members said. Says whether there are any.
    fn forget_former_lives(&mut self, reborn: MemberSet, out: &mut Out<Self>) -> bool {
        if reborn.is_empty() {
            return false;
        }
        if self.voter.is_outnumbered(reborn) {
            out.emit(Event::Branch("life outnumbered"));
            self.step_down();
            self.begin_rejoin(out);
        }
        match &mut self.role {
            Role::Leader(leader) => {
                for member in reborn {
                    leader.follower(member).matched = Slot(0);
                }
            }
            Role::Candidate(candidate) => candidate.granted -= reborn,
            Role::Follower | Role::Canvassing { .. } => {}
        }
        true
    }

    /// Takes note of what a vote or an acknowledgement knows of lives. Says whether its sender's life is the
    /// present one.
    pub(super) fn is_present(
        &mut self,
        from: MemberIndex,
        lives: &Lives,
        out: &mut Out<Self>,
    ) -> bool {
        let reborn = self.voter.note_lives(lives);
        self.forget_former_lives(reborn, out);
        self.voter.is_present(from, lives)
    }
}
