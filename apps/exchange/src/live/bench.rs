//! An exchange of processes under load, measured by those who trade there and those who follow its feed.

use super::clock;
use super::generator::{Load, LoadSeen, trade};
use super::place::{ExchangeOptions, Places};
use super::processes::Processes;
use super::relay::{self, Delays, Way};
use super::same_feed::{Compared, SameFeed};
use super::subscriber::Subscriber;
use super::tokens::Tokens;
use crate::exchange::GatewayId;
use crate::fair::{OutboundMeter, OutboundUnfairness, Released};
use crate::feed::{BookSnapshot, Packet};
use crate::histogram::Histogram;
use crate::link::{FeedRequest, GatewayStatus};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
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
    /// When gateways showed messages.
    pub outbound: OutboundUnfairness,
    /// How long the relay had what passed it; empty where there was none.
    pub relayed: Histogram,
    /// How often a replica that led was killed.
    pub kills: u32,
    /// How much of the feeds of gateways and replicas was compared byte for byte.
    pub compared: Compared,
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

/// Runs an exchange under load, and checks what participants and subscribers were told: each request is answered, each
/// trade is told to both of its parties and to every subscriber once and in order, all books are equal at the end, and
/// the feeds of all gateways and replicas are equal byte for byte.
///
/// # Errors
/// What does not hold, or why nothing could be measured.
pub async fn bench(options: BenchOptions) -> Result<BenchSeen, String> {
    let text = |error: std::io::Error| error.to_string();
    let exchange = &options.exchange;
    let places = Places::free(exchange).map_err(text)?;
    let (links, delays) = links(&options, &places).map_err(text)?;
    let link = |gateway: usize, replica: usize| links[gateway][replica].clone();
    let started = Processes::start(&options.program, exchange, &places, link, false);
    let processes = started.map_err(text)?;
    let shared = Arc::new(Mutex::new(Watched {
        meter: OutboundMeter::new(places.feeds.len()),
        statuses: vec![GatewayStatus::default(); places.feeds.len()],
        trades: vec![0; places.feeds.len()],
        books: vec![Vec::new(); places.feeds.len()],
    }));
    let (stop, stopped) = watch::channel(false);
    let told = SameFeed::default();
    let mut followers = Vec::new();
    for (at, feed) in places.feeds.iter().enumerate() {
        let connected = Subscriber::connect(feed, exchange.symbols);
        let connected = tokio::time::timeout(START_TIMEOUT, connected).await;
        let subscriber = connected
            .map_err(|_| format!("gateway {} is not ready: see its log", at + 1))?
            .map_err(text)?;
        let following = follow(
            at,
            subscriber,
            Arc::clone(&shared),
            told.clone(),
            stopped.clone(),
        );
        followers.push(tokio::spawn(following));
    }
    let replicas = (0..places.replicas.len()).map(|at| {
        let stopped = stopped.clone();
        let following = told
            .clone()
            .follow_replica(places.clone(), at, move || *stopped.borrow());
        tokio::spawn(following)
    });
    let replicas: Vec<_> = replicas.collect();
    let tokens = exchange.tokens.as_deref().map(Tokens::read).transpose()?;
    let tokens = tokens.unwrap_or_default();
    let load = options.load.clone();
    let orders = places.orders.clone();
    let trading = tokio::spawn(async move { trade(load, &orders, &tokens).await });
    let kills = kill_leaders(&options, &processes, &shared).await?;
    let load = trading.await.map_err(|error| error.to_string())?;
    let load = load.map_err(text)?;
    settle(&shared, load.executions).await;
    let _ = stop.send(true);
    for follower in followers {
        join(follower).await?;
    }
    join_replicas(replicas).await?;
    let seen = lock(&shared);
    check(&load, &seen)?;
    Ok(BenchSeen {
        load,
        gateways: seen.statuses.clone(),
        trades: seen.trades[0],
        outbound: seen.meter.counted().clone(),
        relayed: delays.map_or_else(Histogram::default, |delays| {
            delays.lock().map(|all| all.clone()).unwrap_or_default()
        }),
        kills,
        compared: told.compared(),
    })
}

/// Waits until all replicas have told all of the feed.
async fn join_replicas(replicas: Vec<JoinHandle<Result<(), String>>>) -> Result<(), String> {
    for (at, replica) in replicas.into_iter().enumerate() {
        let compared = tokio::time::timeout(SETTLE_TIMEOUT, join(replica)).await;
        compared.map_err(|_| format!("replica {} does not tell all of the feed", at + 1))??;
    }
    Ok(())
}

async fn join(follower: JoinHandle<Result<(), String>>) -> Result<(), String> {
    follower.await.map_err(|error| error.to_string())?
}

/// The address of each replica for each gateway: its own, or one of a relay.
#[allow(clippy::type_complexity, reason = "a table of addresses")]
fn links(
    options: &BenchOptions,
    places: &Places,
) -> std::io::Result<(Vec<Vec<String>>, Option<Delays>)> {
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
    let (addresses, delays) = relay::start(to, way, options.load.seed)?;
    let links = addresses.chunks(places.replicas.len());
    Ok((links.map(<[String]>::to_vec).collect(), Some(delays)))
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
                lock(&shared).books[at] = subscriber.books();
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
    watched.trades[at] = subscriber.trades();
    for message in &packet.messages {
        let released = Released {
            message: *message,
            release_ns: packet.release_ns,
            is_late: false,
        };
        watched.meter.handle_released(&released, at_ns);
    }
}

/// Kills the replica that leads, again and again while participants trade.
async fn kill_leaders(
    options: &BenchOptions,
    processes: &Processes,
    shared: &Shared,
) -> Result<u32, String> {
    let pause = Duration::from_nanos(options.load.time_ns / u64::from(options.kills + 1));
    for kill in 0..options.kills {
        tokio::time::sleep(pause).await;
        let is_killed = async {
            loop {
                let leader = usize::from(lock(shared).statuses[0].leader);
                let process = leader
                    .checked_sub(1)
                    .and_then(|at| processes.replicas.get(at));
                if process.is_some_and(|process| process.kill()) {
                    return;
                }
                tokio::time::sleep(STATUS_PAUSE).await;
            }
        };
        let killed = tokio::time::timeout(START_TIMEOUT, is_killed).await;
        killed.map_err(|_| format!("nobody led before kill {}", kill + 1))?;
    }
    Ok(options.kills)
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

fn check(load: &LoadSeen, seen: &Watched) -> Result<(), String> {
    if load.answered != load.sent {
        let missing = load.sent - load.answered;
        return Err(format!(
            "{missing} of {} requests have no answer",
            load.sent
        ));
    }
    for (at, (trades, books)) in seen.trades.iter().zip(&seen.books).enumerate() {
        let gateway = GatewayId(at as u16 + 1).0;
        if 2 * trades != load.executions {
            let executions = load.executions;
            return Err(format!(
                "gateway {gateway} told of {trades} trades, and participants were told of {executions} sides of trades"
            ));
        }
        if *books != seen.books[0] {
            return Err(format!("gateways 1 and {gateway} show different books"));
        }
    }
    Ok(())
}
