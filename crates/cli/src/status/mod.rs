//! `quorate status`: how a cluster is, asked at any of its endpoints.

mod gather;
mod limit;
mod live;
mod problems;
mod report;
mod rounds;
mod scrape;
mod table;

use crate::Failure;
use crate::endpoints::Endpoints;
use clap::Args;
pub(crate) use gather::{Gathered, Seen, gather};
pub(crate) use problems::find;
#[cfg(test)]
pub(crate) use scrape::Reading;

use gather::follow;
use report::Report;
use std::process::ExitCode;
use std::time::Duration;

/// The pause between the two looks that recent figures are made of.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(500);

/// The options of `quorate status`.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusOptions {
    #[command(flatten)]
    endpoints: Endpoints,

    /// Show it again every SECONDS, in place, until q or Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "1",
        conflicts_with = "json"
    )]
    watch: Option<f64>,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows the cluster. The exit code says whether a quorum of it serves.
pub(crate) fn run(options: &StatusOptions) -> Result<ExitCode, Failure> {
    let asked = options.endpoints.open()?;
    if let Some(seconds) = options.watch {
        let interval = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|interval| *interval >= Duration::from_millis(100));
        let interval = interval.ok_or_else(|| {
            Failure::Usage(format!(
                "--watch {seconds}: at least 0.1 seconds lie between two looks"
            ))
        })?;
        let mut before = Vec::new();
        live::watch(interval, || {
            // The first look has none before it.
            let pause = before.is_empty().then_some(LOOK_PAUSE);
            let mut now = gather(&asked, pause);
            if pause.is_none() {
                follow(&mut now, std::mem::take(&mut before));
            }
            let text = table::render(&Report::of(&now));
            before = now;
            text
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let report = Report::of(&gather(&asked, Some(LOOK_PAUSE)));
    if options.json {
        let json = serde_json::to_string(&report);
        println!(
            "{}",
            json.map_err(|error| Failure::Failed(error.to_string()))?
        );
    } else {
        print!("{}", table::render(&report));
    }
    Ok(match report.serves {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}
