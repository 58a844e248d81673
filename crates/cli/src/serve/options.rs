//! The options of a replica, as flags, environment variables and keys of a file.

use crate::connection_options::ConnectionOptions;
use crate::etcd_options::EtcdOptions;
use crate::face::FaceName;
use crate::logging::LogOptions;
use crate::modes::{DurabilityMode, LayoutMode, PeerTransport, ReactMode, RejoinMode};
use crate::polling::PollingOptions;
use crate::protocol_flags::ProtocolFlags;
use crate::recode::RecodeOptions;
use crate::redis_options::RedisOptions;
use crate::security::SecurityOptions;
use crate::snapshots::SnapshotOptions;
use crate::users::UsersOptions;
use clap::{Arg, Args, CommandFactory, Parser};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Every option is optional here: defaults are filled in after flags, environment and file were
/// laid over each other. A flag has the name of the file's key, and of the environment variable
/// in capitals behind `QUORATE_`. Of a flag that is there twice the last one counts, so that what
/// `quorate up --server-arg` adds can be another value.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[command(args_override_self = true)]
pub(crate) struct ServeOptions {
    /// Number of this replica, from 1 [default: 1]
    #[arg(long, env = "QUORATE_ID")]
    pub(super) id: Option<u16>,

    /// Name of this replica, for people [default: replica-<ID>]
    #[arg(long, env = "QUORATE_NAME")]
    pub(super) name: Option<String>,

    /// Folder of this replica's data [default: quorate-data/<ID>]
    #[arg(long, env = "QUORATE_DATA_DIR", value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,

    /// Folder of the log, for a disk of its own; the data folder has a link to it [default: within the data folder]
    #[arg(long, env = "QUORATE_WAL_DIR", value_name = "DIR")]
    pub(super) wal_dir: Option<PathBuf>,

    /// Where to listen for clients, one URL or several with commas [default: http://127.0.0.1:2379; with --face redis
    /// http://127.0.0.1:6379]
    #[arg(long, env = "QUORATE_LISTEN_CLIENT_URLS", value_name = "URLS")]
    pub(super) listen_client_urls: Option<String>,

    /// Where to listen for plain HTTP alone; with it, --listen-client-urls takes gRPC calls only [default: none]
    #[arg(long, env = "QUORATE_LISTEN_CLIENT_HTTP_URLS", value_name = "URLS")]
    pub(super) listen_client_http_urls: Option<String>,

    /// Where to serve /metrics, /health, /livez and /readyz, and nothing else, as well [default: none]
    #[arg(long, env = "QUORATE_LISTEN_METRICS_URLS", value_name = "URLS")]
    pub(super) listen_metrics_urls: Option<String>,

    /// Where to listen for the other replicas, one URL or several with commas [default: http://127.0.0.1:2380]
    #[arg(long, env = "QUORATE_LISTEN_PEER_URLS", value_name = "URLS")]
    pub(super) listen_peer_urls: Option<String>,

    /// Where clients reach this replica (URL or URL,URL), or all as 1=URL,2=URL; with the Redis face, where operators
    /// reach it [default: where it listens for them]
    #[arg(long, env = "QUORATE_ADVERTISE_CLIENT_URLS", value_name = "URLS")]
    pub(super) advertise_client_urls: Option<String>,

    /// All replicas with the URLs they reach each other at: 1=http://10.0.0.1:2380,2=... [default:
    /// this one alone]
    #[arg(long, env = "QUORATE_INITIAL_CLUSTER", value_name = "LIST")]
    pub(super) initial_cluster: Option<String>,

