//! `bench sizes`: what a value costs by its size, under several systems in turns.
//!
//! All run with the same durability; a value of RS-Paxos or Racos is cut so that some fragments rebuild
//! it (`--code`). Clients overwrite a few keys, through the leader or, where nobody leads, through all
//! replicas, and the history is compacted all along: after a while segments of the fragment store are used
//! again and again, and what is measured is a state that could last.
//!
//! Per committed byte (of values of puts that were acknowledged; keys do not count), from the end of
//! a warm-up until the slowest replica is done:
//!
//! - *Sent*: by the replicas' own count of frames to peers (`quorate_peer_sent_bytes_total`), of the
//!   replica that sent most (the leader) and of all; and by the kernel's, which is `bytes_sent` of the `TCP_INFO` of every socket
//!   between two replicas ([`sockets`]); what TCP sent again is in it, and told beside it.
//! - *Written*: by the replicas' own count for log and fragment store (`quorate_log_bytes_total`,
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
//! With a limit to every replica's link (`--link`), what binds is the busier direction of the busiest
//! one: theory then also says how much faster each protocol should be than the last one. Then the bulk
//! store is not brought into its steady state first.

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
use serde::Serialize;

use crate::systems::{Links, Shape, SystemArgs};
use quorate_load::report::Report;
use quorate_tooling::{cleanup, units};
pub use theory::Expected;
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
    /// What to measure, and where.
    #[command(flatten)]
    pub on: SystemArgs,
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
    /// Also write everything to this file as one JSON object
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Also draw it, into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Everything that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Sizes {
    /// What each replica is behind, if its link is limited.
    pub links: Option<Links>,
    /// What was measured, in the order it ran.
    pub points: Vec<Point>,
}

/// One size under one system in one turn.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// The number of the turn, from 0.
    pub pair: u16,
    /// The system that ran.
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

impl Point {
    /// Bytes of values that were committed.
    pub(crate) fn committed_bytes(&self) -> f64 {
        self.report.operations as f64 * self.value_bytes as f64
    }
}

/// Runs the measurement and prints its tables: 0, or 2 if it could not run.
pub fn run(args: &SizesArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = check(args).and_then(|()| args.on.measured(|| measure(args)));
    result.unwrap_or_else(|error| crate::ended(Err(error)))
}

fn measure(args: &SizesArgs) -> Result<ExitCode, String> {
    check_disk(args)?;
    let mut sizes = Sizes {
        links: args.on.links(),
        points: Vec::new(),
    };
    for pair in 0..args.pairs {
        for shape in args.on.shapes(pair) {
            turn::run(args, pair, shape, &mut sizes.points)?;
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
    match args.sizes.iter().all(|size| SIZES.contains(size)) {
        true => Ok(()),
        false => Err("--sizes must lie from 1 B to 32 MiB".to_owned()),
    }
}

fn check_disk(args: &SizesArgs) -> Result<(), String> {
    let parent = match &args.on.place.data_dir {
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

const SIZES: std::ops::RangeInclusive<usize> = 1..=32 << 20;
/// What a cluster takes at most: per replica twenty segments of the fragment store, log and snapshots.
const DISK_BYTES: u64 = 8 << 30;
