//! The figures of the paper's evaluation from processes: 48 participants, 16 gateways, 100 symbols, on this machine.

use super::Figures;
use super::numbers::{ratio, share, us};
use quorate::{Durability, Protocol};
use quorate_exchange::Histogram;
use quorate_exchange::live::{BenchOptions, BenchSeen, ExchangeOptions, Load, RunningBench};
use quorate_plot::{Chart, Group, Panel, Series};
use std::error::Error;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

/// The rates that are tried one after the other, in orders/s.
const RATES: [u64; 16] = [
    500, 1000, 1500, 2000, 2500, 3000, 4000, 5000, 6000, 8000, 10_000, 12_000, 16_000, 24_000,
    32_000, 48_000,
];
/// The rate at which latency and unfairness of exchanges are compared, in orders/s.
const COMMON_RATE: u64 = 1000;
/// The 99th percentile of answers up to which an exchange bears a rate, in ns.
const BORNE_NS: u64 = 5_000_000;
/// The median of answers above which an exchange has more than it can do, in ns.
const OVERLOADED_NS: u64 = 20_000_000;
/// The engine of the paper's evaluation, in orders/s.
const PAPER_ENGINE: u64 = 43_100;
/// The shortest time between a gateway and a replica, in ns.
const WAY_NS: u64 = 30_000;
/// The mean of what is added to that time, in ns.
const JITTER_NS: u64 = 20_000;
/// The delays of requests that unfairness is measured over, in us.
const DELAYS_US: [u64; 6] = [50, 100, 200, 400, 1000, 2000];

/// An exchange that is measured.
#[derive(Clone, Copy, Debug)]
struct System {
    name: &'static str,
    replicas: u16,
    protocol: Protocol,
    /// What the paper says of the highest rate, as a share of that of the unreplicated exchange.
    published: Option<f64>,
    color: &'static str,
}

