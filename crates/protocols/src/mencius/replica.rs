//! One replica: its state, and what it makes of each input.

use super::clients::Offer;
use super::config::Config;
use super::describe;
use super::lanes::Lanes;
use super::messages::{Message, Record, Timer};
use super::mutants::Fault;
use super::reads::Marks;
use super::state::{Held, Lane, OwnLane, Proposal, Written};
use crate::shared::admission::Patience;
use crate::shared::backlog::Backlog;
use crate::shared::claim::Claim;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::entry_names::EntryNames;
use crate::shared::peers::{Member, each_peer, sender};
use crate::shared::reads::ReadQueries;
use crate::shared::seating::Seating;
use crate::shared::timers::Backoff;
use crate::shared::words::{plain_checks, yardstick_machine};
use quorate_core::{
    EntryId, Introspect, Machine, MemberIndex, MemberSet, Now, Out, Peers, ReplicaId, Slot, Wire,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: owner of a lane, acceptor and learner of all, and leader of those it took over.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether it lost its promises, and only learns.
    pub(super) is_silent: bool,
    /// The first slot not delivered.
    pub(super) next: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// The first slot behind all that is known to be used, or waited for.
    pub(super) seen: Slot,
    /// By owner: what is known of its lane.
    pub(super) lanes: Vec<Lane>,
    /// What is known of slots that are not delivered.
    pub(super) slots: BTreeMap<Slot, Held>,
    /// What this replica proposed and is not decided here.
    pub(super) proposals: BTreeMap<Slot, Proposal>,
    /// The own lane.
    pub(super) own: OwnLane,
    /// What was counted here and told nobody, and skipped slots before it.
    pub(super) untold: BTreeMap<Slot, Option<EntryId>>,
    /// No-ops were counted here that nobody was told of.
    pub(super) tells_noops: bool,
    /// A member that has delivered every slot before this one, which is the last heard of.
    pub(super) claim: Claim,
    /// Commands without an entry.
    pub(super) backlog: Backlog,
    /// Own entries not delivered.
    pub(super) offers: Vec<Offer>,
    /// Names of own entries.
    pub(super) names: EntryNames,
    /// Reads; none goes through the log.
    pub(super) reads: ReadQueries<Marks>,
    /// How far records are durable, and what waits for that.
    pub(super) disk: Disk<Written>,
    /// Whether clients wait in vain.
    pub(super) patience: Patience,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
    /// Members that gave a sign of work since the suspicion timer was armed.
    pub(super) heard: MemberSet,
    /// Something was delivered since then.
    pub(super) has_moved: bool,
    /// Members whose connection is down.
    pub(super) down: MemberSet,
    /// By member: when long entries that it was told of are there, on the own clock in ns.
    pub(super) told_until_ns: Vec<u64>,
    /// Something was heard of every slot before this one, as far as that was looked at.
    pub(super) heard_until: Slot,
    /// By member: every own slot before this one it has told of, as skipped or suggested in, from the first one on that
    /// is not delivered here. Saves looking at them again.
    pub(super) told_skips: Vec<Slot>,
    /// The own clock at this step, in ns.
    pub(super) now_ns: u64,
}

/// The timers that run, but for the one of patience.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Armed {
    pub(super) retransmit: bool,
    /// Whether it is hurried, if it runs.
    pub(super) suspect: Option<bool>,
    pub(super) skip: bool,
    /// The slot before which everything should be delivered when it comes due, if it runs.
    pub(super) catch_up: Option<Slot>,
}

impl Machine for Replica {
    yardstick_machine!();
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.is_silent, self.next, self.seen).hash(to);
        self.done.to_bytes().hash(to);
        (&self.lanes, &self.slots, &self.proposals, &self.own).hash(to);
        (&self.untold, self.tells_noops, self.claim).hash(to);
        (&self.backlog, &self.offers, self.names, &self.reads).hash(to);
        (&self.disk, self.patience, self.armed, self.backoff).hash(to);
        (self.heard, self.has_moved, self.down).hash(to);
    }

    plain_checks!(describe);

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let led = self.lanes.iter().filter(|lane| lane.leading().is_some());
        vec![("lanes_taken", led.count() as f64)]
    }

    /// The depth of a run is counted in ballots.
    fn depth(&self) -> usize {
        let rounds = self.lanes.iter().map(|lane| lane.highest.round);
        rounds.max().unwrap_or(0) as usize
    }
}

