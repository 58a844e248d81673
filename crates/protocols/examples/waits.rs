//! What Rabia's waits are worth: machines in virtual time, without faults, on networks that are
//! calm, jittery, or have one slow member.
//!
//! `cargo run --release -p quorate-protocols --example waits` prints the tables of
//! `docs/decisions/0007-waits.md`; an argument chooses the scenes whose name holds it. The same
//! figures every time: everything is drawn from one seed.

use bytes::Bytes;
use quorate_core::{
    Class, ClientId, Command, Entry, Event, Input, Lsn, MICROS, MILLIS, Output, Principal,
    RequestId, SECONDS, Slot,
};
use quorate_protocols::Protocol;
use quorate_protocols::rabia::{Config, Rabia, Replica, Timer};
use quorate_testkit::{Body, Cluster, Packet, Watch, index, seat};
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
                println!("| {name} {}", run(n, params, scene));
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

/// What a replica is to see or do at a time.
enum Happening {
    /// A packet arrives.
    Packet(Packet<Replica>),
    /// A timer is due, unless it was armed anew or disarmed.
    Timer(Timer),
    /// The disk is done with the records through this one.
    Flushed(Lsn),
    /// A client asks for something.
    Request,
}

/// What a scene does to packets, disks and clients, and what is measured.
struct World<'a> {
    scene: &'a Scene,
    dice: Dice,
    /// When each happening is due, its number, and the replica it is for.
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    /// What happens, by number.
    happenings: BTreeMap<u64, Happening>,
    events: u64,
    /// Whether the disk of each replica writes.
    is_flushing: Vec<bool>,
    requests: u64,
    asked_ns: BTreeMap<u64, u64>,
    latencies_ns: Vec<u64>,
    decided: u64,
    fast: u64,
    nulls: u64,
}

type Net<'a> = Cluster<Replica, World<'a>>;

impl World<'_> {
    fn at(&mut self, due_ns: u64, replica: usize, happening: Happening) {
        self.events += 1;
        self.queue.push(Reverse((due_ns, self.events, replica)));
        self.happenings.insert(self.events, happening);
    }

    /// What happens next, when, and to which replica.
    fn next(&mut self) -> Option<(u64, usize, Happening)> {
        let Reverse((due_ns, number, replica)) = self.queue.pop()?;
        let happening = self.happenings.remove(&number)?;
        Some((due_ns, replica, happening))
    }
}

impl Watch<Replica> for World<'_> {
    fn on_output(cluster: &mut Net<'_>, me: usize, output: &mut Output<Replica>) -> bool {
        let (from, to, first) = match output {
            Output::Arm { timer, due } => {
                let due_ns = cluster.now_ns + cluster.watch.wait_ns(due);
                cluster.watch.at(due_ns, me, Happening::Timer(*timer));
                return true;
            }
            Output::CatchUp { from, .. } => (index(*from), me, cluster.nodes[me].next()),
            Output::Inform { peer, from } => (me, index(*peer), *from),
            _ => return true,
        };
        // Hosts give each other what is decided a round trip later.
        let entries = cluster.nodes[from].log.get(first.0 as usize..);
        if let Some(entries) = entries.map(<[_]>::to_vec) {
            cluster.put(from, to, Body::Log(first, entries));
        }
        false
    }

    fn on_written(cluster: &mut Net<'_>, me: usize) {
        if !std::mem::replace(&mut cluster.watch.is_flushing[me], true) {
            let written = cluster.nodes[me].out.persisted();
            let due_ns = cluster.now_ns + FLUSH_NS;
            cluster.watch.at(due_ns, me, Happening::Flushed(written));
        }
    }

    fn on_packet(cluster: &mut Net<'_>, packet: Packet<Replica>) {
        let World { scene, dice, .. } = &mut cluster.watch;
        let wait_ns = match packet.body {
            Body::Message(_) => {
                let is_slow = packet.from + 1 == cluster.nodes.len();
                let slow_ns = if is_slow { scene.slow_ns } else { 0 };
                DELAY_NS + slow_ns + dice.exponential(scene.jitter_ns)
            }
            Body::Fetch(_) | Body::Log(..) => 2 * DELAY_NS,
        };
        let (due_ns, to) = (cluster.now_ns + wait_ns, packet.to);
        cluster.watch.at(due_ns, to, Happening::Packet(packet));
    }

    fn on_deliver(cluster: &mut Net<'_>, me: usize, slot: Slot) {
        let entry = cluster.nodes[me].log[slot.0 as usize].as_ref();
        let commands = entry.into_iter().flat_map(Entry::commands).flatten();
        let world = &mut cluster.watch;
        for command in commands.filter(|command| command.id.client == ClientId(me as u64)) {
            let asked_ns = world.asked_ns.remove(&command.id.seq);
            let latency_ns = asked_ns.map(|then| cluster.now_ns - then);
            world.latencies_ns.extend(latency_ns);
        }
    }

    fn on_event(cluster: &mut Net<'_>, _: usize, event: Event) {
        if let Event::Decided { fast, noop, .. } = event {
            let world = &mut cluster.watch;
            world.decided += 1;
            world.fast += u64::from(fast);
            world.nulls += u64::from(noop);
        }
    }
}

