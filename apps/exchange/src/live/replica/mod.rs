//! A replica as a process: a node of the library, and links to gateways.
//!
//! All replicas keep up with what is published. The one that leads holds requests until their time, puts them into the
//! log, answers them and publishes; gateways fetch from any.

mod engine;
mod links;
mod log;
mod publishing;
mod submitted;

use super::clock;
use super::connection::Outbox;
use super::timer::Timer;
use crate::exchange::{Answer, Exchange, Reply, SymbolId};
use crate::fair::{
    DelayBounds, DelayControl, InboundMeter, Sequencer, SequencerOptions, SequencerStats,
    StampedRequest,
};
use crate::feed::Publisher;
use crate::link::ToReplica;
use engine::Engine;
use links::Links;
use quorate::{Durability, Effect, Error, Node, Protocol};
use std::collections::BTreeMap;
use std::error::Error as AnyError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use submitted::Submitted;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The time between two questions for the leader, and between two heartbeats.
const TICK: Duration = Duration::from_millis(10);
/// The shortest delay that a leader chooses, in ns.
const DELAY_LEAST_NS: u64 = 20_000;
/// The longest delay that a leader chooses, in ns.
const DELAY_MOST_NS: u64 = 20_000_000;
/// How much longer a leader's delay is after a late request, in ns.
const DELAY_STEP_NS: u32 = 20_000;
/// How many events wait for the replica.
const EVENTS_MAX: usize = 8192;

/// How a replica is set up.
#[derive(Clone, Debug)]
pub struct ReplicaOptions {
    /// The replica's id, from 1.
    pub id: u16,
    /// The addresses of all replicas for each other, by id.
    pub members: Vec<(u16, String)>,
    /// The address for gateways.
    pub gateways: String,
    /// The folder of the replica's data.
    pub folder: PathBuf,
    /// The protocol of a new exchange.
    pub protocol: Protocol,
    /// What survives a crash.
    pub durability: Durability,
    /// The time from a stamp to its release to the log, in ns.
    pub order_delay_ns: u64,
    /// How many of a million requests may come late: the leader chooses its delay by that.
    pub late_per_million: Option<u32>,
    /// How many orders the engine takes in a second at most; 0 is as many as it can.
    pub engine_rate: u64,
    /// The time for which gateways hold market data, in ns.
    pub hold_ns: u64,
    /// How many symbols a new exchange has.
    pub symbols: u16,
    /// How many participants a new exchange has.
    pub participants: u16,
    /// Whether the orders of these participants are cancelled when a connection of theirs is lost.
    pub cancels_on_disconnect: bool,
}

/// What a replica hears of.
#[derive(Debug)]
enum Event {
    Linked(u64, Outbox),
    Heard(u64, ToReplica),
    Unlinked(u64),
    /// What a request came to.
    Submitted(StampedRequest, Result<Reply, Error>),
    /// Whether this replica is to lead.
    Leads(bool),
    /// How far symbols are in the state here, where effects were missed.
    Latest(Vec<(SymbolId, u64)>),
    /// Events that the publisher missed.
    Fetched(SymbolId, Answer),
}

/// Runs a replica until its node ends.
///
/// # Errors
/// Why it does not start, or has ended.
pub async fn run(options: ReplicaOptions) -> Result<(), Box<dyn AnyError>> {
    let listener = TcpListener::bind(&options.gateways)
        .await
        .map_err(|error| format!("gateways cannot reach {}: {error}", options.gateways))?;
    let node = Node::<Exchange>::builder("exchange", options.id)
        .members(options.members.clone())
        .folder(&options.folder)
        .protocol(options.protocol)
        .durability(options.durability)
        .start()
        .await?;
    let node = Arc::new(node);
    let (events, heard) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(links::accept(listener, events.clone()));
    tokio::spawn(log::watch_leader(
        Arc::clone(&node),
        options.id,
        events.clone(),
    ));
    Replica::new(options, node, events)?.run(heard).await
}

struct Replica {
    options: ReplicaOptions,
    node: Arc<Node<Exchange>>,
    events: mpsc::Sender<Event>,
    links: Links,
    leads: bool,
    sequencer: Sequencer,
    /// What chooses the sequencer's delay.
    delay: Option<DelayControl>,
    /// What sequencers before this one have counted.
    sequenced: SequencerStats,
    publisher: Publisher,
    inbound: InboundMeter,
    submitted: Submitted,
    engine: Engine,
    /// What sets a new exchange up while this replica leads.
    setting_up: Option<JoinHandle<()>>,
    /// What gateways were last told of each symbol.
    told: BTreeMap<SymbolId, u64>,
    is_fetching: bool,
    timer: Timer,
    /// When the timer goes off, by the steady clock.
    armed_ns: Option<u64>,
    ticks: u64,
}

