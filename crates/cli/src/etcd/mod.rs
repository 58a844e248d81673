//! `quorate etcd`, and a program of the name `etcd`: a replica that is started by etcd's command line.
//!
//! What is given is read as etcd reads it ([`given`], [`file`]), by one table of flags ([`flags`]). It is said in terms
//! of `quorate serve` ([`translate`]), and the members, which etcd calls by name and address, get their numbers
//! ([`members`]).

mod discovery;
mod dns;
mod file;
mod flags;
#[cfg(test)]
mod fuzz;
mod given;
mod help;
mod host;
mod members;
pub(crate) mod roster;
#[cfg(test)]
mod tests;
mod translate;
pub(crate) mod urls;
mod yaml;

use crate::serve::{self, ServeOptions};
use crate::{Cli, Command, Failure, logging};
use clap::{CommandFactory, Parser};
use given::{Asked, Given};
use quorate_server::PeerSecurity;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use translate::Plan;
use urls::Url;

/// The name of the program, and of the command.
pub(crate) const NAME: &str = "etcd";

/// Whether a program was called by the name of etcd.
pub(crate) fn is_called(program: &OsStr) -> bool {
    Path::new(program).file_name() == Some(OsStr::new(NAME))
}

/// Runs a replica as etcd's command line says, until it is told to stop.
///
/// # Errors
/// [`Failure::Usage`] for flags that make no sense, [`Failure::Failed`] for all else, as etcd's exit codes have it.
pub(crate) fn run(words: &[OsString]) -> Result<(), Failure> {
    let words: Result<Vec<String>, _> = words.iter().cloned().map(OsString::into_string).collect();
    let words = words.map_err(|word| Failure::Usage(format!("{word:?} is no text in UTF-8")))?;
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let asked = given::read(&words, variables).inspect_err(|failure| {
        if matches!(failure, Failure::Usage(_)) {
            eprintln!("{}", help::USAGE);
        }
    })?;
    match asked {
        Asked::Help => print!("{}{}", help::USAGE, help::flags()),
        Asked::Version => print!("{}", help::version()),
        Asked::Start(given) => start(&given)?,
        Asked::StartFromFile {
            path,
            is_more_given,
        } => {
            let mut given = file::read(&path).map_err(Failure::Failed)?;
            if is_more_given {
                given.warnings.push(format!(
                    "loaded the configuration file {path}: other flags and variables of the environment are ignored"
                ));
            }
            start(&given)?;
        }
    }
    Ok(())
}

/// Starts a replica, and ends the process by the signal that told it to stop.
fn start(given: &Given) -> Result<(), Failure> {
    let commands = Cli::command();
    let serve = commands.find_subcommand("serve");
    let plan = serve.ok_or_else(|| "there is no serve".to_owned());
    let plan = plan.and_then(|serve| translate::plan(given, serve));
    let mut plan = plan.map_err(Failure::Failed)?;
    logging::start(&plan.log)?;
    plan.peer_security = peer_security(&plan)?;
    for warning in &plan.warnings {
        tracing::warn!("{warning}");
    }
    let place = members::find(&plan).map_err(Failure::Failed)?;
    let cluster = roster::by_number(&place.members);
    let line = plan.serve_line(place.number, &cluster, place.is_new);
    let settings = serve::resolve(options(&line)?).map_err(as_failed)?;
    if !place.is_of_folder {
        roster::store(&plan.data_dir, &place.members).map_err(Failure::Failed)?;
    }
    if let Some(signal) = serve::run_with(settings).map_err(as_failed)? {
        signal.end_process();
    }
    Ok(())
}

/// What connections to other members begin with, which are asked before it is known which of them this one is.
fn peer_security(plan: &Plan) -> Result<PeerSecurity, Failure> {
    let line = ["serve".to_owned()]
        .into_iter()
        .chain(plan.handed.iter().cloned());
    let options = options(&line.collect::<Vec<_>>())?;
    let listened = urls::joined(&plan.listen_peer);
    let own = plan
        .advertise_peer
        .first()
        .map_or_else(String::new, Url::to_string);
    serve::peer_security(&options, &listened, &own, &plan.data_dir).map_err(as_failed)
}

/// The options of `serve` in a command line of this program.
fn options(line: &[String]) -> Result<ServeOptions, Failure> {
    let program = ["quorate"].into_iter();
    match Cli::try_parse_from(program.chain(line.iter().map(String::as_str))) {
        Ok(Cli {
            command: Command::Serve(options),
        }) => Ok(*options),
        Ok(_) => Err(Failure::Failed(format!("{line:?} runs no replica"))),
        Err(error) => {
            let text = error.to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text);
            Err(Failure::Failed(text.trim_end().to_owned()))
        }
    }
}

/// A configuration that makes no sense ends etcd with code 1, unlike flags that it cannot read.
fn as_failed(failure: Failure) -> Failure {
    match failure {
        Failure::Usage(why) | Failure::Failed(why) => Failure::Failed(why),
    }
}
