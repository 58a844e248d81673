//! Nezha (Geng et al., VLDB'23): requests ordered by deadline in synchronised time, answered after one
//! round trip when replicas agree on what came before them.
//!
//! One replica leads a view. A gateway (the paper's proxy) forms entries of its clients' commands, gives each a
//! deadline by which all should have it, and counts the answers. There is one inside every replica, and any
//! number may run apart ([`Proxy`]). The leader has what it appends executed at once, before it is decided.
//!
//! # Why it is safe
//!
//! `README.md` beside this file maps the paper to the functions and says where we depart from it.
//! [`Machine::check`] asserts what one replica can see, the tests watch the rest:
//!
//! - I1: what conflicts is in deadline order in the log, and no entry is there twice, nor in the log and
//!   unsynced (`checks.rs`).
//! - I2, I3: a synced log is a prefix of the log of its view's leader (`follower.rs`).
//! - I4: what was committed, on either path, is in every later view's log, behind the same entries that
//!   conflict with it (`merge.rs`).
//! - I5: what is below a commit-point never changes: only that is delivered.
//! - I7: view, `lnv`, `cv` and, within a view, the synced log only grow.
//! - I8: a view's log is made once (`merge.rs`).
//! - I9: nothing is held for longer than `far_us` on the own monotonic clock (`early.rs`).

mod bodies;
mod buckets;
mod callers;
mod change;
mod checks;
mod config;
mod counting;
mod digest;
mod dom;
mod early;
mod figures;
mod follower;
mod gateway;
mod hold;
mod inside;
mod leader;
mod merge;
mod messages;
mod mutants;
mod paper;
mod prf;
mod proxy;
mod reads;
mod receive;
mod recover;
mod registered;
mod rejoin;
mod repeats;
mod replica;
#[cfg(test)]
mod tests;
mod timers;
mod wire;
mod wire_message;
mod words;

pub use buckets::Buckets;
pub use config::{Config, Rules, Thresholds};
pub use digest::{BUCKETS_MAX, Footprint, Sums, Tup};
pub use dom::{Delays, Estimates};
pub use messages::{Body, LogMod, Message, Outcome, Placed, Record, StartView, Timer, Vc};
pub use prf::Prf;
pub use proxy::Proxy;
pub use registered::Nezha;
pub use replica::Replica;

use crate::backlog::refuse_withdrawn;
use crate::done::Done;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, Event, Input, Lsn, Machine, Now, Out, Past, ReplicaId, Wire, WireError,
};
use repeats::Repeat;
use replica::Status;
use std::hash::{Hash, Hasher};

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

    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.status, self.view, self.lnv, &self.cv).hash(to);
        (self.ap, self.cp, self.is_unvouched).hash(to);
        self.joined.0.saturating_sub(self.durable.0).hash(to);
        self.done.to_bytes().hash(to);
        (&self.log, &self.un, &self.early, &self.bodies).hash(to);
        (&self.written, &self.sums, &self.bounds).hash(to);
        (&self.placed, &self.sums_told, self.is_lazy, &self.down).hash(to);
        (&self.lead, &self.change, &self.rejoin).hash(to);
        (&self.gateway, &self.reads, &self.delays, &self.apart).hash(to);
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
        words::explain(self)
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
    fn settle(&mut self, out: &mut Out<Self>) {
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
            return self.apart.forget(peer);
        }
        let Some(member) = self.config.member(peer) else {
            return;
        };
        if up {
            self.down.remove(&member);
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
