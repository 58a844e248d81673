//! Chora: replication in synchronous rounds.
//!
//! In every view the slots of the log are dealt to a set of proposers. Every message is a proposal
//! and a cumulative acknowledgement at once, and all hear it, so that nobody needs to be told what
//! is committed. Safety depends on no round, clock or mode.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it;
//! invariants are numbered as there. [`Machine::check`] asserts what one replica can see, the tests
//! watch the rest:
//!
//! - J1: one value per slot and view. A proposer never goes back within a view (`propose.rs`), and
//!   proposes in none that it may have proposed in before it started (`start.rs`).
//! - J2: one initiator per view: [`Record::View`] is durable before a vote is said.
//! - J3, J4: the main log has no gaps, its views do not decrease, and equal entries have equal
//!   pasts (`log.rs`): what is above a hole waits in `pending`, and nothing gets into the log but in
//!   order (`normal.rs`).
//! - J5: `last_commit <= last_ack <= last_append`, the clamp included.
//! - J6: what is committed is in the log of every later initiator (`view.rs`).
//! - J7: nothing committed is cut: the log here begins behind it.
//! - J8: an acknowledgement speaks of what is durable.
//! - J9: nobody proposes in another's slot, nor before VIEW-INIT is committed here.
//! - J12: an entry takes effect once: proposed twice, it is a no-op in its second slot ([`Done`]).
//!
//! # Silence
//!
//! There are no heartbeats. Who waits for something asks, and gives the view up when nothing moves;
//! a cluster where nobody waits arms no timer.

mod config;
mod delays;
mod figures;
mod load;
mod log;
mod messages;
mod mutants;
mod network;
mod normal;
mod offers;
mod pattern;
mod plan;
mod policy;
mod propose;
mod reads;
mod recovery;
mod registered;
mod rejoin;
mod role;
mod rounds;
mod start;
#[cfg(test)]
mod tests;
mod verify;
mod view;
mod waits;
mod wire;
mod wire_parts;
mod words;

pub use config::{Config, ModeRule, Rules, Thresholds};
pub use log::Position;
pub use messages::{Header, Logged, Message, Proposal, Pulse, Reason, Record, Timer, Value};
pub use pattern::{Segment, ViewInit};
pub use registered::Chora;

