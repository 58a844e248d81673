//! What was given: by flags as Go's library reads them, by variables of the environment, or by a file.

use super::flags::{FLAGS, Flag, Kind, PREFIX, find};
use crate::Failure;
use crate::nearest;
use std::collections::BTreeMap;

/// The options that were given, each once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Given {
    /// Values in the notation of [`Flag::value`], by the names of flags.
    values: BTreeMap<&'static str, String>,
    /// Options of `quorate serve`, given with [`OWN`] before their names.
    pub(super) own: Vec<(String, String)>,
    /// What people are to be told once there is a log.
    pub(super) warnings: Vec<String>,
    /// Whether a file says all this.
    pub(super) is_from_file: bool,
}

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Asked {
    Help,
    Version,
    /// A replica with these options.
    Start(Given),
    /// A replica with the options in this file. Whether more was given, which then does not count.
    StartFromFile {
        path: String,
        is_more_given: bool,
    },
}

/// What options of `quorate serve` that etcd does not know begin with here.
pub(super) const OWN: &str = "quorate-";

/// Variables that etcd reads for other purposes than options.
const OTHER_VARIABLES: [&str; 2] = ["ETCD_UNSUPPORTED_ARCH", "ETCD_VERSION"];

impl Given {
    /// What a file says, before it is read.
    pub(super) fn of_file() -> Given {
        Given {
            is_from_file: true,
            ..Given::default()
        }
    }

    /// The value of a flag, if it was given.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// The value of a flag, or its default.
    pub(super) fn value(&self, name: &str) -> &str {
        let default = || find(name).map_or("", |flag| flag.default);
        self.get(name).unwrap_or_else(default)
    }

    /// Every flag that was given, with its value, in the order of the table.
    pub(super) fn all(&self) -> impl Iterator<Item = (&'static Flag, &str)> {
        FLAGS
            .iter()
            .filter_map(|flag| Some((flag, self.get(flag.name)?)))
    }

    /// Takes a value; `false` if it is not of the flag's kind.
    pub(super) fn set(&mut self, flag: &'static Flag, text: &str) -> bool {
        let value = flag.value(text);
        let is_value = value.is_some();
        if let Some(value) = value {
            self.values.insert(flag.name, value);
        }
        is_value
    }
}

/// Reads a command line without the name of the program, and the environment.
///
/// # Errors
/// [`Failure::Usage`] for a flag that is none or has no value of its kind, [`Failure::Failed`] for a word that is no
/// flag and for a variable without a value of its kind.
pub(super) fn read(
    words: &[String],
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Asked, Failure> {
    let mut given = Given::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(name) = name_in(word)? else {
            let found = match word.as_str() {
                "--" => rest.next(),
                _ => Some(word),
            };
            match found {
                None => break,
                Some(word) => return Err(Failure::Failed(not_a_flag(word))),
            }
        };
        let (name, value) = match name.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (name, None),
        };
        if let Some(own) = name.strip_prefix(OWN) {
            let value = value.or_else(|| rest.next().map(String::as_str));
            let value = value.ok_or_else(|| needs_argument(name))?;
            given.own.push((own.to_owned(), value.to_owned()));
            continue;
        }
        let Some(flag) = find(name) else {
            match name {
                "h" | "help" => return Ok(Asked::Help),
                _ if IGNORED.contains(&name) => {
                    let _ = value.or_else(|| rest.next().map(String::as_str));
                    continue;
                }
                _ => return Err(Failure::Usage(unknown(name))),
            }
        };
        let value = match (value, flag.kind) {
            (Some(value), _) => value,
            (None, Kind::Bool) => "true",
            (None, _) => rest.next().ok_or_else(|| needs_argument(name))?,
        };
        if !given.set(flag, value) {
            return Err(Failure::Usage(format!(
                "invalid value {value:?} for flag -{name}: {}",
                wanted(flag.kind)
            )));
        }
    }
    let variables: BTreeMap<String, String> = variables
        .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
        .collect();
    asked(given, &variables)
}

