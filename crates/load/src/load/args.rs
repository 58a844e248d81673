//! What `bench put`, `get` and `mixed` can be told.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::pace::Arrivals;
use super::payload::IDENTITY_BYTES;
use quorate_tooling::login::Login;
use quorate_tooling::tls_args::ClientTlsArgs;
use quorate_tooling::units;

/// What every kind of load can be told.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Where the servers listen, separated by commas; connections are spread over them in turn
    #[arg(long, value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    pub endpoints: Vec<String>,
    /// What servers that speak TLS are shown, and held against.
    #[command(flatten)]
    pub tls: ClientTlsArgs,
    /// The user who asks, and the password: every connection logs in
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = Login::parse)]
    pub user: Option<Login>,
    /// Connections the clients share [default: one per client, at most 16]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub conns: Option<u32>,
    /// Clients, each with one operation outstanding
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    pub clients: u32,
    /// Stop after this many operations
    #[arg(long, conflicts_with = "duration")]
    pub total: Option<u64>,
    /// Stop after this time [default: 10s]
    #[arg(long, value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Load before measuring starts
    #[arg(long, default_value = "0s", value_parser = units::duration)]
    pub warmup: Duration,
    /// Operations per second, sent by the clock: latency counts from the time each was due
    /// [default: a client sends when its last answer has come]
    #[arg(long)]
    pub rate: Option<f64>,
    /// How operations of a --rate are spread over time
    #[arg(long, value_enum, default_value_t, requires = "rate")]
    pub arrivals: Arrivals,
    /// Give an operation up after this time; its result counts as unknown
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    pub timeout: Duration,
    /// Bytes per value
    #[arg(long, default_value = "256", value_parser = units::bytes)]
    pub val_size: usize,
    /// Bytes per key
    #[arg(long, default_value = "16", value_parser = units::bytes)]
    pub key_size: usize,
    /// Keys chosen from; with --verify, keys per run, overwritten [default: 10000; with --verify
    /// every write has its own key]
    #[arg(long)]
    pub key_space: Option<u64>,
    /// How unevenly keys are chosen: the i-th 1/i^SKEW times as often as the first; 0.99 is YCSB's
    #[arg(long, default_value_t = 0.0)]
    pub skew: f64,
    /// Decides keys, values and the order of operations [default: drawn at random and printed]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Threads of the load generator; more than one takes cores from servers beside it
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
    /// Print the longest time without a completion, per endpoint and over the survivors; a client
    /// whose answer was lost waits out --timeout first, so choose that short
    #[arg(long)]
    pub gap: bool,
    /// Write every operation, as its client saw it, to this file as JSON lines
    #[arg(long)]
    pub history: Option<PathBuf>,
    /// Process ids of the servers, separated by commas, to report what an operation costs them
    #[arg(long, value_delimiter = ',')]
    pub server_pids: Vec<u32>,
    /// URLs of the servers' /metrics, separated by commas, to report flushes per command
    #[arg(long, value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Accept endpoints that do not answer, at the start and when reading back
    #[arg(long)]
    pub allow_down: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
}

impl LoadArgs {
    /// How many operations a second, and how they are spread, in an open loop.
    pub fn pace(&self) -> Option<(f64, Arrivals)> {
        self.rate.map(|rate| (rate, self.arrivals))
    }

    /// What the command line says when it says nothing but where the servers are.
    pub fn at(endpoints: Vec<String>) -> LoadArgs {
        LoadArgs {
            endpoints,
            tls: ClientTlsArgs::default(),
            user: None,
            conns: None,
            clients: 16,
            total: None,
            duration: None,
            warmup: Duration::ZERO,
            rate: None,
            arrivals: Arrivals::Even,
            timeout: Duration::from_secs(5),
            val_size: 256,
            key_size: 16,
            key_space: None,
            skew: 0.0,
            seed: None,
            workers: 1,
            gap: false,
            history: None,
            server_pids: Vec::new(),
            metrics: Vec::new(),
            allow_down: false,
            json: false,
        }
    }
}

/// What reading can be told.
#[derive(Debug, Clone, Default, Args)]
pub struct ReadArgs {
    /// Let each server answer from its own state, even if stale
    #[arg(long)]
    pub serializable: bool,
    /// Write every key of the key space once before anything else
    #[arg(long)]
    pub fill: bool,
}

/// What checking can be told.
#[derive(Debug, Clone, Default, Args)]
pub struct VerifyArgs {
    /// Read everything back through every endpoint; exit with 1 if an acknowledged write is
    /// lost, altered or stale anywhere
    #[arg(long)]
    pub verify: bool,
}

/// The options of `bench put`.
#[derive(Debug, Clone, Args)]
pub struct PutArgs {
    /// How to send.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Whether to check.
    #[command(flatten)]
    pub verify: VerifyArgs,
}

