//! A replica's state, and what every input does to it.

use super::config::Config;
use super::describe;
use super::messages::{Message, Record, Timer, Vote};
use super::mutants::Fault;
use super::reads::Answers;
use super::state::{Heard, Leader, Role, Trust, Written};
use crate::shared::ballot::Ballot;
use crate::shared::claim::Fetcher;
use crate::shared::clients::Clients;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::peers::{Member, sender};
use crate::shared::seating::Seating;
use crate::shared::timers::Backoff;
use crate::shared::words::{plain_checks, yardstick_machine};
use quorate_core::{EntryId, Introspect, Machine, MemberSet, Now, Out, ReplicaId, Slot, Wire};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: gateway, acceptor, learner, and leader at times.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether it lost its promises, and only learns.
    pub(super) is_silent: bool,
    /// What this replica has promised: it votes in no lower ballot.
    pub(super) promised: Ballot,
    /// The highest ballot heard of.
    pub(super) highest: Ballot,
    /// The first slot of the fast round of the promised ballot, if that is open here.
    pub(super) any: Option<Slot>,
    /// The first slot behind all votes in the promised ballot, and behind what is delivered.
    pub(super) free: Slot,
    /// By slot that is not delivered: the last vote.
    pub(super) votes: BTreeMap<Slot, Vote>,
    /// Entries that were heard of and are not delivered.
    pub(super) heard: BTreeMap<EntryId, Heard>,
    /// The first slot not delivered.
    pub(super) next: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// By slot that is not delivered: the name of what is decided.
    pub(super) decided: BTreeMap<Slot, Option<EntryId>>,
    /// What was decided in the slots before `next`, as far as it is remembered.
    pub(super) recent: VecDeque<Option<EntryId>>,
    /// How far others have delivered.
    pub(super) fetcher: Fetcher,
    /// What this replica is to the others.
    pub(super) role: Role,
    /// Who leads, as far as known.
    pub(super) trust: Trust,
    /// Members whose connection is down.
    pub(super) down: MemberSet,
    /// What clients of this replica wait for.
    pub(super) clients: Clients<Answers>,
    /// How far records are durable, and what waits for that.
    pub(super) disk: Disk<Written>,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
    /// The own clock at this step, in ns.
    pub(super) now_ns: u64,
}

/// The timers that run, but for those of patience and of catching up.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Armed {
    pub(super) retransmit: bool,
    pub(super) election: bool,
    pub(super) collide: bool,
}

impl Machine for Replica {
    yardstick_machine!();
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.is_silent, self.promised, self.highest).hash(to);
        (self.any, self.free, &self.votes, &self.heard).hash(to);
        self.done.to_bytes().hash(to);
        (self.next, &self.decided, &self.recent, self.fetcher).hash(to);
        (&self.role, self.trust, self.down).hash(to);
        (&self.clients, &self.disk, self.armed, self.backoff).hash(to);
    }

    plain_checks!(describe);

    fn leads(&self) -> Option<bool> {
        Some(self.leader().is_some())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let leads = f64::from(u8::from(self.leader().is_some()));
        vec![("ballot", self.promised.round as f64), ("leads", leads)]
    }

    /// The depth of a run is counted in ballots.
    fn depth(&self) -> usize {
        self.highest.round as usize
    }
}

impl Member for Replica {
    fn seating(&self) -> &Seating {
        &self.config.seating
    }
}

impl Replica {
    /// How many more requests may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.clients.room(&self.config.batches)
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let seating = &self.config.seating;
        let Some(from) = sender(from, seating.member(from), seating.me, out) else {
            return;
        };
        match message {
            Message::Propose(entry) => self.on_propose(from, entry, out),
            Message::FastVote(vote) => self.on_fast_vote(from, vote, out),
            Message::Accept(accept) => self.on_accept(from, accept, out),
            Message::Accepted(ballot, slot) => self.on_accepted(from, ballot, slot, out),
            Message::Commit(commit) => self.on_commit(from, commit, out),
            Message::Prepare(ballot, first) => self.on_prepare(from, ballot, first, out),
            Message::Promise(promise) => self.on_promise(from, promise, out),
            Message::Nack(promised) => self.see(promised, out),
            Message::Ask(next) => self.on_ask(from, next, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA(query, known) => self.on_read_a(from, query, known, out),
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Collide => self.on_collide(out),
            Timer::Election => self.on_election(out),
            Timer::Retransmit => self.on_retransmit(out),
            Timer::CatchUp => {
                let again_ns = self.config.delays.rtx_max_ns;
                let (next, seating) = (self.next, &self.config.seating);
                self.fetcher
                    .on_timer(next, seating, Timer::CatchUp, again_ns, out);
            }
            Timer::Patience => self.clients.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.take_durable(out);
        // What was heard of may have been decided before.
        self.deliver_all(out);
        self.form_entries(now, out);
        self.vote_for_all(out);
        self.realign(out);
        self.conclude_query(out);
        self.ask_about_reads(out);
        self.announce(out);
        self.rearm_timers(out);
    }

    fn take_durable(&mut self, out: &mut Out<Self>) {
        while let Some(written) = self.disk.pop_durable() {
            match written {
                Written::Own { ballot, slot } => {
                    if ballot == self.promised
                        && let Some(tally) = self.tally_mut(slot)
                    {
                        tally.is_durable = true;
                        self.count(slot, out);
                    }
                }
                Written::Candidacy { ballot } => {
                    if ballot == self.promised
                        && let Role::Candidate(candidate) = &mut self.role
                    {
                        candidate.is_written = true;
                        self.lead_if_elected(out);
                    }
                }
            }
        }
    }

    /// What this replica knows as leader, if it leads.
    pub(super) fn leader(&self) -> Option<&Leader> {
        match &self.role {
            Role::Leader(leader) => Some(leader),
            _ => None,
        }
    }

    /// The first slot that nothing is kept of: too far ahead.
    pub(super) fn horizon(&self) -> Slot {
        Slot(self.next.0.saturating_add(self.config.slots_max))
    }

    /// Whether something may be kept of a slot.
    pub(super) fn is_kept(&self, slot: Slot) -> bool {
        (self.next..self.horizon()).contains(&slot)
    }

    pub(super) fn fault(&self, fault: Fault) -> bool {
        self.config.faults.is(fault)
    }
}
