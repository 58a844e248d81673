//! Options that only the Redis face has.

use crate::face::RedisStore;
use clap::Args;
use quorate_core::ReplicaId;
use quorate_face_redis::{FaceOptions, Limits, Subscriptions, Users};
use quorate_redis_process::{ServerBinary, ServerUsers, UserSettings};
use quorate_redis_relay::{FeedOptions, RelayLimits, RelayOptions};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
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

    /// A file with Redis's users, a line for each as in `user alice on >secret ~app:* +@all -flushall`; with the
    /// embedded store, the first users of a new cluster, and what `ACL LOAD` takes [default: none]
    #[arg(long, env = "QUORATE_REDIS_ACL_FILE", value_name = "FILE")]
    redis_acl_file: Option<PathBuf>,

    #[command(flatten)]
    #[serde(flatten)]
    server: RedisServerOptions,
}

/// The real servers that keep the data, if it is not Quorate's own store.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub(crate) struct RedisServerOptions {
    /// Run this program, a redis-server from 7.0 or a valkey-server from 8.0 on, and replicate what it does; without a
    /// path the first of them in PATH [default: Quorate's own store]
    #[arg(
        long,
        env = "QUORATE_REDIS_SERVER",
        value_name = "PATH",
        num_args = 0..=1,
        default_missing_value = ""
    )]
    redis_server: Option<String>,

    /// What keeps the data of a new cluster: embedded; effects, which --redis-server means; or commands, where every
    /// replica's server carries out every command
    #[arg(long, env = "QUORATE_REDIS_MODE", value_name = "MODE")]
    redis_mode: Option<String>,

    /// A file with settings of the server, as redis.conf has them: memory, encodings, notifications
    #[arg(long, env = "QUORATE_REDIS_CONFIG", value_name = "FILE")]
    redis_config: Option<PathBuf>,
}

impl RedisServerOptions {
    /// What is to keep the data, if that was said.
    ///
    /// # Errors
    /// When two options contradict each other, or name what this program does not have.
    pub(crate) fn store(&self) -> Result<Option<RedisStore>, String> {
        let mode = self.redis_mode.as_deref().map(RedisStore::of_mode);
        match (mode.transpose()?, &self.redis_server) {
            (Some(RedisStore::Embedded), Some(_)) => Err(
                "--redis-mode embedded and --redis-server contradict each other: leave one out"
                    .to_owned(),
            ),
            (mode, Some(_)) => Ok(mode.or(Some(RedisStore::Effects))),
            (mode, None) => Ok(mode),
        }
    }

    /// The store that was asked for, where a cluster has another one. A real server alone may be of either mode.
    ///
    /// # Errors
    /// When the options contradict each other.
    pub(crate) fn other_store(&self, has: RedisStore) -> Result<Option<RedisStore>, String> {
        let asked = self.store()?;
        let is_fine = |asked: RedisStore| match self.redis_mode {
            Some(_) => asked == has,
            None => has.has_servers(),
        };
        Ok(asked.filter(|asked| !is_fine(*asked)))
    }

    /// The program to run.
    ///
    /// # Errors
    /// When there is none, or it cannot be used.
    pub(crate) fn binary(&self) -> Result<ServerBinary, String> {
        let given = self.redis_server.as_deref();
        let given = given.filter(|path| !path.is_empty()).map(Path::new);
        let flag = if given.is_some() {
            "--redis-server "
        } else {
            ""
        };
        ServerBinary::find(given).map_err(|error| format!("{flag}{error}"))
    }

    /// The settings of the server that were chosen.
    ///
    /// # Errors
    /// When their file cannot be used.
    pub(crate) fn settings(&self) -> Result<UserSettings, String> {
        match &self.redis_config {
            None => Ok(UserSettings::default()),
            Some(path) => {
                UserSettings::open(path).map_err(|error| format!("--redis-config {error}"))
            }
        }
    }

