//! The command line of the simulator.

use crate::capacity::CapacityOptions;
use crate::commute::CommuteOptions;
use crate::load;
use crate::speed::SpeedOptions;
use crate::wan::WanOptions;
use clap::{Args, Subcommand, ValueEnum};
use quorate_core::Durability;
use quorate_protocols::Code;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

/// The least simulated time under faults, unless told.
const HURT_MS: u64 = 5_000;

/// Seeds, or a report.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    /// Which seeds, of what.
    #[command(flatten)]
    pub options: SimOptions,

    /// Something else than seeds.
    #[command(subcommand)]
    pub report: Option<SimReport>,
}

/// What the simulator reports beside seeds that pass or fail.
#[derive(Subcommand, Clone, Debug)]
pub enum SimReport {
    /// What protocols get through links, disks and cores that do only so much a second, in virtual time
    Capacity(CapacityOptions),
    /// How long writes take where replicas and clients are far from each other
    Wan(WanOptions),
    /// What it brings that writes of different keys may pass each other: fast path, hold time, latency
    Commute(CommuteOptions),
    /// Latency against load where cores are the limit, of protocols and of ways to run one
    Load(load::LoadOptions),
    /// What a Redis does behind protocols of what it does alone, with a core for each role: Nezha's Figure 12
    RedisShare(load::ShareOptions),
    /// How fast seeds run on one core: times real time, and operations a second under full load
    Speed(SpeedOptions),
}

/// Runs whole clusters in virtual time, one per seed, and checks what they do.
#[derive(Args, Clone, Debug)]
pub struct SimOptions {
    /// The protocol to run.
    #[arg(long, default_value = "rabia")]
    pub protocol: String,

    /// Seeds to run: A..B without B, or a single one.
    #[arg(long, value_name = "A..B", value_parser = parse_seeds, default_value = "0..100")]
    pub seeds: Range<u64>,

    /// Replicas in each cluster.
    #[arg(long, default_value_t = 3)]
    pub replicas: usize,

    /// What survives a crash.
    #[arg(long, value_enum, default_value_t = DurabilityName::Disk)]
    pub durability: DurabilityName,

    /// The store whose commands replicas agree on.
    #[arg(long, value_enum, default_value_t = StoreName::Etcd)]
    pub store: StoreName,

    /// A parameter of the protocol; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_param)]
    pub param: Vec<(String, String)>,

    /// Fragments of each value, one for each replica, and how many rebuild it, as in 5,3.
    #[arg(long, value_name = "N,K")]
    pub code: Option<Code>,

    /// What goes wrong: names of --list-profiles, all of which take part in every seed.
    #[arg(
        long,
        value_name = "NAME[,NAME]",
        value_delimiter = ',',
        default_value = "swarm"
    )]
    pub profile: Vec<String>,

    /// Print the profiles to choose from, and what each does.
    #[arg(long)]
    pub list_profiles: bool,

    /// Client operations each seed completes at least.
    #[arg(long, default_value_t = 500)]
    pub ops: u64,

    /// Clients in each cluster; by default each seed draws a number.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub clients: Option<u16>,

    /// Clients ask again as soon as they are answered.
    #[arg(skip)]
    pub(crate) restless: bool,

    /// The least simulated time under faults.
    #[arg(long, value_name = "MS", default_value_t = HURT_MS)]
    pub hurt_ms: u64,

    /// Kinds of faults that do not strike although their profile takes part.
    #[arg(long, value_name = "FAULT[,FAULT]", value_delimiter = ',')]
    pub without: Vec<String>,

    /// Break the protocol or the host on purpose: the simulator must find it.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<String>,

    /// Print the deliberate faults to choose from, of every protocol: of what|protocol to run|name|found
    /// by|where|with options|what it breaks.
    #[arg(long)]
    pub list_mutants: bool,

    /// Seeds run at once; by default one per core.
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,

    /// Go on after a violation.
    #[arg(long)]
    pub keep_going: bool,

    /// Print the sums as JSON instead of text.
    #[arg(long)]
    pub json: bool,

    /// Report a violation as it was found, without looking for a smaller run that shows it.
    #[arg(long)]
    pub no_shrink: bool,

    /// Run every seed twice and compare everything that happened.
    #[arg(long)]
    pub check_determinism: bool,

    /// Print everything that happens in each seed.
    #[arg(long)]
    pub trace: bool,

    /// Draw a part of a single seed: replicas, messages, decisions, crashes.
    #[arg(long, value_name = "FILE.svg")]
    pub picture: Option<PathBuf>,

    /// Where the picture begins; by default 20 ms before its end.
    #[arg(long, value_name = "MS", requires = "picture")]
    pub from: Option<u64>,

    /// Where the picture ends; by default with the violation.
    #[arg(long, value_name = "MS", requires = "picture")]
    pub to: Option<u64>,
}

