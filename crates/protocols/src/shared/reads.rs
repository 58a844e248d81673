//! Reads that wait, and the questions that answer them: one question is under way at a time, shared by the
//! reads that waited when it was asked.

use crate::shared::admission::{QueueLimits, refusal};
use crate::shared::backlog::{Backlog, refuse_withdrawn, withdraw_reads};
use crate::shared::question::QuestionName;
use quorate_core::{Boot, Class, Command, Machine, Out, Outcome, Refusal, RequestId};
use std::collections::BTreeSet;

/// Reads of a replica's clients without an answer. `A` is what members have answered to a question.
#[derive(Clone, Hash, Debug)]
pub(crate) struct ReadQueries<A> {
    /// Reads that no question is about yet.
    waiting: Vec<RequestId>,
    /// The question under way.
    query: Option<Query<A>>,
    /// Questions so far, to tell their answers apart.
    number: u64,
}

/// A question to all members.
#[derive(Clone, Hash, Debug)]
pub(crate) struct Query<A> {
    /// The reads that it is about.
    pub(crate) reads: Vec<RequestId>,
    /// What members have answered.
    pub(crate) answers: A,
    /// Whether it was asked since the last retransmission timer.
    is_fresh: bool,
}

impl<A> Default for ReadQueries<A> {
    fn default() -> Self {
        ReadQueries {
            waiting: Vec::new(),
            query: None,
            number: 0,
        }
    }
}

impl<A> ReadQueries<A> {
    /// Takes a read, for the next question.
    pub(crate) fn wait(&mut self, id: RequestId) {
        self.waiting.push(id);
    }

    /// How many reads have no answer.
    pub(crate) fn count(&self) -> usize {
        self.waiting.len() + self.query.as_ref().map_or(0, |query| query.reads.len())
    }

    /// How many reads wait for a question.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the reads that wait for a question: they need none.
    pub(crate) fn take_waiting(&mut self) -> Vec<RequestId> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether a question is under way.
    pub(crate) fn is_asking(&self) -> bool {
        self.query.is_some()
    }

    /// Whether reads wait for a question, and none is under way.
    pub(crate) fn wants_query(&self) -> bool {
        self.query.is_none() && !self.waiting.is_empty()
    }

    /// Takes out those of these requests that no question is about, and says which there were.
    pub(crate) fn withdraw(&mut self, ids: &BTreeSet<RequestId>) -> Vec<RequestId> {
        withdraw_reads(&mut self.waiting, ids)
    }

    /// How many more requests may wait, with those of the backlog.
    pub(crate) fn room(&self, backlog: &Backlog, limits: &QueueLimits) -> usize {
        limits.room(backlog.len() + self.count(), backlog.bytes())
    }

    /// Takes commands of clients, as far as there is room: reads wait for a question, others for an entry.
    pub(crate) fn admit<M: Machine>(
        &mut self,
        commands: Vec<Command>,
        backlog: &mut Backlog,
        limits: &QueueLimits,
        out: &mut Out<M>,
    ) {
        for command in commands {
            match refusal(&command, self.room(backlog, limits)) {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None if command.class == Class::Read => self.wait(command.id),
                None => backlog.push(command),
            }
        }
    }

    /// Refuses all requests that are in no entry: they will not be executed.
    pub(crate) fn refuse_with<M: Machine>(&mut self, backlog: &mut Backlog, out: &mut Out<M>) {
        for command in backlog.drain() {
            out.reply(command.id, Outcome::Refused(Refusal::NotServing));
        }
        self.refuse(out);
    }

    /// Refuses what nobody waits for any more, of these commands and of the reads that no question is about.
    pub(crate) fn refuse_withdrawn<M: Machine>(
        &mut self,
        backlog: &mut Backlog,
        ids: &BTreeSet<RequestId>,
        out: &mut Out<M>,
    ) {
        let mut withdrawn = backlog.withdraw(ids);
        withdrawn.extend(self.withdraw(ids));
        refuse_withdrawn(withdrawn, out);
    }

    /// Refuses all reads without an answer.
    pub(crate) fn refuse<M: Machine>(&mut self, out: &mut Out<M>) {
        let asked = self.query.take().map_or(Vec::new(), |query| query.reads);
        for id in asked.into_iter().chain(self.waiting.drain(..)) {
            out.reply(id, Outcome::Refused(Refusal::NotServing));
        }
    }

    /// Begins a question about all reads that wait, with the answer of this replica itself.
    pub(crate) fn ask(&mut self, answers: A) {
        let reads = std::mem::take(&mut self.waiting);
        self.ask_about(reads, answers);
    }

    /// Begins a question about these reads, in the place of any other.
    pub(crate) fn ask_about(&mut self, reads: Vec<RequestId>, answers: A) {
        self.number += 1;
        self.query = Some(Query {
            reads,
            answers,
            is_fresh: true,
        });
    }

    /// What was answered counts no more: the reads of the question under way, and `others`, are asked about
    /// again before those that wait.
    pub(crate) fn start_over(&mut self, others: impl Iterator<Item = RequestId>) {
        let asked = self.query.take().map_or(Vec::new(), |query| query.reads);
        let again: Vec<RequestId> = asked.into_iter().chain(others).collect();
        self.waiting.splice(0..0, again);
    }

    /// The number of the last question.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The name of the last question of a replica that started with this boot.
    pub(crate) fn name(&self, boot: Boot) -> QuestionName {
        QuestionName {
            boot,
            number: self.number,
        }
    }

    /// What was answered to the question under way, if there is one.
    pub(crate) fn answers(&self) -> Option<&A> {
        self.query.as_ref().map(|query| &query.answers)
    }

    /// What was answered to the question under way, to be added to.
    pub(crate) fn answers_mut(&mut self) -> Option<&mut A> {
        self.query.as_mut().map(|query| &mut query.answers)
    }

    /// Ends the question under way, if this holds of what was answered to it.
    pub(crate) fn take_if(&mut self, holds: impl FnOnce(&A) -> bool) -> Option<Query<A>> {
        self.query.take_if(|query| holds(&query.answers))
    }

    /// A retransmission timer came due: whether the question was asked before the last one, too, and is to be
    /// asked again.
    pub(crate) fn is_stale(&mut self) -> bool {
        let query = self.query.as_mut();
        query.is_some_and(|query| !std::mem::take(&mut query.is_fresh))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(seq: u64) -> RequestId {
        RequestId {
            seq,
            ..RequestId::default()
        }
    }

    #[test]
    fn one_question_is_about_all_reads_that_waited_and_later_ones_wait_for_the_next() {
        let mut reads = ReadQueries::<u32>::default();
        assert!(!reads.wants_query());
        (1..=2).for_each(|seq| reads.wait(id(seq)));
        assert!(reads.wants_query());
        reads.ask(1);
        reads.wait(id(3));
        assert!(!reads.wants_query() && reads.count() == 3);
        assert_eq!(reads.withdraw(&BTreeSet::from([id(1), id(3)])), [id(3)]);
        assert_eq!((reads.is_stale(), reads.is_stale()), (false, true));
        assert!(reads.take_if(|answers| *answers > 1).is_none());
        *reads.answers_mut().unwrap() += 1;
        let query = reads.take_if(|answers| *answers > 1).unwrap();
        assert_eq!((query.reads, reads.count()), (vec![id(1), id(2)], 0));
        assert_eq!(
            (reads.is_stale(), reads.number(), reads.answers()),
            (false, 1, None)
        );
    }
}
