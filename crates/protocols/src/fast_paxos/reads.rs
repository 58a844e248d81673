//! Linearizable reads through what the leader has counted, without the log.
//!
//! The asker, leader or not, asks all members at once. The leader of ballot `b` answers with the first slot behind
//! what it has delivered, behind what it found when it began to lead, and behind every order that has a slot there,
//! for an order may end the epoch. A majority, the leader among them or not, says that it has promised nothing above
//! `b`. Nobody but the leader counts: what completed in its ballot it had delivered by then, what completed before is
//! in slots that it found, and a later leader would have had the promises of a majority before it completed anything.

use super::Replica;
use super::messages::{Known, Message};
use crate::shared::peers::Member;
use crate::shared::question::QuestionName;
use quorate_core::{Entry, MemberIndex, MemberSet, Out, Slot};
use std::collections::BTreeMap;

/// What members have answered to a question: by member, what it has promised, and the mark of one that leads.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Answers(BTreeMap<MemberIndex, Known>);

impl Answers {
    /// The mark of the latest leader, once `enough` members know of no later one.
    fn mark(&self, enough: usize) -> Option<Slot> {
        let leaders = self.0.values().filter(|known| known.mark.is_some());
        let led = leaders.max()?;
        let follow = self.0.values().filter(|known| known.ballot <= led.ballot);
        led.mark.filter(|_| follow.count() >= enough)
    }
}

impl Replica {
    /// Asks on behalf of the reads that wait; one question at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        if self.clients.reads.wants_query() {
            self.clients.reads.ask(Answers::default());
            self.say_query(self.config.seating.others(), out);
            self.note_own_answer();
            self.conclude_query(out);
        }
    }

    /// Asks members about the reads under way, if there are any.
    pub(super) fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        if self.clients.reads.is_asking() {
            self.tell(to, &Message::ReadQ(self.query_name()), out);
        }
    }

    fn query_name(&self) -> QuestionName {
        self.clients.reads.name(self.config.seating.boot)
    }

    /// If this replica leads: the first slot behind all that may hold a completed write, and behind every order.
    fn own_mark(&self) -> Option<Slot> {
        self.leader()?;
        let is_order = |value: &Option<Entry>| value.as_ref().is_some_and(Entry::is_order);
        let mut votes = self.votes.iter().rev();
        let order = votes.find(|(_, vote)| is_order(&vote.value));
        let behind_orders = order.map_or(self.next, |(slot, _)| slot.next());
        Some(self.next.max(self.any?).max(behind_orders))
    }

    /// What this replica knows of leaders, for a reader.
    fn known(&self) -> Known {
        Known {
            ballot: self.promised,
            mark: self.own_mark(),
        }
    }

    /// What this replica itself answers to its question; it counts if it takes part.
    pub(super) fn note_own_answer(&mut self) {
        let (me, own) = (self.config.seating.me, self.known());
        if !self.is_silent
            && let Some(answers) = self.clients.reads.answers_mut()
        {
            answers.0.insert(me, own);
        }
    }

    /// A peer asks who leads. One that lost its promises cannot tell.
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        out: &mut Out<Self>,
    ) {
        if !self.is_silent {
            let answer = Message::ReadA(query, self.known());
            self.tell(MemberSet::only(from), &answer, out);
            self.note_wanted();
        }
    }

    /// A member's answer, given after the question was asked. A leader that hears of a later one is none any more.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        known: Known,
        out: &mut Out<Self>,
    ) {
        let Known { ballot, mark } = known;
        let leads = mark.is_some() && self.is_ballot_of(from, ballot);
        if leads && ballot >= self.promised && !self.is_silent {
            self.follow(from, ballot, out);
        } else {
            self.see(ballot, out);
        }
        if query == self.query_name()
            && let Some(answers) = self.clients.reads.answers_mut()
        {
            answers.0.insert(from, known);
        }
    }

    /// Answers the reads under way, if enough is known and all before the mark is delivered.
    pub(super) fn conclude_query(&mut self, out: &mut Out<Self>) {
        let answers = self.clients.reads.answers();
        let mark = answers.and_then(|answers| answers.mark(self.config.thresholds.read));
        if let Some(mark) = mark.filter(|mark| *mark <= self.next) {
            self.clients.answer_reads(mark, out);
        }
    }

    /// Asks again about reads what went unanswered.
    pub(super) fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        if self.clients.reads.is_stale() {
            self.say_query(self.config.seating.others(), out);
            self.note_own_answer();
        }
    }
}
