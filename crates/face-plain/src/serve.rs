//! Listening and serving.

use crate::{batch, keys};
use axum::extract::{DefaultBodyLimit, Path, RawQuery};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post, put};
use axum::{Extension, Router};
use bytes::Bytes;
use quorate_core::{Principal, Wire};
use quorate_face_common::{
    ConnectionLimits, Console, Metered, Metrics, Probing, json, observer_limits, observing,
    serve_routes, share_out,
};
use quorate_plain_store::{Item, Outcome, Query, QueryAnswer, Refused, Store, Write};
use quorate_server::{Account, ClientListeners, Consistency, Failure, Handle, Listener};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::service::Routes;

/// The longest key: a path of a URL has room for it.
pub(crate) const KEY_BYTES_MAX: usize = 1024;

/// The routes of a key, and of several that are read.
pub(crate) const KEY: &str = "/kv/{*key}";
pub(crate) const READ: &str = "/read";

/// What the face lets in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Most connections that are open at a time.
    pub connections_max: usize,
    /// The largest request, in bytes.
    pub request_bytes_max: usize,
    /// How long open requests may take after the face was told to stop.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections_max: 10_000,
            request_bytes_max: 3 << 19,
            drain: Duration::from_secs(5),
        }
    }
}

impl Limits {
    /// What concerns connections.
    fn connections(&self) -> ConnectionLimits {
        ConnectionLimits {
            connections_max: self.connections_max,
            drain: self.drain,
            ..ConnectionLimits::default()
        }
    }
}

/// The face of one replica.
#[derive(Clone)]
pub(crate) struct Face {
    handle: Handle<Store>,
}

impl Face {
    pub(crate) fn new(handle: Handle<Store>) -> Face {
        Face { handle }
    }

    /// Writes, and says what it came to.
    pub(crate) async fn write(&self, write: &Write) -> Result<Result<Outcome, Refused>, Failure> {
        // Until there is authentication, everybody is the operator.
        let result = self
            .handle
            .write(write.to_bytes(), Principal::default())
            .await;
        match Outcome::decode(&result?) {
            Err(Refused::NoSpace) => Err(Failure::NoSpace),
            Err(Refused::Corrupt) => Err(Failure::Corrupt),
            outcome => Ok(outcome),
        }
    }

    /// Reads keys at one time.
    pub(crate) async fn read(
        &self,
        keys: Vec<Bytes>,
        consistency: Consistency,
    ) -> Result<Vec<Option<Item>>, Failure> {
        match self.handle.read(Query::Get(keys), consistency).await? {
            QueryAnswer::Got(items) => Ok(items),
            // Not what was asked for: as good as none.
            QueryAnswer::Count(_) => Ok(Vec::new()),
        }
    }

    fn probe(self, consistency: Consistency) -> Probing {
        Box::pin(async move {
            let counted = self.handle.read(Query::Count, consistency).await;
            counted.map(|_| ()).map_err(|failure| failure.to_string())
        })
    }
}

/// Serves until `shutdown` completes, then lets open requests finish for a while.
pub async fn serve(
    ports: impl Into<ClientListeners>,
    handle: Handle<Store>,
    limits: Limits,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let (ports, stopping) = (ports.into(), watch::Sender::new(false));
    let face = Face::new(handle);
    let router = router(&face, metrics, limits.request_bytes_max);
    let all = limits.connections();
    let [_, of_http] = share_out(&all);
    let of_observers = observer_limits(&all);
    // All of it is plain HTTP: at a port of its own it is served as well.
    let http = serve_routes(ports.http, router.clone(), &of_http, stopping.subscribe());
    let observed = observing(router.clone());
    let observers = serve_routes(
        ports.observers,
        observed,
        &of_observers,
        stopping.subscribe(),
    );
    let clients = serve_router(router, ports.clients, &limits, async {
        shutdown.await;
        stopping.send_replace(true);
    });
    tokio::join!(clients, http, observers);
}

/// Serves these routes; see [`serve`].
pub(crate) async fn serve_router(
    router: Router,
    listener: Listener,
    limits: &Limits,
    shutdown: impl Future<Output = ()>,
) {
    let account = listener.budget().account();
    let routes = Metered::new(Routes::from(router).prepare(), account);
    let connections = limits.connections();
    quorate_face_common::serve(listener, routes, &connections, |one| one, shutdown).await;
}

fn router(face: &Face, metrics: Option<Metrics>, request_bytes_max: usize) -> Router {
    let console = Console {
        handle: face.handle.clone(),
        metrics,
        more_metrics: None,
        counts: Arc::default(),
        probe: {
            let face = face.clone();
            Arc::new(move |consistency| face.clone().probe(consistency))
        },
        guard: None,
    };
    let (single, several) = (face.clone(), face.clone());
    let read = async move |Path(key): Path<String>, RawQuery(query): RawQuery| {
        keys::get(&single, key, query.as_deref()).await
    };
    let reads = Router::new().route(KEY, get(read)).route(
        READ,
        post(
            async move |Extension(account): Extension<Account>, body: Bytes| {
                batch::read(&several, &account, &body).await
            },
        ),
    );
    let router = reads
        .merge(writes(face))
        .route("/version", get(version))
        .layer(DefaultBodyLimit::max(request_bytes_max));
    quorate_face_common::add_routes(router, console)
}

/// The routes of whatever is ordered.
pub(crate) fn writes(face: &Face) -> Router {
    let [puts, deletes, several] = [(); 3].map(|()| face.clone());
    let of_key = put(
        async move |Path(key): Path<String>, headers: HeaderMap, value: Bytes| {
            keys::put(&puts, key, &headers, value).await
        },
    )
    .delete(async move |Path(key): Path<String>, headers: HeaderMap| {
        keys::delete(&deletes, key, &headers).await
    });
    Router::new().route(KEY, of_key).route(
        "/write",
        post(async move |body: Bytes| batch::write(&several, &body).await),
    )
}

async fn version() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    json(StatusCode::OK, format!(r#"{{"quorate":"{version}"}}"#))
}
