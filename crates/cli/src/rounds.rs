//! Options of Chora by names of their own: who proposes, and how long a round lasts.

use clap::Args;
use quorate_tooling::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// Parameters `proposers` and `round_us` of the epoch, by other names.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RoundOptions {
    /// How many replicas propose, or auto: one alone while all clients are at it [for chora; default: all]
    #[arg(long, env = "QUORATE_PROPOSERS", value_name = "N")]
    proposers: Option<Proposers>,

    /// Length of a round, as in 50us, or auto: as the delays between replicas ask for [for chora; default: auto]
    #[arg(long, env = "QUORATE_ROUND", value_name = "TIME")]
    round: Option<String>,
}

/// As people write it: in a file it may be a number.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Proposers {
    Number(u16),
    Word(String),
}

impl RoundOptions {
    /// Adds what is asked for to the parameters of a protocol, if it is known which one.
    pub(crate) fn add_to(
        &self,
        protocol: Option<&str>,
        params: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        let proposers = self.proposers.as_ref().map(Proposers::parameter);
        let round = self.round.as_deref().map(round_us);
        let given = [
            ("--proposers", "proposers", proposers),
            ("--round", "round_us", round),
        ];
        for (flag, name, value) in given {
            let Some(value) = value else { continue };
            if let Some(other) = protocol.filter(|protocol| *protocol != PROTOCOL) {
                return Err(format!(
                    "{flag} is an option of {PROTOCOL}, and the protocol is {other}: leave it out, or choose \
                     {PROTOCOL} (--protocol {PROTOCOL} for a new cluster, quorate cluster switch {PROTOCOL} \
                     for one that runs)"
                ));
            }
            let value = value.map_err(|why| format!("{flag} {why}"))?;
            match params.insert(name.to_owned(), value.clone()) {
                Some(other) if other != value => {
                    return Err(format!(
                        "{flag} comes to {name}={value}, which contradicts --param {name}={other}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Proposers {
    /// The value of the parameter. How many there may be is for the protocol to say, which knows the replicas.
    fn parameter(&self) -> Result<String, String> {
        match self {
            Proposers::Word(word) if word != AUTO => {
                Err(format!("{word}: must be a number of replicas, or {AUTO}"))
            }
            one => Ok(one.to_string()),
        }
    }
}

impl FromStr for Proposers {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let number = text.parse().map(Proposers::Number);
        Ok(number.unwrap_or_else(|_| Proposers::Word(text.to_owned())))
    }
}

impl fmt::Display for Proposers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Proposers::Number(number) => number.fmt(f),
            Proposers::Word(word) => word.fmt(f),
        }
    }
}

/// The value of the parameter, in whole microseconds.
fn round_us(text: &str) -> Result<String, String> {
    if text == AUTO {
        return Ok(text.to_owned());
    }
    let example = format!("{text}: must be a time of whole us, as in 50us, or {AUTO}");
    if text.ends_with(|last: char| last.is_ascii_digit()) {
        // Elsewhere a bare number counts seconds, and nobody means a round of 50 seconds.
        return Err(example);
    }
    let length = units::duration(text).map_err(|why| format!("{text}: {why}"))?;
    match length.as_nanos() {
        0 => Err(example),
        ns if ns % 1000 != 0 => Err(example),
        ns => Ok((ns / 1000).to_string()),
    }
}

const PROTOCOL: &str = "chora";
const AUTO: &str = "auto";

#[cfg(test)]
mod tests {
    use super::*;

    fn given(proposers: &str, round: &str) -> RoundOptions {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        RoundOptions {
            proposers: some(proposers).map(|text| text.parse().unwrap()),
            round: some(round),
        }
    }

    fn added(proposers: &str, round: &str) -> Result<String, String> {
        let mut params = BTreeMap::from([("window".to_owned(), "8".to_owned())]);
        given(proposers, round).add_to(Some("chora"), &mut params)?;
        let params = params.iter().map(|(name, value)| format!("{name}={value}"));
        Ok(params.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_asked_for_is_a_parameter_by_another_name() {
        let came_to = |proposers, round| added(proposers, round).unwrap();
        assert_eq!(came_to("", ""), "window=8");
        assert_eq!(came_to("2", "50us"), "proposers=2 round_us=50 window=8");
        assert_eq!(
            came_to("auto", "1.5ms"),
            "proposers=auto round_us=1500 window=8"
        );
        assert_eq!(came_to("", "auto"), "round_us=auto window=8");
    }

    #[test]
    fn what_is_none_is_refused_by_its_flag() {
        for (proposers, round, why) in [
            ("some", "", "--proposers some: must be a number"),
            ("-1", "", "--proposers -1"),
            ("", "50", "--round 50: must be a time"),
            ("", "0us", "--round 0us"),
            ("", "1500ns", "--round 1500ns: must be a time of whole us"),
            ("", "5min", "--round 5min: unknown unit"),
        ] {
            let refused = added(proposers, round).unwrap_err();
            assert!(refused.starts_with(why), "{refused:?} lacks {why:?}");
        }
    }

    #[test]
    fn another_protocol_has_neither() {
        let mut params = BTreeMap::new();
        for (options, flag) in [
            (given("1", ""), "--proposers"),
            (given("", "50us"), "--round"),
        ] {
            let refused = options.add_to(Some("rabia"), &mut params).unwrap_err();
            let why = format!("{flag} is an option of chora, and the protocol is rabia");
            assert!(refused.starts_with(&why), "{refused}");
        }
        assert!(given("", "").add_to(Some("rabia"), &mut params).is_ok());
        assert!(params.is_empty());
    }

    #[test]
    fn a_parameter_that_says_something_else_is_a_contradiction() {
        let mut params = BTreeMap::from([("proposers".to_owned(), "3".to_owned())]);
        assert!(given("3", "").add_to(None, &mut params).is_ok());
        let refused = given("1", "").add_to(None, &mut params).unwrap_err();
        assert!(
            refused.contains("contradicts --param proposers=3"),
            "{refused}"
        );
    }

    #[test]
    fn a_file_may_say_a_number() {
        let read: RoundOptions = toml::from_str("proposers = 2\nround = \"1ms\"").unwrap();
        assert_eq!(read.proposers, Some(Proposers::Number(2)));
        let read: RoundOptions = toml::from_str("proposers = \"auto\"").unwrap();
        assert_eq!(read.proposers, Some(Proposers::Word("auto".to_owned())));
    }
}
