//! `quorate gateway`: a gateway in a process of its own, in front of a cluster that runs.

use crate::Failure;
use crate::address::host_port;
use crate::face::FaceName;
use crate::logging::{self, LogSettings};
use crate::modes::LogFormat;
use crate::peer_tls::{PeerTlsOptions, PeerTlsSettings};
use crate::serve::{self, exit_with_parent};
use crate::tls::{AutoTlsOptions, ClientTlsOptions, ClientTlsSettings};
use crate::web::WebOptions;
use clap::Args;
use quorate_core::Epoch;
use quorate_host::Limits;
use quorate_replica::{GatewayFace, run_gateway};
use quorate_server::{
    GatewayOptions as ServerOptions, PeerSecurity, PortTls, ServerError, client_connections_max,
    raise_descriptor_limit,
};
use quorate_tls::Connector;
use quorate_tooling::tls_args::ClientTlsArgs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The options of `quorate gateway`.
#[derive(Args, Clone, Debug)]
pub(crate) struct GatewayOptions {
    /// Where members of the cluster are reached by each other: http://10.0.0.1:2380,... One that runs is
    /// enough, the others are learned from it
    #[arg(
        long,
        env = "QUORATE_PEERS",
        value_name = "URLS",
        value_delimiter = ',',
        default_value = "http://127.0.0.1:2380"
    )]
    peers: Vec<String>,

    /// Dial no members but these: for a gateway that does not reach members where they reach each other
    #[arg(long, env = "QUORATE_PEERS_ONLY")]
    peers_only: bool,

    /// Where to listen for clients
    #[arg(
        long,
        env = "QUORATE_LISTEN_CLIENT_URLS",
        value_name = "URL",
        default_value = "http://127.0.0.1:2379"
    )]
    listen_client_urls: String,

    /// The cluster that the members must be of, for a check
    #[arg(long, env = "QUORATE_CLUSTER_ID", value_name = "HEX")]
    cluster_id: Option<String>,

    /// Largest request of a client, in bytes; no larger than members take [default: 1572864]
    #[arg(long, env = "QUORATE_MAX_REQUEST_BYTES", value_name = "BYTES")]
    max_request_bytes: Option<usize>,

    /// Most operations in one transaction
    #[arg(
        long,
        env = "QUORATE_MAX_TXN_OPS",
        value_name = "COUNT",
        default_value_t = serve::TXN_OPS
    )]
    max_txn_ops: usize,

    /// Most connections of clients at a time; beyond, the longest idle is closed for a new one [default: the limit of
    /// open files less 512, at most 10000]
    #[arg(long, env = "QUORATE_MAX_CLIENT_CONNECTIONS", value_name = "COUNT")]
    max_client_connections: Option<usize>,

    /// How long a request may wait for a quorum, in milliseconds
    #[arg(
        long,
        env = "QUORATE_REQUEST_TIMEOUT_MS",
        value_name = "MS",
        default_value_t = serve::REQUEST_TIMEOUT_MS
    )]
    request_timeout_ms: u64,

    /// Most memory for requests that are being received and answers that clients have not taken yet, in bytes; no
    /// connection gets more than three quarters of it. Beyond, requests are refused [default: 268435456]
    #[arg(long, env = "QUORATE_MAX_CLIENT_MEMORY", value_name = "BYTES")]
    max_client_memory: Option<usize>,

    #[command(flatten)]
    web: WebOptions,

    /// Who says how far this machine's clock may be off: the kernel (kernel), or you (declared:ERROR, as in
    /// declared:1ms). A wrong clock costs speed, never safety [default: kernel]
    #[arg(long, env = "QUORATE_CLOCK", value_name = "SOURCE")]
    clock: Option<String>,

    #[command(flatten)]
    client_tls: ClientTlsOptions,

    #[command(flatten)]
    peer_tls: PeerTlsOptions,

    // For what is passed on to members' ports for clients.
    #[command(flatten)]
    upstream_tls: ClientTlsArgs,

    /// error, warn, info, debug, trace, or a filter such as info,quorate_server=debug
    #[arg(
        long,
        env = "QUORATE_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: String,

    /// How logs are written to standard error
    #[arg(
        long,
        env = "QUORATE_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: LogFormat,

    /// End when the process with this id, which started this one, ends.
    #[arg(long, hide = true, value_name = "PID")]
    exit_with_parent: Option<u32>,

    /// Be told of the clock by this file, in tests.
    #[arg(long, hide = true, value_name = "FILE")]
    test_source: Option<PathBuf>,
}

