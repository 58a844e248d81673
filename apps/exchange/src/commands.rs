//! The commands that run the exchange as processes.

use crate::options::Options;
use quorate::{Durability, Protocol};
use quorate_exchange::Histogram;
use quorate_exchange::exchange::GatewayId;
use quorate_exchange::live::{
    self, BenchOptions, BenchSeen, Compared, ExchangeOptions, GatewayOptions, Load, ReplicaOptions,
    SiteNames, Tokens,
};
use std::error::Error;
use std::future::Future;
use std::path::PathBuf;
use std::{env, fs, io, process, thread};

type Done = Result<(), Box<dyn Error>>;

const PROTOCOLS: [Protocol; 6] = [
    Protocol::MultiPaxos,
    Protocol::Rabia,
    Protocol::RsPaxos,
    Protocol::Racos,
    Protocol::Chora,
    Protocol::Nezha,
];

fn protocol(options: &mut Options) -> Result<Protocol, String> {
    let name: String = options.take("protocol", Protocol::default().name().to_owned())?;
    let mut known = PROTOCOLS.into_iter();
    let found = known.find(|one| one.name() == name);
    found.ok_or_else(|| format!("--protocol {name}: there is no such protocol"))
}

fn durability(options: &mut Options, otherwise: Durability) -> Result<Durability, String> {
    match options.find::<String>("durability")?.as_deref() {
        None => Ok(otherwise),
        Some("disk") => Ok(Durability::Disk),
        Some("memory") => Ok(Durability::Memory),
        Some(other) => Err(format!("--durability {other}: it is disk or memory")),
    }
}

fn list(options: &mut Options, name: &str) -> Result<Vec<String>, String> {
    let words: String = options.need(name)?;
    Ok(words.split(',').map(str::to_owned).collect())
}

fn microseconds(options: &mut Options, name: &str, otherwise_ns: u64) -> Result<u64, String> {
    let us: Option<u64> = options.find(name)?;
    Ok(us.map_or(otherwise_ns, |us| us.saturating_mul(1000)))
}

/// Ends this process when the one that started it is gone: its end of a pipe is closed then.
fn end_with_parent(options: &mut Options) -> Result<(), String> {
    if options.take("with-parent", false)? {
        thread::spawn(|| {
            // Nothing is ever written there.
            let _ = io::copy(&mut io::stdin(), &mut io::sink());
            process::exit(0);
        });
    }
    Ok(())
}

fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    Ok(runtime.block_on(work))
}

/// Runs one replica.
pub(crate) fn replica(mut options: Options) -> Done {
    end_with_parent(&mut options)?;
    let defaults = ExchangeOptions::default();
    let replica = ReplicaOptions {
        id: options.need("id")?,
        members: (1..).zip(list(&mut options, "members")?).collect(),
        gateways: options.need("gateways")?,
        folder: options.need("folder")?,
        protocol: protocol(&mut options)?,
        durability: durability(&mut options, Durability::Disk)?,
        order_delay_ns: microseconds(&mut options, "delay", defaults.order_delay_ns)?,
        late_per_million: options.find("late-per-million")?,
        engine_rate: options.take("engine-rate", defaults.engine_rate)?,
        hold_ns: microseconds(&mut options, "hold", defaults.hold_ns)?,
        symbols: options.take("symbols", defaults.symbols)?,
        participants: options.take("participants", defaults.participants)?,
        cancels_on_disconnect: options.take("cancel-on-disconnect", false)?,
    };
    options.finish()?;
    block_on(live::run_replica(replica))?
}

/// Runs one gateway.
pub(crate) fn gateway(mut options: Options) -> Done {
    end_with_parent(&mut options)?;
    let tokens: Option<PathBuf> = options.find("tokens")?;
    let fix = match options.find("listen-fix")? {
        Some(address) => Some((address, options.need("folder")?)),
        None => None,
    };
    let idle: u64 = options.take("idle", 30)?;
    if !(1..=3600).contains(&idle) {
        return Err(format!("--idle {idle}: it is 1 to 3600 seconds").into());
    }
    let web: String = options.need("web")?;
    let names: Option<String> = options.find("web-names")?;
    let names: Vec<String> = names
        .iter()
        .flat_map(|names| names.split(','))
        .map(str::to_owned)
        .collect();
    let gateway = GatewayOptions {
        id: GatewayId(options.need("id")?),
        replicas: list(&mut options, "replicas")?,
        orders: options.need("orders")?,
        feed: options.need("feed")?,
        web_names: SiteNames::new(&web, &names)?,
        web,
        fix,
        tokens: tokens.as_deref().map(Tokens::read).transpose()?,
        cancels_on_disconnect: options.take("cancel-on-disconnect", false)?,
        idle_ns: idle * 1_000_000_000,
    };
    options.finish()?;
    block_on(live::run_gateway(gateway))?
}