/// The options of `bench get`.
#[derive(Debug, Clone, Args)]
pub struct GetArgs {
    /// How to send.
    #[command(flatten)]
    pub load: LoadArgs,
    /// How to read.
    #[command(flatten)]
    pub read: ReadArgs,
}

/// The options of `bench mixed`.
#[derive(Debug, Clone, Args)]
pub struct MixedArgs {
    /// Share of reads, from 0 to 1
    #[arg(long, default_value_t = 0.5)]
    pub read_share: f64,
    /// How to send.
    #[command(flatten)]
    pub load: LoadArgs,
    /// How to read.
    #[command(flatten)]
    pub read: ReadArgs,
    /// Whether to check.
    #[command(flatten)]
    pub verify: VerifyArgs,
}

/// A load to run, whichever subcommand asked for it.
#[derive(Debug, Clone)]
pub struct Job {
    /// The operation's name in the report.
    pub name: &'static str,
    /// Share of reads, from 0 to 1.
    pub read_share: f64,
    /// How to send.
    pub load: LoadArgs,
    /// How to read.
    pub read: ReadArgs,
    /// Whether to check.
    pub verify: VerifyArgs,
}

impl From<PutArgs> for Job {
    fn from(PutArgs { load, verify }: PutArgs) -> Job {
        Job {
            name: "put",
            read_share: 0.0,
            load,
            read: ReadArgs::default(),
            verify,
        }
    }
}

impl From<GetArgs> for Job {
    fn from(GetArgs { load, read }: GetArgs) -> Job {
        Job {
            name: "get",
            read_share: 1.0,
            load,
            read,
            verify: VerifyArgs::default(),
        }
    }
}

impl From<MixedArgs> for Job {
    fn from(
        MixedArgs {
            read_share,
            load,
            read,
            verify,
        }: MixedArgs,
    ) -> Job {
        Job {
            name: "mixed",
            read_share,
            load,
            read,
            verify,
        }
    }
}

impl Job {
    /// Refuses what cannot work, each with one sentence.
    pub fn check(&self) -> Result<(), String> {
        let load = &self.load;
        let refuse = |wrong: bool, why: String| if wrong { Err(why) } else { Ok(()) };
        refuse(
            !(0.0..=1.0).contains(&self.read_share),
            "--read-share must be from 0 to 1".to_owned(),
        )?;
        refuse(
            load.rate
                .is_some_and(|rate| !(rate > 0.0 && rate <= RATE_MAX)),
            format!("--rate must be above 0 and at most {RATE_MAX}"),
        )?;
        refuse(
            load.key_space == Some(0),
            "--key-space must be at least 1".to_owned(),
        )?;
        refuse(
            !(0.0..=SKEW_MAX).contains(&load.skew),
            format!("--skew must be from 0 to {SKEW_MAX}"),
        )?;
        refuse(
            load.skew > 0.0 && self.key_space() > SKEWED_KEYS_MAX,
            format!("--skew takes at most {SKEWED_KEYS_MAX} keys: lower --key-space"),
        )?;
        refuse(
            load.key_size == 0,
            "--key-size must be at least 1 byte".to_owned(),
        )?;
        refuse(
            self.connections() > load.clients,
            format!(
                "--conns {} has connections without a client",
                self.connections()
            ),
        )?;
        refuse(
            self.verify.verify && load.val_size < IDENTITY_BYTES,
            format!("--verify needs --val-size {IDENTITY_BYTES} or more: values must be unique"),
        )?;
        refuse(
            self.verify.verify
                && load
                    .key_space
                    .is_some_and(|keys| keys < load.clients.into()),
            "--verify needs at least one key per client: raise --key-space".to_owned(),
        )?;
        refuse(
            self.verify.verify && load.skew > 0.0,
            "--skew and --verify do not go together: each client verifies keys of its own"
                .to_owned(),
        )?;
        refuse(
            self.verify.verify && self.read.fill,
            "--fill and --verify do not go together: verified keys are new in every run".to_owned(),
        )
    }

    /// Connections, by default as many as clients up to a limit: every further one costs the
    /// servers system calls and tells nothing new.
    pub fn connections(&self) -> u32 {
        self.load
            .conns
            .unwrap_or(self.load.clients.min(CONNECTIONS_DEFAULT_MAX))
    }

    /// Keys chosen from, when clients share them.
    pub fn key_space(&self) -> u64 {
        self.load.key_space.unwrap_or(KEY_SPACE_DEFAULT)
    }
}

const SKEW_MAX: f64 = 10.0;
/// Each takes eight bytes.
const SKEWED_KEYS_MAX: u64 = 10_000_000;
const RATE_MAX: f64 = 10_000_000.0;
/// More connections than this are only made when asked for.
pub const CONNECTIONS_DEFAULT_MAX: u32 = 16;
const KEY_SPACE_DEFAULT: u64 = 10_000;
