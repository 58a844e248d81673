//! What users may ask of the store.

use crate::table::Command;
use crate::users::User;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;

/// Why somebody may not ask for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denied {
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

/// The commands of clients that wait which a command of the store is carried out for.
fn waiting(name: &str) -> &'static [&'static str] {
    match name {
        "lmove" => &["blmove"],
        "lmpop" => &["blmpop", "blpop", "brpop"],
        "rpoplpush" => &["brpoplpush"],
        "zmpop" => &["bzmpop", "bzpopmax", "bzpopmin"],
        _ => &[],
    }
}

impl User {
    /// Whether the user may not ask for a command of the store, and why.
    #[must_use]
    pub fn denies(&self, command: &Command, args: &[Bytes]) -> Option<Denied> {
        let subcommand = args.get(1).map(|word| &word[..]);
        let is_allowed = self.may_run(command.name, subcommand, || command.categories());
        let or_waits = || {
            let categories = || BTreeSet::from(["blocking", "list", "slow", "sortedset", "write"]);
            let mut names = waiting(command.name).iter();
            names.any(|name| self.may_run(name, None, categories))
        };
        if !is_allowed && !or_waits() {
            return Some(Denied::Command(command.name));
        }
        if !self.has_all_keys() {
            let keys = command.keys(args);
            if !self.may_use_keys(keys.iter().filter_map(|at| args.get(*at))) {
                return Some(Denied::Key);
            }
        }
        let channel = args.get(1).filter(|_| command.is_message());
        match channel.is_none_or(|channel| self.may_use_channel(channel)) {
            true => None,
            false => Some(Denied::Channel),
        }
    }
}
