//! Reads without the log: the leader says how far its log is, and followers confirm
//! that it leads. Whatever was committed before is in that log.
//!
//! Answers count if all are of the view that this replica is in, and were given after the read began. A read
//! is answered when what was in the log then is decided; where a view change gets in between, it is asked
//! again, for some of it may never be. There is another reason where entries commute: a place in the log of
//! one view says nothing of the next one's, in which they may have changed places, so that something that
//! was answered comes to be behind it. For the same reason a read is asked again there when the host caught
//! up: a later view may have decided what it brought.

use super::Replica;
use super::messages::Message;
use super::mutants::Fault;
use super::replica::Status;
use crate::shared::question::QuestionName;
use crate::shared::reads::ReadQueries;
use quorate_core::{Event, MemberIndex, Out, Outcome, Peers, RequestId, Slot};
use std::collections::BTreeMap;

/// Reads of this replica's clients.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Reads {
    /// Reads asked about, and reads that came meanwhile. Answers are of the present view: who gave one, and the
    /// end of the log that its leader told.
    pub(super) queries: ReadQueries<BTreeMap<MemberIndex, Option<Slot>>>,
    /// Reads that are answered when everything before a slot is delivered.
    located: BTreeMap<Slot, Vec<RequestId>>,
}

impl Reads {
    /// How many reads have no answer.
    pub(super) fn count(&self) -> usize {
        let located: usize = self.located.values().map(Vec::len).sum();
        self.queries.count() + located
    }

    /// What was learned counts no more.
    pub(super) fn start_over(&mut self) {
        let located = std::mem::take(&mut self.located).into_values().flatten();
        self.queries.start_over(located);
    }
}

impl Replica {
    /// Answers what may be, and asks for what waits, one question at a time.
    pub(super) fn ask_about_reads(&mut self, out: &mut Out<Self>) {
        while let Some(first) = self.reads.located.first_entry()
            && *first.key() <= self.ap
        {
            let (slot, reads) = first.remove_entry();
            for id in reads {
                out.reply(id, Outcome::ReadAt(slot));
            }
        }
        if self.reads.queries.wants_query() && self.status == Status::Normal {
            self.ask(out);
        }
    }

    fn ask(&mut self, out: &mut Out<Self>) {
        self.sync_lazy(out);
        self.reads.queries.ask(BTreeMap::new());
        self.say_question(out);
        let end = self.leads().then(|| self.end());
        self.take_answer(self.config.me, end, out);
    }

    fn say_question(&self, out: &mut Out<Self>) {
        if self.config.n() > 1 {
            let query = self.reads.queries.name(self.config.boot);
            out.send_early(Peers::All, Message::ReadQ(query));
        }
    }

    /// The question has too few answers, and is asked again. It stays the same question, so that answers count
    /// that take longer than the timer.
    pub(super) fn on_reads_timer(&mut self, out: &mut Out<Self>) {
        if self.reads.queries.is_asking() {
            self.back_off();
            self.say_question(out);
        }
    }

    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        out: &mut Out<Self>,
    ) {
        if self.status != Status::Normal {
            return;
        }
        if self.is_unvouched {
            // It cannot confirm anything, and finds out whether there is a later view: nothing else may ever
            // tell it, where nobody writes.
            if self.follows() && from != self.leader() {
                // If there is none, the leader's log says what this one may vouch for.
                self.fetch(out);
            }
            return self.fetch_from(from, out);
        }
        self.sync_lazy(out);
        let answer = Message::ReadA {
            query,
            view: self.view,
            end: self.leads().then(|| self.end()),
        };
        // The view is no promise, and what is read waits for its decision.
        out.send(self.peer(from), answer);
    }

    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        query: QuestionName,
        view: u64,
        end: Option<Slot>,
        out: &mut Out<Self>,
    ) {
        self.heard(from, view);
        if query != self.reads.queries.name(self.config.boot) {
            return;
        }
        if end.is_some() != (from == self.config.leader_of(view)) {
            return self.misbehaved(from, "the end of a log from another than its leader", out);
        }
        if view == self.view {
            self.take_answer(from, end, out);
        } else {
            // One of the two is behind, and may have nothing else to hear it by.
            self.say_view_to(from, view, out);
        }
    }

    fn take_answer(&mut self, from: MemberIndex, end: Option<Slot>, out: &mut Out<Self>) {
        let leader = self.leader();
        let enough = match self.config.faults.is(Fault::UnconfirmedReads) {
            false => self.config.thresholds.slow,
            true => 1,
        };
        let Some(answers) = self.reads.queries.answers_mut() else {
            return;
        };
        answers.insert(from, end);
        let Some(Some(end)) = answers.get(&leader).copied() else {
            return;
        };
        let is_enough = |answers: &BTreeMap<_, _>| answers.len() >= enough;
        let Some(query) = self.reads.queries.take_if(is_enough) else {
            return;
        };
        self.watch.in_vain = 0;
        out.emit(Event::Branch("read confirmed"));
        self.reads
            .located
            .entry(end)
            .or_default()
            .extend(query.reads);
        self.ask_about_reads(out);
    }
}
