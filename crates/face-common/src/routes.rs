//! Routes for operators: health, status, metrics.

use crate::console::{Console, Metrics, RouteRight, json};
use crate::member_routes::{change_members, not_changed};
use crate::page::Page;
use crate::probes::add_probes;
use crate::web_console::add_console;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use quorate_core::Application;
use quorate_server::{GroupChange, Handle, ProcessFigures, ProtocolPage, StatusPage};
use std::sync::Arc;
use std::time::Duration;

/// The longest page that is posted, in bytes.
const PAGE_BYTES_MAX: usize = 64 << 10;

/// Adds these routes to those of a console.
pub fn add_routes<A>(router: Router, console: Console<A>) -> Router
where
    A: Application + 'static,
    A::Query: Send,
    A::Answer: Send,
{
    let console = Arc::new(console);
    add_console(add_probes(router, &console), &console)
        .route("/status", {
            let console = console.clone();
            get(async move |request: Request| {
                console
                    .admit(RouteRight::Look, request.into_parts().0)
                    .await?;
                Ok::<_, Response>(status(&console).await)
            })
        })
        .route("/cluster/protocol", {
            let console = console.clone();
            post(async move |request: Request| {
                let (parts, body) = request.into_parts();
                console.admit(RouteRight::Change, parts).await?;
                let body = page(body).await?;
                Ok::<_, Response>(protocol(&console, &body).await)
            })
        })
        .route("/cluster/members", {
            let console = console.clone();
            post(async move |request: Request| {
                let (parts, body) = request.into_parts();
                console.admit(RouteRight::Change, parts).await?;
                let body = page(body).await?;
                let probe = async |consistency| (console.probe)(consistency).await;
                Ok::<_, Response>(change_members(&console.handle, probe, &body).await)
            })
        })
        .route("/metrics", {
            let console = console.clone();
            get(async move |request: Request| {
                console
                    .admit(RouteRight::Measure, request.into_parts().0)
                    .await?;
                let mut page = Page::default();
                if let Some(more) = &console.more_metrics {
                    page = more().await;
                }
                console.counts.show(&mut page);
                let metrics = console.metrics.as_ref();
                Ok::<_, Response>(metrics_page(&console.handle, metrics, page).await)
            })
        })
}

/// What was posted, if it is short.
async fn page(body: Body) -> Result<Bytes, Response> {
    let body = to_bytes(body, PAGE_BYTES_MAX).await;
    body.map_err(|why| (StatusCode::BAD_REQUEST, why.to_string()).into_response())
}

/// What `quorate status` shows.
async fn status<A: Application>(console: &Console<A>) -> Response {
    let page = console.handle.status().await.map(StatusPage::from);
    match page.map(|page| serde_json::to_string(&page)) {
        Ok(Ok(page)) => json(StatusCode::OK, page),
        Ok(Err(error)) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        Err(failure) => (StatusCode::SERVICE_UNAVAILABLE, failure.to_string()).into_response(),
    }
}

/// Has the cluster go on with another protocol; answers once that is decided.
async fn protocol<A: Application>(console: &Console<A>, body: &Bytes) -> Response {
    let page: ProtocolPage = match serde_json::from_slice(body) {
        Ok(page) => page,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let change = GroupChange::Protocol {
        name: page.protocol,
        params: page.params,
        may_measure: page.allow_measurement_protocol,
    };
    match console.handle.change_soon(change).await {
        Ok(()) => StatusCode::OK.into_response(),
        Err(error) => not_changed(&error),
    }
}

/// The metrics page, with `more` behind its own metrics. The replica, or the gateway, brings its figures up to date
/// first; one that is too busy shows those it has.
pub async fn metrics_page<A: Application>(
    handle: &Handle<A>,
    page: Option<&Metrics>,
    more: Page,
) -> Response {
    let _ = tokio::time::timeout(FIGURES_WAIT, handle.status()).await;
    let mut more = more;
    more.process(&ProcessFigures::now());
    let page = page.map_or_else(String::new, |page| page()) + &more.into_text();
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], page).into_response()
}

/// How long the metrics page waits for the replica.
const FIGURES_WAIT: Duration = Duration::from_millis(500);
