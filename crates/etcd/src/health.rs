//! Plain HTTP routes: health, version, status, metrics.

use crate::face::{Face, VERSION};
use axum::Router;
use axum::extract::RawQuery;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use quorate_server::{Change, ChangeError, Consistency, ProtocolPage, StatusPage};
use std::sync::Arc;
use std::time::Duration;

/// Adds the plain routes to the gRPC ones.
pub(crate) fn add_routes(router: Router, face: &Arc<Face>) -> Router {
    router
        .route("/health", {
            let face = face.clone();
            get(async move |RawQuery(query)| health(&face, query.as_deref()).await)
        })
        .route("/livez", {
            let face = face.clone();
            get(async move |RawQuery(query)| checks(&face, query.as_deref(), &[LOCAL]).await)
        })
        .route("/readyz", {
            let face = face.clone();
            get(async move |RawQuery(query)| checks(&face, query.as_deref(), &[LOCAL, ALL]).await)
        })
        .route("/version", get(version))
        .route("/status", {
            let face = face.clone();
            get(async move || status(&face).await)
        })
        .route("/cluster/protocol", {
            let face = face.clone();
            post(async move |body: Bytes| protocol(&face, &body).await)
        })
        .route("/metrics", {
            let face = face.clone();
            get(async move || metrics(&face).await)
        })
}

/// Whether a read works: through the cluster, or on this member with `?serializable=true`.
/// `?exclude=` is accepted; no alarm makes a member unhealthy that still answers reads.
async fn health(face: &Face, query: Option<&str>) -> Response {
    let (_, consistency) = if flag(query, "serializable") {
        LOCAL
    } else {
        ALL
    };
    let (code, healthy, reason) = match face.figures(consistency).await {
        Ok(_) => (StatusCode::OK, true, String::new()),
        Err(error) => (
            StatusCode::SERVICE_UNAVAILABLE,
            false,
            error.message().to_owned(),
        ),
    };
    json(
        code,
        format!(r#"{{"health":"{healthy}","reason":"{reason}"}}"#),
    )
}

/// A check by its name, which says how fresh a read has to work.
type Check = (&'static str, Consistency);

const LOCAL: Check = ("serializable_read", Consistency::Serializable);
const ALL: Check = ("linearizable_read", Consistency::Linearizable);

/// Runs checks; lists them with `?verbose`, or when one fails.
async fn checks(face: &Face, query: Option<&str>, checks: &[Check]) -> Response {
    let mut list = String::new();
    let mut code = StatusCode::OK;
    for &(name, consistency) in checks {
        match face.figures(consistency).await {
            Ok(_) => list += &format!("[+]{name} ok\n"),
            Err(error) => {
                list += &format!("[-]{name} failed: {}\n", error.message());
                code = StatusCode::SERVICE_UNAVAILABLE;
            }
        }
    }
    if code == StatusCode::OK && !flag(query, "verbose") {
        list.clear();
    }
    if code == StatusCode::OK {
        list += "ok\n";
    }
    (code, list).into_response()
}

async fn version() -> Response {
    json(
        StatusCode::OK,
        format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}"}}"#),
    )
}

/// What `quorate status` shows.
async fn status(face: &Face) -> Response {
    let page = face.handle.status().await.map(StatusPage::from);
    match page.map(|page| serde_json::to_string(&page)) {
        Ok(Ok(page)) => json(StatusCode::OK, page),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()).into_response(),
    }
}

/// Has the cluster go on with another protocol; answers once that is decided.
async fn protocol(face: &Face, body: &Bytes) -> Response {
    let page: ProtocolPage = match serde_json::from_slice(body) {
        Ok(page) => page,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let (name, params) = (page.protocol, page.params);
    let change = Change::Protocol { name, params };
    match face.handle.change_soon(change).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(why @ ChangeError::Failed(_)) => {
            (StatusCode::SERVICE_UNAVAILABLE, why.to_string()).into_response()
        }
        Err(why) => (StatusCode::CONFLICT, why.to_string()).into_response(),
    }
}

/// The metrics page. The replica brings its figures up to date first; one that is too busy shows
/// those it has.
async fn metrics(face: &Face) -> Response {
    let _ = tokio::time::timeout(FIGURES_WAIT, face.handle.status()).await;
    let page = face
        .metrics
        .as_ref()
        .map_or_else(String::new, |page| page());
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

fn json(code: StatusCode, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// How long the metrics page waits for the replica.
const FIGURES_WAIT: Duration = Duration::from_millis(500);

/// Whether a query string sets a flag: `name`, `name=` or `name=true`.
fn flag(query: Option<&str>, name: &str) -> bool {
    query.unwrap_or_default().split('&').any(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        key == name && matches!(value, "" | "true" | "1")
    })
}