/// [`Durability`] on the command line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum DurabilityName {
    /// Replicas have disks, and lose what was not synced.
    Disk,
    /// Replicas have no disks: one that restarts has lost its promises.
    Memory,
}

impl DurabilityName {
    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DurabilityName::Disk => "disk",
            DurabilityName::Memory => "memory",
        }
    }
}

impl From<DurabilityName> for Durability {
    fn from(name: DurabilityName) -> Self {
        match name {
            DurabilityName::Disk => Durability::Disk,
            DurabilityName::Memory => Durability::Memory,
        }
    }
}

/// An application on the command line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreName {
    /// Keys with a history, watches and leases; every write conflicts with every other.
    Etcd,
    /// Keys, values and versions; writes of different keys commute.
    Plain,
    /// Redis's strings, written in transactions.
    Redis,
    /// What Redis servers beside the replicas do, which drivers have ordered.
    Effects,
}

impl SimOptions {
    /// The protocol's parameters by name, the code among them; of a repeated one the last counts.
    ///
    /// # Errors
    /// If the code does not fit.
    pub fn params(&self) -> Result<BTreeMap<String, String>, String> {
        let mut params = self.param.iter().cloned().collect();
        if let Some(code) = self.code {
            code.add_to(self.replicas, &mut params)?;
        }
        Ok(params)
    }

    /// The one command that repeats a seed.
    #[must_use]
    pub fn command(&self, seed: u64) -> String {
        let mut command = format!(
            "quorate-lab sim --protocol {} --replicas {} --durability {} --profile {} --ops {}",
            self.protocol,
            self.replicas,
            self.durability.name(),
            self.profile.join(","),
            self.ops
        );
        match self.store {
            StoreName::Etcd => {}
            StoreName::Plain => command.push_str(" --store plain"),
            StoreName::Redis => command.push_str(" --store redis"),
            StoreName::Effects => command.push_str(" --store effects"),
        }
        if let Some(clients) = self.clients {
            command.push_str(&format!(" --clients {clients}"));
        }
        if self.hurt_ms != HURT_MS {
            command.push_str(&format!(" --hurt-ms {}", self.hurt_ms));
        }
        if !self.without.is_empty() {
            command.push_str(&format!(" --without {}", self.without.join(",")));
        }
        if let Some(code) = self.code {
            command.push_str(&format!(" --code {code}"));
        }
        for (name, value) in &self.param {
            command.push_str(&format!(" --param {name}={value}"));
        }
        if let Some(mutant) = &self.mutant {
            command.push_str(&format!(" --mutant {mutant}"));
        }
        command.push_str(&format!(" --seeds {seed}..{}", seed + 1));
        command
    }
}

pub(crate) fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let number = |text: &str| {
        text.parse::<u64>()
            .map_err(|_| format!("{text:?} is no number"))
    };
    let seeds = match text.split_once("..") {
        Some((from, to)) => number(from)?..number(to)?,
        None => number(text)?..number(text)?.saturating_add(1),
    };
    if seeds.is_empty() {
        return Err(format!(
            "{text} holds no seed: the end is not part of the range"
        ));
    }
    Ok(seeds)
}

/// Options from the words of a line, as on a command line.
///
/// # Errors
/// As clap finds them.
pub fn parse<T: Args>(line: &str) -> Result<T, clap::Error> {
    let command = T::augment_args(clap::Command::new("sim").no_binary_name(true));
    T::from_arg_matches(&command.try_get_matches_from(line.split_whitespace())?)
}

pub(crate) fn parse_param(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.into(), value.into())),
        _ => Err(format!("{text:?} is not NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_command_gives_the_same_options_back() {
        let line = "--protocol rabia --replicas 5 --durability memory --param window=4 \
                    --store plain --param f=1 --mutant fast-1 --profile loss,pauses \
                    --clients 2 --hurt-ms 100 --without pause --seeds 7";
        let options: SimOptions = parse(line).unwrap();
        let command = options.command(7);
        let again: SimOptions = parse(command.strip_prefix("quorate-lab sim ").unwrap()).unwrap();
        assert_eq!(again.command(7), command);
        assert_eq!(
            (again.seeds.clone(), again.params()),
            (7..8, options.params())
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--seeds 5..5",
            "--seeds x",
            "--seeds 9..3",
            "--param window",
            "--param =3",
        ] {
            assert!(parse::<SimOptions>(line).is_err(), "{line}");
        }
    }
}
