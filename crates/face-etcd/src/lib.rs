//! The etcd v3 face: gRPC services and plain HTTP routes on one port.
//!
//! A request is checked here, in etcd's order and with etcd's texts, so that nonsense never enters
//! the log. A write then becomes a command body ([`quorate_etcd_store::command`]) and goes through the
//! [`Handle`](quorate_server::Handle); its response comes back from the store already encoded, and
//! only the header, which names this member, is put in front of it. A read becomes a
//! [`Query`](quorate_etcd_store::Query).
//!
//! What differs from etcd, and why: `docs/reference/etcd-compatibility.md`.

mod auth;
mod authority;
mod call_counts;
mod cluster;
mod codec;
mod compactor;
mod election;
mod face;
mod fast_path;
#[cfg(test)]
mod fuzz;
mod gateway;
mod gather;
mod health;
mod json;
mod kv;
mod leader;
mod lease;
mod lock;
mod maintenance;
mod member_rules;
mod metrics;
mod ordered;
mod plain_http;
mod queue;
mod quota;
mod range_stream;
mod reply;
mod response_body;
mod room;
mod serve;
mod slices;
mod snapshot;
mod users;
mod watch;
mod web_access;

pub use auth::{JwtOptions, JwtSigner, TokenKind, UserOptions};
pub use compactor::Retention;
pub use face::{Limits, VERSION};
pub use gateway::serve_gateway;
pub use quorate_face_common::Metrics;
pub use serve::serve;
pub use web_access::{AllowList, WebAccess};

/// Clients of the services, as tonic generates them.
pub mod client {
    use tonic::Request;
    use tonic::metadata::MetadataValue;

    /// The metadata that asks for reasons in words.
    pub(crate) const REASONS: &str = "quorate-reasons";

    /// Asks for a change of members with reasons in words, and by what the group itself demands instead of etcd's
    /// rules.
    pub fn in_words<T>(message: T) -> Request<T> {
        let mut request = Request::new(message);
        let words = MetadataValue::from_static("words");
        request.metadata_mut().insert(REASONS, words);
        request
    }

    #[allow(unreachable_pub)]
    mod generated {
        pub(super) mod auth {
            include!(concat!(env!("OUT_DIR"), "/client/etcdserverpb.Auth.rs"));
        }
        pub(super) mod kv {
            include!(concat!(env!("OUT_DIR"), "/client/etcdserverpb.KV.rs"));
        }
        pub(super) mod watch {
            include!(concat!(env!("OUT_DIR"), "/client/etcdserverpb.Watch.rs"));
        }
        pub(super) mod lease {
            include!(concat!(env!("OUT_DIR"), "/client/etcdserverpb.Lease.rs"));
        }
        pub(super) mod cluster {
            include!(concat!(env!("OUT_DIR"), "/client/etcdserverpb.Cluster.rs"));
        }
        pub(super) mod maintenance {
            include!(concat!(
                env!("OUT_DIR"),
                "/client/etcdserverpb.Maintenance.rs"
            ));
        }
        pub(super) mod lock {
            include!(concat!(env!("OUT_DIR"), "/client/v3lockpb.Lock.rs"));
        }
        pub(super) mod election {
            include!(concat!(env!("OUT_DIR"), "/client/v3electionpb.Election.rs"));
        }
    }

    pub use generated::auth::auth_client::AuthClient;
    pub use generated::cluster::cluster_client::ClusterClient;
    pub use generated::election::election_client::ElectionClient;
    pub use generated::kv::k_v_client::KVClient as KvClient;
    pub use generated::lease::lease_client::LeaseClient;
    pub use generated::lock::lock_client::LockClient;
    pub use generated::maintenance::maintenance_client::MaintenanceClient;
    pub use generated::watch::watch_client::WatchClient;
}

// What is generated is public in its own modules, whoever can reach those.
#[allow(unreachable_pub)]
mod server {
    mod generated {
        pub(super) mod auth {
            include!(concat!(env!("OUT_DIR"), "/server/etcdserverpb.Auth.rs"));
        }
        pub(super) mod kv {
            include!(concat!(env!("OUT_DIR"), "/server/etcdserverpb.KV.rs"));
        }
        pub(super) mod watch {
            include!(concat!(env!("OUT_DIR"), "/server/etcdserverpb.Watch.rs"));
        }
        pub(super) mod lease {
            include!(concat!(env!("OUT_DIR"), "/server/etcdserverpb.Lease.rs"));
        }
        pub(super) mod cluster {
            include!(concat!(env!("OUT_DIR"), "/server/etcdserverpb.Cluster.rs"));
        }
        pub(super) mod maintenance {
            include!(concat!(
                env!("OUT_DIR"),
                "/server/etcdserverpb.Maintenance.rs"
            ));
        }
        pub(super) mod lock {
            include!(concat!(env!("OUT_DIR"), "/server/v3lockpb.Lock.rs"));
        }
        pub(super) mod election {
            include!(concat!(env!("OUT_DIR"), "/server/v3electionpb.Election.rs"));
        }
    }

    pub(crate) use generated::auth::auth_server::{Auth, AuthServer};
    pub(crate) use generated::cluster::cluster_server::{Cluster, ClusterServer};
    pub(crate) use generated::election::election_server::{Election, ElectionServer};
    pub(crate) use generated::kv::k_v_server::{KV as Kv, KVServer as KvServer};
    pub(crate) use generated::lease::lease_server::{Lease, LeaseServer};
    pub(crate) use generated::lock::lock_server::{Lock, LockServer};
    pub(crate) use generated::maintenance::maintenance_server::{Maintenance, MaintenanceServer};
    pub(crate) use generated::watch::watch_server::{Watch, WatchServer};
}
