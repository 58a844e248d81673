//! One replica of Chora: its state, and what it makes of each input.

use super::campaign::Campaign;
use super::config::{Config, INITS_MAX};
use super::describe;
use super::disk::LogDisk;
use super::log::Log;
use super::messages::{Logged, Message, Record, Timer};
use super::offers::Clients;
use super::pattern::ViewInit;
use super::plan::Ingress;
use super::propose::OwnSlots;
use super::reads::Ends;
use super::role::Role;
use super::rounds::Rounds;
use super::traffic::Traffic;
use super::waits::Watch;
use crate::shared::decided::DecidedSet;
use crate::shared::peers::{each_peer, sender};
use crate::shared::reads::ReadQueries;
use crate::shared::rejoin::Voter;
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::{
    Entry, Event, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out, Peers,
    ReplicaId, Slot, Wire,
};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: member, and proposer if its view says so.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether this replica may make promises, and the lives of all members.
    pub(super) voter: Voter<u64>,
    /// The view this replica is in.
    pub(super) view: u64,
    /// The member that has this replica's vote in the view.
    pub(super) voted: Option<MemberIndex>,
    /// The record that must be durable before anything is said in this view.
    pub(super) sealed: Lsn,
    /// What this replica is to the others.
    pub(super) role: Role,
    /// VIEW-INIT of this view.
    pub(super) init: Option<Arc<ViewInit>>,
    /// `view_base + 1`: the first slot that this view deals.
    pub(super) start: Option<Slot>,
    /// The member that told of `start`.
    pub(super) informant: Option<MemberIndex>,
    /// The main log behind what is committed.
    pub(super) log: Log,
    /// Entries of the present lineage that wait for those before them.
    pub(super) pending: BTreeMap<Slot, Logged>,
    /// `last_ack`: the first slot not verified.
    pub(super) verified: Slot,
    /// What of the log is durable.
    pub(super) disk: LogDisk,
    /// What was said and heard in this view.
    pub(super) traffic: Traffic,
    /// The entries committed.
    pub(super) done: DecidedSet,
    /// The slots that this view deals to this replica.
    pub(super) own: OwnSlots,
    /// Entries to propose, others' too.
    pub(super) queue: VecDeque<Entry>,
    /// What clients of this replica sent, and is not committed.
    pub(super) clients: Clients,
    /// Reads of this replica's clients.
    pub(super) reads: ReadQueries<Ends>,
    /// Rounds of pulsing mode, and what is seen of load.
    pub(super) rounds: Rounds,
    /// Members whose link is down.
    pub(super) down: MemberSet,
    /// The view that this replica asks for, or should.
    pub(super) campaign: Campaign,
    /// From which replicas committed commands came.
    pub(super) ingress: Ingress,
    /// The timers that run, and what moved since they were armed.
    pub(super) watch: Watch,
}

impl Machine for Replica {
    plain_machine!();

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
            Input::Held(_) | Input::Applied { .. } | Input::Prefer(_) => {}
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
        (&self.voter, self.view, self.voted).hash(to);
        (self.disk.is_durable(self.sealed), self.role, &self.init).hash(to);
        (self.start, self.informant, &self.log, &self.pending).hash(to);
        (self.verified, &self.disk, &self.traffic).hash(to);
        self.done.to_bytes().hash(to);
        (self.own, &self.clients, &self.reads, &self.rounds).hash(to);
        self.queue.iter().for_each(|entry| entry.id.hash(to));
        (self.down, self.campaign, &self.ingress, self.watch).hash(to);
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.all_figures()
    }

    plain_checks!(describe);

    /// The view it is in.
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
        let (member, me) = (self.config.member(from), self.config.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        self.watch.heard.insert(from);
        self.rounds.load.network.note_message();
        match message {
            Message::Pulse(pulse) => self.on_pulse(now, from, *pulse, out),
            Message::Forward { entry } => self.on_forward(from, entry, out),
            Message::PreVc(question) => self.on_pre_vc(from, question, out),
            Message::PreVcOk {
                boot,
                campaign,
                view,
            } => self.on_pre_vc_ok(from, boot, campaign, view, out),
            Message::Vcr {
                view,
                position,
                only,
            } => self.on_vcr(from, view, position, only, out),
            Message::Vote { view, lives } => self.on_vote(from, view, &lives, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA { query, end } => self.on_read_a(from, query, end, out),
            Message::Rejoin { life, next } => self.on_rejoin(from, life, next, out),
            Message::RejoinA(answer) => self.on_rejoin_a(from, &answer, out),
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
            // Rounds that have just ended may have left commands for one that does not come.
            self.form_entries(now, out);
            self.propose_all(out);
        }
        self.answer_reads(out);
        self.ask_about_reads(out);
        self.say_what_is_due(out);
        self.tend(out);
    }

    /// Records up to `lsn` survive a crash: what was appended counts now, and a vote for itself.
    pub(super) fn on_durable(&mut self, lsn: Lsn, out: &mut Out<Self>) {
        self.disk.flushed(lsn);
        self.initiate_if_elected(out);
        self.advance(out);
    }

    /// Says something that a view, a vote or a life depends on. Once those are durable it need not
    /// wait: what else it claims is durable already.
    pub(super) fn say(&self, to: Peers, message: Message, out: &mut Out<Self>) {
        if self.disk.is_durable(self.sealed) {
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
