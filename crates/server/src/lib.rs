//! The outer ring: the only one that knows threads, sockets, files and clocks.
//!
//! [`run`] drives one replica, on one thread or on several ([`Layout`]): on one, faces, core and log take turns, and what
//! arrives while the disk works is the next batch. [`embed`] puts one into another program, or all of a cluster, joined
//! by [`Rings`]. The application is of any type, and the core knows none: the server knows no client's protocol.

#![allow(
    clippy::disallowed_methods,
    reason = "the outer ring knows clocks and threads"
)]

mod alarms;
mod any_application;
mod auto_shrink;
mod background;
mod budget;
mod clock;
mod core;
mod descriptors;
mod disk;
mod divergence;
mod error;
mod export;
mod folder;
mod force;
mod found;
#[cfg(test)]
mod fuzz;
mod gateway;
mod group;
mod handle;
mod join;
mod leader;
mod log_limit;
mod log_place;
mod meta;
mod metrics;
mod mirrored_file;
mod offline;
mod peer;
mod polling;
mod port;
mod process;
mod quorum;
mod reachability;
mod replies;
mod run;
mod security;
mod self_report;
mod slow;
mod snapshots;
mod status;
mod stop_signal;
mod test_source;
mod timed_app;
mod tls;
mod transient;
mod workers;

pub use any_application::{AnyValue, Embeddable, answer_any};
pub use auto_shrink::Reaction;
pub use background::in_background;
pub use budget::{Account, Budget, CLIENT_MEMORY, Charge, Exhausted};
pub use clock::{ClockError, ClockSource};
pub use descriptors::{client_connections_max, raise_descriptor_limit};
pub use disk::DiskError;
pub use divergence::Difference;
pub use error::ServerError;
pub use export::{ExportStep, export};
pub use folder::{Expected, Folder, FolderError, bootstrap, holds_data, read_meta};
pub use force::{Forced, force_new_cluster};
pub use found::found_cluster;
pub use gateway::{
    GatewayContext, GatewayOptions, LinkedGateway, ReachedCluster, ReadyGateway, Upstream, link,
    reach, run_gateway,
};
pub use group::{ChangeError, GroupChange};
pub use handle::{
    Consistency, Failure, Handle, MemberInfo, PayloadThreshold, ReplicaHandle, Request, first_url,
};
pub use join::{Join, JoinError, Joined, Numbers, Rejoin, find_numbers, join, join_unless};
pub use log_limit::LogLimit;
pub use log_place::place_log;
pub use meta::{META_FORMAT, Meta, MetaError, ReplicaState};
pub use metrics::{ConnectionCounts, Metrics, PeerMetrics};
pub use peer::rings::Rings;
pub use peer::tunnels::{Tunnel, TunnelDialer, Tunnels};
pub use polling::{Polling, TooManyPollers};
pub use port::{Port, SocketFile};
pub use process::ProcessFigures;
pub use quorate_host::epochs::{Alarm, AlarmKind};
pub use quorate_host::{
    ALARM_LEVEL, PayloadGone, RAFT_LEVEL, REDIS_IMPORT_LEVEL, REDIS_STORE_IMPORT_LEVEL,
    REDIS_USERS_LEVEL, SupportedVersions, USERS_LEVEL,
};
pub use quorum::Quorum;
pub use run::{
    Embedded, FaceContext, Layout, PeerLinks, SLOW_REQUEST, ServerConfig, Serving, embed,
    embed_with, run,
};
pub use security::{
    ClientListeners, ClientPorts, Connection, Door, Listener, bind, bind_datagrams,
};
pub use status::{
    ClockPage, EpochPage, MemberPage, MembersPage, ProtocolPage, RaisedAlarm, Role, Status,
    StatusPage,
};
pub use stop_signal::StopSignal;
pub use test_source::TestSource;
pub use tls::{PeerSecret, PeerSecurity, PeerTls, PortTls, expiry_warnings};
