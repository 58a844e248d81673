//! The gateway of a replica's clients: it forms entries, has them stamped, and counts what replicas reply.
//!
//! An entry is committed once so many replicas, the leader among them, have it in one slot of one view's log,
//! durably. Its clients are answered then, with the leader's results, before anything is delivered. Where the leader
//! has no results (an order, say, is not executed ahead), hosts answer at delivery.

use super::Replica;
use super::config::Config;
use super::messages::{Message, Reply, View};
use super::mutants::Fault;
use super::reads::Answers;
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::decided::DecidedSet;
use crate::shared::entry_names::EntryNames;
use crate::shared::offers::Offers;
use crate::shared::reads::ReadQueries;
use crate::shared::under_way::{alone_ns, is_long};
use bytes::Bytes;
use quorate_core::{
    Class, Command, Entry, EntryId, Event, MemberIndex, MemberSet, Out, Outcome, Refusal,
    RequestId, Slot,
};
use std::collections::{BTreeMap, BTreeSet};

/// Slots of one view in which replies are counted for one entry: it is stamped again where it seems lost.
const TALLIES_MAX: usize = 8;

/// What the clients of a replica wait for.
#[derive(Clone, Hash, Debug)]
pub(super) struct Gateway {
    /// Commands without an entry.
    backlog: Backlog,
    /// Own entries that are not delivered.
    pub(super) offers: Offers,
    /// Own entries whose clients have no answer.
    pub(super) unanswered: BTreeMap<EntryId, Pending>,
    names: EntryNames,
    /// Reads; none goes through the log.
    pub(super) reads: ReadQueries<Answers>,
    /// Whether clients wait in vain.
    pub(super) patience: Patience,
}

/// An own entry whose clients have no answer.
#[derive(Clone, Hash, Default, Debug)]
pub(super) struct Pending {
    requests: Vec<RequestId>,
    /// What was replied, by slot, in the newest view.
    tallies: Vec<Tally>,
}

/// What replicas replied of an entry in a slot.
#[derive(Clone, Hash, Debug)]
struct Tally {
    view: View,
    slot: Slot,
    heard: MemberSet,
    /// What its commands came to at the leader.
    results: Option<Vec<Bytes>>,
}

impl Gateway {
    /// A gateway at which nothing waits.
    pub(super) fn new(names: EntryNames) -> Gateway {
        Gateway {
            backlog: Backlog::default(),
            offers: Offers::default(),
            unanswered: BTreeMap::new(),
            names,
            reads: ReadQueries::default(),
            patience: Patience::default(),
        }
    }

    /// How many more requests may wait.
    pub(super) fn room(&self, config: &Config) -> usize {
        self.reads.room(&self.backlog, &config.batches.queue)
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(super) fn withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Replica>) {
        self.reads.refuse_withdrawn(&mut self.backlog, ids, out);
    }

    /// Forms an entry of whatever waits, while few enough are under way: under load an entry is what came while its
    /// predecessors were decided.
    fn form(&mut self, config: &Config, clock_ns: u64) -> Option<Entry> {
        let batches = &config.batches;
        // Those that are answered and not delivered are as many as logs are compared seldom.
        let is_full = self.unanswered.len() >= batches.outstanding
            || self.offers.len() as u64 >= config.window.max(batches.outstanding as u64);
        if self.backlog.is_empty() || is_full {
            return None;
        }
        let batch = self.backlog.fill(batches.commands_max, batches.bytes_max);
        let entry = batch.finish(self.names.next(), clock_ns);
        let pending = Pending {
            requests: entry
                .commands()
                .flatten()
                .map(|command| command.id)
                .collect(),
            tallies: Vec::new(),
        };
        self.unanswered.insert(entry.id, pending);
        Some(entry)
    }

    /// Whether clients wait.
    pub(super) fn is_busy(&self) -> bool {
        self.offers.len() + self.reads.count() > 0 || !self.backlog.is_empty()
    }

    /// Requests have waited long. If none was served meanwhile, those in no entry are refused: they will not be
    /// executed.
    pub(super) fn on_patience(&mut self, out: &mut Out<Replica>) {
        if self.patience.is_over() {
            self.reads.refuse_with(&mut self.backlog, out);
        }
    }

    /// An entry is delivered.
    pub(super) fn settle(&mut self, id: EntryId, now_ns: u64) {
        self.offers.settle(id, false, now_ns);
        self.unanswered.remove(&id);
        self.patience.note_served();
    }

    /// The host caught up: these entries are delivered.
    pub(super) fn settle_all(&mut self, done: &DecidedSet) {
        self.offers.drop_done(done);
        self.unanswered.retain(|id, _| !done.entries.contains(*id));
        self.patience.note_served();
    }
}