/// All systems; the first one is the measure of the others.
const SYSTEMS: [System; 7] = [
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

/// What was seen at a rate.
#[derive(Debug)]
struct Point {
    rate: u64,
    answered_per_s: f64,
    seen: BenchSeen,
    /// Requests of this rate, and those among them that were overtaken: by any, and by one of their symbol.
    requests: [u64; 3],
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
    fn cpu_us(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / (self.seen.load.answered as f64).max(1.0)
    }

    /// How many cores were busy while participants traded.
    fn cores(&self, time: Duration) -> f64 {
        let cpu = self.seen.cpu;
        (cpu.replicas + cpu.gateways + cpu.here).as_secs_f64() / time.as_secs_f64().max(1e-9)
    }
}

/// All points of a system, up to the first at which it has more than it can do.
#[derive(Debug, Default)]
struct Curve(Vec<Point>);

impl Curve {
    fn best(&self) -> Option<&Point> {
        self.0.iter().rev().find(|point| point.is_borne())
    }

    fn best_rate(&self) -> u64 {
        self.best().map_or(0, |point| point.rate)
    }

    fn at(&self, rate: u64) -> Option<&Point> {
        self.0.iter().find(|point| point.rate == rate)
    }

    /// The point at which most was answered.
    fn most(&self) -> Option<&Point> {
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
    program: PathBuf,
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
            program: self.program.clone(),
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
type Curves = Vec<(System, Result<Curve, String>)>;

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
        program: env::current_exe()?,
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

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn introduction(figures: &Figures, relayed: &Histogram) -> String {
    let passed = [100, 500, 900, 990, 999].map(|per_mille| us(relayed, per_mille).to_string());
    format!(
        "## Figures 13 and 14 from processes\n\n\
         16 gateways, 48 participants and 100 symbols; replicas in memory, gateways, participants, a subscriber and the\n\
         relay share {} cores. Requests are held for 200 us, market data for 300 us; {} s at each rate. An exchange\n\
         bears a rate at which 99 of 100 orders are confirmed within 5 ms and all that is offered is answered. Unfairness\n\
         and latency are those at {COMMON_RATE} orders/s, CPU time that at the highest rate that is borne.\n\n\
         The relay has what passes between a gateway and a replica for {} us and an exponential time of mean {} us. By\n\
         its own clock it had it for {} us (p10, p50, p90, p99, p99.9): the rest is what the processes wait for a\n\
         core.\n\n\
         ![Figures 13 and 14 from processes](exchange-processes.svg)\n",
        cores(),
        figures.time.as_secs(),
        WAY_NS / 1000,
        JITTER_NS / 1000,
        passed.join(", ")
    )
}

fn table(figures: &Figures, title: &str, curves: &Curves) -> String {
    let mut table = format!(
        "\n### {title}\n\n\
         | system | orders/s borne | of unreplicated | published | most answered/s | overtaken | in their symbol \
         | confirmation p50 | result p50 | CPU us/order: replicas | gateways | of unreplicated | cores busy |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    );
    let first = curves.first().and_then(|(_, curve)| curve.as_ref().ok());
    let replicas_us = |curve: &Curve| {
        let best = curve.best().or(curve.most())?;
        Some(best.cpu_us(best.seen.cpu.replicas))
    };
    let (first_rate, first_us) = (
        first.map_or(0, Curve::best_rate) as f64,
        first.and_then(replicas_us).unwrap_or_default(),
    );
    for (system, curve) in curves {
        let curve = match curve {
            Ok(curve) => curve,
            Err(why) => {
                // Writing to a string cannot fail.
                let _ = writeln!(
                    table,
                    "| {} | not measured: {why} | | | | | | | | | | | |",
                    system.name
                );
                continue;
            }
        };
        let (Some(common), Some(most)) = (curve.at(COMMON_RATE), curve.most()) else {
            let _ = writeln!(
                table,
                "| {} | below {COMMON_RATE} | | | | | | | | | | | |",
                system.name
            );
            continue;
        };
        let best = curve.best().unwrap_or(most);
        let published = system
            .published
            .map_or_else(String::new, |share| format!("{share:.3}"));
        let [requests, overtaken, of_symbol] = common.requests;
        let (confirmed, executed) = (&common.seen.load.confirmed, &common.seen.load.executed);
        let cpu = best.seen.cpu;
        let _ = writeln!(
            table,
            "| {} | {} | {} | {published} | {:.0} | {:.2} % | {:.2} % | {} us | {} us | {:.0} | {:.0} | {} | {:.2} |",
            system.name,
            curve.best_rate(),
            ratio(curve.best_rate() as f64, first_rate),
            most.answered_per_s,
            share(overtaken, requests),
            share(of_symbol, requests),
            us(confirmed, 500),
            us(executed, 500),
            best.cpu_us(cpu.replicas),
            best.cpu_us(cpu.gateways),
            ratio(best.cpu_us(cpu.replicas), first_us),
            best.cores(figures.time)
        );
    }
    table
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

fn delay_row(point: &Point) -> String {
    let gateways = point.seen.gateways.iter();
    let (late, shown) = gateways.fold((0, 0), |(late, shown), one| {
        (late + one.late, shown + one.shown)
    });
    let [requests, overtaken, of_symbol] = point.requests;
    let confirmed = &point.seen.load.confirmed;
    format!(
        "{:.2} % | {:.2} % | {:.2} % | {} us | {} us |",
        share(overtaken, requests),
        share(of_symbol, requests),
        share(late, shown),
        us(confirmed, 500),
        us(confirmed, 990)
    )
}

/// Where the CPU time goes when most is answered.
fn what_binds(figures: &Figures, curves: &Curves) -> String {
    let mut text = format!(
        "\n### What binds\n\nCPU time where most is answered, the engine as it is. Where nearly all of {} cores are busy, \
         the machine\nbinds: an exchange with a machine for each role is [above](#figures-13-and-14-in-virtual-time).\n\n\
         | system | orders/s | cores busy | replicas | gateways | participants, subscriber, relay |\n\
         |---|--:|--:|--:|--:|--:|\n",
        cores()
    );
    for (system, curve) in curves {
        let Some(most) = curve.as_ref().ok().and_then(Curve::most) else {
            continue;
        };
        let cpu = most.seen.cpu;
        let all = (cpu.replicas + cpu.gateways + cpu.here)
            .as_secs_f64()
            .max(1e-9);
        let part = |time: Duration| 100.0 * time.as_secs_f64() / all;
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.2} | {:.0} % | {:.0} % | {:.0} % |",
            system.name,
            most.answered_per_s,
            most.cores(figures.time),
            part(cpu.replicas),
            part(cpu.gateways),
            part(cpu.here)
        );
    }
    text
}

/// The bars of both figures.
fn picture(figures: &Figures, as_is: &Curves, slowed: &Curves, binding: u64) -> String {
    type Value = fn(&Curve) -> Option<f64>;
    let group = |name: &str, curves: &Curves, value: Value| Group {
        name: name.to_owned(),
        bars: (0..)
            .zip(curves)
            .filter_map(|(at, (_, curve))| Some((at, value(curve.as_ref().ok()?)?)))
            .filter(|(_, value)| *value > 0.0)
            .collect(),
    };
    let borne: Value = |curve| curve.best().map(|point| point.rate as f64);
    let overtaken: Value = |curve| {
        let [requests, overtaken, _] = curve.at(COMMON_RATE)?.requests;
        Some(share(overtaken, requests))
    };
    let confirmed: Value =
        |curve| Some(us(&curve.at(COMMON_RATE)?.seen.load.confirmed, 500) as f64);
    let executed: Value = |curve| Some(us(&curve.at(COMMON_RATE)?.seen.load.executed, 500) as f64);
    let replicas: Value = |curve| {
        let best = curve.best().or(curve.most())?;
        Some(best.cpu_us(best.seen.cpu.replicas))
    };
    let panel = |title: String, groups| Panel {
        title,
        groups,
        show: |value| format!("{value}"),
    };
    let slow = format!("engine of {binding}/s");
    let panels = vec![
        panel(
            "Figure 13: orders/s that are borne".to_owned(),
            vec![group("as it is", as_is, borne), group(&slow, slowed, borne)],
        ),
        panel(
            format!("Figure 13: requests overtaken, %, at {COMMON_RATE} orders/s"),
            vec![
                group("as it is", as_is, overtaken),
                group(&slow, slowed, overtaken),
            ],
        ),
        panel(
            format!("Figure 14: p50 at {COMMON_RATE} orders/s, us"),
            vec![
                group("order to confirmation", as_is, confirmed),
                group("order to result", as_is, executed),
            ],
        ),
        panel(
            "CPU time of replicas for an order, us".to_owned(),
            vec![group("as it is", as_is, replicas)],
        ),
    ];
    Chart {
        head: "16 gateways, 48 participants, 100 symbols, as processes".to_owned(),
        series: SYSTEMS
            .iter()
            .map(|system| Series {
                name: system.name.to_owned(),
                color: system.color,
            })
            .collect(),
        panels,
        foot: vec![format!(
            "All processes share {} cores; {} s at each rate; a relay between gateways and replicas.",
            cores(),
            figures.time.as_secs()
        )],
    }
    .render()
}
