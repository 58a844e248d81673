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
use quorate_core::{Boot, MemberIndex, MemberSet, Out, Outcome, Peers, RequestId, Slot};

/// Reads without a slot: those asked about, and those that came meanwhile.
#[derive(Clone, Default, Hash, Debug)]
pub(super) struct Reads {
    /// What the next query is for.
    pub(super) waiting: Vec<RequestId>,
    query: Option<Query>,
    /// Queries so far, to tell their answers apart.
    number: u64,
    /// Reads were told to wait for every slot before this one.
    pub(super) promised: Slot,
}

/// A question to all members, shared by the reads that waited when it was asked.
#[derive(Clone, Hash, Debug)]
struct Query {
    reads: Vec<RequestId>,
    /// Members that have answered, this one included.
    heard: MemberSet,
    /// The highest mark heard.
    mark: Slot,
    /// Whether it was asked since the last retransmission timer.
    fresh: bool,
}

impl Reads {
    /// Whether an answer is awaited.
    pub(super) fn is_asking(&self) -> bool {
        self.query.is_some()
    }
}

impl Replica {
    /// Asks for marks on behalf of all reads that wait, one query at a time.
    pub(super) fn ask_marks(&mut self, out: &mut Out<Self>) {
        while self.reads.query.is_none() && !self.reads.waiting.is_empty() {
            self.reads.number += 1;
            self.reads.query = Some(Query {
                reads: std::mem::take(&mut self.reads.waiting),
                heard: MemberSet::only(self.config.me),
                mark: self.mark,
                fresh: true,
            });
            if self.config.thresholds.read > 1 {
                self.say_query(Peers::All, out);
            }
            self.conclude_query(out);
        }
    }

    fn say_query(&self, to: Peers, out: &mut Out<Self>) {
        let (boot, number) = (self.config.boot, self.reads.number);
        out.send_early(to, Message::ReadQ { boot, number });
    }

    /// A peer asks for the mark. It promises nothing that is not in the records already.
    pub(super) fn on_read_q(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        number: u64,
        out: &mut Out<Self>,
    ) {
        if self.is_voting() {
            let peer = Peers::One(self.config.members[from]);
            let mark = self.mark;
            out.send_early(peer, Message::ReadA { boot, number, mark });
        }
    }

    /// A member's mark, taken after the query began.
    pub(super) fn on_read_a(
        &mut self,
        from: MemberIndex,
        boot: Boot,
        number: u64,
        mark: Slot,
        out: &mut Out<Self>,
    ) {
        if boot != self.config.boot || number != self.reads.number {
            return;
        }
        if let Some(query) = &mut self.reads.query {
            query.heard.insert(from);
            query.mark = query.mark.max(mark);
        }
        self.conclude_query(out);
    }

    fn conclude_query(&mut self, out: &mut Out<Self>) {
        let enough = self.config.thresholds.read;
        let query = self.reads.query.take_if(|q| q.heard.len() >= enough);
        if let Some(query) = query {
            self.reads.promised = self.reads.promised.max(query.mark);
            for id in query.reads {
                out.reply(id, Outcome::ReadAt(query.mark));
            }
        }
    }

    /// Asks again what went unanswered. Says whether there was anything.
    pub(super) fn ask_marks_again(&mut self, out: &mut Out<Self>) -> bool {
        let Some(query) = &mut self.reads.query else {
            return false;
        };
        let is_stale = !std::mem::take(&mut query.fresh);
        if is_stale {
            self.say_query(Peers::All, out);
        }
        is_stale
    }

    /// Asks a peer that can hear again.
    pub(super) fn ask_mark_of(&self, member: MemberIndex, out: &mut Out<Self>) {
        let is_silent = |query: &Query| !query.heard.contains(member);
        if self.reads.query.as_ref().is_some_and(is_silent) {
            self.say_query(Peers::One(self.config.members[member]), out);
        }
    }
}
