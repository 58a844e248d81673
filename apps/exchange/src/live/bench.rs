//! An exchange of processes under load, measured by those who trade there and those who follow its feed.

use super::generator::{Load, LoadSeen, trade};
use super::place::{ExchangeOptions, Places};
use super::processes::{Processes, Supervised};
use super::relay::{self, Relay, Way};
use super::same_feed::{Compared, SameFeed};
use super::subscriber::Subscriber;
use super::tokens::Tokens;
use super::{clock, cpu};
use crate::fair::{OutboundMeter, OutboundUnfairness, Released};
use crate::feed::{BookSnapshot, Packet};
use crate::histogram::Histogram;
use crate::link::{FeedRequest, GatewayStatus};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often gateways are asked how they are.
const STATUS_PAUSE: Duration = Duration::from_millis(50);
/// How long the processes may take to be there.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the feeds may take to show what was traded.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);

/// A measurement of an exchange as processes: what it runs, under which load and with which faults.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The program that the processes run: this one.
    pub program: PathBuf,
    /// The exchange, whose folder must be new.
    pub exchange: ExchangeOptions,
    /// The requests that participants send.
    pub load: Load,
    /// The shortest time that something is under way between a gateway and a replica, in ns.
    pub way_ns: u64,
    /// The mean of what is added to that time, in ns. There is no relay where both are 0.
    pub jitter_ns: u64,
    /// How many gateways' feeds are followed, message by message. The others are asked how they are.
    pub followed: u16,
    /// How often the replica that leads is killed.
    pub kills: u32,
}

/// The result of a measurement: counts and times of participants, gateways and subscribers.
#[derive(Clone, Debug)]
pub struct BenchSeen {
    /// Requests, answers and trades, as participants counted them.
    pub load: LoadSeen,
    /// How each gateway was at the end.
    pub gateways: Vec<GatewayStatus>,
    /// The trades that each subscriber was told of.
    pub trades: u64,
    /// When the gateways that are followed showed messages.
    pub outbound: OutboundUnfairness,
    /// How long the relay had what passed it; empty where there was none.
    pub relayed: Histogram,
    /// The CPU time of the processes while participants traded.
    pub cpu: CpuSeen,
    /// How often a replica that led was killed.
    pub kills: u32,
    /// How much of the feeds of gateways and replicas was compared byte for byte.
    pub compared: Compared,
}

/// The CPU time of processes. Those that died meanwhile are not in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSeen {
    /// CPU time of all replicas together.
    pub replicas: Duration,
    /// CPU time of all gateways together.
    pub gateways: Duration,
    /// CPU time of participants, subscribers and the relay, which are in this process.
    pub here: Duration,
    /// How long it was counted.
    pub elapsed: Duration,
}

/// What a subscriber of each gateway has seen so far.
#[derive(Debug)]
struct Watched {
    meter: OutboundMeter,
    statuses: Vec<GatewayStatus>,
    trades: Vec<u64>,
    books: Vec<Vec<BookSnapshot>>,
}

type Shared = Arc<Mutex<Watched>>;

fn lock(shared: &Shared) -> MutexGuard<'_, Watched> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An exchange of processes that is measured, under one load after the other.
#[derive(Debug)]
pub struct RunningBench {
    options: BenchOptions,
    places: Places,
    processes: Processes,
    relay: Option<Relay>,
    shared: Shared,
    followers: Vec<JoinHandle<Result<(), String>>>,
    /// What compares the feeds of replicas.
    replicas: Vec<JoinHandle<Result<(), String>>>,
    told: SameFeed,
    tokens: Tokens,
    stop: watch::Sender<bool>,
    /// How often participants were told that an order of theirs traded, under all loads.
    executions: u64,
}

/// Runs an exchange under load, and checks what participants and subscribers were told: each request is answered, each
/// trade is told to both of its parties and to every subscriber once and in order, all books are equal at the end, and
/// the feeds of all gateways and replicas are equal byte for byte.
///
/// # Errors
/// Which check of the bench failed, or why nothing could be measured.
pub async fn bench(options: BenchOptions) -> Result<BenchSeen, String> {
    let load = options.load.clone();
    let mut running = RunningBench::start(options).await?;
    let mut seen = running.run(load).await?;
    seen.compared = running.end().await?;
    Ok(seen)
}

