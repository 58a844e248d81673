//! Options about users: their tokens and passwords.

use crate::compaction::duration;
use clap::Args;
use quorate_face_etcd::{JwtOptions, JwtSigner, TokenKind, UserOptions};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// How users show who they are, in etcd's words.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct UsersOptions {
    /// The tokens that users get for their passwords: `simple`, or signed ones as in
    /// jwt,sign-method=RS256,pub-key=FILE,priv-key=FILE,ttl=10m; set it on all replicas [default: simple]
    #[arg(long, env = "QUORATE_AUTH_TOKEN", value_name = "KIND")]
    auth_token: Option<String>,

    /// How long a simple token lasts after its last use, in seconds [default: 300]
    #[arg(long, env = "QUORATE_AUTH_TOKEN_TTL", value_name = "SECONDS")]
    auth_token_ttl: Option<u64>,

    /// The cost of the bcrypt hashes of new passwords: one more doubles the time of each login [default: 10]
    #[arg(long, env = "QUORATE_BCRYPT_COST", value_name = "COST")]
    bcrypt_cost: Option<u32>,
}

/// What bcrypt takes. Beyond the greatest a login would take hours.
const COSTS: RangeInclusive<u32> = 4..=31;
/// How long a signed token lasts where the options do not say.
const SIGNED_TTL: Duration = Duration::from_secs(300);
/// The longest time in seconds: ten years.
const TTL_S_MAX: u64 = 10 * 366 * 24 * 3600;

impl UsersOptions {
    /// The options with their defaults; the files that they name are read.
    pub(crate) fn resolve(&self) -> Result<UserOptions, String> {
        let defaults = UserOptions::default();
        let bcrypt_cost = self.bcrypt_cost.unwrap_or(defaults.bcrypt_cost);
        if !COSTS.contains(&bcrypt_cost) {
            return Err(format!(
                "--bcrypt-cost {bcrypt_cost} is not between {} and {}",
                COSTS.start(),
                COSTS.end()
            ));
        }
        let token_ttl = match self.auth_token_ttl {
            None => defaults.token_ttl,
            Some(seconds @ 1..=TTL_S_MAX) => Duration::from_secs(seconds),
            Some(seconds) => {
                return Err(format!(
                    "--auth-token-ttl {seconds} is not between 1 and {TTL_S_MAX}"
                ));
            }
        };
        let kind = self.auth_token.as_deref().unwrap_or("simple");
        let tokens = tokens(kind).map_err(|why| format!("--auth-token: {why}"))?;
        Ok(UserOptions {
            tokens,
            token_ttl,
            bcrypt_cost,
            board: None,
        })
    }
}

fn tokens(text: &str) -> Result<TokenKind, String> {
    let mut parts = text.split(',');
    let kind = parts.next().unwrap_or_default();
    let mut given = BTreeMap::new();
    for part in parts {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} is not NAME=VALUE"))?;
        if given.insert(name, value).is_some() {
            return Err(format!("{name} is there twice"));
        }
    }
    match kind {
        "simple" if given.is_empty() => Ok(TokenKind::Simple),
        "simple" => Err("simple tokens have no options here".to_owned()),
        "jwt" => {
            let signer = JwtSigner::new(&signed(given)?)?;
            Ok(TokenKind::Jwt(Arc::new(signer)))
        }
        other => Err(format!("{other:?} is neither simple nor jwt")),
    }
}

/// The options of signed tokens.
fn signed(mut given: BTreeMap<&str, &str>) -> Result<JwtOptions, String> {
    let read = |name: &str, path: Option<&str>| {
        let read = path.map(|path| {
            std::fs::read(path).map_err(|error| format!("{name}: cannot read {path}: {error}"))
        });
        read.transpose()
    };
    let method = given.remove("sign-method");
    let method = method.ok_or("jwt needs sign-method=, such as sign-method=RS256")?;
    let ttl = given.remove("ttl").map(|text| {
        let ttl = duration(text).filter(|ttl| (1..=TTL_S_MAX).contains(&ttl.as_secs()));
        ttl.ok_or_else(|| format!("ttl={text}: not a time of a second or more, such as 10m"))
    });
    let options = JwtOptions {
        method: method.to_owned(),
        public_key: read("pub-key", given.remove("pub-key"))?,
        private_key: read("priv-key", given.remove("priv-key"))?,
        ttl: ttl.transpose()?.unwrap_or(SIGNED_TTL),
    };
    match given.first_key_value() {
        None => Ok(options),
        Some((name, _)) => Err(format!(
            "jwt has no option {name:?}: there are sign-method, pub-key, priv-key and ttl"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        token: Option<&str>,
        ttl: Option<u64>,
        cost: Option<u32>,
    ) -> Result<UserOptions, String> {
        let options = UsersOptions {
            auth_token: token.map(str::to_owned),
            auth_token_ttl: ttl,
            bcrypt_cost: cost,
        };
        options.resolve()
    }

    #[test]
    fn defaults_are_those_of_etcd() {
        let found = resolve(None, None, None);
        assert_eq!(found, Ok(UserOptions::default()));
        assert_eq!(found, resolve(Some("simple"), Some(300), Some(10)));
    }

    #[test]
    fn wrong_options_are_named() {
        for (token, ttl, cost, why) in [
            (Some("paseto"), None, None, "neither simple nor jwt"),
            (Some("simple,ttl=1m"), None, None, "no options"),
            (Some("jwt"), None, None, "jwt needs sign-method="),
            (Some("jwt,sign-method"), None, None, "is not NAME=VALUE"),
            (Some("jwt,ttl=1m,ttl=2m"), None, None, "ttl is there twice"),
            (Some("jwt,sign-method=RS1"), None, None, "sign-method=RS1"),
            (
                Some("jwt,sign-method=RS256,ttl=soon"),
                None,
                None,
                "ttl=soon",
            ),
            (
                Some("jwt,sign-method=RS256,kid=1"),
                None,
                None,
                "no option \"kid\"",
            ),
            (
                Some("jwt,sign-method=RS256,priv-key=/nowhere/key.pem"),
                None,
                None,
                "cannot read /nowhere/key.pem",
            ),
            (None, Some(0), None, "--auth-token-ttl 0"),
            (None, None, Some(3), "--bcrypt-cost 3"),
            (None, None, Some(32), "--bcrypt-cost 32"),
        ] {
            let said = resolve(token, ttl, cost).expect_err("it is wrong");
            assert!(said.contains(why), "{said}");
        }
    }
}
