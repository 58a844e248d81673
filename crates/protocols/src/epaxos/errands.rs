//! Reads at a replica that lost its promises: others form the entry that they stand behind.

use super::Replica;
use super::footprint;
use super::messages::Said;
use super::state::Deps;
use crate::shared::question::QuestionName;
use quorate_core::{EntryId, MemberIndex, MemberSet, Out, Outcome, Slot};

/// An entry that a member had formed here for its reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Errand {
    behind: EntryId,
    to: MemberIndex,
    question: QuestionName,
}

impl std::hash::Hash for Errand {
    fn hash<H: std::hash::Hasher>(&self, to: &mut H) {
        (self.behind, self.to, self.question.number).hash(to);
    }
}

impl Replica {
    /// Has others form an entry for reads, where this replica may not.
    pub(super) fn ask_elsewhere(&mut self, out: &mut Out<Self>) {
        if self.is_silent && self.reads.wants_query() {
            self.reads.ask(EntryId::default());
            self.say_question(out);
        }
    }

    /// Asks again what has had no answer.
    pub(super) fn ask_elsewhere_again(&mut self, out: &mut Out<Self>) {
        if self.is_silent && self.reads.is_stale() {
            self.say_question(out);
        }
    }

    fn say_question(&self, out: &mut Out<Self>) {
        let name = self.reads.name(self.config.seating.boot);
        self.say(self.config.seating.others(), Said::ReadQ(name), out);
    }

    /// A member that lost its promises has reads. One question of each is worked on.
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        question: QuestionName,
        out: &mut Out<Self>,
    ) {
        let is_known = |errand: &Errand| errand.to == from && errand.question == question;
        if !self.may_propose() || self.errands.iter().any(is_known) {
            return;
        }
        let id = self.names.next();
        self.errands.retain(|errand| errand.to != from);
        self.errands.push(Errand {
            behind: id,
            to: from,
            question,
        });
        let entry = footprint::read_mark(id, self.now.clock_ns);
        self.propose(entry, Deps::default(), out);
    }

    /// What a member's reads stand behind is delivered in this slot; `None` if it never will be.
    pub(super) fn end_errands(&mut self, id: EntryId, slot: Option<Slot>, out: &mut Out<Self>) {
        let ended: Vec<Errand> = self
            .errands
            .extract_if(.., |errand| errand.behind == id)
            .collect();
        for Errand { to, question, .. } in ended {
            if let Some(slot) = slot {
                self.say(MemberSet::only(to), Said::ReadA(question, slot), out);
            }
        }
    }

    /// What reads of this replica stand behind is delivered elsewhere, in this slot.
    pub(super) fn on_read_a(&mut self, question: QuestionName, slot: Slot, out: &mut Out<Self>) {
        let is_asked = question == self.reads.name(self.config.seating.boot);
        if let Some(query) = self.reads.take_if(|_| is_asked && self.is_silent) {
            self.patience.note_served();
            for read in query.reads {
                out.reply(read, Outcome::ReadAt(slot));
            }
        }
    }
}
