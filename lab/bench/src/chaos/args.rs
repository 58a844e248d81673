//! What `bench chaos` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::fault::Fault;
use quorate_tooling::units;

/// The options of `bench chaos`.
#[derive(Debug, Clone, Args)]
pub struct ChaosArgs {
    /// Rounds, all on the same data
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub rounds: u16,
    /// What may happen in a round; one or two of these are drawn [default: all that this machine
    /// allows]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub faults: Vec<Fault>,
    /// Replicas
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(3..=9))]
    pub replicas: u8,
    /// Clients, spread over the replicas, each with one request outstanding
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: u32,
    /// Length of a round's load, the faults in it
    #[arg(long, default_value = "6", value_parser = units::duration)]
    pub load_seconds: Duration,
    /// How long replicas may take to serve again, and to come to the same state, once all is healed
    #[arg(long, default_value = "60s", value_parser = units::duration)]
    pub patience: Duration,
    /// Clients give a request up after this time
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    pub timeout: Duration,
    /// Go on with the next round after a violation
    #[arg(long)]
    pub keep_going: bool,
    /// Decides faults, victims, moments, keys and values [default: drawn at random and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// How the replicas agree
    #[arg(long, default_value = "rabia")]
    pub protocol: String,
    /// Another option for every replica's `quorate serve`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub server_arg: Vec<String>,
    /// Another option for the `quorate up` that begins the cluster; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// Size of each replica's disk; these are in memory where namespaces are allowed
    #[arg(long, default_value = "256MiB", value_parser = units::bytes)]
    pub disk_bytes: usize,
    /// Use no namespaces, although they may be allowed
    #[arg(long)]
    pub loopback: bool,
    /// The quorate executable [default: this one]
    #[arg(long)]
    pub quorate: Option<PathBuf>,
    /// Directory for logs, and without namespaces for the data [default: TMPDIR or here]
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Also write every round to this file as one JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// In namespaces of its own: the directory, and the process that made both.
    #[arg(long, hide = true, requires = "outside")]
    pub inside: Option<PathBuf>,
    /// See `inside`.
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
        if self.clients < u32::from(self.replicas) {
            return Err(format!(
                "--clients {}: every one of the {} replicas needs a client",
                self.clients, self.replicas
            ));
        }
        Ok(())
    }
}

const LOAD_MIN: Duration = Duration::from_secs(2);
const DISK_MIN: usize = 96 << 20;
