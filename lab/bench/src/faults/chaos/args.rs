//! What `bench chaos` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::fault::Fault;
use crate::faults::args::{FaultArgs, check_clients};
use quorate_tooling::units;

/// The options of `bench chaos`.
#[derive(Debug, Clone, Args)]
pub struct ChaosArgs {
    /// Rounds, all on the same data
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub rounds: u16,
    /// What may happen in a round; one or two of these are drawn [default: all that this machine
    /// allows]
    #[arg(long = "faults", value_enum, value_delimiter = ',')]
    pub kinds: Vec<Fault>,
    /// The number of replicas
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Clients, spread over the replicas, each with one request outstanding
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,
    /// Length of a round's load, the faults in it
    #[arg(long, default_value = "6", value_parser = units::duration)]
    pub load_seconds: Duration,
    /// Size of each replica's disk; these are in memory where namespaces are allowed
    #[arg(long, default_value = "256MiB", value_parser = units::bytes)]
    pub disk_bytes: usize,
    /// Use no namespaces, although they may be allowed
    #[arg(long)]
    pub loopback: bool,
    /// The options that both plans of faults share.
    #[command(flatten)]
    pub faults: FaultArgs,
    /// The directory of a process that was started in namespaces of its own.
    #[arg(long, hide = true, requires = "outside")]
    pub inside: Option<PathBuf>,
    /// The process that made the namespaces and the directory of `inside`.
    #[arg(long, hide = true, requires = "inside")]
    pub outside: Option<u32>,
}

impl ChaosArgs {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.load_seconds < LOAD_MIN {
            return Err("--load-seconds must be at least 2: faults need room".to_owned());
        }
        if self.disk_bytes < DISK_MIN {
            return Err("--disk-bytes must be at least 96MiB: a log takes 16 MiB at a time".into());
        }
        check_clients(self.clients, self.replicas, "replicas")
    }
}

const LOAD_MIN: Duration = Duration::from_secs(2);
const DISK_MIN: usize = 96 << 20;