fn exchange(options: &mut Options, defaults: ExchangeOptions) -> Result<ExchangeOptions, String> {
    Ok(ExchangeOptions {
        replicas: options.take("replicas", defaults.replicas)?.max(1),
        gateways: options.take("gateways", defaults.gateways)?.max(1),
        symbols: options.take("symbols", defaults.symbols)?.max(1),
        participants: options.take("participants", defaults.participants)?.max(1),
        order_delay_ns: microseconds(options, "delay", defaults.order_delay_ns)?,
        late_per_million: options.find("late-per-million")?,
        engine_rate: options.take("engine-rate", defaults.engine_rate)?,
        hold_ns: microseconds(options, "hold", defaults.hold_ns)?,
        protocol: protocol(options)?,
        durability: durability(options, defaults.durability)?,
        folder: options.take("folder", defaults.folder)?,
        tokens: options.find("tokens")?,
        cancels_on_disconnect: options.take("cancel-on-disconnect", false)?,
    })
}

/// Starts an exchange on this machine.
pub(crate) fn up(mut options: Options) -> Done {
    let exchange = exchange(&mut options, ExchangeOptions::default())?;
    let (port, rate) = (options.take("port", 9100)?, options.take("rate", 0)?);
    options.finish()?;
    let program = env::current_exe()?;
    block_on(live::up(&program, &exchange, port, rate))?
}

/// Measures an exchange on this machine.
pub(crate) fn bench(mut options: Options) -> Done {
    let kills = options.take("kills", 0)?;
    let defaults = ExchangeOptions {
        gateways: 4,
        symbols: 100,
        participants: 12,
        // A replica without a disk forgets everything when it is killed.
        durability: match kills {
            0 => Durability::Memory,
            _ => Durability::Disk,
        },
        folder: env::temp_dir().join(format!("quorate-exchange-{}", process::id())),
        ..ExchangeOptions::default()
    };
    let exchange = exchange(&mut options, defaults)?;
    let bench = BenchOptions {
        program: env::current_exe()?,
        load: Load {
            participants: exchange.participants,
            symbols: exchange.symbols,
            rate: options.take("rate", 2000)?,
            time_ns: options
                .take("seconds", 10_u64)?
                .saturating_mul(1_000_000_000),
            seed: options.take("seed", 1)?,
        },
        exchange,
        way_ns: microseconds(&mut options, "way", 0)?,
        jitter_ns: microseconds(&mut options, "jitter", 0)?,
        followed: options.take("followed", u16::MAX)?,
        kills,
    };
    options.finish()?;
    let folder = &bench.exchange.folder;
    fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let seen = block_on(live::bench(bench.clone()))?;
    let seen = seen.map_err(|why| format!("{why}; logs are in {}", folder.display()))?;
    fs::remove_dir_all(folder)?;
    print(&bench, &seen);
    Ok(())
}

fn print(bench: &BenchOptions, seen: &BenchSeen) {
    let us = |times: &Histogram, per_mille| times.per_mille(per_mille) / 1000;
    let both = |times: &Histogram| format!("{} us, {} us", us(times, 500), us(times, 990));
    let share = |part: u64, of: u64| 100.0 * part as f64 / (of as f64).max(1.0);
    let (load, exchange) = (&seen.load, &bench.exchange);
    println!(
        "{} replicas ({}), {} gateways, {} participants, {} symbols; requests are held for {} us, \
         market data for {} us",
        exchange.replicas,
        exchange.protocol.name(),
        exchange.gateways,
        exchange.participants,
        exchange.symbols,
        exchange.order_delay_ns / 1000,
        exchange.hold_ns / 1000
    );
    let per_second = load.answered as f64 * 1e9 / (load.time_ns as f64).max(1.0);
    println!("| what | value |\n|---|---|");
    println!("| requests/s offered | {} |", bench.load.rate);
    println!("| requests/s answered | {per_second:.0} |");
    println!("| requests answered | {} |", load.answered);
    println!(
        "| of these, sent to another leader again | {} |",
        load.repeated
    );
    println!("| not made, for too many waited | {} |", load.skipped);
    println!(
        "| request to answer, p50, p99 | {} |",
        both(&load.confirmed)
    );
    println!(
        "| order to report of its trade, p50, p99 | {} |",
        both(&load.executed)
    );
    println!(
        "| longest time between two answers | {} us |",
        load.longest_pause_ns / 1000
    );
    let requests = seen.gateways[0].requests;
    let inbound = requests.inbound;
    println!(
        "| unfair in: after any that was stamped later | {:.2} % |",
        share(inbound.before_any, inbound.requests)
    );
    println!(
        "| unfair in: after such a one of its symbol | {:.2} % |",
        share(inbound.before_any_of_symbol, inbound.requests)
    );
    println!("| stamps that did not count | {} |", requests.quarantined);
    let (late, shown) = seen.gateways.iter().fold((0, 0), |(late, shown), one| {
        (late + one.late, shown + one.shown)
    });
    println!("| unfair out: shown late | {:.2} % |", share(late, shown));
    println!(
        "| first to last gateway, p50, p99 | {} |",
        both(&seen.outbound.spreads)
    );
    println!("| trades, each told once to all | {} |", seen.trades);
    println!("| leaders killed | {} |", seen.kills);
    print_compared(&seen.compared);
    if seen.relayed.total() > 0 {
        println!(
            "| under way in the relay, p50, p99 | {} |",
            both(&seen.relayed)
        );
    }
}

fn print_compared(compared: &Compared) {
    println!("| messages of the feed | {} |", compared.messages);
    println!(
        "| told again, byte for byte the same, by gateways, by replicas | {}, {} |",
        compared.of_gateways, compared.of_replicas
    );
    println!(
        "| messages that a replica forgot before it was asked | {} |",
        compared.forgotten
    );
}
