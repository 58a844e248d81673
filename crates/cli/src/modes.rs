//! Choices shared by several commands.

use clap::ValueEnum;
use quorate_core::{Durability, Epoch};
use quorate_server::{Layout, Rejoin};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What survives a crash of all replicas at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DurabilityMode {
    /// Everything acknowledged: it is on disk before it is acknowledged
    Disk,
    /// Nothing: data lives as long as enough replicas do
    Memory,
}

impl DurabilityMode {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DurabilityMode::Disk => "disk",
            DurabilityMode::Memory => "memory",
        }
    }
}

impl From<DurabilityMode> for Durability {
    fn from(mode: DurabilityMode) -> Self {
        match mode {
            DurabilityMode::Disk => Durability::Disk,
            DurabilityMode::Memory => Durability::Memory,
        }
    }
}

/// How logs are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines that people read
    Text,
    /// One JSON object per line
    Json,
}

/// How a replica comes back whose data is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RejoinMode {
    /// As a new member, in the place of the former
    NewMember,
    /// As itself, by the protocol's own rule
    Protocol,
}

impl From<RejoinMode> for Rejoin {
    fn from(mode: RejoinMode) -> Self {
        match mode {
            RejoinMode::NewMember => Rejoin::NewMember,
            RejoinMode::Protocol => Rejoin::Protocol,
        }
    }
}

/// What a cluster does by itself when a member is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReactMode {
    /// Nothing: that is for the operator
    Nothing,
    /// Go on with a code that survives the next failure
    ShrinkCode,
}

/// How frames travel between replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PeerTransport {
    /// All by TCP
    #[default]
    Tcp,
    /// Short ones by UDP where datagrams arrive, the others by TCP
    Udp,
}

impl PeerTransport {
    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PeerTransport::Tcp => "tcp",
            PeerTransport::Udp => "udp",
        }
    }
}

/// What runs on which thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LayoutMode {
    /// Threaded where there are three cores for each replica, else fused
    Auto,
    /// Everything on one thread
    Fused,
    /// Replication on one thread, clients on another
    Threaded,
    /// Threads as in `threaded`, and one each for what replicas send and for what they receive
    Split,
}

impl LayoutMode {
    /// The layout on a machine which so many replicas share.
    pub(crate) fn resolve(self, replicas: usize) -> Layout {
        match self {
            LayoutMode::Auto => Layout::for_machine(replicas),
            LayoutMode::Fused => Layout::Fused,
            LayoutMode::Threaded => Layout::Threaded,
            LayoutMode::Split => Layout::Split,
        }
    }
}

/// Reads `name=value` parameters of a protocol.
pub(crate) fn params(given: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut params = BTreeMap::new();
    for text in given {
        let (name, value) = text
            .split_once('=')
            .filter(|(name, value)| !name.is_empty() && !value.is_empty())
            .ok_or_else(|| format!("--param {text:?} is not of the form name=value"))?;
        if name == Epoch::FACE {
            return Err(format!("--param {text}: say --face {value}"));
        }
        if name == Epoch::REDIS {
            return Err(format!("--param {text}: say --face redis"));
        }
        if params.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(format!("--param {name} is given twice"));
        }
    }
    Ok(params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_names_with_values() {
        let given = ["window=4".to_owned(), "timeout=1=2".to_owned()];
        let read = params(&given).unwrap();
        assert_eq!(read["window"], "4");
        assert_eq!(read["timeout"], "1=2");
        for bad in ["window", "=4", "window="] {
            assert!(
                params(&[bad.to_owned()])
                    .unwrap_err()
                    .contains("name=value")
            );
        }
        let twice = ["a=1".to_owned(), "a=2".to_owned()];
        let face = params(&["face=plain".to_owned()]).unwrap_err();
        assert!(face.contains("--face plain"), "{face}");
        assert_eq!(params(&twice).unwrap_err(), "--param a is given twice");
    }
}