impl Replica {
    fn new(
        options: ReplicaOptions,
        node: Arc<Node<Exchange>>,
        events: mpsc::Sender<Event>,
    ) -> Result<Replica, Box<dyn AnyError>> {
        Ok(Replica {
            sequencer: sequencer(&options),
            delay: delay(&options),
            publisher: Publisher::new(options.hold_ns),
            engine: Engine::of_rate(options.engine_rate),
            options,
            node,
            events,
            links: Links::default(),
            leads: false,
            sequenced: SequencerStats::default(),
            inbound: InboundMeter::default(),
            submitted: Submitted::default(),
            setting_up: None,
            told: BTreeMap::new(),
            is_fetching: false,
            timer: Timer::new()?,
            armed_ns: None,
            ticks: 0,
        })
    }

    async fn run(mut self, mut heard: mpsc::Receiver<Event>) -> Result<(), Box<dyn AnyError>> {
        let mut effects = self.node.watch_effects();
        let mut tick = tokio::time::interval(TICK);
        self.look_for_latest();
        loop {
            tokio::select! {
                effect = effects.next() => match effect? {
                    Some(Effect::Applied(_, reply)) => self.handle_applied(&reply),
                    Some(Effect::Missed) => self.look_for_latest(),
                    None => return Err("the node has ended".into()),
                },
                Some(event) = heard.recv() => self.handle(event),
                fired = self.timer.wait() => {
                    fired?;
                    self.armed_ns = None;
                }
                _ = tick.tick() => self.tick(),
            }
            self.release()?;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Linked(link, outbox) => {
                self.links.begin(link, outbox);
                self.greet(link);
            }
            Event::Heard(link, message) => self.hear(link, message),
            Event::Unlinked(link) => self.links.end(link),
            Event::Submitted(stamped, reply) => self.submitted(&stamped, reply),
            Event::Leads(leads) => self.lead(leads),
            Event::Latest(latest) => {
                for (symbol, sequence) in latest {
                    self.publisher.handle_latest(symbol, sequence);
                }
                self.fetch();
            }
            Event::Fetched(symbol, answer) => self.fetched(symbol, &answer),
        }
    }

    fn hear(&mut self, link: u64, message: ToReplica) {
        let now = clock::now();
        match message {
            ToReplica::Hello(gateway) => self.links.name(link, gateway),
            ToReplica::Order(stamped) => {
                if let Some(gateway) = self.links.gateway(link).filter(|_| self.leads)
                    && !self.submitted.holds(&stamped.request)
                {
                    let arrival = self.sequencer.handle_request(now, gateway, stamped);
                    if let Some(delay) = &mut self.delay
                        && let Some(is_late) = arrival.is_late()
                    {
                        self.sequencer.set_delay(delay.handle_arrival(is_late));
                    }
                }
            }
            ToReplica::Clock {
                asked_ns,
                received_ns,
                answered_ns,
            } => {
                let judged = self
                    .links
                    .judge_clock(link, asked_ns, received_ns, answered_ns);
                if let Some((gateway, is_wrong)) = judged {
                    self.sequencer.set_quarantined(gateway, is_wrong);
                }
            }
            ToReplica::Own(symbol, participant) => {
                if let Some(served) = self.links.serve(link) {
                    let node = Arc::clone(&self.node);
                    tokio::spawn(publishing::serve_own(node, served, symbol, participant));
                }
            }
            ToReplica::Lost(participant) => {
                if let Some(served) = self.links.serve(link).filter(|_| self.leads) {
                    let node = Arc::clone(&self.node);
                    tokio::spawn(log::cancel_lost(node, served, participant));
                }
            }
            ToReplica::Fetch { symbol, from } => {
                if let Some(served) = self.links.serve(link) {
                    let node = Arc::clone(&self.node);
                    tokio::spawn(publishing::serve(node, served, symbol, from));
                }
            }
        }
    }
}

/// What chooses a leader's delay, if it is told for what.
fn delay(options: &ReplicaOptions) -> Option<DelayControl> {
    let bounds = DelayBounds {
        least_ns: DELAY_LEAST_NS,
        most_ns: DELAY_MOST_NS,
        late_per_million: options.late_per_million?,
        step_ns: DELAY_STEP_NS,
    };
    Some(DelayControl::new(options.order_delay_ns, bounds))
}

fn sequencer(options: &ReplicaOptions) -> Sequencer {
    Sequencer::new(SequencerOptions {
        delay_ns: options.order_delay_ns,
        ..SequencerOptions::default()
    })
}
