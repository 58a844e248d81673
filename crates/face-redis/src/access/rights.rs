//! One user: how it is known, and what it may ask for.

use super::DEFAULT;
use crate::table::{self, Found, Kind};
use bytes::Bytes;
use quorate_redis_store::{is_of_redis, matches};
use ring::digest;
use std::collections::BTreeSet;
use std::fmt;

/// The SHA-256 of a password.
pub(super) type PasswordHash = [u8; 32];

/// The categories that rules may name.
const CATEGORIES: [&str; 17] = [
    "admin",
    "bitmap",
    "connection",
    "dangerous",
    "fast",
    "hash",
    "keyspace",
    "list",
    "pubsub",
    "read",
    "set",
    "slow",
    "sortedset",
    "string",
    "transaction",
    "write",
    "all",
];

/// Somebody who may ask.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: Bytes,
    pub(crate) is_on: bool,
    pub(super) needs_no_password: bool,
    passwords: BTreeSet<PasswordHash>,
    commands: BTreeSet<&'static str>,
    keys: Names,
    channels: Names,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

/// Names that somebody may use.
#[derive(Clone, Debug, Default)]
struct Names {
    are_all: bool,
    patterns: BTreeSet<Bytes>,
}

impl Names {
    fn has(&self, name: &[u8]) -> bool {
        self.are_all || self.patterns.iter().any(|pattern| matches(pattern, name))
    }
}

/// Why somebody may not ask for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Denied {
    /// The command with this name is not allowed.
    Command(&'static str),
    /// A key is not allowed.
    Key,
    /// A channel is not allowed.
    Channel,
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NOPERM this user has no permissions to ")?;
        match self {
            Denied::Command(name) => write!(f, "run the '{name}' command"),
            Denied::Key => f.write_str("access one of the keys used as arguments"),
            Denied::Channel => f.write_str("access one of the channels used as arguments"),
        }
    }
}

pub(super) fn password_hash(password: &[u8]) -> PasswordHash {
    let hash = digest::digest(&digest::SHA256, password);
    hash.as_ref().try_into().unwrap_or_default()
}

impl User {
    /// A user who may do nothing.
    pub(super) fn nothing(name: Bytes) -> User {
        User {
            name,
            is_on: false,
            needs_no_password: false,
            passwords: BTreeSet::new(),
            commands: BTreeSet::new(),
            keys: Names::default(),
            channels: Names::default(),
        }
    }

    /// The default user of a server without users.
    pub(super) fn everything() -> User {
        let all = Names {
            are_all: true,
            patterns: BTreeSet::new(),
        };
        User {
            is_on: true,
            needs_no_password: true,
            commands: table::all().map(Found::name).collect(),
            keys: all.clone(),
            channels: all,
            ..User::nothing(DEFAULT.into())
        }
    }

    /// Has the user known by this password alone.
    pub(super) fn set_password(&mut self, hash: PasswordHash) {
        self.needs_no_password = false;
        self.passwords = BTreeSet::from([hash]);
    }

    pub(super) fn knows(&self, password: &[u8]) -> bool {
        // Who learns how long it takes to compare hashes learns nothing of the password.
        self.needs_no_password || self.passwords.contains(&password_hash(password))
    }

    /// Applies a rule, behind those before it.
    pub(super) fn apply(&mut self, rule: &str) -> Result<(), String> {
        match rule {
            "on" => self.is_on = true,
            "off" => self.is_on = false,
            "nopass" => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            "resetpass" => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            "allkeys" | "~*" => self.keys.are_all = true,
            "resetkeys" => self.keys = Names::default(),
            "allchannels" | "&*" => self.channels.are_all = true,
            "resetchannels" => self.channels = Names::default(),
            "allcommands" => self.set_commands("@all", true)?,
            "nocommands" => self.set_commands("@all", false)?,
            "reset" => *self = User::nothing(self.name.clone()),
            // As Redis writes it into files.
            "sanitize-payload" | "skip-sanitize-payload" => {}
            rule => self.apply_named(rule)?,
        }
        Ok(())
    }

