//! `quorate serve`: one replica.

mod listen;
mod member_urls;
mod options;
mod real_server;
mod settings;

pub(crate) use options::ServeOptions;
use real_server::store_of;
pub(crate) use settings::{
    REQUEST_TIMEOUT_MS, Settings, TXN_OPS, client_memory, clock, cluster_id, request_bytes,
    test_source,
};

use crate::Failure;
use crate::address::is_loopback;
use crate::face::{FaceName, RedisStore};
use crate::modes::PeerTransport;
use crate::new_cluster;
use crate::notify::{ProcessState, notify};
use crate::{config_file, logging};
use quorate_core::{ENTRY_BYTES_MAX, Incarnation, ReplicaId};
use quorate_host::Limits;
use quorate_protocols::Registered;
use quorate_replica::{Face, RealServer, Turns, run_replica};
use quorate_server::{
    ClientPorts, Folder, Join, Joined, Meta, PeerLinks, PeerSecurity, PortTls, ServerConfig,
    ServerError, StopSignal, bind, bind_datagrams, bootstrap, client_connections_max, holds_data,
    join, place_log, raise_descriptor_limit,
};
use rustix::fs::Mode;
use rustix::rand::{GetRandomFlags, getrandom};
use settings::ClusterState;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::sync::Arc;

/// Requests that may wait between the face and the core.
const QUEUE_MAX: usize = 32 << 10;
/// Largest request whose values are all in its command: an entry has room for it.
const COMMAND_BYTES_MAX: usize = ENTRY_BYTES_MAX - (1 << 20);
/// What a command adds to the request it carries.
const COMMAND_BYTES_EXTRA: usize = 64 << 10;

/// How long a command may be that carries a request of so many bytes.
pub(crate) fn command_bytes(request_bytes: usize) -> usize {
    request_bytes.min(COMMAND_BYTES_MAX) + COMMAND_BYTES_EXTRA
}

/// Runs a replica until it is told to stop.
pub(crate) fn run(options: ServeOptions) -> Result<(), Failure> {
    let settings = resolve(options)?;
    logging::start(&settings.log)?;
    run_with(settings).map(drop)
}

/// Lays options over their file, and fills in defaults.
pub(crate) fn resolve(options: ServeOptions) -> Result<Settings, Failure> {
    exit_with_parent(options.exit_with_parent)?;
    let options = match options.config_file.clone() {
        Some(path) => {
            let laid = config_file::over_file(&options, &path, &options::keys());
            laid.map_err(Failure::Usage)?
        }
        None => options,
    };
    Settings::resolve(options).map_err(Failure::Usage)
}

/// Runs a replica until it is told to stop; says by which signal. There is a log already.
pub(crate) fn run_with(settings: Settings) -> Result<Option<StopSignal>, Failure> {
    create_files_for_owner_only();
    for name in config_file::unknown_variables(&options::variables()) {
        tracing::warn!("the environment variable {name} is no option of this program");
    }
    let failed = |error: ServerError| Failure::Failed(error.to_string());
    let descriptors = raise_descriptor_limit();
    let client_connections = client_connections_max(descriptors, settings.max_client_connections);
    let client_connections = client_connections.map_err(Failure::Usage)?;
    if let Some(place) = &settings.wal_dir {
        let placed = place_log(&settings.data_dir, place);
        placed.map_err(|error| Failure::Failed(error.to_string()))?;
    }
    let data = Data::look(&settings)?;
    let client_tls = settings.security.client.open(&settings.data_dir)?;
    let peer_security = open_peer_security(&settings)?;
    let peer_ports = settings.listen.open_for_peers().map_err(failed)?;
    let peer_datagrams = listen_for_datagrams(&settings, &peer_ports[0]).map_err(failed)?;
    let client_ports = settings.listen.open_for_clients().map_err(failed)?;
    // Whatever else can go wrong has: a start that fails leaves no identity behind.
    let (folder, peer_addresses) = match data.begin(&settings)? {
        Begun::Known(folder) => (folder, settings.peer_addresses.clone()),
        Begun::Unknown(mut unknown) => {
            unknown.security = peer_security.clone();
            let Joined { folder, peers } = join(*unknown, &peer_ports).map_err(failed)?;
            (folder, peers)
        }
    };
    let face = face_of(folder.meta(), folder.dir(), settings.face)?;
    settings.check_face(face).map_err(Failure::Usage)?;
    let (store, server) = store_of(&settings, &folder, face, client_connections)?;
    if face == FaceName::Redis {
        warn_of_operators(&settings);
    }
    let protocol = folder.meta().epoch.protocol.clone();
    let epoch = &folder.meta().epoch;
    let survived = new_cluster::failures_survived(epoch, settings.id).map_err(|why| {
        Failure::Failed(format!(
            "the cluster in {}: {why}",
            settings.data_dir.display()
        ))
    })?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), replica = %settings.id, name = settings.name,
        face = face.name(), store = store.map(RedisStore::name), protocol,
        server = server.as_ref().map(RealServer::program), replicas = epoch.n(), failures_survived = survived,
        data = %settings.data_dir.display(), layout = settings.layout.name(),
        peer_transport = settings.peer_transport.name(), busy_poll = settings.polling.is_busy,
        cores = ?settings.polling.cores, descriptors, client_connections, "starting"
    );
    let replica = Replica {
        face,
        peer_addresses,
        settings,
        folder,
        peer_ports,
        peer_datagrams,
        client_ports,
        client_tls,
        peer_security,
        client_connections,
        server,
    };
    let ended = replica.run();
    if let Err(ServerError::Removed { .. }) = &ended {
        tell_supervisor(REMOVED);
    }
    ended.map_err(failed)
}

