//! One replica from start to end.

use crate::clock::Clock;
use crate::core::{Core, Inputs, State as CoreState};
use crate::disk::Disk;
use crate::error::ServerError;
use crate::folder::Folder;
use crate::handle::{Handle, MemberInfo};
use crate::meta::{Meta, State};
use crate::metrics::Metrics;
use crate::peer::Links;
use crate::peer::handshake::Identity;
use crate::peer::lives::Lives;
use crate::security::{Door, Listener};
use crate::snap::Archive;
use crate::timed::Timed;
use bytes::Bytes;
use quorate_core::{Application, Boot, Durability, ReplicaId, Seat, Slot};
use quorate_host::{Host, HostConfig, Limits, LogSource, Start};
use quorate_protocols::Protocol;
use rustix::rand::{GetRandomFlags, getrandom};
use std::future::Future;
use std::io;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// How long answers under way may take once the replica was told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// Everything a replica is run with.
#[derive(Debug)]
pub struct ServerConfig {
    /// Its data, locked.
    pub folder: Folder,
    /// The bound port for clients.
    pub client_port: TcpListener,
    /// The bound port for peers.
    pub peer_port: TcpListener,
    /// All members, itself included, ascending.
    pub members: Vec<MemberInfo>,
    /// Where the other members' peer ports are: `host:port`.
    pub peer_addresses: Vec<(ReplicaId, String)>,
    /// Sizes of everything in the host.
    pub limits: Limits,
    /// Requests that may wait between faces and core.
    pub queue_max: usize,
    /// How long a request may wait for its answer.
    pub request_timeout: Duration,
}

/// What a face gets to work with.
#[derive(Debug)]
pub struct FaceContext<A: Application> {
    /// How it reaches the replica.
    pub handle: Handle<A>,
    /// Its port.
    pub listener: Listener,
    /// For its metrics page.
    pub metrics: Arc<Metrics>,
    /// Becomes true when it should take no more requests and finish those under way.
    pub stopping: watch::Receiver<bool>,
}

