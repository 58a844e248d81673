//! The `bench` subcommands in an executable of their own: `cargo run --example bench -- bench ...`.

use std::process::ExitCode;

use clap::Parser;
use quorate_bench::BenchCommand;

#[derive(Parser)]
enum Commands {
    /// Measure
    #[command(subcommand)]
    Bench(BenchCommand),
}

fn main() -> ExitCode {
    let Commands::Bench(command) = Commands::parse();
    quorate_bench::run(command)
}
