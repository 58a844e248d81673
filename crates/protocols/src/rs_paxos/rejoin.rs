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
use super::messages::{Message, Record};
use super::role::{Gathered, Role};
use crate::shared::ballot::Ballot;
use crate::shared::lives::{Life, Lives};
use crate::shared::rejoin::{RejoinAnswer, Voter};
use crate::shared::rejoins::{Reach, Rejoins};
use crate::shared::seating::Seating;
use quorate_core::{Lsn, MemberIndex, MemberSet, Out, Slot};

impl Rejoins for Replica {
    type Floor = Ballot;

    fn voter(&self) -> &Voter<Ballot> {
        &self.voter
    }

    fn voter_mut(&mut self) -> &mut Voter<Ballot> {
        &mut self.voter
    }

    fn seating(&self) -> &Seating {
        &self.config.seating
    }

    fn reach_of_promises(&self) -> Reach<Ballot> {
        Reach {
            floor: self.promised,
            delivered: self.ap,
            end: self.end(),
        }
    }

    fn durable(&self) -> Lsn {
        self.disk.durable()
    }

    fn lives_record(lives: Lives, is_member: bool) -> Record {
        Record::Lives { lives, is_member }
    }

    fn rejoin_message(life: Life, next: Slot) -> Message {
        Message::Rejoin { life, next }
    }

    fn rejoin_answer(answer: RejoinAnswer<Ballot>) -> Message {
        Message::RejoinA(answer)
    }

    fn bind(&mut self, floor: Ballot, out: &mut Out<Self>) {
        self.promised = self.promised.max(floor);
        self.leadership.see_round(self.promised.round);
        let ballot = self.promised;
        out.persist(Record::Promise { ballot });
    }

    fn take_back(&mut self, reborn: MemberSet) {
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
    }

    /// What was overheard meanwhile was not written.
    fn life_began(&mut self) {
        self.slots.clear();
    }

    fn give_up_on(&mut self, member: MemberIndex) {
        self.leadership.give_up_on(member);
    }

    fn resign(&mut self) {
        self.step_down();
    }
}

impl Replica {
    /// The first slot behind all that this replica knows anything of.
    pub(super) fn end(&self) -> Slot {
        let proposed = match &self.role {
            Role::Leader(leader) => leader.next,
            _ => self.ap,
        };
        proposed.max(self.accepted_end())
    }
}
