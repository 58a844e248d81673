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
use crate::run::{Serving, random_u64, runtime, stop_signal, supervise};
use crate::security::{Door, Listener};
use crate::test_source::TestSource;
use quorate_core::{Application, ClusterId, ReplicaId};
use quorate_host::{Limits, Spoken};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Everything a gateway is run with.
#[derive(Debug)]
pub struct GatewayOptions {
    /// The bound port for clients.
    pub client_port: TcpListener,
    /// Where members' peer ports are: `host:port`. The others are learned from them.
    pub members: Vec<String>,
    /// The cluster they must be of, if it matters.
    pub cluster: Option<ClusterId>,
    /// The versions of what members say that it speaks.
    pub spoken: Spoken,
    /// How long commands and how many requests may be.
    pub limits: Limits,
    /// Requests that may wait between face and core.
    pub queue_max: usize,
    /// How long a request may wait for its answer.
    pub request_timeout: Duration,
    /// Who says how far its clock may be off.
    pub clock: ClockSource,
    /// What a test says of the clock.
    pub test_source: TestSource,
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

/// Runs a gateway until it is told to stop by SIGTERM or SIGINT.
///
/// `ready` is called once a member has answered and the port for clients does.
pub fn run_gateway<A: Application + Send + 'static>(
    options: GatewayOptions,
    face: impl FnOnce(GatewayContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let runtime = runtime()?;
    let result = runtime.block_on(serve(options, face, ready));
    runtime.shutdown_background();
    if result.is_ok() {
        tracing::info!("stopped");
    }
    result
}

async fn serve<A: Application + Send + 'static>(
    options: GatewayOptions,
    face: impl FnOnce(GatewayContext<A>) -> Serving,
    ready: impl FnOnce(),
) -> Result<(), ServerError>
where
    A::Query: Send + 'static,
    A::Answer: Send + 'static,
{
    let metrics = Arc::new(Metrics::new());
    let clock = Clock::new(options.clock, options.test_source);
    let (handle, requests) = Handle::new(options.queue_max);
    let handle = handle.recording(metrics.face.clone());
    let (tell_face, stopping) = watch::channel(false);
    let (tell_core, stop) = watch::channel(false);
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
    let mut core = tokio::spawn(core.run(requests, stop, begun));
    let ended = |core: Result<Result<(), ServerError>, tokio::task::JoinError>| {
        core.unwrap_or_else(|gone| Err(ServerError::Core(gone.to_string())))
    };
    let signal = stop_signal()?;
    tokio::pin!(signal);
    tokio::select! {
        begun = has_begun => if begun.is_err() { return ended(core.await); },
        name = &mut signal => {
            tracing::info!("{name} received, stopping");
            return Ok(());
        }
    }
    let listener = Listener::new(options.client_port, Door::Client)?;
    let face = tokio::spawn(face(GatewayContext {
        handle,
        listener,
        metrics,
        upstream,
        request_timeout: options.request_timeout,
        stopping,
    }));
    ready();
    let served = tokio::select! {
        result = &mut core => return ended(result),
        served = supervise(face, signal, tell_face) => served,
    };
    tell_core.send_replace(true);
    ended(core.await).and(served)
}
