//! The gateway: entries of what clients sent, and their way to all members.

use super::Replica;
use super::messages::Message;
use super::state::Heard;
use crate::shared::peers::Member;
use crate::shared::under_way::{alone_ns, is_long};
use quorate_core::{
    Class, Command, ENTRY_BYTES_MAX, Entry, MemberIndex, MemberSet, Now, Out, Outcome, Refusal,
    RequestId,
};
use std::collections::BTreeSet;

impl Replica {
    /// Takes what waits, or refuses it. One that lost its promises has nowhere to put a write.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        let is_taken = |command: &Command| !self.is_silent || command.class == Class::Read;
        let (taken, refused): (Vec<_>, Vec<_>) = commands.into_iter().partition(is_taken);
        for command in refused {
            out.reply(command.id, Outcome::Refused(Refusal::NotServing));
        }
        self.clients.admit(taken, &self.config.batches, out);
    }

    /// Nobody waits for these requests any more.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        self.clients.withdraw(ids, out);
    }

    /// Forms entries, each of which goes to all members.
    pub(super) fn form_entries(&mut self, now: Now, out: &mut Out<Self>) {
        let (config, others) = (self.config.clone(), self.config.seating.others());
        while self.clients.may_form_entry(&config.batches) {
            let entry = self.clients.form_entry(&config.batches, now);
            let until_ns = self.there_ns(&entry, others);
            self.clients
                .offers
                .push(entry.clone(), self.now_ns, until_ns);
            self.propose(others, &entry, out);
            self.hear(entry, until_ns);
        }
    }

    /// Gives an entry to some members.
    pub(super) fn propose(&self, to: MemberSet, entry: &Entry, out: &mut Out<Self>) {
        self.tell(to, &Message::Propose(entry.clone()), out);
    }

    /// Keeps an entry until it is delivered.
    pub(super) fn hear(&mut self, entry: Entry, until_ns: u64) {
        if !self.done.entries.contains(entry.id) {
            let place = None;
            self.heard.entry(entry.id).or_insert(Heard {
                entry,
                place,
                until_ns,
            });
        }
    }

    /// An entry from its gateway, or from a member that heard of it. One that is there already may be so because
    /// the vote for it was lost.
    pub(super) fn on_propose(&mut self, from: MemberIndex, entry: Entry, out: &mut Out<Self>) {
        if !self.is_fit(&entry) {
            return self.misbehaved(from, "an entry of no member, or one that cannot be", out);
        }
        let known = self.heard.get(&entry.id).and_then(|heard| heard.place);
        if let Some((ballot, slot)) = known {
            if ballot == self.promised {
                self.say_fast_vote(slot, out);
            }
        } else {
            self.take_in(entry);
        }
    }

    /// Keeps an entry of another, if there is room.
    pub(super) fn take_in(&mut self, entry: Entry) {
        if (self.heard.len() as u64) < self.config.slots_max {
            // It is on its way to the others, too.
            let until_ns = self.there_ns(&entry, self.config.seating.others());
            self.hear(entry, until_ns);
        } else if self.is_silent {
            // It keeps them to learn their slots, and can do without.
            self.heard.clear();
        }
    }

    /// Whether an entry can be ordered.
    pub(super) fn is_fit(&self, entry: &Entry) -> bool {
        let is_members = self.config.seating.member(entry.id.origin).is_some();
        let is_plain = entry.told().is_none() && entry.bulk_len() == 0;
        is_members && is_plain && entry.body_len() <= ENTRY_BYTES_MAX
    }

    /// When an entry that leaves for some members now is there, on the own clock in ns, as far as that takes long.
    pub(super) fn there_ns(&self, entry: &Entry, to: MemberSet) -> u64 {
        let under_way_ns = if is_long(entry) {
            2 * alone_ns(entry, to)
        } else {
            0
        };
        self.now_ns + under_way_ns
    }

    /// Proposes own entries again that were not proposed since the last timer.
    pub(super) fn retry(&mut self, out: &mut Out<Self>) {
        let others = self.config.seating.others();
        for entry in self.clients.offers.take_stale(self.now_ns) {
            self.propose(others, &entry, out);
            self.clients.offers.given_again(entry.id, self.now_ns);
            self.hear(entry, 0);
        }
    }

    /// Gives the leader what was heard of and is not decided: its gateway may be gone, and the leader may never
    /// have heard of it.
    pub(super) fn relay(&mut self, leader: MemberIndex, out: &mut Out<Self>) {
        let (to, now_ns) = (MemberSet::only(leader), self.now_ns);
        let is_due = |heard: &&Heard| heard.until_ns <= now_ns;
        let due: Vec<Entry> = self
            .heard
            .values()
            .filter(is_due)
            .map(|heard| heard.entry.clone())
            .collect();
        for entry in due {
            self.propose(to, &entry, out);
            let until_ns = self.there_ns(&entry, to);
            if let Some(heard) = self.heard.get_mut(&entry.id) {
                heard.until_ns = until_ns;
            }
        }
    }
}
