//! A remote gateway: a process that has a cluster order what its clients write, and keeps nothing.
//!
//! It dials the members it was told of, learns the newest epoch and the other members from them ([`reach`]), and
//! serves clients once one has answered, with the face that the epoch names. What it cannot do without the state
//! (reads, watches, leases, whatever is about the cluster) its face passes on to a member ([`Upstream`]).

mod core;
mod members;

use crate::budget::{Budget, CLIENT_MEMORY};
use crate::clock::{Clock, ClockSource};
use crate::error::ServerError;
use crate::handle::{Handle, ReplicaHandle};
use crate::metrics::Metrics;
use crate::peer::gateways::GatewayWelcome;
use crate::run::{AbortOnDrop, Serving, random_u64, runtime, supervise};
use crate::run::{QUEUE_MAX, REQUEST_TIMEOUT};
use crate::security::{Door, Listener};
use crate::stop_signal::{StopSignal, stop_signal};
use crate::test_source::TestSource;
use crate::tls::{Certificates, PeerSecurity, PortTls};
use members::MemberEvent;
use quorate_core::{ClusterId, CommandProperties, Epoch, ReplicaId};
use quorate_host::{Limits, SupportedVersions};
use quorate_tls::Connector;
use std::fmt;
use std::future::Future;
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};

/// Everything a gateway is run with.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The addresses of members' peer ports: `host:port`.
    pub members: Vec<String>,
    /// Whether the gateway also dials the addresses that members have for each other.
    pub learns: bool,
    /// The cluster that members must belong to; `None` for any.
    pub cluster: Option<ClusterId>,
    /// The wire versions that the gateway speaks.
    pub supported: SupportedVersions,
    /// The bounds on the length of commands and the number of requests.
    pub limits: Limits,
    /// Requests that may wait between handle and core.
    pub queue_max: usize,
    /// The longest time a request may wait for its answer.
    pub request_timeout: Duration,
    /// The most memory for requests being received and answers not yet taken, in bytes.
    pub client_memory: usize,
    /// What connects to members' ports for clients, where those speak TLS.
    pub upstream_tls: Option<Arc<Connector>>,
    /// What connections to members' peer ports begin with.
    pub peer_security: PeerSecurity,
    /// What connections of clients begin with, if they are to be encrypted.
    pub client_tls: Option<Arc<PortTls>>,
    /// The source of the bound on the clock's error.
    pub clock: ClockSource,
    /// Faults of the clock that a test asks for.
    pub test_source: TestSource,
}

impl GatewayOptions {
    /// For members of whichever cluster there is, with everything else as a server has it.
    #[must_use]
    pub fn to(members: Vec<String>) -> GatewayOptions {
        GatewayOptions {
            members,
            learns: true,
            cluster: None,
            supported: SupportedVersions::SHIPPED,
            limits: Limits::default(),
            queue_max: QUEUE_MAX,
            request_timeout: REQUEST_TIMEOUT,
            client_memory: CLIENT_MEMORY,
            upstream_tls: None,
            peer_security: PeerSecurity::default(),
            client_tls: None,
            clock: ClockSource::default(),
            test_source: TestSource::default(),
        }
    }
}

/// What a gateway knows of the members.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Upstream {
    /// The cluster that the gateway serves.
    pub cluster: ClusterId,
    /// The number under which the members know the gateway.
    pub me: ReplicaId,
    /// The URLs at which reachable members serve clients.
    pub urls: Vec<String>,
    /// Whether the gateway orders writes itself: where the protocol has remote gateways.
    pub orders: bool,
}

/// What the face of a gateway gets to work with.
#[derive(Debug)]
pub struct GatewayContext<A> {
    /// The handle by which writes are ordered; everything else is refused.
    pub handle: Handle<A>,
    /// The face's port for clients.
    pub listener: Listener,
    /// The metrics for the face's page.
    pub metrics: Arc<Metrics>,
    /// What is known of the members at any time.
    pub upstream: watch::Receiver<Upstream>,
    /// The longest time a member may take for an answer before another one is asked.
    pub request_timeout: Duration,
    /// What connects to members' ports for clients, where those speak TLS.
    pub upstream_tls: Option<Arc<Connector>>,
    /// Becomes true when it should take no more requests and finish those under way.
    pub stopping: watch::Receiver<bool>,
}

