//! What clients sent: commands waiting for an entry, and own entries on their way.

use super::Replica;
use super::messages::{Message, Timer};
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::entry_names::EntryNames;
use quorate_core::{Command, ENTRY_BYTES_MAX, Entry, Event, MemberIndex, Now, Out, RequestId};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

/// An own entry that is not committed yet.
#[derive(Clone, Debug)]
pub(super) struct Offer {
    pub(super) entry: Entry,
    /// Whether it was given to a proposer of this view.
    pub(super) is_handed_on: bool,
}

impl Hash for Offer {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.entry.id, self.is_handed_on).hash(to);
    }
}

/// What clients of a replica sent, and is not committed.
#[derive(Clone, Debug)]
pub(super) struct Clients {
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Own entries not committed.
    pub(super) open: Vec<Offer>,
    /// Whether all own entries were handed on.
    pub(super) are_handed_on: bool,
    /// Names of own entries.
    names: EntryNames,
    /// Whether they wait in vain.
    pub(super) patience: Patience,
}

impl Clients {
    /// Nobody has sent anything yet.
    pub(super) fn new(names: EntryNames) -> Self {
        Clients {
            backlog: Backlog::default(),
            open: Vec::new(),
            are_handed_on: true,
            names,
            patience: Patience::default(),
        }
    }

    /// A view begins: no own entry was given to a proposer of it.
    pub(super) fn enter_view(&mut self) {
        self.open
            .iter_mut()
            .for_each(|offer| offer.is_handed_on = false);
        self.are_handed_on = false;
    }
}

impl Hash for Clients {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.backlog, &self.open, self.names, self.patience).hash(to);
    }
}

/// Own entries under way at once while there are rounds: one in each until the first is committed.
const OUTSTANDING_IN_ROUNDS: usize = 64;

impl Replica {
    /// Takes what waits, or refuses it.
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        let backlog = &mut self.clients.backlog;
        self.reads.admit(commands, backlog, &self.config.queue, out);
    }

    /// Refuses what nobody waits for any more, of what is in no entry and in no question.
    pub(super) fn on_withdraw(&mut self, ids: &BTreeSet<RequestId>, out: &mut Out<Self>) {
        self.reads
            .refuse_withdrawn(&mut self.clients.backlog, ids, out);
    }

    /// How many more commands may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.reads.room(&self.clients.backlog, &self.config.queue)
    }

    /// Forms entries of whatever waits, while few enough are under way: under load an entry is
    /// what came while its predecessors were committed.
    pub(super) fn form_entries(&mut self, now: Now, out: &mut Out<Self>) {
        while self.may_form_entry() {
            self.form_entry(now);
            self.hand_on_all(out);
        }
    }

    /// Whether something waits that an entry may be formed of.
    pub(super) fn may_form_entry(&self) -> bool {
        let is_round_full = self.rounds.is_pulsing() && !self.queue.is_empty();
        self.has_room_for_entry() && !self.clients.backlog.is_empty() && !is_round_full
    }

    /// Whether few enough own entries are under way for one more.
    pub(super) fn has_room_for_entry(&self) -> bool {
        let outstanding = match self.rounds.is_pulsing() {
            true => OUTSTANDING_IN_ROUNDS.max(self.config.outstanding),
            false => self.config.outstanding,
        };
        self.clients.open.len() < outstanding
    }

    fn form_entry(&mut self, now: Now) {
        let (commands, bytes) = (self.config.batch_commands_max, self.config.batch_bytes_max);
        let batch = self.clients.backlog.fill(commands, bytes);
        let id = self.clients.names.next();
        self.clients.open.push(Offer {
            entry: batch.finish(id, now.clock_ns),
            is_handed_on: false,
        });
        self.clients.are_handed_on = false;
    }

    /// Gives own entries to a proposer of this view, as soon as it is known who that is: to this
    /// replica itself if it is one.
    pub(super) fn hand_on_all(&mut self, out: &mut Out<Self>) {
        if self.init.is_none() || self.clients.are_handed_on {
            return;
        }
        self.clients.are_handed_on = true;
        for index in 0..self.clients.open.len() {
            if self.clients.open[index].is_handed_on {
                continue;
            }
            let entry = self.clients.open[index].entry.clone();
            let is_handed_on = if self.will_propose() {
                self.enqueue(entry, out);
                true
            } else {
                self.forward(entry, None, out)
            };
            self.clients.open[index].is_handed_on = is_handed_on;
            self.clients.are_handed_on &= is_handed_on;
        }
    }

    /// Whether this replica proposes in this view, now or once VIEW-INIT is committed.
    fn will_propose(&self) -> bool {
        let has_slots = self
            .init
            .as_ref()
            .is_some_and(|init| init.has(self.config.me));
        has_slots && !self.is_mute_proposer() && self.is_voting()
    }

    /// Gives an entry to a proposer that can be reached, each time to another.
    fn forward(&mut self, entry: Entry, but: Option<MemberIndex>, out: &mut Out<Self>) -> bool {
        let Some(init) = &self.init else {
            return false;
        };
        let is_reached = |member: &&MemberIndex| {
            **member != self.config.me && Some(**member) != but && !self.down.contains(**member)
        };
        let reached: Vec<MemberIndex> = init.pattern.iter().filter(is_reached).copied().collect();
        let Some(turn) =
            (self.config.me.position() + self.watch.attempts as usize).checked_rem(reached.len())
        else {
            return false;
        };
        out.send_early(self.peer(reached[turn]), Message::Forward { entry });
        true
    }

    /// An entry to propose. Who proposes nothing passes on what it got from its origin.
    pub(super) fn on_forward(&mut self, from: MemberIndex, entry: Entry, out: &mut Out<Self>) {
        if self.config.member(entry.id.origin).is_none() {
            return self.misbehaved(from, "an entry of no member", out);
        }
        if entry.body_len() > ENTRY_BYTES_MAX || entry.bulk_len() > 0 {
            return self.misbehaved(from, "an entry too large", out);
        }
        let is_from_origin = self.config.id(from) == entry.id.origin;
        if self.will_propose() {
            self.enqueue(entry, out);
        } else if is_from_origin && !self.done.entries.contains(entry.id) {
            out.emit(Event::Branch("passed on"));
            self.forward(entry, Some(from), out);
        }
    }

    /// Has own entries given away again that are in no slot known here.
    pub(super) fn offer_again(&mut self) {
        for index in 0..self.clients.open.len() {
            let is_under_way = self.is_under_way(&self.clients.open[index].entry);
            self.clients.open[index].is_handed_on = is_under_way;
        }
        self.clients.are_handed_on = false;
    }

    /// Whether clients of this replica wait.
    pub(super) fn has_requests(&self) -> bool {
        !self.clients.backlog.is_empty() || !self.clients.open.is_empty() || self.reads.count() > 0
    }

    /// Requests have waited long. If none was served meanwhile, those in no entry are refused: they will not be
    /// executed. The others stay under way, and nothing takes their place: they may be committed whenever a
    /// quorum is back, and would be ever more.
    pub(super) fn on_patience(&mut self, out: &mut Out<Self>) {
        if self.clients.patience.is_over() {
            self.reads.refuse_with(&mut self.clients.backlog, out);
        }
    }

    /// Has the patience timer run while clients wait.
    pub(super) fn watch_patience(&mut self, out: &mut Out<Self>) {
        let (are_waiting, period_ns) = (self.has_requests(), self.config.patience_ns);
        self.clients
            .patience
            .watch(are_waiting, Timer::Patience, period_ns, out);
    }
}