impl Pending {
    /// The count that a reply belongs to. Replies of different views are never counted together.
    fn tally(&mut self, view: View, slot: Slot) -> Option<&mut Tally> {
        self.tallies.retain(|tally| tally.view >= view);
        if self.tallies.first().is_some_and(|tally| tally.view > view) {
            return None;
        }
        let known = self.tallies.iter().position(|tally| tally.slot == slot);
        if known.is_none() && self.tallies.len() < TALLIES_MAX {
            self.tallies.push(Tally {
                view,
                slot,
                heard: MemberSet::EMPTY,
                results: None,
            });
        }
        let at = known.unwrap_or(self.tallies.len() - 1);
        self.tallies.get_mut(at).filter(|tally| tally.slot == slot)
    }
}

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        let Gateway { reads, backlog, .. } = &mut self.gateway;
        let (writes, others): (Vec<Command>, Vec<Command>) = commands
            .into_iter()
            .partition(|command| self.is_silent && command.class != Class::Read);
        // It must not say what an entry came to that it has no say in.
        for command in writes {
            out.reply(command.id, Outcome::Refused(Refusal::NotServing));
        }
        reads.admit(others, backlog, &self.config.batches.queue, out);
    }

    /// Has entries formed and stamped. While the view changes, requests wait here, where they can be withdrawn.
    pub(super) fn form_entries(&mut self, out: &mut Out<Self>) {
        while self.is_normal()
            && let Some(entry) = self.gateway.form(&self.config, self.now.clock_ns)
        {
            let until_ns = self.back_ns(&entry);
            let now_ns = self.now.mono_ns;
            self.gateway.offers.push(entry.clone(), now_ns, until_ns);
            self.want_stamp(entry, out);
        }
    }

    /// When an entry that leaves for the sequencer now is back with a stamp: links may need long for a long one.
    fn back_ns(&self, entry: &Entry) -> u64 {
        let under_way_ns = match is_long(entry) {
            true => 2 * alone_ns(entry, self.others()) + self.gateway.offers.patience_ns(),
            false => 0,
        };
        self.now.mono_ns + under_way_ns
    }

    /// Gives an own entry to the sequencer.
    fn want_stamp(&mut self, entry: Entry, out: &mut Out<Self>) {
        let (sequencer, session) = (self.config.sequencer(self.view), self.view.session);
        if sequencer == self.config.seating.me {
            return self.stamp(entry, out);
        }
        let message = Message::Stamp { session, entry };
        self.say_early(MemberSet::only(sequencer), &message, out);
    }

    /// Whether an own entry has no place yet, as far as it is known here, and nobody was answered.
    pub(super) fn lacks_stamp(&self, id: EntryId) -> bool {
        self.gateway.unanswered.contains_key(&id) && self.log.slot_of(id).is_none()
    }

    /// Gives entries without a place to the sequencer once more: all, or those that had their time.
    pub(super) fn want_stamps(&mut self, all: bool, out: &mut Out<Self>) {
        let now_ns = self.now.mono_ns;
        let entries: Vec<Entry> = match all {
            true => self.gateway.offers.entries().cloned().collect(),
            false => self.gateway.offers.take_stale(now_ns),
        };
        for entry in entries {
            if self.lacks_stamp(entry.id) {
                self.gateway.offers.given_again(entry.id, now_ns);
                self.want_stamp(entry, out);
            }
        }
    }

    /// A member has an entry in its log, durably.
    pub(super) fn count(&mut self, from: MemberIndex, reply: Reply, out: &mut Out<Self>) {
        let Reply {
            view,
            slot,
            id,
            results,
        } = reply;
        let leader = self.config.leader(view);
        let Some(pending) = self.gateway.unanswered.get_mut(&id) else {
            return;
        };
        let count = results.as_ref().map(Vec::len);
        let expected = (from == leader).then_some(pending.requests.len());
        if count != expected {
            return self.misbehaved(
                from,
                "results that are not the leader's of these commands",
                out,
            );
        }
        let Some(tally) = pending.tally(view, slot) else {
            return;
        };
        tally.heard.insert(from);
        tally.results = tally.results.take().or(results);
        if tally.heard.len() < self.config.thresholds.reply {
            return;
        }
        let results = match self.config.faults.is(Fault::CountWithoutLeader) {
            true => Some(vec![Bytes::new(); pending.requests.len()]),
            false => tally.results.take(),
        };
        let Some(results) = results else {
            return;
        };
        out.emit(Event::Branch("committed before it is delivered"));
        let requests = self
            .gateway
            .unanswered
            .remove(&id)
            .unwrap_or_default()
            .requests;
        self.gateway.patience.note_served();
        for (request, result) in requests.into_iter().zip(results) {
            out.reply(request, Outcome::Applied(slot, result));
        }
    }
}
