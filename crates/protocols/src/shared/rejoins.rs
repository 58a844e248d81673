//! How a replica that lost its promises goes through its rejoin, and what the others do about it.
//!
//! Shared by the protocols in which one replica leads at a time: their words differ, and what a new life
//! binds itself to. Each argues in its `rejoin.rs` why that is enough.

use crate::shared::lives::{Life, Lives};
use crate::shared::peers::each_peer;
use crate::shared::rejoin::{Heard, RejoinAnswer, RejoinQuestion, Voter};
use crate::shared::seating::Seating;
use quorate_core::{Boot, Event, Lsn, Machine, MemberIndex, MemberSet, Out, Peers, Slot};

/// How far a replica has gone, for a member that begins a life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<F> {
    /// The highest promise.
    pub(crate) floor: F,
    /// The first slot not delivered.
    pub(crate) delivered: Slot,
    /// The first slot behind all that is known of.
    pub(crate) end: Slot,
}

/// A replica whose promises may be lost, and which then begins a new life.
pub(crate) trait Rejoins: Machine {
    /// What bounds the promises of former lives: a ballot, or a term.
    type Floor: Copy + Default + Ord;

    /// Whether it may vote, and the lives of all members.
    fn voter(&self) -> &Voter<Self::Floor>;
    /// Whether it may vote, and the lives of all members, to be changed.
    fn voter_mut(&mut self) -> &mut Voter<Self::Floor>;
    /// The members, and the seat of this replica.
    fn seating(&self) -> &Seating;
    /// How far it has gone.
    fn reach_of_promises(&self) -> Reach<Self::Floor>;
    /// How far its records are durable.
    fn durable(&self) -> Lsn;

    /// The record of all lives, and of whether this replica may vote.
    fn lives_record(lives: Lives, is_member: bool) -> Self::Record;
    /// "I lost my promises, and begin this life."
    fn rejoin_message(life: Life, next: Slot) -> Self::Message;
    /// The answer to that.
    fn rejoin_answer(answer: RejoinAnswer<Self::Floor>) -> Self::Message;

    /// Binds itself to what former lives may have promised, and writes that.
    fn bind(&mut self, floor: Self::Floor, out: &mut Out<Self>);
    /// Takes back what the former lives of these members said.
    fn take_back(&mut self, reborn: MemberSet);
    /// The new life has begun.
    fn life_began(&mut self) {}
    /// This member leads no more, if it did: it lost its promises.
    fn give_up_on(&mut self, member: MemberIndex);
    /// Leads no more, and wants to no more.
    fn resign(&mut self);

    /// Whether this replica kept its promises, or has begun a new life, and may make new ones.
    fn is_voting(&self) -> bool {
        self.voter().is_voting()
    }

    /// One member, as a receiver.
    fn peer(&self, member: MemberIndex) -> Peers {
        Peers::One(self.seating().members[member])
    }

    /// Counts a peer's offence; what it said is ignored.
    fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.seating().members[from];
        out.emit(Event::Misbehaved { peer, what });
    }

    /// Sends to some members what promises nothing; to all others as a broadcast.
    fn say_early(&self, to: MemberSet, message: &Self::Message, out: &mut Out<Self>) {
        let (others, ids) = (self.seating().others(), &self.seating().members);
        each_peer(to, others, ids, |peers| {
            out.send_early(peers, message.clone());
        });
    }

    /// Sends to some members once everything written so far is durable; to all others as a broadcast.
    fn say(&self, to: MemberSet, message: &Self::Message, out: &mut Out<Self>) {
        let (others, ids) = (self.seating().others(), &self.seating().members);
        each_peer(to, others, ids, |peers| {
            out.send(peers, message.clone());
        });
    }

    /// Begins a rejoin; its first record goes before its first message.
    fn begin_rejoin(&mut self, out: &mut Out<Self>) {
        self.voter_mut().begin_rejoin();
        self.write_lives(false, out);
    }

    /// Writes down the lives known.
    fn write_lives(&self, is_member: bool, out: &mut Out<Self>) {
        let lives = self.voter().lives().clone();
        out.persist(Self::lives_record(lives, is_member));
    }

    /// Asks those that have not answered.
    fn say_rejoin(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Some(RejoinQuestion { life, to }) = self.voter().question(to) {
            let next = self.reach_of_promises().delivered;
            let message = Self::rejoin_message(life, next);
            self.say(to, &message, out);
        }
    }

    /// A member begins a new life. A number that is taken is answered with the life that has it.
    fn on_rejoin(&mut self, from: MemberIndex, life: Life, next: Slot, out: &mut Out<Self>) {
        if !self.is_voting() {
            return;
        }
        let id = self.seating().members[from];
        if next < self.reach_of_promises().delivered {
            out.inform(id, next);
        }
        let reborn = self.voter_mut().note_life(from, life);
        if self.forget_former_lives(reborn, out) {
            self.give_up_on(from);
        }
        self.answer_rejoin(from, life.boot, out);
    }

    /// Tells a member that has begun a life, in this start of its process, what is known of lives.
    fn answer_rejoin(&self, to: MemberIndex, boot: Boot, out: &mut Out<Self>) {
        let Reach { floor, end, .. } = self.reach_of_promises();
        let answer = self.voter().answer(boot, floor, end);
        out.send(self.peer(to), Self::rejoin_answer(answer));
    }

    /// A member's answer; to one that votes, that nobody counts its life any more.
    fn on_rejoin_a(
        &mut self,
        from: MemberIndex,
        answer: &RejoinAnswer<Self::Floor>,
        out: &mut Out<Self>,
    ) {
        match self.voter_mut().hear(from, answer) {
            Heard::Nothing if !self.is_voting() => {}
            Heard::Taken => self.say_rejoin(self.seating().others(), out),
            Heard::Noted | Heard::Nothing => {
                let reborn = self.voter_mut().note_lives(&answer.lives);
                self.forget_former_lives(reborn, out);
            }
        }
    }

    /// Moves the rejoin on as far as it goes.
    fn rejoin_further(&mut self, out: &mut Out<Self>) {
        let delivered = self.reach_of_promises().delivered;
        if let Some(floor) = self.voter_mut().begin_life(delivered) {
            self.bind(floor, out);
            self.write_lives(true, out);
            self.voter_mut().life_written(out.persisted());
        }
        let durable = self.durable();
        if self.voter_mut().end_rejoin(durable).is_some() {
            self.life_began();
            out.emit(Event::Branch("rejoined"));
        }
    }

    /// Writes that these members have later lives, and takes back what the former ones said. Says whether there are
    /// any.
    fn forget_former_lives(&mut self, reborn: MemberSet, out: &mut Out<Self>) -> bool {
        if reborn.is_empty() {
            return false;
        }
        if self.voter().is_outnumbered(reborn) {
            out.emit(Event::Branch("life outnumbered"));
            self.resign();
            self.begin_rejoin(out);
        } else if self.voter().is_member() {
            self.write_lives(true, out);
        }
        self.take_back(reborn);
        true
    }

    /// Takes note of what a vote knows of lives. Says whether its sender's life is the present one: a sender whose life
    /// is over is told, for what it says counts nowhere, and it may hear of that from nobody else.
    fn is_present(&mut self, from: MemberIndex, lives: &Lives, out: &mut Out<Self>) -> bool {
        let reborn = self.voter_mut().note_lives(lives);
        self.forget_former_lives(reborn, out);
        let is_present = self.voter().is_present(from, lives);
        if !is_present && self.is_voting() {
            self.answer_rejoin(from, lives.of(from).boot, out);
        }
        is_present
    }
}
