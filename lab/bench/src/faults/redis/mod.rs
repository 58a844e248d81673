//! `bench redis-rounds`: replicas with the face of Redis killed, paused, wiped and switched to other protocols under
//! load, and everything that clients were told, checked.
//!
//! Each round has keys of its own: strings that are read, written, and written if they have not changed (`WATCH`),
//! counters (`INCR`), and a set whose members are taken (`SPOP`; in command mode a list, `LPOP`). A checker that knows
//! nothing of the cluster looks for an order that explains all replies.

mod client;
pub mod failover;
mod history;
mod servers;

use std::fmt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use quorate_load::ended;
use quorate_load::replicas::{Replicas, wait_voting};
use quorate_tooling::cleanup;
use quorate_tooling::terminal::say;
use quorate_tooling::units;
use rustix::process::Signal;
use serde::Serialize;
use tokio::runtime::Runtime;

use super::args::{FaultArgs, check_clients};
use super::guest::{Guest, GuestFace};
use super::operators::operate;
use super::series::{RoundReport, Series, Turn, runtime, verdict};
use client::{Client, MEMBERS, Shared, Take, Told};
use servers::{Mode, RealServers};

/// The options of `bench redis-rounds`.
#[derive(Debug, Clone, Args)]
pub struct RedisRoundsArgs {
    /// What happens to the cluster in each round; several kinds, separated by commas, come in turns
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "kill,pause,wipe,switch,kill-all,members"
    )]
    kind: Vec<Harm>,
    /// Rounds of each kind, all on one data folder
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=200))]
    rounds: u16,
    /// The number of replicas
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// Clients, spread over the replicas, each with one request outstanding
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=64))]
    clients: u32,
    /// Load before the harm, and after it
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    load: Duration,
    /// How long a paused replica is stopped, and one without links alone
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    pause: Duration,
    /// Have the data in real servers, of this program or of the first in PATH, and compare them after each round
    #[arg(long, value_name = "PATH", num_args = 0..=1, default_missing_value = "")]
    redis_server: Option<String>,
    /// What real servers do
    #[arg(long, value_enum, default_value_t = Mode::Effects, requires = "redis_server")]
    redis_mode: Mode,
    /// The protocol that a switch goes to, and the next one back from
    #[arg(long, default_value = "nezha")]
    other_protocol: String,
    /// The options that all plans of faults share.
    #[command(flatten)]
    faults: FaultArgs,
}

/// What happens in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Harm {
    /// One replica is killed (SIGKILL) and started again.
    Kill,
    /// One replica is stopped for a while (SIGSTOP).
    Pause,
    /// One replica is killed, loses its data, and is started again.
    Wipe,
    /// The cluster goes on with another protocol.
    Switch,
    /// All replicas are killed at once and started again.
    KillAll,
    /// A replica is added as a member, and leaves again.
    Members,
    /// The real server of one replica is killed.
    KillServer,
    /// The real server of one replica is stopped for a while.
    PauseServer,
    /// One replica hears nothing of the others for a while, nor they of it; not in one run with members, who would be
    /// behind the relay that does this.
    Partition,
}

impl Harm {
    fn name(self) -> &'static str {
        match self {
            Harm::Kill => "kill",
            Harm::Pause => "pause",
            Harm::Wipe => "wipe",
            Harm::Switch => "switch",
            Harm::KillAll => "kill-all",
            Harm::Members => "members",
            Harm::KillServer => "kill-server",
            Harm::PauseServer => "pause-server",
            Harm::Partition => "partition",
        }
    }
}

/// What a round found.
#[derive(Debug, Serialize)]
struct Report {
    number: u16,
    harm: Harm,
    /// The protocol at its end.
    protocol: String,
    /// Replies that clients got.
    answered: u64,
    /// Requests that were not answered, of those that change something.
    silent: usize,
    violations: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}: {} replies, {} changes without one, {}",
            self.title(),
            self.protocol,
            self.answered,
            self.silent,
            verdict(&self.violations)
        )
    }
}

impl RoundReport for Report {
    fn title(&self) -> String {
        format!("round {}, {}", self.number + 1, self.harm.name())
    }

    fn violations(&self) -> &[String] {
        &self.violations
    }
}

/// Runs all rounds: 0 when all went well, 1 after a violation, 2 when they could not run.
pub fn run(args: &RedisRoundsArgs) -> ExitCode {
    cleanup::on_interrupt();
    let result = check_clients(args.clients, args.replicas, "replicas").and_then(|()| rounds(args));
    result.unwrap_or_else(|error| ended(Err(error)))
}