    /// What an empty data folder means: `new` lets all replicas begin a cluster together, if none of
    /// them has begun before; otherwise this one comes back from the others [default: existing]
    #[arg(
        long,
        env = "QUORATE_INITIAL_CLUSTER_STATE",
        value_name = "new|existing"
    )]
    pub(super) initial_cluster_state: Option<String>,

    /// Whether a replica that was added to a running cluster stays a learner until somebody promotes it;
    /// otherwise it becomes a member once it has caught up [default: false]
    #[arg(
        long,
        env = "QUORATE_LEARNER",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub(super) learner: Option<bool>,

    /// A text that no other cluster has: the cluster's identity is made from it [default:
    /// quorate-cluster]
    #[arg(long, env = "QUORATE_INITIAL_CLUSTER_TOKEN", value_name = "TEXT")]
    pub(super) initial_cluster_token: Option<String>,

    /// The cluster the data must belong to, for a check
    #[arg(long, env = "QUORATE_CLUSTER_ID", value_name = "HEX")]
    pub(super) cluster_id: Option<String>,

    /// What clients speak: etcd's API, keys and values over plain HTTP, or Redis's protocol; a cluster keeps what it
    /// was begun with [default for a new cluster: etcd]
    #[arg(long, env = "QUORATE_FACE", value_name = "NAME")]
    pub(super) face: Option<FaceName>,

    /// How the replicas agree: rabia, multi-paxos, raft, rs-paxos, racos, chora or nezha [default for a new cluster:
    /// rabia]
    #[arg(long, env = "QUORATE_PROTOCOL", value_name = "NAME")]
    pub(super) protocol: Option<String>,

    /// Whether the protocol of a new cluster may be a yardstick, one that is there to be compared with and not for data
    /// that you want to keep [default: false]
    #[arg(
        long,
        env = "QUORATE_ALLOW_MEASUREMENT_PROTOCOL",
        value_name = "BOOL",
        num_args = 0..=1,
        default_missing_value = "true"
    )]
    pub(super) allow_measurement_protocol: Option<bool>,

    /// Fragments of each value, one for each replica, and how many of them rebuild it, as in 5,3
    /// [for rs-paxos and racos]
    #[arg(long, env = "QUORATE_CODE", value_name = "N,K")]
    pub(super) code: Option<String>,

    /// What survives a crash of all replicas [default for a new cluster: disk]
    #[arg(long, env = "QUORATE_DURABILITY", value_name = "MODE")]
    pub(super) durability: Option<DurabilityMode>,

    /// A parameter of the protocol, equal on all replicas; may be repeated
    #[arg(
        long,
        env = "QUORATE_PARAM",
        value_name = "NAME=VALUE",
        value_delimiter = ','
    )]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) param: Vec<String>,

    /// Largest request of a client, in bytes [default: 1572864]
    #[arg(long, env = "QUORATE_MAX_REQUEST_BYTES", value_name = "BYTES")]
    pub(super) max_request_bytes: Option<usize>,

    /// Most operations in one transaction [default: 128]
    #[arg(long, env = "QUORATE_MAX_TXN_OPS", value_name = "COUNT")]
    pub(super) max_txn_ops: Option<usize>,

    /// Most connections of clients at a time; beyond, the longest idle is closed for a new one [default: the limit of
    /// open files less 512, at most 10000]
    #[arg(long, env = "QUORATE_MAX_CLIENT_CONNECTIONS", value_name = "COUNT")]
    pub(super) max_client_connections: Option<usize>,

    /// How long a request may wait for a quorum, in milliseconds [default: 4000]
    #[arg(long, env = "QUORATE_REQUEST_TIMEOUT_MS", value_name = "MS")]
    pub(super) request_timeout_ms: Option<u64>,

    /// A request that takes at least so long is logged, with its time by place; 0 for none [default: 300ms]
    #[arg(
        long,
        env = "QUORATE_WARNING_UNARY_REQUEST_DURATION",
        value_name = "TIME"
    )]
    pub(super) warning_unary_request_duration: Option<String>,

    /// Most memory for requests that are being received and answers that clients have not taken yet, in bytes; no
    /// connection gets more than three quarters of it. Beyond, requests are refused [default: 268435456]
    #[arg(long, env = "QUORATE_MAX_CLIENT_MEMORY", value_name = "BYTES")]
    pub(super) max_client_memory: Option<usize>,

    /// Bytes of large values kept whole in memory, for those who read them next [default: 268435456]
    #[arg(long, env = "QUORATE_VALUE_CACHE_BYTES", value_name = "BYTES")]
    pub(super) value_cache_bytes: Option<usize>,

    /// What the cluster does by itself when a member cannot be reached: with erasure codes, after a failure
    /// go to one that survives the next (shrink-code); set it on all replicas [default: nothing]
    #[arg(long, env = "QUORATE_REACT", value_name = "POLICY")]
    pub(super) react: Option<ReactMode>,

    /// For how long a member must be out of reach before that, in milliseconds [default: 10000]
    #[arg(long, env = "QUORATE_REACT_AFTER_MS", value_name = "MS")]
    pub(super) react_after_ms: Option<u64>,

    /// How a replica comes back whose data is gone: as a new member in the place of the former (new-member),
    /// or as itself by the protocol's own rule (protocol) [default: new-member]
    #[arg(long, env = "QUORATE_REJOIN", value_name = "WAY")]
    pub(super) rejoin: Option<RejoinMode>,

    /// The newest wire version to speak: an older one keeps the way back open while a cluster is upgraded, one
    /// replica after the other [default: the newest there is]
    #[arg(long, env = "QUORATE_WIRE_VERSION", value_name = "VERSION")]
    pub(super) wire_version: Option<u32>,

    /// Who says how far this machine's clock may be off: the kernel (kernel), as NTP or PTP told it, or you
    /// (declared:ERROR, as in declared:1ms). A wrong clock costs speed, never safety [default: kernel]
    #[arg(long, env = "QUORATE_CLOCK", value_name = "SOURCE")]
    pub(super) clock: Option<String>,

    /// How frames travel to the other replicas: all by TCP (tcp), or short ones by UDP where datagrams arrive (udp), at
    /// the UDP port of the same number; set it on all replicas. Datagrams are not encrypted [default: tcp]
    #[arg(long, env = "QUORATE_PEER_TRANSPORT", value_name = "TRANSPORT")]
    pub(super) peer_transport: Option<PeerTransport>,

    /// What runs on which thread [default: auto]
    #[arg(long, env = "QUORATE_LAYOUT", value_name = "LAYOUT")]
    pub(super) layout: Option<LayoutMode>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) security: SecurityOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) polling: PollingOptions,

    /// Cores, by number, for the threads of the protocol, of Tx, of Rx and of clients, in this order; those that are
    /// not named run where the system wants them
    #[arg(long, env = "QUORATE_CORES", value_name = "LIST")]
    pub(super) cores: Option<String>,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) protocol_flags: ProtocolFlags,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) snapshots: SnapshotOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) recode: RecodeOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) etcd: EtcdOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) redis: RedisOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) connections: ConnectionOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) users: UsersOptions,

    #[command(flatten)]
    #[serde(flatten)]
    pub(super) log: LogOptions,

    /// A TOML file with any of these options; flags and environment win over it
    #[arg(long, env = "QUORATE_CONFIG_FILE", value_name = "FILE")]
    #[serde(skip)]
    pub(super) config_file: Option<PathBuf>,

    /// End when the process with this id, which started this one, ends.
    #[arg(long, hide = true, value_name = "PID")]
    #[serde(skip)]
    pub(super) exit_with_parent: Option<u32>,

    /// Be told of clock and disk by this file, in tests.
    #[arg(long, hide = true, value_name = "FILE")]
    #[serde(skip)]
    pub(super) test_source: Option<PathBuf>,
}

impl ServeOptions {
    /// Lays these options over those of a file.
    pub(crate) fn set_config_file(&mut self, path: &Path) {
        self.config_file = Some(path.to_owned());
    }
}

/// The environment variables that are options.
pub(super) fn variables() -> Vec<String> {
    of_arguments(|argument| argument.get_env()?.to_str().map(str::to_owned))
}

/// The keys that a configuration file may have: the names of flags that have a variable, but for the one that names
/// the file.
pub(super) fn keys() -> Vec<String> {
    of_arguments(|argument| {
        argument.get_env()?;
        let key = argument.get_long()?;
        (key != "config-file").then(|| key.to_owned())
    })
}

/// What is found of each option.
fn of_arguments(found: impl Fn(&Arg) -> Option<String>) -> Vec<String> {
    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        _options: ServeOptions,
    }
    let command = Alone::command();
    command.get_arguments().filter_map(found).collect()
}
