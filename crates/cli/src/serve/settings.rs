//! Options with their defaults filled in and their contradictions found.

#[cfg(test)]
mod tests;

use super::listen::ListenAddresses;
use super::member_urls::{
    first, members, number_of_name, peer_addresses, port_urls, reachable, url_list,
};
use super::options::ServeOptions;
use crate::address::{host, host_port, host_ports, is_https};
use crate::compaction::duration;
use crate::connection_options::ConnectionSettings;
use crate::etcd_options::EtcdSettings;
use crate::face::FaceName;
use crate::logging::LogSettings;
use crate::modes::{DurabilityMode, LayoutMode, PeerTransport, ReactMode, params};
use crate::new_cluster::NewCluster;
use crate::polling;
use crate::redis_options::RedisSettings;
use crate::security::SecuritySettings;
use crate::snapshots::SnapshotSettings;
use quorate_core::{Catalogue, ClusterId, Durability, Incarnation, PAYLOAD_BYTES_MAX, ReplicaId};
use quorate_face_etcd::UserOptions;
use quorate_host::Limits;
use quorate_protocols::{Code, Registered, usable};
use quorate_server::{
    CLIENT_MEMORY, ClockSource, Expected, Layout, MemberInfo, Meta, Polling, Reaction, Rejoin,
    SLOW_REQUEST, SupportedVersions, TestSource,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLIENT_URL: &str = "http://127.0.0.1:2379";
/// Where clients of Redis look for a server.
const REDIS_URL: &str = "http://127.0.0.1:6379";
/// Where the commands of this program look for a replica.
const ADMIN_URL: &str = CLIENT_URL;
const PEER_URL: &str = "http://127.0.0.1:2380";
const TOKEN: &str = "quorate-cluster";
const PROTOCOL: &str = "rabia";
/// etcd's own default.
const REQUEST_BYTES: usize = 1_572_864;
/// The largest request in bytes: one value of the greatest length, and room for what is around it.
const REQUEST_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (1 << 20);
/// Room for some requests of the usual greatest length.
const CLIENT_MEMORY_MIN: usize = 16 << 20;
pub(crate) const TXN_OPS: usize = 128;
/// Less than the five seconds after which etcdctl gives up: its user gets an answer.
pub(crate) const REQUEST_TIMEOUT_MS: u64 = 4_000;
/// Longer than a restart of a process takes.
const REACT_AFTER_MS: u64 = 10_000;
/// The longest time before a reaction, in ms: a week.
const REACT_AFTER_MS_MAX: u64 = 7 * 24 * 3600 * 1000;

/// Whether an empty data folder may be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClusterState {
    New,
    Existing,
}

/// Everything a replica is started with.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) id: ReplicaId,
    pub(super) name: String,
    pub(crate) data_dir: PathBuf,
    /// The folder of the log, if it is not to be within the data folder.
    pub(crate) wal_dir: Option<PathBuf>,
    pub(crate) listen: ListenAddresses,
    /// How both ports are secured.
    pub(crate) security: SecuritySettings,
    pub(super) state: ClusterState,
    pub(super) members: Vec<MemberInfo>,
    pub(crate) peer_addresses: Vec<(ReplicaId, String)>,
    /// The address at which the others reach this replica: `host:port`.
    pub(crate) own_address: String,
    pub(super) stays_learner: bool,
    token: String,
    /// These are `None` or empty unless asked for: a folder with data knows better.
    pub(super) cluster: Option<ClusterId>,
    pub(crate) face: Option<FaceName>,
    pub(crate) protocol: Option<String>,
    pub(crate) durability: Option<DurabilityMode>,
    pub(super) params: BTreeMap<String, String>,
    pub(super) max_request_bytes: usize,
    pub(super) max_txn_ops: usize,
    /// `None` for what the limit of open files leaves room for.
    pub(crate) max_client_connections: Option<usize>,
    pub(super) request_timeout: Duration,
    /// A request that takes at least so long is logged.
    pub(super) slow_request: Duration,
    pub(super) client_memory: usize,
    pub(super) value_cache_bytes: usize,
    pub(super) reaction: Reaction,
    pub(super) rejoin: Rejoin,
    pub(super) supported: SupportedVersions,
    pub(crate) peer_transport: PeerTransport,
    pub(super) layout: Layout,
    pub(super) polling: Polling,
    pub(super) snapshots: SnapshotSettings,
    pub(super) recode_rate: u64,
    pub(super) etcd: EtcdSettings,
    pub(crate) redis: RedisSettings,
    pub(super) connections: ConnectionSettings,
    pub(super) users: UserOptions,
    pub(super) log: LogSettings,
    pub(crate) clock: ClockSource,
    pub(super) test_source: TestSource,
}

