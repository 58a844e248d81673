//! A replica's state, and what every input does to it.

use super::config::Config;
use super::describe;
use super::figures::Sent;
use super::life::Life;
use super::losses::Rounds;
use super::messages::{Message, Record, Timer};
use super::rejoin::Rejoin;
use super::roster::{OwnRoster, Rosters};
use super::segments::Segments;
use super::spread::Spreading;
use super::voids::Absence;
use crate::rabia::weak_mvc;
use crate::shared::backlog::{Backlog, refuse_withdrawn};
use crate::shared::lives::Lives;
use crate::shared::peers::sender;
use crate::shared::under_way::Line;
use crate::shared::words::plain_machine;
use quorate_core::pace::Pace;
use quorate_core::{
    EntryId, Event, Input, Introspect, Lsn, Machine, MemberIndex, MemberSet, Now, Out, PayloadRule,
    Peers, ReplicaId,
};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: a member of Weak-MVC, an origin of values, and a holder of segments.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// What orders candidates, and batches of small values.
    pub(super) mvc: weak_mvc::Replica,
    /// This start of this replica within the epoch.
    pub(super) life: Life,
    /// The record of the present life.
    pub(super) life_written: Lsn,
    /// Long values without an entry.
    pub(super) backlog: Backlog,
    /// Own values that are spread and not delivered.
    pub(super) spreading: BTreeMap<EntryId, Spreading>,
    /// Undecided manifests that are written here, those of own values among them.
    pub(super) segments: Segments,
    /// Own values of former lives that a lost disk may have announced.
    pub(super) orphans: BTreeSet<EntryId>,
    /// What an own roster still has to reach.
    pub(super) roster: Option<OwnRoster>,
    /// The rosters of all members.
    pub(super) rosters: Rosters,
    /// The losses this replica tells of, its own among them.
    pub(super) losses: Lives,
    /// The losses this replica has heard of, as an origin.
    pub(super) rounds: Rounds,
    /// What a replica that lost its disk does before it votes again.
    pub(super) rejoin: Option<Rejoin>,
    /// What the own links have to move.
    pub(super) line: Line,
    /// How long acknowledgements take.
    pub(super) pace: Pace,
    /// Segments given to others, for figures.
    pub(super) sent: Sent,
    /// The own clocks at this step.
    pub(super) now: Now,
    /// With `merged`, members that were not heard of for long.
    pub(super) absence: Absence,
    /// The own entry that makes something void.
    pub(super) voiding: Option<EntryId>,
    /// Records up to here are durable.
    pub(super) durable: Lsn,
    /// Whether the retransmission timer runs.
    pub(super) is_armed: bool,
    /// Others that said nothing of the last value that was given up, and nothing since.
    pub(super) silent: MemberSet,
    /// Retransmissions since something was acknowledged.
    pub(super) backoff: u32,
}

impl Machine for Replica {
    plain_machine!();

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
            // It has nothing executed ahead, and no leader.
            Input::Applied { .. } | Input::Prefer(_) => {}
        }
        self.run_to_fixpoint(now, out);
    }

    fn room(&self) -> usize {
        if self.backlog.bytes() >= self.config.mvc.queue.bytes_max {
            return 0;
        }
        self.mvc.room().saturating_sub(self.backlog.len())
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
            Record::Mvc(weak_mvc::Record::Own { prop, .. }) if config.merged => *prop,
            _ => None,
        }
    }

    fn is_serving(&self) -> bool {
        self.mvc.is_serving()
    }
}

impl Introspect for Replica {
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
        (&self.rounds, &self.rejoin, &self.orphans).hash(to);
        (self.is_armed, self.backoff, self.silent).hash(to);
        (&self.absence, self.voiding).hash(to);
    }

    fn explain(&self) -> String {
        describe::explain(self)
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
        let (member, me) = (self.config.member(from), self.config.mvc.me);
        let Some(from) = sender(from, member, me, out) else {
            return;
        };
        match message {
            Message::Mvc(_) => {}
            Message::Spread(spread) => self.on_spread(from, spread, out),
            Message::SegAck(ack) => {
                self.hear_losses(&ack.losses, out);
                self.on_seg_ack(now, from, &ack, out);
            }
            Message::Roster { life, next, open } => self.on_roster(from, life, next, open, out),
            Message::RosterAck { life } => self.on_roster_ack(from, life),
            Message::Lost { loss, number } => self.on_lost(from, loss, number, out),
            Message::Undecided(answer) => self.on_undecided(from, answer, out),
        }
    }

    /// Gives Weak-MVC an input.
    pub(super) fn pass_on(
        &mut self,
        now: Now,
        input: Input<weak_mvc::Replica>,
        out: &mut Out<Self>,
    ) {
        self.within(out, |mvc, out| mvc.step(now, input, out));
    }

    /// Has Weak-MVC do something, and wants done what it wants done.
    pub(super) fn within<T>(
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
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.let_go(now, out);
        self.rejoin_further(out);
        self.order_voids(now, out);
        self.form_entries(now, out);
        self.rearm_timers(out);
    }

    pub(super) fn peer(&self, member: MemberIndex) -> Peers {
        Peers::One(self.config.mvc.members[member])
    }

    /// Whether this replica holds all that may count on it, and makes promises.
    pub(super) fn is_voting(&self) -> bool {
        self.mvc.is_serving()
    }

    /// Counts a peer's offence; what it said is ignored.
    pub(super) fn misbehaved(&self, from: MemberIndex, what: &'static str, out: &mut Out<Self>) {
        let peer = self.config.mvc.members[from];
        out.emit(Event::Misbehaved { peer, what });
    }
}
