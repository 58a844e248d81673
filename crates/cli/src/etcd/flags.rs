//! Every flag of etcd's command line, and what becomes of it.
//!
//! `flags.txt` is the one table of them: it serves flags, variables, keys of files, `--help` and the test of the page
//! that lists them.

use crate::compaction::duration;
use std::sync::LazyLock;
use std::time::Duration;

/// A flag of etcd's command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Flag {
    /// The name behind `--`, which is the key of a file as well.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The value that etcd takes where none is given.
    pub(super) default: &'static str,
    pub(super) fate: Fate,
    /// What the flag says, or why that has no meaning here.
    pub(super) why: &'static str,
    /// The heading that the flag stands under.
    pub(super) section: &'static str,
}

/// What a flag's value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A text of any kind.
    Text,
    /// Yes or no; a flag of this kind needs no value.
    Bool,
    /// A number that is not negative.
    Count,
    /// A number that may be negative.
    Int,
    /// A time such as `1m30s`.
    Time,
    /// Texts with commas between them.
    List,
    /// URLs with commas between them.
    Urls,
}

/// What becomes of a flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// The flag decides how the replica is started.
    Used,
    /// The flag is an option of `quorate serve`, under this name. Where it guards something, a program that has no such
    /// option must not start without.
    Serve { option: &'static str, guards: bool },
    /// The flag is taken and has no meaning here.
    Moot,
    /// The flag would have to do something that is not done.
    Refused,
}

/// The table, in the order of the file.
pub(super) static FLAGS: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let mut section = "";
    let mut flags = Vec::new();
    for line in TABLE.lines() {
        match line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(name) => section = name,
            None => flags.extend(Flag::of(line, section)),
        }
    }
    flags
});

/// The table as it is written.
const TABLE: &str = include_str!("flags.txt");

/// The flag of this name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    FLAGS.iter().find(|flag| flag.name == name)
}

impl Flag {
    /// Reads a line of the table.
    fn of(line: &'static str, section: &'static str) -> Option<Flag> {
        let mut columns = line.splitn(5, '|').map(str::trim);
        let mut next = || columns.next();
        let (name, kind, default) = (next()?, Kind::of(next()?)?, next()?);
        let fate = Fate::of(name, next()?)?;
        Some(Flag {
            name,
            kind,
            default,
            fate,
            why: next()?,
            section,
        })
    }

    /// The variable of the environment that says the same.
    pub(super) fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.to_uppercase().replace('-', "_"))
    }

    /// The value in one notation; `None` if it is not of the flag's kind.
    pub(super) fn value(&self, text: &str) -> Option<String> {
        self.kind.value(text)
    }

    /// Whether a value, in the notation of [`Flag::value`], says what holds anyway.
    pub(super) fn is_default(&self, value: &str) -> bool {
        self.value(self.default).as_deref() == Some(value)
    }
}

/// What etcd's variables begin with.
pub(super) const PREFIX: &str = "ETCD_";

impl Kind {
    fn of(word: &str) -> Option<Kind> {
        Some(match word {
            "text" => Kind::Text,
            "bool" => Kind::Bool,
            "count" => Kind::Count,
            "int" => Kind::Int,
            "time" => Kind::Time,
            "list" => Kind::List,
            "urls" => Kind::Urls,
            _ => return None,
        })
    }

    fn value(self, text: &str) -> Option<String> {
        match self {
            Kind::Text | Kind::List | Kind::Urls => Some(text.to_owned()),
            Kind::Bool => boolean(text).map(|is_set| is_set.to_string()),
            Kind::Count => number(text).map(|number| number.to_string()),
            Kind::Int => {
                let (sign, digits) = match text.strip_prefix('-') {
                    Some(digits) => ("-", digits),
                    None => ("", text.strip_prefix('+').unwrap_or(text)),
                };
                let number = number(digits).filter(|number| i64::try_from(*number).is_ok())?;
                Some(format!("{sign}{number}"))
            }
            Kind::Time => {
                let time = match text {
                    "0" => Duration::ZERO,
                    text => duration(text)?,
                };
                Some(format!("{}ns", time.as_nanos()))
            }
        }
    }
}

impl Fate {
    fn of(name: &'static str, words: &'static str) -> Option<Fate> {
        let (word, option) = match words.split_once(' ') {
            Some((word, option)) => (word, option.trim()),
            None => (words, name),
        };
        Some(match word {
            "used" => Fate::Used,
            "serve" | "serve!" => Fate::Serve {
                option,
                guards: word == "serve!",
            },
            "moot" => Fate::Moot,
            "refused" => Fate::Refused,
            _ => return None,
        })
    }
}

/// The spellings of yes and no that etcd takes, and those of files.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A number, in one of the bases that its prefix may name.
fn number(text: &str) -> Option<u64> {
    let text = text.replace('_', "");
    let bases = [
        ("0x", 16),
        ("0X", 16),
        ("0b", 2),
        ("0B", 2),
        ("0o", 8),
        ("0O", 8),
    ];
    let of_base = bases
        .iter()
        .find_map(|(prefix, base)| Some((text.strip_prefix(prefix)?, *base)));
    let (digits, base) = match of_base {
        Some(found) => found,
        None if text.len() > 1 && text.starts_with('0') => (&text[1..], 8),
        None => (&text[..], 10),
    };
    match digits.starts_with('+') {
        true => None,
        false => u64::from_str_radix(digits, base).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_flag() {
        let lines = TABLE
            .lines()
            .filter(|line| line.contains('|') && !line.starts_with('#'));
        assert_eq!(FLAGS.len(), lines.count());
        let mut names: Vec<_> = FLAGS.iter().map(|flag| flag.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        for flag in FLAGS.iter() {
            let is_none = flag.default.is_empty() && flag.kind != Kind::Text;
            assert!(is_none || flag.value(flag.default).is_some(), "{flag:?}");
            assert!(!flag.section.is_empty() && !flag.why.is_empty(), "{flag:?}");
        }
    }

    #[test]
    fn values_are_read_as_etcd_reads_them() {
        for (kind, text, value) in [
            (Kind::Bool, "T", Some("true")),
            (Kind::Bool, "yes", None),
            (Kind::Count, "0x10", Some("16")),
            (Kind::Count, "010", Some("8")),
            (Kind::Count, "1_000", Some("1000")),
            (Kind::Count, "-1", None),
            (Kind::Count, "+1", None),
            (Kind::Count, "", None),
            (Kind::Int, "-1", Some("-1")),
            (Kind::Int, "9223372036854775808", None),
            (Kind::Time, "0", Some("0ns")),
            (Kind::Time, "1m0.5s", Some("60500000000ns")),
            (Kind::Time, "5", None),
            (Kind::Text, "", Some("")),
        ] {
            assert_eq!(kind.value(text).as_deref(), value, "{kind:?} {text}");
        }
        let flag = find("grpc-keepalive-interval").unwrap();
        assert!(flag.is_default(&flag.value("2h").unwrap()));
        assert_eq!(flag.variable(), "ETCD_GRPC_KEEPALIVE_INTERVAL");
    }
}
