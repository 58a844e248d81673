//! What a cluster on this machine is begun with.

use crate::modes::{DurabilityMode, params};
use crate::protocol_flags::ProtocolFlags;
use clap::Args;
use quorate_protocols::Code;
use std::collections::BTreeMap;

/// The options about a cluster's replicas and how they agree.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClusterOptions {
    /// How the replicas agree: rabia, multi-paxos, raft, rs-paxos, racos, chora or nezha [default for a new cluster:
    /// rabia]
    #[arg(long, env = "QUORATE_PROTOCOL", value_name = "NAME")]
    pub(super) protocol: Option<String>,

    /// Number of replicas [default for a new cluster: 3]
    #[arg(long, env = "QUORATE_REPLICAS", value_name = "N")]
    pub(super) replicas: Option<u16>,

    /// Fragments of each value, one for each replica, and how many of them rebuild it, as in 5,3
    /// [for rs-paxos and racos]
    #[arg(long, env = "QUORATE_CODE", value_name = "N,K")]
    pub(super) code: Option<Code>,

    /// First port: replica i serves clients on PORT + 2(i-1) and its peers on the port after that
    /// [default for a new cluster: 2379, with the Redis face 6379]
    #[arg(long, env = "QUORATE_PORT", value_name = "PORT")]
    pub(super) port: Option<u16>,

    /// What survives a crash of all replicas [default for a new cluster: disk]
    #[arg(long, env = "QUORATE_DURABILITY", value_name = "MODE")]
    pub(super) durability: Option<DurabilityMode>,

    /// A parameter of the protocol; may be repeated
    #[arg(
        long,
        env = "QUORATE_PARAM",
        value_name = "NAME=VALUE",
        value_delimiter = ','
    )]
    pub(super) param: Vec<String>,

    #[command(flatten)]
    pub(super) protocol_flags: ProtocolFlags,

    /// The protocol may be a yardstick, one that is there to be compared with and not for data that you want to keep
    #[arg(long, env = "QUORATE_ALLOW_MEASUREMENT_PROTOCOL")]
    pub(super) allow_measurement_protocol: bool,
}

impl ClusterOptions {
    /// How the replicas agree, if it is said.
    pub(crate) fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// What survives a crash of all replicas, if it is said.
    pub(crate) fn durability(&self) -> Option<DurabilityMode> {
        self.durability
    }

    /// Finds what is said about a whole cluster on this machine where one member of a cluster is meant.
    pub(crate) fn check_for_member(&self) -> Result<(), String> {
        let said = [
            ("replicas", self.replicas.is_some()),
            ("port", self.port.is_some()),
        ];
        match said.into_iter().find(|(_, is_said)| *is_said) {
            None => Ok(()),
            Some((flag, _)) => Err(format!(
                "--{flag} is about a whole cluster on this machine, and --name begins one member: --initial-cluster \
                 says who and where the others are"
            )),
        }
    }

    /// The parameters that are asked for, for so many replicas that agree by a protocol.
    pub(crate) fn params(
        &self,
        protocol: &str,
        replicas: u16,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut params = params(&self.param)?;
        if let Some(code) = self.code {
            code.add_to(usize::from(replicas), &mut params)?;
        }
        self.protocol_flags.add_to(Some(protocol), &mut params)?;
        Ok(params)
    }
}
