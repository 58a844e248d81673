//! Ports beside the one for clients: for plain HTTP, and for those who only look.

use crate::connections::{ConnectionLimits, Face, serve};
use crate::metered::Metered;
use axum::Router;
use axum::extract::Request;
use axum::routing::any;
use quorate_server::Listener;
use tokio::sync::watch;
use tonic::codegen::Service;
use tonic::service::Routes;

/// What is served at a port for those who only look.
const OBSERVED: [&str; 6] = [
    "/metrics",
    "/health",
    "/livez",
    "/livez/{check}",
    "/readyz",
    "/readyz/{check}",
];

/// Of these routes those that show how a replica is, and change nothing.
pub fn observing(routes: Router) -> Router {
    let answer = move |request: Request| {
        let mut routes = routes.clone();
        async move { routes.call(request).await }
    };
    OBSERVED.into_iter().fold(Router::new(), |router, path| {
        router.route(path, any(answer.clone()))
    })
}

/// The connections of clients, and those of a port beside it: what may be open is shared out.
#[must_use]
pub fn share_out(limits: &ConnectionLimits) -> [ConnectionLimits; 2] {
    let beside = (limits.connections_max / 4).max(1);
    let with = |connections_max: usize| ConnectionLimits {
        connections_max,
        ..limits.clone()
    };
    [with((limits.connections_max - beside).max(1)), with(beside)]
}

/// What those who only look may do with connections.
#[must_use]
pub fn observer_limits(limits: &ConnectionLimits) -> ConnectionLimits {
    ConnectionLimits {
        connections_max: limits.connections_max.min(OBSERVERS_MAX),
        ..limits.clone()
    }
}

/// Connections of those who only look, at a time: they come out of what is kept for the replica itself.
const OBSERVERS_MAX: usize = 32;

/// Serves routes at a port, if there is one, until the face is to stop.
pub async fn serve_routes(
    listener: Option<Listener>,
    routes: Router,
    limits: &ConnectionLimits,
    stopping: watch::Receiver<bool>,
) {
    let Some(listener) = listener else {
        return;
    };
    let account = listener.budget().account();
    let routes = Metered::new(Routes::from(routes).prepare(), account);
    serve_beside(Some(listener), routes, limits, stopping).await;
}

/// Serves a face at a port beside another, if there is one, until the face is to stop.
pub async fn serve_beside(
    listener: Option<Listener>,
    face: impl Face,
    limits: &ConnectionLimits,
    mut stopping: watch::Receiver<bool>,
) {
    let Some(listener) = listener else {
        return;
    };
    let stop = async move {
        // An error means that nobody is left to say stop.
        let _ = stopping.wait_for(|stop| *stop).await;
    };
    serve(listener, face, limits, |one| one, stop).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tonic::codegen::http::StatusCode;

    #[tokio::test]
    async fn who_only_looks_changes_nothing() {
        let all = Router::new()
            .route("/health", get(async || "well"))
            .route("/readyz/{check}", get(async || "ready"))
            .route("/cluster/protocol", get(async || "changed"))
            .route("/v3/kv/put", get(async || "put"));
        let mut observed = observing(all);
        for (path, code) in [
            ("/health", StatusCode::OK),
            ("/readyz/serializable_read", StatusCode::OK),
            ("/metrics", StatusCode::NOT_FOUND),
            ("/cluster/protocol", StatusCode::NOT_FOUND),
            ("/v3/kv/put", StatusCode::NOT_FOUND),
            ("/", StatusCode::NOT_FOUND),
        ] {
            let request = Request::builder().uri(path);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let answer = observed.call(request).await.unwrap();
            assert_eq!(answer.status(), code, "{path}");
        }
    }

    #[test]
    fn what_may_be_open_is_shared_out() {
        let limits = ConnectionLimits {
            connections_max: 100,
            ..ConnectionLimits::default()
        };
        let shares = share_out(&limits).map(|limits| limits.connections_max);
        assert_eq!(shares, [75, 25]);
        assert_eq!(observer_limits(&limits).connections_max, OBSERVERS_MAX);
    }
}
