//! What operators see of a replica with a real server, at the admin address.

use crate::application::{Query, RedisApplication};
use crate::import::{self, Target};
use crate::quoted::quoted;
use crate::rdb_body::file_of;
use crate::server::since_epoch;
use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use quorate_core::ReplicaId;
use quorate_face_common::{Console, Metrics, MoreMetrics, Page, Probing, add_routes, json};
use quorate_redis_effects::{Import, Role, StreamQuery};
use quorate_redis_relay::Board;
use quorate_server::{Consistency, Handle, REDIS_IMPORT_LEVEL};
use std::sync::Arc;

/// The pages for operators of a replica whose data is in a real server.
pub(super) struct Pages {
    pub(super) handle: Handle<RedisApplication>,
    pub(super) board: Arc<Board>,
    /// The server's family and version, and its program.
    pub(super) server: String,
    /// A mark that is equal where users of clients are.
    pub(super) users_mark: u16,
}

/// The routes for operators.
pub(super) fn routes(pages: &Arc<Pages>, metrics: Option<Metrics>) -> Router {
    let [probed, counted, shown, moved, saved, imported] = [(); 6].map(|()| Arc::clone(pages));
    let more: MoreMetrics = Arc::new(move || {
        let page = figures(&counted.board);
        Box::pin(async move { page })
    });
    let console = Console {
        handle: pages.handle.clone(),
        metrics,
        more_metrics: Some(more),
        counts: Arc::default(),
        probe: Arc::new(move |consistency| probe(Arc::clone(&probed), consistency)),
        guard: None,
    };
    let router = Router::new()
        .route("/version", get(crate::page::version))
        .route("/redis", get(async move || status(&shown)))
        .route("/redis/rdb", get(async move || rdb(&saved).await))
        .route(
            "/redis/move",
            post(async move |body: String| move_to(&moved, &body)),
        )
        .route(
            "/redis/import",
            post(async move |body: Bytes| {
                let stream = imported.board.status().stream;
                let target = Target {
                    epoch: stream.epoch,
                    import: stream.import,
                    level: REDIS_IMPORT_LEVEL,
                };
                let served = |epoch| imported.board.claim(epoch);
                import::order(&imported.handle, target, body, served).await
            }),
        );
    add_routes(router, console)
}

/// A read of the stream, where the relay serves at all.
fn probe(pages: Arc<Pages>, consistency: Consistency) -> Probing {
    Box::pin(async move {
        if let Some(why) = pages.board.failure() {
            return Err(why);
        }
        let query = Query::Effects(StreamQuery);
        let read = pages.handle.read(query, consistency).await;
        read.map(|_| ()).map_err(|failure| failure.to_string())
    })
}

/// The executor, the offsets and the server, in JSON.
fn status(pages: &Pages) -> Response {
    let status = pages.board.status();
    let executor = status.stream.executor;
    let executor = executor.map_or("null".to_owned(), |id| id.0.to_string());
    let failure = pages.board.failure();
    let failure = failure.map_or("null".to_owned(), |why| quoted(&why));
    let fields = [
        ("role", quoted(status.role.name())),
        ("server", quoted(&pages.server)),
        ("executor", executor),
        ("epoch", status.stream.epoch.to_string()),
        ("offset", status.stream.len.to_string()),
        ("server_offset", status.server_offset.to_string()),
        ("lag_bytes", lag(&pages.board).to_string()),
        ("held_bytes", status.held.to_string()),
        ("rdb_offset", status.rdb_offset.to_string()),
        ("history_bytes", status.history_bytes.to_string()),
        ("server_deaths", status.deaths.to_string()),
        ("clients", pages.board.clients().to_string()),
        // Times to live are counted by it where commands are executed.
        ("clock_us", since_epoch().as_micros().to_string()),
        ("users_mark", pages.users_mark.to_string()),
        ("failure", failure),
    ];
    let fields = fields
        .into_iter()
        .chain(import::fields(status.stream.import));
    let fields: Vec<String> = fields
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    json(StatusCode::OK, format!("{{{}}}", fields.join(",")))
}

/// Bytes of the stream that the own server does not have yet.
fn lag(board: &Board) -> u64 {
    let status = board.status();
    match status.role {
        // Its server is ahead of the stream, if anything.
        Role::Executing => 0,
        _ => status.stream.len.saturating_sub(status.server_offset),
    }
}

/// All that is committed, as the server saves it.
async fn rdb(pages: &Pages) -> Response {
    if pages.board.status().stream.import == Some(Import::Loading) {
        return crate::page::is_loading();
    }
    match pages.board.rdb().await {
        Ok(rdb) => file_of(rdb),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why).into_response(),
    }
}

/// Has another replica execute: its number is what is posted.
fn move_to(pages: &Pages, body: &str) -> Response {
    let answer = |code, said: &str| json(code, format!("{{\"said\":{}}}", quoted(said)));
    let Ok(target) = body.trim().trim_matches('"').parse() else {
        return answer(StatusCode::BAD_REQUEST, "the number of a replica is posted");
    };
    match pages.board.move_to(ReplicaId(target)) {
        Ok(()) => answer(StatusCode::OK, "replica is to be the executor"),
        Err(why) => answer(StatusCode::CONFLICT, &why.to_string()),
    }
}

/// The relay's metrics: clients, offsets, deaths of the server.
fn figures(board: &Board) -> Page {
    let status = board.status();
    let mut page = Page::default();
    let gauges = [
        (
            "quorate_redis_executing",
            "1 if clients are served by this replica's server.",
            u64::from(status.role == Role::Executing),
        ),
        (
            "quorate_redis_epoch",
            "Claims that were accepted: the epoch of the executor.",
            status.stream.epoch,
        ),
        (
            "quorate_redis_offset_bytes",
            "The length of the replicated stream.",
            status.stream.len,
        ),
        (
            "quorate_redis_lag_bytes",
            "What the own server does not have of the stream yet.",
            lag(board),
        ),
        (
            "quorate_redis_held_bytes",
            "Answers that wait until their effects are accepted.",
            status.held,
        ),
        (
            "quorate_redis_clients",
            "Clients at this replica's port.",
            board.clients() as u64,
        ),
    ];
    for (name, help, value) in gauges {
        page.gauge(name, help, value as f64);
    }
    page.counter(
        "quorate_redis_server_deaths_total",
        "Servers that ended by themselves.",
        status.deaths,
    );
    page
}
