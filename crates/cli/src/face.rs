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
}

const PLAIN: &str = "plain";

impl FaceName {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FaceName::Etcd => "etcd",
            FaceName::Plain => PLAIN,
        }
    }

    /// Adds it to the parameters of a first epoch. The first face there was has no name there.
    pub(crate) fn add_to(self, params: &mut BTreeMap<String, String>) {
        if self == FaceName::Plain {
            params.insert(Epoch::FACE.to_owned(), PLAIN.to_owned());
        }
    }

    /// The face of a cluster, by the parameters of its first epoch.
    ///
    /// # Errors
    /// When this program does not have it.
    pub(crate) fn of(params: &BTreeMap<String, String>) -> Result<FaceName, String> {
        match params.get(Epoch::FACE).map(String::as_str) {
            None => Ok(FaceName::Etcd),
            Some(PLAIN) => Ok(FaceName::Plain),
            Some(other) => Err(format!(
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
        for face in [FaceName::Etcd, FaceName::Plain] {
            let mut params = BTreeMap::new();
            face.add_to(&mut params);
            assert_eq!(FaceName::of(&params), Ok(face));
        }
        let strange = BTreeMap::from([(Epoch::FACE.to_owned(), "redis".to_owned())]);
        assert!(FaceName::of(&strange).unwrap_err().contains("redis"));
    }
}
