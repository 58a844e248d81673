//! `quorate-lab modes`: how replicas of Chora change between rounds and none while something goes wrong, and
//! what is committed meanwhile.
//!
//! The same machines as in the figures of its paper, with the parameters that a cluster has unless it is told
//! otherwise, and a network of a data centre. Everything is seen in bins of time.

mod page;
mod scenes;

use crate::figures::points::Failure;
use crate::parallel;
use clap::Args;
use page::Page;
use scenes::{Course, Scene};
use std::path::PathBuf;
use std::process::ExitCode;

/// What is run.
#[derive(Args, Clone, Debug)]
pub struct ModesOptions {
    /// Replicas
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=9))]
    pub replicas: u8,

    /// Commands that clients ask of each replica in a second
    #[arg(long, value_name = "RATE", default_value_t = 40_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub rate: u64,

    /// How many times as long everything takes a replica that is slow
    #[arg(long, value_name = "TIMES", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    pub slow: u64,

    /// Another parameter of the protocol; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = crate::options::parse_param)]
    pub param: Vec<(String, String)>,

    /// The seed of all runs
    #[arg(long, default_value_t = 0)]
    pub seed: u64,

    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,

    /// What messages cost to process [default: as measured with this program]
    #[arg(long, value_name = "FILE.toml")]
    pub cost: Option<PathBuf>,

    /// Draw it
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Runs and prints: exit code 0, 1 if something stood still, did not come back, or broke a promise, 2 if the
/// options make no sense.
pub fn run(options: &ModesOptions) -> ExitCode {
    let page = match measure(options) {
        Ok(page) => page,
        Err(Failure::Usage(why)) => {
            eprintln!("error: {why}");
            return ExitCode::from(2);
        }
        Err(Failure::Violated(why)) => {
            eprintln!("error: {why}");
            return ExitCode::FAILURE;
        }
    };
    print!("{page}");
    if let Some(path) = &options.plot
        && let Err(error) = std::fs::write(path, page.picture())
    {
        eprintln!("error: {}: {error}", path.display());
        return ExitCode::FAILURE;
    }
    let wrong = page.wrong();
    wrong.iter().for_each(|what| eprintln!("error: {what}"));
    match wrong.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn measure(options: &ModesOptions) -> Result<Page, Failure> {
    let cost = super::cost::Cost::read(options.cost.as_deref()).map_err(Failure::Usage)?;
    let scenes = scenes::all(options, cost);
    let all = parallel::run_all(&scenes, options.jobs, Scene::play);
    let courses = all.into_iter().collect::<Result<Vec<Course>, String>>();
    Ok(Page {
        options: options.clone(),
        courses: courses.map_err(Failure::Violated)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        modes: ModesOptions,
    }

    /// The shortest one: each takes a while. A pause is longer than any round, and too short to be given up.
    #[test]
    fn rounds_end_while_a_replica_stands_still_and_come_back() {
        let options = Cli::parse_from(["modes"]).modes;
        let cost = super::super::cost::Cost::read(None).unwrap();
        let scene = &scenes::all(&options, cost)[0];
        let course = scene.play().unwrap();
        assert_eq!(course.wrong(), Vec::<String>::new());
        assert_eq!(course.views(), 0);
        let [before, meanwhile, after] = course.stretches();
        assert!(before.pulsing == 1.0 && after.pulsing == 1.0);
        assert!(
            meanwhile.per_second < before.per_second / 10.0,
            "all need its slots"
        );
        assert!(course.left_after_ns().is_some_and(|ns| ns < 30_000_000));
        assert!(course.longest_still_ns() < 25_000_000);
    }
}
