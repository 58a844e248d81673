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
use crate::shared::backlog::withdraw_reads;
use quorate_core::{Boot, MemberIndex, MemberSet, Out, Outcome, Refusal, RequestId, Slot};
use std::collections::BTreeSet;

/// Reads: those asked about, and those that came meanwhile.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Reads {
    waiting: Vec<RequestId>,
    query: Option<Query>,
    /// Queries so far, to tell their answers apart.
    number: u64,
}

/// A question to all members, shared by the reads that waited when it was asked.
#[derive(Clone, Hash, Debug)]
struct Query {
    reads: Vec<RequestId>,
    /// Members that have answered, this one included.
    heard: MemberSet,
    /// The highest end heard.
    barrier: Slot,
    /// The view it was asked in.
    view: u64,
    /// Whether it was asked since the last repair.
    is_fresh: bool,
}

impl Reads {
    /// Takes a read.
    pub(super) fn wait(&mut self, id: RequestId) {
        self.waiting.push(id);
    }

    /// Reads without an answer.
    pub(super) fn count(&self) -> usize {
        self.waiting.len() + self.query.as_ref().map_or(0, |query| query.reads.len())
    }

    /// Takes out those of these requests that no question is about, and says which there were.
    pub(super) fn withdraw(&mut self, ids: &BTreeSet<RequestId>) -> Vec<RequestId> {
        withdraw_reads(&mut self.waiting, ids)
    }

    /// Refuses all.
    pub(super) fn refuse(&mut self, out: &mut Out<Replica>) {
        let asked = self.query.take().map_or(Vec::new(), |query| query.reads);
        for id in asked.into_iter().chain(self.waiting.drain(..)) {
            out.reply(id, Outcome::Refused(Refusal::NotServing));
        }
    }
}

impl Replica {
    /// Asks on behalf of all reads that wait, one query at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        while self.reads.query.is_none() && !self.reads.waiting.is_empty() {
            let reads = std::mem::take(&mut self.reads.waiting);
            self.ask_for(reads, out);
            self.answer_reads(out);
        }
    }

    fn ask_for(&mut self, reads: Vec<RequestId>, out: &mut Out<Self>) {
        self.reads.number += 1;
        let is_voting = self.is_voting();
        self.reads.query = Some(Query {
            reads,
            heard: match is_voting {
                true => MemberSet::only(self.config.me),
                false => MemberSet::EMPTY,
            },
            barrier: if is_voting { self.own_end() } else { Slot(0) },
            view: self.view,
            is_fresh: true,
        });
        self.say_query(self.config.others(), out);
    }

    fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        let (boot, number) = (self.config.boot, self.reads.number);
        let message = Message::ReadQ { boot, number };
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
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        number: u64,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            let end = self.own_end();
            out.send_early(self.peer(from), Message::ReadA { boot, number, end });
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        (boot, number): (Boot, u64),
        end: Slot,
        out: &mut Out<Self>,
    ) {
        if boot != self.config.boot || number != self.reads.number {
            return;
        }
        if let Some(query) = &mut self.reads.query {
            query.heard.insert(from);
            query.barrier = query.barrier.max(end);
        }
        self.answer_reads(out);
    }

    /// Answers the reads of which all that must be seen is committed.
    pub(super) fn answer_reads(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        let (ap, view) = (self.ap(), self.view);
        let is_over = |query: &mut Query| query.heard.len() >= enough && query.barrier <= ap;
        if let Some(query) = self.reads.query.take_if(is_over) {
            self.clients.is_serving_requests |= !query.reads.is_empty();
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(query.barrier));
            }
        } else if let Some(query) = self.reads.query.take_if(|query| query.view != view) {
            self.ask_for(query.reads, out);
        }
    }

    /// Repeats a question with too few answers, so that answers count that take longer than the timer; asks anew
    /// where the answers named slots that nothing has come of.
    pub(super) fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        let is_stale = |query: &mut Query| !std::mem::take(&mut query.is_fresh);
        let is_told = |query: &mut Query| query.heard.len() >= enough;
        if !self.reads.query.as_mut().is_some_and(is_stale) {
            return;
        }
        match self.reads.query.take_if(is_told) {
            Some(query) => self.ask_for(query.reads, out),
            None => self.say_query(self.config.others(), out),
        }
    }

    /// Asks a member that can hear again.
    pub(super) fn ask_end_of(&self, member: MemberIndex, out: &mut Out<Self>) {
        let is_silent = |query: &Query| !query.heard.contains(member);
        if self.reads.query.as_ref().is_some_and(is_silent) {
            self.say_query(MemberSet::only(member), out);
        }
    }
}
