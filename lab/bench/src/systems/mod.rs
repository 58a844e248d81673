//! Systems that are measured beside each other: clusters of Quorate under some protocol, and of etcd; on
//! loopback, or each replica behind a link of its own.

pub(crate) mod compaction;
pub(crate) mod ground;
pub(crate) mod link;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use quorate_plot::{Group, Series};
use quorate_protocols::Code;
use serde::Serialize;

use crate::cluster::need_etcd;
pub use link::Links;
use quorate_tooling::program::Place;
use quorate_tooling::units;

/// Shorter values are ordered whole by every protocol (the parameter `payload_min`).
const PAYLOAD_BYTES_MIN: usize = 4096;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Each replica stores a fragment of each value, and each takes values from clients and spreads them.
    Racos,
    /// Each replica stores a fragment of each value, and a leader spreads them.
    RsPaxos,
    /// Each replica stores each value, and each takes values from clients.
    Rabia,
    /// Each replica stores each value, which a leader sends.
    MultiPaxos,
    /// etcd: Raft, by which each replica stores each value, which a leader sends.
    Etcd,
}

/// A system as it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// The system that is measured.
    pub system: System,
    /// Replicas of each cluster.
    pub replicas: u8,
    /// How many fragments rebuild a value; 1 where each replica has all of it.
    pub fragments: u8,
}

/// What every command that measures systems can be told of them.
#[derive(Debug, Clone, Args)]
pub struct SystemArgs {
    /// What to measure, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "rs-paxos,multi-paxos"
    )]
    pub systems: Vec<System>,
    /// Replicas of racos and rs-paxos, and how many fragments rebuild a value
    #[arg(long, default_value = "5,3", value_name = "N,K")]
    pub code: Code,
    /// Replicas of rabia, multi-paxos and etcd, which store whole values
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub whole_replicas: u8,
    /// Limit what each replica can send, and receive, as in 200Mbit per second: each is in a network
    /// namespace of its own (needs root)
    #[arg(long, value_parser = units::bits, value_name = "RATE")]
    pub link: Option<u64>,
    /// Lose this share of the packets that replicas send, as in 0.01%; with 0% they are only sent one by one,
    /// to compare with
    #[arg(long, value_parser = units::share, value_name = "SHARE", requires = "link")]
    pub loss: Option<f64>,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The etcd executable, as built by scripts/build-etcd.sh
    #[arg(long, default_value = "target/etcd/etcd")]
    pub etcd: PathBuf,
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// The directory for all data, of a process that was started in namespaces of its own.
    #[arg(long, hide = true, requires = "outside")]
    pub inside: Option<PathBuf>,
    /// The process that made the namespaces and the directory of `inside`.
    #[arg(long, hide = true, requires = "inside")]
    pub outside: Option<u32>,
}

impl SystemArgs {
    /// The systems as they are to be measured, in an order that changes with the turn: whoever comes first
    /// finds the machine as the other left it.
    pub(crate) fn shapes(&self, turn: u16) -> Vec<Shape> {
        let mut systems = self.systems.clone();
        if turn % 2 == 1 {
            systems.reverse();
        }
        let shape = |system: System| system.shape(self.code, self.whole_replicas);
        systems.into_iter().map(shape).collect()
    }

    /// Runs a measurement: behind links, if they are limited, it is done by this program once more, in
    /// namespaces of its own.
    pub(crate) fn measured(
        &self,
        measure: impl FnOnce() -> Result<ExitCode, String>,
    ) -> Result<ExitCode, String> {
        self.check()?;
        match (self.links(), self.outside) {
            (Some(_), None) => link::outside(self),
            (Some(links), Some(outside)) => {
                links.lay_out(outside, self.replicas_max())?;
                measure()
            }
            (None, _) => measure(),
        }
    }

    /// What each replica is behind, if anything is limited.
    pub(crate) fn links(&self) -> Option<Links> {
        Some(Links {
            bits_per_second: self.link?,
            loss: self.loss,
        })
    }

    fn replicas_max(&self) -> u8 {
        let shapes = self.shapes(0).into_iter();
        shapes.map(|shape| shape.replicas).max().unwrap_or(0)
    }

