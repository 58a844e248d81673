//! A file of options, with etcd's keys.

use super::flags::{FLAGS, Flag, Kind, find};
use super::given::{Given, OWN, wanted};
use super::yaml::{self, Key, Node};
use crate::nearest;
use std::path::Path;

/// Reads a file of options.
///
/// # Errors
/// What is wrong with the file, with the line.
pub(super) fn read(path: &str) -> Result<Given, String> {
    let what = |why: &str| format!("the configuration file {path}: {why}");
    let is_file = Path::new(path).metadata().map(|found| found.is_file());
    let text = match is_file {
        Ok(true) => std::fs::read_to_string(path),
        Ok(false) => return Err(what("it is no file")),
        Err(error) => Err(error),
    };
    let text = text.map_err(|error| what(&error.to_string()))?;
    parse(&text).map_err(|why| what(&why))
}

/// Reads the text of a file.
pub(super) fn parse(text: &str) -> Result<Given, String> {
    let mut given = Given::of_file();
    let mut unknown = Vec::new();
    for key in yaml::read(text)? {
        take(&mut given, &key, &mut unknown)?;
    }
    if !unknown.is_empty() {
        given.warnings.push(format!(
            "keys of the configuration file that etcd does not know: {}",
            unknown.join(", ")
        ));
    }
    Ok(given)
}

/// Takes what a key of the file says.
fn take(given: &mut Given, key: &Key, unknown: &mut Vec<String>) -> Result<(), String> {
    if let Some(own) = key.name.strip_prefix(OWN) {
        let value = text(key)?;
        given.own.extend(value.map(|value| (own.to_owned(), value)));
        return Ok(());
    }
    if let Some((_, flags)) = NESTED.iter().find(|(name, _)| *name == key.name) {
        let below = match &key.node {
            Node::Keys(below) => below,
            Node::Null => return Ok(()),
            _ => return Err(at(key, "keys below it are wanted")),
        };
        for inner in below {
            match flags.iter().find(|(name, _)| *name == inner.name) {
                Some((_, flag)) => set(given, flag, inner)?,
                None => unknown.push(format!("{}.{}", key.name, inner.name)),
            }
        }
        return Ok(());
    }
    // A file that names another file, or asks for the version, asks for nothing that etcd would do.
    let is_option = !["config-file", "version"].contains(&key.name.as_str());
    match find(&key.name).filter(|_| is_option) {
        Some(flag) => set(given, flag.name, key),
        None => {
            let known = FLAGS.iter().map(|flag| flag.name);
            let known = known.filter(|name| *name != key.name);
            let instead = match nearest::of(&key.name, known) {
                Some(near) => format!("{} (did you mean {near}?)", key.name),
                None => key.name.clone(),
            };
            unknown.push(instead);
            Ok(())
        }
    }
}

/// Keys below others, and the flags that say the same.
type Nested = (&'static str, &'static [(&'static str, &'static str)]);

const NESTED: [Nested; 4] = [
    (
        "client-transport-security",
        &[
            ("cert-file", "cert-file"),
            ("key-file", "key-file"),
            ("client-cert-file", "client-cert-file"),
            ("client-key-file", "client-key-file"),
            ("client-cert-auth", "client-cert-auth"),
            ("trusted-ca-file", "trusted-ca-file"),
            ("auto-tls", "auto-tls"),
            ("allowed-cn", "client-cert-allowed-cn"),
            ("allowed-hostname", "client-cert-allowed-hostname"),
        ],
    ),
    (
        "peer-transport-security",
        &[
            ("cert-file", "peer-cert-file"),
            ("key-file", "peer-key-file"),
            ("client-cert-file", "peer-client-cert-file"),
            ("client-key-file", "peer-client-key-file"),
            ("client-cert-auth", "peer-client-cert-auth"),
            ("trusted-ca-file", "peer-trusted-ca-file"),
            ("auto-tls", "peer-auto-tls"),
            ("allowed-cn", "peer-cert-allowed-cn"),
            ("allowed-hostname", "peer-cert-allowed-hostname"),
            (
                "skip-client-san-verification",
                "peer-skip-client-san-verification",
            ),
        ],
    ),
    (
        "socket-options",
        &[
            ("reuse-port", "socket-reuse-port"),
            ("reuse-address", "socket-reuse-address"),
        ],
    ),
    (
        "discovery-config",
        &[
            ("endpoints", "discovery-endpoints"),
            ("token", "discovery-token"),
        ],
    ),
];

