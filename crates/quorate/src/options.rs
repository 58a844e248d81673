//! What a node is told before it starts.

use quorate_core::{Catalogue, ClusterId, Durability as CoreDurability, Incarnation, ReplicaId};
use quorate_protocols::{ProtocolSet, Registered};
use quorate_server::{ClockSource, Rings};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_128;

/// The protocol by which replicas agree. `docs/guide/choosing.md` of the repository compares them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// A leader orders commands.
    #[default]
    MultiPaxos,
    /// A leader orders commands, as in Raft; see the guide for where it differs from the former.
    Raft,
    /// No leader; any order is agreed on by votes that a common coin breaks.
    Rabia,
    /// A leader, and long commands in coded fragments.
    RsPaxos,
    /// Rabia with long commands in coded fragments.
    Racos,
    /// A leader and many entries under way, for small commands in large numbers.
    Chora,
    /// Requests carry deadlines by synchronised clocks; one round trip in the usual case.
    Nezha,
}

impl Protocol {
    /// The protocol's name, as on the command line of `quorate`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Protocol::MultiPaxos => "multi-paxos",
            Protocol::Raft => "raft",
            Protocol::Rabia => "rabia",
            Protocol::RsPaxos => "rs-paxos",
            Protocol::Racos => "racos",
            Protocol::Chora => "chora",
            Protocol::Nezha => "nezha",
        }
    }
}

/// What survives a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Whatever was answered is synced to the disks of a quorum.
    #[default]
    Disk,
    /// Nothing is written but who a node is: the state lives while a quorum of nodes does.
    Memory,
}

impl Durability {
    pub(crate) fn core(self) -> CoreDurability {
        match self {
            Durability::Disk => CoreDurability::Disk,
            Durability::Memory => CoreDurability::Memory,
        }
    }
}

/// How nodes reach each other.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// Connections to the members' addresses.
    #[default]
    Tcp,
    /// Connections, and datagrams to the same ports for short messages.
    Udp,
    /// Memory: all nodes of the cluster are in this process and have clones of these rings.
    InProcess(Rings),
}

/// The certificates of a node, for itself and for what it dials; all paths lead to PEM.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tls {
    /// The certificate, with those that lead to an authority.
    pub certificate: PathBuf,
    /// The certificate's key.
    pub key: PathBuf,
    /// The authorities that the other nodes' certificates must be of.
    pub authorities: PathBuf,
}

/// The bound on the error of the machine's clock, which Nezha orders by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Clock {
    /// The kernel knows it, from the daemon that keeps the clock in step.
    #[default]
    Kernel,
    /// The program vouches for it.
    Within(Duration),
}

impl Clock {
    pub(crate) fn source(self) -> ClockSource {
        match self {
            Clock::Kernel => ClockSource::Kernel,
            Clock::Within(error) => {
                ClockSource::Declared(u64::try_from(error.as_nanos()).unwrap_or(u64::MAX))
            }
        }
    }
}

/// How fresh the state has to be that a query is answered from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Freshness {
    /// Everything that completed before the query began is in it.
    #[default]
    Linearizable,
    /// The state of this node, which may be behind; it needs no other node.
    Local,
}

/// What a builder of nodes was told.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) cluster: String,
    pub(crate) me: ReplicaId,
    pub(crate) members: BTreeMap<ReplicaId, String>,
    pub(crate) listen: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) protocol: &'static str,
    /// Whether it is the program's own.
    pub(crate) has_own_protocol: bool,
    /// The protocols that the node has.
    pub(crate) catalogue: &'static dyn Catalogue,
    pub(crate) params: BTreeMap<String, String>,
    pub(crate) durability: Durability,
    pub(crate) transport: Transport,
    pub(crate) joins: bool,
    pub(crate) tls: Option<Tls>,
    pub(crate) secret: Option<PathBuf>,
    pub(crate) clock: Clock,
    pub(crate) is_threaded: bool,
    pub(crate) timeout: Duration,
    /// Where all peers are in this process: what their incarnations come from, if the cluster may be new.
    pub(crate) begins: Option<Incarnation>,
}

/// How long a request may take, unless told.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(4);

impl Options {
    pub(crate) fn new(cluster: &str, id: u16) -> Options {
        Options {
            cluster: cluster.to_owned(),
            me: ReplicaId(id),
            members: BTreeMap::new(),
            listen: None,
            folder: PathBuf::from(format!("{cluster}-{id}")),
            protocol: Protocol::default().name(),
            has_own_protocol: false,
            catalogue: Registered::CATALOGUE,
            params: BTreeMap::new(),
            durability: Durability::default(),
            transport: Transport::default(),
            joins: false,
            tls: None,
            secret: None,
            clock: Clock::default(),
            is_threaded: true,
            timeout: TIMEOUT,
            begins: Some(Incarnation::default()),
        }
    }

    pub(crate) fn cluster_id(&self) -> ClusterId {
        cluster_id(&self.cluster)
    }

    /// All members but this one, and where they are.
    pub(crate) fn others(&self) -> Vec<(ReplicaId, String)> {
        let others = self.members.iter().filter(|(id, _)| **id != self.me);
        others.map(|(id, at)| (*id, at.clone())).collect()
    }
}

/// The id of the cluster with a name.
pub(crate) fn cluster_id(name: &str) -> ClusterId {
    ClusterId(xxh3_128(format!("embedded\n{name}").as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_protocol_has_a_name_here() {
        let here = [
            Protocol::MultiPaxos,
            Protocol::Raft,
            Protocol::Rabia,
            Protocol::RsPaxos,
            Protocol::Racos,
            Protocol::Chora,
            Protocol::Nezha,
        ];
        let mut here = here.map(Protocol::name).to_vec();
        let mut known = quorate_protocols::names();
        here.sort_unstable();
        known.sort_unstable();
        assert_eq!(here, known);
    }
}