use crate::backlog::Backlog;
use crate::done::Done;
use crate::lives::Lives;
use crate::masks::each_peer;
use crate::rejoin::Rejoin;
use log::Log;
use offers::Offer;
use plan::Ingress;
use quorate_core::{
    Decoder, Entry, Event, Input, Lsn, Machine, Now, Out, Past, Peers, ReplicaId, Slot, Wire,
    WireError,
};
use reads::Reads;
use role::{Armed, Role};
use rounds::Rounds;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: member, and proposer if its view says so.
#[derive(Clone, Debug)]
pub struct Replica {
    config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    rejoin: Option<Rejoin<u64>>,
    /// The lives of all members, as far as known.
    lives: Lives,
    view: u64,
    /// The vote in this view.
    voted: Option<usize>,
    /// The record that must be durable before anything is said in this view.
    sealed: Lsn,
    role: Role,
    /// VIEW-INIT of this view.
    init: Option<Arc<ViewInit>>,
    /// `view_base + 1`: the first slot that this view deals.
    start: Option<Slot>,
    /// Who told of it.
    informant: Option<usize>,
    /// The main log behind what is committed.
    log: Log,
    /// Entries of the present lineage that wait for those before them.
    pending: BTreeMap<Slot, Logged>,
    /// `last_ack`: the first slot not verified.
    verified: Slot,
    /// The first slot not known to be committed in this view.
    claim: Slot,
    /// The highest such claim heard in this view.
    heard_claim: Slot,
    /// By member: what it has acknowledged in this view.
    acked: Vec<Slot>,
    /// By member: its first own slot that nothing was heard of.
    expected: Vec<Slot>,
    /// `latest_propose_slot`: the first slot behind all heard to be proposed.
    latest: Slot,
    /// The entries committed.
    done: Done,
    /// The next own slot.
    next_own: Slot,
    /// Own slots before this one are wanted, proposed or skipped.
    skip_until: Slot,
    /// It proposes in no view up to this one.
    mute: Option<u64>,
    /// Entries to propose, others' too.
    queue: VecDeque<Entry>,
    /// Commands without an entry.
    backlog: Backlog,
    /// Own entries not committed.
    offers: Vec<Offer>,
    /// Whether all of them were handed on.
    are_offers_handed_on: bool,
    /// Sequence number of the last own entry.
    seq: u64,
    reads: Reads,
    rounds: Rounds,
    /// Appended and not durable.
    unflushed: VecDeque<(Lsn, Slot)>,
    /// The first slot not durable.
    durable_end: Slot,
    /// Records up to here are durable.
    durable: Lsn,
    /// The acknowledgement said last, to everybody.
    said_ack: Slot,
    /// Members that should hear the header.
    owes: u64,
    /// Members whose link is down.
    down: u64,
    /// Members that a new view should do without, as it seemed when this replica asked for one.
    suspects: u64,
    /// The only one that should propose in the view that this replica asks for, or is asked for.
    only: Option<usize>,
    /// Where clients are.
    ingress: Ingress,
    /// Members heard since the stall timer was armed.
    heard: u64,
    /// A gap was seen that no message in its turn can fill.
    is_lost: bool,
    /// A peer waits for a new view.
    is_wanted: bool,
    /// Something was committed since the last stall timer or the one before.
    is_moving: bool,
    /// Something of clients was served since the last patience timer.
    is_serving_requests: bool,
    armed: Armed,
    /// Repairs since anything moved.
    attempts: u32,
    /// Views given up, or asked for, since anything was committed.
    stalls: u32,
    /// Counts own campaigns, to tell their answers apart.
    campaign: u64,
    /// The highest view heard of.
    view_seen: u64,
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
        let proposers = self.proposers();
        self.rounds.load.read_clock(now, proposers);
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => self.on_withdraw(&ids, out),
            Input::Message { from, message } => self.on_message(now, from, message, out),
            Input::Timer(timer) => self.on_timer(now, timer, out),
            Input::Durable(lsn) => self.on_durable(lsn, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            // It orders everything whole, and has nothing executed ahead.
            Input::Held(_) | Input::Applied { .. } => {}
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
        Some(config.slots_max as u64 + config::INITS_MAX)
    }

    fn fingerprint(&self, to: &mut impl Hasher) {
        (&self.rejoin, &self.lives, self.view, self.voted).hash(to);
        (self.sealed <= self.durable, self.role, &self.init).hash(to);
        (self.start, self.informant, &self.log, &self.pending).hash(to);
        (self.verified, self.claim, self.heard_claim).hash(to);
        (&self.acked, &self.expected, self.latest).hash(to);
        self.done.to_bytes().hash(to);
        (self.next_own, self.skip_until, self.mute).hash(to);
        self.queue.iter().for_each(|entry| entry.id.hash(to));
        (&self.backlog, &self.offers, self.seq, &self.reads).hash(to);
        for (lsn, slot) in &self.unflushed {
            (lsn.0 - self.durable.0, slot).hash(to);
        }
        (self.durable_end, self.said_ack, self.owes, &self.rounds).hash(to);
        (
            self.down,
            self.heard,
            self.suspects,
            self.only,
            self.is_lost,
            self.is_wanted,
        )
            .hash(to);
        (self.is_moving, self.is_serving_requests, self.armed).hash(to);
        (self.attempts, self.stalls, self.campaign).hash(to);
        (self.view_seen, &self.ingress).hash(to);
    }

    fn explain(&self) -> String {
        words::explain(self)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.all_figures()
    }

    fn check(&self) {
        self.check_all();
    }

    /// Views.
    fn depth(&self) -> usize {
        self.view as usize
    }
}

