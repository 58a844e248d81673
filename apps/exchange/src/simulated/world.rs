//! The machines of an exchange, and what happens to them.

use super::audit::{Audit, Entry, name, rules};
use super::network::{Timeline, exponential, ways};
use super::participants::{Name, Participants};
use super::{Scenario, Seen};
use crate::book::ParticipantId;
use crate::exchange::{Command, Exchange, GatewayId, Outcome, Request, SymbolId};
use crate::fair::{
    ClockProbe, ClockWatch, DelayBounds, DelayControl, Gateway, GatewayLimits, InboundMeter, Now,
    OutboundMeter, ReleaseHold, Sequencer, SequencerOptions, StampedRequest,
};
use crate::feed::{Packet, Publisher};
use fastrand::Rng;
use quorate::StateMachine;
use std::collections::{BTreeMap, VecDeque};

/// The time of all clocks that are right at the beginning, in ns since the Unix epoch.
const EPOCH_NS: u64 = 1_700_000_000_000_000_000;
/// The way between a participant and its gateway, in ns.
const NEAR_NS: u64 = 2_000;
/// When a participant without an answer tries the next gateway, in ns.
const RETRY_NS: u64 = 8_000_000;
/// When a gateway without an answer sends again, in ns.
const RESEND_NS: u64 = 3_000_000;
/// The time between two heartbeats of a leader, in ns.
pub(super) const HEARTBEAT_NS: u64 = 1_000_000;
/// When a gateway without what it missed asks again, in ns.
pub(super) const FETCH_NS: u64 = 2_000_000;
/// The longest that a gateway holds market data, in ns.
const HOLD_MAX_NS: u64 = 10_000_000;
/// How many requests wait at a gateway for their answers.
const PENDING_MAX: GatewayLimits = GatewayLimits {
    all: 4096,
    each: 1024,
};
/// The time after the last fault in which everything has to be answered and shown, in ns.
const PATIENCE_NS: u64 = 500_000_000;
/// The shortest delay that a leader chooses, in ns.
const DELAY_LEAST_NS: u64 = 10_000;
/// The longest delay that a leader chooses, in ns.
const DELAY_MOST_NS: u64 = 1_000_000;
/// How much longer a leader's delay is after a late request, in ns.
const DELAY_STEP_NS: u32 = 2_000;
/// How many replicas there are.
const REPLICAS: usize = 3;

#[derive(Debug)]
pub(super) enum Event {
    Submit,
    Retry(Name),
    AtGateway(usize, Request),
    AtLeader(GatewayId, StampedRequest),
    SequencerWake(u64),
    Commit(u64),
    Apply(usize),
    Answer(usize, Request, Outcome),
    AtParticipant(Request, Outcome),
    GatewayWake(usize, u64),
    AtHold(usize, u64, Packet),
    Fetch(usize, u64, SymbolId, u64),
    Forgotten(usize, u64, SymbolId, u64),
    FetchTimeout(usize, u64),
    Heartbeat,
    Probed(u64, usize, ClockProbe),
    Fault,
    Elected,
    ReplicaUp(usize),
    GatewayUp(usize),
    FaultsEnd,
}

/// A gateway's process, and what participants saw there.
#[derive(Debug)]
pub(super) struct GatewayMachine {
    pub(super) gateway: Gateway,
    pub(super) hold: ReleaseHold,
    /// How often it was started.
    pub(super) boot: u64,
    pub(super) offset_ns: i64,
    pub(super) is_up: bool,
    pub(super) wake_ns: Option<u64>,
    pub(super) is_fetching: bool,
    /// The last message of each symbol that participants saw.
    pub(super) shown: BTreeMap<SymbolId, u64>,
}

impl GatewayMachine {
    pub(super) fn new(id: usize, boot: u64, offset_ns: i64) -> GatewayMachine {
        GatewayMachine {
            gateway: Gateway::new(GatewayId(id as u16), RESEND_NS, PENDING_MAX),
            hold: ReleaseHold::new(HOLD_MAX_NS),
            boot,
            offset_ns,
            is_up: true,
            wake_ns: None,
            is_fetching: false,
            shown: BTreeMap::new(),
        }
    }
}

