//! Logs go to standard error, for people or for machines.

use crate::Failure;
use crate::modes::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::EnvFilter;

/// Starts logging. `level` is a level, or a filter such as `info,quorate_server=debug`.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(level).map_err(|error| {
        Failure::Usage(format!(
            "--log-level {level:?} is neither a level (error, warn, info, debug, trace) nor a \
             filter: {error}"
        ))
    })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr);
    match format {
        LogFormat::Text => builder.with_ansi(stderr().is_terminal()).init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    Ok(())
}
