//! The figures of the paper's evaluation from processes: 48 participants, 16 gateways, 100 symbols, on this machine.

use super::Figures;
use super::tables::{delay_row, introduction, picture, table, what_binds};
use quorate::{Durability, Protocol};
use quorate_exchange::Histogram;
use quorate_exchange::live::{BenchOptions, BenchSeen, ExchangeOptions, Load, RunningBench};
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, process};

/// The rates that are tried one after the other, in orders/s.
const RATES: [u64; 16] = [
    500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000, 10_000, 12_000, 16_000, 24_000,
    32_000, 48_000,
];
/// The rate at which latency and unfairness of exchanges are compared, in orders/s.
pub(super) const COMMON_RATE: u64 = 1000;
/// The 99th percentile of answers up to which an exchange bears a rate, in ns: some twenty processes wait for the same
/// cores, and a few ms of waiting say nothing of the exchange.
pub(super) const BORNE_NS: u64 = 25_000_000;
/// The median of answers above which an exchange has more than it can do, in ns.
const OVERLOADED_NS: u64 = 20_000_000;
/// The engine of the paper's evaluation, in orders/s.
const PAPER_ENGINE: u64 = 43_100;
/// The shortest time between a gateway and a replica, in ns.
pub(super) const WAY_NS: u64 = 30_000;
/// The mean of what is added to that time, in ns.
pub(super) const JITTER_NS: u64 = 20_000;
/// The delays of requests that unfairness is measured over, in us.
const DELAYS_US: [u64; 6] = [50, 100, 200, 400, 1000, 2000];

/// An exchange that is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    pub(super) name: &'static str,
    replicas: u16,
    protocol: Protocol,
    /// What the paper says of the highest rate, as a share of that of the unreplicated exchange.
    pub(super) published: Option<f64>,
    pub(super) color: &'static str,
}

/// All systems; the first one is the measure of the others.
pub(super) const SYSTEMS: [System; 7] = [
    System {
        name: "unreplicated",
        replicas: 1,
        protocol: Protocol::MultiPaxos,
        published: Some(1.0),
        color: "#666666",
    },
    System {
        name: "Nezha",
        replicas: 3,
        protocol: Protocol::Nezha,
        published: Some(42.93 / 43.10),
        color: "#0072b2",
    },
    System {
        name: "Multi-Paxos",
        replicas: 3,
        protocol: Protocol::MultiPaxos,
        published: Some(19.4 / 43.3),
        color: "#d55e00",
    },
    System {
        name: "Rabia",
        replicas: 3,
        protocol: Protocol::Rabia,
        published: None,
        color: "#009e73",
    },
    System {
        name: "RS-Paxos",
        replicas: 3,
        protocol: Protocol::RsPaxos,
        published: None,
        color: "#cc79a7",
    },
    System {
        name: "Racos",
        replicas: 3,
        protocol: Protocol::Racos,
        published: None,
        color: "#e69f00",
    },
    System {
        name: "Chora",
        replicas: 3,
        protocol: Protocol::Chora,
        published: None,
        color: "#56b4e9",
    },
];

/// How many of the systems are measured with a slow engine, too.
const SLOWED: usize = 3;

/// What a run of the exchange's processes at one rate of requests showed.
#[derive(Debug)]
pub(super) struct Point {
    pub(super) rate: u64,
    pub(super) answered_per_s: f64,
    pub(super) seen: BenchSeen,
    /// Requests of this rate, and those among them that were overtaken: by any, and by one of their symbol.
    pub(super) requests: [u64; 3],
}

impl Point {
    fn is_borne(&self) -> bool {
        let p99_ns = self.seen.load.confirmed.per_mille(990);
        p99_ns < BORNE_NS && self.answered_per_s > 0.95 * self.rate as f64
    }

    fn is_overloaded(&self) -> bool {
        let p50_ns = self.seen.load.confirmed.per_mille(500);
        p50_ns > OVERLOADED_NS || self.answered_per_s < 0.9 * self.rate as f64
    }

    /// CPU time for an order, in us.
    pub(super) fn cpu_us(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / (self.seen.load.answered as f64).max(1.0)
    }

    /// How many cores were busy while participants traded.
    pub(super) fn cores(&self, time: Duration) -> f64 {
        let cpu = self.seen.cpu;
        (cpu.replicas + cpu.gateways + cpu.here).as_secs_f64() / time.as_secs_f64().max(1e-9)
    }
}

/// All points of a system, up to the first at which it has more than it can do.
#[derive(Debug, Default)]
pub(super) struct Curve(Vec<Point>);

impl Curve {
    pub(super) fn best(&self) -> Option<&Point> {
        self.0.iter().rev().find(|point| point.is_borne())
    }

    pub(super) fn best_rate(&self) -> u64 {
        self.best().map_or(0, |point| point.rate)
    }

    pub(super) fn at(&self, rate: u64) -> Option<&Point> {
        self.0.iter().find(|point| point.rate == rate)
    }

    /// The point at which most was answered.
    pub(super) fn most(&self) -> Option<&Point> {
        let points = self.0.iter();
        points.max_by(|one, other| one.answered_per_s.total_cmp(&other.answered_per_s))
    }
}

/// The process part of the page, and its picture.
pub(super) struct Measured {
    pub(super) page: String,
    pub(super) picture: String,
}

/// What processes are started with.
struct Bench<'a> {
    figures: &'a Figures,
    folder: PathBuf,
    begun: Instant,
    /// How long the relay had what passed it, in all runs.
    relayed: Histogram,
    runtime: tokio::runtime::Runtime,
    started: u32,
}

