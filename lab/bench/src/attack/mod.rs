//! `bench attack`: what clients that mean harm, or are broken, do to a cluster and to its honest clients.
//!
//! Each attack has a cluster of its own, with honest clients that put before, while and after it lasts. To add one: a
//! file with its `run`, a [`Kind`], and a line in [`Kind::run`].

mod closed;
mod false_hello;
mod half_open;
mod half_puts;
mod honest;
mod idle;
mod observer;
mod peer_port;
mod session;
mod slow_body;
mod strangers;
mod unread_answers;
mod unread_flood;
mod unread_watches;
mod watch_stream;
mod watches;
mod wire;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::time::Instant;

use crate::cluster::Cluster;
use honest::{Honest, Seen};
use observer::{Observer, Peak};
use quorate_tooling::program::Place;
use quorate_tooling::scrape::authority;
use quorate_tooling::{cleanup, units};

/// What `bench attack` can be told.
#[derive(Debug, Clone, Args)]
pub struct AttackArgs {
    /// Attacks, one after the other
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "idle,half-open,slow-body,false-hello,strangers"
    )]
    kind: Vec<Kind>,
    /// Connections that the attack has to each replica
    #[arg(long, default_value_t = 1_300)]
    connections: u32,
    /// How long each attack lasts
    #[arg(long, default_value = "15s", value_parser = units::duration)]
    duration: Duration,
    /// The limit of open files of each replica, soft and hard
    #[arg(long)]
    descriptors: Option<u64>,
    /// Replicas in the cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=9))]
    replicas: u8,
    /// Another option for `quorate up`; repeated
    #[arg(long, allow_hyphen_values = true)]
    quorate_option: Vec<String>,
    #[command(flatten)]
    place: Place,
}

/// The kinds of attacks, by the name that `--kind` takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Connections that do nothing
    Idle,
    /// Connections that begin something and do not go on
    HalfOpen,
    /// Puts that come a few bytes at a time
    SlowBody,
    /// Many puts on a few connections, of which only a part comes
    HalfPuts,
    /// Large reads whose answers are not taken
    UnreadAnswers,
    /// Small reads as fast as they can be sent, on connections that nobody reads
    UnreadFlood,
    /// A hundred thousand watches on one stream, as fast as they can be sent
    Watches,
    /// Many small responses to watches that are not read, and more watches asked for meanwhile
    UnreadWatches,
    /// At the ports for peers: short connections that say to be a member
    FalseHello,
    /// At the ports for peers: connections that begin something and do not go on
    Strangers,
}

impl Kind {
    /// Attacks until it is over; says what came of it.
    async fn run(self, target: &Target) -> Result<String, String> {
        match self {
            Kind::Idle => idle::run(target).await,
            Kind::HalfOpen => half_open::run(target).await,
            Kind::SlowBody => slow_body::run(target).await,
            Kind::HalfPuts => half_puts::run(target).await,
            Kind::UnreadAnswers => unread_answers::run(target).await,
            Kind::UnreadFlood => unread_flood::run(target).await,
            Kind::Watches => watches::run(target).await,
            Kind::UnreadWatches => unread_watches::run(target).await,
            Kind::FalseHello => false_hello::run(target).await,
            Kind::Strangers => strangers::run(target).await,
        }
    }

    /// The bounds that hold while this attack runs.
    fn bounds(self) -> Bounds {
        match self {
            Kind::Idle
            | Kind::HalfOpen
            | Kind::SlowBody
            | Kind::HalfPuts
            | Kind::UnreadAnswers
            | Kind::Watches
            | Kind::UnreadWatches => Bounds::default(),
            // It asks for more work than a replica can do, and honest clients wait their turn.
            Kind::UnreadFlood => Bounds {
                gap: Duration::MAX,
                ..Bounds::default()
            },
            Kind::FalseHello => Bounds {
                growth_bytes: 64 << 20,
                ..Bounds::default()
            },
            // Two frames of the greatest length have room, and what has arrived of them may take twice as much.
            Kind::Strangers => Bounds {
                growth_bytes: 128 << 20,
                ..Bounds::default()
            },
        }
    }
}

/// What an attack must not exceed.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// The longest time without an acknowledged put of an honest client.
    gap: Duration,
    /// How much a replica's memory grows, in bytes.
    growth_bytes: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            gap: Duration::from_secs(1),
            growth_bytes: 512 << 20,
        }
    }
}

/// What is attacked, and how much.
struct Target {
    /// Ports for clients, as `host:port`.
    clients: Vec<String>,
    /// Connections to each replica.
    connections: u32,
    /// When the attack ends.
    over: Instant,
}

impl Target {
    /// Ports for peers, as `host:port`: each is the one behind the port for clients.
    fn peers(&self) -> Result<Vec<String>, String> {
        let peer = |authority: &String| {
            let (host, port) = authority.rsplit_once(':')?;
            Some(format!(
                "{host}:{}",
                port.parse::<u16>().ok()?.checked_add(1)?
            ))
        };
        let peers: Option<_> = self.clients.iter().map(peer).collect();
        peers.ok_or_else(|| "a client URL has no port".to_owned())
    }

