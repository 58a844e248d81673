//! Racos: leaderless replication of values in segments (Zarnstorff et al., SPAA'24).
//!
//! Whoever takes a long value cuts it into segments, any `k` of which rebuild it, and spreads them, one to
//! each member. Once `k + f` have theirs on their disks the value is a *candidate*: its manifest, an entry
//! without its payloads, goes to all, and Weak-MVC orders it as Rabia orders batches. Nobody leads, and every
//! replica writes `1/k` of what it stores. Small values travel whole within batches, as in Rabia.
//!
//! The slots are [`crate::weak_mvc`]'s, with one lane for each origin, so that origins do not compete; idle
//! lanes cost no message (its documentation). This machine has one of those within it and does what is left:
//! segments, acknowledgements, and what becomes of both.
//!
//! # Why it is safe
//!
//! All that [`crate::weak_mvc`] argues for slots (I1 to I10) stands: a candidate is a batch to it, and
//! `k + f` is none of its thresholds. `README.md` beside this file maps the paper to the functions.
//!
//! - C1: what is proposed had `k + f` durable holders first. An acknowledgement is sent behind the record of
//!   the segment (`segments.rs`); an origin counts each member once, and itself once its own record is
//!   durable (`Replica::announce_if_held`, which asserts the number). Nothing else makes a candidate: a
//!   manifest that came with a segment has no candidate bit, and after a restart only what has one is given
//!   to Weak-MVC (`recover.rs`).
//! - C1, continued: acknowledgements of a member count until it loses its disk. `losses.rs` argues why an
//!   origin learns of that in time, and `rebuild.rs` why the member votes again only when it holds what
//!   may count on it.
//! - C2: a value that is decided and live keeps `k + f` holders, less those that are lost: a holder lets go
//!   only of what its origin's [`Message::Roster`] leaves out, and an origin leaves out only what it never
//!   announced (C5). Everything else is the host's: decided and superseded, or of an epoch that is over.
//! - With `merged` a proposal says what a candidate does otherwise: its sender has its segment on its disk. So `T`
//!   is `k + f` at least, and whatever is decided had so many holders (C1). Nobody lets go of what may have been
//!   proposed, unless the log made it void, from which on it is skipped by all (C7, `voids.rs`).
//! - C4: the host checks digests when it rebuilds.
//! - C6: reads ask for marks as Rabia's do; a candidate is a request with `T` proposers like any other.
//! - C7, C8, C9: what is undecided is void with its epoch (the host's seal), and applied prefixes are equal.
//!
//! # Flushes
//!
//! In sequence, for a value that is spread: the segments; that it was announced, together with the own
//! proposal; the proposals of the others. With `merged` there is one: the segments together with the proposals
//! that they stand for. One more of votes if those do not decide at once.

mod adapt;
mod config;
mod figures;
mod life;
mod losses;
mod messages;
mod mutants;
mod rebuild;
mod recover;
mod registered;
mod roster;
mod segments;
mod spread;
#[cfg(test)]
mod tests;
mod voids;
mod wire;
mod words;

pub use config::{Config, Rules, Thresholds};
pub use life::Life;
pub use messages::{Manifest, Message, Record, Timer};

use crate::backlog::{Backlog, refuse_withdrawn};
use crate::done::Done;
use crate::lives::Lives;
use crate::under_way::Line;
use crate::weak_mvc;
use figures::Sent;
use losses::Rounds;
use quorate_core::pace::Pace;
use quorate_core::{
    Decoder, EntryId, Event, Input, Lsn, Machine, Now, Out, Past, PayloadRule, Peers, ReplicaId,
    Wire, WireError,
};
use rebuild::Rebuild;
use roster::{OwnRoster, Rosters};
use segments::Segments;
use spread::Spreading;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The protocol, as registered.
pub struct Racos;

