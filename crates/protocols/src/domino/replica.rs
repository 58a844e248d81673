//! A replica's state, and what every input does to it.

use super::config::Config;
use super::describe;
use super::gateway::Gateway;
use super::lanes::{Lane, Lead};
use super::messages::{LaneNo, Mark, Message, Record, Round, Stamp, Timer};
use super::mutants::Fault;
use super::owner::Own;
use super::reads::Answers;
use crate::shared::ballot::Ballot;
use crate::shared::claim::Fetcher;
use crate::shared::clients::Clients;
use crate::shared::decided::DecidedSet;
use crate::shared::disk::Disk;
use crate::shared::peers::{Member, sender};
use crate::shared::seating::Seating;
use crate::shared::timers::Backoff;
use crate::shared::words::{plain_checks, yardstick_machine};
use quorate_core::{
    EntryId, Introspect, Machine, MemberIndex, MemberSet, Now, Out, ReplicaId, Slot, Wire,
};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One replica: gateway, acceptor, learner, and leader of its own lane and, at times, of others.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) config: Arc<Config>,
    /// Whether it lost its promises, and only learns.
    pub(super) is_silent: bool,
    /// The lanes of members by position, and the fast one behind them.
    pub(super) lanes: Vec<Lane>,
    /// The first slot not delivered.
    pub(super) next: Slot,
    /// The entries delivered.
    pub(super) done: DecidedSet,
    /// What is chosen up to here, in any lane, is delivered, or was before.
    pub(super) walk: Stamp,
    /// The furthest that somebody said to have delivered, if that was further than this replica has.
    pub(super) ahead: Mark,
    /// How far others have delivered.
    pub(super) fetcher: Fetcher,
    /// Positions behind `walk` at which something waits, here or elsewhere, each with the own clock's time since which
    /// that is known, in ns.
    pub(super) waits: BTreeMap<Stamp, u64>,
    /// The furthest position up to which lanes had to be filled.
    pub(super) filled: Stamp,
    /// The own votes in the fast lane that others were told.
    pub(super) said: Option<Round>,
    /// Positions up to here are not held for the own clock any more.
    pub(super) forced: Stamp,
    /// The own lane.
    pub(super) own: Own,
    /// No own stamp, no word about the own lane and no vote is behind this one.
    pub(super) reserved: Stamp,
    /// What of that is durable.
    pub(super) reserved_durable: Stamp,
    /// No entry got a vote of this replica behind here.
    pub(super) latest: Stamp,
    /// What clients of this replica wait for.
    pub(super) clients: Clients<Answers>,
    /// Where own entries stand, and how long messages take.
    pub(super) gateway: Gateway,
    /// Entries that this replica has counted, and whether that was in a fast round.
    pub(super) counted: BTreeMap<EntryId, bool>,
    /// Members whose connection is down.
    pub(super) down: MemberSet,
    /// How far records are durable, and what waits for that.
    pub(super) disk: Disk<Written>,
    /// The timers that run.
    pub(super) armed: Armed,
    /// How long nothing moved.
    pub(super) backoff: Backoff,
    /// What was heard in this step.
    pub(super) inbox: Vec<(MemberIndex, Message)>,
    /// The own clocks at this step, in ns: the one that timers use, and the one that is compared with others'.
    pub(super) now_ns: u64,
    pub(super) clock_ns: u64,
}

/// What counts once a record is durable.
#[derive(Clone, Hash, Debug)]
pub(super) enum Written {
    /// The acceptance of what this replica wants, as leader of a lane.
    Own {
        lane: LaneNo,
        ballot: Ballot,
        through: Stamp,
    },
    /// The vote of this replica in its fast round.
    Vote { ballot: Ballot, stamp: Stamp },
    /// No entry gets a vote in its fast round up to here.
    Nat { ballot: Ballot, nat: Stamp },
    /// The promise of its own ballot in a lane.
    Candidacy { lane: LaneNo, ballot: Ballot },
    /// Stamps are reserved.
    Reserve(Stamp),
}

/// The timers that run, but for those of patience and of catching up.
#[derive(Clone, Copy, Hash, Debug, Default)]
pub(super) struct Armed {
    /// The position that is held next, if one is.
    pub(super) hold: Option<Stamp>,
    /// By when, on the own clock in ns.
    pub(super) hold_ns: u64,
    pub(super) retransmit: bool,
    pub(super) election: bool,
    pub(super) collide: bool,
    /// When the next beat may be, on the own clock in ns.
    pub(super) beat_ns: u64,
    /// Something waits for that.
    pub(super) has_unsaid: bool,
}