impl Bench<'_> {
    fn load(&self, rate: u64) -> Load {
        Load {
            participants: 48,
            symbols: 100,
            rate,
            time_ns: u64::try_from(self.figures.time.as_nanos()).unwrap_or(u64::MAX),
            seed: self.figures.seed,
        }
    }

    /// Measures an exchange at rates that rise, until it is overloaded.
    fn curve(&mut self, exchange: ExchangeOptions, rates: &[u64]) -> Result<Curve, String> {
        if self.begun.elapsed() > self.figures.most {
            return Err("its time was over".to_owned());
        }
        self.started += 1;
        let folder = self.folder.join(self.started.to_string());
        let options = BenchOptions {
            program: self.figures.program.clone(),
            exchange: ExchangeOptions {
                gateways: 16,
                symbols: 100,
                participants: 48,
                hold_ns: 300_000,
                durability: Durability::Memory,
                folder,
                ..exchange
            },
            load: self.load(COMMON_RATE),
            way_ns: WAY_NS,
            jitter_ns: JITTER_NS,
            followed: 1,
            kills: 0,
        };
        let loads: Vec<Load> = rates.iter().map(|rate| self.load(*rate)).collect();
        let ran = self.runtime.block_on(run(options, loads));
        let curve = ran?;
        for point in &curve.0 {
            self.relayed.add(&point.seen.relayed);
        }
        Ok(curve)
    }
}

async fn run(options: BenchOptions, loads: Vec<Load>) -> Result<Curve, String> {
    let mut running = RunningBench::start(options).await?;
    let mut curve = Curve::default();
    let mut before = [0; 3];
    for load in loads {
        let rate = load.rate;
        let seen = match running.run(load).await {
            Ok(seen) => seen,
            // Whoever had more than it can do may not come to an end in time.
            Err(_) if curve.0.len() > 1 => return Ok(curve),
            Err(why) => return Err(why),
        };
        let inbound = seen.gateways[0].requests.inbound;
        let counts = [
            inbound.requests,
            inbound.before_any,
            inbound.before_any_of_symbol,
        ];
        let since = |at: usize| counts[at].saturating_sub(before[at]);
        let point = Point {
            rate,
            answered_per_s: seen.load.answered as f64 * 1e9 / (seen.load.time_ns as f64).max(1.0),
            requests: [since(0), since(1), since(2)],
            seen,
        };
        before = counts;
        let is_overloaded = point.is_overloaded();
        curve.0.push(point);
        if is_overloaded {
            break;
        }
    }
    running.end().await?;
    Ok(curve)
}

/// The curves of systems, by their places, or why there are none.
pub(super) type Curves = Vec<(System, Result<Curve, String>)>;

fn systems(bench: &mut Bench<'_>, count: usize, engine_rate: u64) -> Curves {
    let measured = SYSTEMS.into_iter().take(count).map(|system| {
        let exchange = ExchangeOptions {
            replicas: system.replicas,
            protocol: system.protocol,
            order_delay_ns: 200_000,
            engine_rate,
            ..ExchangeOptions::default()
        };
        (system, bench.curve(exchange, &RATES))
    });
    measured.collect()
}

/// Measures all systems.
pub(super) fn measure(figures: &Figures) -> Result<Measured, Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("quorate-exchange-{}", process::id()));
    fs::create_dir(&folder)?;
    let mut bench = Bench {
        figures,
        folder: folder.clone(),
        begun: Instant::now(),
        relayed: Histogram::default(),
        runtime: tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?,
        started: 0,
    };
    let as_is = systems(&mut bench, SYSTEMS.len(), 0);
    let unreplicated = as_is[0].1.as_ref().map_or(0, Curve::best_rate);
    // An engine that binds before this machine does.
    let binding = (unreplicated / 2).max(COMMON_RATE);
    let slowed = systems(&mut bench, SLOWED, binding);
    let paper = systems(&mut bench, SLOWED, PAPER_ENGINE);
    let mut page = introduction(figures, &bench.relayed);
    page += &table(figures, "The engine as it is", &as_is);
    page += &table(
        figures,
        &format!(
            "An engine of {binding} orders/s, half of what the unreplicated exchange bears here"
        ),
        &slowed,
    );
    page += &table(figures, "The paper's engine of 43,100 orders/s", &paper);
    page += &delays(&mut bench);
    page += &what_binds(figures, &as_is);
    fs::remove_dir_all(folder)?;
    Ok(Measured {
        page,
        picture: picture(figures, &as_is, &slowed, binding),
    })
}

/// Unfairness over the delay of requests, at the common rate.
fn delays(bench: &mut Bench<'_>) -> String {
    let mut table = format!(
        "\n### Unfairness over the delay of requests\n\nNezha, {COMMON_RATE} orders/s, the engine as it is.\n\n\
         | delay | overtaken | in their symbol | shown late | confirmation p50 | p99 |\n|---|--:|--:|--:|--:|--:|\n"
    );
    for delay_us in DELAYS_US {
        let exchange = ExchangeOptions {
            protocol: Protocol::Nezha,
            order_delay_ns: delay_us * 1000,
            ..ExchangeOptions::default()
        };
        let row = match bench.curve(exchange, &[COMMON_RATE]) {
            Ok(Curve(points)) => delay_row(&points[0]),
            Err(why) => format!("not measured: {why} | | | | |"),
        };
        let _ = writeln!(table, "| {delay_us} us | {row}");
    }
    table
}
