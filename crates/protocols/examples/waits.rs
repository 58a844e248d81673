//! What Rabia's waits are worth: machines in virtual time, without faults, on networks that are
//! calm, jittery, or have one slow member.
//!
//! `cargo run --release -p quorate-protocols --example waits` prints the tables of
//! `docs/decisions/0007-waits.md`; an argument chooses the scenes whose name holds it. The same
//! figures every time: everything is drawn from one seed.

use bytes::Bytes;
use quorate_core::{
    Base, Boot, Class, ClientId, Command, Due, Durability, Entry, Epoch, Event, Group, Incarnation,
    Input, Lsn, MICROS, MILLIS, Machine, Member, Now, Out, Output, Past, Peers, Principal,
    ReplicaId, RequestId, SECONDS, Seat, Slot,
};
use quorate_protocols::rabia::{Message, Rabia, Replica, Timer};
use quorate_protocols::{DecidedSet, Protocol};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const LENGTH_NS: u64 = 20 * SECONDS;
const DELAY_NS: u64 = 100 * MICROS;
const FLUSH_NS: u64 = 50 * MICROS;

/// What the network is like, and where requests come from.
struct Scene {
    name: &'static str,
    /// Mean of the random part of a delay, ns.
    jitter_ns: u64,
    /// What every message of the last replica takes longer, ns.
    slow_ns: u64,
    /// Mean time between the requests of one origin, ns.
    every_ns: u64,
    /// Whether only the first replica gets requests.
    is_lone: bool,
}

const SCENES: [Scene; 5] = [
    Scene {
        name: "one origin",
        jitter_ns: 10 * MICROS,
        slow_ns: 0,
        every_ns: 700 * MICROS,
        is_lone: true,
    },
    Scene {
        name: "every replica an origin",
        jitter_ns: 10 * MICROS,
        slow_ns: 0,
        every_ns: 2 * MILLIS,
        is_lone: false,
    },
    Scene {
        name: "the same, three times the load",
        jitter_ns: 10 * MICROS,
        slow_ns: 0,
        every_ns: 700 * MICROS,
        is_lone: false,
    },
    Scene {
        name: "every replica an origin, high jitter",
        jitter_ns: 200 * MICROS,
        slow_ns: 0,
        every_ns: 2 * MILLIS,
        is_lone: false,
    },
    Scene {
        name: "every replica an origin, one slow",
        jitter_ns: 10 * MICROS,
        slow_ns: MILLIS,
        every_ns: 2 * MILLIS,
        is_lone: false,
    },
];

const PAPER: &str = "mode=three_step fast_rules=false vote_hold_us=0";

/// What is compared: a name, and parameters.
const SETTINGS: [(&str, &str); 9] = [
    ("default", ""),
    ("grace 100 us", "grace_us=100"),
    ("grace 500 us", "grace_us=500"),
    ("freeze 150 us", "freeze_us=150"),
    ("freeze 500 us", "freeze_us=500"),
    ("no hold", "vote_hold_us=0"),
    ("no hold, grace 500 us", "vote_hold_us=0 grace_us=500"),
    ("paper", PAPER),
    (
        "paper, grace 500 us",
        "mode=three_step fast_rules=false vote_hold_us=0 grace_us=500",
    ),
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for scene in SCENES.iter().filter(|scene| scene.name.contains(&wanted)) {
        for n in [3, 5] {
            println!("\n{}, n = {n}\n", scene.name);
            println!("| | requests | decided fast | NULL slots | mean us | median us | 99 % us |");
            println!("|---|---|---|---|---|---|---|");
            for (name, params) in SETTINGS {
                println!("| {name} {}", World::new(n, params, scene).run());
            }
        }
    }
}

/// A small generator (xorshift64*).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean_ns: u64) -> u64 {
        (-(1.0 - self.unit()).ln() * mean_ns as f64) as u64
    }
}

enum Happening {
    Message {
        from: ReplicaId,
        message: Message,
    },
    Timer(Timer),
    Flushed(Lsn),
    Log {
        first: Slot,
        entries: Vec<Option<Entry>>,
    },
    Request,
}

struct Node {
    machine: Replica,
    out: Out<Replica>,
    /// When each armed timer is due.
    timers: BTreeMap<Timer, u64>,
    flushed: Lsn,
    is_flushing: bool,
    gated: Vec<(Lsn, Peers, Message)>,
    log: Vec<Option<Entry>>,
    base: DecidedSet,
}