/// One replica: a member of Weak-MVC, an origin of values, and a holder of segments.
#[derive(Clone, Debug)]
pub struct Replica {
    config: Arc<Config>,
    /// What orders candidates, and batches of small values.
    mvc: weak_mvc::Replica,
    /// This start of this replica within the epoch.
    life: Life,
    /// The record of it.
    life_written: Lsn,
    /// Long values without an entry.
    backlog: Backlog,
    /// Own values that are spread and not delivered.
    spreading: BTreeMap<EntryId, Spreading>,
    /// Undecided manifests that are written here, those of own values among them.
    segments: Segments,
    /// Own values of former lives that a lost disk may have announced.
    orphans: BTreeSet<EntryId>,
    /// What an own roster still has to reach.
    roster: Option<OwnRoster>,
    /// The rosters of all members.
    rosters: Rosters,
    /// The losses this replica tells of, its own among them.
    losses: Lives,
    /// The losses this replica has heard of, as an origin.
    rounds: Rounds,
    /// What a replica that lost its disk does before it votes again.
    rebuild: Option<Rebuild>,
    /// What the own links have to move, and how long acknowledgements take.
    line: Line,
    pace: Pace,
    sent: Sent,
    /// The own clocks at this step.
    now: Now,
    /// With `merged`, when each member was last heard, on the own clock, and how often it was wrongly taken for
    /// gone.
    heard: Vec<(u64, u32)>,
    /// Members that were not heard of for so long that what they left is void, as a mask.
    gone: u64,
    /// The own entry that makes something void.
    voiding: Option<EntryId>,
    /// Records up to here are durable.
    durable: Lsn,
    is_armed: bool,
    /// Others that said nothing of the last value that was given up, and nothing since.
    silent: u64,
    /// Retransmissions since something was acknowledged.
    backoff: u32,
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
        self.now = now;
        if let Input::Message { from, .. } = &input {
            self.hear_from(*from);
        }
        match input {
            Input::Submit(commands) => self.on_submit(now, commands, out),
            Input::Withdraw(ids) => {
                refuse_withdrawn(self.backlog.withdraw(&ids), out);
                self.pass_on(now, Input::Withdraw(ids), out);
            }
            Input::Message {
                from,
                message: Message::Mvc(message),
            } => self.pass_on(now, weak_mvc_says(from, message), out),
            Input::Message { from, message } => self.on_message(now, from, message, out),
            Input::Timer(Timer::Mvc(timer)) => self.pass_on(now, Input::Timer(timer), out),
            Input::Timer(Timer::Spread) => self.on_spread_timer(now, out),
            Input::Durable(lsn) => {
                self.durable = self.durable.max(lsn);
                self.pass_on(now, Input::Durable(lsn), out);
                self.announce_held(now, out);
            }
            Input::Installed { next, base } => {
                self.pass_on(now, Input::Installed { next, base }, out);
                self.spread_skipped(now, out);
            }
            Input::Link { peer, up } => {
                self.pass_on(now, Input::Link { peer, up }, out);
                self.on_link(peer, up, out);
            }
            Input::Held(entry) => self.on_held(&entry, out),
            // It has nothing executed ahead.
            Input::Applied { .. } => {}
        }
        self.settle(now, out);
    }

    fn room(&self) -> usize {
        if self.backlog.bytes() >= self.config.mvc.queue_bytes_max {
            return 0;
        }
        self.mvc.room().saturating_sub(self.backlog.len())
    }

    fn fingerprint(&self, to: &mut impl Hasher) {
        self.mvc.fingerprint(to);
        (self.life, self.life_written <= self.durable).hash(to);
        self.backlog.hash(to);
        for (id, spreading) in &self.spreading {
            id.hash(to);
            spreading.fingerprint(self.durable, to);
        }
        self.segments.fingerprint(self.durable, to);
        (&self.roster, &self.rosters, &self.losses).hash(to);
        (&self.rounds, &self.rebuild, &self.orphans).hash(to);
        (self.is_armed, self.backoff, self.silent).hash(to);
        (self.gone, self.voiding).hash(to);
    }

    fn reach(config: &Config) -> Option<u64> {
        <weak_mvc::Replica as Machine>::reach(&config.mvc)
    }

    fn payloads(config: &Config) -> Option<PayloadRule> {
        Some(PayloadRule {
            min: config.payload_min,
            code: config.code,
        })
    }

    /// With `merged`, who proposes holds its segment.
    fn rests_on(config: &Config, record: &Record) -> Option<EntryId> {
        match record {
            Record::Mvc(weak_mvc::Record::Own { prop, .. }) if config.rules.merged => *prop,
            _ => None,
        }
    }

    fn is_serving(&self) -> bool {
        self.mvc.is_serving()
    }

    fn explain(&self) -> String {
        words::explain(self)
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        self.all_figures()
    }

    fn check(&self) {
        self.mvc.check();
        self.check_all();
    }

    fn depth(&self) -> usize {
        self.mvc.depth()
    }
}

