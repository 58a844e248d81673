//! Serving in command mode: by the replica's own server, which is fed with the log.

use crate::application::RedisApplication;
use crate::fed::Fed;
use crate::serve::{FaceOptions, serve_over};
use quorate_face_common::Metrics;
use quorate_redis_relay::{Feed, PreparedFeed};
use quorate_server::{ClientListeners, Handle};
use std::future::Future;
use tokio::sync::oneshot;

/// Serves until `shutdown` completes: clients of Redis by a server that is fed with the log, operators over HTTP.
///
/// # Errors
/// When the feed cannot be started, or gives up.
pub async fn serve_fed(
    ports: ClientListeners,
    handle: Handle<RedisApplication>,
    prepared: PreparedFeed,
    options: FaceOptions,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), String> {
    let program = prepared.server();
    let feed = Feed::start(prepared);
    let mut feed = feed.map_err(|error| format!("no thread for the server of Redis: {error}"))?;
    let fed = Fed {
        feed: feed.handle(),
        program,
    };
    let (tell, told) = oneshot::channel();
    let until = async {
        let why = tokio::select! {
            () = shutdown => Ok(()),
            why = feed.gave_up() => Err(why),
        };
        // The sender's other end waits until it has served.
        let _ = tell.send(why);
    };
    serve_over(ports, (handle, Some(fed)), options, metrics, until).await;
    // Its thread ends within a bounded time; nothing else is to be served any more.
    let ended = tokio::task::spawn_blocking(move || feed.stop()).await;
    ended.map_err(|error| error.to_string())?;
    // Nothing was told if serving ended by itself.
    told.await.unwrap_or(Ok(()))
}
