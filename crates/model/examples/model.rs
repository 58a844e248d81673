//! The model checker alone: builds faster than the whole program.

use clap::Parser;
use std::process::ExitCode;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: quorate_model::ModelOptions,
}

fn main() -> ExitCode {
    quorate_model::run(&Cli::parse().options)
}
