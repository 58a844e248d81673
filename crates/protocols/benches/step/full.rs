//! Full load without batches: every command is an entry of its own, and there is always a next one. What
//! the busiest replica does for a command bounds how many are committed: Table 1 of Chora's paper as
//! ratios.

use super::cluster::Cluster;
use super::count::instructions;
use quorate_protocols::{Protocol, Visitor, visit};
use std::cell::Cell;
use std::time::{Duration, Instant};

const REPLICAS: [u16; 3] = [3, 5, 7];
/// Commands to measure, after a tenth as many to begin with.
const COMMANDS: u64 = 40_000;
const COMMANDS_COUNTED: u64 = 1_000;

/// What is compared.
struct Setting {
    name: &'static str,
    protocol: &'static str,
    params: &'static [(&'static str, &'static str)],
    /// Whether all replicas are asked, or the first alone: the leader.
    are_all_asked: bool,
    /// How many times as many commands as Multi-Paxos the paper commits, on 3, 5 and 7 replicas, if it has the setting.
    paper: Option<[f64; 3]>,
}

const SETTINGS: [Setting; 9] = [
    Setting {
        name: "multi-paxos",
        protocol: "multi-paxos",
        params: &[
            ("batch_commands", "1"),
            ("window", "64"),
            ("outstanding", "64"),
        ],
        are_all_asked: false,
        paper: Some([1.0; 3]),
    },
    Setting {
        name: "raft",
        protocol: "raft",
        params: &[
            ("batch_commands", "1"),
            ("window", "64"),
            ("outstanding", "64"),
        ],
        are_all_asked: false,
        paper: None,
    },
    Setting {
        name: "mencius",
        protocol: "mencius",
        params: &[
            ("batch_commands", "1"),
            ("outstanding", "64"),
            ("ack", "each"),
        ],
        are_all_asked: true,
        paper: Some([1.64 / 1.52, 1.23 / 0.89, 1.17 / 0.69]),
    },
    Setting {
        name: "fast-paxos",
        protocol: "fast-paxos",
        params: &[
            ("batch_commands", "1"),
            ("window", "128"),
            ("outstanding", "64"),
        ],
        are_all_asked: false,
        paper: None,
    },
    Setting {
        name: "nopaxos",
        protocol: "nopaxos",
        params: &[("batch_commands", "1"), ("outstanding", "64")],
        are_all_asked: true,
        paper: None,
    },
    Setting {
        name: "domino",
        protocol: "domino",
        params: &[("batch_commands", "1"), ("outstanding", "64")],
        are_all_asked: true,
        paper: None,
    },
    Setting {
        name: "epaxos, all conflicting",
        protocol: "epaxos",
        params: &[("batch_commands", "1"), ("outstanding", "64")],
        are_all_asked: true,
        paper: None,
    },
    Setting {
        name: "chora, responsive",
        protocol: "chora",
        params: &[
            ("batch_commands", "1"),
            ("outstanding", "64"),
            ("mode", "responsive"),
        ],
        are_all_asked: true,
        paper: Some([2.30 / 1.52, 1.73 / 0.89, 1.59 / 0.69]),
    },
    Setting {
        name: "chora, pulsing",
        protocol: "chora",
        params: &[
            ("batch_commands", "1"),
            ("mode", "pulsing"),
            ("round_us", "20"),
        ],
        are_all_asked: true,
        paper: Some([3.01 / 1.52, 2.50 / 0.89, 2.44 / 0.69]),
    },
];

/// A setting on some replicas.
pub(crate) struct Full {
    setting: &'static Setting,
    replicas: u16,
    way: Way,
}

/// How messages travel, and so what is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// As they are: the protocol's steps alone.
    Handed,
    /// Encoded, through rings in memory: all that a protocol thread does for a message, from taking it out of its ring to
    /// putting what follows into those of its receivers.
    Rings,
}

impl Way {
    /// What tells the program to do nothing but what is counted.
    pub(crate) fn flag(self) -> &'static str {
        match self {
            Way::Handed => "--repeat-full",
            Way::Rings => "--repeat-rings",
        }
    }
}

/// Runs it and nothing else, to be counted from outside.
struct Repeat {
    full: Full,
    commands: u64,
}

/// Measured at the first replica, per committed command.
pub(crate) struct Row {
    multicasts: f64,
    /// Messages that it receives.
    messages: f64,
    ns: f64,
    instructions: Option<f64>,
    allocations: f64,
}

