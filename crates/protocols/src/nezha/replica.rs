//! One replica of Nezha: its state, and what it makes of each input.

use super::bodies::Bodies;
use super::change::ViewChange;
use super::config::Config;
use super::describe;
use super::disk::ReplicaDisk;
use super::early::Early;
use super::follower::Following;
use super::gateway::Gateway;
use super::leader::Lead;
use super::log::{Log, UnsyncedSet};
use super::messages::{Message, Record, Timer};
use super::reads::Reads;
use super::rejoin::Rejoin;
use super::remote_gateways::RequestDelays;
use super::repeats::Repeat;
use super::timers::Watch;
use crate::shared::backlog::refuse_withdrawn;
use crate::shared::decided::DecidedSet;
use crate::shared::peers::sender;
use crate::shared::words::{plain_checks, plain_machine};
use quorate_core::pace::Pace;
use quorate_core::{
    EntryId, Event, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out, Peers,
    ReplicaId, Slot, Wire,
};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a replica is doing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Status {
    /// The replica leads its view, or follows.
    Normal,
    /// The replica has left earlier views, and waits for its view to start.
    ViewChange,
    /// The replica lost its promises, and has not made up for it.
    Recovering,
}

/// One replica: DOM receiver, leader or follower, and gateway of its clients.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// The clocks of this step.
    pub(super) now: Now,
    /// What this replica is doing.
    pub(super) status: Status,
    /// The view this replica is in, or waits for.
    pub(super) view: u64,
    /// The last view in which it was in normal operation.
    pub(super) lnv: u64,
    /// How often each member lost its promises.
    pub(super) cv: Vec<u64>,
    /// The first slot not delivered.
    pub(super) ap: Slot,
    /// Everything before this slot is committed, as far as known.
    pub(super) cp: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// The log from `ap` on.
    pub(super) log: Log,
    /// Slots were installed beyond the own log, maybe of a later view: nothing is vouched for.
    pub(super) is_unvouched: bool,
    /// Entries that were said to be here, and that the leader has not placed.
    pub(super) unsynced: UnsyncedSet,
    /// `eb`: requests that wait for their deadline.
    pub(super) early: Early,
    /// `lb`, and bodies that came otherwise.
    pub(super) bodies: Bodies,
    /// The undecided entries whose bytes are in the own log of records.
    pub(super) written: BTreeSet<EntryId>,
    /// What a follower knows of the leader's log beyond the own.
    pub(super) following: Following,
    /// What a leader keeps of its view.
    pub(super) lead: Lead,
    /// What is known of the view that this replica waits for.
    pub(super) change: ViewChange,
    /// What a replica that lost its promises has heard.
    pub(super) rejoin: Option<Rejoin>,
    /// The record by which a restart finds the promises of the new life.
    pub(super) joined: Lsn,
    /// The gateway of this replica's clients.
    pub(super) gateway: Gateway,
    /// Reads of this replica's clients.
    pub(super) reads: Reads,
    /// How long requests take from each gateway.
    pub(super) delays: RequestDelays,
    /// What waits for the disk.
    pub(super) disk: ReplicaDisk,
    /// Members whose link is down.
    pub(super) down: MemberSet,
    /// The timers that run, and what moved since they were armed.
    pub(super) watch: Watch,
    /// When each member that speaks in an earlier view was told of the own one.
    pub(super) views_told: Vec<Repeat>,
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
            cp: ap,
            done,
            log: Log::default(),
            is_unvouched: false,
            unsynced: UnsyncedSet::default(),
            early: Early::default(),
            bodies: Bodies::default(),
            written: BTreeSet::new(),
            following: Following::default(),
            lead: Lead::new(config, ap),
            change: ViewChange::default(),
            rejoin: None,
            joined: Lsn(0),
            gateway: Gateway::local(config),
            reads: Reads::default(),
            delays: RequestDelays::new(n),
            disk: ReplicaDisk::new(out.persisted()),
            down: MemberSet::EMPTY,
            watch: Watch::default(),
            views_told: vec![Repeat::default(); n],
            config: Arc::new(config.clone()),
        }
    }
}

impl Machine for Replica {
    plain_machine!();

