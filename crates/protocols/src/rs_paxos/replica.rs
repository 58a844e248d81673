//! A replica's state, and what every input does to it.

use super::config::Config;
use super::describe;
use super::leader::OwnProposal;
use super::learner::LeaderClaim;
use super::lease::Lease;
use super::messages::{Message, Record};
use super::offers::Offer;
use super::presence::Presence;
use super::reads::Answers;
use super::role::{Instance, Role};
use super::spread::Parked;
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::ballot::Ballot;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::leadership::Leadership;
use crate::shared::led::Led;
use crate::shared::peers::sender;
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::rejoins::Rejoins;
use crate::shared::timers::{Armed, Backoff, Timer};
use crate::shared::under_way::Line;
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::pace::Pace;
use quorate_core::{
    EntryId, Input, Introspect, Lsn, Machine, Now, Out, PayloadRule, ReplicaId, Slot, Wire,
};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: acceptor, learner, proposer.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether this replica may make promises, and the lives of all members.
    pub(super) voter: Voter<Ballot>,
    /// The highest ballot promised; the own one while it leads or wants to.
    pub(super) promised: Ballot,
    /// The first slot not delivered.
    pub(super) ap: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// The slots from `ap` on, as far as anything is known of them.
    pub(super) slots: VecDeque<Instance>,
    /// The first slot behind every order accepted since the start.
    pub(super) orders_end: Slot,
    /// What the last leader heard of knows to be chosen.
    pub(super) claim: LeaderClaim,
    /// Names of the values chosen in the last slots before `ap`.
    pub(super) recent: VecDeque<Option<EntryId>>,
    /// What this replica is to the others.
    pub(super) role: Role,
    /// The leader as far as known.
    pub(super) leadership: Leadership<Ballot>,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Commands without an entry that have so much bulk that others pass them.
    pub(super) large: Backlog,
    /// Fragments that came ahead of their slots.
    pub(super) parked: Parked,
    /// Own entries not delivered.
    pub(super) offers: Vec<Offer>,
    /// How many own entries others pass.
    pub(super) large_offers: usize,
    /// Names of own entries.
    pub(super) names: EntryNames,
    /// Reads; none goes through the log.
    pub(super) reads: ReadQueries<Answers>,
    /// Leases for reads, granted and held.
    pub(super) lease: Lease,
    /// The members that answer.
    pub(super) presence: Presence,
    /// What the own links have to move.
    pub(super) line: Line,
    /// How long accepts of long batches take.
    pub(super) pace: Pace,
    /// How long others' long batches take from here until they are delivered.
    pub(super) forward_pace: Pace,
    /// How far records are durable, and the own proposals that wait for that.
    pub(super) disk: Disk<OwnProposal>,
    /// Whether clients wait in vain.
    pub(super) patience: Patience,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
}

impl Machine for Replica {
    plain_machine!();

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.lease.tick(now.mono_ns);
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.on_withdraw(&ids, out),
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Durable(lsn) => self.on_durable(lsn, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            Input::Held(entry) => self.on_held(&entry, out),
            Input::Prefer(member) => self.on_prefer(member, out),
            // It has nothing executed ahead.
            Input::Applied { .. } => {}
        }
        self.run_to_fixpoint(now, out);
    }

    fn room(&self) -> usize {
        self.queue_room()
    }

    fn is_serving(&self) -> bool {
        self.is_voting()
    }

    fn reach(config: &Config) -> Option<u64> {
        Some(config.slots_max as u64)
    }

    fn payloads(config: &Config) -> Option<PayloadRule> {
        Some(PayloadRule {
            min: config.payload_min,
            code: config.code_max,
        })
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (&self.voter, self.promised, self.ap).hash(to);
        self.done.to_bytes().hash(to);
        (&self.slots, self.claim, &self.recent).hash(to);
        self.orders_end.max(self.ap).hash(to);
        (&self.role, self.leadership).hash(to);
        (&self.large, &self.parked, &self.lease).hash(to);
        (&self.backlog, &self.offers, self.names, &self.reads).hash(to);
        self.disk.hash(to);
        let candidacy = self.role.candidacy_lsn();
        candidacy.map(|lsn| self.disk.is_durable(lsn)).hash(to);
        (self.presence, self.patience, self.armed, self.backoff).hash(to);
    }

    plain_checks!(describe);

    fn leads(&self) -> Option<bool> {
        Some(self.is_leader())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let (round, leads) = (self.promised.round, u8::from(self.is_leader()));
        vec![("round", round as f64), ("leads", f64::from(leads))]
    }

    fn hands_over(&self) -> Option<bool> {
        Some(self.makes_room())
    }

    /// The depth of a run is counted in ballots.
    fn depth(&self) -> usize {
        self.promised.round as usize
    }
}

