//! A replica's state, and what every input does to it.

use super::ballot::Ballot;
use super::config::Config;
use super::describe;
use super::lease::Lease;
use super::messages::{Claim, Message, Record, Timer};
use super::offers::Offer;
use super::reads::Reads;
use super::role::{Armed, Instance, Role, Trust};
use super::spread::Parked;
use crate::shared::backlog::Backlog;
use crate::shared::decided::DecidedSet;
use crate::shared::lives::Lives;
use crate::shared::rejoin::Rejoin;
use crate::shared::under_way::Line;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Event, Input, Introspect, Lsn, Machine, Now, Out, Past, PayloadRule, Peers,
    ReplicaId, Slot, Wire, WireError,
};
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: acceptor, learner, proposer.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    pub(super) rejoin: Option<Rejoin<Ballot>>,
    /// The lives of all members, as far as known.
    pub(super) lives: Lives,
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
    pub(super) claim: (Ballot, Claim),
    /// Names of the values chosen in the last slots before `ap`.
    pub(super) recent: VecDeque<Option<EntryId>>,
    pub(super) role: Role,
    /// Whether there seems to be a leader, or somebody becoming one.
    pub(super) trust: Trust,
    /// Who takes entries: the leader that was heard last, unless given up, or who hears it.
    pub(super) leader: Option<usize>,
    /// The leader's ballot.
    pub(super) led: Ballot,
    /// The highest round heard of.
    pub(super) round_seen: u64,
    /// Counts own campaigns, to tell their answers apart.
    pub(super) campaign: u64,
    /// A peer waits for a leader.
    pub(super) is_wanted: bool,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Those with so much bulk that others pass them.
    pub(super) large: Backlog,
    /// Fragments that came ahead of their slots.
    pub(super) parked: Parked,
    /// Own entries not delivered.
    pub(super) offers: Vec<Offer>,
    /// How many of them others pass.
    pub(super) large_offers: usize,
    /// Sequence number of the last own entry.
    pub(super) seq: u64,
    /// Reads; none goes through the log.
    pub(super) reads: Reads,
    /// What was granted for reads.
    pub(super) lease: Lease,
    /// Members whose link is not known to be down.
    pub(super) up: u64,
    /// Members that did not answer when a value went out again and again.
    pub(super) silent: u64,
    /// Members that answered a proposal since the last retransmission timer.
    pub(super) heard: u64,
    pub(super) line: Line,
    /// How long accepts of long batches take, and others' long batches from here until they are delivered.
    pub(super) pace: Pace,
    pub(super) forward_pace: Pace,
    /// Own proposals written and not durable, and their codes.
    pub(super) unflushed: VecDeque<(Lsn, Slot, u8)>,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    pub(super) armed: Armed,
    /// Retransmissions since the last delivery.
    pub(super) backoff: u32,
    /// Something was delivered since the last retransmission timer.
    pub(super) is_stirring: bool,
    /// Something was delivered since the last patience timer.
    pub(super) is_serving_requests: bool,
}

impl Machine for Replica {
    type Message = Message;
    type Record = Record;
    type Timer = Timer;
    type Base = DecidedSet;
    type Config = Config;

    fn message(_: &str, input: &mut Decoder) -> Result<Self::Message, WireError> {
        Wire::decode(input)
    }

    fn record(_: &str, input: &mut Decoder) -> Result<Self::Record, WireError> {
        Wire::decode(input)
    }

    fn recover(config: &Config, past: Past<Self>, now: Now, out: &mut Out<Self>) -> Self {
        Replica::start(config, past, now, out)
    }

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
            // It has nothing executed ahead.
            Input::Applied { .. } => {}
        }
        self.settle(now, out);
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
        (&self.rejoin, &self.lives, self.promised, self.ap).hash(to);
        self.done.to_bytes().hash(to);
        (&self.slots, self.claim, &self.recent).hash(to);
        self.orders_end.max(self.ap).hash(to);
        (&self.role, self.trust, self.leader, self.led).hash(to);
        (self.round_seen, self.campaign, self.is_wanted).hash(to);
        (&self.large, &self.parked, &self.lease).hash(to);
        (&self.backlog, &self.offers, self.seq, &self.reads).hash(to);
        for (lsn, slot, code) in &self.unflushed {
            (lsn.0 - self.durable.0, slot, code).hash(to);
        }
        self.role
            .candidacy_lsn()
            .map(|lsn| lsn <= self.durable)
            .hash(to);
        (self.up, self.silent, self.heard).hash(to);
        (self.armed, self.backoff).hash(to);
        (self.is_stirring, self.is_serving_requests).hash(to);
    }

    fn explain(&self) -> String {
        describe::explain(self)
    }

    fn check(&self) {
        self.check_all();
    }

    /// Ballots.
    fn depth(&self) -> usize {
        self.promised.round as usize
    }
}

impl Replica {
    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let from = match self.config.member(from) {
            Some(member) if member != self.config.me => member,
            _ => {
                let what = "a message from no other member";
                return out.emit(Event::Misbehaved { peer: from, what });
            }
        };
        match message {
            Message::Forward { entry } => self.on_forward(from, entry, out),
            Message::PreVote {
                boot,
                campaign,
                next,
            } => {
                self.on_pre_vote(from, (boot, campaign), next, out);
            }
            Message::PreVoteOk {
                boot,
                campaign,
                promised,
            } => {
                self.on_pre_vote_ok(from, (boot, campaign), promised, out);
            }
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
            } => self.on_accepted(from, ballot, (slot, code), &lives, out),
            Message::Spread {
                entry,
                code,
                is_attached,
            } => self.on_spread(from, (entry, code), is_attached, out),
            Message::Has {
                entry,
                code,
                is_here,
            } => self.on_has(from, (entry, code), is_here, out),
            Message::Lacks { ballot, slot, code } => {
                self.on_lacks(from, ballot, (slot, code), out);
            }
            Message::Commit {
                ballot,
                claim,
                earlier,
            } => {
                self.on_commit(from, ballot, claim, &earlier, out);
            }
            Message::Ask { next, until } => self.on_ask(from, next, until, out),
            Message::Rejoin { life, next } => self.on_rejoin(from, life, next, out),
            Message::RejoinA {
                boot,
                promised,
                end,
                lives,
            } => self.on_rejoin_a(from, (boot, &lives), promised, end, out),
            Message::ReadQ {
                boot,
                number,
                wants_lease,
            } => self.on_read_q(from, (boot, number), wants_lease, out),
            Message::ReadA {
                boot,
                number,
                answer,
            } => self.on_read_a(from, (boot, number), answer, out),
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retransmit => self.on_retransmit(out),
            Timer::Election => self.on_election(out),
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn settle(&mut self, now: Now, out: &mut Out<Self>) {
        self.rejoin_further(out);
        self.form_entries(now, out);
        self.propose_pending(out);
        self.announce(out);
        self.ask_about_reads(out);
        self.tend(out);
    }

    /// Records up to `lsn` survive a crash: own promises and accepts count now.
    fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.durable = self.durable.max(lsn);
        let is_done = |(written, ..): &mut (Lsn, Slot, u8)| *written <= lsn;
        while let Some((_, slot, code)) = self.unflushed.pop_front_if(is_done) {
            self.accepted_here(slot, code, out);
        }
        self.lead_if_elected(out);
    }

    pub(super) fn peer(&self, member: usize) -> Peers {
        Peers::One(self.config.members[member])
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

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}