impl Replica {
    fn on_message(&mut self, now: Now, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let from = match self.config.member(from) {
            Some(member) if member != self.config.me => member,
            _ => {
                let what = "a message from no other member";
                return out.emit(Event::Misbehaved { peer: from, what });
            }
        };
        self.heard |= 1 << from;
        self.rounds.load.network.note_message();
        match message {
            Message::Pulse(pulse) => self.on_pulse(now, from, *pulse, out),
            Message::Forward { entry } => self.on_forward(from, entry, out),
            Message::PreVc {
                boot,
                campaign,
                position,
                next,
                reason,
            } => self.on_pre_vc(from, (boot, campaign), (position, next), reason, out),
            Message::PreVcOk {
                boot,
                campaign,
                view,
            } => self.on_pre_vc_ok(from, (boot, campaign), view, out),
            Message::Vcr {
                view,
                position,
                only,
            } => self.on_vcr(from, view, (position, only), out),
            Message::Vote { view, lives } => self.on_vote(from, view, &lives, out),
            Message::ReadQ { boot, number } => self.on_read_q(from, boot, number, out),
            Message::ReadA { boot, number, end } => {
                self.on_read_a(from, (boot, number), end, out);
            }
            Message::Rejoin { life, next } => self.on_rejoin(from, life, next, out),
            Message::RejoinA {
                boot,
                view,
                end,
                lives,
            } => self.on_rejoin_a(from, (boot, &lives), (view, end), out),
        }
    }

    fn on_timer(&mut self, now: Now, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Gap => self.on_gap(out),
            Timer::Stall => self.on_stall(out),
            Timer::Round => self.on_round(now, out),
            Timer::Plan => self.on_plan(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    fn settle(&mut self, now: Now, out: &mut Out<Self>) {
        self.rejoin_further(out);
        self.form_entries(now, out);
        self.hand_on_all(out);
        self.watch_load(now, out);
        if !self.rounds.is_pulsing() {
            self.propose_all(out);
        }
        self.answer_reads(out);
        self.ask_about_reads(out);
        self.say_what_is_due(out);
        self.tend(out);
    }

    /// Records up to `lsn` survive a crash: what was appended counts now, and a vote for itself.
    fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.durable = self.durable.max(lsn);
        let is_done = |(written, _): &mut (Lsn, Slot)| *written <= lsn;
        while let Some((_, slot)) = self.unflushed.pop_front_if(is_done) {
            self.durable_end = self.durable_end.max(slot.next());
        }
        self.initiate_if_elected(out);
        self.advance(out);
    }

    /// Says something that a view, a vote or a life depends on. Once those are durable it need not
    /// wait: what else it claims is durable already.
    fn say(&self, to: Peers, message: Message, out: &mut Out<Self>) {
        if self.sealed <= self.durable {
            out.send_early(to, message);
        } else {
            out.send(to, message);
        }
    }

    /// How many members this view deals slots to, as far as known.
    fn proposers(&self) -> usize {
        self.init.as_ref().map_or(0, |init| init.pattern.len())
    }

    /// The first slot not committed.
    fn ap(&self) -> Slot {
        self.log.first()
    }

    /// The first slot that nothing is kept of: too far ahead.
    fn horizon(&self) -> Slot {
        Slot(self.proposals_end().0 + config::INITS_MAX)
    }

    /// The first slot in which no proposal is taken in. Views that begin one after the other without anything
    /// being committed make logs longer, and have room beyond it.
    fn proposals_end(&self) -> Slot {
        Slot(self.ap().0 + self.config.slots_max as u64)
    }

    fn peer(&self, member: usize) -> Peers {
        Peers::One(self.config.members[member])
    }

    /// Sends to some members; to all others as a broadcast.
    fn send_to(&self, to: u64, message: &Message, mut send: impl FnMut(Peers, Message)) {
        let (others, ids) = (self.config.others(), &self.config.members);
        each_peer(to, others, ids, |peers| send(peers, message.clone()));
    }

    /// Counts a peer's offence; what it said is ignored.
    fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}
