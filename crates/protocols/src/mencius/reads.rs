//! Linearizable reads without a slot, a lease or a clock: quorum marks.
//!
//! A write that completed is decided, and by then a majority had accepted it. A read hears from a majority, this
//! replica included, behind which slot all entries are that they accepted or know to be decided: one of them has
//! accepted the write. No-ops do not count, of which lanes that were taken over have many ahead of what is used.
//!
//! What was accepted last may come to nothing, and the slots before it may be idle. So whoever hears a mark takes the
//! slots before it for seen: owners skip theirs, and lanes of silent ones are taken over. A read is answered once
//! every slot before its mark is delivered, orders among them, one of which may end the epoch.

use super::Replica;
use super::messages::Message;
use crate::shared::peers::Member;
use crate::shared::question::QuestionName;
use quorate_core::{MemberIndex, MemberSet, Out, Outcome, Slot};

/// What members have answered to a question.
#[derive(Clone, Copy, Hash, Debug)]
pub(super) struct Marks {
    /// Members that have answered, this one included.
    heard: MemberSet,
    /// The furthest mark heard.
    mark: Slot,
}

impl Replica {
    /// Asks on behalf of the reads that wait; one question at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        while self.reads.wants_query() {
            let mut heard = MemberSet::EMPTY;
            heard.insert_if(self.config.seating.me, !self.is_silent);
            let mark = if self.is_silent {
                Slot(0)
            } else {
                self.own_mark()
            };
            self.reads.ask(Marks { heard, mark });
            self.see(mark);
            self.say_query(self.config.seating.others(), out);
            self.answer_reads(out);
            if self.reads.is_asking() {
                return;
            }
        }
    }

    pub(super) fn say_query(&self, to: MemberSet, out: &mut Out<Self>) {
        let message = Message::ReadQ(self.query_name());
        self.send_to(to, &message, |to, message| out.send_early(to, message));
    }

    /// The name of the last query.
    fn query_name(&self) -> QuestionName {
        QuestionName {
            boot: self.config.seating.boot,
            number: self.reads.number(),
        }
    }

    /// The first slot behind every entry that this replica accepted or knows to be decided.
    fn own_mark(&self) -> Slot {
        let mut held = self.slots.iter().rev();
        let last = held.find(|(_, held)| held.has_entry());
        last.map_or(self.next, |(slot, _)| slot.next())
    }

    /// A peer asks how far entries go. One that lost its promises cannot tell.
    pub(super) fn on_read_q(&self, from: MemberIndex, query: QuestionName, out: &mut Out<Self>) {
        if !self.is_silent {
            let mark = self.own_mark();
            out.send_early(self.peer(from), Message::ReadA { query, mark });
        }
    }

    /// A member's answer, given after the question was asked.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        mark: Slot,
        out: &mut Out<Self>,
    ) {
        if query != self.query_name() {
            return;
        }
        if let Some(marks) = self.reads.answers_mut() {
            marks.heard.insert(from);
            marks.mark = marks.mark.max(mark);
            self.note_claim_behind(from, mark);
        }
        self.answer_reads(out);
    }

    /// A mark further than this replica keeps slots is of somebody that has delivered some of those.
    fn note_claim_behind(&mut self, at: MemberIndex, mark: Slot) {
        let kept = self.config.slots_max;
        if mark.0 > self.next.0.saturating_add(kept) {
            self.note_claim(at, Slot(mark.0 - kept));
        }
    }

    /// Answers the reads of which all that must be seen is delivered.
    pub(super) fn answer_reads(&mut self, out: &mut Out<Self>) {
        let (enough, next) = (self.config.thresholds.read, self.next);
        let Some(marks) = self.reads.answers().copied() else {
            return;
        };
        self.see(marks.mark);
        let is_over = |marks: &Marks| marks.heard.len() >= enough && marks.mark <= next;
        if let Some(query) = self.reads.take_if(is_over) {
            if !query.reads.is_empty() {
                self.patience.note_served();
            }
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(query.answers.mark));
            }
        }
    }

    /// Asks again about reads what went unanswered.
    pub(super) fn ask_about_reads_again(&mut self, out: &mut Out<Self>) {
        if !self.reads.is_stale() {
            return;
        }
        let heard = self.reads.answers().map(|marks| marks.heard);
        if let Some(heard) = heard.filter(|heard| heard.len() < self.config.thresholds.read) {
            self.say_query(self.config.seating.others() - heard, out);
        }
    }

    /// Asks a member that can hear again.
    pub(super) fn ask_mark_of(&self, member: MemberIndex, out: &mut Out<Self>) {
        let is_silent = |marks: &Marks| !marks.heard.contains(member);
        if self.reads.answers().is_some_and(is_silent) {
            self.say_query(MemberSet::only(member), out);
        }
    }
}
