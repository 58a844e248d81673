//! Serving in command mode: by the replica's own server, which is fed with the log.

use crate::application::RedisApplication;
use crate::fed::Fed;
use crate::serve::{FaceOptions, serve_over};
use quorate_face_common::Metrics;
use quorate_redis_relay::{Feed, PreparedFeed};
use quorate_server::{ClientListeners, Handle};
use std::future::Future;

/// Serves until `shutdown` completes: clients of Redis by a server that is fed with the log, operators over HTTP.
///
/// # Errors
/// When the feed cannot be started.
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
    let feed = feed.map_err(|error| format!("no thread for the server of Redis: {error}"))?;
    let fed = Fed {
        feed: feed.handle(),
        program,
    };
    serve_over(ports, (handle, Some(fed)), options, metrics, shutdown).await;
    // Its thread ends within a bounded time; nothing else is to be served any more.
    let ended = tokio::task::spawn_blocking(move || feed.stop()).await;
    ended.map_err(|error| error.to_string())
}