/// A gateway in the process of its client (the paper's non-proxy mode). It works while the runtime does in which
/// it was linked, and ends with this.
#[derive(Debug)]
pub struct LinkedGateway<A> {
    /// The handle by which writes are ordered; everything else is refused, since the members have the state.
    pub handle: Handle<A>,
    /// What is known of the members at any time.
    pub upstream: watch::Receiver<Upstream>,
    metrics: Arc<Metrics>,
    core: JoinHandle<Result<(), ServerError>>,
    /// The core ends when this is set or dropped.
    stop: watch::Sender<bool>,
}

impl<A> LinkedGateway<A> {
    /// The gateway's metrics, for a page that people look at.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Ends the gateway. What was asked for and not answered may still be done.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn unlink(self) -> Result<(), ServerError> {
        self.stop.send_replace(true);
        ended(self.core.await)
    }
}

/// A cluster of which a member has answered a gateway.
#[derive(Debug)]
pub struct ReachedCluster {
    settings: core::Settings,
    members: members::Members,
    metrics: Arc<Metrics>,
    clock: Clock,
    queue_max: usize,
    /// The first member that answered: the index of its address, and its welcome.
    first: (usize, Box<GatewayWelcome>),
}

/// Dials members until one has answered. Connections are tasks of the present runtime.
///
/// # Errors
/// Those of the operating system.
pub async fn reach(options: GatewayOptions) -> Result<ReachedCluster, ServerError> {
    let metrics = Arc::new(Metrics::new());
    let clock = Clock::new(options.clock, options.test_source);
    let settings = core::Settings {
        cluster: options.cluster,
        learns: options.learns,
        supported: options.supported,
        security: options.peer_security,
        limits: options.limits,
        patience: options.request_timeout,
        jitter_seed: random_u64()?,
    };
    let hello = settings.hello()?;
    let mut members = members::Members::start(options.members, hello, &settings, &metrics);
    let first = loop {
        match members.news.recv().await {
            Some(MemberEvent::Welcome { place, welcome }) => break (place, welcome),
            Some(MemberEvent::Taken) => members.rename(settings.hello()?),
            Some(MemberEvent::Lost { .. }) => {}
            None => return Err(ServerError::Core("no member is dialled".to_owned())),
        }
    };
    Ok(ReachedCluster {
        settings,
        members,
        metrics,
        clock,
        queue_max: options.queue_max,
        first,
    })
}

impl ReachedCluster {
    /// The newest epoch that whoever answered knows: what the cluster agrees on, its face included.
    #[must_use]
    pub fn epoch(&self) -> &Epoch {
        &self.first.1.epoch
    }

    /// Links a gateway to it into this process. `A` must be the application that the cluster's replicas
    /// have, and these the properties of its commands. The gateway's core runs as a task of the present runtime.
    #[must_use]
    pub fn link<A>(self, commands: CommandProperties) -> LinkedGateway<A> {
        let (handle, requests) = ReplicaHandle::new(self.queue_max);
        let handle = handle.recording(self.metrics.face.clone());
        let (stop, stopping) = watch::channel(false);
        let (tell_upstream, upstream) = watch::channel(Upstream::default());
        let metrics = Arc::clone(&self.metrics);
        let (settings, members) = (self.settings, self.members);
        let mut core = core::Core::new(
            settings,
            commands,
            members,
            self.clock,
            metrics,
            tell_upstream,
        );
        let (place, welcome) = self.first;
        core.welcomed(place, *welcome);
        let core = core.spawn(requests, stopping);
        LinkedGateway {
            handle: Handle::of(handle),
            upstream,
            metrics: self.metrics,
            core,
            stop,
        }
    }
}

