//! One cluster in virtual time.

use super::clients::{self, Client};
use super::faults::{Fault, Weather};
use super::history::{self, Op};
use crate::disk::Disk;
use crate::node::Clock;
use crate::queue::Queue;
use crate::simulator::{sample_epoch, seat};
use crate::world::replica;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Application, Boot, ClusterId, Durability, Epoch, Event as Reported, Incarnation, MICROS,
    MILLIS, Peers, SECONDS, Seat,
};
use quorate_host::{
    Answer, Flush, Host, HostConfig, HostEvent, Limits, LogRead, Request, Spoken, Start,
};
use quorate_plain::{Answer as Found, Query, Store};
use quorate_protocols::{AnyConfig, AnyMachine, Registered};
use serde_json::json;
use std::collections::BTreeMap;

/// Clients of a cluster.
const CLIENTS: usize = 8;
/// How long a client does nothing, at most, once it is answered.
const THINK_NS_MAX: u64 = 4 * MILLIS;
/// How long things go wrong.
const HURT_NS: u64 = SECONDS;
/// How long it may take until everybody is answered once nothing goes wrong any more.
const HEAL_NS: u64 = 20 * SECONDS;
/// After this a client asks elsewhere.
const PATIENCE_NS: u64 = 400 * MILLIS;

/// What came of a seed, or of many.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    ops: u64,
    unknown: u64,
    faults: BTreeMap<&'static str, u64>,
    branches: BTreeMap<&'static str, u64>,
}

impl Outcome {
    pub(super) fn add(&mut self, other: &Outcome) {
        self.ops += other.ops;
        self.unknown += other.unknown;
        for (name, count) in &other.faults {
            *self.faults.entry(name).or_default() += count;
        }
        for (name, count) in &other.branches {
            *self.branches.entry(name).or_default() += count;
        }
    }

    pub(super) fn line(&self) -> String {
        let list = |counts: &BTreeMap<&'static str, u64>| {
            let each = counts.iter().map(|(name, count)| format!("{count} {name}"));
            each.collect::<Vec<_>>().join(", ")
        };
        format!(
            "{} operations, {} without an answer\nfaults: {}\nbranches: {}",
            self.ops,
            self.unknown,
            list(&self.faults),
            list(&self.branches)
        )
    }

    pub(super) fn as_json(&self, passed: usize, wrong: usize) -> serde_json::Value {
        json!({
            "passed": passed, "violations": wrong, "ops": self.ops, "unanswered": self.unknown,
            "faults": self.faults, "branches": self.branches,
        })
    }
}

enum Event {
    Frame {
        from: usize,
        to: usize,
        bytes: Bytes,
    },
    Link {
        node: usize,
        peer: usize,
        up: bool,
    },
    Turn {
        node: usize,
        life: u32,
    },
    Flushed {
        node: usize,
        life: u32,
    },
    Read {
        node: usize,
        life: u32,
        read: LogRead,
    },
    Ask(usize),
    Request {
        node: usize,
        token: u64,
        request: Request<Query>,
    },
    Answer {
        token: u64,
        answer: Answer<Found>,
    },
    Impatient {
        client: usize,
        token: u64,
    },
    Strike,
    Heal {
        node: usize,
        fault: Fault,
    },
}

struct Node {
    host: Option<Host<AnyMachine, Store>>,
    disk: Disk,
    clock: Clock,
    started: bool,
    life: u32,
    in_flight: Option<Flush>,
    turn_at_ns: Option<u64>,
    is_paused: bool,
    is_cut: bool,
}

/// A cluster.
pub(super) struct World {
    rng: Rng,
    epoch: Epoch,
    weather: Weather,
    queue: Queue<Event>,
    nodes: Vec<Node>,
    clients: Vec<Client>,
    tokens: u64,
    is_over: bool,
    history: Vec<Op>,
    outcome: Outcome,
}

