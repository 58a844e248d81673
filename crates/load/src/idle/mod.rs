//! `bench idle`: what each replica of a cluster costs while nobody asks it for anything, and while somebody
//! asks now and then; for several values of one parameter, in turns.
//!
//! A cluster is loaded first: one that just had much to do is the one that must become quiet.

mod page;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use tokio::runtime::Runtime;

use crate::replicas::Replicas;
use crate::trial::{Asker, ClusterArgs, Load, Values};
use page::Page;
use quorate_tooling::cleanup;
use quorate_tooling::process::Usage;
use quorate_tooling::terminal::say;
use quorate_tooling::units;

/// The options of `bench idle`.
#[derive(Debug, Clone, Args)]
pub struct IdleArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// A parameter of the protocol, and its values that are measured beside each other, as in
    /// mode=responsive,pulsing
    #[arg(long, value_name = "NAME=VALUE[,VALUE]", value_parser = Variants::parse)]
    vary: Option<Variants>,
    /// How long each cluster is watched without and with requests
    #[arg(long, default_value = "10s", value_parser = units::duration)]
    duration: Duration,
    /// Between two requests where somebody asks
    #[arg(long, default_value = "100ms", value_parser = units::duration)]
    every: Duration,
    /// How long each cluster is loaded before
    #[arg(long, default_value = "2s", value_parser = units::duration)]
    load: Duration,
    /// Clients of that load
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    clients: u16,
    /// The most CPU time that a replica may use without requests, in percent of a core: more is a violation
    #[arg(long, value_name = "PERCENT")]
    at_most: Option<f64>,
}

/// A parameter, and values of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variants {
    name: String,
    values: Vec<String>,
}

impl Variants {
    fn parse(text: &str) -> Result<Variants, String> {
        let (name, values) = text
            .split_once('=')
            .filter(|(name, values)| !name.is_empty() && !values.is_empty())
            .ok_or("must be a parameter with its values, as in mode=responsive,pulsing")?;
        Ok(Variants {
            name: name.to_owned(),
            values: values.split(',').map(str::to_owned).collect(),
        })
    }

    /// Each value as `quorate up` takes it.
    fn params(&self) -> Vec<String> {
        let values = self.values.iter();
        values
            .map(|value| format!("{}={value}", self.name))
            .collect()
    }
}

/// What a replica used in a second.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu_percent: f64,
    wakeups: f64,
}

/// A cluster, and what each of its replicas cost.
#[derive(Debug, Clone)]
struct Watched {
    name: String,
    idle: Vec<Cost>,
    asked: Vec<Cost>,
}

/// Runs it: 0 when all were quiet, 1 otherwise, 2 when it could not run.
pub fn run(args: &IdleArgs) -> ExitCode {
    cleanup::on_interrupt();
    crate::ended_with(measure(args), "no violation")
}

fn measure(args: &IdleArgs) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let params = args.vary.as_ref().map(Variants::params);
    let mut all = Vec::new();
    for param in params.unwrap_or(vec![String::new()]) {
        all.push(watch(args, &runtime, param)?);
    }
    let page = Page {
        title: args.cluster.title(),
        every: args.every,
        all,
    };
    say(format_args!("{page}"));
    Ok(page.wrong(args.at_most))
}

/// One cluster, with one more parameter unless it is empty.
fn watch(args: &IdleArgs, runtime: &Runtime, param: String) -> Result<Watched, String> {
    let mut cluster = args.cluster.clone();
    let own = Some(param.clone()).filter(|param| !param.is_empty());
    cluster.param.extend(own);
    let replicas = cluster.begin(&[])?;
    let load = Load::new(cluster.seed(), VALUE_BYTES, 0.0, &replicas.endpoints);
    let clients = load.start(runtime, args.clients, Instant::now());
    std::thread::sleep(args.load);
    runtime.block_on(load.stop(clients))?;
    std::thread::sleep(SETTLE);
    let pids = pids(&replicas)?;
    let sleep = || {
        std::thread::sleep(args.duration);
        Ok(())
    };
    let idle = costs(&pids, sleep)?;
    let ask = || runtime.block_on(ask(args, &replicas.endpoints));
    Ok(Watched {
        name: param,
        idle,
        asked: costs(&pids, ask)?,
    })
}

/// Puts values now and then, at each replica in its turn.
async fn ask(args: &IdleArgs, endpoints: &[String]) -> Result<(), String> {
    let values = Values::new(0);
    let askers = endpoints.iter().map(|url| Asker::new(url, PATIENCE));
    let mut askers: Vec<Asker> = askers.collect::<Result<_, _>>()?;
    let until = Instant::now() + args.duration;
    let count = askers.len();
    for number in 0.. {
        if Instant::now() >= until {
            break;
        }
        let key = values.key(number);
        let value = values.value(number, VALUE_BYTES);
        askers[number as usize % count].put(&key, value).await?;
        tokio::time::sleep(args.every).await;
    }
    Ok(())
}

/// What each process costs while something is done.
fn costs(
    pids: &[u32],
    meanwhile: impl FnOnce() -> Result<(), String>,
) -> Result<Vec<Cost>, String> {
    let read = || pids.iter().map(|pid| Usage::of(&[*pid]));
    let (before, began) = (read().collect::<Vec<_>>(), Instant::now());
    meanwhile()?;
    let seconds = began.elapsed().as_secs_f64();
    let used = read().zip(before).map(|(after, before)| {
        let used = after.since(before);
        Cost {
            cpu_percent: used.cpu_us as f64 / 1e4 / seconds,
            wakeups: used.wakeups as f64 / seconds,
        }
    });
    Ok(used.collect())
}

fn pids(replicas: &Replicas) -> Result<Vec<u32>, String> {
    let all = (0..replicas.endpoints.len()).map(|index| replicas.pid(index));
    let all: Option<Vec<u32>> = all.collect();
    all.ok_or("a replica is not running".to_owned())
}

const VALUE_BYTES: usize = 256;
/// What a load leaves to be done is done by then.
const SETTLE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_values() {
        let variants = Variants::parse("mode=responsive,pulsing").unwrap();
        assert_eq!(variants.params(), ["mode=responsive", "mode=pulsing"]);
        assert!(Variants::parse("mode").is_err() && Variants::parse("mode=").is_err());
    }
}