struct World<'a> {
    scene: &'a Scene,
    nodes: Vec<Node>,
    /// When, in which order, where; what happens is kept apart.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    happenings: BTreeMap<u64, Happening>,
    events: u64,
    now_ns: u64,
    dice: Dice,
    requests: u64,
    asked_ns: BTreeMap<u64, u64>,
    latencies_ns: Vec<u64>,
    decided: u64,
    fast: u64,
    nulls: u64,
}

impl<'a> World<'a> {
    fn new(n: usize, params: &str, scene: &'a Scene) -> World<'a> {
        let mut world = World {
            scene,
            nodes: Vec::new(),
            queue: BinaryHeap::new(),
            happenings: BTreeMap::new(),
            events: 0,
            now_ns: SECONDS,
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            requests: 0,
            asked_ns: BTreeMap::new(),
            latencies_ns: Vec::new(),
            decided: 0,
            fast: 0,
            nulls: 0,
        };
        for me in 0..n {
            let config = Rabia::config(&seat(n, me, params)).expect("the parameters are right");
            let mut out = Out::default();
            let machine = Replica::recover(&config, Past::Fresh, world.now(), &mut out);
            world.nodes.push(Node {
                machine,
                out,
                timers: BTreeMap::new(),
                flushed: Lsn(0),
                is_flushing: false,
                gated: Vec::new(),
                log: Vec::new(),
                base: DecidedSet::default(),
            });
        }
        for origin in 0..if scene.is_lone { 1 } else { n } {
            world.later(
                scene.every_ns / n as u64 * origin as u64,
                origin,
                Happening::Request,
            );
        }
        world
    }

    fn now(&self) -> Now {
        Now {
            mono_ns: self.now_ns,
            clock_ns: self.now_ns,
            clock_error_ns: 0,
        }
    }

    fn later(&mut self, wait_ns: u64, node: usize, happening: Happening) {
        self.events += 1;
        self.queue
            .push(Reverse((self.now_ns + wait_ns, self.events, node)));
        self.happenings.insert(self.events, happening);
    }

    fn run(mut self) -> String {
        while let Some(Reverse((at_ns, number, node))) = self.queue.pop() {
            if at_ns > SECONDS + LENGTH_NS {
                break;
            }
            self.now_ns = at_ns;
            let happening = self.happenings.remove(&number).expect("it was put there");
            self.happen(node, happening);
        }
        self.latencies_ns.sort_unstable();
        let latencies = &self.latencies_ns;
        let count = latencies.len();
        let us = |ns: u64| ns / MICROS;
        let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
        format!(
            "| {count} | {:.2} % | {:.2} % | {} | {} | {} |",
            percent(self.fast, self.decided),
            percent(self.nulls, self.decided),
            us(latencies.iter().sum::<u64>() / count.max(1) as u64),
            us(latencies[count / 2]),
            us(latencies[count * 99 / 100]),
        )
    }

    fn happen(&mut self, me: usize, happening: Happening) {
        match happening {
            Happening::Message { from, message } => {
                self.step(me, Input::Message { from, message });
            }
            Happening::Timer(timer) => {
                if self.nodes[me].timers.get(&timer) == Some(&self.now_ns) {
                    self.nodes[me].timers.remove(&timer);
                    self.step(me, Input::Timer(timer));
                }
            }
            Happening::Flushed(lsn) => {
                let node = &mut self.nodes[me];
                (node.flushed, node.is_flushing) = (lsn, false);
                let (ready, rest) = std::mem::take(&mut node.gated)
                    .into_iter()
                    .partition(|(after, ..)| *after <= lsn);
                node.gated = rest;
                let ready: Vec<(Lsn, Peers, Message)> = ready;
                ready
                    .into_iter()
                    .for_each(|(_, to, message)| self.send(me, to, &message));
                self.step(me, Input::Durable(lsn));
            }
            Happening::Log { first, entries } => self.learn(me, first, entries),
            Happening::Request => self.request(me),
        }
    }

    fn request(&mut self, me: usize) {
        self.requests += 1;
        self.asked_ns.insert(self.requests, self.now_ns);
        let id = RequestId {
            client: ClientId(me as u64),
            seq: self.requests,
        };
        let command = Command {
            id,
            acked: 0,
            class: Class::Write,
            principal: Principal(0),
            body: Bytes::from_static(b"sixteen bytes..."),
            payloads: Vec::new(),
        };
        self.step(me, Input::Submit(vec![command]));
        let wait_ns = self.dice.exponential(self.scene.every_ns);
        self.later(wait_ns, me, Happening::Request);
    }

    fn step(&mut self, me: usize, input: Input<Replica>) {
        let now = self.now();
        let node = &mut self.nodes[me];
        node.machine.step(now, input, &mut node.out);
        let outputs: Vec<Output<Replica>> = node.out.drain().collect();
        outputs
            .into_iter()
            .for_each(|output| self.perform(me, output));
        let node = &mut self.nodes[me];
        let written = node.out.persisted();
        if !node.is_flushing && node.flushed < written {
            node.is_flushing = true;
            self.later(FLUSH_NS, me, Happening::Flushed(written));
        }
    }

    fn perform(&mut self, me: usize, output: Output<Replica>) {
        match output {
            Output::Send { to, message, after } if after <= self.nodes[me].flushed => {
                self.send(me, to, &message);
            }
            Output::Send { to, message, after } => self.nodes[me].gated.push((after, to, message)),
            Output::Arm { timer, due } => {
                let wait_ns = match due {
                    Due::After(ns) => ns,
                    Due::Within(range) => *range.end(),
                };
                self.nodes[me].timers.insert(timer, self.now_ns + wait_ns);
                self.later(wait_ns, me, Happening::Timer(timer));
            }
            Output::Disarm(timer) => {
                self.nodes[me].timers.remove(&timer);
            }
            Output::Deliver { slot, entry } => self.append(me, slot, entry),
            Output::CatchUp { from, .. } => {
                let next = Slot(self.nodes[me].log.len() as u64);
                self.give_log(usize::from(from.0) - 1, me, next);
            }
            Output::Inform { peer, from } => self.give_log(me, usize::from(peer.0) - 1, from),
            Output::Emit(Event::Decided { fast, noop, .. }) => {
                self.decided += 1;
                self.fast += u64::from(fast);
                self.nulls += u64::from(noop);
            }
            _ => {}
        }
    }

    fn append(&mut self, me: usize, slot: Slot, entry: Option<Entry>) {
        let node = &mut self.nodes[me];
        node.base.advance(slot, entry.as_ref());
        let commands = entry.iter().flat_map(Entry::commands).flatten();
        let mine = commands.filter(|command| command.id.client == ClientId(me as u64));
        for command in mine {
            let asked_ns = self.asked_ns.remove(&command.id.seq);
            self.latencies_ns
                .extend(asked_ns.map(|then| self.now_ns - then));
        }
        node.log.push(entry);
    }

    /// What hosts do for a peer that is behind.
    fn give_log(&mut self, from: usize, to: usize, first: Slot) {
        let entries = self.nodes[from].log.get(first.0 as usize..);
        if let Some(entries) = entries.map(<[_]>::to_vec) {
            self.later(2 * DELAY_NS, to, Happening::Log { first, entries });
        }
    }

    fn learn(&mut self, me: usize, first: Slot, entries: Vec<Option<Entry>>) {
        let next = self.nodes[me].log.len() as u64;
        let Some(known) = next.checked_sub(first.0) else {
            return;
        };
        for (slot, entry) in (next..).zip(entries.into_iter().skip(known as usize)) {
            self.append(me, Slot(slot), entry);
        }
        let node = &self.nodes[me];
        let (next, base) = (Slot(node.log.len() as u64), node.base.clone());
        self.step(me, Input::Installed { next, base });
    }

    fn send(&mut self, from: usize, to: Peers, message: &Message) {
        for peer in (0..self.nodes.len()).filter(|peer| *peer != from) {
            if to != Peers::All && to != Peers::One(id(peer)) {
                continue;
            }
            let is_slow = from + 1 == self.nodes.len();
            let slow_ns = if is_slow { self.scene.slow_ns } else { 0 };
            let wait_ns = DELAY_NS + slow_ns + self.dice.exponential(self.scene.jitter_ns);
            let (from, message) = (id(from), message.clone());
            self.later(wait_ns, peer, Happening::Message { from, message });
        }
    }
}

fn id(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

fn seat(n: usize, me: usize, params: &str) -> Seat {
    let member = |index| Member {
        id: id(index),
        incarnation: Incarnation(index as u128),
    };
    let params = params
        .split_whitespace()
        .filter_map(|param| param.split_once('='));
    Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..n).map(member).collect(),
            protocol: Rabia::NAME.into(),
            durability: Durability::Disk,
            seed: 7,
            params: params
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
        },
        me: id(me),
        boot: Boot(me as u64 + 1),
    }
}
