//! The simulator on its own: `cargo run --release -p quorate-sim --example sim -- --seeds 0..1000`.

use clap::Parser;
use quorate_sim::SimArgs;
use std::process::ExitCode;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: SimArgs,
}

fn main() -> ExitCode {
    quorate_sim::run(&CommandLine::parse().args)
}
