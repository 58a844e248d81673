//! Linearizable reads without the log.
//!
//! The asker hears from a majority behind which position none of them has voted for an entry. Whatever completed before
//! was chosen by a quorum that has a member among them: it is no further. Once everything up to the furthest of their
//! answers is delivered, the reads see it; so they see every order, too, that could have ended the epoch by then.

use super::Replica;
use super::messages::{Message, Stamp};
use crate::shared::peers::Member;
use crate::shared::question::QuestionName;
use quorate_core::{MemberIndex, MemberSet, Out};
use std::collections::BTreeMap;

/// By member: the position behind which no entry has its vote.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Answers(BTreeMap<MemberIndex, Stamp>);

impl Replica {
    /// Asks on behalf of the reads that wait; one question at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        if self.clients.reads.wants_query() {
            let mut answers = Answers::default();
            if !self.is_silent {
                answers.0.insert(self.me(), self.latest);
            }
            self.clients.reads.ask(answers);
            self.say_query(self.others(), out);
        }
    }

    fn query_name(&self) -> QuestionName {
        self.clients.reads.name(self.config.seating.boot)
    }

    /// Asks members about the reads under way, if there are any.
    pub(super) fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        if self.clients.reads.is_asking() {
            self.tell(to, &Message::ReadQ(self.query_name()), out);
        }
    }

    /// A peer asks. One that lost its promises cannot tell.
    pub(super) fn on_read_q(&self, from: MemberIndex, query: QuestionName, out: &mut Out<Self>) {
        if !self.is_silent {
            let answer = Message::ReadA(query, self.latest);
            self.tell(MemberSet::only(from), &answer, out);
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(&mut self, from: MemberIndex, query: QuestionName, latest: Stamp) {
        if query == self.query_name()
            && let Some(answers) = self.clients.reads.answers_mut()
        {
            answers.0.insert(from, latest);
        }
    }

    /// Answers the reads under way, if enough is known and delivered; else waits for that.
    pub(super) fn conclude_reads(&mut self, out: &mut Out<Self>) {
        let answers = self.clients.reads.answers();
        let enough = self.config.thresholds.read;
        let Some(answers) = answers.filter(|answers| answers.0.len() >= enough) else {
            return;
        };
        let latest = answers.0.values().max().copied().unwrap_or_default();
        if latest <= self.walk {
            self.clients.answer_reads(self.next, out);
            return self.ask_about_reads(out);
        }
        self.note_wait(latest);
    }

    /// Asks again about reads what went unanswered.
    pub(super) fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        if self.clients.reads.is_stale() {
            self.say_query(self.others(), out);
        }
    }
}
