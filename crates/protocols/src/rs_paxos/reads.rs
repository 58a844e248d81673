//! Linearizable reads through the leader's commit index, without the log (ReadIndex).
//!
//! The asker, leader or not, asks all members at once. The leader of ballot `b` answers with the
//! first slot behind everything it knows to be decided or may have been before it led; `QL`
//! members, the asker and the leader among them, say that they have promised nothing above `b`.
//! Had a later leader committed a write before the read began, `QR` members would have promised it
//! by then, and one of any `QL` would have said so. So every write that completed before is one of
//! `b` or an earlier leader, and lies before the mark (I10).
//!
//! Many reads share a question; one is under way at a time. Under a lease (`lease.rs`) a leader asks
//! nobody, and its word is enough for who asks it.

use super::Replica;
use super::messages::{Lead, Message};
use super::mutants::Fault;
use super::role::Role;
use crate::shared::ballot::Ballot;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use quorate_core::{Boot, MemberIndex, MemberSet, Out, Outcome, RequestId, Slot};

/// What members have answered to a question: whom they follow, and how far its log goes.
#[derive(Clone, Hash, Debug)]
pub(crate) struct Answers {
    /// By member: the highest ballot it had promised.
    promised: Vec<Option<Ballot>>,
    /// A leader's ballot and mark.
    mark: Option<(Ballot, Slot)>,
    /// Whether that leader had a lease.
    is_leased: bool,
    /// The ballot that this replica led when it asked, and when that was on its own clock, in ns.
    pub(super) asked: Option<(Ballot, u64)>,
    /// Members that grant it a lease, itself included.
    granted: MemberSet,
}

impl Replica {
    /// Answers all reads that wait if there is a lease, or else asks on their behalf; one question
    /// at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        if self.reads.waiting() > 0 {
            self.use_lease();
        }
        if let Some(mark) = self.leased_mark() {
            let reads = self.reads.take_waiting();
            if !reads.is_empty() {
                self.patience.note_served();
            }
            answer(reads, mark, out);
        }
        let is_wanted = |replica: &Self| replica.reads.waiting() > 0 || replica.wants_lease();
        while !self.reads.is_asking() && is_wanted(self) {
            self.asked_for_lease();
            let ballot = self.own_mark().map(|_| self.promised);
            self.reads.ask(Answers {
                promised: vec![None; self.config.seating.members.len()],
                mark: None,
                is_leased: false,
                asked: ballot.map(|ballot| (ballot, self.now_ns())),
                granted: MemberSet::only(self.config.seating.me),
            });
            self.say_query(self.config.seating.others(), out);
            self.answer_own_query(out);
        }
    }

    /// If this replica leads: the first slot behind all that may hold a completed write.
    ///
    /// An order of its own may end the epoch before it knows: then writes complete in the next, which
    /// no lease and no promise here tells of. So reads wait for orders, whose slots say what became of
    /// them.
    pub(super) fn own_mark(&self) -> Option<Slot> {
        let orders_end = match self.config.faults.is(Fault::ReadPastOrders) {
            true => Slot(0),
            false => self.orders_end,
        };
        match &self.role {
            Role::Leader(leader) => Some(self.ap.max(leader.recovered).max(orders_end)),
            _ => None,
        }
    }

    /// A peer asks whom this replica follows. One that lost its promises cannot tell.
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        number: u64,
        wants_lease: bool,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            self.use_lease();
            let is_granted = wants_lease && self.grant(from);
            let message = Message::ReadA {
                boot,
                number,
                answer: self.answer_query(is_granted),
            };
            out.send_early(self.peer(from), message);
            self.note_wanted();
        }
    }

    pub(super) fn answer_query(&self, is_granted: bool) -> Lead {
        Lead {
            promised: self.promised,
            mark: self.own_mark(),
            is_leased: self.leased_mark().is_some(),
            is_granted,
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        number: u64,
        answer: Lead,
        out: &mut Out<Self>,
    ) {
        let Lead { promised, mark, .. } = answer;
        if boot != self.config.seating.boot || number != self.reads.number() {
            return;
        }
        if mark.is_some() && promised.node != self.config.seating.members[from] {
            return self.misbehaved(from, "leads another's ballot", out);
        }
        if mark.is_some() {
            self.follow(from, promised, out);
        }
        self.note_answer(from, answer);
        self.conclude_query(out);
    }

    pub(super) fn note_answer(&mut self, member: MemberIndex, answer: Lead) {
        let Some(query) = self.reads.answers_mut() else {
            return;
        };
        let Lead { promised, mark, .. } = answer;
        query.promised[member] = Some(promised);
        let is_later = |mark: Slot| query.mark.is_none_or(|known| known < (promised, mark));
        if let Some(mark) = mark.filter(|mark| is_later(*mark)) {
            query.mark = Some((promised, mark));
        }
        // The own lease may end while more of it is asked for.
        query.is_leased |= answer.is_leased && mark.is_some() && member != self.config.seating.me;
        query.granted.insert_if(member, answer.is_granted);
        let (asked, granted) = (query.asked, query.granted);
        if let Some((ballot, asked_ns)) = asked {
            let since_ns = if self.config.faults.is(Fault::CountFromGrant) {
                self.now_ns()
            } else {
                asked_ns
            };
            self.take_lease(ballot, since_ns, granted);
        }
    }

    pub(super) fn conclude_query(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.leader;
        let is_over = |query: &Answers| {
            let Some((ballot, _)) = query.mark else {
                return false;
            };
            let follows = |promised: &&Option<Ballot>| promised.is_some_and(|p| p <= ballot);
            query.is_leased || query.promised.iter().filter(follows).count() >= enough
        };
        if let Some(query) = self.reads.take_if(is_over)
            && let Some((_, mark)) = query.answers.mark
        {
            if !query.reads.is_empty() {
                self.patience.note_served();
            }
            answer(query.reads, mark, out);
        }
    }
}

fn answer(reads: Vec<RequestId>, mark: Slot, out: &mut Out<Replica>) {
    for id in reads {
        out.reply(id, Outcome::ReadAt(mark));
    }
}
