//! Linearizable reads without a slot, a lease or a clock.
//!
//! A write that completed was decided in some slot, and before that `T` replicas proposed it
//! there, durably. A read hears from `R = n - T + 1` members, itself included, the first slot
//! behind everything they proposed or know to be decided: their marks. `T + R > n`, so one of
//! those members proposed the write, and every slot before the highest mark includes the write's
//! (I10). What another read has seen is decided, too, so that reads never go back in time.
//!
//! A mark may be higher than need be: it counts own proposals before they are durable. It is never
//! lower than what survives a crash, since it is rebuilt from the very records of the proposals.

use super::Replica;
use super::messages::Message;
use crate::shared::question::QuestionName;
use crate::shared::reads::ReadQueries;
use quorate_core::{MemberIndex, MemberSet, Out, Outcome, Peers, Slot};

/// Reads without a slot.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Reads {
    /// Reads asked about, and reads that came meanwhile.
    pub(super) queries: ReadQueries<Marks>,
    /// Reads were told to wait for every slot before this one.
    pub(super) promised: Slot,
}

/// What members have answered to a question: their marks.
#[derive(Clone, Hash, Debug)]
pub(super) struct Marks {
    /// Members that have answered, this one included.
    heard: MemberSet,
    /// The highest mark heard.
    mark: Slot,
}

impl Replica {
    /// Asks for marks on behalf of all reads that wait, one query at a time.
    pub(super) fn ask_marks(&mut self, out: &mut Out<Self>) {
        while self.reads.queries.wants_query() {
            self.reads.queries.ask(Marks {
                heard: MemberSet::only(self.config.me),
                mark: self.mark,
            });
            if self.config.thresholds.read > 1 {
                self.say_query(Peers::All, out);
            }
            self.conclude_query(out);
        }
    }

    fn say_query(&self, to: Peers, out: &mut Out<Self>) {
        let query = self.reads.queries.name(self.config.boot);
        out.send_early(to, Message::ReadQ(query));
    }

    /// A peer asks for the mark. It promises nothing that is not in the records already.
    pub(super) fn on_read_q(&self, from: MemberIndex, query: QuestionName, out: &mut Out<Self>) {
        if self.is_voting() {
            let peer = Peers::One(self.config.members[from]);
            let mark = self.mark;
            out.send_early(peer, Message::ReadA { query, mark });
        }
    }

    /// A member's mark, taken after the query began.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        mark: Slot,
        out: &mut Out<Self>,
    ) {
        if query != self.reads.queries.name(self.config.boot) {
            return;
        }
        if let Some(marks) = self.reads.queries.answers_mut() {
            marks.heard.insert(from);
            marks.mark = marks.mark.max(mark);
        }
        self.conclude_query(out);
    }

    fn conclude_query(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        let queries = &mut self.reads.queries;
        if let Some(query) = queries.take_if(|marks| marks.heard.len() >= enough) {
            let mark = query.answers.mark;
            self.reads.promised = self.reads.promised.max(mark);
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(mark));
            }
        }
    }

    /// Asks again what went unanswered. Says whether there was anything.
    pub(super) fn ask_marks_again(&mut self, out: &mut Out<Self>) -> bool {
        let is_stale = self.reads.queries.is_stale();
        if is_stale {
            self.say_query(Peers::All, out);
        }
        is_stale
    }

    /// Asks a peer that can hear again.
    pub(super) fn ask_mark_of(&self, member: MemberIndex, out: &mut Out<Self>) {
        let is_silent = |marks: &Marks| !marks.heard.contains(member);
        if self.reads.queries.answers().is_some_and(is_silent) {
            self.say_query(Peers::One(self.config.members[member]), out);
        }
    }
}