/// Runs a gateway until it is told to stop.
pub(crate) fn run(options: &GatewayOptions) -> Result<(), Failure> {
    exit_with_parent(options.exit_with_parent)?;
    let members = members(&options.peers).map_err(Failure::Usage)?;
    let address = host_port("listen-client-urls", &options.listen_client_urls);
    let address = address.map_err(Failure::Usage)?;
    let security = GatewaySecurity::resolve(options)?;
    let request_bytes_max = serve::request_bytes(options.max_request_bytes);
    let request_bytes_max = request_bytes_max.map_err(Failure::Usage)?;
    let client_memory = serve::client_memory(options.max_client_memory);
    let client_memory = client_memory.map_err(Failure::Usage)?;
    let cluster = options.cluster_id.as_deref().map(serve::cluster_id);
    let cluster = cluster.transpose().map_err(Failure::Usage)?;
    let clock = serve::clock(options.clock.as_deref()).map_err(Failure::Usage)?;
    let test_source = serve::test_source(options.test_source.as_deref()).map_err(Failure::Usage)?;
    start_log(options)?;
    let (client_tls, peer_security) = security.open()?;
    let failed = |error: ServerError| Failure::Failed(error.to_string());
    let descriptors = raise_descriptor_limit();
    let connections_max = client_connections_max(descriptors, options.max_client_connections);
    let connections_max = connections_max.map_err(Failure::Usage)?;
    let client_port = serve::listen("clients", &address).map_err(failed)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        ?members,
        descriptors,
        client_connections = connections_max,
        "a gateway is starting"
    );
    let server = ServerOptions {
        learns: !options.peers_only,
        cluster,
        limits: Limits {
            command_bytes_max: serve::command_bytes(request_bytes_max),
            ..Limits::default()
        },
        request_timeout: Duration::from_millis(options.request_timeout_ms),
        client_memory,
        upstream_tls: security.upstream_tls,
        peer_security,
        client_tls,
        clock,
        test_source,
        ..ServerOptions::to(members)
    };
    let limits = quorate_face_etcd::Limits {
        connections_max,
        request_bytes_max,
        txn_ops_max: options.max_txn_ops,
        web: options.web.resolve().map_err(Failure::Usage)?,
        ..quorate_face_etcd::Limits::default()
    };
    let plain_limits = quorate_face_plain::Limits {
        connections_max,
        request_bytes_max,
        ..quorate_face_plain::Limits::default()
    };
    let face_of = move |epoch: &Epoch| {
        let face = FaceName::of(&epoch.params).map_err(ServerError::Face)?;
        tracing::info!(face = face.name(), "the cluster has answered");
        match face {
            FaceName::Etcd => Ok(GatewayFace::Etcd(Box::new(limits))),
            FaceName::Plain => Ok(GatewayFace::Plain(plain_limits)),
            FaceName::Redis => Err(ServerError::Face(
                "the Redis face has no gateways: every replica takes all requests".to_owned(),
            )),
        }
    };
    let turns = serve::turns(address);
    run_gateway(server, client_port, Box::new(face_of), turns).map_err(failed)
}

/// What a gateway proves to members, and has its clients prove.
struct GatewaySecurity {
    client_tls: ClientTlsSettings,
    peer_tls: PeerTlsSettings,
    /// What connects to members' ports for clients, where those speak TLS.
    upstream_tls: Option<Arc<Connector>>,
}

impl GatewaySecurity {
    fn resolve(options: &GatewayOptions) -> Result<GatewaySecurity, Failure> {
        let (client, url) = (&options.client_tls, &options.listen_client_urls);
        let client_tls = client.resolve(&AutoTlsOptions::default(), url, url);
        let peer_tls = options.peer_tls.resolve_caller(&client.parameters);
        let upstream_tls = &options.upstream_tls;
        let upstream_tls = upstream_tls.are_given().then(|| upstream_tls.open());
        Ok(GatewaySecurity {
            client_tls: client_tls.map_err(Failure::Usage)?,
            peer_tls: peer_tls.map_err(Failure::Usage)?,
            upstream_tls: upstream_tls.transpose().map_err(Failure::Failed)?,
        })
    }

    /// Reads the files; a gateway has no folder to keep any in.
    fn open(&self) -> Result<(Option<Arc<PortTls>>, PeerSecurity), Failure> {
        let nowhere = Path::new("");
        let peer_security = self.peer_tls.open(nowhere);
        let peer_security = peer_security.map_err(|error| Failure::Failed(error.to_string()))?;
        Ok((self.client_tls.open(nowhere)?, peer_security))
    }
}

/// The addresses of members' peer ports.
fn members(urls: &[String]) -> Result<Vec<String>, String> {
    let members = urls.iter().filter(|url| !url.is_empty());
    let members: Vec<String> = members
        .map(|url| host_port("peers", url))
        .collect::<Result<_, String>>()?;
    match members.is_empty() {
        true => Err("--peers names no member: give the peer URL of one that runs".to_owned()),
        false => Ok(members),
    }
}

fn start_log(options: &GatewayOptions) -> Result<(), Failure> {
    let settings = LogSettings::on_stderr(&options.log_level, options.log_format);
    logging::start(&settings)
}
