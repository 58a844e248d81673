//! `quorate`: state-machine replication with a choice of protocols, behind the etcd v3 API.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is outside the rings"
)]

mod address;
mod allocator;
mod cluster;
mod compaction;
#[cfg(test)]
mod documented;
mod endpoints;
mod face;
mod gateway;
mod genesis;
mod layers;
mod log;
mod logging;
mod modes;
mod notify;
mod polling;
mod quorums;
mod recode;
mod rounds;
mod serve;
mod snapshots;
mod status;
mod up;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "quorate", version, about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one replica
    Serve(Box<serve::ServeOptions>),
    /// Run a gateway: a process without data that has a cluster order what its clients write
    Gateway(Box<gateway::GatewayOptions>),
    /// Run a whole cluster on this machine, one process per replica
    Up(up::UpOptions),
    /// Show how a cluster is: replicas, slots, latencies, queues, disk, memory
    Status(status::StatusOptions),
    /// Show and change what a cluster consists of
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show what a replica's log holds
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Run whole clusters in virtual time, under faults, and judge what they did
    Sim(Box<quorate_sim::SimArgs>),
    /// Search every schedule of small clusters
    Model(quorate_model::ModelOptions),
    /// Show what RS-Paxos survives and what it costs, for each choice of quorums and code
    Quorums(quorums::QuorumsOptions),
    /// Measure a cluster over the etcd API, and check that it loses nothing
    #[command(subcommand)]
    Bench(quorate_bench::BenchCommand),
}

/// Why a command did not do what it was told.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense as given: exit code 2, as for an unknown flag.
    Usage(String),
    /// It made sense and did not work: exit code 1.
    Failed(String),
}

fn main() -> ExitCode {
    allocator::give_back_soon();
    let result = match Cli::parse().command {
        Command::Serve(options) => serve::run(*options),
        Command::Gateway(options) => gateway::run(&options),
        Command::Up(options) => up::run(&options),
        Command::Status(options) => match status::run(&options) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Cluster(command) => cluster::run(&command),
        Command::Log(command) => log::run(&command),
        Command::Sim(args) => return quorate_sim::run(&args),
        Command::Model(options) => return quorate_model::run(&options),
        Command::Quorums(options) => {
            quorums::run(&options);
            Ok(())
        }
        Command::Bench(command) => return quorate_bench::run(command),
    };
    let (message, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Failed(message)) => (message, 1),
    };
    eprintln!("error: {message}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_every_command() {
        let help = Cli::command().render_help().to_string();
        for command in Cli::command().get_subcommands() {
            let line = format!("\n  {} ", command.get_name());
            assert!(help.contains(&line), "{line:?} is missing:\n{help}");
        }
    }
}