    async fn until_over(&self) {
        tokio::time::sleep_until(self.over).await;
    }
}

/// The measured effects of one attack.
struct Outcome {
    kind: Kind,
    seen: Seen,
    /// Of the replica with the most, when the attack began and at most.
    idle: Peak,
    peak: Peak,
    /// What the attack says of itself.
    told: Result<String, String>,
    /// A process of the cluster that ended.
    ended: Option<String>,
}

/// Runs the attacks: 0 when all bounds held, 1 when one did not, 2 when it could not run.
pub fn run(args: &AttackArgs) -> ExitCode {
    cleanup::on_interrupt();
    quorate_load::ended_with(attack_all(args), "all bounds held")
}

fn attack_all(args: &AttackArgs) -> Result<Vec<String>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start the runtime: {error}"))?;
    let mut wrong = Vec::new();
    println!("attack       memory, MiB   descriptors   longest without a put      puts   failed");
    for kind in &args.kind {
        let outcome = attack(args, *kind, &runtime)?;
        outcome.print();
        wrong.extend(outcome.wrong());
    }
    Ok(wrong)
}

fn attack(
    args: &AttackArgs,
    kind: Kind,
    runtime: &tokio::runtime::Runtime,
) -> Result<Outcome, String> {
    let binary = &args.place.binary()?;
    let parent = args.place.parent();
    let options = &args.quorate_option;
    let mut cluster =
        Cluster::quorate_limited(binary, args.replicas, parent, options, args.descriptors)?;
    // After the start of the cluster, which keeps the limit it was given.
    let count = u64::from(args.connections) * u64::from(args.replicas);
    allow_files(count + FILES_EXTRA)?;
    let honest = Honest::start(&cluster.endpoints)?;
    std::thread::sleep(BEFORE);
    let observer = Observer::start(cluster.pids());
    let clients = cluster.endpoints.iter().map(|url| authority(url));
    let clients = clients.map(|authority| authority.map(str::to_owned));
    let told = runtime.block_on(async {
        let target = Target {
            clients: clients.collect::<Result<_, _>>()?,
            connections: args.connections,
            over: Instant::now() + args.duration,
        };
        kind.run(&target).await
    });
    std::thread::sleep(AFTER);
    let observed = observer.stop();
    Ok(Outcome {
        kind,
        seen: honest.stop()?,
        idle: observed.first,
        peak: observed.most,
        told,
        ended: cluster.check_alive().err(),
    })
}

/// Raises the soft limit of open files to what is needed.
fn allow_files(needed: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    let raised = Rlimit {
        current: Some(needed),
        maximum: limit.maximum,
    };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        format!("{needed} open files are needed: {error}; allow more with `ulimit -Hn`, or ask for fewer connections")
    })
}

impl Outcome {
    fn name(&self) -> String {
        let value = self.kind.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn print(&self) {
        println!(
            "{:<11} {:>5} to {:>4} {:>13} {:>20} ms {:>9} {:>8}   {}",
            self.name(),
            self.idle.memory_bytes >> 20,
            self.peak.memory_bytes >> 20,
            self.peak.descriptors,
            self.seen.longest_gap.as_millis(),
            self.seen.puts,
            self.seen.failed,
            self.told.as_deref().unwrap_or("failed"),
        );
    }

    /// The bounds that did not hold.
    fn wrong(&self) -> Vec<String> {
        let bounds = self.kind.bounds();
        let grown = self
            .peak
            .memory_bytes
            .saturating_sub(self.idle.memory_bytes);
        let mut wrong = Vec::new();
        if let Some(ended) = &self.ended {
            wrong.push(format!("a process of the cluster ended: {ended}"));
        }
        if let Err(why) = &self.told {
            wrong.push(why.clone());
        }
        if self.seen.puts == 0 {
            wrong.push("no put of an honest client was acknowledged".to_owned());
        }
        if self.seen.longest_gap > bounds.gap {
            let (gap, most) = (self.seen.longest_gap, bounds.gap);
            wrong.push(format!(
                "an honest client had no acknowledged put for {gap:?}, {most:?} is the most"
            ));
        }
        if grown > bounds.growth_bytes {
            let [grown, most] = [grown, bounds.growth_bytes].map(|bytes| bytes >> 20);
            wrong.push(format!(
                "a replica's memory grew by {grown} MiB, {most} MiB is the most"
            ));
        }
        let name = self.name();
        wrong.iter().map(|why| format!("{name}: {why}")).collect()
    }
}

/// Puts of honest clients before an attack, and after it.
const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_secs(1);
/// Open files besides those of the attack's connections.
const FILES_EXTRA: u64 = 256;
