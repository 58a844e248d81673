//! `bench sizes`: what a value costs by its size, under several protocols in turns.
//!
//! All run with the same durability; a value of RS-Paxos or Racos is cut so that some fragments rebuild
//! it (`--code`). Clients overwrite a few keys, through the leader or, where nobody leads, through all
//! replicas, and the history is compacted all along: after a while segments of the bulk store are used
//! again and again, and what is measured is a state that could last.
//!
//! Per committed byte (of values of puts that were acknowledged; keys do not count), from the end of
//! a warm-up until the slowest replica is done:
//!
//! - *Sent*: by the replicas' own count of frames to peers (`quorate_peer_sent_bytes_total`), of the
//!   replica that sent most (the leader) and of all; and by the kernel's, which is `bytes_sent` of the `TCP_INFO` of every socket
//!   between two replicas ([`sockets`]); what TCP sent again is in it, and told beside it.
//! - *Written*: by the replicas' own count for log and bulk store (`quorate_log_bytes_total`,
//!   `quorate_bulk_bytes_total`); and by the kernel's, `write_bytes` in `/proc/<pid>/io` of all
//!   replicas. That counts pages that were made dirty: a page of which a flush wrote a part counts
//!   whole, one that was written to twice before a flush once. Snapshots are in it, and are not in the
//!   own count, and so are the zeros that new segments are filled with; these are told beside it
//!   (`quorate_segment_filled_bytes_total`), for a steady state has none. The warm-up goes on until
//!   every replica has turned over three segments without a new one, or for so long, or so many bytes,
//!   that it has to end.
//!
//! Beside each stands what theory gives: `n/k` written by all, `(n-1)/k` sent by the leader or, where
//! nobody leads, by all replicas together, and `k = 1` for Rabia and Multi-Paxos and for values that are
//! too small to be cut ([`theory`]). *Moved* is what a replica sent and received, values from clients
//! included, as the mean over all replicas: `(1 + 2(n-1)/k) / n`.
//!
//! With a limit to every replica's link ([`link`]), what binds is the busier direction of the busiest
//! one: theory then also says how much faster each protocol should be than the last one. Then the bulk
//! store is not brought into its steady state first.

pub(crate) mod compaction;
pub(crate) mod ground;
mod link;
mod plot;
mod sockets;
mod table;
mod theory;
pub(crate) mod traffic;
mod turn;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use quorate_protocols::Code;
use serde::Serialize;

use crate::report::Report;
use crate::{cleanup, units};
pub use theory::{Expected, Shape, System};
pub use traffic::Traffic;

/// What `bench sizes` can be told.
#[derive(Debug, Clone, Args)]
pub struct SizesArgs {
    /// Bytes per value, separated by commas
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1KiB,4KiB,16KiB,64KiB,256KiB,1MiB,4MiB,16MiB",
        value_parser = units::bytes
    )]
    pub sizes: Vec<usize>,
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
    /// Replicas of rabia and multi-paxos, which store whole values
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub whole_replicas: u8,
    /// How often each has its turn
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pub pairs: u16,
    /// Clients, each with one put outstanding; fewer for values of which so many would be more than
    /// 32 MiB
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub clients: u32,
    /// Measured time of each size
    #[arg(long, default_value = "4s", value_parser = units::duration)]
    pub seconds: Duration,
    /// Load before each measurement, at least: it goes on until segments are used again
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pub warmup: Duration,
    /// Limit what each replica can send, and receive, as in 200Mbit per second: each is in a network
    /// namespace of its own (needs root)
    #[arg(long, value_parser = units::bits, value_name = "RATE")]
    pub link: Option<u64>,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    pub quorate_option: Vec<String>,
    /// The quorate executable [default: this one]
    #[arg(long)]
    pub quorate: Option<PathBuf>,
    /// Directory for all data, on the disk to be measured [default: TMPDIR or here]
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Also write everything to this file as one JSON object
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also draw it, into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// In namespaces of its own: the directory for all data, and the process that made both.
    #[arg(long, hide = true, requires = "outside")]
    pub inside: Option<PathBuf>,
    /// See `inside`.
    #[arg(long, hide = true, requires = "inside")]
    pub outside: Option<u32>,
}