/// What a data folder holds before anything is begun.
enum Data {
    /// A replica, maybe one that has agreed to nothing yet.
    Of(Folder),
    /// None. It may be begun as this, or it is to come back from its peers.
    Nothing(Option<Box<Meta>>),
}

/// What a replica goes on with.
enum Begun {
    /// The folder says which replica this is.
    Known(Folder),
    /// The peers must be asked.
    Unknown(Box<Join>),
}

impl Data {
    /// Looks without beginning anything.
    fn look(settings: &Settings) -> Result<Data, Failure> {
        let failed = |error: quorate_server::FolderError| Failure::Failed(error.to_string());
        let (dir, expected) = (&settings.data_dir, settings.expected());
        let is_empty = !holds_data(dir).map_err(failed)?;
        let wanted = match settings.state {
            ClusterState::New => Some(settings.first_meta(random_incarnation()?)),
            ClusterState::Existing => None,
        };
        if let Some(meta) = wanted.as_ref().filter(|_| is_empty) {
            new_cluster::failures_survived(&meta.epoch, settings.id).map_err(Failure::Usage)?;
        }
        // Alone, there is nobody to ask what the replica may have promised.
        let may_be_empty = wanted.is_some() || !settings.peer_addresses.is_empty();
        if is_empty && may_be_empty {
            return Ok(Data::Nothing(wanted.map(Box::new)));
        }
        let folder = Folder::open_or_begin(dir, &expected, wanted.as_ref()).map_err(failed)?;
        Ok(folder.map_or(Data::Nothing(None), Data::Of))
    }

    /// Begins it, if that was asked for and it holds nothing.
    fn begin(self, settings: &Settings) -> Result<Begun, Failure> {
        let failed = |error: quorate_server::FolderError| Failure::Failed(error.to_string());
        let (dir, expected) = (&settings.data_dir, settings.expected());
        let folder = match self {
            Data::Of(folder) => Some(folder),
            Data::Nothing(None) => None,
            Data::Nothing(Some(meta)) => {
                bootstrap(dir, &meta).map_err(failed)?;
                Some(Folder::open(dir, &expected).map_err(failed)?)
            }
        };
        let new_cluster = settings.new_cluster().cluster();
        Ok(match folder {
            Some(folder) if folder.meta().state.may_begin() => {
                let cluster = folder.meta().cluster;
                if settings.state == ClusterState::New && cluster != new_cluster {
                    tracing::warn!(
                        "the data is of cluster {cluster}, which goes on: --initial-cluster-state new, the \
                        token and the list of addresses would begin another one on an empty folder"
                    );
                }
                Begun::Known(folder)
            }
            folder => Begun::Unknown(Box::new(Join {
                dir: dir.clone(),
                expected,
                cluster: match &folder {
                    Some(folder) => folder.meta().cluster,
                    None => settings.cluster.unwrap_or(new_cluster),
                },
                is_guess: settings.cluster.is_none(),
                is_new: settings.state == ClusterState::New,
                address: settings.own_address.clone(),
                peers: settings.peer_addresses.clone(),
                security: PeerSecurity::default(),
                supported: settings.supported,
                rejoin: settings.rejoin,
                folder,
                catalogue: &Registered,
            })),
        })
    }
}

