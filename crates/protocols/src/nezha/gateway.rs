//! The gateway (the paper's proxy): entries of this replica's clients, from a deadline to an answer.

use super::dom::Estimates;
use super::hold::Hold;
use super::messages::{Body, Message, Outcome};
use super::replica::Replica;
use crate::backlog::Backlog;
use quorate_core::{
    Base, Class, Command, ENTRY_BYTES_MAX, EntryId, Event, Out, Outcome as Fate, Peers, Refusal,
    Slot,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// Digests kept of what one member said of one entry: it says another one when a peer has lost its
/// promises.
const DIGESTS_MAX: usize = 8;

/// What this replica sees to.
#[derive(Clone, Debug)]
pub(super) struct Gateway {
    /// Commands without an entry.
    backlog: Backlog,
    /// Entries that are to be decided.
    pub(super) pending: BTreeMap<EntryId, Pending>,
    /// Sequence number of the last own entry.
    seq: u64,
    pub(super) estimates: Estimates,
    pub(super) hold: Hold,
    /// How far each member is, and in which view: never told of one by another.
    synced: Vec<(u64, Slot)>,
    /// Entries answered on the fast path, and on the slow one: for people.
    pub(super) answered: (u64, u64),
}

/// An entry on its way.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub(super) body: Body,
    /// When it was sent last, on the own monotonic clock, ns.
    sent_ns: u64,
    /// When it was sent first, and how much its deadline allowed for; of own entries.
    began: Option<(u64, u64)>,
    /// Somebody else's clients wait for it, nobody does, or they have their answer: it is only to be
    /// decided.
    is_answered: bool,
    /// Of which view the replies are.
    view: u64,
    outcome: Option<Outcome>,
    digests: BTreeMap<usize, BTreeSet<u128>>,
}

impl Hash for Gateway {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (&self.backlog, self.seq, &self.estimates, &self.synced).hash(to);
        self.hold.hash(to);
        for pending in self.pending.values() {
            (
                &pending.body,
                pending.is_answered,
                pending.view,
                &pending.digests,
            )
                .hash(to);
            pending
                .outcome
                .as_ref()
                .map(|outcome| outcome.slot)
                .hash(to);
        }
    }
}

impl Pending {
    fn new(body: Body, is_answered: bool) -> Pending {
        Pending {
            body,
            sent_ns: 0,
            began: None,
            is_answered,
            view: 0,
            outcome: None,
            digests: BTreeMap::new(),
        }
    }

    /// Replies of different views are never counted together.
    fn enter(&mut self, view: u64) -> bool {
        if view > self.view {
            self.view = view;
            self.outcome = None;
            self.digests.clear();
        }
        view == self.view
    }
}

impl Gateway {
    pub(super) fn new(n: usize, hold: Option<u64>) -> Gateway {
        Gateway {
            backlog: Backlog::default(),
            pending: BTreeMap::new(),
            seq: 0,
            estimates: Estimates::new(n),
            hold: Hold::new(hold),
            synced: vec![(0, Slot(0)); n],
            answered: (0, 0),
        }
    }

    /// Whether commands wait for an entry.
    pub(super) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Whether anything waits here.
    pub(super) fn is_busy(&self) -> bool {
        !self.pending.is_empty() || !self.backlog.is_empty()
    }
}

impl Replica {
    pub(super) fn on_submit(&mut self, commands: Vec<Command>, out: &mut Out<Self>) {
        for command in commands {
            let refusal = if command.encoded_len_max() > ENTRY_BYTES_MAX {
                Some(Refusal::TooLarge)
            } else if self.queue_room() == 0 {
                Some(Refusal::Overloaded)
            } else {
                None
            };
            match refusal {
                Some(refusal) => out.reply(command.id, Fate::Refused(refusal)),
                None if command.class == Class::Read => self.reads.wait(command.id),
                None => self.gateway.backlog.push(command),
            }
        }
    }

