//! Options about coding values anew after a change, for one replica and for all of `quorate up`.

use clap::Args;
use quorate_host::Limits;
use quorate_tooling::units;
use serde::{Deserialize, Serialize};

/// How fast fragments are rebuilt.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RecodeOptions {
    /// Bytes of long values, as in 50MiB, of which this replica rebuilds its own fragments in a second: what it
    /// lacks after it was away, and all after a change of members, code or protocol [default: as many as
    /// it can]
    #[arg(long, env = "QUORATE_RECODE_RATE", value_name = "BYTES")]
    recode_rate: Option<String>,
}

impl RecodeOptions {
    /// The limit in bytes a second.
    pub(crate) fn resolve(&self) -> Result<u64, String> {
        let Some(text) = &self.recode_rate else {
            return Ok(Limits::default().recode_rate);
        };
        let rate = units::bytes(text).map_err(|why| format!("--recode-rate {text}: {why}"))?;
        match rate as u64 {
            rate if rate < RATE_MIN => Err(format!(
                "--recode-rate {text} is less than {RATE_MIN} bytes a second: the group can hardly \
                change while values are moved, which would take too long; leave the option out to move \
                them without a limit"
            )),
            rate => Ok(rate),
        }
    }

    /// The flag that says the same to a replica.
    pub(crate) fn flags(&self) -> impl Iterator<Item = String> {
        let given = self.recode_rate.iter();
        given.map(|rate| format!("--recode-rate={rate}"))
    }
}

/// A gigabyte still takes only hours.
const RATE_MIN: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn given(rate: &str) -> RecodeOptions {
        RecodeOptions {
            recode_rate: Some(rate.to_owned()),
        }
    }

    #[test]
    fn a_rate_has_a_unit_and_is_passed_on_as_it_was_given() {
        assert_eq!(given("50MiB").resolve(), Ok(50 << 20));
        assert_eq!(given("65536").resolve(), Ok(64 << 10));
        let flags: Vec<_> = given("50MiB").flags().collect();
        assert_eq!(flags, ["--recode-rate=50MiB"]);
        let none = RecodeOptions::default();
        assert_eq!((none.resolve(), none.flags().count()), (Ok(u64::MAX), 0));
    }

    #[test]
    fn a_rate_that_is_no_rate_is_refused() {
        for (text, why) in [
            ("0", "too long"),
            ("63KiB", "too long"),
            ("fast", "number"),
            ("5MB", "unit"),
        ] {
            let refused = given(text).resolve().unwrap_err();
            assert!(
                refused.starts_with(&format!("--recode-rate {text}")),
                "{refused}"
            );
            assert!(refused.contains(why), "{refused}");
        }
    }
}
