//! `bench redis-figures`: what two papers show of Redis behind their protocols, measured here and printed beside it.

mod exhibit;
mod page;
mod plot;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::system::System;
use super::workload::Cell;
use super::{Durability, RedisArgs, Run, measure_all};
use exhibit::{Exhibit, Setting, nezha_12, rabia_5};
use quorate_tooling::program::Place;
use quorate_tooling::units;

/// The options of `bench redis-figures`.
#[derive(Debug, Clone, Args)]
pub struct RedisFiguresArgs {
    /// The figures to make, separated by commas
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "rabia-5,nezha-12"
    )]
    figures: Vec<Figure>,
    /// How often every system gets its turn in each setting
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,
    /// Measured time of each run
    #[arg(long, default_value = "5s", value_parser = units::duration)]
    duration: Duration,
    /// Load before each measurement
    #[arg(long, default_value = "1s", value_parser = units::duration)]
    warmup: Duration,
    /// Bytes per field of the large records of Nezha's figure, with which Redis alone should be as slow as the paper's
    #[arg(long, default_value = "2000", value_parser = units::bytes)]
    large_field_size: usize,
    /// The Redis executable, which clusters run, too
    #[arg(long, env = "REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Also write the page to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Also draw the figures into this folder
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
}

/// A figure of a paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Figure {
    /// Rabia's Figure 5: Redis behind Rabia, and Redis's own replication
    #[value(name = "rabia-5")]
    Rabia5,
    /// Nezha's Figure 12: YCSB's workload A on hashes, 20 clients in a closed loop
    #[value(name = "nezha-12")]
    Nezha12,
}

impl Figure {
    fn exhibit(self, args: &RedisFiguresArgs) -> Exhibit {
        match self {
            Figure::Rabia5 => rabia_5(),
            Figure::Nezha12 => nezha_12(args.large_field_size),
        }
    }
}

/// A figure and all its runs.
struct Measured {
    exhibit: Exhibit,
    /// The runs of each setting, in the order of settings.
    by_setting: Vec<Vec<Run>>,
}

impl Measured {
    /// The runs of a system in a setting.
    fn runs_of(&self, setting: usize, system: &str) -> impl Iterator<Item = &Run> {
        let runs = self.by_setting.get(setting).into_iter().flatten();
        runs.filter(move |run| run.system.to_string() == system)
    }

    /// How much faster a system was than another one, in each turn.
    fn ratios(&self, setting: usize, of: &str, over: &str) -> Vec<f64> {
        let ratios = self.runs_of(setting, of).filter_map(|run| {
            let mut others = self.runs_of(setting, over);
            let other = others.find(|other| other.turn == run.turn)?;
            Some(run.per_second / other.per_second)
        });
        ratios.collect()
    }
}

/// Makes the figures and prints them.
pub fn run(args: &RedisFiguresArgs) -> Result<(), String> {
    quorate_tooling::cleanup::on_interrupt();
    let figures = args.figures.iter().map(|figure| make(args, *figure));
    let figures = figures.collect::<Result<Vec<_>, _>>()?;
    let page = page::render(args, &figures);
    print!("{page}");
    if let Some(path) = &args.page {
        units::write(path, &page)?;
    }
    let folders = args.plots.iter();
    for (folder, figure) in folders.flat_map(|folder| figures.iter().map(move |one| (folder, one)))
    {
        units::write(&folder.join(figure.exhibit.file), &plot::render(figure))?;
    }
    Ok(())
}

fn make(args: &RedisFiguresArgs, figure: Figure) -> Result<Measured, String> {
    let exhibit = figure.exhibit(args);
    let runs = exhibit.settings.iter().map(|setting| {
        let of_setting = redis_args(args, &exhibit, setting)?;
        measure_all(&of_setting)
    });
    Ok(Measured {
        by_setting: runs.collect::<Result<_, String>>()?,
        exhibit,
    })
}

/// What `bench redis` would be told for one setting.
fn redis_args(
    args: &RedisFiguresArgs,
    exhibit: &Exhibit,
    setting: &Setting,
) -> Result<RedisArgs, String> {
    let systems = exhibit.bars.iter().map(|bar| System::parse(bar.system));
    Ok(RedisArgs {
        systems: systems.collect::<Result<_, _>>()?,
        runs: vec![Cell::parse(setting.run)?],
        durability: Durability::Memory,
        replicas: exhibit::REPLICAS,
        asked: 0,
        turns: args.turns,
        duration: args.duration,
        warmup: args.warmup,
        val_size: setting.data.val_size,
        field_size: setting.data.field_size,
        keys: setting.data.keys,
        skew: setting.data.skew,
        redis_server: args.redis_server.clone(),
        other: None,
        quorate_option: Vec::new(),
        place: args.place.clone(),
        markdown: None,
        json: None,
    })
}