/// Links a gateway into this process, and waits until a member has answered; see [`ReachedCluster::link`].
///
/// # Errors
/// Those of the operating system.
pub async fn link<A>(
    options: GatewayOptions,
    commands: CommandProperties,
) -> Result<LinkedGateway<A>, ServerError> {
    Ok(reach(options).await?.link(commands))
}

/// What the core came to.
fn ended(core: Result<Result<(), ServerError>, JoinError>) -> Result<(), ServerError> {
    core.unwrap_or_else(|gone| Err(ServerError::Core(gone.to_string())))
}

/// A gateway that has reached its cluster and is about to serve.
pub struct ReadyGateway {
    reached: ReachedCluster,
    client_port: TcpListener,
    request_timeout: Duration,
    client_memory: Budget,
    client_tls: Option<Arc<PortTls>>,
    upstream_tls: Option<Arc<Connector>>,
    ready: Box<dyn FnOnce()>,
    signal: Pin<Box<dyn Future<Output = StopSignal>>>,
}

impl fmt::Debug for ReadyGateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Starting").field(&self.reached).finish()
    }
}

impl ReadyGateway {
    /// The newest epoch of the cluster; see [`ReachedCluster::epoch`].
    #[must_use]
    pub fn epoch(&self) -> &Epoch {
        self.reached.epoch()
    }

    /// Serves until the process is told to stop; see [`ReachedCluster::link`].
    ///
    /// # Errors
    /// Those of the operating system, and of the face.
    pub async fn serve<A>(
        self,
        commands: CommandProperties,
        face: impl FnOnce(GatewayContext<A>) -> Serving,
    ) -> Result<(), ServerError> {
        let mut linked = self.reached.link::<A>(commands);
        (linked.metrics).show_client_memory(self.client_memory.clone());
        let certificates = Certificates::of(self.client_tls.clone(), PeerSecurity::default());
        linked.metrics.show_certificates(certificates.clone());
        let _expiry = AbortOnDrop(tokio::spawn(certificates.watch()));
        let (tell_face, stopping) = watch::channel(false);
        let face = tokio::spawn(face(GatewayContext {
            handle: linked.handle.clone(),
            listener: Listener::new(self.client_port, Door::Client)?
                .counted(linked.metrics.client_connections())
                .budgeted(self.client_memory)
                .secured(self.client_tls),
            metrics: linked.metrics(),
            upstream: linked.upstream.clone(),
            request_timeout: self.request_timeout,
            upstream_tls: self.upstream_tls,
            stopping,
        }));
        (self.ready)();
        let served = tokio::select! {
            result = &mut linked.core => return ended(result),
            served = supervise(face, self.signal, tell_face) => served.map(drop),
        };
        linked.unlink().await.and(served)
    }
}

/// Runs a gateway until it is told to stop by SIGTERM or SIGINT.
///
/// `serve` is called once a member has answered, and chooses the face by what that says of the cluster; `ready`
/// once the port for clients answers.
///
/// # Errors
/// Those of the operating system, and of `serve`.
pub fn run_gateway<S>(
    options: GatewayOptions,
    client_port: TcpListener,
    serve: impl FnOnce(ReadyGateway) -> S,
    ready: impl FnOnce() + 'static,
) -> Result<(), ServerError>
where
    S: Future<Output = Result<(), ServerError>>,
{
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let request_timeout = options.request_timeout;
        let client_memory = Budget::new(options.client_memory);
        let (client_tls, upstream_tls) = (options.client_tls.clone(), options.upstream_tls.clone());
        let mut signal = Box::pin(stop_signal()?);
        let reached = tokio::select! {
            reached = reach(options) => reached?,
            signal = &mut signal => {
                tracing::info!("{signal} received, stopping");
                return Ok(());
            }
        };
        let starting = ReadyGateway {
            reached,
            client_port,
            request_timeout,
            client_memory,
            client_tls,
            upstream_tls,
            ready: Box::new(ready),
            signal,
        };
        serve(starting).await
    });
    runtime.shutdown_background();
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}
