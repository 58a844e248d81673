//! `quorate doctor`: what keeps a replica from starting or a cluster from being well, and what to do.
//!
//! It looks, and changes nothing: what a start would create or begin is left to the start.

mod certificates;
mod disk;
mod finding;
mod machine;
mod network;
mod running;
mod start;

use crate::Failure;
use crate::endpoints::{Asked, Endpoints};
use crate::serve::ServeOptions;
use crate::status::{Gathered, LOOK_PAUSE, gather};
use clap::{Args, Parser};
pub(crate) use finding::Findings;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// The options of `quorate doctor`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:
  quorate doctor --config-file /etc/quorate/quorate.toml    before a replica is started
  quorate doctor -- --id 2 --data-dir /var/lib/quorate      the same, of flags
  quorate doctor --endpoints 10.0.0.1:2379                  a cluster that runs")]
pub(crate) struct DoctorOptions {
    /// Examine the replica that this file of `quorate serve` describes, on this machine and before it is started
    #[arg(long, value_name = "FILE")]
    config_file: Option<PathBuf>,

    #[command(flatten)]
    endpoints: Endpoints,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    /// Flags of `quorate serve`: examine the replica that they describe
    #[arg(last = true, value_name = "FLAGS")]
    flags: Vec<OsString>,
}

/// The command line of a replica that is to be examined.
#[derive(Parser)]
#[command(name = "quorate doctor --", disable_help_flag = true)]
struct Described {
    #[command(flatten)]
    options: ServeOptions,
}

/// Examines a replica before its start, or a cluster that runs. The exit code says whether there is a problem.
pub(crate) fn run(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let found = match options.config_file.is_some() || !options.flags.is_empty() {
        true => Findings::of(start::examine(described(options)?)),
        false => of_cluster(&options.endpoints.open()?).0,
    };
    if options.json {
        let json = serde_json::to_string(&found);
        println!(
            "{}",
            json.map_err(|error| Failure::Failed(error.to_string()))?
        );
    } else {
        print!("{}", found.render());
    }
    Ok(match found.healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

/// What is found of a cluster that runs, and what its replicas said.
pub(crate) fn of_cluster(asked: &Asked) -> (Findings, Vec<Gathered>) {
    let sights = gather(asked, Some(LOOK_PAUSE));
    (Findings::of(running::examine(&sights)), sights)
}

/// The options of the replica that is to be examined.
fn described(options: &DoctorOptions) -> Result<ServeOptions, Failure> {
    let name = OsString::from("quorate doctor --");
    let words = std::iter::once(&name).chain(&options.flags);
    let described = Described::try_parse_from(words);
    let described = described.map_err(|error| Failure::Usage(error.to_string()))?;
    let mut serve = described.options;
    if let Some(path) = &options.config_file {
        serve.set_config_file(path);
    }
    Ok(serve)
}