impl Replica {
    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let (member, me) = (self.config.seating.member(from), self.config.seating.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        match message {
            Message::Forward { entry } => self.on_forward(from, entry, out),
            Message::PreVote {
                boot,
                campaign,
                next,
            } => self.on_pre_vote(from, boot, campaign, next, out),
            Message::PreVoteOk {
                boot,
                campaign,
                promised,
            } => self.on_pre_vote_ok(from, boot, campaign, promised, out),
            Message::Prepare {
                ballot,
                from: first,
            } => self.on_prepare(from, ballot, first, out),
            Message::Promise(promise) => self.on_promise(from, promise, out),
            Message::Nack { ballot, promised } => self.on_nack(ballot, promised),
            Message::Accept(accept) => self.on_accept(from, accept, out),
            Message::Accepted {
                ballot,
                slot,
                code,
                lives,
            } => self.on_accepted(from, ballot, slot, code, &lives, out),
            Message::Spread {
                entry,
                code,
                is_attached,
            } => self.on_spread(from, entry, code, is_attached, out),
            Message::Has {
                entry,
                code,
                is_here,
            } => self.on_has(from, entry, code, is_here, out),
            Message::Lacks { ballot, slot, code } => self.on_lacks(from, ballot, slot, code, out),
            Message::Commit {
                ballot,
                claim,
                earlier,
            } => self.on_commit(from, ballot, claim, &earlier, out),
            // A peer waits for something. What it has accepted beyond the end of the log of a leader that did
            // not hear of it was not chosen; its slot ends as a no-op.
            Message::Ask { next, until } => {
                self.tell(from, next, out);
                self.fill(until, out);
                self.note_wanted();
            }
            Message::Rejoin { life, next } => self.on_rejoin(from, life, next, out),
            Message::RejoinA(answer) => self.on_rejoin_a(from, &answer, out),
            Message::ReadQ {
                boot,
                number,
                wants_lease,
            } => self.on_read_q(from, boot, number, wants_lease, out),
            Message::ReadA {
                boot,
                number,
                answer,
            } => self.on_read_a(from, boot, number, answer, out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.rejoin_further(out);
        self.form_entries(now, out);
        self.propose_pending(out);
        self.announce(out);
        self.ask_about_reads(out);
        self.rearm_timers(out);
    }

    /// Records up to `lsn` survive a crash: own promises and accepts count now.
    fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.disk.confirm(lsn);
        while let Some(OwnProposal { slot, code }) = self.disk.pop_durable() {
            self.accepted_here(slot, code, out);
        }
        self.lead_if_elected(out);
    }

    /// Whether a peer that has delivered what is before this slot lacks more than a leader ever has
    /// under way.
    pub(super) fn is_far_behind(&self, next: Slot) -> bool {
        self.ap.0.saturating_sub(next.0) > self.config.window as u64
    }

    /// The slot at an offset from `ap`.
    pub(super) fn slot_at(&self, offset: usize) -> Slot {
        Slot(self.ap.0 + offset as u64)
    }

    pub(super) fn instance_mut(&mut self, slot: Slot) -> Option<&mut Instance> {
        let offset = slot.0.checked_sub(self.ap.0)? as usize;
        self.slots.get_mut(offset)
    }

    /// The slot at an offset from `ap`, made if nothing was known of it.
    pub(super) fn instance_grown(&mut self, offset: usize) -> &mut Instance {
        if self.slots.len() <= offset {
            self.slots.resize_with(offset + 1, Instance::default);
        }
        &mut self.slots[offset]
    }
}