/// A replica's process.
#[derive(Debug)]
pub(super) struct ReplicaMachine {
    pub(super) exchange: Exchange,
    /// How many entries of the log it has applied.
    pub(super) applied: usize,
    pub(super) publisher: Publisher,
    pub(super) is_up: bool,
    pub(super) offset_ns: i64,
}

pub(super) struct World {
    pub(super) scenario: Scenario,
    pub(super) rng: Rng,
    pub(super) line: Timeline<Event>,
    pub(super) audit: Audit,
    participants: Participants,
    pub(super) gateways: Vec<GatewayMachine>,
    pub(super) replicas: Vec<ReplicaMachine>,
    pub(super) leader: Option<usize>,
    /// The number of the leader, from 1.
    pub(super) term: u64,
    pub(super) sequencer: Sequencer,
    /// What chooses the sequencer's delay.
    pub(super) delay: Option<DelayControl>,
    pub(super) watches: Vec<ClockWatch>,
    /// What the leader has executed, and nobody has agreed on.
    pub(super) tail: VecDeque<Entry>,
    /// The leader's state with that.
    pub(super) ahead: Exchange,
    /// When the sequencer is next looked at.
    pub(super) wake_ns: Option<u64>,
    pub(super) faults_last: bool,
    faults_end_ns: u64,
    pub(super) engine_free_ns: u64,
    pub(super) committed_ns: u64,
    pub(super) log_time_ns: u64,
    /// When a gateway first received each request, in true time, and which it was.
    pub(super) received: BTreeMap<Name, (u64, usize)>,
    pub(super) by_receipt: InboundMeter,
    pub(super) by_stamp: InboundMeter,
    pub(super) outbound: OutboundMeter,
    pub(super) seen: Seen,
}

impl World {
    pub(super) fn new(scenario: Scenario, seed: u64) -> World {
        let mut rng = Rng::with_seed(seed);
        let gateways = usize::from(scenario.gateways.max(1));
        let mut offset = || rng.i64(-10_000..10_000);
        let machines = (0..gateways).map(|id| {
            let wrong = if id == 0 { scenario.clock_error_ns } else { 0 };
            GatewayMachine::new(id, 1, offset() + wrong)
        });
        let machines = machines.collect();
        let replicas = (0..REPLICAS).map(|_| ReplicaMachine {
            exchange: Exchange::default(),
            applied: 0,
            publisher: Publisher::new(scenario.hold_ns),
            is_up: true,
            offset_ns: offset(),
        });
        let replicas = replicas.collect();
        let faults_end_ns = match scenario.has_faults {
            true => scenario.requests * scenario.between_ns,
            false => 0,
        };
        World {
            scenario,
            rng,
            line: Timeline::new(),
            audit: Audit::default(),
            participants: Participants::default(),
            gateways: machines,
            replicas,
            leader: Some(0),
            term: 1,
            sequencer: sequencer(&scenario),
            delay: delay(&scenario),
            watches: new_watches(gateways),
            tail: VecDeque::new(),
            ahead: Exchange::default(),
            wake_ns: None,
            faults_last: scenario.has_faults,
            faults_end_ns,
            engine_free_ns: 0,
            committed_ns: 0,
            log_time_ns: EPOCH_NS,
            received: BTreeMap::new(),
            by_receipt: InboundMeter::default(),
            by_stamp: InboundMeter::default(),
            outbound: OutboundMeter::new(gateways),
            seen: Seen::default(),
        }
    }