fn rounds(args: &RedisRoundsArgs) -> Result<ExitCode, String> {
    let runtime = runtime()?;
    let (faults, seed) = (&args.faults, args.faults.seed());
    let mut options = vec![
        "--face=redis".to_owned(),
        format!("--protocol={}", faults.protocol),
        "--durability=disk".to_owned(),
    ];
    let server_args = faults.server_arg.iter();
    options.extend(server_args.map(|arg| format!("--server-arg={arg}")));
    options.extend_from_slice(&faults.quorate_option);
    let real = args.redis_server.clone();
    let real = real.map(|program| RealServers::new(program, args.redis_mode));
    options.extend(real.iter().flat_map(RealServers::options));
    let of_servers = [Harm::KillServer, Harm::PauseServer];
    if real.is_none() && args.kind.iter().any(|harm| of_servers.contains(harm)) {
        return Err("--kind: only real servers (--redis-server) are killed and paused".to_owned());
    }
    let (binary, parent) = (faults.place.binary()?, faults.place.parent());
    let has_relay = args.kind.contains(&Harm::Partition);
    if has_relay && args.kind.contains(&Harm::Members) {
        return Err("--kind: partition and members need a run each".to_owned());
    }
    let replicas = Replicas::begin(
        binary,
        args.replicas,
        parent,
        &options,
        faults.patience,
        has_relay.then_some(Duration::ZERO),
    )?;
    say(format_args!(
        "{} replicas, {} clients, seed {seed}, data in {}",
        args.replicas,
        args.clients,
        replicas.directory().display()
    ));
    let mut field = Field {
        args,
        runtime,
        replicas,
        protocol: faults.protocol.clone(),
        real,
    };
    let plans = (0..args.rounds).flat_map(|_| args.kind.iter().copied());
    let series = Series::run(plans, seed, faults.keep_going, |turn| field.round(&turn));
    let answered: u64 = series.reports.iter().map(|report| report.answered).sum();
    println!("{} rounds, {answered} replies", series.reports.len());
    if series.conclude(faults.json.as_deref())? {
        return Ok(ExitCode::SUCCESS);
    }
    field.replicas.keep();
    println!(
        "the data is kept in {}",
        field.replicas.directory().display()
    );
    Ok(ExitCode::from(1))
}

/// Where rounds take place.
struct Field<'a> {
    args: &'a RedisRoundsArgs,
    runtime: Runtime,
    replicas: Replicas,
    /// The protocol at present.
    protocol: String,
    /// The real servers, if the data is not in Quorate's own store.
    real: Option<RealServers>,
}

