//! `quorate`: state-machine replication with a choice of protocols, behind the etcd v3 API.

#![allow(
    clippy::disallowed_methods,
    reason = "the command line is outside the rings"
)]

mod address;
mod backup;
mod bundle;
mod cluster;
mod compaction;
mod config_file;
mod connection_options;
mod doctor;
#[cfg(test)]
mod documented;
mod endpoints;
mod etcd;
mod etcd_client;
mod etcd_options;
mod face;
mod gateway;
mod import;
mod log;
mod logging;
mod manual;
mod modes;
mod moved;
mod nearest;
mod new_cluster;
mod notify;
mod peer_tls;
mod polling;
mod progress;
mod protocol_flags;
mod quorums;
mod rdb_hint;
mod recode;
mod redis;
mod redis_endpoint;
mod redis_options;
mod security;

mod serve;
mod snapshots;
mod status;
mod tls;
mod up;
mod user_args;
mod users;
mod utc;
mod version;
mod web;

use clap::{CommandFactory, Parser, Subcommand};
use moved::BenchCommand;
use quorate_tooling::allocator;
use std::process::ExitCode;

// Tests measure what decoders take, with an allocator of their own.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

#[derive(Parser)]
#[command(name = "quorate", version, long_version = version::long(), about, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run one replica
    Serve(Box<serve::ServeOptions>),
    /// Run one replica with etcd's own command line: flags, variables and files as etcd takes them
    #[command(name = etcd::NAME, disable_help_flag = true)]
    Etcd(moved::Arguments),
    /// Run a gateway: a process without data that has a cluster order what its clients write
    Gateway(Box<gateway::GatewayOptions>),
    /// Run a whole cluster on this machine, one process per replica
    Up(up::UpOptions),
    /// Begin a cluster with the state of an etcd: keys with their history, leases, users
    Import(import::ImportOptions),
    /// Back a cluster up as it changes, and restore the state of any moment
    #[command(subcommand)]
    Backup(backup::BackupCommand),
    /// Show how a cluster is: replicas, slots, latencies, queues, disk, memory
    Status(status::StatusOptions),
    /// Look for what keeps a replica from starting or a cluster from being well, and say what to do
    Doctor(doctor::DoctorOptions),
    /// Write what others need to see of a cluster that is unwell to one archive, without its data
    Bundle(bundle::BundleOptions),
    /// Show and change what a cluster consists of
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Show and change which real server behind the Redis face executes
    #[command(subcommand)]
    Redis(redis::RedisCommand),
    /// Show what a replica's log holds
    #[command(subcommand)]
    Log(log::LogCommand),
    /// Show what RS-Paxos survives and what it costs, for each choice of quorums and code
    Quorums(quorums::QuorumsOptions),
    /// Measure a cluster over the etcd API, and check that it loses nothing
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write what completes command lines in a shell
    Completions(manual::CompletionsOptions),
    /// Write a page of the manual, or all of them: quorate man serve | man -l -
    Man(manual::ManOptions),
    /// The simulator, which is a command of quorate-lab.
    #[command(hide = true, disable_help_flag = true)]
    Sim(moved::Arguments),
    /// The model checker, which is a command of quorate-lab.
    #[command(hide = true, disable_help_flag = true)]
    Model(moved::Arguments),
}

/// Why a command did not do what it was told.
#[derive(Debug)]
enum Failure {
    /// The command makes no sense as given: exit code 2, as for an unknown flag.
    Usage(String),
    /// The command made sense and did not work: exit code 1.
    Failed(String),
}

fn main() -> ExitCode {
    allocator::give_back_soon();
    let mut words = std::env::args_os();
    if words
        .next()
        .is_some_and(|program| etcd::is_called(&program))
    {
        let words: Vec<_> = words.collect();
        return end(etcd::run(&words));
    }
    end(match Cli::parse().command {
        Command::Serve(options) => serve::run(*options),
        Command::Etcd(arguments) => etcd::run(&arguments.words),
        Command::Gateway(options) => gateway::run(&options),
        Command::Up(options) => up::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Backup(command) => backup::run(&command),
        Command::Status(options) => match status::run(&options) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Doctor(options) => match doctor::run(&options) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Bundle(options) => bundle::run(&options),
        Command::Cluster(command) => cluster::run(&command),
        Command::Redis(command) => redis::run(&command),
        Command::Log(command) => log::run(&command),
        Command::Quorums(options) => {
            quorums::run(&options);
            Ok(())
        }
        Command::Bench(BenchCommand::Own(command)) => return quorate_load::run(*command),
        Command::Bench(BenchCommand::Other(words)) => Err(moved::bench(&words)),
        Command::Completions(options) => manual::complete(&options, Cli::command()),
        Command::Man(options) => manual::man(&options, Cli::command()),
        Command::Sim(arguments) => Err(moved::to_lab("sim", &arguments.words)),
        Command::Model(arguments) => Err(moved::to_lab("model", &arguments.words)),
    })
}

/// Says what went wrong, and with which code the program ends.
fn end(result: Result<(), Failure>) -> ExitCode {
    let (message, code) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Usage(message)) => (message, 2),
        Err(Failure::Failed(message)) => (message, 1),
    };
    eprintln!("error: {message}");
    ExitCode::from(code)
}

/// How this program is called in texts, its name first.
#[cfg(test)]
const CALLED_AS: &[&str] = &[
    "quorate ",
    "target/release/quorate ",
    "cargo run --release -- ",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_lists_every_command() {
        let help = Cli::command().render_help().to_string();
        let command = Cli::command();
        let shown = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        for command in shown {
            let line = format!("\n  {} ", command.get_name());
            assert!(help.contains(&line), "{line:?} is missing:\n{help}");
        }
    }
}
