//! Linearizable reads through the leader's commit index, without the log (ReadIndex).
//!
//! The asker, leader or not, asks all members at once. The leader of term `t` answers with the first slot
//! behind its own no-op, behind all it has committed, and behind every order in its log; a majority, the
//! asker and the leader among them, says that it knows of no term above `t`. Had a later leader committed a
//! write before the read began, a majority would have voted for it by then, and one of any other majority
//! would have said so. So every write that completed before is in this leader's log, before the mark: what
//! earlier leaders committed lies before the no-op.
//!
//! Many reads share a question; one is under way at a time.

use super::Replica;
use super::messages::Message;
use super::mutants::Fault;
use super::role::Role;
use crate::shared::led::Led;
use crate::shared::question::QuestionName;
use crate::shared::rejoins::Rejoins;
use quorate_core::{MemberIndex, Out, Outcome, Slot};

/// What members have answered to a question: their terms, and how far a leader's log goes.
#[derive(Clone, Hash, Debug)]
pub(crate) struct Answers {
    /// By member: its term.
    terms: Vec<Option<u64>>,
    /// A leader's term and mark, of the latest term.
    mark: Option<(u64, Slot)>,
}

impl Replica {
    /// Asks on behalf of the reads that wait; one question at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        while self.reads.wants_query() {
            self.reads.ask(Answers {
                terms: vec![None; self.config.seating.members.len()],
                mark: None,
            });
            self.say_query(self.config.seating.others(), out);
            self.answer_own_query(out);
        }
    }

    /// The name of the last query.
    pub(super) fn query_name(&self) -> QuestionName {
        self.reads.name(self.config.seating.boot)
    }

    /// If this replica leads: the first slot behind all that may hold a completed write.
    ///
    /// An order in the log may end the epoch before this replica knows: then writes complete in the next,
    /// which no term here tells of. So reads wait for orders, whose slots say what became of them.
    pub(super) fn own_mark(&self) -> Option<Slot> {
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        let faults = self.config.faults;
        let mut mark = self.log.first();
        if !faults.is(Fault::ReadWithoutOwnTerm) {
            mark = mark.max(leader.noop.next());
        }
        if !faults.is(Fault::ReadPastOrders) {
            mark = mark.max(self.log.orders_end().unwrap_or_default());
        }
        Some(mark)
    }

    /// A peer asks who leads. One that lost its promises cannot tell.
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            let (term, mark) = (self.term, self.own_mark());
            let answer = Message::ReadA { query, term, mark };
            out.send_early(self.peer(from), answer);
            self.note_wanted();
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        term: u64,
        mark: Option<Slot>,
        out: &mut Out<Self>,
    ) {
        if mark.is_some() {
            self.follow(from, term, out);
        } else {
            self.see_term(term, out);
        }
        if let Role::Leader(leader) = &mut self.role {
            leader.heard.insert(from);
        }
        self.note_answer(from, term, mark);
        self.conclude_query(out);
    }

    pub(super) fn note_answer(&mut self, member: MemberIndex, term: u64, mark: Option<Slot>) {
        let Some(query) = self.reads.answers_mut() else {
            return;
        };
        query.terms[member] = Some(term);
        if let Some(mark) = mark
            && query.mark.is_none_or(|known| known < (term, mark))
        {
            query.mark = Some((term, mark));
        }
    }

    pub(super) fn conclude_query(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.confirm;
        let is_over = |query: &Answers| {
            let Some((led, _)) = query.mark else {
                return false;
            };
            let follows = |term: &&Option<u64>| term.is_some_and(|term| term <= led);
            query.terms.iter().filter(follows).count() >= enough
        };
        if let Some(query) = self.reads.take_if(is_over)
            && let Some((_, mark)) = query.answers.mark
        {
            if !query.reads.is_empty() {
                self.patience.note_served();
            }
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(mark));
            }
        }
    }
}
