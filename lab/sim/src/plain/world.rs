//! One cluster in virtual time.

use super::clients::{self, Client, Learned, Question};
use super::cores::Cores;
use super::faults::{Fault, Strike, Weather};
use super::history::{self, Op};
use super::offers::Offers;
use super::outcome::Outcome;
use super::remote_gateways::RemoteGateway;
use crate::disk::Disk;
use crate::node::Clock;
use crate::queue::Queue;
use crate::simulator::{sample_epoch, seat};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Durability, Epoch, MILLIS, SECONDS};
use quorate_host::{Answer, Completed, Flaw, Flush, Host, LogRead, Request, SupportedVersions};
use quorate_plain_store::{Query, QueryAnswer, Store};
use quorate_protocols::{AnyConfig, AnyMachine};
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

pub(super) enum Event {
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
        answer: Answer<QueryAnswer>,
    },
    Impatient {
        client: usize,
        token: u64,
    },
    /// A write comes, of those that do not wait for each other.
    Offer,
    Strike,
    Heal {
        node: usize,
        fault: Fault,
    },
}

pub(super) struct Node {
    pub(super) host: Option<Host<AnyMachine, Store>>,
    pub(super) disk: Disk,
    pub(super) clock: Clock,
    pub(super) started: bool,
    pub(super) life: u32,
    pub(super) in_flight: Option<Flush>,
    pub(super) turn_at_ns: Option<u64>,
    pub(super) is_paused: bool,
    pub(super) is_cut: bool,
}

/// A cluster in virtual time, with its clients.
pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) epoch: Epoch,
    pub(super) weather: Weather,
    pub(super) queue: Queue<Event>,
    pub(super) nodes: Vec<Node>,
    /// Remote gateways, those that were killed included.
    pub(super) gateways: Vec<RemoteGateway>,
    pub(super) clients: Vec<Client>,
    /// Writes that come whether those before are answered or not, in the place of clients.
    pub(super) offers: Option<Offers>,
    /// What cores are busy with, where that counts.
    pub(super) cores: Option<Cores>,
    /// Who decided last by its own count: the leader, where only a leader decides.
    pub(super) decider: Option<usize>,
    pub(super) tokens: u64,
    pub(super) is_over: bool,
    pub(super) flaw: Option<Flaw>,
    pub(super) history: Vec<Op>,
    pub(super) outcome: Outcome,
}

