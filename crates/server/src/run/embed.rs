//! Replicas in the process of their client.

use super::{ServerConfig, ended, start};
use crate::any_application::Embeddable;
use crate::error::ServerError;
use crate::handle::{Handle, ReplicaHandle};
use crate::metrics::Metrics;
use crate::peer::Tunnels;
use crate::timed_app::TimedApp;
use quorate_protocols::{ProtocolSet, Registered};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A replica in the process of its client, without a face. It ends with this.
#[derive(Debug)]
pub struct Embedded<A> {
    /// The handle to the replica.
    pub handle: Handle<A>,
    pub(super) running: Running,
}

impl<A> Embedded<A> {
    /// The replica's metrics, for a page that people look at.
    #[must_use]
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.running.metrics)
    }

    /// Stops the replica, and waits until it has ended.
    ///
    /// # Errors
    /// Why it had ended before.
    pub async fn stop(self) -> Result<(), ServerError> {
        self.running.stop.send_replace(true);
        ended(self.running.core.await)
    }

    fn of((handle, running): (ReplicaHandle, Running)) -> Self {
        Embedded {
            handle: Handle::of(handle),
            running,
        }
    }
}

/// What a replica that runs is held by, beside its handle.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) metrics: Arc<Metrics>,
    pub(super) tunnels: Option<Tunnels>,
    pub(super) core: JoinHandle<Result<(), ServerError>>,
    /// The core ends when this is set or dropped.
    pub(super) stop: watch::Sender<bool>,
}

/// Starts a replica in this process, and waits until it has begun. Its core is a task of the present runtime in the
/// `fused` layout, and has a thread of its own in others.
///
/// # Errors
/// Those of the operating system, and what is wrong with its folder.
pub async fn embed<A: Embeddable>(
    config: ServerConfig,
    app: A,
) -> Result<Embedded<A>, ServerError> {
    start_registered(config, TimedApp::new(app))
        .await
        .map(Embedded::of)
}

/// Starts a replica as [`embed`] does, of a cluster that runs one of these protocols. The core is compiled for them
/// where this is called.
///
/// # Errors
/// Those of [`embed`]; [`ServerError::Epoch`] where its folder names another protocol.
pub async fn embed_with<A: Embeddable, P: ProtocolSet>(
    config: ServerConfig,
    app: A,
) -> Result<Embedded<A>, ServerError> {
    start::<P>(config, TimedApp::new(app))
        .await
        .map(Embedded::of)
}

/// A replica that is about to run.
type Starting = Pin<Box<dyn Future<Output = Result<(ReplicaHandle, Running), ServerError>> + Send>>;

/// [`start`] for the protocols that come with this program. Neither this nor what is behind the pointer is generic, so
/// it is compiled in this crate and in no other.
fn start_registered(config: ServerConfig, app: TimedApp) -> Starting {
    Box::pin(start::<Registered>(config, app))
}
