//! What both plans of faults can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use quorate_tooling::program::Place;
use quorate_tooling::units;

/// The options that `bench rounds` and `bench chaos` share.
#[derive(Debug, Clone, Args)]
pub struct FaultArgs {
    /// How long replicas may take to serve again, and to come to the same state, once all is healed
    #[arg(long, default_value = "60s", value_parser = units::duration)]
    pub patience: Duration,
    /// Clients give a request up after this time; in `bench rounds` that is a violation for those of a healthy
    /// replica
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
    /// The program to start, and the directory for its data.
    #[command(flatten)]
    pub place: Place,
    /// Also write every round to this file as one JSON array
    #[arg(long)]
    pub json: Option<PathBuf>,
}

impl FaultArgs {
    /// The seed that was asked for, or one drawn at random.
    pub(super) fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..1 << 40))
    }
}

/// Refuses fewer clients than there are endpoints.
pub(super) fn check_clients(clients: u32, endpoints: u8, what: &str) -> Result<(), String> {
    match clients < u32::from(endpoints) {
        true => Err(format!(
            "--clients {clients}: every one of the {endpoints} {what} needs a client"
        )),
        false => Ok(()),
    }
}
