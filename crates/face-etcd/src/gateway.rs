//! The face of a remote gateway: puts, deletions and transactions that write are ordered from here; everything
//! else is passed on to a member ([`Members`]).

use crate::authority::TolerantConnection;
use crate::codec::{decode, decode_txn};
use crate::face::{Face, Limits, refused, status};
use crate::fast_path::{is_plain, receive, respond};
use crate::json::{self, Answering, Calls};
use crate::leader::requires_leader;
use crate::response_body::{PREFIX_BYTES, ResponseBody};
use crate::serve::is_stream;
use crate::server::Kv;
use axum::body::Body as PlainBody;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_etcd_api::errors;
use quorate_etcd_api::etcdserverpb::{TxnRequest, TxnResponse};
use quorate_etcd_store::{Asker, Refused, Store, check};
use quorate_face_common::{
    Dialer, Members, Metrics, Page, Unanswered, admit, exhausted, is_call, is_of_console, metered,
    metrics_page,
};
use quorate_server::{Account, Charge, GatewayContext};
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use tonic::body::Body;
use tonic::codegen::http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Request, Response, StatusCode};
use tonic::{Code, Request as Asked, Status};

/// Serves until `shutdown` completes, then lets open requests finish for a while.
pub async fn serve_gateway(
    context: GatewayContext<Store>,
    limits: Limits,
    metrics: Metrics,
    shutdown: impl Future<Output = ()>,
) {
    let connections = limits.connections();
    let bytes_max = limits.message_bytes_max();
    let upstream = context.upstream.borrow().clone();
    let face = Face::new(
        context.handle,
        limits,
        None,
        context.listener.budget().account(),
    );
    let gate = GatewayFace {
        face: Arc::new(face.named(upstream.cluster, upstream.me)),
        members: Members::new(
            context.upstream,
            context.request_timeout,
            Dialer::new(context.upstream_tls),
        ),
        metrics,
        bytes_max,
    };
    quorate_face_common::serve(
        context.listener,
        gate,
        &connections,
        TolerantConnection::new,
        shutdown,
    )
    .await;
}

/// Where requests go from.
#[derive(Clone)]
struct GatewayFace {
    face: Arc<Face>,
    members: Members,
    metrics: Metrics,
    bytes_max: usize,
}

impl quorate_face_common::Face for GatewayFace {
    type Body = ResponseBody;
    type Answering = Answering;

    fn on_connection(&self, account: Account) -> Self {
        GatewayFace {
            face: Arc::new(self.face.on_connection(account)),
            ..self.clone()
        }
    }

    fn answer(self, request: Request<Body>) -> Answering {
        match is_call(request.headers()) {
            true => self.routed(request),
            false => json::answer(self, request),
        }
    }

    fn is_stream(path: &str) -> bool {
        is_stream(path)
    }
}

impl Calls for GatewayFace {
    fn face(&self) -> &Arc<Face> {
        &self.face
    }

    fn routed(self, request: Request<Body>) -> Answering {
        Box::pin(async move { Ok(GatewayFace::answer(self, request).await) })
    }
}

/// A gateway has none, for what it passes on and what it counts are not of one replica.
fn no_console() -> Response<Body> {
    let why = PlainBody::from("a gateway has no console: open a replica's\n");
    let mut response = Response::new(Body::new(why));
    *response.status_mut() = StatusCode::NOT_FOUND;
    response
}

impl GatewayFace {
    async fn answer(self, request: Request<Body>) -> Response<ResponseBody> {
        if request.uri().path() == "/metrics" {
            return self.metrics(request).await.map(ResponseBody::Routed);
        }
        if is_of_console(request.uri().path()) {
            return no_console().map(ResponseBody::Routed);
        }
        let is_short = is_plain(&request);
        // Only members know whether there is a quorum, and who a user is.
        let is_for_members = requires_leader(request.headers()) || shows_credentials(&request);
        let orders = self.members.leave_writes() && !is_for_members;
        let path = request.uri().path().strip_prefix("/etcdserverpb.KV/");
        let answered = match path.filter(|_| is_short) {
            Some("Range") => self.range(request).await,
            Some("Put") if orders => self.put(request).await,
            Some("DeleteRange") if orders => self.delete_range(request).await,
            Some("Txn") => self.txn(request, orders).await,
            _ => self.pass(request).await,
        };
        answered.unwrap_or_else(|status| status.into_http().map(ResponseBody::Routed))
    }