impl World {
    /// A cluster that is about to begin.
    pub(super) fn new(
        seed: u64,
        protocol: &str,
        replicas: usize,
        durability: Durability,
        params: &BTreeMap<String, String>,
    ) -> Result<World, String> {
        let mut rng = Rng::with_seed(seed);
        let epoch = sample_epoch(protocol, replicas, durability, params);
        AnyConfig::of(&seat(&epoch, 0))?;
        let node = |_| Node {
            host: None,
            disk: Disk::new(false),
            clock: Clock::right(),
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
            gateways: Vec::new(),
            clients: (0..CLIENTS).map(|_| Client::default()).collect(),
            offers: None,
            cores: None,
            decider: None,
            tokens: 0,
            is_over: false,
            flaw: None,
            history: Vec::new(),
            outcome: Outcome::default(),
        })
    }

    /// This cluster with hosts that do something wrong on purpose.
    pub(super) fn with_flaw(self, flaw: Option<Flaw>) -> World {
        World { flaw, ..self }
    }

    /// This cluster with so many remote gateways.
    pub(super) fn with_gateways(mut self, count: usize) -> World {
        (0..count).for_each(|_| self.open_gateway());
        self
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

    pub(super) fn run_until(
        &mut self,
        end_ns: u64,
        holds: impl Fn(&World) -> bool,
    ) -> Result<(), String> {
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
            Event::Link { node, peer, up } if node >= self.nodes.len() => {
                self.gateway_link(node, peer, up);
            }
            Event::Link { node, peer, up } => {
                let (now, peer) = (self.now(node), self.number(peer));
                if let Some(host) = &mut self.nodes[node].host {
                    let version = up.then_some(SupportedVersions::SHIPPED.newest);
                    host.link(now, peer, version);
                    self.turn_soon(node);
                }
            }
            Event::Turn { node, .. } if node >= self.nodes.len() => {
                return self.gateway_turn(node);
            }
            Event::Turn { node, life } if self.lives(node, life) => return self.turn(node),
            Event::Flushed { node, life } if self.lives(node, life) => self.flushed(node),
            Event::Read { node, life, read } if self.lives(node, life) => {
                let now = self.now(node);
                let bytes = self.nodes[node].disk.read_at(&read);
                if let Some(host) = &mut self.nodes[node].host {
                    host.completed(
                        now,
                        Completed::Read {
                            token: read.token,
                            bytes,
                        },
                    );
                    self.turn_soon(node);
                }
            }
            Event::Turn { .. } | Event::Flushed { .. } | Event::Read { .. } => {}
            Event::Ask(client) => self.ask(client),
            Event::Request {
                node,
                token,
                request,
            } if node >= self.nodes.len() => {
                self.core_takes_in_request(node, &request);
                self.gateway_request(node, token, request);
            }
            Event::Request {
                node,
                token,
                request,
            } => {
                self.core_takes_in_request(node, &request);
                let now = self.now(node);
                if let Some(host) = &mut self.nodes[node].host {
                    host.submit(now, token, request);
                    self.turn_soon(node);
                }
            }
            Event::Answer { token, answer } if self.offers.is_some() => {
                return self.offer_answered(token, &answer);
            }
            Event::Answer { token, answer } => return self.answered(token, &answer),
            Event::Offer => self.offer(),
            Event::Impatient { client, token } => self.impatient(client, token),
            Event::Strike => self.strike(),
            Event::Heal { node, fault } => return self.heal(node, fault),
        }
        Ok(())
    }

    fn lives(&self, node: usize, life: u32) -> bool {
        self.nodes[node].life == life && self.nodes[node].host.is_some()
    }

    pub(super) fn now(&self, node: usize) -> quorate_core::Now {
        let clock = match node.checked_sub(self.nodes.len()) {
            None => &self.nodes[node].clock,
            Some(gateway) => &self.gateways[gateway].clock,
        };
        clock.now(self.queue.now_ns())
    }

    fn ask(&mut self, client: usize) {
        if self.is_over {
            return;
        }
        let (now_ns, value) = (self.queue.now_ns(), self.tokens);
        let question = self.clients[client].ask(&mut self.rng, now_ns, value);
        self.send_request(client, question, None);
    }

    fn send_request(&mut self, client: usize, question: Question, node: Option<usize>) {
        let Question { asked, request } = question;
        self.tokens += 1;
        let token = self.tokens;
        self.clients[client].waits = Some((token, asked));
        let node = node.unwrap_or_else(|| self.draw_server(&request));
        let delay = self.weather.client_ns(&mut self.rng);
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

    /// Any replica, or a gateway for half of what these order.
    fn draw_server(&mut self, request: &Request<Query>) -> usize {
        let gateways = self.living_gateways();
        let is_write = matches!(request, Request::Write { .. });
        if is_write && !gateways.is_empty() && self.rng.bool() {
            return gateways[self.rng.usize(..gateways.len())];
        }
        self.rng.usize(..self.nodes.len())
    }

    fn answered(&mut self, token: u64, answer: &Answer<QueryAnswer>) -> Result<(), String> {
        let now_ns = self.queue.now_ns();
        let is_its = |client: &Client| client.waits.as_ref().is_some_and(|(its, _)| *its == token);
        let Some(index) = self.clients.iter().position(is_its) else {
            return Ok(());
        };
        let client = &mut self.clients[index];
        if let Some((_, asked)) = client.waits.take() {
            let Learned { op, read } = asked.answered(answer, now_ns)?;
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

    fn strike(&mut self) {
        if self.is_over {
            return;
        }
        let node = self.draw_victim();
        if let Some(Strike { fault, lasts_ns }) = self.weather.strike(&mut self.rng) {
            self.hurt(node, fault);
            self.queue.after(lasts_ns, Event::Heal { node, fault });
        }
        let delay = self.rng.u64(10 * MILLIS..100 * MILLIS);
        self.queue.after(delay, Event::Strike);
    }

    /// Any replica or gateway.
    fn draw_victim(&mut self) -> usize {
        let gateways = self.living_gateways();
        let drawn = self.rng.usize(..self.nodes.len() + gateways.len());
        let gateway = drawn.checked_sub(self.nodes.len());
        gateway.map_or(drawn, |at| gateways[at])
    }

    fn hurt(&mut self, index: usize, fault: Fault) {
        if let Some(at) = index.checked_sub(self.nodes.len()) {
            return match fault {
                Fault::Clock(off_ns) => self.gateways[at].clock.offset_ns = off_ns,
                _ => self.kill_gateway(index),
            };
        }
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
        if let Some(at) = index.checked_sub(self.nodes.len()) {
            self.gateways[at].clock.offset_ns = 0;
            return Ok(());
        }
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
        self.weather.calm();
        for index in 0..self.nodes.len() {
            for fault in [Fault::Pause, Fault::Cut, Fault::Clock(0), Fault::Crash] {
                self.heal(index, fault)?;
            }
        }
        for gateway in &mut self.gateways {
            gateway.clock.offset_ns = 0;
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
            let question = clients::read(clients::keys(), self.queue.now_ns());
            self.send_request(node, question, Some(node));
        }
        Ok(())
    }

    /// Whether all have applied the same, and gateways know that what they answered is decided.
    fn is_level(&self) -> bool {
        let digest = |node: &Node| node.host.as_ref().map(|host| host.look().digest());
        let first = digest(&self.nodes[0]);
        self.nodes.iter().all(|node| digest(node) == first)
            && self.gateways.iter().all(RemoteGateway::is_idle)
    }

    fn explain(&self) -> String {
        let (hosts, now_ns) = (self.nodes.iter(), self.queue.now_ns());
        let hosts = hosts.filter_map(|node| node.host.as_ref());
        let words: Vec<String> = hosts.map(|host| host.look().explain(now_ns)).collect();
        words.join("\n")
    }
}
