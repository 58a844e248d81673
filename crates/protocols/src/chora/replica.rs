//! One replica of Chora: its state, and what it makes of each input.

use super::config::{Config, INITS_MAX};
use super::describe;
use super::log::Log;
use super::messages::{Logged, Message, Record, Timer};
use super::offers::Offer;
use super::pattern::ViewInit;
use super::plan::Ingress;
use super::reads::Reads;
use super::role::{Armed, Role};
use super::rounds::Rounds;
use crate::shared::backlog::Backlog;
use crate::shared::decided::DecidedSet;
use crate::shared::lives::Lives;
use crate::shared::peers::each_peer;
use crate::shared::rejoin::Rejoin;
use quorate_core::{
    Decoder, Entry, Event, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out, Past,
    Peers, ReplicaId, Slot, Wire, WireError,
};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: member, and proposer if its view says so.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// What a replica that lost its promises does before it may make new ones.
    pub(super) rejoin: Option<Rejoin<u64>>,
    /// The lives of all members, as far as known.
    pub(super) lives: Lives,
    pub(super) view: u64,
    /// The vote in this view.
    pub(super) voted: Option<MemberIndex>,
    /// The record that must be durable before anything is said in this view.
    pub(super) sealed: Lsn,
    pub(super) role: Role,
    /// VIEW-INIT of this view.
    pub(super) init: Option<Arc<ViewInit>>,
    /// `view_base + 1`: the first slot that this view deals.
    pub(super) start: Option<Slot>,
    /// Who told of it.
    pub(super) informant: Option<MemberIndex>,
    /// The main log behind what is committed.
    pub(super) log: Log,
    /// Entries of the present lineage that wait for those before them.
    pub(super) pending: BTreeMap<Slot, Logged>,
    /// `last_ack`: the first slot not verified.
    pub(super) verified: Slot,
    /// The first slot not known to be committed in this view.
    pub(super) claim: Slot,
    /// The highest such claim heard in this view.
    pub(super) heard_claim: Slot,
    /// By member: what it has acknowledged in this view.
    pub(super) acked: Vec<Slot>,
    /// By member: its first own slot that nothing was heard of.
    pub(super) expected: Vec<Slot>,
    /// `latest_propose_slot`: the first slot behind all heard to be proposed.
    pub(super) latest: Slot,
    /// The entries committed.
    pub(super) done: DecidedSet,
    /// The next own slot.
    pub(super) next_own: Slot,
    /// Own slots before this one are wanted, proposed or skipped.
    pub(super) skip_until: Slot,
    /// It proposes in no view up to this one.
    pub(super) mute: Option<u64>,
    /// Entries to propose, others' too.
    pub(super) queue: VecDeque<Entry>,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Own entries not committed.
    pub(super) offers: Vec<Offer>,
    /// Whether all of them were handed on.
    pub(super) are_offers_handed_on: bool,
    /// Sequence number of the last own entry.
    pub(super) seq: u64,
    pub(super) reads: Reads,
    pub(super) rounds: Rounds,
    /// Appended and not durable.
    pub(super) unflushed: VecDeque<(Lsn, Slot)>,
    /// The first slot not durable.
    pub(super) durable_end: Slot,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    /// The acknowledgement said last, to everybody.
    pub(super) said_ack: Slot,
    /// Members that should hear the header.
    pub(super) owes: MemberSet,
    /// Members whose link is down.
    pub(super) down: MemberSet,
    /// Members that a new view should do without, as it seemed when this replica asked for one.
    pub(super) suspects: MemberSet,
    /// The only one that should propose in the view that this replica asks for, or is asked for.
    pub(super) only: Option<MemberIndex>,
    /// Where clients are.
    pub(super) ingress: Ingress,
    /// Members heard since the stall timer was armed.
    pub(super) heard: MemberSet,
    /// A gap was seen that no message in its turn can fill.
    pub(super) is_lost: bool,
    /// A peer waits for a new view.
    pub(super) is_wanted: bool,
    /// Something was committed since the last stall timer or the one before.
    pub(super) is_moving: bool,
    /// Something of clients was served since the last patience timer.
    pub(super) is_serving_requests: bool,
    pub(super) armed: Armed,
    /// Repairs since anything moved.
    pub(super) attempts: u32,
    /// Views given up, or asked for, since anything was committed.
    pub(super) stalls: u32,
    /// Counts own campaigns, to tell their answers apart.
    pub(super) campaign: u64,
    /// The highest view heard of.
    pub(super) view_seen: u64,
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
        Some(config.slots_max as u64 + INITS_MAX)
    }
}

impl Introspect for Replica {
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
        describe::explain(self)
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
    pub(super) fn on_message(
        &mut self,
        now: Now,
        from: ReplicaId,
        message: Message,
        out: &mut Out<Self>,
    ) {
        let from = match self.config.member(from) {
            Some(member) if member != self.config.me => member,
            _ => {
                let what = "a message from no other member";
                return out.emit(Event::Misbehaved { peer: from, what });
            }
        };
        self.heard.insert(from);
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

    pub(super) fn on_timer(&mut self, now: Now, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Gap => self.on_gap(out),
            Timer::Stall => self.on_stall(out),
            Timer::Round => self.on_round(now, out),
            Timer::Plan => self.on_plan(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn settle(&mut self, now: Now, out: &mut Out<Self>) {
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
    pub(super) fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
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
    pub(super) fn say(&self, to: Peers, message: Message, out: &mut Out<Self>) {
        if self.sealed <= self.durable {
            out.send_early(to, message);
        } else {
            out.send(to, message);
        }
    }

    /// How many members this view deals slots to, as far as known.
    pub(super) fn proposers(&self) -> usize {
        self.init.as_ref().map_or(0, |init| init.pattern.len())
    }

    /// The first slot not committed.
    pub(super) fn ap(&self) -> Slot {
        self.log.first()
    }

    /// The first slot that nothing is kept of: too far ahead.
    pub(super) fn horizon(&self) -> Slot {
        Slot(self.proposals_end().0 + INITS_MAX)
    }

    /// The first slot in which no proposal is taken in. Views that begin one after the other without anything
    /// being committed make logs longer, and have room beyond it.
    pub(super) fn proposals_end(&self) -> Slot {
        Slot(self.ap().0 + self.config.slots_max as u64)
    }

    pub(super) fn peer(&self, member: MemberIndex) -> Peers {
        Peers::One(self.config.id(member))
    }

    /// Sends to some members; to all others as a broadcast.
    pub(super) fn send_to(
        &self,
        to: MemberSet,
        message: &Message,
        mut send: impl FnMut(Peers, Message),
    ) {
        let (others, ids) = (self.config.others(), &self.config.members);
        each_peer(to, others, ids, |peers| send(peers, message.clone()));
    }

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.id(from);
        out.emit(Event::Misbehaved { peer, what });
    }
}
