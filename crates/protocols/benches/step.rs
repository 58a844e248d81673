//! What a step of a protocol costs: time, instructions and allocations, per message and per
//! committed command, on three replicas that run in memory without loss.
//!
//! ```text
//! cargo bench -p quorate-protocols --bench step
//! ```
//!
//! Instructions are counted by callgrind if valgrind is installed: the program runs itself under
//! it at two lengths and divides the difference. They are repeatable; times are not.

#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use bytes::Bytes;
use quorate_core::{
    Boot, Class, ClientId, Command, Durability, Epoch, Group, Incarnation, Input, Machine, Member,
    Now, Out, Output, Past, Peers, Principal, ReplicaId, RequestId, Seat, Slot,
};
use quorate_protocols::{Protocol, Visitor};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::process::ExitCode;

const REPLICAS: u16 = 3;
const ROUNDS: u64 = 20_000;
const ROUNDS_COUNTED: u64 = 400;
const BODY_BYTES: usize = 256;

/// Replicas and the messages between them.
struct Cluster<P: Protocol> {
    replicas: Vec<P::Machine>,
    outs: Vec<Out<P::Machine>>,
    outputs: Vec<Output<P::Machine>>,
    inputs: VecDeque<(usize, Input<P::Machine>)>,
    /// What the first replica waits for.
    timers: BTreeSet<<P::Machine as Machine>::Timer>,
    body: Bytes,
    now_ns: u64,
    seq: u64,
    messages: u64,
    applied: u64,
}

impl<P: Protocol> Cluster<P> {
    fn new() -> Self {
        let member = |id| Member {
            id: ReplicaId(id),
            incarnation: Incarnation(id.into()),
        };
        let epoch = Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (1..=REPLICAS).map(member).collect(),
            protocol: P::NAME.into(),
            durability: Durability::Disk,
            seed: 1,
            params: BTreeMap::new(),
        };
        let mut outs = Vec::new();
        let mut replicas = Vec::new();
        for id in 1..=REPLICAS {
            let (me, boot) = (ReplicaId(id), Boot(id.into()));
            let seat = Seat {
                group: Group(0),
                epoch: epoch.clone(),
                me,
                boot,
            };
            let config = P::config(&seat).expect("default parameters are valid");
            let mut out = Out::default();
            replicas.push(P::Machine::recover(
                &config,
                Past::Fresh,
                Now::default(),
                &mut out,
            ));
            outs.push(out);
        }
        let mut cluster = Cluster {
            replicas,
            outs,
            outputs: Vec::new(),
            inputs: VecDeque::new(),
            timers: BTreeSet::new(),
            body: Bytes::from(vec![7; BODY_BYTES]),
            now_ns: 0,
            seq: 0,
            messages: 0,
            applied: 0,
        };
        cluster.begin();
        cluster
    }

    /// Commits a first command. Where that takes a leader, the timers of the first replica make it
    /// one; afterwards none is needed.
    fn begin(&mut self) {
        self.round(1);
        while self.applied == 0 {
            assert!(!self.timers.is_empty(), "a request is waited for");
            for timer in std::mem::take(&mut self.timers) {
                self.inputs.push_back((0, Input::Timer(timer)));
                self.run();
            }
        }
    }

    /// One replica gets `commands` commands, and everything that follows happens.
    fn round(&mut self, commands: u64) {
        let at = (self.seq % u64::from(REPLICAS)) as usize;
        let submitted = (0..commands).map(|_| self.command()).collect();
        self.inputs.push_back((at, Input::Submit(submitted)));
        self.run();
        self.now_ns += 1_000_000;
    }

    fn run(&mut self) {
        while let Some((at, input)) = self.inputs.pop_front() {
            self.step(at, input);
        }
    }

    fn command(&mut self) -> Command {
        self.seq += 1;
        Command {
            id: RequestId {
                client: ClientId(1),
                seq: self.seq,
            },
            acked: self.seq - 1,
            class: Class::Write,
            principal: Principal(0),
            body: self.body.clone(),
            payloads: Vec::new(),
        }
    }

    fn step(&mut self, at: usize, input: Input<P::Machine>) {
        self.messages += u64::from(matches!(input, Input::Message { .. }));
        let now = Now {
            mono_ns: self.now_ns,
            clock_ns: self.now_ns,
            clock_error_ns: u64::MAX,
        };
        let before = self.outs[at].persisted();
        self.replicas[at].step(now, input, &mut self.outs[at]);
        let mut outputs = std::mem::take(&mut self.outputs);
        self.outs[at].swap(&mut outputs);
        for output in outputs.drain(..) {
            self.perform(at, output);
        }
        self.outputs = outputs;
        let after = self.outs[at].persisted();
        if after > before {
            self.inputs.push_back((at, Input::Durable(after)));
        }
    }

    fn perform(&mut self, at: usize, output: Output<P::Machine>) {
        match output {
            Output::Send { to, message, .. } => {
                let from = ReplicaId(at as u16 + 1);
                for peer in 0..usize::from(REPLICAS) {
                    let id = ReplicaId(peer as u16 + 1);
                    if peer != at && (to == Peers::All || to == Peers::One(id)) {
                        let message = message.clone();
                        self.inputs
                            .push_back((peer, Input::Message { from, message }));
                    }
                }
            }
            Output::Deliver {
                entry: Some(entry), ..
            } if at == 0 => {
                self.applied += entry.count() as u64;
            }
            Output::Arm { timer, .. } if at == 0 => {
                self.timers.insert(timer);
            }
            _ => {}
        }
    }
}