    fn step(&mut self, now: Now, input: Input<Self>, out: &mut Out<Self>) {
        self.now = now;
        match input {
            Input::Submit(commands) => self.on_submit(commands, out),
            Input::Withdraw(ids) => {
                self.gateway.withdraw(&ids, out);
                refuse_withdrawn(self.reads.queries.withdraw(&ids), out);
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
            // Views name leaders in turn.
            Input::Held(_) | Input::Prefer(_) => {}
        }
        self.settle(out);
    }

    fn room(&self) -> usize {
        self.queue_room()
    }

    fn is_serving(&self) -> bool {
        // Before that is durable a crash takes the new life along: others must not fail on its account.
        self.status != Status::Recovering && self.disk.is_durable(self.joined)
    }
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.status, self.view, self.lnv, &self.cv).hash(to);
        (self.ap, self.cp, self.is_unvouched).hash(to);
        self.joined.0.saturating_sub(self.disk.durable().0).hash(to);
        self.done.to_bytes().hash(to);
        (&self.log, &self.unsynced, &self.early, &self.bodies).hash(to);
        (&self.written, self.down, &self.lead).hash(to);
        (&self.change, &self.rejoin, &self.gateway, &self.reads).hash(to);
        (&self.delays, &self.disk, &self.watch).hash(to);
        self.following.fingerprint(self.end(), to);
        self.views_told.hash(to);
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.all_figures()
    }

    fn peer_figures(&self) -> Vec<(ReplicaId, &'static str, f64)> {
        self.all_peer_figures()
    }

    fn leads(&self) -> Option<bool> {
        Some(Replica::leads(self))
    }

    plain_checks!(describe);

    /// The view it is in.
    fn depth(&self) -> usize {
        self.view as usize
    }
}

impl Replica {
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
            self.disk.tell_own_gateway(out.persisted(), message);
        } else {
            out.send(self.peer(to), message);
        }
    }

    /// What the own gateway may hear by now.
    pub(super) fn hear_own(&mut self, out: &mut Out<Self>) {
        while let Some(message) = self.disk.pop_for_own_gateway() {
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
        let (member, me) = (self.config.member(from), self.config.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
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
            } => self.on_request(self.config.members[from], body, sent, deadline, out),
            Message::FastReply(_) | Message::Synced { .. } => {
                self.on_reply(from, message, out);
            }
            Message::LogMod(log_mod) => self.on_log_mod(from, log_mod, out),
            Message::Fetch {
                view,
                from: first,
                wants_sums,
            } => self.on_fetch(from, view, first, wants_sums, out),
            Message::FetchBodies { ids } => self.on_fetch_bodies(from, &ids, out),
            Message::Bodies { bodies } => self.on_bodies(bodies, out),
            Message::VcReq { view, cv } => self.on_vc_req(from, view, &cv, out),
            Message::Vc(vc) => self.on_vc(from, vc, out),
            Message::StartView(start) => self.on_start_view(from, start, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA { query, view, end } => self.on_read_a(from, query, view, end, out),
            Message::CvReq { nonce } => self.on_cv_req(from, nonce, out),
            Message::CvRep { nonce, cv } => self.on_cv_rep(from, nonce, cv, out),
            Message::RecReq { nonce, cv } => self.on_rec_req(from, nonce, &cv, out),
            Message::RecRep { nonce, view, cv } => self.on_rec_rep(from, nonce, view, cv, out),
            Message::StateReq { nonce, view, cv } => {
                self.on_state_req(from, nonce, view, &cv, out);
            }
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn settle(&mut self, out: &mut Out<Self>) {
        loop {
            self.form_entries(out);
            self.release_due(out);
            self.hear_own(out);
            self.commit(out);
            let before = self.ap;
            self.deliver(out);
            self.note_progress(before);
            // What was delivered made room for others, and nothing else may ever come.
            let has_appended = self.ap > before && self.append_waiting(out);
            if !has_appended && !self.may_form_entry() {
                break;
            }
        }
        self.say_log(out);
        self.ask_about_reads(out);
        self.tend(out);
    }

    /// Notes whether the log moves, since it was at this slot.
    fn note_progress(&mut self, before: Slot) {
        if self.log.items.is_empty() {
            self.watch.stuck_since_ns = None;
        } else if self.ap > before || self.watch.stuck_since_ns.is_none() {
            self.watch.stuck_since_ns = Some(self.now.mono_ns);
        }
    }

    /// A broken link does not stop questions to the peer; it only has answers take the slow path.
    fn on_link(&mut self, peer: ReplicaId, up: bool, out: &mut Out<Self>) {
        if peer.is_gateway() && !up {
            return self.delays.remote.forget(peer);
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
        for upto in self.disk.flushed(lsn) {
            self.lead.durable = self.lead.durable.max(upto);
        }
    }
}
