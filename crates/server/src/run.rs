//! One replica from start to end.

mod config;
mod embed;
mod open;
mod supervise;

use crate::any_application::Embeddable;
use crate::auto_shrink::{AutoShrink, Reaction};
use crate::budget::Budget;
use crate::clock::Clock;
use crate::core::{Core, CoreState, Inputs};
use crate::disk::Disk;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::group::Group;
use crate::handle::{Handle, MemberInfo, ReplicaHandle, Request};
use crate::meta::Meta;
use crate::metrics::Metrics;
use crate::peer::datagrams::Datagrams;
use crate::peer::handshake::{Identity, PeerInfo};
use crate::peer::incarnations::Incarnations;
use crate::peer::rings::Rings;
use crate::peer::threads::LinksThread;
use crate::peer::transmit::Tx;
use crate::peer::{Links, SocketThreads, TransportSetup, Tunnels};
use crate::polling::Polling;
use crate::security::{ClientListeners, ClientPorts, Door, Listener};
use crate::snapshots::SnapshotThread;
use crate::stop_signal::{StopSignal, stop_signal};
use crate::timed_app::TimedApp;
use crate::tls::{Certificates, PeerSecurity};
use crate::workers::Workers;
pub(crate) use config::{QUEUE_MAX, REQUEST_TIMEOUT};
pub use config::{SLOW_REQUEST, ServerConfig};
use embed::Running;
pub use embed::{Embedded, embed, embed_with};
pub(crate) use open::host_config;
use open::open_host;
use quorate_core::{Boot, ReplicaId};
use quorate_host::Host;
use quorate_protocols::ProtocolSet;
use rustix::rand::{GetRandomFlags, getrandom};
use std::future::Future;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
pub(crate) use supervise::{AbortOnDrop, supervise};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinError, JoinHandle};

/// How replicas reach each other.
#[derive(Debug)]
pub enum PeerLinks {
    /// Connections, to this bound port and to those of the others.
    Sockets {
        /// The bound ports for connections from peers.
        ports: Vec<TcpListener>,
        /// A socket for datagrams on the port's number, if short frames are to go by UDP.
        datagrams: Option<UdpSocket>,
    },
    /// Memory: all of them are in this process. Threads that other layouts have for what is sent and received there are
    /// not needed.
    Rings(Rings),
}

/// The threads that the parts of a replica run on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// Everything on one thread: nothing is handed from core to core, and while the log is synced,
    /// requests gather for the next batch. The better one where replicas share few cores.
    Fused,
    /// The core, the links and the log on one thread, the faces on another: clients are read and
    /// answered while the log is synced. For machines with cores to spare.
    Threaded,
    /// As Chora's paper has it: what is received and what is sent between replicas have a thread each, too,
    /// so that the core has nothing but the protocol and the log to do.
    Split,
}

impl Layout {
    /// The layout for a machine on which `replicas` share the cores there are.
    #[must_use]
    pub fn for_machine(replicas: usize) -> Layout {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        if cores >= CORES_THREADED * replicas.max(1) {
            Layout::Threaded
        } else {
            Layout::Fused
        }
    }

    /// The layout's name, as on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Layout::Fused => "fused",
            Layout::Threaded => "threaded",
            Layout::Split => "split",
        }
    }

    /// How many threads of a replica look for work all the time, if they are told to.
    #[must_use]
    pub fn pollers(self) -> usize {
        match self {
            Layout::Fused | Layout::Threaded => 1,
            // The core, Tx and Rx.
            Layout::Split => 3,
        }
    }
}

/// Cores per replica from which on a second thread is worth its wake-ups: one for the core, one for
/// the faces, and one for the rest of the machine.
const CORES_THREADED: usize = 3;

/// What a face gets to work with.
#[derive(Debug)]
pub struct FaceContext<A> {
    /// The handle to the replica.
    pub handle: Handle<A>,
    /// The face's ports for clients.
    pub listeners: ClientListeners,
    /// The metrics for the face's page.
    pub metrics: Arc<Metrics>,
    /// Connections with the faces of other replicas.
    pub tunnels: Option<Tunnels>,
    /// Becomes true when it should take no more requests and finish those under way.
    pub stopping: watch::Receiver<bool>,
}

