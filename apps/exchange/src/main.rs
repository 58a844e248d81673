//! `quorate-exchange`: the exchange as processes, and in virtual time, seed by seed.

#![allow(
    clippy::disallowed_methods,
    reason = "the program says how long it took"
)]

mod commands;
mod options;

use options::Options;
use quorate_exchange::simulated::{Scenario, Seen, paper_table};
use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

const USAGE: &str = "\
usage: quorate-exchange COMMAND [--OPTION VALUE]...

up        starts replicas and gateways on this machine, and participants who trade there with --rate
            --port 9100  --rate 0  --replicas 3  --gateways 2  --symbols 8  --participants 16  --folder exchange
            --delay US  --late-per-million N  --hold US  --engine-rate N  --protocol multi-paxos  --durability disk
            --tokens FILE  --cancel-on-disconnect
bench     starts an exchange, has participants trade, checks what everybody is told, and prints what it measured
            as up, and --rate 2000  --seconds 10  --kills 0  --way US  --jitter US  --seed 1  --followed N
replica   runs one replica: --id N --members A,B,C --gateways ADDRESS --folder FOLDER, and options of up
gateway   runs one gateway: --id N --replicas A,B,C --orders ADDRESS --feed ADDRESS --web ADDRESS
            --listen-fix ADDRESS --folder FOLDER  --tokens FILE  --cancel-on-disconnect  --idle 30  --web-names A,B
simulate  runs seeds of an exchange in virtual time, with leaders, gateways, clocks and the network at fault, and
          checks everything that must hold; it ends at the first seed that fails: --from 0 --seeds 100
figures   measures an exchange in virtual time, a machine for each role: 48 participants, 16 gateways, 100 symbols;
          replicated beside unreplicated, with an engine of 43,100 orders/s: --jitter US --seed 1 --long";

fn simulate(mut options: Options) -> Result<(), String> {
    let (from, seeds): (u64, u64) = (options.take("from", 0)?, options.take("seeds", 100)?);
    options.finish()?;
    let begun = Instant::now();
    let mut all = Seen::default();
    for seed in from..from.saturating_add(seeds) {
        let seen = Scenario::with_faults().run(seed);
        let seen = seen.map_err(|what| {
            format!("seed {seed} fails, and again with --from {seed} --seeds 1: {what}")
        })?;
        all.executed += seen.executed;
        all.repeated += seen.repeated;
        all.trades += seen.trades;
        all.leaders_died += seen.leaders_died;
        all.lost_with_leader += seen.lost_with_leader;
        all.gateways_died += seen.gateways_died;
        all.sequencer.add(&seen.sequencer);
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{seeds} seeds passed in {seconds:.1} s, {:.1} a second",
        seeds as f64 / seconds.max(1e-9)
    );
    println!(
        "{} requests executed, {} came again, {} trades",
        all.executed, all.repeated, all.trades
    );
    println!(
        "{} leaders died with {} requests that nobody had agreed on, {} gateways died",
        all.leaders_died, all.lost_with_leader, all.gateways_died
    );
    println!("how requests came: {:?}", all.sequencer);
    Ok(())
}

fn figures(mut options: Options) -> Result<(), String> {
    let (jitter_us, seed): (u64, u64) = (options.take("jitter", 20)?, options.take("seed", 1)?);
    let is_long = options.take("long", false)?;
    options.finish()?;
    print!("{}", paper_table(jitter_us, seed, is_long)?);
    Ok(())
}

fn run(args: &[String]) -> Result<(), Box<dyn Error>> {
    let Some((command, rest)) = args.split_first() else {
        return Err(USAGE.into());
    };
    let options = Options::read(rest, &["with-parent", "cancel-on-disconnect", "long"])?;
    match command.as_str() {
        "up" => commands::up(options),
        "bench" => commands::bench(options),
        "replica" => commands::replica(options),
        "gateway" => commands::gateway(options),
        "simulate" => Ok(simulate(options)?),
        "figures" => Ok(figures(options)?),
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
