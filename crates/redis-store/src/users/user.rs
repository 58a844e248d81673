//! One user: how it is known, and what it may ask for.

use super::DEFAULT_USER;
use super::rights::{CommandRules, Patterns};
use super::rules::hex;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;

/// The SHA-256 of a password.
pub type PasswordHash = [u8; 32];

/// Somebody who may ask.
#[derive(Clone, PartialEq, Eq)]
pub struct User {
    /// The name of the user.
    pub name: Bytes,
    /// Whether the user may do anything at all.
    pub is_on: bool,
    /// Whether the user is known by its name alone.
    pub needs_no_password: bool,
    /// The command that made the user, or that took away a way to log in; 0 for a default user who always had its ways.
    /// Whoever logged in before it has to do so again.
    pub since: u64,
    pub(super) passwords: BTreeSet<PasswordHash>,
    pub(super) commands: CommandRules,
    pub(super) keys: Patterns,
    pub(super) channels: Patterns,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "User({:?})", self.name)
    }
}

impl User {
    /// A user who may do nothing.
    #[must_use]
    pub fn nothing(name: Bytes) -> User {
        User {
            name,
            is_on: false,
            needs_no_password: false,
            since: 0,
            passwords: BTreeSet::new(),
            commands: CommandRules::default(),
            keys: Patterns::default(),
            channels: Patterns::default(),
        }
    }

    /// The default user of a group without users.
    #[must_use]
    pub fn everything() -> User {
        User {
            is_on: true,
            needs_no_password: true,
            commands: CommandRules::all(),
            keys: Patterns::all(),
            channels: Patterns::all(),
            ..User::nothing(DEFAULT_USER.into())
        }
    }

    /// Has the user known by this password alone.
    pub fn set_password(&mut self, hash: PasswordHash) {
        self.needs_no_password = false;
        self.passwords = BTreeSet::from([hash]);
    }

    /// Whether the user is known by the password with this hash, or needs none.
    #[must_use]
    pub fn is_known_by(&self, hash: &PasswordHash) -> bool {
        // Who learns how long it takes to compare hashes learns nothing of the password.
        self.needs_no_password || self.passwords.contains(hash)
    }

    /// Whether each way to log in that another state of this user has is one here, too.
    #[must_use]
    pub fn keeps_logins_of(&self, other: &User) -> bool {
        let is_open = self.needs_no_password;
        let knows = || !other.needs_no_password && other.passwords.is_subset(&self.passwords);
        !other.is_on || self.is_on && (is_open || knows())
    }

    /// The rules that make this user out of one who may do nothing.
    #[must_use]
    pub fn rules(&self) -> Vec<Bytes> {
        let mut rules = vec![Bytes::from_static(if self.is_on { b"on" } else { b"off" })];
        if self.needs_no_password {
            rules.push(Bytes::from_static(b"nopass"));
        }
        let hashes = self.passwords.iter();
        rules.extend(hashes.map(|hash| Bytes::from(format!("#{}", hex(hash)))));
        rules.extend(self.keys.rules(b'~', "resetkeys"));
        rules.extend(self.channels.rules(b'&', "resetchannels"));
        rules.extend(self.commands.rules());
        rules
    }

    /// The user as a line of a file of users, with hashes in the place of passwords.
    #[must_use]
    pub fn describe(&self) -> String {
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let rules: Vec<String> = self.rules().iter().map(text).collect();
        format!("user {} {}", text(&self.name), rules.join(" "))
    }

    /// Bytes that the user takes, about.
    pub(super) fn bytes(&self) -> usize {
        const RULE_BYTES: usize = 40;
        let rules = self.rules();
        let rules = rules.iter().map(|rule| rule.len() + RULE_BYTES);
        self.name.len() + RULE_BYTES + rules.sum::<usize>()
    }
}