/// The future of a face that serves; the error says why it ended.
pub type Serving = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Runs one replica until it is told to stop by SIGTERM or SIGINT; says by which, unless the face ended by itself.
///
/// `ready` is called once the ports for clients answer.
pub fn run<A: Embeddable>(
    config: ServerConfig,
    client_ports: ClientPorts,
    app: A,
    face: impl FnOnce(FaceContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<Option<StopSignal>, ServerError> {
    let runtime = runtime()?;
    match config.layout {
        Layout::Fused => config.polling.core().take(),
        Layout::Threaded | Layout::Split => config.polling.service().take(),
    }
    let result = runtime.block_on(serve(config, client_ports, app, face, ready));
    // Connections are cut here: nothing waits for a client that holds one open.
    runtime.shutdown_background();
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}

pub(crate) fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
}

async fn serve<A: Embeddable>(
    config: ServerConfig,
    client_ports: ClientPorts,
    app: A,
    face: impl FnOnce(FaceContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<Option<StopSignal>, ServerError> {
    let client_memory = Budget::new(config.client_memory);
    let client_tls = config.client_tls.clone();
    let certificates = Certificates::of(client_tls.clone(), config.peer_security.clone());
    let _expiry = AbortOnDrop(tokio::spawn(certificates.watch()));
    let mut embedded = embed(config, app).await?;
    let metrics = embedded.metrics();
    metrics.show_client_memory(client_memory.clone());
    let (tell_face, stopping) = watch::channel(false);
    let counts = || metrics.client_connections();
    let listeners = client_ports.open(counts, &client_memory, client_tls)?;
    let face = tokio::spawn(face(FaceContext {
        handle: embedded.handle.clone(),
        listeners,
        metrics: Arc::clone(&metrics),
        tunnels: embedded.running.tunnels.take(),
        stopping,
    }));
    let supervision = supervise(face, stop_signal()?, tell_face);
    ready();
    let served = tokio::select! {
        // Before it is told to stop, only trouble ends it.
        result = &mut embedded.running.core => return ended(result).map(|()| None),
        served = supervision => served,
    };
    embedded.stop().await.and(served)
}

/// Starts a replica, and waits until it has begun.
async fn start<P: ProtocolSet>(
    config: ServerConfig,
    app: TimedApp,
) -> Result<(ReplicaHandle, Running), ServerError> {
    let metrics = Arc::new(Metrics::new());
    let certificates = Certificates::of(config.client_tls.clone(), config.peer_security.clone());
    metrics.show_certificates(certificates.clone());
    metrics.show_peer_proof(config.peer_security.proof());
    let clock = Clock::new(config.clock, config.test_source.clone());
    let meta = config.folder.meta().clone();
    let boot = Boot(random_u64()?);
    let (host, disk) = open_host::<P>(&config, &meta, boot, app, &clock, &metrics)?;
    let identity = identity(&meta, boot, &config);
    let (handle, requests) = ReplicaHandle::new(config.queue_max);
    let handle = handle.recording(metrics.face.clone());
    let (stop, stopping) = watch::channel(false);
    let (begun, has_begun) = oneshot::channel();
    let replica = Replica::<P> {
        host,
        disk,
        clock,
        folder: config.folder,
        members: config.members,
        peers: config.peers,
        peer_addresses: config.peer_addresses,
        volunteers: config.volunteers,
        reaction: config.reaction,
        level: config.supported.level(),
        layout: config.layout,
        polling: config.polling,
        request_timeout: config.request_timeout,
        slow_request: config.slow_request,
        identity,
        peer_security: config.peer_security,
        certificates,
        metrics: Arc::clone(&metrics),
        requests,
        stop: stopping,
        handle: handle.clone(),
    };
    let core = match config.layout {
        Layout::Fused => tokio::spawn(replica.run(begun)),
        Layout::Threaded | Layout::Split => on_own_thread(replica, begun)?,
    };
    let Ok(tunnels) = has_begun.await else {
        return ended(core.await).and(Err(ServerError::Core("it ended at once".to_owned())));
    };
    let running = Running {
        metrics,
        tunnels,
        core,
        stop,
    };
    Ok((handle, running))
}

/// Everything on the core's side of the ring.
struct Replica<P: ProtocolSet> {
    host: Host<P::Machine, TimedApp>,
    disk: Option<Disk>,
    clock: Clock,
    folder: Folder,
    members: Vec<MemberInfo>,
    peers: PeerLinks,
    peer_addresses: Vec<(ReplicaId, String)>,
    volunteers: bool,
    reaction: Reaction,
    level: u32,
    layout: Layout,
    polling: Polling,
    request_timeout: Duration,
    slow_request: Duration,
    identity: Identity,
    peer_security: PeerSecurity,
    certificates: Certificates,
    metrics: Arc<Metrics>,
    requests: mpsc::Receiver<Request>,
    stop: watch::Receiver<bool>,
    handle: ReplicaHandle,
}

impl<P: ProtocolSet> Replica<P> {
    /// Runs until the replica is to stop, or must. Says through `begun` that it has started, with the end of tunnels.
    async fn run(self, begun: oneshot::Sender<Option<Tunnels>>) -> Result<(), ServerError> {
        let (scheme, others) = (self.peer_security.scheme(), self.peer_addresses.len());
        let way = way(self.peers, self.layout, &self.polling, others)?;
        let incarnations = Incarnations::open(self.folder.dir(), &self.folder.meta().epoch)?;
        let (links, arrivals) = Links::start(
            way,
            self.identity,
            incarnations,
            &self.peer_addresses,
            // What a later epoch's protocol orders may be long.
            self.disk.is_some(),
            self.peer_security.clone(),
            &self.metrics,
        )?;
        let snapshots = match &self.disk {
            Some(disk) => SnapshotThread::start(disk.snapshots().clone())?,
            None => SnapshotThread::none(),
        };
        let workers = Workers::start()?;
        let mut core = Core::<P> {
            host: self.host,
            folder: self.folder,
            disk: self.disk,
            held: None,
            snapshots,
            workers,
            links,
            clock: self.clock,
            group: Group::new(self.members, self.peer_addresses, scheme, self.volunteers),
            auto_shrink: AutoShrink::new(self.reaction),
            level: self.level,
            payload_threshold: self.handle.payload_threshold(),
            certificates: self.certificates,
            peer_proof: self.peer_security.proof(),
            polls: self.polling.is_busy,
            metrics: self.metrics,
            state: CoreState::new(self.request_timeout, self.slow_request),
        };
        core.check_level()?;
        core.expect_payloads()?;
        let first = core.begin()?;
        // Who waits for it may have been told to stop.
        let _ = begun.send(core.links.tunnels());
        let inputs = Inputs {
            requests: self.requests,
            arrivals,
            stop: self.stop,
            handle: self.handle,
        };
        core.run(inputs, first).await
    }
}

/// What a replica with so many peers reaches them by.
fn way(
    peers: PeerLinks,
    layout: Layout,
    polling: &Polling,
    count: usize,
) -> io::Result<TransportSetup> {
    let (ports, datagrams) = match peers {
        PeerLinks::Sockets { ports, datagrams } => (ports, datagrams),
        PeerLinks::Rings(rings) => return Ok(TransportSetup::Rings(rings)),
    };
    let threads = match layout {
        Layout::Fused | Layout::Threaded => SocketThreads::default(),
        Layout::Split => SocketThreads {
            rx: Some(LinksThread::for_messages(polling.rx())?),
            tx: Some(Tx::start(polling.tx())?),
        },
    };
    let handle = threads.handle();
    let _inside = handle.enter();
    let datagrams = datagrams.map(|port| Datagrams::new(port, count));
    let listener = Listener::of_all(ports, Door::Peer)?;
    Ok(TransportSetup::Sockets(
        listener,
        datagrams.transpose()?,
        threads,
    ))
}

/// Gives the core a thread and an event loop of its own.
fn on_own_thread<P: ProtocolSet>(
    replica: Replica<P>,
    begun: oneshot::Sender<Option<Tunnels>>,
) -> io::Result<JoinHandle<Result<(), ServerError>>> {
    let runtime = runtime()?;
    let (done, result) = oneshot::channel();
    std::thread::Builder::new()
        .name("core".to_owned())
        .spawn(move || {
            replica.polling.core().take();
            let served = runtime.block_on(async { tokio::spawn(replica.run(begun)).await });
            runtime.shutdown_background();
            let _ = done.send(ended(served));
        })?;
    Ok(tokio::spawn(async move {
        result
            .await
            .unwrap_or_else(|gone| Err(ServerError::Core(gone.to_string())))
    }))
}

/// What the core came to.
fn ended(core: Result<Result<(), ServerError>, JoinError>) -> Result<(), ServerError> {
    core.unwrap_or_else(|gone| Err(ServerError::Core(gone.to_string())))
}

fn identity(meta: &Meta, boot: Boot, config: &ServerConfig) -> Identity {
    let mut members = config.members.iter();
    let own = members.find(|member| member.id == meta.replica);
    let about = own.map(|own| PeerInfo {
        name: own.name.clone(),
        client_url: own.client_url.clone(),
        level: config.supported.level(),
    });
    Identity {
        about: about.filter(|_| config.supported.says_more()),
        cluster: meta.cluster,
        me: meta.replica,
        incarnation: meta.incarnation,
        boot,
        supported: config.supported,
        group: meta.group,
        epoch: meta.epoch.clone(),
        epoch_digest: meta.epoch.digest(),
    }
}

/// Bits nobody can guess or repeat: boots must never meet again, and members must not draw the same jitter.
pub(crate) fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