fn random_incarnation() -> Result<Incarnation, Failure> {
    Ok(Incarnation(u128::from_le_bytes(random_bytes()?)))
}

fn random_u64() -> Result<u64, Failure> {
    Ok(u64::from_le_bytes(random_bytes()?))
}

fn random_bytes<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom(&mut bytes[..], GetRandomFlags::empty())
        .map_err(|error| Failure::Failed(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// What connections to other replicas begin with, for those who ask before it is known which replica they are.
pub(crate) fn peer_security(
    options: &ServeOptions,
    listened: &str,
    own: &str,
    data_dir: &Path,
) -> Result<PeerSecurity, Failure> {
    let settings = options
        .security
        .peer(listened, own)
        .map_err(Failure::Usage)?;
    let opened = settings.open(data_dir);
    opened.map_err(|error| Failure::Failed(error.to_string()))
}

/// Says where an address for operators is missing, and where it is open to everybody.
fn warn_of_operators(settings: &Settings) {
    if !settings.listen.has_http() {
        tracing::warn!(
            "health, metrics, status and changes of the cluster are served nowhere: give --face redis, or \
             --listen-admin-urls"
        );
    }
    if settings.listen.is_http_open() {
        tracing::warn!(
            "whoever reaches the address for operators (--listen-admin-urls) can change the members and the protocol \
             of this cluster: keep it on this machine, or say https:// and give --trusted-ca-file"
        );
    }
}

/// What replicas prove to each other. Says loudly if it is nothing, and others than this machine's may call.
fn open_peer_security(settings: &Settings) -> Result<PeerSecurity, Failure> {
    let opened = settings.security.peer.open(&settings.data_dir);
    let security = opened.map_err(|error| Failure::Failed(error.to_string()))?;
    let mut addresses = settings.listen.peers.iter();
    let is_open = !addresses.all(|address| is_loopback(address));
    if security.proof().is_none() && is_open {
        tracing::warn!(
            "whoever reaches the peer port {:?} can act as a member of this cluster, and read and change everything: \
             give replicas certificates (--peer-cert-file, --peer-key-file, --peer-trusted-ca-file and https://), or \
             a secret (--peer-secret-file)",
            settings.listen.peers
        );
    }
    Ok(security)
}

pub(crate) fn listen(what: &'static str, address: &str) -> Result<TcpListener, ServerError> {
    bind(address).map_err(|error| ServerError::Listen {
        what,
        address: address.to_owned(),
        error,
    })
}

/// The UDP port with the number of the TCP one, if datagrams are wanted.
fn listen_for_datagrams(
    settings: &Settings,
    peer_port: &TcpListener,
) -> Result<Option<UdpSocket>, ServerError> {
    if settings.peer_transport == PeerTransport::Tcp {
        return Ok(None);
    }
    let port = bind_datagrams(peer_port).map_err(|error| ServerError::Listen {
        what: "datagrams of peers",
        address: settings.listen.peers[0].clone(),
        error,
    });
    port.map(Some)
}

/// A replica that is ready to run.
struct Replica {
    face: FaceName,
    settings: Settings,
    /// The addresses of the other replicas, as far as they are known.
    peer_addresses: Vec<(ReplicaId, String)>,
    folder: Folder,
    peer_ports: Vec<TcpListener>,
    peer_datagrams: Option<UdpSocket>,
    client_ports: ClientPorts,
    client_tls: Option<Arc<PortTls>>,
    peer_security: PeerSecurity,
    /// The most connections of clients that may be open.
    client_connections: usize,
    /// What runs a real server, if one keeps the data.
    server: Option<RealServer>,
}

impl Replica {
    fn run(self) -> Result<Option<StopSignal>, ServerError> {
        let settings = self.settings;
        let limits = Limits {
            command_bytes_max: command_bytes(settings.max_request_bytes),
            payload_cache_bytes_max: settings.value_cache_bytes,
            recode_rate: settings.recode_rate,
            ..settings.snapshots.limits(Limits::default())
        };
        let config = ServerConfig {
            folder: self.folder,
            peers: PeerLinks::Sockets {
                ports: self.peer_ports,
                datagrams: self.peer_datagrams,
            },
            members: settings.members,
            peer_addresses: self.peer_addresses,
            volunteers: !settings.stays_learner,
            reaction: settings.reaction,
            supported: settings.supported,
            limits,
            queue_max: QUEUE_MAX,
            request_timeout: settings.request_timeout,
            slow_request: settings.slow_request,
            client_memory: settings.client_memory,
            peer_security: self.peer_security,
            client_tls: self.client_tls,
            layout: settings.layout,
            polling: settings.polling,
            clock: settings.clock,
            test_source: settings.test_source,
        };
        let (request_bytes_max, txn_ops_max) = (settings.max_request_bytes, settings.max_txn_ops);
        let address = settings.listen.clients.join(",");
        let face = match self.face {
            FaceName::Etcd => Face::Etcd(Box::new(quorate_face_etcd::Limits {
                connections_max: self.client_connections,
                request_bytes_max,
                txn_ops_max,
                snapshot_dir: settings.data_dir,
                users: settings.users,
                ..settings.connections.limits(settings.etcd.limits())
            })),
            FaceName::Plain => Face::Plain(quorate_face_plain::Limits {
                connections_max: self.client_connections,
                request_bytes_max,
                ..quorate_face_plain::Limits::default()
            }),
            FaceName::Redis => {
                let redis = settings.redis;
                let options = redis.face(self.client_connections, request_bytes_max);
                Face::Redis(options, self.server)
            }
        };
        run_replica(config, self.client_ports, face, turns(address))
    }
}

/// What people and supervisors are told of a replica or gateway that serves clients at an address.
pub(crate) fn turns(address: String) -> Turns {
    Turns {
        ready: Box::new(move || announce(&address)),
        stopping: || notify(ProcessState::Stopping),
    }
}

/// The face of the cluster in a folder, which must be the one that was asked for, if one was.
pub(crate) fn face_of(
    meta: &Meta,
    dir: &Path,
    asked: Option<FaceName>,
) -> Result<FaceName, Failure> {
    let face = FaceName::of(&meta.epoch.params).map_err(Failure::Failed)?;
    match asked.filter(|asked| *asked != face) {
        None => Ok(face),
        Some(asked) => Err(Failure::Usage(format!(
            "--face {} contradicts the cluster in {}, which was begun for {}",
            asked.name(),
            dir.display(),
            face.name()
        ))),
    }
}

/// Tells people by the log and a supervisor by standard output.
fn announce(address: &str) {
    tracing::info!(address, "ready to serve client requests");
    tell_supervisor(READY);
    notify(ProcessState::Ready);
}

fn tell_supervisor(line: &str) {
    let mut out = std::io::stdout().lock();
    // Whoever started this may have stopped listening.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// The line on standard output once the port for clients answers.
pub(crate) const READY: &str = "ready to serve client requests";

/// The line on standard output when the cluster goes on without this replica.
pub(crate) const REMOVED: &str = "removed from the cluster";

/// Keeps all files that this process creates from everybody but their owner.
pub(crate) fn create_files_for_owner_only() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Makes the kernel stop this process when its parent ends, however that ends.
pub(crate) fn exit_with_parent(parent: Option<u32>) -> Result<(), Failure> {
    let Some(parent) = parent else {
        return Ok(());
    };
    let asked =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM));
    asked.map_err(|error| Failure::Failed(format!("cannot follow the parent process: {error}")))?;
    // It may have ended before the kernel was asked.
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if now == Some(parent) {
        Ok(())
    } else {
        Err(Failure::Failed(
            "the process that started this one is gone".to_owned(),
        ))
    }
}