    pub(super) fn run(mut self) -> Result<Seen, String> {
        self.set_up()?;
        self.line.after(0, Event::Submit);
        self.line.after(0, Event::Heartbeat);
        if self.scenario.has_faults {
            self.line.after(self.scenario.between_ns, Event::Fault);
            self.line.at(self.faults_end_ns, Event::FaultsEnd);
        }
        while let Some(event) = self.line.next() {
            if matches!(event, Event::Heartbeat) && self.is_done()? {
                break;
            }
            self.handle(event)?;
        }
        self.finish()
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Submit => self.submit(),
            Event::Retry(name) => self.retry(name),
            Event::AtGateway(at, request) => self.at_gateway(at, request),
            Event::AtLeader(link, stamped) => self.at_leader(link, stamped),
            Event::SequencerWake(term) => self.release(term)?,
            Event::Commit(term) if term == self.term => self.commit_next()?,
            Event::Commit(_) => {}
            Event::Apply(replica) => self.apply(replica)?,
            Event::Answer(at, request, outcome) => {
                let machine = &mut self.gateways[at];
                if machine.is_up {
                    let (symbol, participant, number) =
                        (request.symbol, request.participant, request.number);
                    machine.gateway.handle_answer(symbol, participant, number);
                    let event = Event::AtParticipant(request, outcome);
                    self.line.after(NEAR_NS, event);
                }
            }
            Event::AtParticipant(request, outcome) => self.answered(&request, &outcome)?,
            Event::GatewayWake(at, boot) => self.wake_gateway(at, boot)?,
            Event::AtHold(at, boot, packet) => self.at_hold(at, boot, &packet)?,
            Event::Fetch(at, boot, symbol, from) => self.serve_fetch(at, boot, symbol, from),
            Event::Forgotten(at, boot, symbol, latest) => {
                if self.is_boot(at, boot) {
                    self.gateways[at].hold.handle_forgotten(symbol, latest);
                    self.gateways[at].shown.insert(symbol, latest);
                    self.arm_gateway(at);
                }
            }
            Event::FetchTimeout(at, boot) => {
                if self.is_boot(at, boot) {
                    self.gateways[at].is_fetching = false;
                    self.fetch(at);
                }
            }
            Event::Heartbeat => self.heartbeat(),
            Event::Probed(term, at, probe) => {
                if term == self.term && self.leader.is_some() && self.scenario.watches_clocks {
                    self.watches[at].handle_probe(probe);
                    let is_wrong = self.watches[at].is_wrong();
                    let gateway = GatewayId(at as u16);
                    self.sequencer.set_quarantined(gateway, is_wrong);
                }
            }
            Event::Fault => self.fault(),
            Event::Elected => self.elected()?,
            Event::ReplicaUp(replica) => self.replica_up(replica)?,
            Event::GatewayUp(at) => self.gateway_up(at),
            Event::FaultsEnd => self.end_faults(),
        }
        Ok(())
    }

    /// Symbols and participants are in the log before anything else.
    fn set_up(&mut self) -> Result<(), String> {
        let rules = rules();
        let symbols = (0..self.scenario.symbols.max(1)).map(SymbolId);
        let symbols = symbols.map(|symbol| Command::AddSymbol { symbol, rules });
        let participants = (0..self.scenario.participants.max(1)).map(ParticipantId);
        let admitted = participants.map(|participant| Command::SetParticipant {
            participant,
            cancels_on_disconnect: false,
        });
        let commands: Vec<Command> = symbols.chain(admitted).collect();
        for command in commands {
            self.execute(command);
            self.commit_next()?;
        }
        Ok(())
    }

    pub(super) fn now_of(&self, offset_ns: i64) -> Now {
        let true_ns = EPOCH_NS + self.line.now_ns;
        Now {
            clock_ns: true_ns.saturating_add_signed(offset_ns),
            steady_ns: self.line.now_ns,
        }
    }

    pub(super) fn gateway_now(&self, at: usize) -> Now {
        self.now_of(self.gateways[at].offset_ns)
    }

    pub(super) fn is_boot(&self, at: usize, boot: u64) -> bool {
        self.gateways[at].is_up && self.gateways[at].boot == boot
    }

    pub(super) fn ways(&mut self) -> Vec<u64> {
        ways(&mut self.rng, &self.scenario, self.faults_last)
    }

    fn submit(&mut self) {
        let now_ns = self.line.now_ns;
        let drawn = self
            .participants
            .draw(&mut self.rng, &self.scenario, now_ns);
        if let Some(request) = drawn {
            let home = usize::from(request.participant.0) % self.gateways.len();
            self.line.after(NEAR_NS, Event::AtGateway(home, request));
            self.line.after(RETRY_NS, Event::Retry(name(&request)));
        }
        if self.participants.sent < self.scenario.requests {
            let pause = exponential(&mut self.rng, self.scenario.between_ns);
            self.line.after(pause, Event::Submit);
        }
    }

    /// Tries the next gateway where there is no answer.
    fn retry(&mut self, name: Name) {
        let Some(waiting) = self.participants.waiting.get_mut(&name) else {
            return;
        };
        waiting.attempts += 1;
        let at = usize::from(waiting.request.participant.0 + waiting.attempts);
        let at = at % self.gateways.len();
        let event = Event::AtGateway(at, waiting.request);
        self.line.after(NEAR_NS, event);
        self.line.after(RETRY_NS, Event::Retry(name));
    }

    fn answered(&mut self, request: &Request, outcome: &Outcome) -> Result<(), String> {
        if let Some(waiting) = self.participants.waiting.remove(&name(request)) {
            self.audit.check_answer(request, outcome)?;
            let latency_ns = self.line.now_ns - waiting.sent_ns;
            self.seen.latency.record(latency_ns);
            self.seen.time_ns = self.line.now_ns;
        }
        Ok(())
    }

    /// Whether everything is answered and shown.
    fn is_done(&self) -> Result<bool, String> {
        let is_shown = self.gateways.iter().all(|machine| {
            let feed = self.audit.feed.iter();
            feed.into_iter().all(|(symbol, messages)| {
                machine.shown.get(symbol).copied().unwrap_or_default() == messages.len() as u64
            })
        });
        let is_asked = self.participants.sent >= self.scenario.requests;
        let is_answered = self.participants.waiting.is_empty();
        let is_quiet = self.line.now_ns >= self.faults_end_ns;
        if is_asked && is_answered && is_quiet && is_shown && self.tail.is_empty() {
            return Ok(true);
        }
        let asked_ns = self.scenario.requests * self.scenario.between_ns;
        let patience_ns = PATIENCE_NS.max(asked_ns);
        match self.line.now_ns > self.faults_end_ns + asked_ns + patience_ns {
            true => Err(format!(
                "no progress: asked {is_asked}, answered {is_answered}, shown {is_shown}"
            )),
            false => Ok(false),
        }
    }

    fn finish(mut self) -> Result<Seen, String> {
        for replica in 0..self.replicas.len() {
            if !self.replicas[replica].is_up {
                self.replica_up(replica)?;
            }
            self.catch_up(replica)?;
        }
        self.audit.check_state(&self.replicas[0].exchange)?;
        let saved: Vec<Vec<u8>> = self.replicas.iter().map(|r| r.exchange.save()).collect();
        if saved.iter().any(|one| *one != saved[0]) {
            return Err("replicas hold different states".to_owned());
        }
        let mut seen = self.seen;
        (seen.repeated, seen.trades) = (self.audit.repeated, self.audit.trades);
        seen.sequencer.add(&self.sequencer.stats());
        seen.order_delay_ns = match &self.delay {
            Some(delay) => delay.delay_ns(),
            None => self.scenario.order_delay_ns,
        };
        seen.inbound = self.by_receipt.counted();
        seen.inbound_by_stamp = self.by_stamp.counted();
        seen.inbound_by_stamp_of_first = self.by_stamp.of_gateway(GatewayId(0));
        seen.outbound = self.outbound.counted().clone();
        Ok(seen)
    }
}

/// A leader's sequencer, which begins with nothing.
pub(super) fn sequencer(scenario: &Scenario) -> Sequencer {
    Sequencer::new(SequencerOptions {
        delay_ns: scenario.order_delay_ns,
        ..SequencerOptions::default()
    })
}

/// What chooses a leader's delay, if the scenario says for what.
pub(super) fn delay(scenario: &Scenario) -> Option<DelayControl> {
    let late_per_million = scenario.late_per_million?;
    let bounds = DelayBounds {
        least_ns: DELAY_LEAST_NS,
        most_ns: DELAY_MOST_NS,
        late_per_million,
        step_ns: DELAY_STEP_NS,
    };
    Some(DelayControl::new(scenario.order_delay_ns, bounds))
}

pub(super) fn new_watches(gateways: usize) -> Vec<ClockWatch> {
    (0..gateways).map(|_| ClockWatch::default()).collect()
}