impl Machine for Replica {
    // Records are about times: how many slots are before those nobody knows.
    yardstick_machine!(|_| None);
}

impl Introspect for Replica {
    fn fingerprint(&self, to: &mut impl Hasher) {
        (self.is_silent, &self.lanes, self.next, self.walk).hash(to);
        self.done.to_bytes().hash(to);
        let waits: Vec<_> = self.waits.keys().collect();
        (self.ahead, self.fetcher, waits, self.forced).hash(to);
        (self.filled, self.said).hash(to);
        (&self.own, self.reserved, self.reserved_durable, self.latest).hash(to);
        (&self.clients, &self.gateway, &self.counted, self.down).hash(to);
        (&self.disk, self.armed, self.backoff).hash(to);
    }

    plain_checks!(describe);

    fn leads(&self) -> Option<bool> {
        self.fast().map(|lane| lane.leading().is_some())
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let led = self.lanes.iter().filter(|lane| lane.leading().is_some());
        vec![("lanes led", led.count() as f64)]
    }

    /// The depth of a run is counted in ballots.
    fn depth(&self) -> usize {
        let rounds = self.lanes.iter().map(|lane| lane.highest.round as usize);
        rounds.sum()
    }
}

impl Member for Replica {
    fn seating(&self) -> &Seating {
        &self.config.seating
    }
}

impl Replica {
    /// How many more requests may wait.
    pub(super) fn queue_room(&self) -> usize {
        self.clients.room(&self.config.batches)
    }

    pub(super) fn fault(&self, fault: Fault) -> bool {
        self.config.faults.is(fault)
    }

    pub(super) fn me(&self) -> MemberIndex {
        self.config.seating.me
    }

    pub(super) fn others(&self) -> MemberSet {
        self.config.seating.others()
    }

    /// The number of the own lane.
    pub(super) fn my_lane(&self) -> LaneNo {
        LaneNo::of(self.me())
    }

    /// The number of the fast lane, if there is one.
    pub(super) fn fast_lane(&self) -> Option<LaneNo> {
        let members = self.config.seating.members.len();
        self.config.has_fast_lane().then_some(LaneNo(members as u8))
    }

    pub(super) fn lane(&self, no: LaneNo) -> &Lane {
        &self.lanes[usize::from(no.0)]
    }

    pub(super) fn lane_mut(&mut self, no: LaneNo) -> &mut Lane {
        &mut self.lanes[usize::from(no.0)]
    }

    /// The fast lane.
    pub(super) fn fast(&self) -> Option<&Lane> {
        self.fast_lane().map(|no| self.lane(no))
    }

    /// The numbers of all lanes.
    pub(super) fn lane_numbers(&self) -> impl Iterator<Item = LaneNo> + use<> {
        (0..self.lanes.len() as u8).map(LaneNo)
    }

    /// Who leads a lane that nobody took over, by the first ballot of all: the owner, and the first member the fast
    /// one.
    pub(super) fn first_leader(&self, lane: LaneNo) -> MemberIndex {
        match Some(lane) == self.fast_lane() {
            true => MemberIndex::new(0),
            false => MemberIndex::new(usize::from(lane.0)),
        }
    }

    /// Who leads a lane by a ballot; `None` if that is none of a member.
    pub(super) fn leader_of(&self, lane: LaneNo, ballot: Ballot) -> Option<MemberIndex> {
        match ballot == Ballot::default() {
            true => Some(self.first_leader(lane)),
            false => self.config.seating.member(ballot.node),
        }
    }

    /// What is compared with stamps: the own clock, or further where stamps already are.
    pub(super) fn time(&self) -> Stamp {
        let nat = self.fast().and_then(|lane| lane.round);
        let nat = nat.map_or(Stamp(0), |round| round.nat);
        Stamp(self.clock_ns).max(self.walk).max(nat)
    }

    /// What is delivered here.
    pub(super) fn mark(&self) -> Mark {
        Mark {
            next: self.next,
            walk: self.walk,
        }
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, out: &mut Out<Self>) {
        let seating = &self.config.seating;
        if let Some(from) = sender(from, seating.member(from), seating.me, out) {
            self.inbox.push((from, message));
        }
    }

