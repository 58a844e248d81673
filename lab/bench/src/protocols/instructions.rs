//! Instructions for a write, counted by callgrind: the program runs itself under it.

use std::process::Command;

use clap::Args;

use super::named;
use quorate_sim::per_write::{PerWrite, put_in_memory};

/// Writes of the shorter of two runs, whose difference counts.
const WRITES: usize = 400;

/// What the role that is counted is told.
#[derive(Debug, Clone, Args)]
pub struct PutInMemoryArgs {
    /// The protocol, as in the table
    #[arg(long)]
    way: String,
    /// How many replicas
    #[arg(long)]
    replicas: u16,
    /// How many writes
    #[arg(long)]
    writes: usize,
}

/// Puts so much into hosts of this process, and nothing else.
///
/// # Errors
/// If they do not get through.
pub(crate) fn run(args: &PutInMemoryArgs) -> Result<(), String> {
    let per_write = PerWrite {
        way: named(&args.way)?,
        replicas: args.replicas,
        seed: 0,
    };
    put_in_memory(&per_write, args.writes)
}

/// Instructions of all hosts for a write; `None` without valgrind.
pub(super) fn count(per_write: &PerWrite) -> Option<f64> {
    let (short, long) = (
        collected(per_write, WRITES)?,
        collected(per_write, 2 * WRITES)?,
    );
    Some((long - short) as f64 / WRITES as f64)
}

fn collected(per_write: &PerWrite, writes: usize) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args(["bench", "put-in-memory", "--way", per_write.way.name])
        .args(["--replicas", &per_write.replicas.to_string()])
        .args(["--writes", &writes.to_string()])
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}