fn run(n: usize, params: &str, scene: &Scene) -> String {
    let params: Vec<(&str, &str)> = params
        .split_whitespace()
        .filter_map(|param| param.split_once('='))
        .collect();
    let config = |me| Rabia::config(&seat(Rabia::NAME, n, me, 0, &params)).expect("they are right");
    let configs: Vec<Config> = (0..n).map(config).collect();
    let world = World {
        scene,
        dice: Dice(0x9e37_79b9_7f4a_7c15),
        queue: BinaryHeap::new(),
        happenings: BTreeMap::new(),
        events: 0,
        is_flushing: vec![false; n],
        requests: 0,
        asked_ns: BTreeMap::new(),
        latencies_ns: Vec::new(),
        decided: 0,
        fast: 0,
        nulls: 0,
    };
    let mut net = Net::new(n, world, move |me, boot| {
        let mut config = configs[me].clone();
        config.boot = boot;
        config
    });
    net.is_checked = false;
    for origin in 0..if scene.is_lone { 1 } else { n } {
        let first_ns = SECONDS + scene.every_ns / n as u64 * origin as u64;
        net.watch.at(first_ns, origin, Happening::Request);
    }
    while let Some((now_ns, me, happening)) = net.watch.next() {
        if now_ns > SECONDS + LENGTH_NS {
            break;
        }
        net.now_ns = now_ns;
        happen(&mut net, me, happening);
    }
    report(&mut net.watch)
}

fn happen(net: &mut Net<'_>, me: usize, happening: Happening) {
    match happening {
        Happening::Packet(packet) => net.receive(packet),
        Happening::Timer(timer) => {
            if net.nodes[me].timers.get(&timer) == Some(&net.now_ns) {
                net.fire(me, timer);
            }
        }
        Happening::Flushed(lsn) => {
            net.watch.is_flushing[me] = false;
            net.flush_through(me, lsn);
        }
        Happening::Request => ask(net, me),
    }
}

fn ask(net: &mut Net<'_>, me: usize) {
    let world = &mut net.watch;
    world.requests += 1;
    world.asked_ns.insert(world.requests, net.now_ns);
    let id = RequestId {
        client: ClientId(me as u64),
        seq: world.requests,
    };
    let command = Command {
        id,
        acked: 0,
        class: Class::Write,
        principal: Principal(0),
        body: Bytes::from_static(b"sixteen bytes..."),
        payloads: Vec::new(),
    };
    net.step(me, Input::Submit(vec![command]));
    let world = &mut net.watch;
    let due_ns = net.now_ns + world.dice.exponential(world.scene.every_ns);
    world.at(due_ns, me, Happening::Request);
}

fn report(world: &mut World<'_>) -> String {
    world.latencies_ns.sort_unstable();
    let latencies = &world.latencies_ns;
    let count = latencies.len();
    let us = |ns: u64| ns / MICROS;
    let percent = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    format!(
        "| {count} | {:.2} % | {:.2} % | {} | {} | {} |",
        percent(world.fast, world.decided),
        percent(world.nulls, world.decided),
        us(latencies.iter().sum::<u64>() / count.max(1) as u64),
        us(latencies[count / 2]),
        us(latencies[count * 99 / 100]),
    )
}
