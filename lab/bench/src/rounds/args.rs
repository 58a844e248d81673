//! What `bench rounds` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use quorate_load::load::payload::IDENTITY_BYTES;
use quorate_tooling::units;

/// The options of `bench rounds`.
#[derive(Debug, Clone, Args)]
pub struct RoundsArgs {
    /// What happens to the cluster in each round; several kinds, separated by commas, come one
    /// after the other
    #[arg(long, value_enum, value_delimiter = ',', required = true)]
    pub kind: Vec<Kind>,
    /// Rounds of each kind, all on one data folder
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub rounds: u16,
    /// Replicas
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub replicas: u8,
    /// Replicas that are killed at once where the kind names one (kill-one, wipe)
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    pub victims: u8,
    /// Gateways, where the kind kills them (kill-gateway)
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=16))]
    pub gateways: u8,
    /// Clients, spread over the replicas or gateways, each with one operation outstanding
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    pub val_size: usize,
    /// Length of each stretch of load: one without a fault, one with it
    #[arg(long, default_value = "2", value_parser = units::duration)]
    pub load_seconds: Duration,
    /// How long a paused replica is stopped
    #[arg(long, default_value = "10s", value_parser = units::duration)]
    pub pause: Duration,
    /// How long replicas may take to serve again, and to come to the same state
    #[arg(long, default_value = "60s", value_parser = units::duration)]
    pub patience: Duration,
    /// Clients give an operation up after this time; for those of a healthy replica that is a
    /// violation
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    pub timeout: Duration,
    /// Go on with the next round after a violation
    #[arg(long)]
    pub keep_going: bool,
    /// Decides keys, values and when faults happen [default: drawn at random and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// How the replicas agree
    #[arg(long, default_value = "rabia")]
    pub protocol: String,
    /// What survives a crash of all replicas: disk or memory
    #[arg(long, default_value = "disk", value_parser = ["disk", "memory"])]
    pub durability: String,
    /// Another option for every replica's `quorate serve`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub server_arg: Vec<String>,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The quorate executable [default: this one]
    #[arg(long)]
    pub quorate: Option<PathBuf>,
    /// Directory for the data, on the disk to test [default: TMPDIR or here]
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Also write every round to this file as one JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What happens to the cluster in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One replica is killed and started again
    KillOne,
    /// All replicas are killed at once and started again
    KillAll,
    /// One replica is killed, its data folder deleted, and started again with nothing
    Wipe,
    /// Two replicas are added and one of them is removed; the other is killed, its data folder deleted, and started
    /// again by the command that was printed when it was added. In the end it is removed, too
    ReturnAdded,
    /// Every replica is killed and started again, each when the one before votes again
    Rolling,
    /// One replica is stopped for a while (SIGSTOP) and continues
    Pause,
    /// Clients write through gateways without a replica, which are killed and started again at random; every
    /// write is asked for again elsewhere when its gateway dies, and must be found executed once
    KillGateway,
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::KillOne => "kill-one",
            Kind::KillAll => "kill-all",
            Kind::Wipe => "wipe",
            Kind::ReturnAdded => "return-added",
            Kind::Rolling => "rolling",
            Kind::Pause => "pause",
            Kind::KillGateway => "kill-gateway",
        }
    }
}

impl RoundsArgs {
    /// Refuses what cannot work.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.val_size < IDENTITY_BYTES {
            return Err(format!(
                "--val-size {} is too small: values of fewer than {IDENTITY_BYTES} bytes cannot \
                 be told apart",
                self.val_size
            ));
        }
        if self.load_seconds < LOAD_MIN {
            return Err("--load-seconds must be at least 0.5".to_owned());
        }
        let survivors_needed = self.kind.iter().any(|kind| *kind != Kind::KillAll);
        if survivors_needed && self.replicas <= 2 * self.victims {
            return Err(format!(
                "--replicas {}: only more than {} can do without {} of them",
                self.replicas,
                2 * self.victims,
                self.victims
            ));
        }
        if self.durability == "memory" && self.kind.contains(&Kind::KillAll) {
            return Err("--kind kill-all: nothing in memory survives the death of all".to_owned());
        }
        let is_apart = self.kind.contains(&Kind::KillGateway);
        if is_apart && self.clients < u32::from(self.gateways) {
            return Err(format!(
                "--clients {}: every one of the {} gateways needs a client",
                self.clients, self.gateways
            ));
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

/// Shorter than this, a fault has no room in it.
const LOAD_MIN: Duration = Duration::from_millis(500);
