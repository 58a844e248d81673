//! Who may ask for what: Redis's users, as a file has them (`--redis-acl-file`), and the password of the default user.
//!
//! These are the first users of a cluster, and those that a replica knows while the cluster has none. From then on the
//! store has them, and judges every command where it is applied.

mod file;
mod rights;

pub use file::AccessError;
pub(crate) use quorate_redis_store::{DEFAULT_USER as DEFAULT, User};
pub(crate) use rights::{check_rule, denies, prepared};

use quorate_redis_store::{PasswordHash, UserRules, UserTable};
use ring::digest;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The users that a replica is started with.
#[derive(Clone, Default)]
pub struct Users {
    table: Arc<UserTable>,
    file: Option<PathBuf>,
    password: Option<PasswordHash>,
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Users({})", self.table.len())
    }
}

impl Users {
    /// The users of a file, with a password for the default user if there is to be one.
    ///
    /// # Errors
    /// The line of the file that is wrong, or why it cannot be read.
    pub fn open(file: Option<&Path>, password: Option<&str>) -> Result<Users, AccessError> {
        Users {
            file: file.map(Path::to_owned),
            password: password.map(|password| password_hash(password.as_bytes())),
            ..Users::default()
        }
        .again()
    }

    /// The users that the file has now.
    pub(crate) fn again(&self) -> Result<Users, AccessError> {
        let table = match &self.file {
            Some(path) => file::read(path)?,
            None => UserTable::default(),
        };
        Ok(self.clone().with(table))
    }

    fn with(mut self, mut table: UserTable) -> Users {
        if let (Some(hash), Some(default)) = (self.password, table.get(DEFAULT)) {
            let mut default = (**default).clone();
            default.set_password(hash);
            table.put(default);
        }
        self.table = Arc::new(table);
        self
    }

    /// Whether there is a file, or a password.
    pub(crate) fn are_given(&self) -> bool {
        self.has_file() || self.password.is_some()
    }

    /// Whether there is a file.
    pub(crate) fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// The users by name.
    pub(crate) fn table(&self) -> &Arc<UserTable> {
        &self.table
    }

    /// The rules of all users, for the log.
    pub(crate) fn rules(&self) -> Vec<UserRules> {
        rules(&self.table)
    }
}

/// The rules of all users.
pub(crate) fn rules(table: &UserTable) -> Vec<UserRules> {
    table.iter().map(|user| UserRules::from(&**user)).collect()
}

/// The user in whose name connections begin, unless a password is wanted.
pub(crate) fn at_first(table: &UserTable) -> Option<Arc<User>> {
    let default = table.get(DEFAULT);
    default
        .filter(|user| user.is_on && user.needs_no_password)
        .cloned()
}

/// The user with a name, if the password is right.
pub(crate) fn log_in(table: &UserTable, name: &[u8], password: &[u8]) -> Option<Arc<User>> {
    let user = table.get(name).filter(|user| user.is_on)?;
    let is_known = user.is_known_by(&password_hash(password));
    is_known.then(|| Arc::clone(user))
}

/// The SHA-256 of a password.
pub(crate) fn password_hash(password: &[u8]) -> PasswordHash {
    let hash = digest::digest(&digest::SHA256, password);
    hash.as_ref().try_into().unwrap_or_default()
}
