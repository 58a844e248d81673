//! Logs go to standard error, for people or for machines.

use crate::Failure;
use crate::modes::LogFormat;
use std::io::{IsTerminal, stderr};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

/// Starts logging. `level` is a level, or a filter such as `info,quorate_server=debug`.
pub(crate) fn start(level: &str, format: LogFormat) -> Result<(), Failure> {
    let filter = filter(level).ok_or_else(|| {
        Failure::Usage(format!(
            "--log-level {level:?} is neither a level (off, error, warn, info, debug, trace) nor a list of \
             them for crates, as in info,quorate_server=debug"
        ))
    })?;
    let lines = fmt::layer().with_writer(stderr);
    let lines = match format {
        LogFormat::Text => lines.with_ansi(stderr().is_terminal()).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    registry().with(lines).with(filter).init();
    Ok(())
}

/// The filter that a level, or a list of levels for crates, stands for; `None` for anything else.
fn filter(level: &str) -> Option<Targets> {
    let is_level = |word: &str| !word.is_empty() && word.parse::<LevelFilter>().is_ok();
    let mut words = level
        .split(',')
        .map(|word| word.rsplit('=').next().unwrap_or(word));
    words.all(is_level).then(|| level.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_levels_of_crates_are_filters_and_other_words_are_not() {
        for level in ["info", "off", "warn,quorate_server=debug"] {
            assert!(filter(level).is_some(), "{level}");
        }
        for level in ["loud", "", "info,quorate_server", "quorate_server=loud"] {
            assert!(filter(level).is_none(), "{level}");
        }
    }
}