impl World {
    /// A cluster that is about to begin.
    pub(super) fn new(
        seed: u64,
        protocol: &str,
        replicas: usize,
        params: &BTreeMap<String, String>,
    ) -> Result<World, String> {
        let mut rng = Rng::with_seed(seed);
        let epoch = sample_epoch(protocol, replicas, Durability::Disk, params);
        AnyConfig::of(&seat(&epoch, 0))?;
        let node = |_| Node {
            host: None,
            disk: Disk::new(false),
            clock: Clock {
                offset_ns: 0,
                drift_ppm: 0,
                claimed_error_ns: u64::MAX,
                stopped_ns: None,
                mono_ppm: 0,
            },
            started: false,
            life: 0,
            in_flight: None,
            turn_at_ns: None,
            is_paused: false,
            is_cut: false,
        };
        Ok(World {
            weather: Weather::draw(&mut rng),
            rng,
            epoch,
            queue: Queue::new(),
            nodes: (0..replicas).map(node).collect(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            tokens: 0,
            is_over: false,
            history: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    /// Runs it from start to end, and judges what its clients saw.
    pub(super) fn run(mut self) -> Result<Outcome, String> {
        for node in 0..self.nodes.len() {
            self.open(node)?;
        }
        for client in 0..CLIENTS {
            let delay = self.rng.u64(..5 * MILLIS);
            self.queue.after(delay, Event::Ask(client));
        }
        self.queue.after(50 * MILLIS, Event::Strike);
        self.run_until(HURT_NS, |_| false)?;
        self.heal_all()?;
        let idle = |world: &World| world.clients.iter().all(|client| client.waits.is_none());
        self.run_until(HURT_NS + HEAL_NS, idle)?;
        if !idle(&self) {
            return Err(format!("somebody waits for ever: {}", self.explain()));
        }
        self.read_all()?;
        self.run_until(HURT_NS + 2 * HEAL_NS, |world| {
            idle(world) && world.is_level()
        })?;
        if !(idle(&self) && self.is_level()) {
            return Err(format!("the replicas never are alike: {}", self.explain()));
        }
        history::check(&self.history)?;
        Ok(self.outcome)
    }

    fn run_until(&mut self, end_ns: u64, holds: impl Fn(&World) -> bool) -> Result<(), String> {
        while self.queue.now_ns() < end_ns && !holds(self) {
            let Some(event) = self.queue.next() else {
                return Ok(());
            };
            self.happen(event)?;
        }
        Ok(())
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Frame { from, to, bytes } => self.frame(from, to, bytes),
            Event::Link { node, peer, up } => {
                let now = self.now(node);
                if let Some(host) = &mut self.nodes[node].host {
                    let version = up.then_some(Spoken::SHIPPED.newest);
                    host.link(now, replica(peer), version);
                    self.turn_soon(node);
                }
            }
            Event::Turn { node, life } if self.lives(node, life) => return self.turn(node),
            Event::Flushed { node, life } if self.lives(node, life) => self.flushed(node),
            Event::Read { node, life, read } if self.lives(node, life) => {
                let now = self.now(node);
                let bytes = self.nodes[node].disk.read_at(&read);
                if let Some(host) = &mut self.nodes[node].host {
                    host.read_done(now, read.token, bytes);
                    self.turn_soon(node);
                }
            }
            Event::Turn { .. } | Event::Flushed { .. } | Event::Read { .. } => {}
            Event::Ask(client) => self.ask(client),
            Event::Request {
                node,
                token,
                request,
            } => {
                let now = self.now(node);
                if let Some(host) = &mut self.nodes[node].host {
                    host.submit(now, token, request);
                    self.turn_soon(node);
                }
            }
            Event::Answer { token, answer } => return self.answered(token, &answer),
            Event::Impatient { client, token } => self.impatient(client, token),
            Event::Strike => self.strike(),
            Event::Heal { node, fault } => return self.heal(node, fault),
        }
        Ok(())
    }

    fn lives(&self, node: usize, life: u32) -> bool {
        self.nodes[node].life == life && self.nodes[node].host.is_some()
    }

    fn now(&self, node: usize) -> quorate_core::Now {
        self.nodes[node].clock.now(self.queue.now_ns())
    }

    // Replicas.

    fn open(&mut self, index: usize) -> Result<(), String> {
        let now = self.now(index);
        let seat = Seat {
            boot: Boot(self.rng.u64(..)),
            ..seat(&self.epoch, index)
        };
        let incarnation = Incarnation(index as u128);
        let config = HostConfig {
            cluster: ClusterId(1),
            incarnation,
            known_as: incarnation,
            genesis: self.epoch.clone(),
            catalogue: &Registered,
            machine: AnyConfig::of(&seat)?.touching(Store::touches()),
            seat,
            spoken: Spoken::SHIPPED,
            limits: Limits {
                check_steps: true,
                checkpoint_slots: 64,
                ..Limits::default()
            },
            dice: self.rng.u64(..),
        };
        let node = &mut self.nodes[index];
        let start = match node.started {
            true => Start::Resume,
            false => Start::FirstBoot,
        };
        let opened = Host::open(config, start, &mut &node.disk, Store::new(), now);
        let (host, _) = opened.map_err(|error| format!("replica {}: {error}", index + 1))?;
        node.host = Some(host);
        self.link_all(index, true);
        self.turn_soon(index);
        Ok(())
    }

    /// Connections between a replica and the others come up, or go down.
    fn link_all(&mut self, index: usize, up: bool) {
        for peer in (0..self.nodes.len()).filter(|peer| *peer != index) {
            for (node, peer) in [(index, peer), (peer, index)] {
                let delay = self.rng.u64(..MILLIS);
                self.queue.after(delay, Event::Link { node, peer, up });
            }
        }
    }

    fn turn_soon(&mut self, index: usize) {
        let delay = self.rng.u64(5 * MICROS..60 * MICROS);
        self.turn_after(index, delay);
    }

    fn turn_after(&mut self, index: usize, delay_ns: u64) {
        let at_ns = self.queue.now_ns() + delay_ns;
        let node = &mut self.nodes[index];
        if node.host.is_some() && node.turn_at_ns.is_none_or(|due| due > at_ns) {
            node.turn_at_ns = Some(at_ns);
            let life = node.life;
            self.queue
                .after(delay_ns, Event::Turn { node: index, life });
        }
    }

    fn turn(&mut self, index: usize) -> Result<(), String> {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        node.turn_at_ns = None;
        if node.is_paused {
            return Ok(());
        }
        let Some(host) = &mut node.host else {
            return Ok(());
        };
        host.turn(now);
        loop {
            let node = &mut self.nodes[index];
            let Some(host) = &mut node.host else { break };
            let flush = match node.in_flight {
                None => host.take_flush(now),
                Some(_) => None,
            };
            node.started |= flush.is_none() && node.in_flight.is_none();
            let frames = match node.started {
                true => host.take_frames(),
                false => Vec::new(),
            };
            let (answers, reads) = (host.take_answers(), host.take_reads());
            let events = host.take_events();
            let is_done = flush.is_none() && frames.is_empty() && answers.is_empty();
            if is_done && reads.is_empty() && events.is_empty() {
                break;
            }
            self.note(index, events)?;
            for frame in frames {
                self.send(index, frame.to, frame.chunks.concat().into());
            }
            for (token, answer) in answers {
                let delay = self.rng.u64(10 * MICROS..200 * MICROS);
                self.queue.after(delay, Event::Answer { token, answer });
            }
            let life = self.nodes[index].life;
            for read in reads {
                let delay = self.rng.u64(20 * MICROS..200 * MICROS);
                let node = index;
                self.queue.after(delay, Event::Read { node, life, read });
            }
            if let Some(flush) = flush {
                self.write(index, flush);
            }
        }
        let host = self.nodes[index].host.as_ref();
        if let Some(due) = host.and_then(Host::next_wake) {
            // Time must pass between turns, or a timer that is always due would stop it.
            let now_ns = self.queue.now_ns();
            let at_ns = self.nodes[index].clock.time_of(due).max(now_ns + 1);
            self.turn_after(index, at_ns - now_ns);
        }
        Ok(())
    }

    fn note(&mut self, index: usize, events: Vec<HostEvent>) -> Result<(), String> {
        for event in events {
            match event {
                HostEvent::Machine(Reported::Branch(name)) => {
                    *self.outcome.branches.entry(name).or_default() += 1;
                }
                HostEvent::Machine(Reported::Misbehaved { peer, what }) => {
                    return Err(format!("replica {}: {peer} misbehaved: {what}", index + 1));
                }
                HostEvent::Diverged { .. } | HostEvent::BadFrame { .. } => {
                    return Err(format!("replica {}: {event:?}", index + 1));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn send(&mut self, from: usize, to: Peers, bytes: Bytes) {
        for to in (0..self.nodes.len()).filter(|peer| *peer != from && meant(to, *peer)) {
            let copies = match self.rng.u32(..1000) {
                drawn if drawn < self.weather.lost => 0,
                drawn if drawn < self.weather.lost + self.weather.repeated => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let delay = 50 * MICROS + self.rng.u64(..self.weather.jitter_ns);
                let bytes = bytes.clone();
                self.queue.after(delay, Event::Frame { from, to, bytes });
            }
        }
    }

    fn frame(&mut self, from: usize, to: usize, bytes: Bytes) {
        if self.nodes[from].is_cut || self.nodes[to].is_cut {
            return;
        }
        let now = self.now(to);
        if let Some(host) = &mut self.nodes[to].host {
            host.frame(now, replica(from), bytes);
            self.turn_soon(to);
        }
    }

    fn write(&mut self, index: usize, flush: Flush) {
        let delay = match flush.sync {
            true => self.rng.u64(20 * MICROS..self.weather.sync_ns_max),
            false => 0,
        };
        let node = &mut self.nodes[index];
        node.disk.write(&flush);
        node.in_flight = Some(flush);
        let life = node.life;
        self.queue
            .after(delay, Event::Flushed { node: index, life });
    }

    fn flushed(&mut self, index: usize) {
        let now = self.now(index);
        let node = &mut self.nodes[index];
        let (Some(flush), Some(host)) = (node.in_flight.take(), &mut node.host) else {
            return;
        };
        if flush.sync {
            node.disk.sync(&flush);
        }
        node.started = true;
        host.flushed(now, flush.through);
        self.turn_soon(index);
    }

    // Clients.

    fn ask(&mut self, client: usize) {
        if self.is_over {
            return;
        }
        let (now_ns, value) = (self.queue.now_ns(), self.tokens);
        let (asked, request) = self.clients[client].ask(&mut self.rng, now_ns, value);
        self.send_request(client, asked, request, None);
    }

    fn send_request(
        &mut self,
        client: usize,
        asked: clients::Asked,
        request: Request<Query>,
        node: Option<usize>,
    ) {
        self.tokens += 1;
        let token = self.tokens;
        self.clients[client].waits = Some((token, asked));
        let node = node.unwrap_or_else(|| self.rng.usize(..self.nodes.len()));
        let delay = self.rng.u64(10 * MICROS..200 * MICROS);
        let request = Event::Request {
            node,
            token,
            request,
        };
        self.queue.after(delay, request);
        if !self.is_over {
            self.queue
                .after(PATIENCE_NS, Event::Impatient { client, token });
        }
    }

    fn answered(&mut self, token: u64, answer: &Answer<Found>) -> Result<(), String> {
        let now_ns = self.queue.now_ns();
        let is_its = |client: &Client| client.waits.as_ref().is_some_and(|(its, _)| *its == token);
        let Some(index) = self.clients.iter().position(is_its) else {
            return Ok(());
        };
        let client = &mut self.clients[index];
        if let Some((_, asked)) = client.waits.take() {
            let (op, read) = asked.answered(answer, now_ns)?;
            client.read = read;
            self.outcome.ops += 1;
            self.history.extend(op);
        }
        let delay = self.rng.u64(..THINK_NS_MAX);
        self.queue.after(delay, Event::Ask(index));
        Ok(())
    }

    fn impatient(&mut self, client: usize, token: u64) {
        let waits = &mut self.clients[client].waits;
        if let Some((_, asked)) = waits.take_if(|(its, _)| *its == token) {
            self.outcome.unknown += 1;
            self.history.extend(asked.unanswered());
            self.queue.after(0, Event::Ask(client));
        }
    }

    // Faults, and their end.

    fn strike(&mut self) {
        if self.is_over {
            return;
        }
        let node = self.rng.usize(..self.nodes.len());
        if let Some((fault, lasts_ns)) = self.weather.fault(&mut self.rng) {
            self.hurt(node, fault);
            self.queue.after(lasts_ns, Event::Heal { node, fault });
        }
        let delay = self.rng.u64(10 * MILLIS..100 * MILLIS);
        self.queue.after(delay, Event::Strike);
    }

    fn hurt(&mut self, index: usize, fault: Fault) {
        let node = &mut self.nodes[index];
        let name = match fault {
            Fault::Crash if node.host.is_some() => {
                node.host = None;
                node.disk.crash(&mut self.rng);
                node.life += 1;
                node.in_flight = None;
                node.turn_at_ns = None;
                self.link_all(index, false);
                "crash"
            }
            Fault::Crash => return,
            Fault::Pause => {
                node.is_paused = true;
                "pause"
            }
            Fault::Cut => {
                node.is_cut = true;
                "cut"
            }
            Fault::Clock(off_ns) => {
                node.clock.offset_ns = off_ns;
                "clock"
            }
        };
        *self.outcome.faults.entry(name).or_default() += 1;
    }

    fn heal(&mut self, index: usize, fault: Fault) -> Result<(), String> {
        let node = &mut self.nodes[index];
        match fault {
            Fault::Crash if node.host.is_none() => return self.open(index),
            Fault::Crash => {}
            Fault::Pause => node.is_paused = false,
            Fault::Cut => node.is_cut = false,
            Fault::Clock(_) => node.clock.offset_ns = 0,
        }
        self.turn_soon(index);
        Ok(())
    }

    fn heal_all(&mut self) -> Result<(), String> {
        self.is_over = true;
        self.weather = self.weather.calm();
        for index in 0..self.nodes.len() {
            for fault in [Fault::Pause, Fault::Cut, Fault::Clock(0), Fault::Crash] {
                self.heal(index, fault)?;
            }
        }
        // What was asked of a replica that crashed since is answered by nobody.
        for client in 0..CLIENTS {
            if let Some((token, _)) = &self.clients[client].waits {
                let token = *token;
                self.queue
                    .after(PATIENCE_NS, Event::Impatient { client, token });
            }
        }
        Ok(())
    }

    /// Reads every key through every replica.
    fn read_all(&mut self) -> Result<(), String> {
        for node in 0..self.nodes.len().min(CLIENTS) {
            let (asked, request) = clients::read(clients::keys(), self.queue.now_ns());
            self.send_request(node, asked, request, Some(node));
        }
        Ok(())
    }

    /// Whether all have applied the same.
    fn is_level(&self) -> bool {
        let digest = |node: &Node| node.host.as_ref().map(Host::digest);
        let first = digest(&self.nodes[0]);
        self.nodes.iter().all(|node| digest(node) == first)
    }

    fn explain(&self) -> String {
        let (hosts, now_ns) = (self.nodes.iter(), self.queue.now_ns());
        let hosts = hosts.filter_map(|node| node.host.as_ref());
        let words: Vec<String> = hosts.map(|host| host.explain(now_ns)).collect();
        words.join("\n")
    }
}

fn meant(to: Peers, index: usize) -> bool {
    match to {
        Peers::All => true,
        Peers::One(id) => id == replica(index),
    }
}