fn weak_mvc_says(from: ReplicaId, message: weak_mvc::Message) -> Input<weak_mvc::Replica> {
    Input::Message { from, message }
}

impl Replica {
    fn on_message(&mut self, now: Now, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let from = match self.config.member(from) {
            Some(member) if member != self.config.mvc.me => member,
            _ => {
                let what = "a message from no other member";
                return out.emit(Event::Misbehaved { peer: from, what });
            }
        };
        match message {
            Message::Mvc(_) => {}
            Message::Spread {
                manifest,
                round,
                is_attached,
            } => self.on_spread(from, manifest, (round, is_attached), out),
            Message::SegAck {
                id,
                code,
                life,
                round,
                is_here,
                losses,
            } => {
                self.hear_losses(&losses, out);
                self.on_seg_ack(now, from, (id, code, life), (round, is_here), out);
            }
            Message::Roster { life, next, open } => self.on_roster(from, life, next, open, out),
            Message::RosterAck { life } => self.on_roster_ack(from, life),
            Message::Lost { loss, number } => self.on_lost(from, loss, number, out),
            Message::Undecided {
                losses,
                number,
                count,
                next,
                manifest,
            } => self.on_undecided(from, (losses, number), (count, next), manifest, out),
        }
    }

    /// Gives Weak-MVC an input.
    fn pass_on(&mut self, now: Now, input: Input<weak_mvc::Replica>, out: &mut Out<Self>) {
        self.within(out, |mvc, out| mvc.step(now, input, out));
    }

    /// Has Weak-MVC do something, and wants done what it wants done.
    fn within<T>(
        &mut self,
        out: &mut Out<Self>,
        act: impl FnOnce(&mut weak_mvc::Replica, &mut Out<weak_mvc::Replica>) -> T,
    ) -> T {
        let mut inner = out.inner();
        let result = act(&mut self.mvc, &mut inner);
        let segments = &self.segments;
        let record = |record| segments.record_of(record, &self.config);
        out.absorb(&mut inner, Message::Mvc, record, Timer::Mvc);
        result
    }

    /// Does all that became possible: every input ends here.
    fn settle(&mut self, now: Now, out: &mut Out<Self>) {
        self.let_go(now, out);
        self.rebuild_further(out);
        self.order_voids(now, out);
        self.form_entries(now, out);
        self.tend(out);
    }

    fn peer(&self, member: usize) -> Peers {
        Peers::One(self.config.mvc.members[member])
    }

    /// Whether this replica holds all that may count on it, and makes promises.
    fn is_voting(&self) -> bool {
        self.mvc.is_serving()
    }

    /// Counts a peer's offence; what it said is ignored.
    fn misbehaved(&self, from: usize, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.mvc.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }

    /// Lemmas over this replica's whole state.
    fn check_all(&self) {
        for (id, spreading) in &self.spreading {
            assert!(!self.mvc.is_done(*id), "what is spread is not in the log");
            // Of what it spread before it lost its disk, others may know that it was announced.
            let is_known = self.orphans.contains(id) && !spreading.is_announced;
            assert!(
                is_known || spreading.is_announced == self.mvc.holds(*id),
                "what was announced, and nothing else, may be ordered (C1)"
            );
            assert!(
                self.segments.get(*id).is_some(),
                "an origin writes what it spreads"
            );
        }
        let mut undecided = self.segments.iter();
        assert!(
            undecided.all(|(id, _)| !self.mvc.is_done(*id)),
            "a segment of what is decided is the host's"
        );
    }
}
