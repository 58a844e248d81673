//! RS-Paxos (Mu et al., HPDC'14), and with `X = 1`, where a fragment is the whole value, Multi-Paxos.
//!
//! One replica leads. It got promises for all slots at once from a read quorum, proposes an entry
//! per slot, and a write quorum of accepts chooses it. The others send it the entries they form.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it.
//! [`Machine::check`] asserts what one replica can see, the tests watch the rest:
//!
//! - I1: one value per slot and ballot. A ballot is led once: [`Record::Candidacy`] is durable
//!   before it is used, and the next life takes a higher one. A leader proposes once per slot.
//! - I2: one value chosen per slot. Any `QR` promises meet any `QW` accepts (`quorum.rs`), and the
//!   value they show is proposed again (`decide.rs`).
//! - I3: a chosen value can be rebuilt by every read quorum. Its accepts count by code, and `QW(X)`
//!   under one code choose it (`Replica::check_proposal`); whoever said so holds its fragment on its
//!   disk, and keeps it as long as the slot may be decided for that value (`Replica::store`).
//! - I4: nothing is accepted in a ballot above the one promised (`Replica::check_all`).
//! - I5: promises survive: [`Record::Promise`] is durable before the promise is said, and an
//!   accept is a promise too.
//! - I6: what is claimed to be chosen is (`learner.rs`): a claim covers only slots whose choice
//!   its leader has counted, and only accepts of that leader's ballot.
//! - I8: while a lease runs nobody else leads (`lease.rs`).
//! - I9: nothing new is proposed `window` slots beyond the first one not delivered.
//! - I10: a read sees every write completed before it began (`reads.rs`).
//! - I12: an entry takes effect once: proposed by two leaders it may get two slots, and the second
//!   is a no-op everywhere alike ([`Done`]).
//!
//! # Whose accepts a choice counts
//!
//! A peer's accept is durable when it is said. The leader's own counts once [`Input::Durable`] has
//! confirmed it. Its Accept messages leave before: they promise nothing, and peers write while the
//! leader does.
//!
//! # Silence
//!
//! There are no heartbeats. Who waits for something asks the leader for a sign of life, and gives
//! it up when there is none (`election.rs`); a cluster where nobody waits arms no timer. A link
//! that goes down is a hint to hurry.
//!
//! # Lost promises
//!
//! A replica that lost its promises accepts and promises nothing: it learns, forwards and reads,
//! and is one of the `F` that may fail. It votes again in a new life (`rejoin.rs`), once enough
//! members know of it that what its former life said is counted nowhere any more (I13).

mod acceptor;
mod ballot;
mod bulk;
mod coding;
mod config;
mod decide;
mod election;
mod fragments;
mod leader;
mod learner;
mod lease;
mod messages;
mod mutants;
mod offers;
mod quorum;
mod reads;
mod recover;
mod registered;
mod rejoin;
mod repair;
mod role;
mod spread;
#[cfg(test)]
mod tests;
mod wire;
mod wire_parts;
mod words;

pub use ballot::Ballot;
pub use config::{Config, Rules, Thresholds};
pub use fragments::Fragments;
pub use messages::{Accept, Claim, Lead, Message, Promise, Record, SlotVote, Timer};
pub use quorum::{Quorums, Row, table};
pub use registered::{MultiPaxos, RsPaxos};

use crate::backlog::Backlog;
use crate::done::Done;
use crate::lives::Lives;
use crate::rejoin::Rejoin;
use crate::under_way::Line;
use lease::Lease;
use offers::Offer;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Event, Input, Lsn, Machine, Now, Out, Past, PayloadRule, Peers, ReplicaId,
    Slot, Wire, WireError,
};
use reads::Reads;
use role::{Armed, Instance, Role, Trust};
use spread::Parked;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: acceptor, learner, proposer.
#[derive(Clone, Debug)]
pub struct Replica {
    config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    rejoin: Option<Rejoin<Ballot>>,
    /// The lives of all members, as far as known.
    lives: Lives,
    /// The highest ballot promised; the own one while it leads or wants to.
    promised: Ballot,
    /// The first slot not delivered.
    ap: Slot,
    /// The entries delivered.
    done: Done,
    /// The slots from `ap` on, as far as anything is known of them.
    slots: VecDeque<Instance>,
    /// The first slot behind every order accepted since the start.
    orders_end: Slot,
    /// What the last leader heard of knows to be chosen.
    claim: (Ballot, Claim),
    /// Names of the values chosen in the last slots before `ap`.
    recent: VecDeque<Option<EntryId>>,
    role: Role,
    /// Whether there seems to be a leader, or somebody becoming one.
    trust: Trust,
    /// Who takes entries: the leader that was heard last, unless given up, or who hears it.
    leader: Option<usize>,
    /// The leader's ballot.
    led: Ballot,
    /// The highest round heard of.
    round_seen: u64,
    /// Counts own campaigns, to tell their answers apart.
    campaign: u64,
    /// A peer waits for a leader.
    is_wanted: bool,
    /// Commands without an entry.
    backlog: Backlog,
    /// Those with so much bulk that others pass them.
    large: Backlog,
    /// Fragments that came ahead of their slots.
    parked: Parked,
    /// Own entries not delivered.
    offers: Vec<Offer>,
    /// How many of them others pass.
    large_offers: usize,
    /// Sequence number of the last own entry.
    seq: u64,
    /// Reads; none goes through the log.
    reads: Reads,
    /// What was granted for reads.
    lease: Lease,
    /// Members whose link is not known to be down.
    up: u64,
    /// Members that did not answer when a value went out again and again.
    silent: u64,
    /// Members that answered a proposal since the last retransmission timer.
    heard: u64,
    line: Line,
    /// How long accepts of long batches take, and others' long batches from here until they are delivered.
    pace: Pace,
    forward_pace: Pace,
    /// Own proposals written and not durable, and their codes.
    unflushed: VecDeque<(Lsn, Slot, u8)>,
    /// Records up to here are durable.
    durable: Lsn,
    armed: Armed,
    /// Retransmissions since the last delivery.
    backoff: u32,
    /// Something was delivered since the last retransmission timer.
    is_stirring: bool,
    /// Something was delivered since the last patience timer.
    is_serving_requests: bool,
}

impl Machine for Replica {
    type Message = Message;
    type Record = Record;
    type Timer = Timer;
    type Base = Done;
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
        words::explain(self)
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
    fn settle(&mut self, now: Now, out: &mut Out<Self>) {
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

    fn peer(&self, member: usize) -> Peers {
        Peers::One(self.config.members[member])
    }

    /// Whether a peer that has delivered what is before this slot lacks more than a leader ever has
    /// under way.
    fn is_far_behind(&self, next: Slot) -> bool {
        self.ap.0.saturating_sub(next.0) > self.config.window as u64
    }

    /// The slot at an offset from `ap`.
    fn slot_at(&self, offset: usize) -> Slot {
        Slot(self.ap.0 + offset as u64)
    }

    fn instance_mut(&mut self, slot: Slot) -> Option<&mut Instance> {
        let offset = slot.0.checked_sub(self.ap.0)? as usize;
        self.slots.get_mut(offset)
    }

    /// The slot at an offset from `ap`, made if nothing was known of it.
    fn instance_grown(&mut self, offset: usize) -> &mut Instance {
        if self.slots.len() <= offset {
            self.slots.resize_with(offset + 1, Instance::default);
        }
        &mut self.slots[offset]
    }

    /// Counts a peer's offence; what it said is ignored.
    fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}
