//! Options that only the Redis face has.

use clap::Args;
use quorate_face_redis::{FaceOptions, Limits, Subscriptions, Users};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// Who may ask what, and where operators are served.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RedisOptions {
    /// Where the Redis face serves operators: health, metrics, status, changes of the cluster [default with --face
    /// redis: http://127.0.0.1:2379]
    #[arg(long, env = "QUORATE_LISTEN_ADMIN_URLS", value_name = "URLS")]
    pub(crate) listen_admin_urls: Option<String>,

    /// The password of Redis's default user; set it on all replicas, and rather in the environment or the file of
    /// options, where other users of the machine do not see it [default: none]
    #[arg(
        long,
        env = "QUORATE_REQUIREPASS",
        hide_env_values = true,
        value_name = "PASSWORD"
    )]
    requirepass: Option<Password>,

    /// A file with Redis's users, a line for each as in `user alice on >secret ~app:* +@all -flushall`; equal on all
    /// replicas [default: none]
    #[arg(long, env = "QUORATE_REDIS_ACL_FILE", value_name = "FILE")]
    redis_acl_file: Option<PathBuf>,
}

/// A password, which nothing shows.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Password(String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

impl FromStr for Password {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.is_empty() {
            true => Err("a password is not empty".to_owned()),
            false => Ok(Password(text.to_owned())),
        }
    }
}

/// Settings that only the Redis face has.
#[derive(Clone, Debug, Default)]
pub(crate) struct RedisSettings {
    /// The users of Redis, their passwords and their rights.
    pub(crate) users: Users,
    /// The first option of the Redis face that was given.
    pub(crate) first_given: Option<&'static str>,
}

impl RedisSettings {
    /// What the face is made of, for so many connections and requests of such a length.
    pub(crate) fn face(self, connections_max: usize, request_bytes_max: usize) -> FaceOptions {
        FaceOptions {
            limits: Limits {
                connections_max,
                request_bytes_max,
                ..Limits::default()
            },
            users: self.users,
            subscriptions: Arc::new(Subscriptions::default()),
        }
    }
}

impl RedisOptions {
    /// The options with their defaults; the file that they name is read.
    pub(crate) fn resolve(&self) -> Result<RedisSettings, String> {
        let password = self.requirepass.as_ref().map(|password| &password.0[..]);
        let users = Users::open(self.redis_acl_file.as_deref(), password);
        let users = users.map_err(|error| format!("--redis-acl-file {error}"))?;
        Ok(RedisSettings {
            users,
            first_given: self.first_given(),
        })
    }

    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--listen-admin-urls", self.listen_admin_urls.is_some()),
            ("--requirepass", self.requirepass.is_some()),
            ("--redis-acl-file", self.redis_acl_file.is_some()),
        ];
        given
            .iter()
            .find(|(_, is_given)| *is_given)
            .map(|(flag, _)| *flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_shown_nowhere() {
        let options = RedisOptions {
            requirepass: Some("hush".parse().unwrap()),
            ..RedisOptions::default()
        };
        let settings = options.resolve().unwrap();
        for shown in [format!("{options:?}"), format!("{settings:?}")] {
            assert!(!shown.contains("hush"), "{shown}");
        }
        assert_eq!(options.first_given(), Some("--requirepass"));
        assert!("".parse::<Password>().is_err());
    }

    #[test]
    fn a_file_of_users_that_cannot_be_used_is_named() {
        let options = RedisOptions {
            redis_acl_file: Some("/nowhere/users.acl".into()),
            ..RedisOptions::default()
        };
        let refused = options.resolve().unwrap_err();
        assert!(
            refused.contains("--redis-acl-file /nowhere/users.acl"),
            "{refused}"
        );
    }
}
