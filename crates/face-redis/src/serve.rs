//! Listening and serving.

use crate::access::Users;
use crate::application::RedisApplication;
use crate::clients::{Clients, Place};
use crate::connection::serve_connection;
use crate::fed::Fed;
use crate::limits::Limits;
use crate::page::routes;
use crate::pubsub::Subscriptions;
use crate::server::{Counters, Server};
use crate::session::Session;
use axum::Router;
use quorate_face_common::{ConnectionLimits, Metrics, observer_limits, observing, serve_routes};
use quorate_redis_store::Subscribers;
use quorate_server::{Account, ClientListeners, Connection, Handle, Listener};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// What a client is told for whom there is no room.
const NO_ROOM: &[u8] = b"-ERR max number of clients reached\r\n";

/// Connections of operators, at a time.
const OPERATORS_MAX: usize = 64;

/// What a face is made of, beside its ports and its replica.
#[derive(Debug)]
pub struct FaceOptions {
    /// What clients may do.
    pub limits: Limits,
    /// Who may do what.
    pub users: Users,
    /// The subscriptions that the store tells of messages.
    pub subscriptions: Arc<Subscriptions>,
}

impl FaceOptions {
    /// What the store is to tell of messages.
    #[must_use]
    pub fn subscribers(&self) -> Arc<dyn Subscribers> {
        Arc::clone(&self.subscriptions) as Arc<dyn Subscribers>
    }
}

/// Serves until `shutdown` completes, then lets open requests finish for a while. Clients of Redis are served at the
/// ports for clients, operators over HTTP at those for plain HTTP.
pub async fn serve(
    ports: impl Into<ClientListeners>,
    handle: Handle<RedisApplication>,
    options: FaceOptions,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    serve_over(ports, (handle, None), options, metrics, shutdown).await;
}

/// Serves clients by the embedded store, or by a server that is fed if there is one.
pub(crate) async fn serve_over(
    ports: impl Into<ClientListeners>,
    (handle, fed): (Handle<RedisApplication>, Option<Fed>),
    options: FaceOptions,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let (ports, stopping) = (ports.into(), watch::Sender::new(false));
    let server = Arc::new(Server {
        handle,
        limits: options.limits,
        is_settled: watch::Sender::new(fed.is_some() || !options.users.are_given()),
        fed,
        users: options.users,
        subscriptions: options.subscriptions,
        clients: Arc::new(Clients::default()),
        counters: Counters::default(),
        port: ports
            .clients
            .local_addr()
            .map_or(0, |address| address.port()),
        admin: (ports.http.as_ref()).and_then(|port| port.local_addr().ok()),
        began: Instant::now(),
    });
    let routes = routes(&server, metrics);
    let drain = server.limits.drain;
    let operators = serve_operators((ports.http, ports.observers), routes, drain, &stopping);
    let clients = accept_all(&server, ports.clients, stopping.subscribe());
    let stop = async {
        shutdown.await;
        stopping.send_replace(true);
    };
    let settle = async {
        let mut stopped = stopping.subscribe();
        tokio::select! {
            () = server.settle_users() => {}
            _ = stopped.wait_for(|stop| *stop) => {}
        }
    };
    tokio::join!(clients, operators, stop, settle);
}

/// Serves operators over HTTP, and at another port those who only look, until it is time to stop.
pub(crate) async fn serve_operators(
    (operators, observers): (Option<Listener>, Option<Listener>),
    routes: Router,
    drain: Duration,
    stopping: &watch::Sender<bool>,
) {
    let of_operators = ConnectionLimits {
        connections_max: OPERATORS_MAX,
        drain,
        ..ConnectionLimits::default()
    };
    let of_observers = observer_limits(&of_operators);
    let observed = observing(routes.clone());
    let operators = serve_routes(operators, routes, &of_operators, stopping.subscribe());
    let observers = serve_routes(observers, observed, &of_observers, stopping.subscribe());
    tokio::join!(operators, observers);
}

/// Takes connections of clients until it is to stop, and ends them then.
async fn accept_all(server: &Arc<Server>, listener: Listener, stopping: watch::Receiver<bool>) {
    let counts = listener.counts();
    counts.allowed.set(server.limits.connections_max as f64);
    let budget = listener.budget();
    let mut stop = stopping.clone();
    let mut stop = pin!(stop.wait_for(|stop| *stop));
    loop {
        let (stream, from) = tokio::select! {
            _ = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        server.counters.connections.fetch_add(1, Relaxed);
        let to = stream.local_addr().ok();
        let place = server
            .clients
            .admit(from, to, server.limits.connections_max);
        counts.open.set(server.clients.count() as f64);
        let Some(place) = place else {
            server.counters.refused.fetch_add(1, Relaxed);
            counts.refused.increment(1);
            // The kernel has room for this, or the client is told nothing.
            let _ = stream.try_write(NO_ROOM);
            continue;
        };
        let (server, tls) = (Arc::clone(server), listener.tls());
        let (account, stopping) = (budget.account(), stopping.clone());
        let counts = listener.counts();
        tokio::spawn(async move {
            let connection = match &tls {
                None => Some((stream.into(), None)),
                Some(tls) => match tls.accept(stream).await {
                    Ok(connection) => {
                        let name = tls.user_of(&connection);
                        Some((connection, name))
                    }
                    Err(error) => {
                        counts.tls_failed.increment(1);
                        if let Some(left_out) = counts.log.admit(error.kind()) {
                            tracing::warn!(%from, left_out, "a client's connection was refused: {error}");
                        }
                        None
                    }
                },
            };
            if let Some((connection, name)) = connection {
                begin(
                    &server,
                    connection,
                    name.as_deref(),
                    &place,
                    &account,
                    stopping,
                )
                .await;
            }
            drop(place);
            counts.open.set(server.clients.count() as f64);
        });
    }
    drop(listener);
    let left = tokio::time::timeout(server.limits.drain, server.clients.all_left()).await;
    if left.is_err() {
        server.clients.close_all();
    }
}

/// Serves a client, in the name that its certificate has if there is such a user.
async fn begin(
    server: &Arc<Server>,
    connection: Connection,
    name: Option<&str>,
    place: &Place,
    account: &Account,
    stopping: watch::Receiver<bool>,
) {
    let (stream, charge) = (Box::new(connection), account.charge());
    let client = Arc::clone(&place.client);
    let mut is_settled = server.is_settled.subscribe();
    // An error means that nobody is left to say so.
    if is_settled.wait_for(|settled| *settled).await.is_err() {
        return;
    }
    let mut session = Session::new(Arc::clone(server), client, stream, charge);
    if let Some(name) = name {
        session.log_in_as(name.as_bytes());
    }
    serve_connection(session, stopping).await;
}