/// Everything measured.
#[derive(Debug, Clone, Serialize)]
pub struct Sizes {
    /// What each replica can send and receive in bits per second, if that is limited.
    pub link_bits_per_second: Option<u64>,
    /// What was measured, in the order it ran.
    pub points: Vec<Point>,
}

/// One size under one system in one turn.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// Which turn, from 0.
    pub pair: u16,
    /// What ran.
    #[serde(flatten)]
    pub shape: Shape,
    /// Bytes per value.
    pub value_bytes: usize,
    /// What theory gives.
    pub expected: Expected,
    /// What clients saw, and what it cost the servers.
    pub report: Report,
    /// What was sent and written.
    pub traffic: Traffic,
}

impl SizesArgs {
    /// A protocol as it is to be measured.
    fn shape(&self, system: System) -> Shape {
        system.shape(self.code, self.whole_replicas)
    }

    fn replicas_max(&self) -> u8 {
        let shapes = self.systems.iter().map(|system| self.shape(*system));
        shapes.map(|shape| shape.replicas).max().unwrap_or(0)
    }
}

impl Point {
    /// Bytes of values that were committed.
    pub(crate) fn committed_bytes(&self) -> f64 {
        self.report.operations as f64 * self.value_bytes as f64
    }
}

/// Runs the measurement and prints its tables: 0, or 2 if it could not run.
pub fn run(args: &SizesArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = match (args.link, args.outside) {
        (Some(_), None) => link::outside(args),
        (Some(link), Some(outside)) => {
            link::lay_out(link, outside, args.replicas_max()).and_then(|()| measure(args))
        }
        (None, _) => measure(args),
    };
    result.unwrap_or_else(|error| crate::ended(Err(error)))
}

fn measure(args: &SizesArgs) -> Result<ExitCode, String> {
    check(args)?;
    let mut sizes = Sizes {
        link_bits_per_second: args.link,
        points: Vec::new(),
    };
    for pair in 0..args.pairs {
        let mut systems = args.systems.clone();
        // Whoever comes first finds the machine as the other left it.
        if pair % 2 == 1 {
            systems.reverse();
        }
        for system in systems {
            turn::run(args, pair, args.shape(system), &mut sizes.points)?;
        }
    }
    print!("{}", table::render(&sizes));
    if let Some(path) = &args.json {
        let json = serde_json::to_string(&sizes).map_err(|error| error.to_string())?;
        units::write(path, &(json + "\n"))?;
    }
    if let Some(path) = &args.plot {
        units::write(path, &plot::render(&sizes))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(args: &SizesArgs) -> Result<(), String> {
    if args.code.n > REPLICAS_MAX {
        return Err(format!("--code: at most {REPLICAS_MAX} replicas"));
    }
    if !args.sizes.iter().all(|size| SIZES.contains(size)) || args.systems.is_empty() {
        return Err("--sizes must lie from 1 B to 32 MiB, and --systems name one".to_owned());
    }
    let parent = match &args.data_dir {
        Some(path) => path.clone(),
        None => cleanup::default_parent().map_err(|error| error.to_string())?,
    };
    let told = |error| format!("{}: {error}", parent.display());
    let disk = rustix::fs::statvfs(&parent).map_err(told)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
    eprintln!(
        "{:.1} GiB are free in {}; a cluster takes up to {:.0} GiB",
        gib(free),
        parent.display(),
        gib(DISK_BYTES)
    );
    match free < DISK_BYTES {
        true => Err("that is too little".to_owned()),
        false => Ok(()),
    }
}

/// As many as the own machine can be expected to run.
const REPLICAS_MAX: usize = 9;
const SIZES: std::ops::RangeInclusive<usize> = 1..=32 << 20;
/// What a cluster takes at most: per replica twenty segments of the bulk store, log and snapshots.
const DISK_BYTES: u64 = 8 << 30;
