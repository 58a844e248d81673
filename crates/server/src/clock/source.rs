//! Who says how far the synchronised clock may be off.

use quorate_core::{MICROS, MILLIS, SECONDS};
use std::fmt;
use std::str::FromStr;

/// Where the bound on the clock's error comes from. The time itself is always the machine's.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockSource {
    /// The kernel, as the daemon that keeps its clock in step told it.
    #[default]
    Kernel,
    /// The operator, who vouches for it: ns.
    Declared(u64),
}

impl ClockSource {
    /// The source's name, as a label of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClockSource::Kernel => "kernel",
            ClockSource::Declared(_) => "declared",
        }
    }
}

/// As on the command line.
impl fmt::Display for ClockSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClockSource::Kernel => f.write_str("kernel"),
            ClockSource::Declared(ns) => write!(f, "declared:{ns}ns"),
        }
    }
}

/// The largest error that can be declared: an hour. A clock that is worse than that has no bound.
const DECLARED_NS_MAX: u64 = 3_600 * SECONDS;

impl FromStr for ClockSource {
    type Err = String;

    /// Reads `kernel` or `declared:ERROR`. The error says what would be right.
    fn from_str(text: &str) -> Result<ClockSource, String> {
        if text == "kernel" {
            return Ok(ClockSource::Kernel);
        }
        let Some(error) = text.strip_prefix("declared:") else {
            return Err("neither kernel nor declared:ERROR, as in declared:1ms".to_owned());
        };
        match nanoseconds(error) {
            Some(ns) if (1..=DECLARED_NS_MAX).contains(&ns) => Ok(ClockSource::Declared(ns)),
            Some(_) => Err("an error is at least 1ns and at most an hour".to_owned()),
            None => Err(format!(
                "{error:?} is no time: a whole number with ns, us, ms or s, as in 1ms"
            )),
        }
    }
}

fn nanoseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let unit_ns = match unit {
        "ns" => 1,
        "us" => MICROS,
        "ms" => MILLIS,
        "s" => SECONDS,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_as_they_are_written() {
        for (text, source) in [
            ("kernel", ClockSource::Kernel),
            ("declared:1ms", ClockSource::Declared(MILLIS)),
            ("declared:250us", ClockSource::Declared(250 * MICROS)),
            ("declared:2s", ClockSource::Declared(2 * SECONDS)),
        ] {
            let read: ClockSource = text.parse().unwrap();
            assert_eq!(read, source);
            assert_eq!(read.to_string().parse(), Ok(source));
        }
    }

    #[test]
    fn what_is_no_source_is_refused_with_what_would_be_right() {
        for (text, part) in [
            ("ntp", "neither kernel nor declared:ERROR"),
            ("declared", "as in declared:1ms"),
            ("declared:", "\"\" is no time"),
            ("declared:5", "with ns, us, ms or s"),
            ("declared:1.5ms", "a whole number"),
            ("declared:0ms", "at least 1ns"),
            ("declared:99999999999999999999s", "is no time"),
            ("declared:3601s", "at most an hour"),
        ] {
            let why = text.parse::<ClockSource>().unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
