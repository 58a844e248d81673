//! What operators see at the admin address: health, status, metrics, and how the cluster is changed.

use crate::fed_page;
use crate::own::REDIS_VERSION;
use crate::own_page;
use crate::rdb_body::file;
use crate::server::Server;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quorate_face_common::{Console, Metrics, MoreMetrics, Page, Probing, add_routes, json};
use quorate_redis_store::{Answer, Query};
use quorate_server::Consistency;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The routes for operators.
pub(crate) fn routes(server: &Arc<Server>, metrics: Option<Metrics>) -> Router {
    let [probed, counted, saved, shown, imported] = [(); 5].map(|()| Arc::clone(server));
    let more: MoreMetrics = Arc::new(move || {
        let page = figures(&counted);
        Box::pin(async move { page })
    });
    let console = Console {
        handle: server.handle.clone(),
        metrics,
        more_metrics: Some(more),
        counts: Arc::default(),
        probe: Arc::new(move |consistency| probe(Arc::clone(&probed), consistency)),
        guard: None,
    };
    let mut router = Router::new();
    router = match server.fed.is_some() {
        true => router.route("/redis", get(async move || fed_page::page(&shown).await)),
        false => router
            .route("/redis", get(async move || own_page::page(&shown).await))
            .route(
                "/redis/import",
                post(async move |body: Bytes| own_page::order(&imported, body).await),
            ),
    };
    let router = router
        .route("/version", get(version))
        .route("/redis/rdb", get(async move || rdb(&saved).await));
    add_routes(router, console)
}

/// A read of the store.
fn probe(server: Arc<Server>, consistency: Consistency) -> Probing {
    Box::pin(async move {
        if let Some(fed) = &server.fed {
            return fed.probe(&server.handle, consistency).await;
        }
        let read = server.read(Query::Keyspace, consistency).await;
        read.map(|_| ()).map_err(|failure| failure.to_string())
    })
}

/// All that is committed, as an RDB.
async fn rdb(server: &Server) -> Response {
    if let Some(fed) = &server.fed {
        return fed.rdb(&server.handle).await;
    }
    match server
        .read(Query::Everything, Consistency::Linearizable)
        .await
    {
        Ok(Answer::Everything(everything)) => file(None, move |parts| {
            everything
                .write_rdb(parts, &[("redis-ver", REDIS_VERSION)])
                .map(|_| ())
        }),
        Ok(Answer::Standing(_)) => is_loading(),
        Ok(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()).into_response(),
    }
}

/// Says that there is no state to save at present.
pub(crate) fn is_loading() -> Response {
    let why =
        "the data of another server is being brought over: nothing here is a state that it had";
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}

/// What the face counts.
fn figures(server: &Server) -> Page {
    let mut page = Page::default();
    let counters = &server.counters;
    let all = [
        (
            "quorate_redis_commands_total",
            "Commands of clients that were taken.",
            &counters.commands,
        ),
        (
            "quorate_redis_errors_total",
            "Errors that clients were told.",
            &counters.errors,
        ),
    ];
    for (name, help, counter) in all {
        page.counter(name, help, counter.load(Relaxed));
    }
    if let Some(fed) = &server.fed {
        fed.add_to(&mut page);
    }
    page
}

/// The version of this program.
pub(crate) async fn version() -> Response {
    let version = env!("CARGO_PKG_VERSION");
    json(StatusCode::OK, format!(r#"{{"quorate":"{version}"}}"#))
}
