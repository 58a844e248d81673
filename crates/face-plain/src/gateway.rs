//! The face of a remote gateway: writes are ordered from here, and need not wait for what they commute with;
//! everything else is passed on to a member.

use crate::reply::unanswered;
use crate::serve::{Face, KEY, Limits, READ, serve_router, writes};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{Method, Response as Answer, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use bytes::Bytes;
use quorate_face_common::{Dialer, Members, Metrics, Page, Unanswered, metrics_page, overloaded};
use quorate_plain_store::Store;
use quorate_server::{Account, GatewayContext, Handle};
use std::future::Future;
use tonic::body::Body as AnyBody;

/// Serves until `shutdown` completes, then lets open requests finish for a while.
pub async fn serve_gateway(
    context: GatewayContext<Store>,
    limits: Limits,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) {
    let gate = GatewayFace {
        handle: context.handle,
        members: Members::new(
            context.upstream,
            context.request_timeout,
            Dialer::new(context.upstream_tls),
        ),
        metrics,
    };
    let router = router(gate, limits.request_bytes_max);
    serve_router(router, context.listener, &limits, shutdown).await;
}

/// Where requests go from.
#[derive(Clone)]
struct GatewayFace {
    handle: Handle<Store>,
    members: Members,
    metrics: Metrics,
}

fn router(gate: GatewayFace, request_bytes_max: usize) -> Router {
    let ordered = writes(&Face::new(gate.handle.clone()))
        .route_layer(from_fn_with_state(gate.clone(), order_or_pass));
    Router::new()
        .route(KEY, get(read))
        .route(READ, post(read_several))
        .route("/metrics", get(metrics))
        .route("/console", get(no_console))
        .fallback(pass)
        .with_state(gate)
        .merge(ordered)
        .layer(DefaultBodyLimit::max(request_bytes_max))
}

/// A gateway has none, for what it passes on and what it counts are not of one replica.
async fn no_console() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "a gateway has no console: open a replica's\n",
    )
}

/// A write: a member's where the protocol has no remote gateways.
async fn order_or_pass(
    State(gate): State<GatewayFace>,
    Extension(account): Extension<Account>,
    request: Request,
    next: Next,
) -> Response {
    match gate.members.leave_writes() {
        true => next.run(request).await,
        false => gate.pass(request, &account).await,
    }
}

async fn read(
    State(gate): State<GatewayFace>,
    Extension(account): Extension<Account>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let request = || Request::from_parts(parts.clone(), Body::empty());
    gate.read(request, &account).await
}

async fn read_several(
    State(gate): State<GatewayFace>,
    Extension(account): Extension<Account>,
    uri: Uri,
    body: Bytes,
) -> Response {
    let request = || {
        let mut request = Request::new(Body::from(body.clone()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = uri.clone();
        request
    };
    gate.read(request, &account).await
}

async fn metrics(State(gate): State<GatewayFace>) -> Response {
    metrics_page(&gate.handle, Some(&gate.metrics), Page::default()).await
}

async fn pass(
    State(gate): State<GatewayFace>,
    Extension(account): Extension<Account>,
    request: Request,
) -> Response {
    gate.pass(request, &account).await
}

impl GatewayFace {
    /// To one member, as it is.
    async fn pass(&self, request: Request, account: &Account) -> Response {
        match self.members.room(account) {
            Ok(room) => answered(self.members.pass(request.map(AnyBody::new), room).await),
            Err(why) => overloaded(why).map(Body::new),
        }
    }

    /// What changes nothing: to one member after the other, until one can serve.
    async fn read(&self, request: impl Fn() -> Request, account: &Account) -> Response {
        let request = || request().map(AnyBody::new);
        match self.members.room(account) {
            Ok(room) => answered(self.members.read(request, is_unavailable, room).await),
            Err(why) => overloaded(why).map(Body::new),
        }
    }
}

/// Whether a member cannot serve, or not without others that it does not reach.
fn is_unavailable(answer: &Answer<AnyBody>) -> bool {
    let code = answer.status();
    code == StatusCode::SERVICE_UNAVAILABLE || code == StatusCode::GATEWAY_TIMEOUT
}

fn answered(answer: Result<Answer<AnyBody>, Unanswered>) -> Response {
    match answer {
        Ok(answer) => answer.map(Body::new),
        Err(why) => unanswered(&why),
    }
}
