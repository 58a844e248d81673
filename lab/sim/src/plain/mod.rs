//! `quorate-lab sim plain`: clusters with the plain store, whose commands commute where they name different keys.
//!
//! The simulator's other clusters have etcd's store, every write of which conflicts with every other. Here
//! protocols may let writes pass each other, and hosts have to bear that: replicas crash, stand still and are
//! cut off, links lose, repeat and mix up, clocks jump, remote gateways are killed, and what clients saw must have
//! happened one after the other ([`history`]).

mod calm;
mod clients;
mod commute;
mod cores;
mod faults;
pub mod history;
mod load;
mod nodes;
mod offers;
mod outcome;
mod remote_gateways;
mod world;

pub use commute::CommuteOptions;
pub(crate) use commute::run as commute;
pub use load::LoadOptions;
pub(crate) use load::run as load;

use crate::parallel::run_all;
use clap::Args;
use outcome::Outcome;
use quorate_core::Durability;
use quorate_host::Flaw;
use quorate_protocols::{names, unknown_protocol};
use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use world::World;

/// Options: the clusters, and how they begin.
#[derive(Args, Clone, Debug)]
pub struct PlainOptions {
    /// The protocol to run
    #[arg(long, default_value = "nezha")]
    protocol: String,

    /// Seeds to run: A..B without B, or a single one
    #[arg(long, value_name = "A..B", value_parser = crate::options::parse_seeds, default_value = "0..100")]
    seeds: Range<u64>,

    /// Replicas in each cluster
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=9))]
    replicas: u16,

    /// Remote gateways beside them, through which half of the writes go
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=16))]
    gateways: u16,

    /// A parameter of the protocol; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::options::parse_param)]
    param: Vec<(String, String)>,

    /// Break the host on purpose
    #[arg(long, value_name = "NAME")]
    mutant: Option<String>,

    /// Print the sums as JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the seeds: exit code 0 if all passed, 1 if one did not, 2 if the options make no sense.
pub(crate) fn run(options: &PlainOptions) -> ExitCode {
    if !names().contains(&options.protocol.as_str()) {
        eprintln!("error: {}", unknown_protocol(&options.protocol));
        return ExitCode::from(2);
    }
    let flaw = match options.mutant.as_deref().map(flaw).transpose() {
        Ok(flaw) => flaw,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
    };
    let params: BTreeMap<String, String> = options.param.iter().cloned().collect();
    let begin = |seed| {
        let world = World::new(
            seed,
            &options.protocol,
            options.replicas.into(),
            Durability::Disk,
            &params,
        )?;
        Ok(world.with_flaw(flaw).with_gateways(options.gateways.into()))
    };
    if let Err(why) = begin(0) {
        eprintln!("error: {why}");
        return ExitCode::from(2);
    }
    let seeds: Vec<u64> = options.seeds.clone().collect();
    let outcomes = run_all(&seeds, None, |seed| {
        begin(*seed)
            .and_then(World::run)
            .map_err(|why| (*seed, why))
    });
    let mut sum = Outcome::default();
    let mut wrong = 0;
    for outcome in outcomes {
        match outcome {
            Ok(outcome) => sum.add(&outcome),
            Err((seed, why)) => {
                wrong += 1;
                println!("violation in seed {seed}: {why}");
            }
        }
    }
    let passed = seeds.len() - wrong;
    if options.json {
        println!("{}", sum.as_json(passed, wrong));
    } else {
        println!("{passed} seeds passed, {wrong} did not: {}", sum.line());
    }
    ExitCode::from(u8::from(wrong > 0))
}

fn flaw(name: &str) -> Result<Flaw, String> {
    let known = Flaw::ALL.into_iter();
    let found = known.clone().find(|flaw| flaw.name() == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = known.map(Flaw::name).collect();
        format!("there is no mutant {name}: known are {}", known.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_that_pass_each_other_break_no_promise() {
        for (protocol, gateways, seeds) in
            [("nezha", 0, 0..6), ("nezha", 2, 0..6), ("rabia", 0, 0..1)]
        {
            for seed in seeds {
                let world = World::new(seed, protocol, 3, Durability::Disk, &BTreeMap::new());
                let outcome = world.and_then(|world| world.with_gateways(gateways).run());
                let what = format!("{protocol}, {gateways} gateways, seed {seed}");
                assert!(outcome.is_ok(), "{what}: {outcome:?}");
            }
        }
    }
}
