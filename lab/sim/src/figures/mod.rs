//! `quorate-lab figures`: what a protocol's paper measured, measured here.
//!
//! Whole clusters without faults, every check on. What is measured is what the paper is about: how slots
//! are decided ([`slots`]), what deadlines do ([`deadlines`]), or what rounds do ([`chora`]).

mod chora;
mod deadlines;
mod points;
mod slots;

pub use chora::modes::{ModesOptions, run as modes};

use crate::options::DurabilityName;
use clap::Args;
use deadlines::Deadlines;
use points::{Failure, paper_of};
use quorate_protocols::{About, Setting};
use serde_json::Value;
use slots::Figures;
use std::path::PathBuf;
use std::process::ExitCode;

/// What is measured.
#[derive(Args, Clone, Debug)]
pub struct FiguresOptions {
    /// The protocol
    #[arg(long, default_value = "rabia")]
    pub protocol: String,

    /// Sizes of clusters
    #[arg(
        long,
        value_name = "N[,N]",
        value_delimiter = ',',
        default_value = "3,5"
    )]
    pub replicas: Vec<usize>,

    /// What survives a crash
    #[arg(long, value_enum, default_value_t = DurabilityName::Memory)]
    pub durability: DurabilityName,

    /// Requests offered a second
    #[arg(
        long,
        value_name = "RATE[,RATE]",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        default_value = "100,300,1000,3000,10000,30000"
    )]
    pub rates: Vec<u64>,

    /// Slots that each rate takes at least, about
    #[arg(long, default_value_t = 5_000)]
    pub slots: u64,

    /// The least time a message takes under load
    #[arg(long, value_name = "US", default_value_t = 100)]
    pub delay_us: u64,

    /// The mean of what it takes beyond that
    #[arg(long, value_name = "US", default_value_t = 25)]
    pub jitter_us: u64,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,

    /// What messages cost to process, where a protocol's figures count with it [default: as measured
    /// with this program]
    #[arg(long, value_name = "FILE.toml")]
    pub cost: Option<PathBuf>,

    /// Print JSON instead of text
    #[arg(long)]
    pub json: bool,

    /// Draw what pictures tell
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

impl FiguresOptions {
    /// The command line that measures the same: what is not as it is by default is named.
    fn command_line(&self) -> String {
        #[derive(clap::Parser)]
        struct Defaults {
            #[command(flatten)]
            options: FiguresOptions,
        }
        let usual = <Defaults as clap::Parser>::parse_from([""]).options;
        let mut line = format!("quorate-lab figures --protocol {}", self.protocol);
        let mut flag = |name: &str, value: String, usual: String| {
            if value != usual {
                line.push_str(&format!(" --{name} {value}"));
            }
        };
        let sizes = |options: &FiguresOptions| list(&options.replicas);
        flag("replicas", sizes(self), sizes(&usual));
        let durability = |options: &FiguresOptions| options.durability.name().to_owned();
        flag("durability", durability(self), durability(&usual));
        let rates = |options: &FiguresOptions| list(&options.rates);
        flag("rates", rates(self), rates(&usual));
        for (name, value, usual) in [
            ("slots", self.slots, usual.slots),
            ("delay-us", self.delay_us, usual.delay_us),
            ("jitter-us", self.jitter_us, usual.jitter_us),
            ("seed", self.seed, usual.seed),
        ] {
            flag(name, value.to_string(), usual.to_string());
        }
        for (name, path) in [("cost", &self.cost), ("plot", &self.plot)] {
            if let Some(path) = path {
                flag(name, path.display().to_string(), String::new());
            }
        }
        line
    }
}

/// Numbers as a flag takes them.
fn list(numbers: &[impl ToString]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

/// What was measured, in the ways it is told.
trait Report {
    /// A page of tables, as in `docs/`.
    fn text(&self) -> String;

    /// The same for machines.
    fn as_json(&self) -> Value;

    /// What of it is drawn, as SVG.
    fn picture(&self) -> String;
}

/// Measures and prints: exit code 0, 1 if a run broke a promise or the picture cannot be written,
/// 2 if the options make no sense.
pub fn run(options: &FiguresOptions) -> ExitCode {
    let report = match measure(options) {
        Ok(report) => report,
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
        Err(Failure::Violated(why)) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        println!("{:#}", report.as_json());
    } else {
        print!("{}", report.text());
    }
    if let Some(path) = &options.plot
        && let Err(error) = std::fs::write(path, report.picture())
    {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn measure(options: &FiguresOptions) -> Result<Box<dyn Report>, Failure> {
    if options.protocol == chora::NAME {
        return Ok(Box::new(chora::measure(options)?));
    }
    let paper = paper_of(&options.protocol).map_err(Failure::Usage)?;
    if let Some(paper) = paper
        && paper.about == About::Deadlines
    {
        return Ok(Box::new(Deadlines::measure(options, paper)?));
    }
    Ok(Box::new(Figures::measure(options, paper)?))
}

/// A setting as an item of a list.
fn setting_line(setting: &Setting) -> String {
    let Setting {
        name, what, params, ..
    } = setting;
    if params.is_empty() {
        return format!("- **{name}**: {what}");
    }
    let params = params.iter().map(|(name, value)| format!("{name}={value}"));
    let params = params.collect::<Vec<_>>().join(" ");
    format!("- **{name}**: {what} (`{params}`)")
}
