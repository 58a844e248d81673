//! Linearizable reads without a slot, a lease or a clock.
//!
//! A write that completed was committed, and by then a quorum had appended it; no replica cuts it
//! again. A read hears from a quorum, this replica included, how far their logs go: one of them has
//! appended the write. What is acknowledged would not do: a view change takes acknowledgements
//! back to the commit point (U11).
//!
//! A log may end with what is cut by a view change later, and an idle cluster would never fill those
//! slots. So reads wait here until as much is committed, and are asked anew when the view changes.

use super::Replica;
use super::messages::Message;
use super::mutants::Fault;
use crate::shared::question::QuestionName;
use quorate_core::{MemberIndex, MemberSet, Out, Outcome, RequestId, Slot};

/// What members have answered to a question: how far their logs go.
#[derive(Clone, Hash, Debug)]
pub(super) struct Ends {
    /// Members that have answered, this one included.
    heard: MemberSet,
    /// The highest end heard.
    barrier: Slot,
    /// The view that the question was asked in.
    view: u64,
}

impl Replica {
    /// Asks on behalf of all reads that wait, one query at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        while self.reads.wants_query() {
            self.reads.ask(self.own_answer());
            self.say_query(self.config.others(), out);
            self.answer_reads(out);
        }
    }

    /// Asks anew on behalf of reads whose question came to nothing.
    fn ask_anew(&mut self, reads: Vec<RequestId>, out: &mut Out<Self>) {
        self.reads.ask_about(reads, self.own_answer());
        self.say_query(self.config.others(), out);
    }

    /// This replica's own answer to its question. One that lost its promises cannot tell.
    fn own_answer(&self) -> Ends {
        let is_voting = self.is_voting();
        let mut heard = MemberSet::EMPTY;
        heard.insert_if(self.config.me, is_voting);
        Ends {
            heard,
            barrier: if is_voting { self.own_end() } else { Slot(0) },
            view: self.view,
        }
    }

    fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::ReadQ(self.reads.name(self.config.boot));
        self.send_to(to, &message, |to, message| out.send_early(to, message));
    }

    /// How far the own log goes.
    fn own_end(&self) -> Slot {
        match self.config.faults.is(Fault::ReadByAck) {
            false => self.log.end(),
            true => self.ack(),
        }
    }

    /// A peer asks how far the log goes. One that lost its promises cannot tell.
    pub(super) fn on_read_q(&self, from: MemberIndex, query: QuestionName, out: &mut Out<Self>) {
        if self.is_voting() {
            let end = self.own_end();
            out.send_early(self.peer(from), Message::ReadA { query, end });
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        end: Slot,
        out: &mut Out<Self>,
    ) {
        if query != self.reads.name(self.config.boot) {
            return;
        }
        if let Some(ends) = self.reads.answers_mut() {
            ends.heard.insert(from);
            ends.barrier = ends.barrier.max(end);
        }
        self.answer_reads(out);
    }

    /// Answers the reads of which all that must be seen is committed.
    pub(super) fn answer_reads(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        let (ap, view) = (self.ap(), self.view);
        let is_over = |ends: &Ends| ends.heard.len() >= enough && ends.barrier <= ap;
        if let Some(query) = self.reads.take_if(is_over) {
            if !query.reads.is_empty() {
                self.clients.patience.note_served();
            }
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(query.answers.barrier));
            }
        } else if let Some(query) = self.reads.take_if(|ends| ends.view != view) {
            self.ask_anew(query.reads, out);
        }
    }

    /// Repeats a question with too few answers, so that answers count that take longer than the timer; asks anew
    /// where the answers named slots that nothing has come of.
    pub(super) fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        if !self.reads.is_stale() {
            return;
        }
        match self.reads.take_if(|ends| ends.heard.len() >= enough) {
            Some(query) => self.ask_anew(query.reads, out),
            None => self.say_query(self.config.others(), out),
        }
    }

    /// Asks a member that can hear again.
    pub(super) fn ask_end_of(&self, member: MemberIndex, out: &mut Out<Self>) {
        let is_silent = |ends: &Ends| !ends.heard.contains(member);
        if self.reads.answers().is_some_and(is_silent) {
            self.say_query(MemberSet::only(member), out);
        }
    }
}
