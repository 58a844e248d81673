//! What faces see of users, roles and tokens without asking the core.
//!
//! Every replica has a board of its own, on which its store puts the state whenever that changes: before the result of
//! the change is known to anybody, so that what a client was told is on the board. Tokens are on the board alone. They
//! come through the log, so that each is good at every member; but what each member forgets, and when, is its own
//! matter, and a restart or a snapshot from a peer leaves none.

use super::{Access, Asker, AuthState};
use crate::refused::Refused;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The SHA-256 of the secret part of a token.
pub type TokenDigest = [u8; 32];

/// Tokens that are known at a time; beyond, those that were used longest ago go.
const TOKENS_MAX: usize = 1 << 16;
/// The time between two looks for tokens that nobody used, in ns.
const SWEEP_EVERY_NS: u64 = 1_000_000_000;

/// Called after every change.
type Listener = Box<dyn Fn() + Send + Sync>;

/// Users, roles and tokens of one replica, as applied.
#[derive(Default)]
pub struct AuthBoard {
    is_enabled: AtomicBool,
    revision: AtomicU64,
    state: Mutex<Arc<AuthState>>,
    tokens: Mutex<Tokens>,
    listeners: Mutex<Vec<Listener>>,
}

#[derive(Default)]
struct Tokens {
    known: BTreeMap<TokenDigest, Token>,
    swept_ns: u64,
}

struct Token {
    user: Arc<str>,
    /// When it was granted or used last, in ns since the Unix epoch.
    used_ns: u64,
}

impl fmt::Debug for AuthBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthBoard")
            .field("is_enabled", &self.is_enabled())
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}

impl PartialEq for AuthBoard {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for AuthBoard {}

impl AuthBoard {
    /// Whether authentication is on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.is_enabled.load(Ordering::Acquire)
    }

    /// The auth revision; 0 before any state was put up.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Users and roles.
    #[must_use]
    pub fn state(&self) -> Arc<AuthState> {
        Arc::clone(&lock(&self.state))
    }

    /// Has `listener` called after every change, for as long as the board is there. It must not block.
    pub fn listen(&self, listener: impl Fn() + Send + Sync + 'static) {
        lock(&self.listeners).push(Box::new(listener));
    }

    /// The user of a token that was granted or used within the last `ttl_ns`. This counts as a use.
    #[must_use]
    pub fn user_of_token(
        &self,
        digest: &TokenDigest,
        now_ns: u64,
        ttl_ns: u64,
    ) -> Option<Arc<str>> {
        let mut tokens = lock(&self.tokens);
        tokens.sweep(now_ns, ttl_ns);
        let token = tokens.known.get_mut(digest)?;
        if token.is_over(now_ns, ttl_ns) {
            tokens.known.remove(digest);
            return None;
        }
        token.used_ns = token.used_ns.max(now_ns);
        Some(Arc::clone(&token.user))
    }

    pub(crate) fn note_token(&self, digest: TokenDigest, user: &str, now_ns: u64) {
        let mut tokens = lock(&self.tokens);
        if tokens.known.len() >= TOKENS_MAX {
            tokens.drop_oldest_half();
        }
        let token = Token {
            user: user.into(),
            used_ns: now_ns,
        };
        tokens.known.insert(digest, token);
    }

    pub(crate) fn forget_tokens(&self, is_meant: impl Fn(&str) -> bool) {
        lock(&self.tokens)
            .known
            .retain(|_, token| !is_meant(&token.user));
    }

    /// Differs whenever other users may have other rights than before.
    #[must_use]
    pub fn stamp(&self) -> (u64, bool) {
        (self.revision(), self.is_enabled())
    }

    /// Refuses who may not read all keys of a range now, whenever it was that they showed credentials.
    ///
    /// # Errors
    /// Why not.
    pub fn admit_reading(
        &self,
        asker: &Asker,
        key: &[u8],
        range_end: &[u8],
    ) -> Result<(), Refused> {
        let state = self.state();
        let now = asker.name().map(|name| Asker::User(state.identity(name)));
        state.check(now.as_ref().unwrap_or(asker), Access::Read, key, range_end)
    }

    /// Puts up a state.
    pub(crate) fn publish(&self, state: &Arc<AuthState>) {
        self.put_up(state);
        self.revision.store(state.revision(), Ordering::Release);
        self.is_enabled.store(state.is_enabled(), Ordering::Release);
        lock(&self.listeners).iter().for_each(|listener| listener());
    }

    /// Puts up a state without telling anybody.
    pub(crate) fn put_up(&self, state: &Arc<AuthState>) {
        *lock(&self.state) = Arc::clone(state);
    }
}

impl Token {
    fn is_over(&self, now_ns: u64, ttl_ns: u64) -> bool {
        now_ns.saturating_sub(self.used_ns) > ttl_ns
    }
}

impl Tokens {
    fn sweep(&mut self, now_ns: u64, ttl_ns: u64) {
        if now_ns.abs_diff(self.swept_ns) >= SWEEP_EVERY_NS {
            self.swept_ns = now_ns;
            self.known.retain(|_, token| !token.is_over(now_ns, ttl_ns));
        }
    }

    fn drop_oldest_half(&mut self) {
        let mut uses: Vec<u64> = self.known.values().map(|token| token.used_ns).collect();
        uses.sort_unstable();
        let median = uses.get(uses.len() / 2).copied().unwrap_or_default();
        self.known.retain(|_, token| token.used_ns > median);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    const TTL_NS: u64 = 300;

    fn user(board: &AuthBoard, digest: u8, now_ns: u64) -> Option<Arc<str>> {
        board.user_of_token(&[digest; 32], now_ns, TTL_NS)
    }

    #[test]
    fn a_token_lives_for_its_time_after_each_use() {
        let board = AuthBoard::default();
        board.note_token([1; 32], "alice", 1_000);
        assert_eq!(user(&board, 1, 1_300).as_deref(), Some("alice"));
        assert_eq!(user(&board, 1, 1_600).as_deref(), Some("alice"));
        assert_eq!(user(&board, 2, 1_600), None);
        assert_eq!(user(&board, 1, 1_901), None);
        assert_eq!(user(&board, 1, 1_600), None, "what is over stays so");
    }

    #[test]
    fn the_tokens_of_one_user_go_and_others_stay() {
        let board = AuthBoard::default();
        board.note_token([1; 32], "alice", 0);
        board.note_token([2; 32], "bob", 0);
        board.forget_tokens(|name| name == "alice");
        assert_eq!(user(&board, 1, 1), None);
        assert_eq!(user(&board, 2, 1).as_deref(), Some("bob"));
    }

    #[test]
    fn tokens_that_nobody_uses_take_no_room_for_ever() {
        let board = AuthBoard::default();
        for number in 0..3 * TOKENS_MAX as u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            board.note_token(digest, "alice", number);
        }
        assert!(lock(&board.tokens).known.len() <= TOKENS_MAX);
        assert_eq!(user(&board, 9, 10 * SWEEP_EVERY_NS), None);
        assert!(lock(&board.tokens).known.is_empty());
    }

    #[test]
    fn listeners_hear_of_every_change_after_it_is_up() {
        let board = Arc::new(AuthBoard::default());
        let heard = Arc::new(AtomicUsize::new(0));
        let (seen, count) = (Arc::downgrade(&board), Arc::clone(&heard));
        board.listen(move || {
            let board = seen.upgrade().expect("it is there");
            count.store(board.revision() as usize, Ordering::Relaxed);
        });
        board.publish(&Arc::new(AuthState::default()));
        assert_eq!(heard.load(Ordering::Relaxed), 1);
    }
}