impl Member for Replica {
    fn seating(&self) -> &Seating {
        &self.config.seating
    }
}

impl Replica {
    /// There is no leader to prefer.
    fn on_prefer(&self, _: ReplicaId, _: &mut Out<Self>) {}

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let (member, me) = (self.config.seating.member(from), self.config.seating.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        self.heard.insert_if(from, message.is_work());
        match message {
            Message::Suggest {
                slot,
                ballot,
                entry,
                learned,
                header,
            } => {
                self.on_header(from, &header, out);
                self.on_suggest(from, slot, ballot, entry, out);
                self.on_learned(learned, out);
            }
            Message::Noops {
                span,
                ballot,
                header,
            } => {
                self.on_header(from, &header, out);
                self.on_noops(from, span, ballot, out);
            }
            Message::Accept {
                ballot,
                spans,
                header,
            } => {
                self.on_header(from, &header, out);
                self.on_accept(from, ballot, spans, out);
            }
            Message::Skip { header } => self.on_header(from, &header, out),
            Message::Learn { learned, header } => {
                self.on_header(from, &header, out);
                self.on_learned(learned, out);
            }
            Message::Decided { slot, entry } => self.on_decided(from, slot, entry, out),
            Message::Ask { next, until } => self.on_ask(from, next, until, out),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA { query, mark } => self.on_read_a(from, query, mark, out),
            _ => self.on_lane_message(from, message, out),
        }
    }

    /// A message about who leads a lane.
    fn on_lane_message(&mut self, from: MemberIndex, message: Message, out: &mut Out<Self>) {
        let lane = match &message {
            Message::Prepare { lane, .. }
            | Message::Promise { lane, .. }
            | Message::Nack { lane, .. } => *lane,
            _ => return,
        };
        if lane.position() >= self.lanes.len() {
            return self.misbehaved(from, "a lane of no member", out);
        }
        match message {
            Message::Prepare {
                ballot,
                from: first,
                ..
            } => {
                self.on_prepare(from, lane, ballot, first, out);
            }
            Message::Promise {
                ballot,
                shown,
                delivered,
                ..
            } => self.on_promise(from, lane, ballot, shown, delivered, out),
            Message::Nack {
                promised,
                delivered,
                ..
            } => {
                self.note_claim(from, delivered);
                self.on_nack(from, lane, promised, out);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Retransmit => self.on_retransmit(out),
            Timer::Suspect => self.on_suspect(out),
            Timer::Skip => self.on_skip_timer(out),
            Timer::CatchUp => self.on_catch_up(out),
            Timer::Patience => self.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        loop {
            self.take_durable(out);
            self.skip_to_seen(out);
            if !self.is_silent && self.own.next > self.own.reserved {
                self.reserve(out);
            }
            self.settle_skips(out);
            self.fill_all(out);
            self.take_back(out);
            self.suggest_all(now, out);
            self.answer_reads(out);
            self.ask_about_reads(out);
            if !self.disk.is_due() {
                break;
            }
        }
        self.say_learned(out);
        self.rearm_timers(out);
    }

    /// The first slot that nothing is kept of: too far ahead.
    pub(super) fn horizon(&self) -> Slot {
        Slot(self.next.0.saturating_add(self.config.slots_max))
    }

    /// The lanes of the epoch: which member owns which slot.
    pub(super) fn lanes(&self) -> Lanes {
        self.config.lanes()
    }

    /// The lane of a slot.
    pub(super) fn lane_of(&self, slot: Slot) -> &Lane {
        &self.lanes[self.lanes().owner(slot)]
    }

    pub(super) fn fault(&self, fault: Fault) -> bool {
        self.config.faults.is(fault)
    }

    /// Sends to some members; to all others as a broadcast.
    pub(super) fn send_to(
        &self,
        to: MemberSet,
        message: &Message,
        mut send: impl FnMut(Peers, Message),
    ) {
        let seating = &self.config.seating;
        each_peer(to, seating.others(), &seating.members, |peers| {
            send(peers, message.clone())
        });
    }
}
