//! The figures of the paper's evaluation, beside what the paper says: in virtual time, and from processes.

mod numbers;
mod processes;
mod virtual_time;

use crate::options::Options;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// What is measured, and for how long.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// The mean of what is added to the way of packets in virtual time, in us.
    jitter_us: u64,
    seed: u64,
    /// Whether it may take minutes to find saturation in virtual time.
    is_long: bool,
    /// The folder of the page and its pictures. With it, processes are measured, too.
    page: Option<PathBuf>,
    /// How long participants trade at each rate, with processes.
    time: Duration,
    /// When no more processes are started.
    most: Duration,
}

/// Measures, prints the tables, and writes the page and its pictures where it is told to.
pub(crate) fn figures(mut options: Options) -> Result<(), Box<dyn Error>> {
    let figures = Figures {
        jitter_us: options.take("jitter", 20)?,
        seed: options.take("seed", 1)?,
        is_long: options.take("long", false)?,
        page: options.find("page")?,
        time: Duration::from_secs(options.take("seconds", 2_u64)?.max(1)),
        most: Duration::from_secs(60 * options.take("minutes", 8_u64)?),
    };
    options.finish()?;
    let table = virtual_time::table(&figures)?;
    print!("{table}");
    let Some(folder) = &figures.page else {
        return Ok(());
    };
    fs::write(
        folder.join("exchange.svg"),
        virtual_time::picture(figures.seed)?,
    )?;
    let measured = processes::measure(&figures)?;
    print!("{}", measured.page);
    fs::write(folder.join("exchange-processes.svg"), measured.picture)?;
    let page = format!(
        "# Fairness and speed of the exchange\n\n\
         `quorate-exchange figures --page docs/results` makes this page and its pictures. Requests are *overtaken* where\n\
         one that was stamped later is executed before them.\n\n\
         ![Unfairness over delays](exchange.svg)\n\n{table}\n{}",
        measured.page
    );
    fs::write(folder.join("exchange.md"), page)?;
    Ok(())
}