    fn check(&self) -> Result<(), String> {
        if self.code.n > REPLICAS_MAX {
            return Err(format!("--code: at most {REPLICAS_MAX} replicas"));
        }
        if self.systems.is_empty() {
            return Err("--systems names none".to_owned());
        }
        if self.systems.contains(&System::Etcd) {
            need_etcd(&self.etcd, "leave it out of --systems")?;
        }
        Ok(())
    }
}

impl System {
    /// All, in the order of tables.
    pub(crate) const ALL: [System; 5] = [
        System::Racos,
        System::RsPaxos,
        System::Rabia,
        System::MultiPaxos,
        System::Etcd,
    ];

    /// The system's name in tables, and for `quorate up` if it is one of its protocols.
    pub(crate) fn name(self) -> &'static str {
        match self {
            System::Racos => "racos",
            System::RsPaxos => "rs-paxos",
            System::Rabia => "rabia",
            System::MultiPaxos => "multi-paxos",
            System::Etcd => "etcd",
        }
    }

    /// Whether one replica does more than the others, and is the one to ask.
    pub(crate) fn is_led(self) -> bool {
        matches!(self, System::RsPaxos | System::MultiPaxos | System::Etcd)
    }

    /// Whether it is Quorate.
    pub(crate) fn is_ours(self) -> bool {
        self != System::Etcd
    }

    fn is_coded(self) -> bool {
        matches!(self, System::Racos | System::RsPaxos)
    }

    /// As it is measured: with this code, or with so many replicas that store whole values.
    pub(crate) fn shape(self, code: Code, whole_replicas: u8) -> Shape {
        let small = |number: usize| u8::try_from(number).unwrap_or(u8::MAX);
        let (replicas, fragments) = match self.is_coded() {
            true => (small(code.n), small(code.k)),
            false => (whole_replicas, 1),
        };
        Shape {
            system: self,
            replicas,
            fragments,
        }
    }
}

impl Shape {
    /// Of how many fragments a value of this size consists; 1 if it is stored whole.
    pub(crate) fn fragments(self, value_bytes: usize) -> u8 {
        match value_bytes >= PAYLOAD_BYTES_MIN {
            true => self.fragments,
            false => 1,
        }
    }

    /// The system's name, and what the cluster consists of.
    pub(crate) fn title(self) -> String {
        let (name, replicas) = (self.system.name(), self.replicas);
        match self.system.is_coded() {
            true => format!("{name} {replicas},{}", self.fragments),
            false => format!("{name} {replicas}"),
        }
    }

    /// Itself in a picture.
    pub(crate) fn series(self) -> Series {
        Series {
            name: self.title(),
            // Told apart also by those who see no difference between red and green.
            color: match self.system {
                System::RsPaxos => "#0072b2",
                System::MultiPaxos => "#d55e00",
                System::Etcd => "#56b4e9",
                System::Racos => "#009e73",
                System::Rabia => "#cc79a7",
            },
        }
    }

    /// What says all this to `quorate up`, but for the number of replicas.
    pub(crate) fn flags(self) -> Vec<String> {
        let mut flags = vec![format!("--protocol={}", self.system.name())];
        if self.system.is_coded() {
            flags.push(format!("--code={},{}", self.replicas, self.fragments));
        }
        flags
    }
}

/// Bars of a picture by group, each group's one after the other; what is not above zero cannot be drawn.
pub(crate) fn groups(
    shapes: &[Shape],
    bars: impl Iterator<Item = (String, Shape, Option<f64>)>,
) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (name, shape, value) in bars {
        if groups.last().is_none_or(|group| group.name != name) {
            let bars = Vec::new();
            groups.push(Group { name, bars });
        }
        let series = shapes.iter().position(|known| *known == shape);
        let value = value.filter(|value| *value > 0.0);
        if let (Some(group), Some(bar)) = (groups.last_mut(), series.zip(value)) {
            group.bars.push(bar);
        }
    }
    groups
}

/// As many as the own machine can be expected to run.
const REPLICAS_MAX: usize = 9;
