//! Commands that are in the laboratory now, and say so.

use crate::Failure;
use clap::{Args, Subcommand};
use std::ffi::OsString;

/// The subcommands of `quorate bench`.
#[derive(Subcommand)]
pub(crate) enum BenchCommand {
    #[command(flatten)]
    Own(Box<quorate_load::BenchCommand>),
    /// A name that is not among them, and what follows it.
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

/// What follows the name of a command that is not here.
#[derive(Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub(crate) words: Vec<OsString>,
}

/// Why a subcommand of `bench` cannot be run here.
pub(crate) fn bench(words: &[OsString]) -> Failure {
    match words.first().map(|word| word.to_string_lossy()) {
        Some(name) if IN_LAB.contains(&&*name) => to_lab("bench", words),
        name => Failure::Usage(format!(
            "there is no bench {}: `quorate bench --help` lists the benches of this program, \
            `quorate-lab bench --help` those of the laboratory",
            name.unwrap_or_default()
        )),
    }
}

/// The error that says where a command went, as it is to be typed.
pub(crate) fn to_lab(command: &str, words: &[OsString]) -> Failure {
    let mut line = format!("quorate-lab {command}");
    for word in words {
        line.push(' ');
        line.push_str(&word.to_string_lossy());
    }
    Failure::Usage(format!(
        "{command} has moved to the laboratory: {line} (built by cargo build --release -p quorate-lab)"
    ))
}

/// Benches of the laboratory, most of which `quorate bench` had once.
const IN_LAB: [&str; 28] = [
    "attack",
    "chaos",
    "clocks",
    "colocated",
    "commute",
    "compare",
    "cost",
    "differential",
    "failover",
    "floor",
    "large",
    "members",
    "protocols",
    "repeats",
    "ranges",
    "redis",
    "redis-failover",
    "redis-figures",
    "redis-move",
    "redis-rounds",
    "rings",
    "rounds",
    "sizes",
    "survive",
    "vary",
    "wan",
    "watchers",
    "ycsb",
];
