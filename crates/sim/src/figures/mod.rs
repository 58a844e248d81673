//! `quorate sim figures`: what a protocol's paper measured, measured here.
//!
//! Whole clusters without faults, every check on: how many message delays a decision takes when
//! all replicas propose the same, and which share of slots is decided fast, or for nothing, as
//! the load grows.

mod chart;
mod chora;
mod page;
mod parallel;
mod points;

use crate::options::DurabilityName;
use clap::Args;
use points::Figures;
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

    /// Draw the shares under load
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Measures and prints: exit code 0, 1 if a run broke a promise or the picture cannot be written,
/// 2 if the options make no sense.
pub(crate) fn run(options: &FiguresOptions) -> ExitCode {
    if options.protocol == chora::NAME {
        return chora::run(options);
    }
    let figures = match Figures::measure(options) {
        Ok(figures) => figures,
        Err(points::Failure::Usage(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
        Err(points::Failure::Violated(why)) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    if options.json {
        println!("{:#}", figures.as_json());
    } else {
        print!("{}", page::text(&figures));
    }
    if let Some(path) = &options.plot
        && let Err(error) = std::fs::write(path, chart::render(&figures))
    {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn measure(line: &str) -> Figures {
        let options = crate::parse(line).unwrap();
        match Figures::measure(&options) {
            Ok(figures) => figures,
            Err(points::Failure::Usage(why) | points::Failure::Violated(why)) => panic!("{why}"),
        }
    }

    #[test]
    fn equal_proposals_are_decided_after_as_many_delays_as_the_paper_says() {
        let figures = measure("--rates 1000 --slots 600");
        let mut seen = Vec::new();
        for point in &figures.alone {
            let measured = &point.measured;
            assert!(measured.slots > 400, "{measured:?}");
            let expected = BTreeMap::from([(point.setting.delays, measured.decided)]);
            assert_eq!(measured.delays, expected, "{}", point.setting.name);
            assert_eq!(measured.noops, 0, "{}", point.setting.name);
            seen.push((point.setting.name, point.replicas, point.setting.delays));
        }
        for expected in [
            ("three-step", 3, 3),
            ("three-step", 5, 3),
            ("two-step", 3, 2),
            ("two-step", 5, 2),
            ("default", 5, 1),
        ] {
            assert!(seen.contains(&expected), "{expected:?} in {seen:?}");
        }
        for point in &figures.loaded {
            let (fast, answered) = (point.measured.fast, point.measured.latencies_ns.len());
            assert!(fast > 0 && answered > 100, "{:?}", point.measured);
        }
    }

    #[test]
    fn the_page_the_json_and_the_picture_tell_the_same() {
        let figures = measure("--replicas 3 --rates 500,2000 --slots 600 --plot shares.svg");
        let point = &figures.loaded[0];
        let page = page::text(&figures);
        let fast = format!("| {:.2} % |", point.percent(point.measured.fast));
        for part in ["99.58 %", "0.31 %", "(shares.svg)", "three-step", &fast] {
            assert!(page.contains(part), "{part}: {page}");
        }
        let json = figures.as_json();
        assert_eq!(
            json["alone"][0]["delays"]["3"],
            figures.alone[0].measured.decided
        );
        assert_eq!(json["loaded"].as_array().map(Vec::len), Some(6));
        let picture = chart::render(&figures);
        assert!(picture.contains("0.42 % off the fast path"));
        assert!(picture.contains("NULL slots, 3 replicas"));
    }
}