impl Settings {
    /// Fills in defaults. The error says which option is wrong and what would be right.
    pub(super) fn resolve(options: ServeOptions) -> Result<Settings, String> {
        let of_name = options.name.as_deref().and_then(number_of_name);
        let id = ReplicaId(options.id.or(of_name).unwrap_or(1));
        if id.0 == 0 {
            return Err("--id 0: replicas are numbered from 1".to_owned());
        }
        let (listen, [client_url, peer_url, asked_url]) = listen(&options)?;
        let cluster_list = options
            .initial_cluster
            .unwrap_or_else(|| format!("{id}={}", first(&peer_url)));
        let own = options.name.as_deref().map(|name| (name, id));
        let urls = url_list("initial-cluster", &cluster_list, own)?;
        if !urls.contains_key(&id) {
            return Err(format!(
                "--initial-cluster {cluster_list:?} does not list --id {id}"
            ));
        }
        let state = state(options.initial_cluster_state.as_deref())?;
        check_new(state, options.cluster_id.as_deref())?;
        let protocol = options.protocol;
        let may_measure = options.allow_measurement_protocol.unwrap_or(false);
        let supported = supported(options.wire_version, protocol.as_deref(), may_measure)?;
        let new = (state == ClusterState::New).then_some(PROTOCOL);
        let mut params = coded(options.code.as_deref(), urls.len(), params(&options.param)?)?;
        // A folder with data knows its protocol, and its parameters are held against these.
        (options.protocol_flags).add_to(protocol.as_deref().or(new), &mut params)?;
        let name = options.name.unwrap_or_else(|| format!("replica-{id}"));
        let advertised = match options.advertise_client_urls {
            Some(advertised) => advertised,
            None => reachable(first(&asked_url), &urls[&id])?,
        };
        let transport = options.peer_transport.unwrap_or_default();
        let ports = port_urls(&client_url, &advertised, &peer_url, &urls[&id]);
        let security = options.security.resolve(ports, urls.values(), transport)?;
        // Whoever starts several replicas on one machine says so.
        let layout = options.layout.unwrap_or(LayoutMode::Auto).resolve(1);
        let cores = polling::cores(options.cores.as_deref())?;
        Ok(Settings {
            polling: options.polling.resolve(layout, 1, cores)?,
            layout,
            wal_dir: options.wal_dir,
            data_dir: options
                .data_dir
                .unwrap_or_else(|| format!("quorate-data/{id}").into()),
            listen,
            members: members(id, &name, &urls, &advertised)?,
            peer_addresses: peer_addresses(id, &urls)?,
            own_address: host_port("initial-cluster", &urls[&id])?,
            stays_learner: options.learner.unwrap_or(false),
            state,
            token: options
                .initial_cluster_token
                .unwrap_or_else(|| TOKEN.to_owned()),
            cluster: options.cluster_id.as_deref().map(cluster_id).transpose()?,
            face: options.face,
            protocol,
            durability: options.durability,
            params,
            max_request_bytes: request_bytes(options.max_request_bytes)?,
            max_txn_ops: options.max_txn_ops.unwrap_or(TXN_OPS),
            max_client_connections: options.max_client_connections,
            request_timeout: request_timeout(options.request_timeout_ms),
            slow_request: slow_request(options.warning_unary_request_duration.as_deref())?,
            client_memory: client_memory(options.max_client_memory)?,
            value_cache_bytes: options
                .value_cache_bytes
                .unwrap_or(Limits::default().payload_cache_bytes_max),
            reaction: reaction(options.react, options.react_after_ms)?,
            rejoin: options.rejoin.map_or_else(Rejoin::default, Rejoin::from),
            supported,
            peer_transport: transport,
            security,
            snapshots: options.snapshots.resolve()?,
            recode_rate: options.recode.resolve()?,
            etcd: options.etcd.resolve()?,
            redis: options.redis.resolve()?,
            connections: options.connections.resolve()?,
            users: options.users.resolve()?,
            log: options.log.resolve(),
            clock: clock(options.clock.as_deref())?,
            test_source: test_source(options.test_source.as_deref())?,
            id,
            name,
        })
    }

