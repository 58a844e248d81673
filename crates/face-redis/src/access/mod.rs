//! Who may ask for what: Redis's users, as a file has them (`--redis-acl-file`), and the password of the default user.

mod file;
mod rights;

pub use file::AccessError;
#[cfg(test)]
use rights::Denied;
pub(crate) use rights::User;

use bytes::Bytes;
use rights::password_hash;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The user in whose name a connection begins.
pub(crate) const DEFAULT: &[u8] = b"default";

/// The users of a replica. They are the same until it ends.
#[derive(Clone)]
pub struct Users {
    users: Arc<BTreeMap<Bytes, Arc<User>>>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.users.len())
    }
}

impl Default for Users {
    /// The default user, who may do everything without a password.
    fn default() -> Self {
        Users::of(BTreeMap::new(), None)
    }
}

impl Users {
    /// The users of a file, with a password for the default user if there is to be one.
    ///
    /// # Errors
    /// The line of the file that is wrong, or why it cannot be read.
    pub fn open(file: Option<&Path>, password: Option<&str>) -> Result<Users, AccessError> {
        let users = match file {
            Some(path) => file::read(path)?,
            None => BTreeMap::new(),
        };
        Ok(Users::of(users, password))
    }

    fn of(mut users: BTreeMap<Bytes, Arc<User>>, password: Option<&str>) -> Users {
        let default = users.entry(DEFAULT.into());
        let default = default.or_insert_with(|| Arc::new(User::everything()));
        if let Some(password) = password {
            Arc::make_mut(default).set_password(password_hash(password.as_bytes()));
        }
        Users {
            users: Arc::new(users),
        }
    }

    /// The user in whose name connections begin, unless a password is wanted.
    pub(crate) fn at_first(&self) -> Option<Arc<User>> {
        let default = self.users.get(DEFAULT);
        default
            .filter(|user| user.is_on && user.needs_no_password)
            .cloned()
    }

    /// Whether the default user has a password.
    pub(crate) fn has_password(&self) -> bool {
        let default = self.users.get(DEFAULT);
        default.is_some_and(|user| !user.needs_no_password)
    }

    /// The user with a name, if the password is right.
    pub(crate) fn log_in(&self, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
        let user = self.users.get(name).filter(|user| user.is_on)?;
        user.knows(password).then(|| Arc::clone(user))
    }

    /// All users by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<User>> {
        self.users.values()
    }

    /// The user with a name, whoever asks.
    pub(crate) fn get(&self, name: &[u8]) -> Option<&Arc<User>> {
        self.users.get(name)
    }
}