    /// How many more commands may wait.
    pub(super) fn queue_room(&self) -> usize {
        let backlog = &self.gateway.backlog;
        if backlog.bytes() >= self.config.queue_bytes_max {
            return 0;
        }
        let waiting = backlog.len() + self.reads.count();
        self.config.queue_commands_max.saturating_sub(waiting)
    }

    /// Forms entries of whatever waits, while few enough are under way, and sends them.
    pub(super) fn form_entries(&mut self, out: &mut Out<Self>) {
        let config = self.config.clone();
        while !self.gateway.backlog.is_empty() && self.gateway.pending.len() < config.outstanding {
            let (most, bytes) = (config.batch_commands_max, config.batch_bytes_max);
            let batch = self.gateway.backlog.fill(most, bytes);
            self.gateway.seq += 1;
            let id = EntryId {
                origin: config.members[config.me],
                boot: config.boot,
                seq: self.gateway.seq,
            };
            let entry = batch.finish(id, self.now.clock_ns);
            let commands: Result<Vec<Command>, _> = entry.commands().collect();
            let footprint = config.footprint(&commands.unwrap_or_default());
            let body = Body { entry, footprint };
            let mut pending = Pending::new(body, false);
            pending.began = Some((self.now.mono_ns, self.gateway.hold.percent()));
            self.gateway.pending.insert(id, pending);
            self.dispatch(id, out);
        }
    }

    /// Sends a request, with a deadline of now, to all, this replica among them.
    fn dispatch(&mut self, id: EntryId, out: &mut Out<Self>) {
        let (sent, mono_ns) = (self.now.clock_ns, self.now.mono_ns);
        let (me, max_ns) = (self.config.me, self.config.owd_max_ns);
        let percent = self.gateway.hold.percent();
        let owd_ns = self.gateway.estimates.furthest_ns(mono_ns, me, max_ns);
        let owd_ns = (owd_ns * percent / 100).min(max_ns);
        let deadline = self
            .gateway
            .estimates
            .deadline((sent, owd_ns), mono_ns, max_ns);
        let Some(pending) = self.gateway.pending.get_mut(&id) else {
            return;
        };
        pending.sent_ns = mono_ns;
        let body = pending.body.clone();
        let request = Message::Request {
            body: body.clone(),
            sent,
            deadline,
        };
        if self.config.n() > 1 {
            // It promises nothing.
            out.send_early(Peers::All, request);
        }
        self.on_request(me, body, (sent, deadline), out);
    }

    /// What was not decided for a while is sent again.
    pub(super) fn on_retry(&mut self, out: &mut Out<Self>) {
        let wait_ns = self.config.rtx_min_ns;
        let is_old = |pending: &Pending| self.now.mono_ns >= pending.sent_ns + wait_ns;
        let old = self
            .gateway
            .pending
            .iter()
            .filter(|(_, pending)| is_old(pending));
        let old: Vec<EntryId> = old.map(|(id, _)| *id).collect();
        if !old.is_empty() {
            self.back_off();
        }
        for id in old {
            self.dispatch(id, out);
        }
    }

    /// Sees to it that an entry is decided that was written down here: its bytes are kept until then.
    pub(super) fn adopt(&mut self, body: Body) {
        let id = body.entry.id;
        if !self.done.contains(id) {
            let pending = self.gateway.pending.entry(id);
            pending.or_insert_with(|| Pending::new(body, true));
        }
    }

    /// A fast reply, or how far a member is.
    pub(super) fn on_reply(&mut self, from: usize, message: Message, out: &mut Out<Self>) {
        match message {
            Message::FastReply {
                view,
                id,
                digest,
                owd,
                outcome,
            } => {
                self.gateway.estimates.told(from, owd, self.now.mono_ns);
                self.on_fast_reply(from, view, (id, digest), outcome, out);
            }
            Message::Synced { view, upto, owd } => {
                self.gateway.estimates.told(from, owd, self.now.mono_ns);
                self.heard(from, view);
                self.on_synced(from, view, upto, out);
            }
            _ => {}
        }
    }