    async fn metrics(&self, request: Request<Body>) -> Response<Body> {
        let page = async |_| {
            let page = metrics_page(&self.face.handle, Some(&self.metrics), Page::default()).await;
            Ok::<_, Infallible>(page.map(Body::new))
        };
        let Ok(page) = metered(&self.face.account, request, page).await;
        page
    }

    async fn range(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let (parts, message, _charge) = self.take(request).await?;
        self.read(&parts, &message).await
    }

    async fn put(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let (_, message, charge) = self.take(request).await?;
        let put = Asked::new(decode(message)?);
        respond(self.face.put(put).await?.into_inner(), charge).await
    }

    async fn delete_range(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let (_, message, charge) = self.take(request).await?;
        let deletion = Asked::new(decode(message)?);
        let deleted = self.face.delete_range(deletion).await?;
        respond(deleted.into_inner(), charge).await
    }

    /// One that only reads is a member's; of those that write, `orders` says whether they are ordered from here.
    async fn txn(
        &self,
        request: Request<Body>,
        orders: bool,
    ) -> Result<Response<ResponseBody>, Status> {
        let (parts, message, charge) = self.take(request).await?;
        let txn: TxnRequest = decode_txn(message.clone())?;
        check::txn(&txn, self.face.limits.txn_ops_max).map_err(refused)?;
        if check::is_read_only(&txn) {
            return self.read(&parts, &message).await;
        }
        if orders {
            match self.face.apply_txn(txn, &Asker::Anybody).await? {
                // Nothing was done: it takes values that the store does not have.
                Err(Refused::NeedsValue) => {}
                applied => {
                    let applied = applied.map_err(refused)?;
                    let reply = self.face.reply::<TxnResponse>(applied).await?;
                    return respond(reply.into_inner(), charge).await;
                }
            }
        }
        let body = PlainBody::from(framed(&message));
        self.pass(Request::from_parts(parts, Body::new(body))).await
    }

    /// Takes a call's one message, and what is charged for it.
    async fn take(&self, request: Request<Body>) -> Result<(Parts, Bytes, Charge), Status> {
        let (parts, body) = request.into_parts();
        let mut charge = admit(&self.face.account, 0).map_err(exhausted)?;
        let message = receive(body, self.bytes_max, &mut charge).await?;
        Ok((parts, message, charge))
    }

    /// To one member, as it is.
    async fn pass(&self, request: Request<Body>) -> Result<Response<ResponseBody>, Status> {
        let account = &self.face.account;
        let room = self.members.room(account).map_err(exhausted)?;
        let pass = async |request| self.members.pass(request, room).await;
        let passed = metered(account, request, pass).await;
        Ok(passed_on(passed.map_err(unanswered)?))
    }

    /// A call of one message each way which changes nothing.
    async fn read(&self, parts: &Parts, message: &Bytes) -> Result<Response<ResponseBody>, Status> {
        let room = self.members.room(&self.face.account).map_err(exhausted)?;
        let request = || call(parts, message);
        let asked = self.members.read(request, is_unavailable, room);
        Ok(passed_on(asked.await.map_err(unanswered)?))
    }
}

/// Whether a request says who asks: that is for members to know.
fn shows_credentials(request: &Request<Body>) -> bool {
    let headers = request.headers();
    headers.contains_key("token") || headers.contains_key(AUTHORIZATION)
}

/// A call of one message.
fn call(parts: &Parts, message: &Bytes) -> Request<Body> {
    let mut request = Request::new(Body::new(PlainBody::from(framed(message))));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = parts.uri.clone();
    *request.headers_mut() = parts.headers.clone();
    let kind = HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    request
}

/// A message with what is in front of it.
fn framed(message: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// Whether a response says right away that the member cannot serve.
fn is_unavailable(response: &Response<Body>) -> bool {
    let status = Status::from_header_map(response.headers());
    status.is_some_and(|status| status.code() == Code::Unavailable)
}

/// A member's response.
fn passed_on(response: Response<Body>) -> Response<ResponseBody> {
    let kind = response.headers().get(CONTENT_TYPE);
    match kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
        true => response.map(ResponseBody::Passed),
        false => response.map(ResponseBody::Routed),
    }
}

/// No member answered. Where one was asked, clients must not repeat what changes something.
fn unanswered(why: Unanswered) -> Status {
    match why {
        Unanswered::Unreached(_) => Status::unavailable(format!("etcdserver: {why}")),
        Unanswered::Lost(_) => status(errors::TIMEOUT_CONNECTION_LOST),
    }
}
