//! Leading a view: appending, telling the followers, and the commit-point (paper, sections 5.3, 5.4 and 6).

use super::Replica;
use super::config::Config;
use super::digest::Tup;
use super::gateway::Gateway;
use super::messages::{Body, FastReply, LogMod, Message, Outcome, Placed};
use super::mutants::Fault;
use super::repeats::Repeat;
use super::replica::Status;
use bytes::Bytes;
use quorate_core::{EntryId, Event, Lsn, MemberIndex, Out, Peers, Slot, reached};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Entries in one log modification, at most.
const ENTRIES_MAX: usize = 1024;

/// What a leader keeps of its view.
#[derive(Clone, Debug)]
pub(super) struct Lead {
    /// How far each follower said to be.
    pub(super) acks: Vec<Slot>,
    /// The first slot that the own disk may not have.
    pub(super) durable: Slot,
    /// The first slot of which the followers were not told.
    pub(super) said: Slot,
    /// The commit-point they were told.
    pub(super) said_cp: Slot,
    /// When each member was told the log of the view from its beginning.
    pub(super) starts: Vec<Repeat>,
    /// When each member was told that this replica leads, and nothing else.
    pub(super) signs: Vec<Repeat>,
    /// That it leads this view is durable with this record. Before, a crash may make it begin the view once
    /// more, with another log.
    pub(super) sealed: Lsn,
    /// What became of the entries that are not delivered.
    pub(super) outcomes: BTreeMap<Slot, Appended>,
    /// Counts what is said of them, where that is the leader's work (`counting.rs`).
    pub(super) counter: Option<Box<Gateway>>,
}

/// An entry that was appended.
#[derive(Clone, Debug)]
pub(super) struct Appended {
    pub(super) id: EntryId,
    deadline: u64,
    digest: u128,
    results: Option<Vec<Bytes>>,
}

impl Appended {
    /// An entry whose results are not known yet.
    pub(super) fn new(tup: Tup, digest: u128) -> Appended {
        Appended {
            id: tup.id,
            deadline: tup.deadline,
            digest,
            results: None,
        }
    }

    /// Whether its gateway heard what it came to.
    pub(super) fn is_said(&self) -> bool {
        self.results.is_some()
    }
}

impl Lead {
    pub(super) fn new(config: &Config, end: Slot) -> Lead {
        Lead {
            acks: vec![Slot(0); config.n()],
            starts: vec![Repeat::default(); config.n()],
            signs: vec![Repeat::default(); config.n()],
            durable: Slot(0),
            said: end,
            said_cp: Slot(0),
            sealed: Lsn(0),
            outcomes: BTreeMap::new(),
            counter: config
                .leader_counts
                .then(|| Box::new(Gateway::counter(config))),
        }
    }
}

impl Hash for Lead {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.acks, self.durable, self.said, self.said_cp).hash(to);
        (&self.starts, &self.signs).hash(to);
        self.counter.hash(to);
        for (slot, outcome) in &self.outcomes {
            (slot, outcome.id, outcome.digest, &outcome.results).hash(to);
        }
    }
}

impl Replica {
    /// Late, or absurdly early: it gets the next deadline there is, now.
    pub(super) fn append_late(&mut self, body: Body, out: &mut Out<Self>) {
        let bound = self.log.bounds.bound(&body.footprint);
        self.append(body, bound.deadline.saturating_add(1), out);
    }

    /// Takes what found the log full into it, as far as there is room: gateways ask again only after a
    /// while. Says whether there was any.
    pub(super) fn append_waiting(&mut self, out: &mut Out<Self>) -> bool {
        let end = self.end();
        while self.leads()
            && self.log.items.len() < self.config.window
            && let Some(body) = self.bodies.pop_first()
        {
            self.append_late(body, out);
        }
        self.end() > end
    }

    /// Takes an entry into the log, and has it executed.
    pub(super) fn append(&mut self, body: Body, deadline: u64, out: &mut Out<Self>) {
        let id = body.entry.id;
        if self.knows(id) {
            return;
        }
        if self.log.items.len() >= self.config.window {
            out.emit(Event::Branch("window full"));
            return self.bodies.insert(body);
        }
        self.early.remove(id);
        self.bodies.remove(id);
        let item = self.item(body, deadline);
        let slot = self.end();
        let lsn = self.write_item(slot, &item, out);
        self.disk.append(lsn, slot.next());
        self.push(item.clone());
        let digest = match &self.log.sums {
            Some(sums) => self.digest(sums, &item.body),
            None => 0,
        };
        let appended = Appended::new(item.tup, digest);
        self.execute(slot, appended, &item.body, out);
    }

    /// Has an entry of the own log executed.
    pub(super) fn execute(
        &mut self,
        slot: Slot,
        appended: Appended,
        body: &Body,
        out: &mut Out<Self>,
    ) {
        self.lead.outcomes.insert(slot, appended);
        self.begin_count(body);
        out.execute(slot, body.entry.clone());
    }

    pub(super) fn on_applied(
        &mut self,
        slot: Slot,
        entry: EntryId,
        results: Vec<Bytes>,
        out: &mut Out<Self>,
    ) {
        let outcome = self.lead.outcomes.get_mut(&slot);
        if let Some(outcome) = outcome.filter(|outcome| outcome.id == entry)
            && self.status == Status::Normal
        {
            outcome.results = Some(results);
            self.say_outcome(slot, out);
        }
    }