    /// What the data must turn out to be, as far as that was asked for.
    pub(crate) fn expected(&self) -> Expected {
        Expected {
            replica: self.id,
            cluster: self.cluster,
            protocol: self.protocol.clone(),
            durability: self.durability.map(Into::into),
            params: (!self.params.is_empty()).then(|| self.new_cluster().params),
        }
    }

    /// Whether an empty data folder may be begun.
    pub(crate) fn is_new(&self) -> bool {
        self.state == ClusterState::New
    }

    /// The hosts at which clients reach this replica over TLS.
    pub(crate) fn client_hosts(&self) -> Vec<String> {
        let own = self.members.iter().find(|member| member.id == self.id);
        let urls = own.map_or("", |member| member.client_url.as_str());
        let secured: Vec<&str> = urls.split(',').filter(|url| is_https(url)).collect();
        let told = host_ports("advertise-client-urls", &secured.join(",")).unwrap_or_default();
        let hosts = told.iter().map(|at| host(at).to_owned());
        hosts.collect()
    }

    /// Refuses options that the cluster's face does not have.
    pub(crate) fn check_face(&self, face: FaceName) -> Result<(), String> {
        if face != FaceName::Etcd && self.etcd.retention.is_some() {
            let name = face.name();
            return Err(format!(
                "--auto-compaction-retention: the {name} face keeps no history to compact"
            ));
        }
        match self.redis.first_given.filter(|_| face != FaceName::Redis) {
            Some(flag) => Err(format!(
                "{flag} is an option of the Redis face (--face redis)"
            )),
            None => Ok(()),
        }
    }

    /// What this replica of a new cluster begins with, in this incarnation.
    pub(crate) fn first_meta(&self, incarnation: Incarnation) -> Meta {
        match self.peer_addresses.is_empty() {
            true => self.new_cluster().meta_alone(self.id, incarnation),
            false => self.new_cluster().joining_meta(self.id, incarnation),
        }
    }

    /// What a new cluster begins with.
    pub(super) fn new_cluster(&self) -> NewCluster {
        let members = self
            .members
            .iter()
            .map(|member| (member.id, member.peer_url.clone()));
        let mut params = self.params.clone();
        let store = self.redis.store.unwrap_or_default();
        self.face.unwrap_or_default().add_to(store, &mut params);
        NewCluster {
            token: self.token.clone(),
            members: members.collect(),
            protocol: self.protocol.clone().unwrap_or_else(|| PROTOCOL.to_owned()),
            durability: self.durability.map_or(Durability::Disk, Into::into),
            params,
        }
    }
}

/// Where to listen, and the URLs for clients, for other replicas, and for those who ask how the replica is.
fn listen(options: &ServeOptions) -> Result<(ListenAddresses, [String; 3]), String> {
    let is_redis = options.face == Some(FaceName::Redis);
    let or = |url: &Option<String>, usual: &str| url.clone().unwrap_or_else(|| usual.to_owned());
    let usual = if is_redis { REDIS_URL } else { CLIENT_URL };
    let client_url = or(&options.listen_client_urls, usual);
    let peer_url = or(&options.listen_peer_urls, PEER_URL);
    let admin_url = options.redis.listen_admin_urls.as_deref();
    let admin_url = admin_url.or(is_redis.then_some(ADMIN_URL));
    let http_url = options.listen_client_http_urls.as_deref();
    let http = match (http_url, admin_url) {
        (Some(_), Some(_)) => {
            let why = "--listen-client-http-urls: the Redis face has --listen-admin-urls for HTTP";
            return Err(why.to_owned());
        }
        (None, Some(_)) => ("listen-admin-urls", admin_url),
        (http_url, None) => ("listen-client-http-urls", http_url),
    };
    let metrics = (
        "listen-metrics-urls",
        options.listen_metrics_urls.as_deref(),
    );
    let addresses = ListenAddresses::resolve(&client_url, &peer_url, [http, metrics])?;
    let asked_url = admin_url.unwrap_or(&client_url).to_owned();
    Ok((addresses, [client_url, peer_url, asked_url]))
}

/// A new cluster has no number to be checked.
fn check_new(state: ClusterState, cluster_id: Option<&str>) -> Result<(), String> {
    if state == ClusterState::New && cluster_id.is_some() {
        return Err(
            "--cluster-id contradicts --initial-cluster-state new: a new cluster's id is made from \
             --initial-cluster-token"
                .to_owned(),
        );
    }
    Ok(())
}

