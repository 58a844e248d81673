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
use crate::shared::rejoin::{RejoinAnswer, Voter};
use crate::shared::rejoins::{Reach, Rejoins};
use crate::shared::seating::Seating;
use quorate_core::{Lsn, MemberIndex, MemberSet, Out, Slot};

impl Rejoins for Replica {
    type Floor = u64;

    fn voter(&self) -> &Voter<u64> {
        &self.voter
    }

    fn voter_mut(&mut self) -> &mut Voter<u64> {
        &mut self.voter
    }

    fn seating(&self) -> &Seating {
        &self.config.seating
    }

    fn reach_of_promises(&self) -> Reach<u64> {
        Reach {
            floor: self.term,
            delivered: self.log.first(),
            end: self.log.end(),
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

    fn rejoin_answer(answer: RejoinAnswer<u64>) -> Message {
        Message::RejoinA(answer)
    }

    fn bind(&mut self, floor: u64, out: &mut Out<Self>) {
        // Whom the former lives voted for in the floor's term is not known: nobody else gets that vote.
        self.term = self.term.max(floor);
        self.voted_for = Some(self.config.seating.me);
        let (term, voted_for) = (self.term, self.voted_for);
        out.persist(Record::Vote { term, voted_for });
    }

    fn take_back(&mut self, reborn: MemberSet) {
        match &mut self.role {
            Role::Leader(leader) => {
                for member in reborn {
                    leader.follower(member).matched = Slot(0);
                }
            }
            Role::Candidate(candidate) => candidate.granted -= reborn,
            Role::Follower | Role::Canvassing { .. } => {}
        }
    }

    fn give_up_on(&mut self, member: MemberIndex) {
        self.leadership.give_up_on(member);
    }

    fn resign(&mut self) {
        self.step_down();
    }
}