    /// The leader's fast reply, once it has the results.
    pub(super) fn say_outcome(&mut self, slot: Slot, out: &mut Out<Self>) {
        if self.say_word_again(slot, out) {
            return;
        }
        let Some(reply) = self.outcome_reply(slot) else {
            return;
        };
        let to = match self.config.leader_counts {
            true => self.config.members[self.config.me],
            false => reply.id.origin,
        };
        self.say_to(to, Message::FastReply(reply), out);
    }

    /// What came of an entry of the log, for its gateway, if it has one that listens.
    pub(super) fn outcome_reply(&self, slot: Slot) -> Option<FastReply> {
        let appended = self.lead.outcomes.get(&slot)?;
        let outcome = Outcome {
            slot,
            deadline: appended.deadline,
            results: appended.results.clone()?,
        };
        Some(FastReply {
            view: self.view,
            id: appended.id,
            digest: appended.digest,
            owd: self.owd_from(appended.id.origin)?,
            outcome: Some(outcome),
        })
    }

    /// A follower is so far.
    pub(super) fn on_log_status(
        &mut self,
        from: MemberIndex,
        view: u64,
        upto: Slot,
        out: &mut Out<Self>,
    ) {
        if !self.leads() || view != self.view {
            return;
        }
        if upto > self.end() {
            return self.misbehaved(from, "a log that is longer than its leader's", out);
        }
        self.lead.acks[from] = self.lead.acks[from].max(upto);
        // It is in the view and hears of it.
        self.lead.starts[from] = Repeat::default();
        self.lead.signs[from] = Repeat::default();
    }

    /// Tells a member whose requests come again that the leader lives, and how far its log is.
    pub(super) fn say_sign(&mut self, member: MemberIndex, out: &mut Out<Self>) {
        let min_ns = self.config.rtx_min_ns;
        if member != self.config.me && self.lead.signs[member].is_due(self.now.mono_ns, min_ns) {
            self.say_log_to(member, self.end(), false, out);
        }
    }

    /// The commit-point: what `f + 1` have on their disks, this one among them.
    pub(super) fn commit(&mut self, out: &mut Out<Self>) {
        if !self.leads() {
            return;
        }
        let me = self.config.me;
        let of = |member: MemberIndex| match member == me {
            true => self.lead.durable,
            false => self.lead.acks[member],
        };
        let ends = self.config.all().iter().map(of);
        let Some(cp) = reached(ends, self.config.thresholds.slow, self.cp) else {
            return;
        };
        for slot in self.cp.0..cp.0 {
            out.emit(Event::Decided {
                slot: Slot(slot),
                fast: false,
                noop: false,
                delays: 2,
            });
        }
        self.cp = cp;
    }

    /// Tells the followers what is new. In a view that is sure to be its own, that leaves before it is
    /// written: it promises nothing.
    pub(super) fn say_log(&mut self, out: &mut Out<Self>) {
        if !self.leads() || self.config.n() == 1 {
            return;
        }
        while self.lead.said < self.end() || self.lead.said_cp < self.cp {
            let first = self.lead.said.max(self.ap);
            let log_mod = self.log_mod(first, false);
            self.lead.said = Slot(first.0 + log_mod.entries.len() as u64);
            self.lead.said_cp = self.cp;
            self.send_log(Peers::All, log_mod, out);
        }
    }

    fn log_mod(&self, first: Slot, wants_sums: bool) -> LogMod {
        let from = (first.0 - self.ap.0) as usize;
        let items = self
            .log
            .items
            .range(from.min(self.log.items.len())..)
            .take(ENTRIES_MAX);
        let entries: Vec<Placed> = items.map(|item| item.placed()).collect();
        let is_end = first.0 + entries.len() as u64 == self.end().0;
        let sums = self.log.sums.as_ref().filter(|_| wants_sums && is_end);
        let sums = sums.cloned();
        LogMod {
            view: self.view,
            first,
            entries,
            cp: self.cp,
            cv: self.cv.clone(),
            sums,
        }
    }

    pub(super) fn say_log_to(
        &self,
        to: MemberIndex,
        from: Slot,
        wants_sums: bool,
        out: &mut Out<Self>,
    ) {
        if to != self.config.me {
            let first = from.max(self.ap).min(self.end());
            let log_mod = self.log_mod(first, wants_sums);
            self.send_log(self.peer(to), log_mod, out);
        }
    }

    fn send_log(&self, to: Peers, log_mod: LogMod, out: &mut Out<Self>) {
        let is_early = self.disk.is_durable(self.lead.sealed)
            || self.config.faults.is(Fault::LeadBeforeDurable);
        match is_early {
            true => out.send_early(to, Message::LogMod(log_mod)),
            false => out.send(to, Message::LogMod(log_mod)),
        }
    }

    pub(super) fn on_fetch(
        &mut self,
        from: MemberIndex,
        view: u64,
        first: Slot,
        wants_sums: bool,
        out: &mut Out<Self>,
    ) {
        if view != self.view || !self.leads() {
            return self.say_view_to(from, view, out);
        }
        if first < self.ap {
            out.inform(self.config.members[from], first);
        }
        self.say_log_to(from, first, wants_sums, out);
    }

    /// Followers have not said for a while that they have what is not committed.
    pub(super) fn on_resend(&mut self, out: &mut Out<Self>) {
        self.back_off();
        for member in self.config.all() {
            let ack = self.lead.acks[member];
            if ack < self.end() {
                self.say_log_to(member, ack, false, out);
            }
        }
    }
}
