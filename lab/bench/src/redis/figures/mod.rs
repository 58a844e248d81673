//! `bench redis-figures`: what two papers show of Redis behind their protocols, measured here and printed beside it.

mod exhibit;
mod page;
mod plot;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::system::System;
use super::workload::Cell;
use super::{Durability, RedisArgs, Run, measure_all};
use exhibit::{Exhibit, NEZHA_12, RABIA_5, Setting};
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
    /// The Redis executable, which clusters run, too
    #[arg(long, env = "REDIS_SERVER", default_value = "redis-server")]
    redis_server: PathBuf,
    #[command(flatten)]
    place: Place,
    /// Also write the page to this file, in Markdown
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Also draw the figures into this file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
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
    fn exhibit(self) -> &'static Exhibit {
        match self {
            Figure::Rabia5 => &RABIA_5,
            Figure::Nezha12 => &NEZHA_12,
        }
    }
}

/// A figure and all its runs.
struct Measured {
    exhibit: &'static Exhibit,
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
    let picture = args.plot.as_deref().map(|path| picture_of(args, path));
    let page = page::render(args, &figures, picture.as_deref());
    print!("{page}");
    if let Some(path) = &args.page {
        units::write(path, &page)?;
    }
    if let Some(path) = &args.plot {
        units::write(path, &plot::render(&figures))?;
    }
    Ok(())
}

/// The picture as the page refers to it: by its name if both are in one folder.
fn picture_of(args: &RedisFiguresArgs, picture: &Path) -> String {
    let is_beside = (args.page.as_deref()).is_some_and(|page| page.parent() == picture.parent());
    match picture.file_name().filter(|_| is_beside) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => picture.display().to_string(),
    }
}

fn make(args: &RedisFiguresArgs, figure: Figure) -> Result<Measured, String> {
    let exhibit = figure.exhibit();
    let runs = exhibit.settings.iter().map(|setting| {
        let of_setting = redis_args(args, exhibit, setting)?;
        measure_all(&of_setting)
    });
    Ok(Measured {
        exhibit,
        by_setting: runs.collect::<Result<_, String>>()?,
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
