//! What clients speak, and with it what the replicas keep: chosen when a cluster is begun, and the same for
//! its whole life.

use clap::ValueEnum;
use quorate_core::Epoch;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What clients speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FaceName {
    /// The etcd v3 API
    #[default]
    Etcd,
    /// Keys and values over HTTP; with nezha, writes of different keys need not wait for each other
    Plain,
    /// Redis's protocol, over a store of Quorate's own
    Redis,
}

const PLAIN: &str = "plain";
const REDIS: &str = "redis";

const EMBEDDED: &str = "embedded";
const EFFECTS: &str = "effects";
const COMMANDS: &str = "commands";

/// What keeps the data behind the Redis face.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RedisStore {
    /// The store of this program.
    #[default]
    Embedded,
    /// Unmodified servers, one of which executes commands; the others follow its effects.
    Effects,
    /// Unmodified servers, each of which executes all commands, as the log has them.
    Commands,
}

impl RedisStore {
    /// The name in the parameters of a first epoch.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RedisStore::Embedded => EMBEDDED,
            RedisStore::Effects => EFFECTS,
            RedisStore::Commands => COMMANDS,
        }
    }

    /// Whether the data is in real servers.
    pub(crate) fn has_servers(self) -> bool {
        self != RedisStore::Embedded
    }

    /// The store of a cluster with the Redis face, by the parameters of its first epoch.
    ///
    /// # Errors
    /// When this program does not have it.
    fn of(params: &BTreeMap<String, String>) -> Result<RedisStore, String> {
        match params.get(Epoch::REDIS).map(String::as_str) {
            // Clusters were begun before there was a choice.
            None | Some(EMBEDDED) => Ok(RedisStore::Embedded),
            Some(EFFECTS) => Ok(RedisStore::Effects),
            Some(COMMANDS) => Ok(RedisStore::Commands),
            Some(other) => Err(format!(
                "this cluster was begun for the face redis with {} = {other}, and this program has {EMBEDDED}, \
                 {EFFECTS} and {COMMANDS} alone: run the version of quorate that began it, or a newer one",
                Epoch::REDIS,
            )),
        }
    }

    /// The store that is asked for by `--redis-mode`.
    ///
    /// # Errors
    /// When the name is none, and which there are.
    pub(crate) fn of_mode(mode: &str) -> Result<RedisStore, String> {
        match mode {
            EMBEDDED => Ok(RedisStore::Embedded),
            EFFECTS => Ok(RedisStore::Effects),
            COMMANDS => Ok(RedisStore::Commands),
            other => Err(format!(
                "--redis-mode {other}: the modes are {EMBEDDED}, {EFFECTS} and {COMMANDS}"
            )),
        }
    }
}

impl FaceName {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FaceName::Etcd => "etcd",
            FaceName::Plain => PLAIN,
            FaceName::Redis => REDIS,
        }
    }

    /// What keeps the data, where a face could have one of several.
    ///
    /// # Errors
    /// When this program does not have it.
    pub(crate) fn store(
        self,
        params: &BTreeMap<String, String>,
    ) -> Result<Option<RedisStore>, String> {
        match self {
            FaceName::Etcd | FaceName::Plain => Ok(None),
            FaceName::Redis => RedisStore::of(params).map(Some),
        }
    }

    /// Adds it to the parameters of a first epoch. The first face there was has no name there.
    pub(crate) fn add_to(self, store: RedisStore, params: &mut BTreeMap<String, String>) {
        if self != FaceName::Etcd {
            params.insert(Epoch::FACE.to_owned(), self.name().to_owned());
        }
        if self == FaceName::Redis {
            params.insert(Epoch::REDIS.to_owned(), store.name().to_owned());
        }
    }

    /// The face of a cluster, by the parameters of its first epoch.
    ///
    /// # Errors
    /// When this program does not have it.
    pub(crate) fn of(params: &BTreeMap<String, String>) -> Result<FaceName, String> {
        let store = params.get(Epoch::REDIS).map(String::as_str);
        match (params.get(Epoch::FACE).map(String::as_str), store) {
            (None, None) => Ok(FaceName::Etcd),
            (Some(PLAIN), None) => Ok(FaceName::Plain),
            (Some(REDIS), _) => RedisStore::of(params).map(|_| FaceName::Redis),
            (Some(PLAIN) | None, Some(_)) => Err(format!(
                "this cluster has a parameter {} and another face",
                Epoch::REDIS
            )),
            (Some(other), _) => Err(format!(
                "this cluster was begun for the face {other:?}, which this program does not have"
            )),
        }
    }

    /// Refuses clusters with another face than etcd's, for what works on its data alone.
    ///
    /// # Errors
    /// When the cluster has another one.
    pub(crate) fn must_be_etcd(epoch: &Epoch) -> Result<(), String> {
        match FaceName::of(&epoch.params)? {
            FaceName::Etcd => Ok(()),
            other => Err(format!(
                "this command does not work on clusters with the face {}",
                other.name()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_is_found_where_it_was_put() {
        for face in [FaceName::Etcd, FaceName::Plain, FaceName::Redis] {
            let mut params = BTreeMap::new();
            face.add_to(RedisStore::Embedded, &mut params);
            assert_eq!(FaceName::of(&params), Ok(face));
        }
        for store in [
            RedisStore::Embedded,
            RedisStore::Effects,
            RedisStore::Commands,
        ] {
            let mut params = BTreeMap::new();
            FaceName::Redis.add_to(store, &mut params);
            assert_eq!(FaceName::of(&params), Ok(FaceName::Redis));
            assert_eq!(FaceName::Redis.store(&params), Ok(Some(store)));
            assert_eq!(FaceName::Etcd.store(&params), Ok(None));
            assert_eq!(RedisStore::of_mode(store.name()), Ok(store));
        }
        let strange = BTreeMap::from([(Epoch::FACE.to_owned(), "graph".to_owned())]);
        assert!(FaceName::of(&strange).unwrap_err().contains("graph"));
    }

    #[test]
    fn a_cluster_with_another_store_behind_redis_is_refused() {
        for store in ["", "other"] {
            let mut params = BTreeMap::new();
            FaceName::Redis.add_to(RedisStore::Embedded, &mut params);
            params.insert(Epoch::REDIS.to_owned(), store.to_owned());
            let refused = FaceName::of(&params).unwrap_err();
            assert!(refused.contains(&format!("redis = {store}")), "{refused}");
            let refused = RedisStore::of_mode(store).unwrap_err();
            assert!(
                refused.contains(&format!("--redis-mode {store}")),
                "{refused}"
            );
        }
    }
}
