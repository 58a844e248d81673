//! The face over real servers: clients are relayed, and operators have pages.

mod orders;
mod page;

use crate::RedisApplication;
use crate::serve::serve_operators;
use page::routes;
use quorate_face_common::Metrics;
use quorate_redis_relay::{Prepared, Relay};
use quorate_server::{ClientListeners, Handle, Tunnels};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long open requests of operators may take after the face was told to stop.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `shutdown` completes: clients of Redis by a server that is relayed to, operators over HTTP.
///
/// # Errors
/// When the relay cannot be started.
pub async fn serve_effects(
    ports: ClientListeners,
    handle: Handle<RedisApplication>,
    prepared: Prepared,
    tunnels: Option<Tunnels>,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), String> {
    let stopping = watch::Sender::new(false);
    let admin = (ports.http.as_ref()).and_then(|port| port.local_addr().ok());
    let (server, users_mark) = (prepared.server(), prepared.users_mark());
    let relay = Relay::start(
        prepared,
        Box::new(orders::Replica::new(handle.clone())),
        ports.clients,
        tunnels,
        admin.map(|admin| admin.to_string()),
    );
    let relay = relay.map_err(|error| format!("no thread for clients of Redis: {error}"))?;
    let pages = page::Pages {
        handle,
        board: relay.board(),
        server,
        users_mark,
    };
    let routes = routes(&Arc::new(pages), metrics);
    let operators = serve_operators((ports.http, ports.observers), routes, DRAIN, &stopping);
    let stop = async {
        shutdown.await;
        stopping.send_replace(true);
    };
    tokio::join!(operators, stop);
    // Its thread ends within a bounded time; nothing else is to be served any more.
    let ended = tokio::task::spawn_blocking(move || relay.stop()).await;
    ended.map_err(|error| error.to_string())
}