    fn on_fast_reply(
        &mut self,
        from: usize,
        view: u64,
        (id, digest): (EntryId, u128),
        outcome: Option<Outcome>,
        out: &mut Out<Self>,
    ) {
        self.heard(from, view);
        let is_leader = from == self.config.leader_of(view);
        if is_leader != outcome.is_some() {
            return self.misbehaved(from, "a reply of the leader that is not the leader's", out);
        }
        if let Some(outcome) = &outcome {
            let (mono_ns, max_ns) = (self.now.mono_ns, self.config.owd_max_ns);
            let estimates = &mut self.gateway.estimates;
            estimates.told_deadline(outcome.deadline, mono_ns, max_ns);
        }
        let Some(pending) = self.gateway.pending.get_mut(&id) else {
            return;
        };
        if pending.is_answered || !pending.enter(view) {
            return;
        }
        let digests = pending.digests.entry(from).or_default();
        if digests.len() < DIGESTS_MAX {
            digests.insert(digest);
        }
        if let Some(outcome) = outcome {
            if outcome.results.len() != pending.body.entry.count() {
                return self.misbehaved(from, "results of other commands", out);
            }
            pending.outcome = Some(outcome);
        }
        self.answer_if_committed(id, out);
    }

    /// A member has the leader's log of its view up to here.
    pub(super) fn on_synced(&mut self, from: usize, view: u64, upto: Slot, out: &mut Out<Self>) {
        let synced = &mut self.gateway.synced[from];
        *synced = (*synced).max((view, upto));
        if from != self.config.me {
            self.on_log_status(from, view, upto, out);
        }
        let waiting = self.gateway.pending.iter();
        let waiting = waiting.filter(|(_, pending)| !pending.is_answered && pending.view == view);
        let waiting: Vec<EntryId> = waiting.map(|(id, _)| *id).collect();
        for id in waiting {
            self.answer_if_committed(id, out);
        }
    }

    /// The quorum check (paper, section 6).
    fn answer_if_committed(&mut self, id: EntryId, out: &mut Out<Self>) {
        let Some(pending) = self.gateway.pending.get(&id) else {
            return;
        };
        let view = pending.view;
        let (Some(outcome), false) = (&pending.outcome, pending.is_answered) else {
            return;
        };
        let leader = self.config.leader_of(view);
        let empty = BTreeSet::new();
        let of = |member: &usize| pending.digests.get(member).unwrap_or(&empty);
        let is_slow = |member: &usize| {
            let (at, upto) = self.gateway.synced[*member];
            (at == view || !self.config.rules.tells_views_apart) && upto > outcome.slot
        };
        let is_fast = |member: &usize| is_slow(member) || !of(member).is_disjoint(of(&leader));
        let followers = || (0..self.config.n()).filter(|member| *member != leader);
        let slow = 1 + followers().filter(is_slow).count();
        let fast = 1 + followers().filter(is_fast).count();
        let thresholds = self.config.thresholds;
        let answered = &mut self.gateway.answered;
        let branch = match (slow >= thresholds.slow, fast >= thresholds.fast) {
            (false, true) => {
                answered.0 += 1;
                "committed fast"
            }
            (true, _) => {
                answered.1 += 1;
                "committed slowly"
            }
            (false, false) => return,
        };
        out.emit(Event::Branch(branch));
        let Some(pending) = self.gateway.pending.get_mut(&id) else {
            return;
        };
        pending.is_answered = true;
        if let Some((began_ns, percent)) = pending.began {
            let took_ns = self.now.mono_ns.saturating_sub(began_ns);
            self.gateway.hold.answered(percent, took_ns);
        }
        let Some(Outcome { slot, results, .. }) = pending.outcome.take() else {
            return;
        };
        for (command, result) in pending.body.entry.commands().zip(results) {
            if let Ok(command) = command {
                out.reply(command.id, Fate::Applied(slot, result));
            }
        }
    }
}

/// Waits grow up to so many times.
pub(super) const BACKOFF_MAX: u32 = 12;
