//! An exchange on this machine, for as long as somebody wants it.

use super::generator::{Load, trade};
use super::place::{ExchangeOptions, Places};
use super::processes::{Processes, Supervised};
use super::subscriber::Subscriber;
use super::tokens::Tokens;
use std::error::Error;
use std::path::Path;

/// Starts an exchange, tells where it is, and runs it until Ctrl-C. Processes that die are started again. Participants
/// trade at a rate where `rate` is not 0.
///
/// # Errors
/// Why it does not start.
pub async fn up(
    program: &Path,
    options: &ExchangeOptions,
    port: u16,
    rate: u64,
) -> Result<(), Box<dyn Error>> {
    let tokens = options.tokens.as_deref().map(Tokens::read).transpose()?;
    let tokens = tokens.unwrap_or_default();
    let places = Places::from_port(options, port)?;
    let link = |_: usize, replica: usize| places.replicas[replica].clone();
    let processes = Processes::start(program, options, &places, link, true)?;
    for feed in &places.feeds {
        tokio::select! {
            connected = Subscriber::connect(feed, options.symbols) => drop(connected?),
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
        }
    }
    print(options, &places, &processes);
    let load = Load {
        participants: options.participants,
        symbols: options.symbols,
        rate,
        time_ns: u64::MAX / 4,
        seed: fastrand::u64(..),
    };
    let trading = async {
        match rate {
            0 => std::future::pending().await,
            _ => trade(load, &places.orders, &tokens).await,
        }
    };
    tokio::select! {
        traded = trading => drop(traded?),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    Ok(())
}

fn print(options: &ExchangeOptions, places: &Places, processes: &Processes) {
    let pid = |one: &Supervised| one.pid().unwrap_or_default();
    for (at, replica) in processes.replicas.iter().enumerate() {
        println!("replica {} is process {}", at + 1, pid(replica));
    }
    for (at, gateway) in processes.gateways.iter().enumerate() {
        println!(
            "gateway {} is process {}: http://{}, orders at {}, feed at {}, FIX at {}",
            at + 1,
            pid(gateway),
            places.webs[at],
            places.orders[at],
            places.feeds[at],
            places.fixes[at]
        );
    }
    println!(
        "{} symbols, {} participants; logs and data are in {}; Ctrl-C ends all of it",
        options.symbols,
        options.participants,
        options.folder.display()
    );
}
