//! What clients sent: commands waiting for an entry, and own entries on their way.

use super::Replica;
use super::messages::Message;
use crate::shared::admission::refusal;
use crate::shared::backlog::refuse_withdrawn;
use crate::shared::led::Led;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::Timer;
use crate::shared::under_way::{Line, alone_ns, is_long};
use quorate_core::pace::ACK_NS_MAX;
use quorate_core::{
    Class, Command, Entry, EntryId, MemberIndex, MemberSet, Now, Out, Outcome, RequestId,
};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// An own entry that is not delivered yet.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) entry: Entry,
    /// Whether others pass it.
    is_large: bool,
    /// Whether it was sent since the last retransmission timer.
    pub(super) is_fresh: bool,
    /// When it was given to this leader, on the own clock in ns.
    since_ns: u64,
    /// When it is with the leader, and what that makes of it is here.
    until_ns: u64,
}

impl Hash for Offer {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.id, self.is_fresh).hash(to);
    }
}

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            match refusal(&command, self.queue_room()) {
                Some(refusal) => out.reply(command.id, Outcome::Refused(refusal)),
                None if command.class == Class::Read => self.reads.wait(command.id),
                None if command.bulk_len() >= self.config.spread_min => self.large.push(command),
                None => self.backlog.push(command),
            }
        }
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        let mut withdrawn = self.backlog.withdraw(ids);
        withdrawn.extend(self.large.withdraw(ids));
        withdrawn.extend(self.reads.withdraw(ids));
        refuse_withdrawn(withdrawn, out);
    }

    /// How many more commands may wait.
    pub(super) fn queue_room(&self) -> usize {
        let waiting = self.backlog.len() + self.large.len() + self.reads.count();
        let bytes = self.backlog.bytes() + self.large.bytes();
        self.config.batches.queue.room(waiting, bytes)
    }

    /// Forms entries of whatever waits, while few enough are under way: under load an entry is
    /// what came while its predecessors were decided.
    pub(super) fn form_entries(&mut self, now: Now, out: &mut Out<Self>) {
        for is_large in [false, true] {
            while self.may_form(is_large) {
                self.form_entry(is_large, now, out);
            }
        }
    }

    /// Large entries do not hold back others: as many of either may be under way.
    pub(super) fn may_form(&self, is_large: bool) -> bool {
        let (backlog, under_way) = match is_large {
            true => (&self.large, self.large_offers),
            false => (&self.backlog, self.offers.len() - self.large_offers),
        };
        under_way < self.config.batches.outstanding && !backlog.is_empty()
    }

    fn form_entry(&mut self, is_large: bool, now: Now, out: &mut Out<Self>) {
        let (backlog, bytes_max) = match is_large {
            true => (&mut self.large, self.config.spread_bytes_max),
            false => (&mut self.backlog, self.config.batches.bytes_max),
        };
        let batch = backlog.fill(self.config.batches.commands_max, bytes_max);
        let id = self.names.next();
        let entry = batch.finish(id, now.clock_ns);
        let until_ns = self.hand_on(&entry, out);
        self.large_offers += usize::from(is_large);
        self.offers.push(Offer {
            entry,
            is_large,
            is_fresh: true,
            since_ns: self.now_ns(),
            until_ns,
        });
    }

    /// Gives an own entry to the leader, if one is known. Says how long that may take.
    fn hand_on(&mut self, entry: &Entry, out: &mut Out<Self>) -> u64 {
        let now_ns = self.now_ns();
        if self.is_leader() {
            self.enqueue(entry.clone(), out);
        } else if let Some(leader) = self.leadership.leader {
            let until_ns = self.back_ns(entry, leader, now_ns);
            let entry = entry.clone();
            out.send_early(self.peer(leader), Message::Forward { entry });
            return until_ns;
        }
        now_ns
    }

    /// When the payloads of an entry that is given to the leader are there, and what that spreads of them
    /// is here.
    fn back_ns(&mut self, entry: &Entry, leader: MemberIndex, now_ns: u64) -> u64 {
        if is_long(entry) {
            let (there, back) = (MemberSet::only(leader), self.config.seating.others());
            let under_way_ns = alone_ns(entry, there) + alone_ns(entry, back);
            return now_ns + under_way_ns + self.forward_pace.patience_ns();
        }
        if entry.bulk_len() == 0 {
            return now_ns;
        }
        let there_ns = self
            .line
            .put(Some(entry), 1, MemberSet::only(leader), now_ns);
        let (code, others) = (self.code_of(Some(entry)), self.config.seating.others());
        Line::default().put(Some(entry), code, others, there_ns)
    }

    /// Gives a new leader all own entries.
    pub(super) fn forward_all(&mut self, out: &mut Out<Self>) {
        for index in 0..self.offers.len() {
            self.offers[index].is_fresh = true;
            self.offers[index].since_ns = self.now_ns();
            let entry = self.offers[index].entry.clone();
            self.offers[index].until_ns = self.hand_on(&entry, out);
        }
    }

    /// Gives the leader again what it has not proposed for a while, unless it may be under way.
    pub(super) fn forward_stale(&mut self, out: &mut Out<Self>) {
        for index in 0..self.offers.len() {
            let entry = self.offers[index].entry.clone();
            let is_under_way = self.now_ns() < self.offers[index].until_ns;
            let offer = &mut self.offers[index];
            let is_stale = !std::mem::take(&mut offer.is_fresh) && !is_under_way;
            // The leader spreads what it has.
            let is_there = self.is_proposed(entry.id) || self.parked.has(entry.id);
            if !is_stale || is_there {
                continue;
            }
            let mut until_ns = self.hand_on(&entry, out);
            if is_long(&entry) {
                let since_ns = self.offers[index].since_ns;
                until_ns = self.forward_pace.again_ns(since_ns, self.now_ns());
            }
            self.offers[index].until_ns = until_ns;
        }
    }

    /// Whether the leader followed has proposed an entry.
    fn is_proposed(&self, id: EntryId) -> bool {
        let mut accepted = self.slots.iter().filter_map(|slot| slot.accepted.as_ref());
        accepted.any(|proposal| {
            proposal.name() == Some(id) && proposal.ballot == self.leadership.ballot
        })
    }

    /// Drops own entries that are delivered.
    pub(super) fn drop_done_offers(&mut self) {
        let done = &self.done;
        self.offers
            .retain(|offer| !done.entries.contains(offer.entry.id));
        self.large_offers = self.count_large_offers();
    }

    pub(super) fn count_large_offers(&self) -> usize {
        self.offers.iter().filter(|offer| offer.is_large).count()
    }

    /// A slot was delivered: for an own entry?
    pub(super) fn settle_offer(&mut self, name: Option<EntryId>) {
        let is_named = |offer: &Offer| Some(offer.entry.id) == name;
        let Some(at) = self.offers.iter().position(is_named) else {
            return;
        };
        let offer = self.offers.remove(at);
        self.large_offers -= usize::from(offer.is_large);
        if !self.is_leader() && is_long(&offer.entry) {
            let took_ns = self.now_ns().saturating_sub(offer.since_ns);
            self.forward_pace.note(took_ns, ACK_NS_MAX);
        }
    }

    /// Whether clients of this replica wait.
    pub(super) fn has_requests(&self) -> bool {
        let is_queued = !self.backlog.is_empty() || !self.large.is_empty();
        is_queued || !self.offers.is_empty() || self.reads.count() > 0
    }

    /// Has the patience timer run while clients wait.
    pub(super) fn watch_patience(&mut self, out: &mut Out<Self>) {
        let (are_waiting, period_ns) = (self.has_requests(), self.config.delays.patience_ns);
        self.patience
            .watch(are_waiting, Timer::Patience, period_ns, out);
    }
}