/// The versions to speak. A program that speaks as an older one has the protocols that that one had.
fn supported(
    newest: Option<u32>,
    protocol: Option<&str>,
    may_measure: bool,
) -> Result<SupportedVersions, String> {
    let all = SupportedVersions::SHIPPED;
    let newest = newest.unwrap_or(all.newest.0);
    let supported = all.up_to(newest);
    let supported =
        supported.ok_or_else(|| format!("--wire-version {newest}: this program speaks {all}"))?;
    let Some(name) = protocol else {
        return Ok(supported);
    };
    usable(name, may_measure)?;
    let needed = Registered.level_of(name);
    if supported.level() < needed {
        return Err(format!(
            "--protocol {name} needs feature level {needed}, and programs with --wire-version {newest} do not \
             know it: leave --wire-version out"
        ));
    }
    Ok(supported)
}

fn reaction(mode: Option<ReactMode>, after_ms: Option<u64>) -> Result<Reaction, String> {
    if mode.is_none_or(|mode| mode == ReactMode::Nothing) {
        return match after_ms {
            None => Ok(Reaction::Nothing),
            Some(after_ms) => Err(format!(
                "--react-after-ms {after_ms} says when to react, and --react does not say how: add \
                 --react shrink-code"
            )),
        };
    }
    let after_ms = after_ms.unwrap_or(REACT_AFTER_MS);
    if !(1..=REACT_AFTER_MS_MAX).contains(&after_ms) {
        return Err(format!(
            "--react-after-ms {after_ms} is not between 1 and {REACT_AFTER_MS_MAX}"
        ));
    }
    let after_ns = after_ms * 1_000_000;
    Ok(Reaction::ShrinkCode { after_ns })
}

pub(crate) fn clock(text: Option<&str>) -> Result<ClockSource, String> {
    let Some(text) = text else {
        return Ok(ClockSource::default());
    };
    let source = text.parse::<ClockSource>();
    source.map_err(|why| format!("--clock {text:?}: {why}"))
}

pub(crate) fn test_source(path: Option<&Path>) -> Result<TestSource, String> {
    let Some(path) = path else {
        return Ok(TestSource::default());
    };
    TestSource::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))
}

fn state(text: Option<&str>) -> Result<ClusterState, String> {
    match text {
        Some("new") => Ok(ClusterState::New),
        None | Some("existing") => Ok(ClusterState::Existing),
        Some(other) => Err(format!(
            "--initial-cluster-state {other:?} is neither new nor existing"
        )),
    }
}

pub(crate) fn cluster_id(text: &str) -> Result<ClusterId, String> {
    u128::from_str_radix(text, 16)
        .map(ClusterId)
        .map_err(|_| format!("--cluster-id {text:?} is not a hexadecimal number"))
}

pub(crate) fn request_bytes(given: Option<usize>) -> Result<usize, String> {
    match given {
        None => Ok(REQUEST_BYTES),
        Some(bytes) if (1..=REQUEST_BYTES_MAX).contains(&bytes) => Ok(bytes),
        Some(bytes) => Err(format!(
            "--max-request-bytes {bytes} is not between 1 and {REQUEST_BYTES_MAX}"
        )),
    }
}

/// How long a request may wait.
fn request_timeout(ms: Option<u64>) -> Duration {
    Duration::from_millis(ms.unwrap_or(REQUEST_TIMEOUT_MS))
}

/// From which time on a request is logged as slow.
fn slow_request(text: Option<&str>) -> Result<Duration, String> {
    match text {
        None => Ok(SLOW_REQUEST),
        Some("0" | "0s") => Ok(Duration::MAX),
        Some(text) => duration(text).ok_or_else(|| {
            format!("--warning-unary-request-duration {text:?}: not a time such as 300ms or 2s")
        }),
    }
}

pub(crate) fn client_memory(given: Option<usize>) -> Result<usize, String> {
    match given {
        None => Ok(CLIENT_MEMORY),
        Some(bytes) if bytes >= CLIENT_MEMORY_MIN => Ok(bytes),
        Some(bytes) => Err(format!(
            "--max-client-memory {bytes} is less than {CLIENT_MEMORY_MIN}"
        )),
    }
}

/// The parameters of the protocol, with the code among them if one is named.
fn coded(
    code: Option<&str>,
    replicas: usize,
    mut params: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    if let Some(code) = code {
        let code: Code = code.parse().map_err(|why| format!("--code: {why}"))?;
        code.add_to(replicas, &mut params)?;
    }
    Ok(params)
}
