//! Signed tokens that were found good: a signature is looked at once, not with every request.
//!
//! What is kept of a token is its digest, so that how long a search takes tells nothing of others' tokens, and what
//! its claims say. Whether its time is over is looked at each time; whether its user still has the rights of that
//! revision is for the store.

use quorate_etcd_store::{Identity, TokenDigest};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Tokens that are kept, at most: with one more all are forgotten.
const TOKENS_MAX: usize = 1 << 10;

/// What the claims of a good token say.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Claims {
    pub(super) identity: Identity,
    /// The time before which the token counts, in seconds since the Unix epoch; none is for ever.
    pub(super) end_s: Option<f64>,
    /// The time from which on it counts.
    pub(super) start_s: Option<f64>,
}

impl Claims {
    /// Whether the token counts now.
    pub(super) fn count_at(&self, now_s: u64) -> bool {
        let now_s = now_s as f64;
        self.end_s.is_none_or(|end| now_s < end) && self.start_s.is_none_or(|start| start <= now_s)
    }
}

/// Good tokens of the newest auth revision that any of them had: those from before it are of no more use.
#[derive(Debug, Default)]
pub(super) struct VerifiedTokens(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    revision: u64,
    claims: BTreeMap<TokenDigest, Claims>,
}

impl VerifiedTokens {
    pub(super) fn find(&self, token: &TokenDigest) -> Option<Claims> {
        self.lock().claims.get(token).cloned()
    }

    /// Keeps what a token says whose signature is right.
    pub(super) fn keep(&self, token: TokenDigest, claims: Claims) {
        let mut kept = self.lock();
        let revision = claims.identity.revision;
        if revision < kept.revision {
            return;
        }
        if revision > kept.revision || kept.claims.len() >= TOKENS_MAX {
            kept.claims.clear();
        }
        kept.revision = revision;
        kept.claims.insert(token, claims);
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(revision: u64) -> Claims {
        Claims {
            identity: Identity {
                name: "alice".into(),
                revision,
            },
            end_s: Some(10.0),
            start_s: None,
        }
    }

    fn digest(number: usize) -> TokenDigest {
        let mut digest = TokenDigest::default();
        digest[..8].copy_from_slice(&number.to_le_bytes());
        digest
    }

    #[test]
    fn only_so_many_are_kept_and_none_from_before_a_change() {
        let kept = VerifiedTokens::default();
        for number in 0..3 * TOKENS_MAX {
            kept.keep(digest(number), claims(5));
            assert_eq!(kept.find(&digest(number)), Some(claims(5)));
            assert!(kept.lock().claims.len() <= TOKENS_MAX);
        }
        kept.keep(digest(0), claims(6));
        kept.keep(digest(1), claims(5));
        assert_eq!(kept.lock().claims.len(), 1);
        assert_eq!(kept.find(&digest(0)), Some(claims(6)));
    }

    #[test]
    fn claims_count_within_their_time() {
        let always = Claims {
            end_s: None,
            ..claims(1)
        };
        let later = Claims {
            start_s: Some(5.5),
            ..claims(1)
        };
        for (claims, now_s, expected) in [
            (&claims(1), 9, true),
            (&claims(1), 10, false),
            (&always, 1 << 40, true),
            (&later, 5, false),
            (&later, 6, true),
        ] {
            assert_eq!(claims.count_at(now_s), expected, "{claims:?} at {now_s}");
        }
    }
}
