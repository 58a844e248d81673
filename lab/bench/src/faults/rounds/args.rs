//! What `bench rounds` can be told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;

use quorate_load::load::payload::IDENTITY_BYTES;
use quorate_tooling::units;

use crate::faults::args::{FaultArgs, check_clients};

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
    /// The number of replicas
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
    /// The executable of before, for --kind upgrade
    #[arg(long, value_name = "FILE")]
    pub older: Option<PathBuf>,
    /// For --kind upgrade, the feature level that the cluster must reach by itself: the older program must not be
    /// able to come back from then on
    #[arg(long, value_name = "LEVEL")]
    pub reaches: Option<u32>,
    /// What survives a crash of all replicas: disk or memory
    #[arg(long, default_value = "disk", value_parser = ["disk", "memory"])]
    pub durability: String,
    /// The options that both plans of faults share.
    #[command(flatten)]
    pub faults: FaultArgs,
}

/// What happens to the cluster in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One replica is killed and started again
    #[default]
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
    /// The cluster begins with an older program (--older); every replica is killed and started again with the
    /// newer one, each when the one before votes again, and then one more time with the older one
    Upgrade,
    /// One replica is stopped for a while (SIGSTOP) and continues
    Pause,
    /// Clients write through gateways without a replica, which are killed and started again at random; every
    /// write is asked for again elsewhere when its gateway dies, and must be found executed once
    KillGateway,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        out.pad(value.as_ref().map_or("", |value| value.get_name()))
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
        let upgrades = self.kind.contains(&Kind::Upgrade);
        if upgrades != self.older.is_some() {
            return Err("--kind upgrade and --older FILE need each other".to_owned());
        }
        if upgrades && (self.kind.len() > 1 || self.rounds > 1) {
            return Err(
                "--kind upgrade: a cluster is upgraded once: no other kind, and --rounds 1"
                    .to_owned(),
            );
        }
        if self.durability == "memory" && self.kind.contains(&Kind::KillAll) {
            return Err("--kind kill-all: nothing in memory survives the death of all".to_owned());
        }
        if self.kind.contains(&Kind::KillGateway) {
            check_clients(self.clients, self.gateways, "gateways")?;
        }
        check_clients(self.clients, self.replicas, "replicas")
    }
}

/// Shorter than this, a fault has no room in it.
const LOAD_MIN: Duration = Duration::from_millis(500);