/// What flags and variables ask for together.
fn asked(mut given: Given, variables: &BTreeMap<String, String>) -> Result<Asked, Failure> {
    if given.get("version") == Some("true") {
        return Ok(Asked::Version);
    }
    let config = find("config-file").map(Flag::variable).unwrap_or_default();
    let path = given.get("config-file").filter(|path| !path.is_empty());
    if let Some(path) = path.or(variables.get(&config).map(String::as_str)) {
        let of_flags = given.values.len() - usize::from(given.get("config-file").is_some());
        let of_variables = variables.len() - usize::from(variables.contains_key(&config));
        return Ok(Asked::StartFromFile {
            path: path.to_owned(),
            is_more_given: of_flags + of_variables + given.own.len() > 0,
        });
    }
    take_variables(&mut given, variables)?;
    Ok(Asked::Start(given))
}

/// Takes variables where no flag says otherwise.
fn take_variables(given: &mut Given, variables: &BTreeMap<String, String>) -> Result<(), Failure> {
    let mut unknown = Vec::new();
    for (name, value) in variables {
        let flag = FLAGS.iter().find(|flag| flag.variable() == *name);
        let Some(flag) = flag else {
            if !OTHER_VARIABLES.contains(&name.as_str()) {
                unknown.push(name.as_str());
            }
            continue;
        };
        if given.get(flag.name).is_some() {
            given.warnings.push(format!(
                "{name} is set and so is --{}: the flag counts (etcd would end here)",
                flag.name
            ));
        } else if !given.set(flag, value) {
            return Err(Failure::Failed(format!(
                "invalid value {value:?} for {name}: {}",
                wanted(flag.kind)
            )));
        }
    }
    if !unknown.is_empty() {
        given.warnings.push(format!(
            "variables of the environment that are no options of etcd: {}",
            unknown.join(", ")
        ));
    }
    Ok(())
}

/// The name, with a value behind `=` if there is one, of a word that is a flag; `None` for another word.
fn name_in(word: &str) -> Result<Option<&str>, Failure> {
    let name = word
        .strip_prefix("--")
        .or_else(|| word.strip_prefix('-'))
        .unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    match name.starts_with(['-', '=']) {
        true => Err(Failure::Usage(format!("bad flag syntax: {word}"))),
        false => Ok(Some(name)),
    }
}

/// Flags of etcd 0 that etcd takes and ignores to this day, each with a value.
const IGNORED: [&str; 13] = [
    "cluster-active-size",
    "cluster-remove-delay",
    "cluster-sync-interval",
    "config",
    "force",
    "max-result-buffer",
    "max-retry-attempts",
    "peer-heartbeat-interval",
    "peer-election-timeout",
    "retry-interval",
    "snapshot",
    "v",
    "vv",
];

fn not_a_flag(word: &str) -> String {
    let why = format!("{word:?} is not a valid flag");
    match word {
        "gateway" | "grpc-proxy" => format!(
            "{why}: etcd's proxies are not served. Clients may be given all members' addresses; `quorate gateway` is a \
             gateway of Quorate's own"
        ),
        _ => why,
    }
}

fn needs_argument(name: &str) -> Failure {
    Failure::Usage(format!("flag needs an argument: -{name}"))
}

fn unknown(name: &str) -> String {
    let known = FLAGS.iter().map(|flag| flag.name);
    let instead = match nearest::of(name, known) {
        Some(near) => format!(" (did you mean --{near}?)"),
        None => String::new(),
    };
    format!("flag provided but not defined: -{name}{instead}; --help lists them all")
}

