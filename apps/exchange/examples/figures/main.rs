//! The page of results: `figures --program target/release/quorate-exchange --page docs/results` measures the figures of
//! the paper's evaluation in virtual time and from processes, and writes the page and its pictures.

#![allow(
    clippy::disallowed_methods,
    reason = "it measures how long processes take"
)]

mod numbers;
#[path = "../../src/options.rs"]
mod options;
mod processes;
mod tables;
mod unfairness;

use options::Options;
use quorate_exchange::simulated::paper_table;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

/// What processes are measured with, and for how long.
#[derive(Clone, Debug)]
struct Figures {
    /// The program of the exchange.
    program: PathBuf,
    seed: u64,
    /// How long participants trade at each rate.
    time: Duration,
    /// When no more processes are started.
    most: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let mut options = Options::read(&args, &["long"])?;
    let figures = Figures {
        program: options.need("program")?,
        seed: options.take("seed", 1)?,
        time: Duration::from_secs(options.take("seconds", 2_u64)?.max(1)),
        most: Duration::from_secs(options.take("minutes", 8_u64)?.saturating_mul(60)),
    };
    let page: PathBuf = options.need("page")?;
    let jitter_us = options.take("jitter", 20)?;
    let is_long = options.take("long", false)?;
    options.finish()?;
    let table = paper_table(jitter_us, figures.seed, is_long)?;
    let unfairness = unfairness::picture(figures.seed)?;
    fs::write(page.join("exchange.svg"), unfairness)?;
    let measured = processes::measure(&figures)?;
    fs::write(page.join("exchange-processes.svg"), measured.picture)?;
    let text = format!(
        "# Fairness and speed of the exchange\n\n\
         `cargo run --release -p quorate-exchange --example figures -- --program PROGRAM --page \
         docs/results` makes\nthis page and its pictures. Requests are *overtaken* where one that was stamped later \
         is executed before them.\n\n\
         ![Unfairness over delays](exchange.svg)\n\n{table}\n{}",
        measured.page
    );
    print!("{text}");
    fs::write(page.join("exchange.md"), text)?;
    Ok(())
}
