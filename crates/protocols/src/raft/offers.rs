//! What clients sent: commands waiting for an entry, and own entries on their way to the leader.

use super::Replica;
use super::messages::Message;
use super::role::Role;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::Timer;
use crate::shared::under_way::{alone_ns, is_long};
use quorate_core::{
    Command, ENTRY_BYTES_MAX, Entry, Event, MemberIndex, MemberSet, Now, Out, RequestId,
};
use std::collections::BTreeSet;

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        let limits = &self.config.batches.queue;
        self.reads.admit(commands, &mut self.backlog, limits, out);
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        self.reads.refuse_withdrawn(&mut self.backlog, ids, out);
    }

    /// How many more requests may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.reads.room(&self.backlog, &self.config.batches.queue)
    }

    /// Forms entries of whatever waits, while few enough are under way: under load an entry is what came
    /// while its predecessors were decided.
    pub(super) fn form_entries(&mut self, now: Now, out: &mut Out<Self>) {
        while self.may_form_entry() {
            let (count, bytes) = (
                self.config.batches.commands_max,
                self.config.batches.bytes_max,
            );
            let batch = self.backlog.fill(count, bytes);
            let entry = batch.finish(self.names.next(), now.clock_ns);
            let until_ns = self.give(&entry, out);
            self.offers.push(entry, self.now_ns, until_ns);
        }
    }

    /// Whether something waits that an entry may be formed of.
    pub(super) fn may_form_entry(&self) -> bool {
        self.offers.len() < self.config.batches.outstanding && !self.backlog.is_empty()
    }

    /// Gives an own entry to the leader, if one is known. Says by when what comes of it is here.
    pub(super) fn give(&mut self, entry: &Entry, out: &mut Out<Self>) -> u64 {
        if self.is_leader() {
            self.enqueue(entry.clone());
        } else if let Some(leader) = self.leadership.leader {
            let entry = entry.clone();
            let until_ns = self.back_ns(&entry, leader);
            out.send_early(self.peer(leader), Message::Offer { entry });
            return until_ns;
        }
        self.now_ns
    }

    /// When an entry that is given to the leader is there, and is back in its message to all.
    fn back_ns(&self, entry: &Entry, leader: MemberIndex) -> u64 {
        if !is_long(entry) {
            return self.now_ns;
        }
        let (there, back) = (MemberSet::only(leader), self.config.seating.others());
        let under_way_ns = alone_ns(entry, there) + alone_ns(entry, back);
        self.now_ns + under_way_ns + self.offers.patience_ns()
    }

    /// Gives a new leader all own entries.
    pub(super) fn offer_all(&mut self, out: &mut Out<Self>) {
        let mut offers = std::mem::take(&mut self.offers);
        offers.give_all(self.now_ns, |entry| self.give(entry, out));
        self.offers = offers;
    }

    /// An entry for the leader. A follower passes on what it got from its origin, which may not reach the
    /// leader itself.
    pub(super) fn on_offer(&mut self, from: MemberIndex, entry: Entry, out: &mut Out<Self>) {
        if self.config.seating.member(entry.id.origin).is_none() {
            return self.misbehaved(from, "an entry of no member", out);
        }
        if entry.body_len() > ENTRY_BYTES_MAX || entry.bulk_len() > 0 {
            return self.misbehaved(from, "an entry too large, or with payloads", out);
        }
        let pending_max = 2 * self.config.batches.outstanding * self.config.seating.members.len();
        match &self.role {
            Role::Leader(leader) if leader.pending.len() >= pending_max => {
                out.emit(Event::Branch("too much pending"));
            }
            Role::Leader(_) => self.enqueue(entry),
            _ => {
                let is_from_origin = self.config.seating.members[from] == entry.id.origin;
                let leader = self.leadership.leader.filter(|leader| *leader != from);
                if let Some(leader) = leader.filter(|_| is_from_origin) {
                    out.send_early(self.peer(leader), Message::Offer { entry });
                }
            }
        }
    }

    /// Takes an entry to append, unless it is on its way or decided.
    pub(super) fn enqueue(&mut self, entry: Entry) {
        if let Role::Leader(leader) = &mut self.role
            && !self.done.entries.contains(entry.id)
            && !leader.pending.iter().any(|pending| pending.id == entry.id)
            && !self.log.has(entry.id, |_| true)
        {
            leader.pending.push_back(entry);
        }
    }

    /// Whether clients of this replica wait.
    pub(super) fn has_requests(&self) -> bool {
        !self.backlog.is_empty() || !self.offers.is_empty() || self.reads.count() > 0
    }

    /// Has the patience timer run while clients wait.
    pub(super) fn watch_patience(&mut self, out: &mut Out<Self>) {
        let (are_waiting, period_ns) = (self.has_requests(), self.config.delays.patience_ns);
        self.patience
            .watch(are_waiting, Timer::Patience, period_ns, out);
    }
}