/// What a value should have been.
pub(super) fn wanted(kind: Kind) -> &'static str {
    match kind {
        Kind::Text | Kind::List | Kind::Urls => "a text is wanted",
        Kind::Bool => "true or false is wanted",
        Kind::Count => "a number that is not negative is wanted",
        Kind::Int => "a number is wanted",
        Kind::Time => "a time such as 10s or 1m30s is wanted",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_line(line: &str, variables: &[(&str, &str)]) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        read(&words, variables).map_err(|failure| match failure {
            Failure::Usage(why) => format!("2: {why}"),
            Failure::Failed(why) => format!("1: {why}"),
        })
    }

    fn given(line: &str, variables: &[(&str, &str)]) -> Given {
        match read_line(line, variables) {
            Ok(Asked::Start(given)) => given,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        let line = "-name a --data-dir=b -snapshot-count=7 --pre-vote=f --auto-tls --name=c";
        let given = given(line, &[]);
        let all: Vec<_> = given
            .all()
            .map(|(flag, value)| (flag.name, value))
            .collect();
        let expected = [
            ("name", "c"),
            ("data-dir", "b"),
            ("snapshot-count", "7"),
            ("pre-vote", "false"),
            ("auto-tls", "true"),
        ];
        assert_eq!(all, expected);
        assert_eq!(given.value("initial-cluster-token"), "etcd-cluster");
    }

    #[test]
    fn a_value_may_look_like_a_flag_and_options_of_serve_have_a_prefix() {
        let given = given(
            "--name --data-dir --quorate-protocol nezha --quorate-cores=1,2",
            &[],
        );
        assert_eq!(given.get("name"), Some("--data-dir"));
        let own = [("protocol", "nezha"), ("cores", "1,2")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(given.own, own);
    }

    #[test]
    fn what_is_no_flag_is_named_with_the_code_that_etcd_ends_with() {
        for (line, why) in [
            (
                "--nam x",
                "2: flag provided but not defined: -nam (did you mean --name?)",
            ),
            (
                "--zzzzzzz x",
                "2: flag provided but not defined: -zzzzzzz; --help",
            ),
            ("--name", "2: flag needs an argument: -name"),
            ("---name x", "2: bad flag syntax: ---name"),
            ("--=x", "2: bad flag syntax: --=x"),
            (
                "--pre-vote=maybe",
                "2: invalid value \"maybe\" for flag -pre-vote: true or",
            ),
            (
                "--max-wals=-1",
                "2: invalid value \"-1\" for flag -max-wals: a number",
            ),
            ("--auto-tls false", "1: \"false\" is not a valid flag"),
            (
                "--name a -- --data-dir",
                "1: \"--data-dir\" is not a valid flag",
            ),
            (
                "gateway start",
                "1: \"gateway\" is not a valid flag: etcd's proxies",
            ),
        ] {
            let said = read_line(line, &[]).unwrap_err();
            assert!(said.starts_with(why), "{line}: {said}");
        }
        assert_eq!(given("--v 3 --name a --", &[]).get("name"), Some("a"));
    }

    #[test]
    fn flags_go_before_variables_and_a_file_before_both() {
        let variables = [
            ("ETCD_NAME", "v"),
            ("ETCD_DATA_DIR", "d"),
            ("ETCD_WAL_DIR", ""),
            ("ETCD_SERVICE_HOST", "h"),
            ("ETCD_UNSUPPORTED_ARCH", "x"),
            ("ETCDCTL_API", "3"),
        ];
        let given = given("--name f", &variables);
        assert_eq!(
            (given.get("name"), given.get("data-dir")),
            (Some("f"), Some("d"))
        );
        assert_eq!(given.get("wal-dir"), None);
        let warnings = [
            "ETCD_NAME is set and so is --name: the flag counts (etcd would end here)",
            "variables of the environment that are no options of etcd: ETCD_SERVICE_HOST",
        ];
        assert_eq!(given.warnings, warnings);
        let file = |path: &str, is_more_given| {
            let path = path.to_owned();
            Ok(Asked::StartFromFile {
                path,
                is_more_given,
            })
        };
        assert_eq!(read_line("--config-file y", &[]), file("y", false));
        assert_eq!(read_line("--config-file y --name f", &[]), file("y", true));
        let of_variable = [("ETCD_CONFIG_FILE", "z")];
        assert_eq!(read_line("", &of_variable), file("z", false));
        assert_eq!(read_line("--config-file y", &of_variable), file("y", false));
        let wrong = read_line("", &[("ETCD_MAX_WALS", "x")]).unwrap_err();
        assert!(
            wrong.starts_with("1: invalid value \"x\" for ETCD_MAX_WALS"),
            "{wrong}"
        );
    }

    #[test]
    fn help_and_version_are_asked_for_among_other_flags() {
        for line in ["-h", "--help", "--name a -help"] {
            assert_eq!(read_line(line, &[]), Ok(Asked::Help));
        }
        assert_eq!(read_line("--version --name a", &[]), Ok(Asked::Version));
    }
}
