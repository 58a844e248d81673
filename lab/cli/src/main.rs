//! `quorate-lab`: the simulator, the model checker, benches and figures.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is outside the rings"
)]

#[cfg(test)]
#[path = "../../../crates/cli/src/documented.rs"]
mod documented;

use clap::{Parser, Subcommand};
use quorate_tooling::allocator::{self, Allocator};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

#[derive(Parser)]
#[command(name = "quorate-lab", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run whole clusters in virtual time, under faults, and judge what they did
    Sim(Box<quorate_sim::SimArgs>),
    /// Search every schedule of small clusters
    Model(quorate_model_checker::ModelOptions),
    /// Print the figures of the protocol's paper: delays of a decision, fast and empty slots under load
    Figures(quorate_sim::FiguresOptions),
    /// Show how replicas that run Chora change between rounds and none while something goes wrong, over time
    Modes(quorate_sim::ModesOptions),
    /// Measure clusters and other systems, and try to break them
    #[command(subcommand)]
    Bench(Box<quorate_bench::BenchCommand>),
}

fn main() -> ExitCode {
    allocator::give_back_soon();
    match Cli::parse().command {
        Command::Sim(args) => quorate_sim::run(&args),
        Command::Model(options) => quorate_model_checker::run(&options),
        Command::Figures(options) => quorate_sim::figures(&options),
        Command::Modes(options) => quorate_sim::modes(&options),
        Command::Bench(command) => quorate_bench::run(*command),
    }
}

/// How this program is called in texts, its name first.
#[cfg(test)]
const CALLED_AS: &[&str] = &["quorate-lab ", "target/release/quorate-lab "];

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
