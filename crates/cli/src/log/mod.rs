//! `quorate log`: what a replica's log holds.

mod export;
mod json;
mod orders;

use crate::Failure;
use clap::Subcommand;
use export::ExportOptions;

/// The subcommands of `log`.
#[derive(Subcommand)]
pub(crate) enum LogCommand {
    /// Write the committed commands of a stopped replica, in order, as JSON lines
    #[command(after_help = export::HELP)]
    Export(ExportOptions),
}

/// Runs a subcommand.
pub(crate) fn run(command: &LogCommand) -> Result<(), Failure> {
    match command {
        LogCommand::Export(options) => export::run(options),
    }
}
