//! Flags that set parameters of one protocol: the protocols declare them ([`quorate_protocols::Flag`]).

use clap::{Arg, ArgMatches, Args, Command, Error, FromArgMatches};
use quorate_protocols::{AUTO, Flag, FlagKind, flags};
use quorate_tooling::units;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The flags that were given, by their names, as people write them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProtocolFlags {
    given: BTreeMap<&'static str, String>,
}

impl ProtocolFlags {
    /// Adds what is asked for to the parameters of a protocol, if it is known which one.
    ///
    /// # Errors
    ///
    /// A message for people: a value is none of the flag's, the flag is another protocol's, or `--param` says
    /// something else.
    pub(crate) fn add_to(
        &self,
        protocol: Option<&str>,
        params: &mut BTreeMap<String, String>,
    ) -> Result<(), String> {
        for (owner, flag) in flags() {
            let Some(text) = self.given.get(flag.name) else {
                continue;
            };
            let Flag { name, param, .. } = flag;
            if let Some(other) = protocol.filter(|protocol| *protocol != owner) {
                return Err(format!(
                    "--{name} is an option of {owner}, and the protocol is {other}: leave it out, or choose \
                     {owner} (--protocol {owner} for a new cluster, quorate cluster switch {owner} for one \
                     that runs)"
                ));
            }
            let value = value(flag.kind, text).map_err(|why| format!("--{name} {why}"))?;
            match params.insert((*param).to_owned(), value.clone()) {
                Some(other) if other != value => {
                    return Err(format!(
                        "--{name} comes to {param}={value}, which contradicts --param {param}={other}"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// The value of the parameter, of what people write.
fn value(kind: FlagKind, text: &str) -> Result<String, String> {
    match kind {
        _ if text == AUTO => Ok(text.to_owned()),
        // How many there may be is for the protocol to say, which knows the replicas.
        FlagKind::Replicas => match text.parse::<u16>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("{text}: must be a number of replicas, or {AUTO}")),
        },
        FlagKind::Micros => micros(text),
    }
}

/// A time in whole microseconds.
fn micros(text: &str) -> Result<String, String> {
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

impl Args for ProtocolFlags {
    fn augment_args(command: Command) -> Command {
        flags().fold(command, |command, (owner, flag)| {
            let help = format!("{} [for {owner}; default: {}]", flag.help, flag.default);
            command.arg(
                Arg::new(flag.name)
                    .long(flag.name)
                    .env(flag.env)
                    .value_name(flag.value_name)
                    .help(help),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ProtocolFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut all = ProtocolFlags::default();
        all.update_from_arg_matches(matches)?;
        Ok(all)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for (_, flag) in flags() {
            if let Some(text) = matches.get_one::<String>(flag.name) {
                self.given.insert(flag.name, text.clone());
            }
        }
        Ok(())
    }
}

impl Serialize for ProtocolFlags {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ProtocolFlags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As a struct with these fields: a map would take every key that nobody else knows.
        static NAMES: LazyLock<Vec<&str>> =
            LazyLock::new(|| flags().map(|(_, flag)| flag.name).collect());
        deserializer.deserialize_struct("ProtocolFlags", &NAMES, Keys)
    }
}

/// Reads the flags that are keys of a file.
struct Keys;

/// A value in a file, which may be a number there.
#[derive(Deserialize)]
#[serde(untagged)]
enum FileValue {
    Number(u64),
    Text(String),
}

impl<'de> Visitor<'de> for Keys {
    type Value = ProtocolFlags;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("flags of protocols")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ProtocolFlags, A::Error> {
        let mut all = ProtocolFlags::default();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value::<FileValue>()?;
            let flag = flags().find(|(_, flag)| flag.name == key);
            if let Some((_, flag)) = flag {
                let text = match value {
                    FileValue::Number(number) => number.to_string(),
                    FileValue::Text(text) => text,
                };
                all.given.insert(flag.name, text);
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Deserialize)]
    struct Alone {
        #[command(flatten)]
        #[serde(flatten)]
        flags: ProtocolFlags,
    }

    fn given(line: &[&str]) -> ProtocolFlags {
        let words = ["alone"].into_iter().chain(line.iter().copied());
        Alone::try_parse_from(words).unwrap().flags
    }

    fn added(line: &[&str]) -> Result<String, String> {
        let mut params = BTreeMap::from([("window".to_owned(), "8".to_owned())]);
        given(line).add_to(Some("chora"), &mut params)?;
        let params = params.iter().map(|(name, value)| format!("{name}={value}"));
        Ok(params.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_is_asked_for_is_a_parameter_by_another_name() {
        for (line, params) in [
            (&[][..], "window=8"),
            (
                &["--proposers=2", "--round=50us"],
                "proposers=2 round_us=50 window=8",
            ),
            (
                &["--proposers", "auto", "--round", "1.5ms"],
                "proposers=auto round_us=1500 window=8",
            ),
            (&["--round=auto"], "round_us=auto window=8"),
        ] {
            assert_eq!(added(line).as_deref(), Ok(params));
        }
    }

    #[test]
    fn what_is_none_is_refused_by_its_flag() {
        for (line, why) in [
            ("--proposers=some", "--proposers some: must be a number"),
            ("--proposers=-1", "--proposers -1"),
            ("--round=50", "--round 50: must be a time"),
            ("--round=0us", "--round 0us"),
            (
                "--round=1500ns",
                "--round 1500ns: must be a time of whole us",
            ),
            ("--round=5min", "--round 5min: unknown unit"),
        ] {
            let refused = added(&[line]).unwrap_err();
            assert!(refused.starts_with(why), "{refused:?} lacks {why:?}");
        }
    }

    #[test]
    fn another_protocol_has_none_of_them() {
        let mut params = BTreeMap::new();
        for (line, flag) in [
            ("--proposers=1", "--proposers"),
            ("--round=50us", "--round"),
        ] {
            let refused = given(&[line])
                .add_to(Some("rabia"), &mut params)
                .unwrap_err();
            let why = format!("{flag} is an option of chora, and the protocol is rabia");
            assert!(refused.starts_with(&why), "{refused}");
        }
        assert!(given(&[]).add_to(Some("rabia"), &mut params).is_ok());
        assert!(params.is_empty());
    }

    #[test]
    fn a_parameter_that_says_something_else_is_a_contradiction() {
        let mut params = BTreeMap::from([("proposers".to_owned(), "3".to_owned())]);
        assert!(given(&["--proposers=3"]).add_to(None, &mut params).is_ok());
        let refused = given(&["--proposers=1"])
            .add_to(None, &mut params)
            .unwrap_err();
        assert!(
            refused.contains("contradicts --param proposers=3"),
            "{refused}"
        );
    }

    #[test]
    fn a_file_may_say_a_number_and_other_keys_are_left_to_others() {
        let read: Alone = toml::from_str("proposers = 2\nround = \"1ms\"\nother = true").unwrap();
        let expected = BTreeMap::from([("proposers", "2".to_owned()), ("round", "1ms".to_owned())]);
        assert_eq!(read.flags.given, expected);
    }

    #[test]
    fn what_is_written_to_a_file_is_read_again() {
        let flags = given(&["--proposers=auto"]);
        let text = toml::to_string(&flags).unwrap();
        assert_eq!(text, "proposers = \"auto\"\n");
    }
}
