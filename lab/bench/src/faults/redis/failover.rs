//! `bench redis-failover`: how long clients of Redis are without an answer when the executor is killed or frozen.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use quorate_load::ended;
use quorate_load::replicas::{Replicas, wait_voting};
use quorate_resp::Reply;
use quorate_tooling::cleanup;
use quorate_tooling::terminal::say;
use quorate_tooling::units;

use super::operators_url;
use super::servers::{Mode, RealServers, ask};
use crate::faults::args::FaultArgs;
use crate::faults::operators::operate;

/// The options of `bench redis-failover`.
#[derive(Debug, Clone, Args)]
pub struct RedisFailoverArgs {
    /// What happens to the executor; several kinds, separated by commas, come in turns
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kill,freeze")]
    kind: Vec<End>,
    /// Turns of each kind
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    turns: u16,
    /// How long the executor serves before each turn
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    calm: Duration,
    /// The program to run as server; without a path the first in PATH
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_value = "", default_missing_value = "")]
    redis_server: String,
    /// The options that all plans of faults share.
    #[command(flatten)]
    faults: FaultArgs,
}

/// What happens to an executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum End {
    /// The executing replica is killed (SIGKILL).
    Kill,
    /// The executing replica is stopped (SIGSTOP).
    Freeze,
}

/// Runs all turns: 0 when all went well, 2 when they could not run.
pub fn run(args: &RedisFailoverArgs) -> ExitCode {
    cleanup::on_interrupt();
    ended(turns(args))
}

fn turns(args: &RedisFailoverArgs) -> Result<(), String> {
    let faults = &args.faults;
    let mut options = vec![
        "--face=redis".to_owned(),
        format!("--protocol={}", faults.protocol),
        "--durability=disk".to_owned(),
    ];
    options.extend(RealServers::new(args.redis_server.clone(), Mode::Effects).options());
    let server_args = faults.server_arg.iter();
    options.extend(server_args.map(|arg| format!("--server-arg={arg}")));
    options.extend_from_slice(&faults.quorate_option);
    let (binary, parent) = (faults.place.binary()?, faults.place.parent());
    let replicas = Replicas::begin(binary, REPLICAS, parent, &options, faults.patience, None)?;
    let mut field = Field {
        replicas,
        patience: faults.patience,
        calm: args.calm,
        counted: 0,
        unknown: 0,
    };
    say(format_args!("{} on {REPLICAS} replicas", faults.protocol));
    let mut silences: Vec<Vec<Duration>> = vec![Vec::new(); args.kind.len()];
    for turn in 0..args.turns {
        for (kind, silences) in args.kind.iter().zip(&mut silences) {
            let silence = field.turn(*kind)?;
            say(format_args!(
                "turn {}, {kind:?}: {} ms",
                turn + 1,
                silence.as_millis()
            ));
            silences.push(silence);
        }
    }
    for (kind, mut silences) in args.kind.iter().zip(silences) {
        silences.sort();
        let median = silences[silences.len() / 2].as_millis();
        let worst = silences[silences.len() - 1].as_millis();
        let count = silences.len();
        println!("{kind:?}: median {median} ms, worst {worst} ms of {count}");
    }
    Ok(())
}

/// Where turns take place, with a count that goes on.
struct Field {
    replicas: Replicas,
    patience: Duration,
    calm: Duration,
    /// The last number that was acknowledged.
    counted: i64,
    /// Increments since then of which nobody knows what became.
    unknown: i64,
}

impl Field {
    /// The time from the end of the executor to the first answer of another one.
    fn turn(&mut self, kind: End) -> Result<Duration, String> {
        self.count(0)?;
        let executor = self.executor()?;
        let other = (executor + 1) % self.replicas.endpoints.len();
        let calm = Instant::now() + self.calm;
        while Instant::now() < calm {
            self.count(executor)?;
        }
        self.count(other)?;
        let began = Instant::now();
        match kind {
            End::Kill => self.replicas.kill(&[executor])?,
            End::Freeze => self.replicas.pause(executor)?,
        }
        self.count(other)?;
        let silence = began.elapsed();
        match kind {
            End::Kill => self.replicas.start(&[executor])?,
            End::Freeze => self.replicas.resume(executor)?,
        }
        for index in 0..self.replicas.endpoints.len() {
            let url = operators_url(&self.replicas.endpoints, index)?;
            let name = format!("replica {}", index + 1);
            wait_voting(&url, &name, self.patience, || None)?;
        }
        self.count(executor)?;
        Ok(silence)
    }

    /// Increments at a replica until one is acknowledged.
    fn count(&mut self, at: usize) -> Result<(), String> {
        let url = &self.replicas.endpoints[at];
        let deadline = Instant::now() + self.patience;
        while Instant::now() < deadline {
            match ask(url, &["INCR", "count"], self.patience) {
                Ok(Reply::Integer(now)) => {
                    let least = self.counted + 1;
                    if !(least..=least + self.unknown).contains(&now) {
                        return Err(format!(
                            "INCR gave {now} after {} with {} unknown: one was lost or done twice",
                            self.counted, self.unknown
                        ));
                    }
                    (self.counted, self.unknown) = (now, 0);
                    return Ok(());
                }
                Ok(Reply::Error(why)) if why.starts_with("LOADING ") => {}
                Ok(other) => return Err(format!("INCR is answered with {other:?}")),
                Err(_) => {
                    self.unknown += 1;
                    std::thread::sleep(AGAIN);
                }
            }
        }
        Err(format!("{url} does not count within {:?}", self.patience))
    }

    /// The index of the replica that executes.
    fn executor(&self) -> Result<usize, String> {
        let endpoints = &self.replicas.endpoints;
        let table = operate(self.replicas.binary(), &["redis", "status"], endpoints)?;
        let mut ids = table.lines().filter_map(executing);
        let id = ids
            .next_back()
            .ok_or_else(|| format!("nobody executes:\n{table}"))?;
        Ok(id - 1)
    }
}

/// The number of the replica of a line of `quorate redis status`, if it executes.
fn executing(line: &str) -> Option<usize> {
    let mut words = line.split_whitespace();
    let id = words.next()?.parse().ok()?;
    (words.next()? == "executing").then_some(id)
}

/// The pause before a connection is tried again.
const AGAIN: Duration = Duration::from_millis(2);
const REPLICAS: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_executes_is_read_from_the_table() {
        assert_eq!(executing("replica  role           offset"), None);
        assert_eq!(executing("      1  following           7"), None);
        assert_eq!(executing("      2  executing           7"), Some(2));
    }
}
