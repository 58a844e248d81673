//! Linearizable reads without a slot, a lease or a clock.
//!
//! A read asks all members, and hears from a majority that takes part in one view, its leader among them, how long
//! the leader's log was after the read came. A write that completed before was in the logs of a majority of its view,
//! that view's leader among them, when its clients were answered. One member is in both majorities: the write's view
//! is not later than the read's, so that the write is in the leader's log, or in that with which the view began. The
//! read is answered once all of it is delivered; if the view ends before, it asks anew.

use super::Replica;
use super::messages::{Message, View};
use crate::shared::question::QuestionName;
use quorate_core::{MemberIndex, MemberSet, Out, Outcome, Slot};

/// What members have answered to a question.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct Answers {
    view: View,
    /// Members that take part in that view.
    heard: MemberSet,
    /// The end of the leader's log.
    end: Option<Slot>,
}

impl Answers {
    /// A member answered. Answers of earlier views do not count beside those of later ones.
    fn add(&mut self, member: MemberIndex, view: View, end: Option<Slot>) {
        if view > self.view {
            *self = Answers::none(view);
        }
        if view == self.view {
            self.heard.insert(member);
            self.end = self.end.or(end);
        }
    }

    fn none(view: View) -> Answers {
        Answers {
            view,
            heard: MemberSet::EMPTY,
            end: None,
        }
    }
}

impl Replica {
    /// Asks on behalf of the reads that wait, one question at a time, and answers those that may be answered.
    pub(super) fn go_on_with_reads(&mut self, out: &mut Out<Self>) {
        while self.conclude_reads(out) && self.gateway.reads.wants_query() {
            let mut answers = Answers::none(View {
                lead: 0,
                session: 0,
            });
            if self.is_normal() {
                answers.add(self.config.seating.me, self.view, self.own_end());
            }
            self.gateway.reads.ask(answers);
            self.say_query(self.others(), out);
        }
    }

    /// Answers the question under way, if it is time. Says whether none is under way.
    fn conclude_reads(&mut self, out: &mut Out<Self>) -> bool {
        let (enough, next) = (self.config.thresholds.read, self.log.next);
        let is_over = |answers: &Answers| {
            answers.heard.len() >= enough && answers.end.is_some_and(|end| end <= next)
        };
        if let Some(query) = self.gateway.reads.take_if(is_over) {
            let at = query.answers.end.unwrap_or(next);
            let reads = query.reads.into_iter();
            reads.for_each(|id| out.reply(id, Outcome::ReadAt(at)));
            self.gateway.patience.note_served();
        }
        !self.gateway.reads.is_asking()
    }

    /// As leader, the first slot behind the log.
    fn own_end(&self) -> Option<Slot> {
        self.is_leader().then_some(self.log.end())
    }

    fn query(&self) -> QuestionName {
        self.gateway.reads.name(self.config.seating.boot)
    }

    pub(super) fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        self.say_early(to, &Message::ReadQ(self.query()), out);
    }

    /// A peer asks how long the leader's log is. One that is between two views cannot tell.
    pub(super) fn on_read_q(&self, from: MemberIndex, query: QuestionName, out: &mut Out<Self>) {
        if self.is_normal() {
            let answer = Message::ReadA {
                query,
                view: self.view,
                delivered: self.log.next,
                end: self.own_end(),
            };
            self.say_early(MemberSet::only(from), &answer, out);
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        view: View,
        end: Option<Slot>,
    ) {
        let is_asked = query == self.query();
        if let Some(answers) = self.gateway.reads.answers_mut().filter(|_| is_asked) {
            // Nobody but its leader knows how long a view's log is.
            let end = end.filter(|_| self.config.leader(view) == from);
            answers.add(from, view, end);
        }
    }

    /// Asks those again that have not answered.
    pub(super) fn say_query_again(&self, to: MemberSet, out: &mut Out<Self>) {
        if let Some(answers) = self.gateway.reads.answers() {
            let lacks_leader = answers.end.is_none() || answers.view != self.view;
            let heard = if lacks_leader {
                MemberSet::EMPTY
            } else {
                answers.heard
            };
            self.say_query(to - heard, out);
        }
    }
}
