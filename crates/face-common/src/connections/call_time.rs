//! Calls whose time is nearly over when they come.
//!
//! A client library may repeat a call that took all of its time, with the milliseconds by which a timer was early. The
//! first call may be executed yet, and so may this one. It is held back for a moment: its client gives it up meanwhile,
//! and then it is dropped with nothing done. If its client still waits, it goes on like any other.

use std::time::Duration;
use tonic::codegen::http::HeaderMap;

/// How long a gRPC call may take, as its client says.
pub(crate) const TIMEOUT: &str = "grpc-timeout";

/// Time within which a client has given up a call that had less than [`NEARLY_OVER`] left.
pub(super) const HOLD: Duration = Duration::from_millis(10);

/// Timers of JavaScript cut off the fraction of a millisecond and may be one early besides.
const NEARLY_OVER: Duration = Duration::from_millis(2);

/// Whether the client waits no longer than a timer may be early.
pub(super) fn is_nearly_over(headers: &HeaderMap) -> bool {
    let left = headers.get(TIMEOUT).and_then(|value| value.to_str().ok());
    left.and_then(parse).is_some_and(|left| left <= NEARLY_OVER)
}

/// A number of at most eight digits and a unit.
fn parse(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: u64 = number.parse().ok().filter(|_| number.len() <= 8)?;
    match unit {
        "n" => Some(Duration::from_nanos(number)),
        "u" => Some(Duration::from_micros(number)),
        "m" => Some(Duration::from_millis(number)),
        "S" => Some(Duration::from_secs(number)),
        "M" => Some(Duration::from_secs(number * 60)),
        "H" => Some(Duration::from_secs(number * 3600)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_with_two_milliseconds_left_or_less_are_nearly_over() {
        let is_held = |text: &'static str| {
            let headers = [(TIMEOUT, text)].map(|(name, text)| (name.parse().unwrap(), text));
            is_nearly_over(
                &headers
                    .map(|(name, text)| (name, text.parse().unwrap()))
                    .into_iter()
                    .collect(),
            )
        };
        for text in ["0m", "2m", "0S", "2000u", "999999n", "0H"] {
            assert!(is_held(text), "{text}");
        }
        for text in [
            "3m",
            "1S",
            "2001u",
            "99999999H",
            "",
            "m",
            "1",
            "1x",
            "-1m",
            "123456789n",
            "\u{b5}",
        ] {
            assert!(!is_held(text), "{text}");
        }
        assert!(!is_nearly_over(&HeaderMap::new()));
    }
}
