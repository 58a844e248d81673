//! A replica that lost its promises comes back, and votes in a new life.
//!
//! Let `R` be that replica, and `R'` its new life. Two things its former self said could be
//! contradicted: a promise of ballot `b`, by accepting in a lower one; an accept in slot `s`, by
//! promising without it. `R'` asks the others, and takes part once `J = max(QR, QL)` of them, none
//! rejoining itself, have taken note of the new life, durably, and have answered with the highest
//! ballot they have promised (the greatest is the floor: `R'` promises it) and with the end of the
//! slots they know anything of (before the last of these ends everything is decided and delivered
//! here first).
//!
//! *Promises.* Let `P` be `QR` promises of `b` that a candidate counts, `R`'s among them.
//! `(QR - 1) + J > N - 1`, so some other member `m` is in `P` and has answered `R'`. If `m`
//! promised `b` before it answered, the floor is `b` or higher. If after, its promise names `R'`,
//! and the candidate does not count `R`'s ([`crate::shared::lives`]).
//!
//! *Accepts.* Let `W` be `QW` accepts that choose a value in `s`, `R`'s among them.
//! `(QW - 1) + J > N - 1`, so some other member `m` is in `W` and has answered `R'`. If it had
//! accepted before, the end is beyond `s`, and `R'` takes part only once `s` is decided. If it
//! accepted after, its accept names `R'`, and the leader does not count `R`'s.
//!
//! If `m` has lost its promises since, its own new life knows as much, by the same argument: `J`
//! members and `R'` know of `R'`, and any `J` that answer `m` include one.
//!
//! *Numbers.* Lives that took part have different numbers: each was noted by `J` members, and any
//! two such sets of others meet. One that never got so far never spoke.
//!
//! The cluster ends idle slots for it: its questions ask for that (`Message::Ask`). The record that
//! ends the rejoin comes behind the decisions it rests on, so that they are durable when it is.

use super::Replica;
use super::ballot::Ballot;
use super::messages::{Message, Record};
use super::role::{Gathered, Role};
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::{Heard, RejoinAnswer, RejoinQuestion};
use quorate_core::{Event, MemberIndex, MemberSet, Out, Slot};

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

    fn write_lives(&self, is_member: bool, out: &mut Out<Self>) {
        let lives = self.voter.lives().clone();
        out.persist(Record::Lives { lives, is_member });
    }

    /// Asks those that have not answered.
    pub(super) fn say_rejoin(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Some(RejoinQuestion { life, to }) = self.voter.question(to) {
            let message = Message::Rejoin {
                life,
                next: self.ap,
            };
            self.send_to(to, &message, |to, message| {
                out.send(to, message);
            });
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
        if next < self.ap {
            out.inform(self.config.members[from], next);
        }
        let reborn = self.voter.note_life(from, life);
        if self.forget_former_lives(reborn, out) {
            self.write_lives(true, out);
            if self.leadership.leader == Some(from) {
                self.leadership.give_up();
            }
        }
        let answer = self.voter.answer(life.boot, self.promised, self.end());
        out.send(self.peer(from), Message::RejoinA(answer));
    }

    /// The first slot behind all that this replica knows anything of.
    pub(super) fn end(&self) -> Slot {
        let proposed = match &self.role {
            Role::Leader(leader) => leader.next,
            _ => self.ap,
        };
        proposed.max(self.accepted_end())
    }

    /// A member's answer.
    pub(super) fn on_rejoin_a(
        &mut self,
        from: MemberIndex,
        answer: &RejoinAnswer<Ballot>,
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
        if let Some(floor) = self.voter.begin_life(self.ap) {
            self.promised = self.promised.max(floor);
            self.leadership.see_round(self.promised.round);
            let ballot = self.promised;
            out.persist(Record::Promise { ballot });
            self.write_lives(true, out);
            self.voter.life_written(out.persisted());
        }
        if self.voter.end_rejoin(self.disk.durable()).is_some() {
            // What was overheard meanwhile was not written.
            self.slots.clear();
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
        for instance in self.slots.iter_mut().filter(|instance| !instance.is_chosen) {
            instance
                .tallies
                .iter_mut()
                .for_each(|tally| tally.acks -= reborn);
        }
        if let Role::Candidate(candidate) = &mut self.role {
            let from = candidate.from;
            for member in reborn {
                candidate.promises[member] = Gathered::untold(from);
            }
        }
        true
    }

    /// Takes note of what a vote knows of lives. Says whether its sender's life is the present
    /// one.
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
