//! The life of a process that serves: until a signal, or its face, ends it.

use crate::error::ServerError;
use crate::stop_signal::StopSignal;
use std::future::Future;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How long answers under way may take once the replica was told to stop.
const GRACE: Duration = Duration::from_secs(2);

/// A task that ends with this.
pub(crate) struct AbortOnDrop(pub(crate) JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Lets the face serve until it ends or a signal says stop; then gives it a little time. Says which signal it was.
pub(crate) async fn supervise(
    mut face: tokio::task::JoinHandle<Result<(), String>>,
    signal: impl Future<Output = StopSignal>,
    tell_face: watch::Sender<bool>,
) -> Result<Option<StopSignal>, ServerError> {
    let ended = |result: Result<Result<(), String>, tokio::task::JoinError>| match result {
        Ok(result) => result.map_err(ServerError::Face),
        Err(error) => Err(ServerError::Face(error.to_string())),
    };
    let signal = tokio::select! {
        result = &mut face => return ended(result).map(|()| None),
        signal = signal => signal,
    };
    tracing::info!("{signal} received, stopping");
    let _ = tell_face.send(true);
    match tokio::time::timeout(GRACE, &mut face).await {
        Ok(result) => ended(result).map(|()| Some(signal)),
        Err(_) => Ok(Some(signal)),
    }
}