    /// Applies a rule that names something behind its sign.
    fn apply_named(&mut self, rule: &str) -> Result<(), String> {
        let mut letters = rule.chars();
        let (sign, name) = (letters.next().unwrap_or(' '), letters.as_str());
        let bytes = || Bytes::copy_from_slice(name.as_bytes());
        match sign {
            '>' => self.add_password(password_hash(name.as_bytes())),
            '#' => self.add_password(parse_hash(name)?),
            '~' => drop(self.keys.patterns.insert(bytes())),
            '&' => drop(self.channels.patterns.insert(bytes())),
            '+' => self.set_commands(name, true)?,
            '-' => self.set_commands(name, false)?,
            '(' => return Err("selectors, in brackets, are not supported".to_owned()),
            // It may be a password whose sign was forgotten.
            _ if rule.starts_with('%') => {
                return Err(format!(
                    "`{rule}` is not supported: rights to read and to write go together"
                ));
            }
            _ => return Err("a rule has none of the signs > # ~ & + -".to_owned()),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) {
        self.needs_no_password = false;
        self.passwords.insert(hash);
    }

    /// Allows commands, one or those of a category, or forbids them.
    fn set_commands(&mut self, name: &str, is_allowed: bool) -> Result<(), String> {
        let name = name.to_ascii_lowercase();
        let set = |commands: &mut BTreeSet<&'static str>, found: Found| match is_allowed {
            true => commands.insert(found.name()),
            false => commands.remove(found.name()),
        };
        if name.contains('|') {
            return Err(format!(
                "`{name}`: rules about subcommands are not supported"
            ));
        }
        if let Some(category) = name.strip_prefix('@') {
            if !CATEGORIES.contains(&category) {
                return Err(format!("there is no category `{name}` here"));
            }
            let of_category =
                |found: &Found| category == "all" || found.categories().contains(category);
            for found in table::all().filter(of_category) {
                set(&mut self.commands, found);
            }
            return Ok(());
        }
        match table::find(name.as_bytes()) {
            Some(found) => drop(set(&mut self.commands, found)),
            // Nobody may ask for it here.
            None if is_of_redis(name.as_bytes()) => {}
            None => return Err(format!("there is no command `{name}`")),
        }
        Ok(())
    }

    /// Whether the user may not ask for this, and why.
    pub(crate) fn denies(&self, command: Found, args: &[Bytes]) -> Option<Denied> {
        if !self.commands.contains(command.name()) {
            return Some(Denied::Command(command.name()));
        }
        if !self.keys.are_all {
            let keys = command.keys(args);
            if !keys
                .iter()
                .filter_map(|at| args.get(*at))
                .all(|key| self.keys.has(key))
            {
                return Some(Denied::Key);
            }
        }
        if !self.channels.are_all && !self.may_use_channels(command, args) {
            return Some(Denied::Channel);
        }
        None
    }

    fn may_use_channels(&self, command: Found, args: &[Bytes]) -> bool {
        let channels = &self.channels;
        let named = args.get(1..).unwrap_or_default();
        match command {
            Found::Stored(command) if matches!(command.name, "publish" | "spublish") => {
                named.first().is_none_or(|channel| channels.has(channel))
            }
            Found::Own(own) if own.kind == Kind::Subscribe => {
                named.iter().all(|channel| channels.has(channel))
            }
            // A pattern of the client is one of the user's, letter by letter.
            Found::Own(own) if own.kind == Kind::Psubscribe => named
                .iter()
                .all(|pattern| channels.patterns.contains(pattern)),
            _ => true,
        }
    }

    /// The user as a line of the file, with hashes in the place of passwords.
    pub(crate) fn describe(&self) -> String {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let mut words = vec!["user".to_owned(), text(&self.name)];
        words.push(if self.is_on { "on" } else { "off" }.to_owned());
        if self.needs_no_password {
            words.push("nopass".to_owned());
        }
        let hex = |hash: &PasswordHash| {
            hash.iter()
                .map(|byte| format!("{byte:02x}"))
                .collect::<String>()
        };
        words.extend(self.passwords.iter().map(|hash| format!("#{}", hex(hash))));
        words.push(describe_names('~', "resetkeys", &self.keys));
        words.push(describe_names('&', "resetchannels", &self.channels));
        words.extend(self.describe_commands());
        words.join(" ")
    }

    fn describe_commands(&self) -> Vec<String> {
        let all: BTreeSet<&str> = table::all().map(Found::name).collect();
        let missing: Vec<_> = all.difference(&self.commands).collect();
        match missing.len() < self.commands.len() {
            true => {
                let missing = missing.iter().map(|name| format!("-{name}"));
                std::iter::once("+@all".to_owned()).chain(missing).collect()
            }
            false => {
                let allowed = self.commands.iter().map(|name| format!("+{name}"));
                std::iter::once("-@all".to_owned()).chain(allowed).collect()
            }
        }
    }
}

fn describe_names(sign: char, none: &str, names: &Names) -> String {
    let text = |pattern: &Bytes| format!("{sign}{}", String::from_utf8_lossy(pattern));
    match (names.are_all, names.patterns.is_empty()) {
        (true, _) => format!("{sign}*"),
        (false, true) => none.to_owned(),
        (false, false) => names
            .patterns
            .iter()
            .map(text)
            .collect::<Vec<_>>()
            .join(" "),
    }
}

/// The hash of a password in hexadecimal digits.
fn parse_hash(text: &str) -> Result<PasswordHash, String> {
    let wrong = || "the hash of a password behind # has 64 hexadecimal digits".to_owned();
    let mut hash = PasswordHash::default();
    if text.len() != 2 * hash.len() || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
    }
    Ok(hash)
}