/// A face while it serves.
pub type Serving = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Runs one replica on the calling thread until it is told to stop by SIGTERM or SIGINT.
///
/// `ready` is called once the port for clients answers.
pub fn run<P: Protocol, A: Application>(
    config: ServerConfig,
    app: A,
    face: impl FnOnce(FaceContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(serve::<P, A>(config, app, face, ready));
    // Connections are cut here: nothing waits for a client that holds one open.
    runtime.shutdown_background();
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}

async fn serve<P: Protocol, A: Application>(
    config: ServerConfig,
    app: A,
    face: impl FnOnce(FaceContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let metrics = Arc::new(Metrics::new());
    let clock = Clock::default();
    let meta = config.folder.meta().clone();
    let boot = Boot(random_u64()?);
    let (host, disk) = open_host::<P, A>(&config, &meta, boot, app, &clock)?;
    let peers = Listener::new(config.peer_port, Door::Peer)?;
    let identity = identity(&meta, boot);
    let lives = Lives::open(config.folder.dir(), &meta.epoch)?;
    let (links, arrivals) = Links::start(peers, identity, lives, &config.peer_addresses, &metrics);
    let archive = match &disk {
        Some(disk) => Archive::start(disk.snapshots().clone(), disk.pool())?,
        None => Archive::none(),
    };
    let mut core = Core {
        host,
        folder: config.folder,
        disk,
        archive,
        links,
        clock,
        members: config.members,
        metrics: Arc::clone(&metrics),
        state: CoreState::default(),
    };
    core.begin()?;

    let (handle, requests) = Handle::new(config.queue_max, config.request_timeout);
    let handle = handle.recording(metrics.face.clone());
    let (tell_face, stopping) = watch::channel(false);
    let (tell_core, stop) = watch::channel(false);
    let listener = Listener::new(config.client_port, Door::Client)?;
    let core_handle = handle.clone();
    let face = tokio::spawn(face(FaceContext {
        handle,
        listener,
        metrics,
        stopping,
    }));
    let supervision = supervise(face, stop_signal()?, tell_face);
    ready();
    let mut core = std::pin::pin!(core.run(Inputs {
        requests,
        arrivals,
        stop,
        handle: core_handle,
    }));
    let served = tokio::select! {
        // Before it is told to stop, only trouble ends it.
        result = &mut core => return result,
        served = supervision => served,
    };
    tell_core.send_replace(true);
    core.await.and(served)
}

/// A host and the disk its log is on, if it keeps one.
type Opened<P, A> = (Host<<P as Protocol>::Machine, Timed<A>>, Option<Disk>);

/// Opens the log and the host, or says what is wrong with them.
fn open_host<P: Protocol, A: Application>(
    config: &ServerConfig,
    meta: &Meta,
    boot: Boot,
    app: A,
    clock: &Clock,
) -> Result<Opened<P, A>, ServerError> {
    let seat = Seat {
        group: meta.group,
        epoch: meta.epoch.clone(),
        me: meta.replica,
        boot,
    };
    let host_config = HostConfig {
        cluster: meta.cluster,
        incarnation: meta.incarnation,
        machine: P::config(&seat).map_err(ServerError::Epoch)?,
        seat,
        limits: Limits {
            follow: tracing::enabled!(tracing::Level::TRACE),
            ..config.limits
        },
        dice: random_u64()?,
    };
    let start = match meta.state {
        State::Bootstrapped => Start::FirstBoot,
        State::Lost => Start::Lost,
        State::Started => Start::Resume,
        State::Joining | State::Confirmed => {
            return Err(ServerError::Epoch(
                "this replica has not been allowed to begin yet".to_owned(),
            ));
        }
    };
    let dir = config.folder.log_dir();
    let mut disk = match meta.epoch.durability {
        Durability::Disk => Some(Disk::open(&dir, &config.folder.snapshots_dir())?),
        Durability::Memory => None,
    };
    if let (Start::FirstBoot | Start::Lost, Some(disk)) = (start, &mut disk) {
        disk.clear()?;
    }
    let log: &mut dyn LogSource = match &mut disk {
        Some(disk) => disk,
        None => &mut NoLog,
    };
    let opened = Host::open(host_config, start, log, Timed::new(app), clock.now());
    let (host, found) = opened.map_err(|error| ServerError::Log { dir, error })?;
    tracing::info!(
        replica = %meta.replica, cluster = %meta.cluster, protocol = meta.epoch.protocol,
        next_slot = %found.next, records = found.records, segments = found.segments.len(),
        snapshot = found.snapshot.map(|slot| slot.0),
        "log read"
    );
    for (slot, why) in &found.bad_snapshots {
        let path = disk.as_ref().map(|disk| disk.snapshots().path(*slot));
        let path = path.unwrap_or_default();
        tracing::warn!(path = %path.display(), "a snapshot cannot be used: {why}");
    }
    if let Some(at) = found.torn {
        tracing::info!(
            segment = at.segment,
            offset = at.offset,
            "an unfinished write at the end of the log, never acknowledged, was cut off"
        );
    }
    Ok((host, disk))
}

/// The log of a replica that lives in memory.
struct NoLog;

impl LogSource for NoLog {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }

    fn read(&mut self, _segment: u64) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _slot: Slot, _offset: u64, _len: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
}

fn identity(meta: &Meta, boot: Boot) -> Identity {
    Identity {
        cluster: meta.cluster,
        me: meta.replica,
        incarnation: meta.incarnation,
        boot,
        group: meta.group,
        epoch: meta.epoch.clone(),
        epoch_digest: meta.epoch.digest(),
    }
}

/// Lets the face serve until it ends or a signal says stop; then gives it a little time.
async fn supervise(
    mut face: tokio::task::JoinHandle<Result<(), String>>,
    signal: impl Future<Output = &'static str>,
    tell_face: watch::Sender<bool>,
) -> Result<(), ServerError> {
    let ended = |result: Result<Result<(), String>, tokio::task::JoinError>| match result {
        Ok(result) => result.map_err(ServerError::Face),
        Err(error) => Err(ServerError::Face(error.to_string())),
    };
    tokio::select! {
        result = &mut face => return ended(result),
        name = signal => tracing::info!("{name} received, stopping"),
    }
    let _ = tell_face.send(true);
    match tokio::time::timeout(GRACE, &mut face).await {
        Ok(result) => ended(result),
        Err(_) => Ok(()),
    }
}

/// Completes with the name of the signal that says stop.
fn stop_signal() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}

/// Bits nobody can guess or repeat: boots must never meet again, and members must not draw the
/// same jitter.
pub(crate) fn random_u64() -> io::Result<u64> {
    let mut bytes = [0; 8];
    getrandom(&mut bytes[..], GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