    /// These options for the command line of a replica.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = Vec::new();
        if let Some(path) = &self.redis_server {
            flags.push(format!("--redis-server={path}"));
        }
        if let Some(path) = &self.redis_config {
            flags.push(format!("--redis-config={}", path.display()));
        }
        flags
    }
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
    /// What is to keep the data of a new cluster, if that was said.
    pub(crate) store: Option<RedisStore>,
    /// Why the users cannot be those of this program's own rules, if they cannot.
    users_wrong: Option<String>,
    server: RedisServerOptions,
    server_users: ServerUsers,
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

impl RedisSettings {
    /// What servers of a replica are to be, for so many clients.
    ///
    /// # Errors
    /// When there is no program to run, or a file cannot be used.
    pub(crate) fn relay(
        self,
        me: ReplicaId,
        boot: u64,
        connections_max: usize,
    ) -> Result<RelayOptions, String> {
        Ok(RelayOptions {
            me,
            boot,
            binary: self.server.binary()?,
            settings: self.server.settings()?,
            users: self.server_users,
            limits: RelayLimits {
                connections_max,
                ..RelayLimits::default()
            },
        })
    }

    /// What servers are to be that each carry out every command.
    ///
    /// # Errors
    /// When there is no program to run, or a file cannot be used.
    pub(crate) fn feed(self, boot: u64, client_memory: usize) -> Result<FeedOptions, String> {
        let options = FeedOptions {
            boot,
            binary: self.server.binary()?,
            settings: self.server.settings()?,
            client_memory,
        };
        match options.unfit_setting() {
            None => Ok(options),
            Some(name) => Err(format!(
                "--redis-config sets {name}: where each server carries out every command, all must keep the same keys; \
                 --redis-mode effects allows it"
            )),
        }
    }

    /// Refuses a store that the cluster does not have.
    ///
    /// # Errors
    /// When another one was asked for, or the file of users is not for this one.
    pub(crate) fn check_store(&self, has: Option<RedisStore>, dir: &Path) -> Result<(), String> {
        let Some(has) = has else {
            return Ok(());
        };
        if let Some(asked) = self.server.other_store(has)? {
            return Err(format!(
                "the cluster in {} was begun with redis = {}, and {} is asked for (--redis-server, --redis-mode): a \
                 cluster keeps the store that it was begun with",
                dir.display(),
                has.name(),
                asked.name()
            ));
        }
        match &self.users_wrong {
            Some(why) if has != RedisStore::Effects => Err(why.clone()),
            _ => Ok(()),
        }
    }
}

impl RedisOptions {
    /// The options with their defaults; the file that they name is read.
    pub(crate) fn resolve(&self) -> Result<RedisSettings, String> {
        let password = self.requirepass.as_ref().map(|password| &password.0[..]);
        let store = self.server.store()?;
        let file = self.redis_acl_file.as_deref();
        let users = Users::open(file, password);
        let users = users.map_err(|error| format!("--redis-acl-file {error}"));
        let (users, users_wrong) = match users {
            Ok(users) => (users, None),
            // A real server that executes knows more of users than this program does.
            Err(why) if store == Some(RedisStore::Effects) => (Users::default(), Some(why)),
            Err(why) => return Err(why),
        };
        let server_users = ServerUsers::open(file, password);
        let server_users = server_users.map_err(|error| format!("--redis-acl-file {error}"))?;
        if store.is_some_and(RedisStore::has_servers) {
            // Whatever is wrong is told before anything is begun.
            self.server.binary()?;
            self.server.settings()?;
        }
        Ok(RedisSettings {
            users,
            store,
            users_wrong,
            server: self.server.clone(),
            server_users,
            first_given: self.first_given(),
        })
    }

    fn first_given(&self) -> Option<&'static str> {
        let given = [
            ("--listen-admin-urls", self.listen_admin_urls.is_some()),
            ("--requirepass", self.requirepass.is_some()),
            ("--redis-acl-file", self.redis_acl_file.is_some()),
            ("--redis-server", self.server.redis_server.is_some()),
            ("--redis-mode", self.server.redis_mode.is_some()),
            ("--redis-config", self.server.redis_config.is_some()),
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