impl RunningBench {
    /// Starts the processes, and waits until all gateways are ready.
    ///
    /// # Errors
    /// Why they do not start.
    pub async fn start(options: BenchOptions) -> Result<RunningBench, String> {
        let text = |error: std::io::Error| error.to_string();
        let exchange = &options.exchange;
        let places = Places::free(exchange).map_err(text)?;
        let (links, relay) = links(&options, &places).map_err(text)?;
        let link = |gateway: usize, replica: usize| links[gateway][replica].clone();
        let started = Processes::start(&options.program, exchange, &places, link, false);
        let processes = started.map_err(text)?;
        let followed = usize::from(options.followed).clamp(1, places.feeds.len());
        let shared = Arc::new(Mutex::new(Watched {
            meter: OutboundMeter::new(followed),
            statuses: vec![GatewayStatus::default(); places.feeds.len()],
            trades: vec![0; followed],
            books: vec![Vec::new(); followed],
        }));
        let (stop, stopped) = watch::channel(false);
        let feed_told = SameFeed::default();
        let mut followers = Vec::new();
        for (at, feed) in places.feeds.iter().enumerate() {
            let connected = async {
                match at < followed {
                    true => Subscriber::connect(feed, exchange.symbols).await,
                    false => Subscriber::asking(feed, exchange.symbols).await,
                }
            };
            let connected = tokio::time::timeout(START_TIMEOUT, connected).await;
            let subscriber = connected
                .map_err(|_| format!("gateway {} is not ready: see its log", at + 1))?
                .map_err(text)?;
            let following = follow(
                at,
                subscriber,
                Arc::clone(&shared),
                feed_told.clone(),
                stopped.clone(),
            );
            followers.push(tokio::spawn(following));
        }
        // Whoever follows few gateways measures, and has replicas asked for nothing more.
        let compared = match followed == places.feeds.len() {
            true => places.replicas.len(),
            false => 0,
        };
        let replicas = (0..compared).map(|at| {
            let stopped = stopped.clone();
            let followed = feed_told.clone();
            let following = followed.follow_replica(places.clone(), at, move || *stopped.borrow());
            tokio::spawn(following)
        });
        let replicas = replicas.collect();
        let tokens = exchange.tokens.as_deref().map(Tokens::read).transpose()?;
        Ok(RunningBench {
            options,
            places,
            processes,
            relay,
            shared,
            followers,
            replicas,
            told: feed_told,
            tokens: tokens.unwrap_or_default(),
            stop,
            executions: 0,
        })
    }

    /// Has participants trade, and checks that each request is answered and each trade told. Unfairness is counted
    /// since the start; all else is of this load.
    ///
    /// # Errors
    /// Which check of the bench failed.
    pub async fn run(&mut self, load: Load) -> Result<BenchSeen, String> {
        if let Some(relay) = &self.relay {
            relay.forget();
        }
        let (before, begun) = (self.cpu(), Instant::now());
        let (orders, time_ns) = (self.places.orders.clone(), load.time_ns);
        let tokens = self.tokens.clone();
        let trading = tokio::spawn(async move { trade(load, &orders, &tokens).await });
        let kills = self.kill_leaders(time_ns).await?;
        let load = trading.await.map_err(|error| error.to_string())?;
        let load = load.map_err(|error| error.to_string())?;
        let after = self.cpu();
        let cpu = CpuSeen {
            replicas: after.replicas.saturating_sub(before.replicas),
            gateways: after.gateways.saturating_sub(before.gateways),
            here: after.here.saturating_sub(before.here),
            elapsed: begun.elapsed(),
        };
        if load.answered != load.sent {
            let missing = load.sent - load.answered;
            return Err(format!(
                "{missing} of {} requests have no answer",
                load.sent
            ));
        }
        self.executions += load.executions;
        settle(&self.shared, self.executions).await;
        let seen = lock(&self.shared);
        for (at, trades) in seen.trades.iter().enumerate() {
            if 2 * trades != self.executions {
                return Err(format!(
                    "gateway {} told of {trades} trades, and participants were told of {} sides of trades",
                    at + 1,
                    self.executions
                ));
            }
        }
        Ok(BenchSeen {
            load,
            gateways: seen.statuses.clone(),
            trades: seen.trades[0],
            outbound: seen.meter.counted().clone(),
            relayed: self.relay.as_ref().map(Relay::seen).unwrap_or_default(),
            cpu,
            kills,
            compared: self.told.compared(),
        })
    }

    /// Ends the processes, and checks that all gateways that were followed show the same books, and that replicas have
    /// the same feed where all gateways were followed.
    ///
    /// # Errors
    /// Which gateway's or replica's feed differs.
    pub async fn end(mut self) -> Result<Compared, String> {
        let _ = self.stop.send(true);
        for follower in std::mem::take(&mut self.followers) {
            join(follower).await?;
        }
        for (at, replica) in std::mem::take(&mut self.replicas).into_iter().enumerate() {
            let compared = tokio::time::timeout(SETTLE_TIMEOUT, join(replica)).await;
            compared.map_err(|_| format!("replica {} does not tell all of the feed", at + 1))??;
        }
        let seen = lock(&self.shared);
        match seen.books.iter().position(|books| *books != seen.books[0]) {
            Some(at) => Err(format!("gateways 1 and {} show different books", at + 1)),
            None => Ok(self.told.compared()),
        }
    }

