//! The tokens that users show instead of their passwords.

use super::JwtSigner;
use bytes::Bytes;
use quorate_etcd_store::{AuthBoard, Identity, Store, TokenDigest};
use quorate_server::Handle;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;

/// The kind of tokens that users get.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// Random letters, which every member knows for a while.
    Simple,
    /// Tokens that the server signs, and that need not be known.
    Jwt(Arc<JwtSigner>),
}

/// A token that is about to be granted.
pub(crate) enum NewToken {
    /// The part that nobody but the user is to know.
    Secret(String),
    /// All of it.
    Signed(String),
}

/// Letters in the secret part of a simple token.
const SECRET_LETTERS: usize = 16;
const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// How long a request waits for this member to apply the slot in which its token was granted.
const SLOT_WAIT: Duration = Duration::from_secs(3);

impl TokenKind {
    /// A token for somebody whose password fits.
    pub(crate) fn draw(&self, identity: &Identity) -> Result<NewToken, String> {
        match self {
            TokenKind::Simple => letters().map(NewToken::Secret),
            TokenKind::Jwt(signer) => {
                let signed = signer.issue(identity, now_s());
                signed.map(NewToken::Signed)
            }
        }
    }

    /// Who it is that shows a token, if that is good. `ttl` is how long a simple one lasts after its last use.
    pub(crate) async fn identity(
        &self,
        token: &str,
        board: &AuthBoard,
        handle: &Handle<Store>,
        ttl: Duration,
    ) -> Option<Identity> {
        match self {
            TokenKind::Simple => simple_identity(token, board, handle, ttl).await,
            TokenKind::Jwt(signer) => signer.identity(token, now_s()),
        }
    }
}

impl NewToken {
    /// What members are told of it: nothing of one that is signed.
    pub(crate) fn digest(&self) -> Bytes {
        match self {
            NewToken::Secret(secret) => Bytes::copy_from_slice(&sha256(secret.as_bytes())),
            NewToken::Signed(_) => Bytes::new(),
        }
    }

    /// The token, once it is known in which slot it was granted.
    pub(crate) fn whole(self, slot: &str) -> String {
        match self {
            NewToken::Secret(secret) => format!("{secret}.{slot}"),
            NewToken::Signed(token) => token,
        }
    }
}

async fn simple_identity(
    token: &str,
    board: &AuthBoard,
    handle: &Handle<Store>,
    ttl: Duration,
) -> Option<Identity> {
    let (secret, slot) = token.split_once('.')?;
    let slot = slot.parse::<u64>().ok()?;
    let digest = sha256(secret.as_bytes());
    let user = || board.user_of_token(&digest, now_ns(), ns(ttl));
    let name = match user() {
        Some(name) => name,
        // Another member granted it, and this one may not have heard of that yet.
        None => {
            let mut applied = handle.applied();
            let wait = timeout(SLOT_WAIT, applied.wait_for(|next| next.0 > slot));
            wait.await.ok()?.ok()?;
            user()?
        }
    };
    Some(Identity {
        name,
        revision: board.revision(),
    })
}

pub(super) fn sha256(bytes: &[u8]) -> TokenDigest {
    let mut found = TokenDigest::default();
    found.copy_from_slice(digest(&SHA256, bytes).as_ref());
    found
}

/// Letters that nobody can guess.
fn letters() -> Result<String, String> {
    let random = SystemRandom::new();
    let mut letters = String::with_capacity(SECRET_LETTERS);
    // What is beyond the greatest multiple would make some letters likelier than others.
    let fair = 256 / LETTERS.len() * LETTERS.len();
    while letters.len() < SECRET_LETTERS {
        let mut bytes = [0; 2 * SECRET_LETTERS];
        let drawn = random.fill(&mut bytes);
        drawn.map_err(|_| "no random numbers for a token")?;
        let missing = SECRET_LETTERS - letters.len();
        let fair = bytes.iter().filter(|byte| usize::from(**byte) < fair);
        letters.extend(
            fair.take(missing)
                .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()])),
        );
    }
    Ok(letters)
}

/// The time of this machine's clock, in ns since the Unix epoch.
fn now_ns() -> u64 {
    ns(since_epoch())
}

fn now_s() -> u64 {
    since_epoch().as_secs()
}

#[allow(
    clippy::disallowed_methods,
    reason = "how old a token is, its member's clock says; no state depends on it"
)]
fn since_epoch() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn secrets_are_letters_and_differ() {
        let drawn: Vec<String> = (0..100).map(|_| letters().expect("drawn")).collect();
        for secret in &drawn {
            assert_eq!(secret.len(), SECRET_LETTERS);
            assert!(
                secret.bytes().all(|byte| LETTERS.contains(&byte)),
                "{secret}"
            );
        }
        let different: BTreeSet<&String> = drawn.iter().collect();
        assert_eq!(different.len(), drawn.len());
    }
}