thread_local! {
    static TOOK: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

fn time(step: &mut dyn FnMut()) {
    let began = Instant::now();
    step();
    TOOK.set(TOOK.get() + began.elapsed());
}

fn allocations(step: &mut dyn FnMut()) {
    let counted = allocation_counter::measure(step);
    ALLOCATED.set(ALLOCATED.get() + counted.count_total);
}

/// Found by its name: callgrind counts what happens within.
#[inline(never)]
fn counted_step(step: &mut dyn FnMut()) {
    std::hint::black_box(step)();
}

impl Full {
    fn cluster<P: Protocol>(&self) -> Cluster<P> {
        let cluster = Cluster::new(self.replicas, self.setting.params);
        match self.way {
            Way::Handed => cluster,
            Way::Rings => cluster.over_rings(),
        }
    }

    fn asked(&self) -> usize {
        if self.setting.are_all_asked {
            self.replicas.into()
        } else {
            1
        }
    }

    /// Commits so many commands, in the setting of that name.
    pub(crate) fn repeat(way: Way, name: &str, replicas: u16, commands: u64) -> Option<()> {
        let setting = SETTINGS.iter().find(|setting| setting.name == name)?;
        let full = Full {
            setting,
            replicas,
            way,
        };
        visit(setting.protocol, Repeat { full, commands })
    }

    /// Instructions of the first replica, per command.
    fn instructions(&self) -> Option<f64> {
        let flags = ["--collect-atstart=no", "--toggle-collect=*counted_step*"];
        instructions(&flags, COMMANDS_COUNTED, |commands| {
            let (name, replicas) = (self.setting.name.to_owned(), self.replicas.to_string());
            [
                self.way.flag().to_owned(),
                name,
                commands.to_string(),
                replicas,
            ]
        })
    }
}

impl Visitor for Repeat {
    type Output = ();

    fn visit<P: Protocol>(self) {
        let mut cluster = self.full.cluster::<P>();
        cluster.look = counted_step;
        cluster.saturate(self.full.asked(), self.commands);
    }
}

impl Visitor for &Full {
    type Output = Row;

    fn visit<P: Protocol>(self) -> Row {
        let mut cluster = self.cluster::<P>();
        cluster.saturate(self.asked(), COMMANDS / 10);
        let before = (cluster.multicasts, cluster.received, cluster.applied);
        cluster.look = time;
        TOOK.set(Duration::ZERO);
        cluster.saturate(self.asked(), COMMANDS);
        let applied = (cluster.applied - before.2) as f64;
        let row = Row {
            multicasts: (cluster.multicasts - before.0) as f64 / applied,
            messages: (cluster.received - before.1) as f64 / applied,
            ns: TOOK.get().as_nanos() as f64 / applied,
            instructions: self.instructions(),
            allocations: 0.0,
        };
        let before = cluster.applied;
        cluster.look = allocations;
        ALLOCATED.set(0);
        cluster.saturate(self.asked(), COMMANDS / 10);
        let allocations = ALLOCATED.get() as f64 / (cluster.applied - before) as f64;
        Row { allocations, ..row }
    }
}

/// Prints a row per setting and number of replicas.
pub(crate) fn print(way: Way) {
    let what = match way {
        Way::Handed => "its steps alone",
        Way::Rings => {
            "over rings in memory: a message is taken out of a ring, decoded and stepped, and what follows is encoded \
             and put into rings"
        }
    };
    println!(
        "\nfull load without batches, at the busiest replica (the leader of Multi-Paxos), {what}; times Multi-Paxos: \
         commands for the same instructions\n{:<18} {:>2} {:>9} {:>9} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} \
         {:>7} {:>7}",
        "setting",
        "n",
        "casts/cmd",
        "msgs/cmd",
        "ns/msg",
        "ns/cmd",
        "instr/msg",
        "instr/cmd",
        "alloc/msg",
        "alloc/cmd",
        "times",
        "paper"
    );
    for (at, replicas) in REPLICAS.into_iter().enumerate() {
        let mut of_paxos = None;
        for setting in &SETTINGS {
            let full = Full {
                setting,
                replicas,
                way,
            };
            let Some(row) = visit(setting.protocol, &full) else {
                continue;
            };
            let of_paxos = of_paxos.get_or_insert(row.instructions);
            let whole =
                |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.0}"));
            let times = of_paxos.zip(row.instructions);
            println!(
                "{:<18} {replicas:>2} {:>9.2} {:>9.2} {:>8.0} {:>8.0} {:>9} {:>9} {:>9.2} {:>9.2} {:>7} {:>7}",
                setting.name,
                row.multicasts,
                row.messages,
                row.ns / row.messages,
                row.ns,
                whole(row.instructions.map(|count| count / row.messages)),
                whole(row.instructions),
                row.allocations / row.messages,
                row.allocations,
                times.map_or("-".into(), |(paxos, own)| format!("{:.2}", paxos / own)),
                setting
                    .paper
                    .map_or("-".into(), |times| format!("{:.2}", times[at])),
            );
        }
    }
}
