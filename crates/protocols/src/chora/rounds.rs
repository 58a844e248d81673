//! Pulsing mode: one pulse per round, rounds with an early exit.
//!
//! Modes differ only in when messages leave. Numbers of rounds are advice: nothing that is decided
//! depends on them.

use super::Replica;
use super::config::Config;
use super::load::Load;
use super::messages::{Pulse, Timer};
use super::role::Role;
use quorate_core::{Due, Event, MemberIndex, MemberSet, Now, Out};
use std::hash::{Hash, Hasher};

/// Rounds with nothing new to say before there are none any more.
const IDLE_ROUNDS_MAX: u32 = 16;
/// Idle rounds after which each lasts twice as long.
const BACKOFF_EVERY: u32 = 2;

/// Rounds, and what is seen of load.
#[derive(Clone, Debug)]
pub(super) struct Rounds {
    pub(super) load: Load,
    is_pulsing: bool,
    /// The present round.
    number: u64,
    /// Members of which a message of the last round, or a later one, came in this one.
    heard: MemberSet,
    /// Rounds in a row with nothing new to say.
    idle: u32,
    /// By member: the length of its rounds, as told last.
    paces_ns: Vec<u64>,
}

/// What messages depend on; not what is only measured.
impl Hash for Rounds {
    fn hash<H: Hasher>(&self, to: &mut H) {
        (self.is_pulsing, self.number, self.heard, self.idle).hash(to);
        (&self.paces_ns, self.load.round_ns()).hash(to);
        self.load.proposed_ago_ns().hash(to);
    }
}

impl Rounds {
    pub(super) fn new(config: &Config) -> Rounds {
        Rounds {
            load: Load::new(config),
            is_pulsing: false,
            number: 0,
            heard: MemberSet::EMPTY,
            idle: 0,
            paces_ns: vec![0; config.members.len()],
        }
    }

    /// Whether what is said waits for the next round.
    pub(super) fn is_pulsing(&self) -> bool {
        self.is_pulsing
    }

    /// The present round.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// `T` as advertised: none in responsive mode.
    pub(super) fn pace_ns(&self) -> u64 {
        if self.is_pulsing {
            self.load.round_ns()
        } else {
            0
        }
    }

    /// A peer's pulse, of some round.
    pub(super) fn hear(&mut self, from: MemberIndex, pulse: &Pulse) {
        let header = &pulse.header;
        // All use the longest; nobody is waited for longer than the tuner itself may choose.
        self.paces_ns[from] = header.pace_ns;
        if header.round + 1 >= self.number {
            self.heard.insert(from);
        }
        if header.round > self.number + 1 {
            self.number = header.round - 1;
        }
        self.load.note_delay(from, header.sent_ns);
        self.load.network.counts.multicasts += 1;
        let proposal = pulse.proposal.as_ref();
        if let Some(value) = proposal.and_then(|proposal| proposal.value.as_ref()) {
            self.load.note_offered(from, value);
        }
    }

    /// Whether any other member pulses, as told last.
    pub(super) fn do_others_pulse(&self) -> bool {
        self.paces_ns.iter().any(|pace| *pace > 0)
    }

    /// A view begins: other proposers, other rounds.
    pub(super) fn enter_view(&mut self) {
        self.load.restart();
        self.load.network.enter_view();
        self.paces_ns.fill(0);
        self.heard = MemberSet::EMPTY;
    }

    /// How long this round lasts, longer while nothing is said.
    pub(super) fn length_ns(&self, most: u64) -> u64 {
        let paces = self.paces_ns.iter().copied();
        let longest = paces.max().unwrap_or(0).min(most);
        let length = longest.max(self.load.round_ns());
        length << (self.idle / BACKOFF_EVERY)
    }
}

impl Replica {
    pub(super) fn begin_pulses(&mut self, now: Now, out: &mut Out<Self>) {
        out.emit(Event::Branch("pulses begun"));
        (self.rounds.is_pulsing, self.rounds.idle) = (true, 0);
        self.rounds.load.switched(true);
        self.rounds.load.restart();
        self.on_round(now, out);
    }

    pub(super) fn end_pulses(&mut self, out: &mut Out<Self>) {
        out.emit(Event::Branch("pulses ended"));
        self.rounds.is_pulsing = false;
        self.rounds.load.switched(false);
        out.disarm(Timer::Round);
    }

    /// A round that was to last long, for there was nothing to say, ends when there is.
    pub(super) fn end_back_off(&mut self, now: Now, out: &mut Out<Self>) {
        let is_long = self.rounds.idle >= BACKOFF_EVERY;
        if is_long && (self.ack() > self.traffic.said_ack || self.can_propose()) {
            self.on_round(now, out);
        }
    }

    /// A round begins: one pulse says all there is to say.
    pub(super) fn on_round(&mut self, now: Now, out: &mut Out<Self>) {
        if !self.rounds.is_pulsing {
            return;
        }
        self.rounds.number += 1;
        self.rounds.load.note_round();
        self.rounds.heard = MemberSet::EMPTY;
        self.form_entries(now, out);
        let proposal = self.next_proposal();
        // Waiting alone is no news: pulses that only repeat themselves fill a slow network, which then
        // falls behind for good.
        let is_idle = proposal.is_none() && self.ack() <= self.traffic.said_ack;
        self.rounds.idle = if is_idle { self.rounds.idle + 1 } else { 0 };
        if self.rounds.idle >= IDLE_ROUNDS_MAX {
            return self.end_pulses(out);
        }
        self.say_to_all(proposal, out);
        let length = self.rounds.length_ns(*self.config.round_range_ns.end());
        out.arm(Timer::Round, Due::After(length));
    }

    /// Whether the next pulse would say anything new. What waits for a slot, or for entries before it, is no
    /// news: pulses that begin for its sake end at once and begin again, and fill a slow network.
    pub(super) fn has_news(&self) -> bool {
        let is_formed =
            !self.clients.backlog.is_empty() && self.has_room_for_entry() && self.has_slot();
        self.ack() > self.traffic.said_ack || self.can_propose() || is_formed
    }

    /// A round ends early once every other live proposer has been heard in it. Where there is nothing new
    /// to say it takes its time: else pulses would answer each other as fast as they can.
    pub(super) fn exit_round_early(&mut self, now: Now, out: &mut Out<Self>) {
        let is_begun = matches!(self.role, Role::Follower | Role::Initiator);
        if !self.rounds.is_pulsing || self.rounds.idle > 0 || !is_begun {
            return;
        }
        let init = self.init.as_ref();
        let proposers = init.map_or(MemberSet::EMPTY, |init| init.proposers());
        let live = proposers & (self.config.others() - self.down);
        if !live.is_empty() && live.is_subset(self.rounds.heard) && self.has_news() {
            self.rounds.load.network.counts.early += 1;
            self.on_round(now, out);
        }
    }
}
