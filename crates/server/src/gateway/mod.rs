//! A gateway apart: a process that has a cluster order what its clients write, and keeps nothing.
//!
//! It dials the members it was told of, learns the newest epoch and the other members from them, and serves
//! clients once one has answered. What it cannot do without the state (reads, watches, leases, whatever is
//! about the cluster) its face passes on to a member ([`Upstream`]).

mod core;
mod members;

use crate::clock::{Clock, ClockSource};
use crate::error::ServerError;
use crate::handle::Handle;
use crate::metrics::Metrics;
use crate::run::{QUEUE_MAX, REQUEST_TIMEOUT};
use crate::run::{Serving, random_u64, runtime, stop_signal, supervise};
use crate::security::{Door, Listener};
use crate::test_source::TestSource;
use quorate_core::{Application, ClusterId, ReplicaId};
use quorate_host::{Limits, Spoken};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinError, JoinHandle};

/// Everything a gateway is run with.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Where members' peer ports are: `host:port`. The others are learned from them.
    pub members: Vec<String>,
    /// The cluster they must be of, if it matters.
    pub cluster: Option<ClusterId>,
    /// The versions of what members say that it speaks.
    pub spoken: Spoken,
    /// How long commands and how many requests may be.
    pub limits: Limits,
    /// Requests that may wait between handle and core.
    pub queue_max: usize,
    /// How long a request may wait for its answer.
    pub request_timeout: Duration,
    /// Who says how far its clock may be off.
    pub clock: ClockSource,
    /// What a test says of the clock.
    pub test_source: TestSource,
}

impl GatewayOptions {
    /// For members of whichever cluster there is, with everything else as a server has it.
    #[must_use]
    pub fn to(members: Vec<String>) -> GatewayOptions {
        GatewayOptions {
            members,
            cluster: None,
            spoken: Spoken::SHIPPED,
            limits: Limits::default(),
            queue_max: QUEUE_MAX,
            request_timeout: REQUEST_TIMEOUT,
            clock: ClockSource::default(),
            test_source: TestSource::default(),
        }
    }
}

/// What a gateway knows of the members.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Upstream {
    /// The cluster.
    pub cluster: ClusterId,
    /// Under which number the members know the gateway.
    pub me: ReplicaId,
    /// Where members serve clients, as URLs: those that can be reached.
    pub urls: Vec<String>,
    /// Whether the gateway orders writes itself: where the protocol has gateways apart.
    pub orders: bool,
}

/// What the face of a gateway gets to work with.
#[derive(Debug)]
pub struct GatewayContext<A: Application> {
    /// How it has writes ordered; everything else is refused.
    pub handle: Handle<A>,
    /// Its port.
    pub listener: Listener,
    /// For its metrics page.
    pub metrics: Arc<Metrics>,
    /// What is known of the members at any time.
    pub upstream: watch::Receiver<Upstream>,
    /// How long a member may take for an answer before another one is asked.
    pub request_timeout: Duration,
    /// Becomes true when it should take no more requests and finish those under way.
    pub stopping: watch::Receiver<bool>,
}

/// A gateway in the process of its client (the paper's non-proxy mode). It works while the runtime does in which
/// it was linked, and ends with this.
#[derive(Debug)]
pub struct Linked<A: Application> {
    /// How writes are ordered; everything else is refused, for the state is at the members.
    pub handle: Handle<A>,
    /// What is known of the members at any time.
    pub upstream: watch::Receiver<Upstream>,
    metrics: Arc<Metrics>,
    core: JoinHandle<Result<(), ServerError>>,
    /// With it the core ends.
    stop: watch::Sender<bool>,
}

impl<A: Application> Linked<A> {
    /// For people.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Ends it. What was asked for and not answered may still be done.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn unlink(self) -> Result<(), ServerError> {
        self.stop.send_replace(true);
        ended(self.core.await)
    }
}

/// Links a gateway into this process, and waits until a member has answered. Its core runs as a task of the
/// present runtime.
///
/// # Errors
/// Those of the operating system.
pub async fn link<A: Application + Send + 'static>(
    options: GatewayOptions,
) -> Result<Linked<A>, ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let metrics = Arc::new(Metrics::new());
    let clock = Clock::new(options.clock, options.test_source);
    let (handle, requests) = Handle::new(options.queue_max);
    let handle = handle.recording(metrics.face.clone());
    let (stop, stopping) = watch::channel(false);
    let (tell_upstream, upstream) = watch::channel(Upstream::default());
    let (begun, has_begun) = oneshot::channel();
    let settings = core::Settings {
        cluster: options.cluster,
        spoken: options.spoken,
        limits: options.limits,
        patience: options.request_timeout,
        dice: random_u64()?,
    };
    let links = members::Members::start(options.members, settings.hello()?, &settings, &metrics);
    let core = core::Core::<A>::new(settings, links, clock, Arc::clone(&metrics), tell_upstream);
    let core = tokio::spawn(core.run(requests, stopping, begun));
    if has_begun.await.is_err() {
        return ended(core.await).and(Err(ServerError::Core("it ended at once".to_owned())));
    }
    Ok(Linked {
        handle,
        upstream,
        metrics,
        core,
        stop,
    })
}

/// What the core came to.
fn ended(core: Result<Result<(), ServerError>, JoinError>) -> Result<(), ServerError> {
    core.unwrap_or_else(|gone| Err(ServerError::Core(gone.to_string())))
}

/// Runs a gateway until it is told to stop by SIGTERM or SIGINT.
///
/// `ready` is called once a member has answered and the port for clients does.
///
/// # Errors
/// Those of the operating system, and of the face.
pub fn run_gateway<A: Application + Send + 'static>(
    options: GatewayOptions,
    client_port: TcpListener,
    face: impl FnOnce(GatewayContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let runtime = runtime()?;
    let result = runtime.block_on(serve(options, client_port, face, ready));
    runtime.shutdown_background();
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}

async fn serve<A: Application + Send + 'static>(
    options: GatewayOptions,
    client_port: TcpListener,
    face: impl FnOnce(GatewayContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let request_timeout = options.request_timeout;
    let signal = stop_signal()?;
    tokio::pin!(signal);
    let mut linked = tokio::select! {
        linked = link::<A>(options) => linked?,
        name = &mut signal => {
            tracing::info!("{name} received, stopping");
            return Ok(());
        }
    };
    let (tell_face, stopping) = watch::channel(false);
    let face = tokio::spawn(face(GatewayContext {
        handle: linked.handle.clone(),
        listener: Listener::new(client_port, Door::Client)?,
        metrics: linked.metrics(),
        upstream: linked.upstream.clone(),
        request_timeout,
        stopping,
    }));
    ready();
    let served = tokio::select! {
        result = &mut linked.core => return ended(result),
        served = supervise(face, signal, tell_face) => served,
    };
    linked.unlink().await.and(served)
}
