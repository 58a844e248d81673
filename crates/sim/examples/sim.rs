//! The simulator on its own: `cargo run --release -p quorate-sim --example sim -- --seeds 0..1000`.

use clap::Parser;
use quorate_sim::SimOptions;
use std::process::ExitCode;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    options: SimOptions,
}

fn main() -> ExitCode {
    quorate_sim::run(&CommandLine::parse().options)
}
