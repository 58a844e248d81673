//! Listening and serving.

use crate::authority::TolerantConnection;
use crate::compactor;
use crate::face::{Face, Limits};
use crate::fast_path::{FastPath, Serves};
use crate::health;
use crate::json;
use crate::plain_http::not_found;
use crate::quota;
use crate::server::{
    AuthServer, ClusterServer, ElectionServer, KvServer, LeaseServer, LockServer,
    MaintenanceServer, WatchServer,
};
use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use quorate_etcd_store::Store;
use quorate_face_common::{
    Metrics, is_call, observer_limits, observing, serve_beside, serve_routes, share_out,
};
use quorate_server::{ClientListeners, Handle};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;
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
    )
    .add_service(AuthServer::from_arc(face.clone()).max_decoding_message_size(SMALL_BYTES_MAX))
    .add_service(LockServer::from_arc(face.clone()).max_decoding_message_size(message_bytes_max))
    .add_service(
        ElectionServer::from_arc(face.clone())
            .max_decoding_message_size(message_bytes_max)
            .max_encoding_message_size(usize::MAX),
    );
    health::add_routes(services.into_axum_router(), face).fallback(unknown)
}

/// Serves until `shutdown` completes, then lets open requests finish for a while.
pub async fn serve(
    ports: impl Into<ClientListeners>,
    handle: Handle<Store>,
    limits: Limits,
    metrics: Option<Metrics>,
    shutdown: impl Future<Output = ()>,
) {
    let ports = ports.into();
    let all = limits.connections();
    let [connections, of_http] = match &ports.http {
        Some(_) => share_out(&all),
        None => [all.clone(), all.clone()],
    };
    let message_bytes_max = limits.message_bytes_max();
    let face = Arc::new(Face::new(
        handle,
        limits,
        metrics,
        ports.clients.budget().account(),
    ));
    let upkeep = (Arc::clone(&face), Arc::clone(&face));
    let upkeep = async move { tokio::join!(compactor::run(upkeep.0), quota::run(upkeep.1)) };
    let routes = Routes::from(router(&face, message_bytes_max)).prepare();
    let observed = observing(health::add_routes(Router::new(), &face));
    let (of_observers, stopping) = (observer_limits(&all), watch::Sender::new(false));
    let observers = serve_routes(
        ports.observers,
        observed,
        &of_observers,
        stopping.subscribe(),
    );
    let front = FastPath::new(face, routes, message_bytes_max);
    let is_for = match ports.http.is_some() {
        true => Serves::Calls,
        false => Serves::All,
    };
    let of_web = front.clone().serving(Serves::Http);
    let http = serve_beside(ports.http, of_web, &of_http, stopping.subscribe());
    let clients = quorate_face_common::serve(
        ports.clients,
        front.serving(is_for),
        &connections,
        TolerantConnection::new,
        async {
            shutdown.await;
            stopping.send_replace(true);
        },
    );
    let serving = async {
        tokio::join!(clients, http, observers);
    };
    let mut serving = pin!(serving);
    tokio::select! {
        () = &mut serving => {}
        // It ends where nothing is to be compacted or counted, or can be any more.
        _ = upkeep => serving.await,
    }
}

/// Answers what no route takes, in the language it was asked in.
async fn unknown(request: Request) -> Response {
    if is_call(request.headers()) {
        let path = request.uri().path();
        return Status::unimplemented(format!("unknown method {path}")).into_http();
    }
    not_found()
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
