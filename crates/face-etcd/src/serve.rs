//! Listening and serving.

use crate::authority::TolerantConnection;
use crate::compactor;
use crate::face::{Face, Limits};
use crate::fast_path::FastPath;
use crate::health;
use crate::json;
use crate::server::{ClusterServer, KvServer, LeaseServer, MaintenanceServer, WatchServer};
use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use quorate_etcd_store::Store;
use quorate_face_common::Metrics;
use quorate_server::{Handle, Listener};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use tonic::Status;
use tonic::service::Routes;

/// All routes of the face: gRPC and plain HTTP.
fn router(face: &Arc<Face>, message_bytes_max: usize) -> Router {
    let services = Routes::new(
        KvServer::from_arc(face.clone())
            .max_decoding_message_size(message_bytes_max)
            .max_encoding_message_size(usize::MAX),
    )
    .add_service(WatchServer::from_arc(face.clone()).max_encoding_message_size(usize::MAX))
    .add_service(LeaseServer::from_arc(face.clone()).max_decoding_message_size(SMALL_BYTES_MAX))
    .add_service(ClusterServer::from_arc(face.clone()).max_decoding_message_size(SMALL_BYTES_MAX))
    .add_service(
        MaintenanceServer::from_arc(face.clone()).max_decoding_message_size(SMALL_BYTES_MAX),
    );
    health::add_routes(services.into_axum_router(), face).fallback(unknown)
}

/// Serves until `shutdown` completes, then lets open requests finish for a while.
pub async fn serve(
    listener: Listener,
    handle: Handle<Store>,
    limits: Limits,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let connections = limits.connections();
    let message_bytes_max = limits.message_bytes_max();
    let face = Arc::new(Face::new(
        handle,
        limits,
        metrics,
        listener.budget().account(),
    ));
    let compaction = compactor::run(Arc::clone(&face));
    let routes = Routes::from(router(&face, message_bytes_max)).prepare();
    let front = FastPath::new(face, routes, message_bytes_max);
    let serving = quorate_face_common::serve(
        listener,
        front,
        &connections,
        TolerantConnection::new,
        shutdown,
    );
    let mut serving = pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        // It ends where nothing is to be compacted, or can be any more.
        () = compaction => serving.await,
    }
}

/// Answers what no route takes, in the language it was asked in.
async fn unknown(request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        let path = request.uri().path();
        return Status::unimplemented(format!("unknown method {path}")).into_http();
    }
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// Calls whose requests are streams of messages.
pub(crate) fn is_stream(path: &str) -> bool {
    matches!(
        path,
        "/etcdserverpb.Watch/Watch" | "/etcdserverpb.Lease/LeaseKeepAlive"
    ) || json::is_stream(path)
}

/// The largest request of services that take no keys or values. A message of empty texts takes a dozen times its length
/// once it is decoded.
const SMALL_BYTES_MAX: usize = 64 << 10;
