//! One replica of Nezha: its state, and what it makes of each input.

use super::bodies::Bodies;
use super::change::Change;
use super::config::Config;
use super::describe;
use super::digest::{Bounds, Sums, Tup};
use super::dom::Delays;
use super::early::Early;
use super::gateway::Gateway;
use super::leader::Lead;
use super::log::{Item, Unsynced};
use super::messages::{Message, Placed, Record, Timer};
use super::reads::Reads;
use super::rejoin::Rejoin;
use super::remote_gateways::RemoteGateways;
use super::repeats::Repeat;
use super::timers::Armed;
use crate::shared::backlog::refuse_withdrawn;
use crate::shared::decided::DecidedSet;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Event, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out,
    Past, Peers, ReplicaId, Slot, Wire, WireError,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a replica is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Status {
    /// It leads its view, or follows.
    Normal,
    /// It has left earlier views, and waits for its view to start.
    ViewChange,
    /// It lost its promises, and has not made up for it.
    Recovering,
}

/// One replica: DOM receiver, leader or follower, and gateway of its clients.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// The clocks of this step.
    pub(super) now: Now,
    pub(super) status: Status,
    pub(super) view: u64,
    /// The last view in which it was in normal operation.
    pub(super) lnv: u64,
    /// How often each member lost its promises.
    pub(super) cv: Vec<u64>,
    /// The first slot not delivered.
    pub(super) ap: Slot,
    /// Since when the log has something and does not move, on the own monotonic clock, ns.
    pub(super) stuck_since_ns: Option<u64>,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// The log from `ap` on: of a follower, its synced part.
    pub(super) log: VecDeque<Item>,
    /// Where entries are in the log.
    pub(super) slots: BTreeMap<EntryId, Slot>,
    /// Slots were installed beyond the own log, maybe of a later view: nothing is vouched for.
    pub(super) is_unvouched: bool,
    /// `un`: entries that were said to be here, and that the leader has not placed.
    pub(super) un: BTreeMap<Tup, Unsynced>,
    /// Their deadlines.
    pub(super) un_of: BTreeMap<EntryId, u64>,
    /// `eb`.
    pub(super) early: Early,
    /// `lb`, and bodies that came otherwise.
    pub(super) bodies: Bodies,
    /// The undecided entries whose bytes are in the own log of records.
    pub(super) written: BTreeSet<EntryId>,
    /// Of the entries of this view; unknown where some of them were installed by the host, or before a
    /// restart.
    pub(super) sums: Option<Sums>,
    /// `hi` of the log; what is unsynced counts, too (`receive.rs`).
    pub(super) bounds: Bounds,
    /// Everything before is committed, as far as known.
    pub(super) cp: Slot,
    /// What the leader's log holds beyond the own.
    pub(super) placed: BTreeMap<Slot, Placed>,
    /// What the leader placed waits to be written with something else (`follower.rs`).
    pub(super) is_lazy: bool,
    /// Members whose link is down.
    pub(super) down: MemberSet,
    /// The leader's sums, where its log was this long.
    pub(super) sums_told: Option<(Slot, Sums)>,
    pub(super) lead: Lead,
    pub(super) change: Change,
    pub(super) rejoin: Option<Rejoin>,
    /// With this record a restart finds the promises of the new life.
    pub(super) joined: Lsn,
    pub(super) gateway: Gateway,
    pub(super) reads: Reads,
    /// Of requests from each member's gateway.
    pub(super) delays: Vec<Delays>,
    /// Of requests from remote gateways.
    pub(super) remote_gateways: RemoteGateways,
    /// Log positions of the leader that wait for the disk.
    pub(super) unflushed: VecDeque<(Lsn, Slot)>,
    /// What was said to the own gateway, and waits for the disk.
    pub(super) own: VecDeque<(Lsn, Message)>,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    pub(super) armed: Armed,
    /// Repetitions since something was delivered.
    pub(super) backoff: u32,
    /// Views left since anything was decided, or read.
    pub(super) in_vain: u32,
    /// When each member that speaks in an earlier view was told of the own one.
    pub(super) views_told: Vec<Repeat>,
    /// The leader gave a sign of life since the timer was armed.
    pub(super) has_heard: bool,
    /// Somebody asked for what only the leader can place, and the leader was not heard since.
    pub(super) is_called: bool,
    /// Bodies were asked for since the timer was armed.
    pub(super) has_asked: bool,
    /// So was what follows the log, where it ended here.
    pub(super) fetched: Option<Slot>,
    /// So were the leader's sums.
    pub(super) has_asked_sums: bool,
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
        self.now = now;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => {
                self.gateway.withdraw(&ids, out);
                refuse_withdrawn(self.reads.withdraw(&ids), out);
            }
            Input::Message { from, message } => self.on_message(from, message, out),
            Input::Timer(timer) => self.on_timer(timer, out),
            Input::Durable(lsn) => self.on_durable(lsn),
            Input::Applied {
                slot,
                entry,
                results,
            } => self.on_applied(slot, entry, results, out),
            Input::Installed { next, base } => self.on_installed(next, base, out),
            Input::Link { peer, up } => self.on_link(peer, up, out),
            // It orders everything whole.
            Input::Held(_) => {}
        }
        self.settle(out);
    }

    fn room(&self) -> usize {
        self.queue_room()
    }

    fn is_serving(&self) -> bool {
        // Before that is durable a crash takes the new life along: others must not fail on its account.
        self.status != Status::Recovering && self.joined <= self.durable
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.status, self.view, self.lnv, &self.cv).hash(to);
        (self.ap, self.cp, self.is_unvouched).hash(to);
        self.joined.0.saturating_sub(self.durable.0).hash(to);
        self.done.to_bytes().hash(to);
        (&self.log, &self.un, &self.early, &self.bodies).hash(to);
        (&self.written, &self.sums, &self.bounds).hash(to);
        (&self.placed, &self.sums_told, self.is_lazy, &self.down).hash(to);
        (&self.lead, &self.change, &self.rejoin).hash(to);
        (
            &self.gateway,
            &self.reads,
            &self.delays,
            &self.remote_gateways,
        )
            .hash(to);
        for (lsn, slot) in &self.unflushed {
            (lsn.0.saturating_sub(self.durable.0), slot).hash(to);
        }
        for (lsn, message) in &self.own {
            let waits = lsn.0.saturating_sub(self.durable.0);
            (waits, message.to_bytes()).hash(to);
        }
        (&self.armed, self.backoff, self.in_vain).hash(to);
        let is_fetched = self.fetched == Some(self.end());
        (self.has_heard, self.is_called, self.has_asked, is_fetched).hash(to);
        (self.has_asked_sums, &self.views_told).hash(to);
    }

    fn explain(&self) -> String {
        describe::explain(self)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.all_figures()
    }

    fn peer_figures(&self) -> Vec<(ReplicaId, &'static str, f64)> {
        self.all_peer_figures()
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
    pub(super) fn empty(
        config: &Config,
        ap: Slot,
        done: DecidedSet,
        now: Now,
        out: &Out<Self>,
    ) -> Self {
        let n = config.n();
        Replica {
            now,
            status: Status::Normal,
            view: 0,
            lnv: 0,
            cv: vec![0; n],
            ap,
            done,
            log: VecDeque::new(),
            slots: BTreeMap::new(),
            stuck_since_ns: None,
            is_unvouched: false,
            un: BTreeMap::new(),
            un_of: BTreeMap::new(),
            early: Early::default(),
            bodies: Bodies::default(),
            written: BTreeSet::new(),
            sums: Some(Sums::default()),
            bounds: Bounds::default(),
            cp: ap,
            placed: BTreeMap::new(),
            is_lazy: false,
            down: MemberSet::EMPTY,
            sums_told: None,
            lead: Lead::new(config, ap),
            change: Change::default(),
            rejoin: None,
            joined: Lsn(0),
            gateway: Gateway::local(config),
            reads: Reads::default(),
            delays: vec![Delays::default(); n],
            remote_gateways: RemoteGateways::default(),
            unflushed: VecDeque::new(),
            own: VecDeque::new(),
            durable: out.persisted(),
            armed: Armed::default(),
            backoff: 0,
            in_vain: 0,
            views_told: vec![Repeat::default(); n],
            has_heard: false,
            is_called: false,
            has_asked: false,
            fetched: None,
            has_asked_sums: false,
            config: Arc::new(config.clone()),
        }
    }

    pub(super) fn leader(&self) -> MemberIndex {
        self.config.leader_of(self.view)
    }

    /// Whether it leads its view.
    pub(super) fn leads(&self) -> bool {
        self.status == Status::Normal && self.leader() == self.config.me
    }

    /// Whether it follows the leader of its view.
    pub(super) fn follows(&self) -> bool {
        self.status == Status::Normal && self.leader() != self.config.me
    }

    /// Says something to a member, once everything so far is durable; to the own gateway, too.
    pub(super) fn say(&mut self, to: MemberIndex, message: Message, out: &mut Out<Self>) {
        if to == self.config.me {
            self.own.push_back((out.persisted(), message));
        } else {
            out.send(self.peer(to), message);
        }
    }

    /// What the own gateway may hear by now.
    pub(super) fn hear_own(&mut self, out: &mut Out<Self>) {
        let durable = self.durable;
        while let Some((_, message)) = self.own.pop_front_if(|(lsn, _)| *lsn <= durable) {
            self.on_reply(self.config.me, message, out);
        }
    }

    pub(super) fn peer(&self, member: MemberIndex) -> Peers {
        Peers::One(self.config.members[member])
    }

    pub(super) fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        if from.is_gateway() {
            return self.on_gateway(from, message, out);
        }
        let from = match self.config.member(from) {
            Some(member) if member != self.config.me => member,
            _ => {
                let what = "a message from no other member";
                return out.emit(Event::Misbehaved { peer: from, what });
            }
        };
        if let Some(cv) = message.cv()
            && cv.len() != self.config.n()
        {
            return self.misbehaved(from, "a crash vector of another number of members", out);
        }
        match message {
            Message::Request {
                body,
                sent,
                deadline,
            } => self.on_request(self.config.members[from], body, (sent, deadline), out),
            Message::FastReply(_) | Message::Synced { .. } => {
                self.on_reply(from, message, out);
            }
            Message::LogMod(log_mod) => self.on_log_mod(from, log_mod, out),
            Message::Fetch {
                view,
                from: first,
                wants_sums,
            } => self.on_fetch(from, view, (first, wants_sums), out),
            Message::FetchBodies { ids } => self.on_fetch_bodies(from, &ids, out),
            Message::Bodies { bodies } => self.on_bodies(bodies, out),
            Message::VcReq { view, cv } => self.on_vc_req(from, view, &cv, out),
            Message::Vc(vc) => self.on_vc(from, vc, out),
            Message::StartView(start) => self.on_start_view(from, start, out),
            Message::ReadQ { boot, number } => self.on_read_q(from, (boot, number), out),
            Message::ReadA {
                boot,
                number,
                view,
                end,
            } => self.on_read_a(from, (boot, number), (view, end), out),
            Message::CvReq { nonce } => self.on_cv_req(from, nonce, out),
            Message::CvRep { nonce, cv } => self.on_cv_rep(from, nonce, cv, out),
            Message::RecReq { nonce, cv } => self.on_rec_req(from, nonce, &cv, out),
            Message::RecRep { nonce, view, cv } => self.on_rec_rep(from, nonce, (view, cv), out),
            Message::StateReq { nonce, view, cv } => {
                self.on_state_req(from, nonce, (view, &cv), out);
            }
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn settle(&mut self, out: &mut Out<Self>) {
        let began = self.ap;
        loop {
            self.form_entries(out);
            self.release_due(out);
            self.hear_own(out);
            self.commit(out);
            let before = self.ap;
            self.deliver(out);
            // What was delivered made room for others, and nothing else may ever come.
            if self.ap == before || !(self.append_waiting(out) || self.gateway.has_backlog()) {
                break;
            }
        }
        self.note_progress(began);
        self.say_log(out);
        self.ask_about_reads(out);
        self.tend(out);
    }

    /// Whom it has to ask it asks, link or no link; but where one is down, answers take the slow path.
    fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        if peer.is_gateway() && !up {
            return self.remote_gateways.forget(peer);
        }
        let Some(member) = self.config.member(peer) else {
            return;
        };
        if up {
            self.down.remove(member);
            // What was said by the former connection may be lost, and took other times.
            self.gateway.pace = Pace::default();
            self.views_told[member] = Repeat::default();
            self.lead.starts[member] = Repeat::default();
            self.lead.signs[member] = Repeat::default();
        } else {
            self.down.insert(member);
            self.sync_lazy(out);
        }
    }

    /// Records up to `lsn` survive a crash.
    fn on_durable(&mut self, lsn: Lsn) {
        self.durable = self.durable.max(lsn);
        let durable = self.durable;
        let is_done = |(written, _): &mut (Lsn, _)| *written <= durable;
        while let Some((_, upto)) = self.unflushed.pop_front_if(is_done) {
            self.lead.durable = self.lead.durable.max(upto);
        }
    }
}
