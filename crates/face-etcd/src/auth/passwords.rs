//! Passwords: hashed and checked with bcrypt, away from the threads that serve.
//!
//! A check takes tens of milliseconds of a CPU, and anybody may ask for one: few run at a time, and no more wait than
//! are done in a few seconds.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

/// Hashes and checks that run at a time.
const RUNNING_MAX: usize = 2;
/// Hashes and checks that run or wait.
const WAITING_MAX: usize = 64;
/// The longest password, in bytes: bcrypt reads no more. etcd refuses longer ones in these words.
const PASSWORD_BYTES_MAX: usize = 72;

/// Why a password was neither hashed nor checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PasswordError {
    /// Too many wait already.
    TooMany,
    /// The password is longer than bcrypt takes.
    TooLong,
    /// The work did not come to an end.
    Failed,
}

/// The way to bcrypt.
pub(crate) struct Passwords {
    waiting: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Default for Passwords {
    fn default() -> Self {
        Passwords {
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            running: Arc::new(Semaphore::new(RUNNING_MAX)),
        }
    }
}

impl Passwords {
    /// The hash of a new password.
    pub(crate) async fn hash(&self, password: String, cost: u32) -> Result<String, PasswordError> {
        if password.len() > PASSWORD_BYTES_MAX {
            return Err(PasswordError::TooLong);
        }
        let turn = self.turn().await?;
        let hashed = spawn_blocking(move || {
            let _turn = turn;
            bcrypt::hash(password, cost)
        });
        let hashed = hashed.await.map_err(|_| PasswordError::Failed)?;
        hashed.map_err(|_| PasswordError::Failed)
    }

    /// Whether a password has this hash.
    pub(crate) async fn fits(
        &self,
        password: String,
        hash: Box<str>,
    ) -> Result<bool, PasswordError> {
        if hash.is_empty() {
            return Ok(false);
        }
        let turn = self.turn().await?;
        let checked = spawn_blocking(move || {
            let _turn = turn;
            bcrypt::verify(password, &hash).unwrap_or(false)
        });
        checked.await.map_err(|_| PasswordError::Failed)
    }

    async fn turn(&self) -> Result<(OwnedSemaphorePermit, OwnedSemaphorePermit), PasswordError> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned();
        let waiting = waiting.map_err(|_| PasswordError::TooMany)?;
        let running = Arc::clone(&self.running).acquire_owned().await;
        let running = running.map_err(|_| PasswordError::Failed)?;
        Ok((waiting, running))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The least cost there is: tests need no strength.
    const COST: u32 = 4;

    #[tokio::test]
    async fn a_password_fits_its_hash_and_no_other() {
        let passwords = Passwords::default();
        let hash = passwords
            .hash("secret".to_owned(), COST)
            .await
            .expect("hashed");
        assert!(!hash.contains("secret"));
        for (password, expected) in [("secret", true), ("Secret", false), ("", false)] {
            let fits = passwords
                .fits(password.to_owned(), hash.as_str().into())
                .await;
            assert_eq!(fits.expect("checked"), expected, "{password:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_hash_fits_nothing() {
        let passwords = Passwords::default();
        for hash in ["", "x", "$2b$04$short"] {
            let fits = passwords.fits(String::new(), hash.into()).await;
            assert!(!fits.expect("checked"), "{hash:?}");
        }
        let long = passwords
            .hash("x".repeat(PASSWORD_BYTES_MAX + 1), COST)
            .await;
        assert_eq!(long, Err(PasswordError::TooLong));
    }

    #[tokio::test]
    async fn only_so_many_wait() {
        let passwords = Passwords::default();
        let mut turns = Vec::new();
        for _ in 0..WAITING_MAX {
            let waiting = Arc::clone(&passwords.waiting).try_acquire_owned();
            turns.push(waiting.expect("there is room"));
        }
        let refused = passwords.fits("x".to_owned(), "y".into()).await;
        assert_eq!(refused, Err(PasswordError::TooMany));
        drop(turns);
        assert!(passwords.fits("x".to_owned(), "y".into()).await.is_ok());
    }
}
