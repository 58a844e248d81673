//! The hash that a password is checked against.

use std::fmt;

/// The password of a user, as far as it is known, and under which state that is so.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The bcrypt hash of the password; empty where none fits.
    pub hash: Box<str>,
    /// The auth revision.
    pub revision: u64,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("revision", &self.revision)
            .finish_non_exhaustive()
    }
}
