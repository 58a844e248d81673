//! `quorate status`: how a cluster is, asked at any of its endpoints.

mod gather;
mod live;
mod report;
mod rounds;
mod scrape;
mod table;

use crate::Failure;
use crate::endpoints::Endpoints;
use clap::Args;
use gather::gather;
use report::Report;
use std::process::ExitCode;
use std::time::Duration;

/// The pause between the two looks that recent figures are made of.
const LOOK_PAUSE: Duration = Duration::from_millis(500);

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
    let mut before = gather(&asked);
    if let Some(seconds) = options.watch {
        let interval = Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|interval| *interval >= Duration::from_millis(100));
        let interval = interval.ok_or_else(|| {
            Failure::Usage(format!(
                "--watch {seconds}: at least 0.1 seconds lie between two looks"
            ))
        })?;
        live::watch(interval, || {
            let now = gather(&asked);
            let text = table::render(&Report::of(&before, &now));
            before = now;
            text
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    std::thread::sleep(LOOK_PAUSE);
    let report = Report::of(&before, &gather(&asked));
    if options.json {
        let json = serde_json::to_string(&report);
        println!(
            "{}",
            json.map_err(|error| Failure::Failed(error.to_string()))?
        );
    } else {
        print!("{}", table::render(&report));
    }
    Ok(match report.healthy {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}
