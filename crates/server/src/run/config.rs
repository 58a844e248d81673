//! What a replica is run with.

use super::{Layout, PeerLinks};
use crate::auto_shrink::Reaction;
use crate::budget::CLIENT_MEMORY;
use crate::clock::ClockSource;
use crate::folder::Folder;
use crate::handle::MemberInfo;
use crate::polling::Polling;
use crate::test_source::TestSource;
use crate::tls::{PeerSecurity, PortTls};
use quorate_core::ReplicaId;
use quorate_host::{Limits, SupportedVersions};
use std::sync::Arc;
use std::time::Duration;

/// Everything a replica is run with.
#[derive(Debug)]
pub struct ServerConfig {
    /// The replica's data folder, locked.
    pub folder: Folder,
    /// How the replica and its peers reach each other: sockets or rings.
    pub peers: PeerLinks,
    /// The members that it was started with, itself included, ascending.
    pub members: Vec<MemberInfo>,
    /// Where the other members' peer ports are: `host:port`, or any name for a member that rings lead to. What the
    /// group knows goes before it.
    pub peer_addresses: Vec<(ReplicaId, String)>,
    /// Whether the replica offers to become a member, when it is none.
    pub volunteers: bool,
    /// The wire versions that the replica speaks.
    pub supported: SupportedVersions,
    /// What this replica has the cluster do when members are gone.
    pub reaction: Reaction,
    /// The bounds on sizes in the host.
    pub limits: Limits,
    /// Requests that may wait between faces and core.
    pub queue_max: usize,
    /// The longest time a request may wait for its answer.
    pub request_timeout: Duration,
    /// A request that takes at least so long is told to the log.
    pub slow_request: Duration,
    /// The most memory for requests being received and answers not yet taken, in bytes.
    pub client_memory: usize,
    /// What connections between replicas begin with.
    pub peer_security: PeerSecurity,
    /// What connections of clients begin with, if they are to be encrypted.
    pub client_tls: Option<Arc<PortTls>>,
    /// The threads that the parts of a replica run on.
    pub layout: Layout,
    /// The cores that threads run on, and whether they sleep.
    pub polling: Polling,
    /// The source of the bound on the clock's error.
    pub clock: ClockSource,
    /// Faults of clock and disk that a test asks for.
    pub test_source: TestSource,
}

/// Requests that may wait between a client and a core in its process, and how long each may.
pub(crate) const QUEUE_MAX: usize = 32 << 10;
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(4);

/// A request that takes at least so long is told to the log, unless somebody says otherwise: as in etcd.
pub const SLOW_REQUEST: Duration = Duration::from_millis(300);

impl ServerConfig {
    /// For a replica in the process of its client ([`crate::embed`]), with a thread of its own, and everything else
    /// as a server has it.
    #[must_use]
    pub fn embedded(
        folder: Folder,
        peers: PeerLinks,
        peer_addresses: Vec<(ReplicaId, String)>,
    ) -> ServerConfig {
        ServerConfig {
            folder,
            peers,
            members: Vec::new(),
            peer_addresses,
            volunteers: true,
            supported: SupportedVersions::SHIPPED,
            reaction: Reaction::default(),
            limits: Limits::default(),
            queue_max: QUEUE_MAX,
            request_timeout: REQUEST_TIMEOUT,
            slow_request: SLOW_REQUEST,
            client_memory: CLIENT_MEMORY,
            peer_security: PeerSecurity::default(),
            client_tls: None,
            layout: Layout::Threaded,
            polling: Polling::default(),
            clock: ClockSource::default(),
            test_source: TestSource::default(),
        }
    }
}
