//! Who may do what: users that are part of the state, so that a right that is taken away is taken away for every
//! command behind that in the log.
//!
//! A group without users lets everybody do everything. Once there are users, a command says in whose name it is asked
//! ([`Asker`]), or is the default user's. Who that is, and what it may do, is judged where the command is applied, and
//! where a query is answered.

mod change;
mod rights;
mod rules;
mod user;

pub(crate) use change::USERS_TAG;
pub use change::{Change, UserRules, UsersChange};
pub use rules::{RuleError, password_rule};
pub use user::{PasswordHash, User};

use crate::fault::Fault;
use bytes::Bytes;
use quorate_core::{Decoder, Encoder, WireError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The user in whose name a connection begins.
pub const DEFAULT_USER: &[u8] = b"default";

/// Bytes of all rules together, at most.
const BYTES_MAX: usize = 4 << 20;

/// In whose name a command or a query is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The name of the user.
    pub name: Bytes,
    /// The user's [`User::since`] when the client said who it is.
    pub since: u64,
}

/// All users by name. The default user is always among them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserTable {
    users: BTreeMap<Bytes, Arc<User>>,
}

impl Default for UserTable {
    /// The default user alone, who may do everything without a password.
    fn default() -> Self {
        let user = Arc::new(User::everything());
        UserTable {
            users: BTreeMap::from([(user.name.clone(), user)]),
        }
    }
}

impl UserTable {
    /// Users of one group, at most.
    pub const LEN_MAX: usize = 2000;

    /// The user with a name, whoever asks.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }

    /// All users in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The number of users.
    #[must_use]
    pub fn len(&self) -> usize {
        self.users.len()
    }

    /// Whether there are none, which is never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// Adds a user, or puts it in the place of the one with its name.
    pub fn put(&mut self, user: User) {
        self.users.insert(user.name.clone(), Arc::new(user));
    }

    /// Takes a user out. Whether it was there.
    fn remove(&mut self, name: &[u8]) -> bool {
        self.users.remove(name).is_some()
    }

    fn are_too_many(&self) -> bool {
        let bytes = self.iter().map(|user| user.bytes()).sum::<usize>();
        self.users.len() > UserTable::LEN_MAX || bytes > BYTES_MAX
    }

    /// The user in whose name somebody asks; the default user where nobody is named.
    ///
    /// Whoever logged in before a way to do so was taken away is nobody.
    pub(crate) fn asking(&self, asker: Option<&Asker>) -> Result<&User, Fault> {
        let (name, since) = asker.map_or((DEFAULT_USER, 0), |asker| (&asker.name[..], asker.since));
        let user = self.get(name);
        let user = user.filter(|user| user.is_on && user.since == since);
        user.map(|user| &**user)
            .ok_or(Fault::of("NOAUTH Authentication required."))
    }

    /// Writes a user for a snapshot.
    pub(crate) fn write_user(user: &User, out: &mut Encoder) {
        out.bytes(&user.name);
        out.u64(user.since);
        let rules = user.rules();
        out.varint(rules.len() as u64);
        rules.iter().for_each(|rule| out.bytes(rule));
    }

    /// Reads a user of a snapshot.
    pub(crate) fn read_user(input: &mut Decoder) -> Result<User, WireError> {
        let mut user = User::nothing(input.bytes()?);
        user.since = input.u64()?;
        for _ in 0..input.count(1)? {
            let rule = input.bytes()?;
            user.apply(&rule)
                .map_err(|_| WireError::Range("rule of a user"))?;
        }
        Ok(user)
    }
}