/// Prints one row per batch size.
struct Measure;

impl Visitor for Measure {
    type Output = ();

    fn visit<P: Protocol>(self) {
        for commands in [1, 64] {
            let mut cluster = Cluster::<P>::new();
            (0..ROUNDS / 10).for_each(|_| cluster.round(commands));
            let (messages, applied) = (cluster.messages, cluster.applied);
            let began = std::time::Instant::now();
            let counted = allocation_counter::measure(|| {
                (0..ROUNDS).for_each(|_| cluster.round(commands));
            });
            let ns = began.elapsed().as_nanos() as f64;
            let messages = (cluster.messages - messages) as f64;
            let applied = (cluster.applied - applied) as f64;
            assert_eq!(
                applied,
                (ROUNDS * commands) as f64,
                "every command was committed"
            );
            let allocations = counted.count_total as f64;
            println!(
                "{:<11} {commands:>5} {:>9.2} {:>9.0} {:>9.0} {:>9} {:>9} {:>9.2} {:>9.2}",
                P::NAME,
                messages / applied,
                ns / messages,
                ns / applied,
                instructions(P::NAME, commands, messages / ROUNDS as f64),
                instructions(P::NAME, commands, commands as f64),
                allocations / messages,
                allocations / applied,
            );
        }
    }
}

/// Runs a number of rounds and nothing else, to be counted from outside.
struct Repeat {
    rounds: u64,
    commands: u64,
}

impl Visitor for Repeat {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let mut cluster = Cluster::<P>::new();
        (0..self.rounds).for_each(|_| cluster.round(self.commands));
    }
}

/// Instructions per unit, `per_round` of which one round has; "-" without valgrind.
fn instructions(protocol: &str, commands: u64, per_round: f64) -> String {
    let count = |rounds| counted(protocol, rounds, commands);
    match (count(ROUNDS_COUNTED), count(2 * ROUNDS_COUNTED)) {
        (Some(short), Some(long)) => {
            format!(
                "{:.0}",
                (long - short) as f64 / (ROUNDS_COUNTED as f64 * per_round)
            )
        }
        _ => "-".into(),
    }
}

fn counted(protocol: &str, rounds: u64, commands: u64) -> Option<u64> {
    let output = std::process::Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args([
            "--repeat",
            protocol,
            &rounds.to_string(),
            &commands.to_string(),
        ])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, protocol, rounds, commands] = &arguments[..]
        && flag == "--repeat"
    {
        let (Ok(rounds), Ok(commands)) = (rounds.parse(), commands.parse()) else {
            return ExitCode::from(2);
        };
        quorate_protocols::visit(protocol, Repeat { rounds, commands });
        return ExitCode::SUCCESS;
    }
    println!("{REPLICAS} replicas, {BODY_BYTES} B commands; batch: commands per submission");
    println!(
        "{:<11} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "protocol",
        "batch",
        "msgs/cmd",
        "ns/msg",
        "ns/cmd",
        "instr/msg",
        "instr/cmd",
        "alloc/msg",
        "alloc/cmd"
    );
    for protocol in quorate_protocols::names() {
        quorate_protocols::visit(protocol, Measure);
    }
    ExitCode::SUCCESS
}