fn set(given: &mut Given, flag: &str, key: &Key) -> Result<(), String> {
    let Some(value) = text(key)? else {
        return Ok(());
    };
    let Some(flag) = find(flag) else {
        return Err(at(key, "this program does not know what it is to do"));
    };
    match given.set(flag, &notation(flag, value)) {
        true => Ok(()),
        false => Err(at(key, wanted(flag.kind))),
    }
}

/// A value of a file as flags have it: times are numbers of nanoseconds there, and there are more words for yes and no.
fn notation(flag: &Flag, value: String) -> String {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match (flag.kind, value.to_ascii_lowercase().as_str()) {
        (Kind::Time, _) if is_number => format!("{value}ns"),
        (Kind::Bool, "yes" | "on" | "y") => "true".to_owned(),
        (Kind::Bool, "no" | "off" | "n") => "false".to_owned(),
        _ => value,
    }
}

/// The text that a key says; `None` where it says nothing.
fn text(key: &Key) -> Result<Option<String>, String> {
    match &key.node {
        Node::Null => Ok(None),
        Node::Text(text) => Ok(Some(text.clone())),
        Node::List(texts) => Ok(Some(texts.join(","))),
        Node::Keys(_) => Err(at(key, "a value is wanted, and no keys below it")),
    }
}

fn at(key: &Key, why: &str) -> String {
    format!("line {}: {}: {why}", key.line, key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_flags_and_keys_below_keys_are_too() {
        let file = "name: infra0\ndata-dir:\nlog-outputs: [stderr, /tmp/x]\npre-vote: no\n\
                    grpc-keepalive-timeout: 5000000000\nwatch-progress-notify-interval: 5s\nproxy: 'off'\n\
                    client-transport-security:\n  cert-file: c\n  client-cert-auth: true\n\
                    peer-transport-security:\n  cert-file: p\n  allowed-cn: [a, b]\nquorate-protocol: nezha\n";
        let given = parse(file).unwrap();
        let all: Vec<_> = given
            .all()
            .map(|(flag, value)| (flag.name, value))
            .collect();
        let expected = [
            ("name", "infra0"),
            ("pre-vote", "false"),
            ("grpc-keepalive-timeout", "5000000000ns"),
            ("watch-progress-notify-interval", "5000000000ns"),
            ("cert-file", "c"),
            ("client-cert-auth", "true"),
            ("peer-cert-file", "p"),
            ("peer-cert-allowed-cn", "a,b"),
            ("log-outputs", "stderr,/tmp/x"),
            ("proxy", "off"),
        ];
        assert_eq!(all, expected);
        assert_eq!(given.own, [("protocol".to_owned(), "nezha".to_owned())]);
        assert!(given.warnings.is_empty());
    }

    #[test]
    fn keys_that_etcd_does_not_know_are_named_once() {
        let file = "nam: a\nversion: true\nzzzzzzzz: 1\nclient-transport-security:\n  ca: x\n";
        let warnings = parse(file).unwrap().warnings;
        let said = "keys of the configuration file that etcd does not know: nam (did you mean name?), version, \
                    zzzzzzzz, client-transport-security.ca";
        assert_eq!(warnings, [said]);
    }

    #[test]
    fn a_value_of_another_kind_is_named_with_its_line() {
        for (file, why) in [
            ("name: a\nmax-wals: many\n", "line 2: max-wals: a number"),
            ("name: {a: b}\n", "line 1: name: a value is wanted"),
            (
                "peer-transport-security: yes\n",
                "line 1: peer-transport-security: keys below",
            ),
            (
                "client-transport-security:\n  allowed-cn: [a]\n",
                "line 2: allowed-cn: this program",
            ),
        ] {
            let said = parse(file).unwrap_err();
            assert!(said.starts_with(why), "{said}");
        }
        let said = read("/no/such/file.yaml").unwrap_err();
        assert!(said.contains("/no/such/file.yaml"), "{said}");
        assert!(read("/").unwrap_err().contains("it is no file"));
    }
}
