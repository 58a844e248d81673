//! What rules say of commands, keys and channels.

use super::User;
use crate::glob::matches;
use bytes::Bytes;
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// Names that somebody may use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Patterns {
    /// Whether every name matches; there are no patterns beside that.
    are_all: bool,
    patterns: BTreeSet<Bytes>,
}

impl Patterns {
    pub(super) fn all() -> Patterns {
        Patterns {
            are_all: true,
            patterns: BTreeSet::new(),
        }
    }

    pub(super) fn add(&mut self, pattern: Bytes) {
        match &pattern[..] {
            b"*" => *self = Patterns::all(),
            _ if self.are_all => {}
            _ => drop(self.patterns.insert(pattern)),
        }
    }

    fn has(&self, name: &[u8]) -> bool {
        self.are_all || self.patterns.iter().any(|pattern| matches(pattern, name))
    }

    /// The rules that say this, or `none` where there is nothing.
    pub(super) fn rules(&self, sign: u8, none: &'static str) -> Vec<Bytes> {
        let rule = |pattern: &[u8]| Bytes::from([&[sign], pattern].concat());
        match (self.are_all, self.patterns.is_empty()) {
            (true, _) => vec![rule(b"*")],
            (false, true) => vec![Bytes::from_static(none.as_bytes())],
            (false, false) => self.patterns.iter().map(|pattern| rule(pattern)).collect(),
        }
    }
}

/// The commands that a rule is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Commands {
    /// The commands of a category, which is named without its sign.
    Category(String),
    /// One command by its name.
    Command(String),
    /// One subcommand: the names of the command and of the subcommand.
    Subcommand(String, String),
}

impl Commands {
    /// Whether a later rule about these leaves nothing of one about the others.
    fn covers(&self, other: &Commands) -> bool {
        let is_part = |of: &str| matches!(other, Commands::Subcommand(command, _) if command == of);
        self == other || matches!(self, Commands::Command(name) if is_part(name))
    }

    fn has(
        &self,
        name: &str,
        subcommand: Option<&[u8]>,
        is_of_category: impl Fn(&str) -> bool,
    ) -> bool {
        match self {
            Commands::Category(category) => is_of_category(category),
            Commands::Command(command) => command == name,
            Commands::Subcommand(command, wanted) => {
                let is_it = |given: &[u8]| given.eq_ignore_ascii_case(wanted.as_bytes());
                command == name && subcommand.is_some_and(is_it)
            }
        }
    }
}

/// The commands that somebody may ask for: the last rule about one decides.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct CommandRules {
    /// Whether commands are allowed that no rule is about.
    are_all: bool,
    rules: Vec<(bool, Commands)>,
}

impl CommandRules {
    pub(super) fn all() -> CommandRules {
        CommandRules {
            are_all: true,
            rules: Vec::new(),
        }
    }

    /// Adds a rule behind the others.
    pub(super) fn add(&mut self, is_allowed: bool, commands: Commands) {
        self.rules.retain(|(_, before)| !commands.covers(before));
        self.rules.push((is_allowed, commands));
    }

    fn has(
        &self,
        name: &str,
        subcommand: Option<&[u8]>,
        categories: impl Fn() -> BTreeSet<&'static str>,
    ) -> bool {
        let known = OnceCell::new();
        let is_of = |category: &str| known.get_or_init(&categories).contains(category);
        let mut rules = self.rules.iter().rev();
        let last = rules.find(|(_, commands)| commands.has(name, subcommand, is_of));
        last.map_or(self.are_all, |(is_allowed, _)| *is_allowed)
    }

    /// The rules that say this.
    pub(super) fn rules(&self) -> Vec<Bytes> {
        let all = if self.are_all { "+@all" } else { "-@all" };
        let mut rules = vec![Bytes::from_static(all.as_bytes())];
        for (is_allowed, commands) in &self.rules {
            let sign = if *is_allowed { '+' } else { '-' };
            rules.push(Bytes::from(match commands {
                Commands::Category(name) => format!("{sign}@{name}"),
                Commands::Command(name) => format!("{sign}{name}"),
                Commands::Subcommand(name, subcommand) => format!("{sign}{name}|{subcommand}"),
            }));
        }
        rules
    }
}

impl User {
    /// Whether the user may ask for a command with this name and these categories.
    #[must_use]
    pub fn may_run(
        &self,
        name: &str,
        subcommand: Option<&[u8]>,
        categories: impl Fn() -> BTreeSet<&'static str>,
    ) -> bool {
        self.commands.has(name, subcommand, categories)
    }

    /// Whether the user may use every key.
    pub(crate) fn has_all_keys(&self) -> bool {
        self.keys.are_all
    }

    /// Whether the user may use all of these keys.
    pub fn may_use_keys<'a>(&self, mut keys: impl Iterator<Item = &'a Bytes>) -> bool {
        self.keys.are_all || keys.all(|key| self.keys.has(key))
    }

    /// Whether the user may send to a channel, or subscribe to it.
    #[must_use]
    pub fn may_use_channel(&self, channel: &[u8]) -> bool {
        self.channels.has(channel)
    }

    /// Whether the user may subscribe to a pattern: one of its own, letter by letter.
    #[must_use]
    pub fn may_use_pattern(&self, pattern: &[u8]) -> bool {
        self.channels.are_all || self.channels.patterns.contains(pattern)
    }
}
