//! A replica, or a gateway, behind each face.
//!
//! The futures of faces are compiled here, with the effort that requests are worth, while the command line, which is
//! large and seldom waited for, is compiled beside it with less.

mod gateway;
mod redis;

pub use gateway::{FaceOf, GatewayFace, run_gateway};
pub use redis::RealServer;

use quorate_server::{ClientPorts, FaceContext, Metrics, ServerConfig, ServerError, Serving};
use quorate_server::{StopSignal, run};
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;

/// A face with its options, and what keeps the data where several things can.
pub enum Face {
    /// The etcd v3 services.
    Etcd(Box<quorate_face_etcd::Limits>),
    /// The plain store over HTTP.
    Plain(quorate_face_plain::Limits),
    /// Redis's protocol, over a real server if there is one and over the embedded store otherwise.
    Redis(quorate_face_redis::FaceOptions, Option<RealServer>),
}

/// What the process around a replica or a gateway does at turns of its life.
pub struct Turns {
    /// Called once, when requests of clients are answered.
    pub ready: Box<dyn FnOnce()>,
    /// Called when it begins to stop.
    pub stopping: fn(),
}

impl fmt::Debug for Turns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turns").finish_non_exhaustive()
    }
}

/// Runs a replica until it is told to stop, and says by which signal.
///
/// # Errors
///
/// What [`quorate_server::run`] fails with.
pub fn run_replica(
    config: ServerConfig,
    ports: ClientPorts,
    face: Face,
    turns: Turns,
) -> Result<Option<StopSignal>, ServerError> {
    let (ready, stopping) = (turns.ready, turns.stopping);
    match face {
        Face::Etcd(limits) => {
            let store = quorate_etcd_store::Store::new();
            let mut limits = *limits;
            limits.users = limits.users.with_board(store.board());
            let face = move |context| etcd(context, limits, stopping);
            run(config, ports, store, face, ready)
        }
        Face::Plain(limits) => {
            let store = quorate_plain_store::Store::new();
            let face = move |context| plain(context, limits, stopping);
            run(config, ports, store, face, ready)
        }
        Face::Redis(options, server) => {
            let (application, face) = redis::application(options, server, stopping);
            run(config, ports, application, face, ready)
        }
    }
}

/// The etcd face.
fn etcd(
    context: FaceContext<quorate_etcd_store::Store>,
    limits: quorate_face_etcd::Limits,
    stopping: fn(),
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping, stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_etcd::serve(ports, context.handle, limits, Some(render), stop).await;
        Ok(())
    })
}

/// The plain face.
fn plain(
    context: FaceContext<quorate_plain_store::Store>,
    limits: quorate_face_plain::Limits,
    stopping: fn(),
) -> Serving {
    let (render, stop) = (render(context.metrics), stop(context.stopping, stopping));
    Box::pin(async move {
        let ports = context.listeners;
        quorate_face_plain::serve(ports, context.handle, limits, Some(render), stop).await;
        Ok(())
    })
}

/// A page of metrics for a face.
fn render(metrics: Arc<Metrics>) -> quorate_face_common::Metrics {
    Arc::new(move || metrics.render())
}

/// Ends when a face should take no more requests.
async fn stop(mut told: watch::Receiver<bool>, stopping: fn()) {
    // An error means that nobody is left to say stop.
    let _ = told.wait_for(|stop| *stop).await;
    stopping();
}