    fn hear(&mut self, from: MemberIndex, message: Message, out: &mut Out<Self>) {
        match message {
            Message::Propose(proposal) => self.on_propose(from, proposal, out),
            Message::Vote(vote) => self.on_vote(from, vote, out),
            Message::Beat(beat) => self.on_beat(from, beat, out),
            Message::Accept(accept) => self.on_accept(from, accept, out),
            Message::Accepted(accepted) => self.on_accepted(from, accepted),
            Message::Prepare(lane, ballot) => self.on_prepare(from, lane, ballot, out),
            Message::Promise(promise) => self.on_promise(from, promise, out),
            Message::Nack(lane, promised) => self.on_nack(lane, promised, out),
            Message::Ask(ask) => self.on_ask(from, ask, out),
            Message::Mark(mark) => self.on_mark(from, mark),
            Message::ReadQ(query) => self.on_read_q(from, query, out),
            Message::ReadA(query, latest) => self.on_read_a(from, query, latest),
        }
    }

    fn on_timer(&mut self, timer: Timer, out: &mut Out<Self>) {
        match timer {
            Timer::Hold => self.on_hold(),
            Timer::Collide => self.on_collide(out),
            Timer::Election => self.on_election(out),
            Timer::Retransmit => self.on_retransmit(out),
            Timer::CatchUp => {
                let again_ns = self.config.delays.rtx_max_ns;
                let (next, seating) = (self.next, &self.config.seating);
                self.fetcher
                    .on_timer(next, seating, Timer::CatchUp, again_ns, out);
            }
            Timer::Patience => self.clients.on_patience(out),
        }
    }

    /// Does all that became possible: every input ends here.
    pub(super) fn run_to_fixpoint(&mut self, now: Now, out: &mut Out<Self>) {
        self.clock_ns = now.clock_ns;
        for (from, message) in std::mem::take(&mut self.inbox) {
            self.hear(from, message, out);
        }
        // What reads wait for, lanes have to be filled for.
        self.conclude_reads(out);
        self.go_on(now, out);
        // What was delivered makes room for entries.
        while self.clients.may_form_entry(&self.config.batches) {
            self.go_on(now, out);
        }
        self.ask_about_reads(out);
        self.conclude_reads(out);
        self.speak(out);
        self.rearm_timers(out);
    }

    fn go_on(&mut self, now: Now, out: &mut Out<Self>) {
        self.take_durable(out);
        self.move_on(out);
        self.form_entries(now);
        self.place_entries(out);
        self.vote_for_all(out);
        self.fill_lanes(out);
        // What needed nothing new on the disk counts at once.
        self.take_durable(out);
        self.move_on(out);
    }

    /// Counts, and delivers what is decided by now.
    fn move_on(&mut self, out: &mut Out<Self>) {
        self.follow_ahead(out);
        self.count_all(out);
        self.deliver_all(out);
    }

    fn take_durable(&mut self, out: &mut Out<Self>) {
        while let Some(written) = self.disk.pop_durable() {
            match written {
                Written::Own {
                    lane,
                    ballot,
                    through,
                } => {
                    if let Some(leading) = self.lane_mut(lane).leading_by(ballot) {
                        leading.own = leading.own.max(through);
                    }
                }
                Written::Vote { ballot, stamp } => {
                    if let Some(leading) = self.fast_round_led(ballot) {
                        leading.unwritten.remove(&stamp);
                    }
                }
                Written::Nat { ballot, nat } => {
                    if let Some(leading) = self.fast_round_led(ballot) {
                        leading.nat = leading.nat.max(nat);
                    }
                }
                Written::Candidacy { lane, ballot } => {
                    if let Lead::Preparing(phase) = &mut self.lane_mut(lane).lead
                        && phase.ballot == ballot
                    {
                        phase.is_written = true;
                        self.lead_if_elected(lane, out);
                    }
                }
                Written::Reserve(until) => {
                    self.reserved_durable = self.reserved_durable.max(until);
                }
            }
        }
    }

    /// Stamps up to this one, and some behind it, are written down before they are used.
    pub(super) fn reserve(&mut self, until: Stamp, out: &mut Out<Self>) {
        if until > self.reserved {
            let further = Stamp(until.0.saturating_add(self.config.reserve_ns));
            self.reserved = further.min(Stamp::LAST);
            let lsn = out.persist(Record::Reserve(self.reserved));
            self.disk.push(lsn, Written::Reserve(self.reserved));
        }
    }

    /// Something waits at a position until that is delivered.
    pub(super) fn note_wait(&mut self, at: Stamp) {
        if at > self.walk && (self.waits.len() as u64) < 2 * self.config.slots_max {
            self.waits.entry(at).or_insert(self.now_ns);
        }
    }
}