impl Field<'_> {
    fn round(&mut self, turn: &Turn<Harm>) -> Result<Report, String> {
        let shared = self.shared(turn);
        let client = |server: usize, seed: u64| Client::new(&shared, server, seed);
        self.runtime.block_on(client(0, 0).fill())?;
        let count = shared.servers.len();
        let tasks: Vec<_> = (0..self.args.clients as usize)
            .map(|index| {
                let client = client(index % count, turn.seed.wrapping_add(index as u64));
                self.runtime.spawn(client.run())
            })
            .collect();
        let hurt = self.hurt(turn);
        shared.is_over.store(true, SeqCst);
        let mut told = Told::default();
        for task in tasks {
            let by_client = self.runtime.block_on(task);
            told.merge(by_client.map_err(|error| format!("a client failed: {error}"))?);
        }
        hurt?;
        let mut violations = self.replicas.died();
        for server in 0..count {
            match self.runtime.block_on(client(server, 0).read_all()) {
                Ok(more) => told.merge(more),
                Err(why) => violations.push(why),
            }
        }
        let left = (0..count).map(|server| self.runtime.block_on(client(server, 0).left()));
        match left.collect::<Result<Vec<_>, _>>() {
            Ok(left) => violations.extend(check_members(&told, &left).err()),
            Err(why) => violations.push(why),
        }
        if let Some(real) = &self.real {
            let endpoints = &self.replicas.endpoints;
            let binary = self.replicas.binary();
            let patience = self.args.faults.patience;
            violations.extend(
                real.differ(binary, endpoints, &shared.prefix, patience)
                    .err(),
            );
        }
        violations.extend(told.wrong.iter().take(WRONG_SHOWN).cloned());
        for (number, history) in told.strings.iter().enumerate() {
            let found = history::check_string(history).err();
            violations.extend(found.map(|why| format!("string {number}: {why}")));
        }
        for (number, history) in told.counters.iter().enumerate() {
            let found = history::check_counter(history).err();
            violations.extend(found.map(|why| format!("counter {number}: {why}")));
        }
        Ok(Report {
            number: turn.number,
            harm: turn.plan,
            protocol: self.protocol.clone(),
            answered: told.answered,
            silent: silent(&told),
            violations,
        })
    }

    /// What all clients of a round share.
    fn shared(&self, turn: &Turn<Harm>) -> Arc<Shared> {
        let servers = self.replicas.endpoints.iter();
        let servers = servers.filter_map(|url| url.rsplit('/').next());
        Arc::new(Shared {
            prefix: format!("{:x}:", turn.seed),
            servers: servers.map(str::to_owned).collect(),
            patience: self.args.faults.timeout,
            take: match &self.real {
                Some(real) if real.mode() == Mode::Commands => Take::First,
                _ => Take::Any,
            },
            stamps: AtomicU64::new(1),
            values: AtomicU64::new(1),
            is_over: AtomicBool::new(false),
        })
    }

    /// Lets load run, does harm, heals it, and lets load run again.
    fn hurt(&mut self, turn: &Turn<Harm>) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(turn.seed);
        let victim = random.usize(..self.replicas.endpoints.len());
        std::thread::sleep(self.args.load.mul_f64(0.5 + random.f64()));
        match turn.plan {
            Harm::Kill => {
                self.replicas.kill(&[victim])?;
                self.replicas.start(&[victim])?;
            }
            Harm::Wipe => {
                self.replicas.kill(&[victim])?;
                self.replicas.wipe(victim)?;
                self.replicas.start(&[victim])?;
            }
            Harm::Pause => {
                self.replicas.pause(victim)?;
                std::thread::sleep(self.args.pause);
                self.replicas.resume(victim)?;
            }
            Harm::Switch => self.switch()?,
            Harm::KillServer => self.signal_server(victim, Signal::KILL)?,
            Harm::PauseServer => {
                self.signal_server(victim, Signal::STOP)?;
                std::thread::sleep(self.args.pause);
                self.signal_server(victim, Signal::CONT)?;
            }
            Harm::Members => self.add_and_remove()?,
            Harm::Partition => {
                let network = self.replicas.network().ok_or("there is no relay")?;
                network.cut_off(victim, true);
                std::thread::sleep(self.args.pause);
                network.cut_off(victim, false);
            }
            Harm::KillAll => {
                let all: Vec<usize> = (0..self.replicas.endpoints.len()).collect();
                self.replicas.kill(&all)?;
                self.replicas.start(&all)?;
            }
        }
        self.await_voting()?;
        std::thread::sleep(self.args.load);
        Ok(())
    }

    fn add_and_remove(&self) -> Result<(), String> {
        let guest = Guest::add(
            self.replicas.binary(),
            &self.replicas.endpoints,
            self.replicas.directory(),
            self.args.faults.patience,
            GuestFace::Redis(self.args.redis_server.clone()),
        )?;
        std::thread::sleep(self.args.load);
        guest.remove(&self.replicas.endpoints)
    }

    /// Signals the real server of a replica, unless it has none at the moment.
    fn signal_server(&self, index: usize, signal: Signal) -> Result<(), String> {
        let replica = self.replicas.pid(index);
        let replica = replica.ok_or_else(|| format!("replica {} does not run", index + 1))?;
        servers::signal(replica, signal);
        Ok(())
    }

    fn switch(&mut self) -> Result<(), String> {
        let args = self.args;
        let other = match self.protocol == args.other_protocol {
            true => args.faults.protocol.clone(),
            false => args.other_protocol.clone(),
        };
        let words = ["cluster", "switch", &other];
        operate(self.replicas.binary(), &words, &self.replicas.endpoints)?;
        self.protocol = other;
        Ok(())
    }

    /// Waits until every replica votes: one that lost its promises serves before it does.
    fn await_voting(&self) -> Result<(), String> {
        let deadline = Instant::now() + self.args.faults.patience;
        let endpoints = &self.replicas.endpoints;
        for index in 0..endpoints.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let name = format!("replica {}", index + 1);
            wait_voting(&operators_url(endpoints, index)?, &name, left, || None)?;
        }
        Ok(())
    }
}

/// Where a replica serves operators: `quorate up` has these ports behind those of all replicas.
fn operators_url(endpoints: &[String], index: usize) -> Result<String, String> {
    let url = &endpoints[index];
    let address = url.rsplit('/').next().unwrap_or_default();
    let port = address.rsplit_once(':').and_then(|(host, port)| {
        let port: usize = port.parse().ok()?;
        // Each replica has a port for clients and one for replicas.
        let behind = 2 * (endpoints.len() - index);
        Some(format!("http://{host}:{}", port + behind + index))
    });
    port.ok_or_else(|| format!("{url} has no port"))
}

/// Why the members that were taken and those that are left are not those that were there, if they are not.
fn check_members(told: &Told, by_replica: &[Vec<String>]) -> Result<(), String> {
    let Some(left) = by_replica.first() else {
        return Ok(());
    };
    if by_replica.iter().any(|other| other != left) {
        return Err("replicas show different members".to_owned());
    }
    let mut all: Vec<&String> = told.taken.iter().chain(left).collect();
    let count = all.len();
    all.sort();
    all.dedup();
    if all.len() < count {
        return Err("a member was taken twice, or is still there".to_owned());
    }
    match MEMBERS - count <= told.taken_silently {
        true => Ok(()),
        false => Err(format!(
            "{} members are gone, and {} requests to take one had no reply",
            MEMBERS - count,
            told.taken_silently
        )),
    }
}

/// Requests that change something and had no reply.
fn silent(told: &Told) -> usize {
    let strings = told.strings.iter().flatten();
    let counters = told.counters.iter().flatten();
    strings
        .filter(|access| access.ended == history::NEVER)
        .count()
        + counters
            .filter(|access| access.ended == history::NEVER)
            .count()
        + told.taken_silently
}

/// Replies that no Redis gives, of one round, as they are shown.
const WRONG_SHOWN: usize = 3;
