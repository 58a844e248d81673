//! Routes for operators, over plain HTTP.

use crate::face::{Face, VERSION};
use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use quorate_face_common::{Console, Probing, json};
use quorate_server::Consistency;
use std::sync::Arc;

/// Adds the plain routes to the gRPC ones.
pub(crate) fn add_routes(router: Router, face: &Arc<Face>) -> Router {
    let console = Console {
        handle: face.handle.clone(),
        metrics: face.metrics.clone(),
        more_metrics: Some({
            let face = face.clone();
            Arc::new(move || {
                let face = face.clone();
                Box::pin(async move { face.metrics_page().await })
            })
        }),
        counts: Arc::clone(&face.probe_counts),
        probe: {
            let face = face.clone();
            Arc::new(move |consistency| probe(face.clone(), consistency))
        },
        guard: Some({
            let face = face.clone();
            Arc::new(move |right, headers, extensions| {
                let face = face.clone();
                Box::pin(async move { face.guard_route(right, headers, extensions).await })
            })
        }),
    };
    quorate_face_common::add_routes(router, console).route("/version", get(version))
}

/// Whether a read of the store works.
fn probe(face: Arc<Face>, consistency: Consistency) -> Probing {
    Box::pin(async move {
        let figures = face.figures(consistency).await;
        figures.map(|_| ()).map_err(|why| why.message().to_owned())
    })
}

async fn version() -> Response {
    json(
        StatusCode::OK,
        format!(r#"{{"etcdserver":"{VERSION}","etcdcluster":"{VERSION}","storage":"{VERSION}"}}"#),
    )
}