    /// The CPU time that processes have taken so far.
    fn cpu(&self) -> CpuSeen {
        let all = |processes: &[Supervised]| -> Duration {
            let pids = processes.iter().filter_map(Supervised::pid);
            pids.map(cpu::taken).sum()
        };
        CpuSeen {
            replicas: all(&self.processes.replicas),
            gateways: all(&self.processes.gateways),
            here: cpu::taken(std::process::id()),
            elapsed: Duration::ZERO,
        }
    }

    /// Kills the replica that leads, again and again while participants trade for so long.
    async fn kill_leaders(&self, time_ns: u64) -> Result<u32, String> {
        let kills = self.options.kills;
        let pause = Duration::from_nanos(time_ns / (u64::from(kills) + 1));
        for kill in 0..kills {
            tokio::time::sleep(pause).await;
            let is_killed = async {
                while !self.kill_leader() {
                    tokio::time::sleep(STATUS_PAUSE).await;
                }
            };
            let killed = tokio::time::timeout(START_TIMEOUT, is_killed).await;
            killed.map_err(|_| format!("nobody led before kill {}", kill + 1))?;
        }
        Ok(kills)
    }

    /// Kills the replica that leads by what the first gateway knows; says whether there was one.
    fn kill_leader(&self) -> bool {
        let leader = usize::from(lock(&self.shared).statuses[0].leader);
        let process = leader
            .checked_sub(1)
            .and_then(|at| self.processes.replicas.get(at));
        process.is_some_and(Supervised::kill)
    }
}

async fn join(follower: JoinHandle<Result<(), String>>) -> Result<(), String> {
    follower.await.map_err(|error| error.to_string())?
}

/// The address of each replica for each gateway: its own, or one of a relay.
#[allow(clippy::type_complexity, reason = "a table of addresses")]
fn links(
    options: &BenchOptions,
    places: &Places,
) -> std::io::Result<(Vec<Vec<String>>, Option<Relay>)> {
    let gateways = places.orders.len();
    if options.way_ns == 0 && options.jitter_ns == 0 {
        return Ok((vec![places.replicas.clone(); gateways], None));
    }
    let way = Way {
        least_ns: options.way_ns,
        jitter_ns: options.jitter_ns,
    };
    let to = places.replicas.iter().cycle();
    let to = to.take(gateways * places.replicas.len()).cloned().collect();
    let relay = relay::start(to, way, options.load.seed)?;
    let links = relay.addresses.chunks(places.replicas.len());
    Ok((links.map(<[String]>::to_vec).collect(), Some(relay)))
}

/// Follows the feed of a gateway until it is told to stop.
async fn follow(
    at: usize,
    mut subscriber: Subscriber,
    shared: Shared,
    told: SameFeed,
    mut stopped: watch::Receiver<bool>,
) -> Result<(), String> {
    let mut tick = tokio::time::interval(STATUS_PAUSE);
    loop {
        tokio::select! {
            packet = subscriber.follow() => {
                let packet = packet.map_err(|what| format!("gateway {}: {what}", at + 1))?;
                told.note_gateway(at, &packet.messages)?;
                watch_packet(at, &subscriber, &packet, &shared);
            }
            _ = tick.tick() => {
                let asked = subscriber.ask(&FeedRequest::Status).await;
                asked.map_err(|error| format!("gateway {}: {error}", at + 1))?;
            }
            () = is_over(&mut stopped) => {
                if let Some(books) = lock(&shared).books.get_mut(at) {
                    *books = subscriber.books();
                }
                return Ok(());
            }
        }
    }
}

/// Completes once all is to be stopped.
async fn is_over(stopped: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say so: then it is time as well.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

fn watch_packet(at: usize, subscriber: &Subscriber, packet: &Packet, shared: &Shared) {
    let at_ns = clock::now().clock_ns;
    let mut watched = lock(shared);
    watched.statuses[at] = subscriber.status();
    if let Some(trades) = watched.trades.get_mut(at) {
        *trades = subscriber.trades();
    }
    for message in &packet.messages {
        let released = Released {
            message: *message,
            release_ns: packet.release_ns,
            is_late: false,
        };
        watched.meter.handle_released(&released, at_ns);
    }
}

/// Waits until all subscribers were told of every trade that participants were told of, if that ever is.
async fn settle(shared: &Shared, executions: u64) {
    let settled = async {
        while lock(shared)
            .trades
            .iter()
            .any(|trades| 2 * trades < executions)
        {
            tokio::time::sleep(STATUS_PAUSE).await;
        }
        // What is no trade may follow the last one.
        tokio::time::sleep(4 * STATUS_PAUSE).await;
    };
    // What is missing is told by the check.
    let _ = tokio::time::timeout(SETTLE_TIMEOUT, settled).await;
}
