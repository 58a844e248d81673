//! The services in JSON over plain HTTP, as etcd's gateway has them: `POST /v3/kv/range` and so on.
//!
//! A request is turned into the gRPC call that it stands for, along the table of
//! [`quorate_etcd_json`], and goes the way of all calls, in process: rights, limits and counts are those of gRPC.
//! Its response is turned back. Calls with streams have a line for each response, and may be made over a WebSocket
//! ([`socket`]), whose messages are requests and responses.
//!
//! Here is also what is asked of everything that is not gRPC: the name of the server, and who may read the answer
//! ([`access`]).

mod access;
#[cfg(test)]
mod fuzz;
mod messages;
mod respond;
mod socket;
mod values;

use crate::face::Face;
use crate::response_body::{PREFIX_BYTES, ResponseBody};
use axum::body::Body as PlainBody;
use bytes::Bytes;
use messages::Messages;
use quorate_etcd_json::{Call, DecodeError, MessageType, Streams, decode, find_call};
use quorate_face_common::{CommonName, admit, exhausted, websocket};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, ORIGIN, TE,
};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::http::{Extensions, Method, Request, Response, StatusCode, Uri, Version};
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::{Code, Status};
use values::{Requests, Values};

pub(crate) type Answering =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, Infallible>> + Send>>;

/// What answers the calls behind the gateway, and everything else that is asked for over plain HTTP.
pub(crate) trait Calls:
    quorate_face_common::Face<Body = ResponseBody, Answering = Answering>
{
    /// The services, with their limits and the account of the connection.
    fn face(&self) -> &Arc<Face>;

    /// Answers a request that is neither gRPC nor JSON.
    fn routed(self, request: Request<AnyBody>) -> Answering;
}

/// Whether the body of a request to this path is a stream of values.
pub(crate) fn is_stream(path: &str) -> bool {
    let call = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    let call = call.and_then(find_call);
    call.is_some_and(|call| call.streams == Streams::Both)
}

/// Answers a request that is not gRPC.
pub(crate) fn answer(calls: impl Calls, request: Request<AnyBody>) -> Answering {
    Box::pin(async move { Ok(serve(calls, request).await) })
}

/// The paths of the gateway: the present one, and that of etcd 3.3.
const PREFIXES: [&str; 2] = ["/v3/", "/v3beta/"];
/// What else etcd has, whose answers pages may read as well.
const SHARED: [&str; 5] = ["/health", "/livez", "/readyz", "/version", "/metrics"];

async fn serve(calls: impl Calls, request: Request<AnyBody>) -> Response<ResponseBody> {
    let face = Arc::clone(calls.face());
    let web = &face.limits.web;
    let host = access::host(&request);
    if !access::may_name(&request, host, &web.hosts) {
        let why = access::unknown_host(host);
        return respond::text(StatusCode::MISDIRECTED_REQUEST, why);
    }
    let path = request.uri().path();
    let asked = PREFIXES.iter().find_map(|prefix| path.strip_prefix(prefix));
    let call = asked.filter(|_| web.json).map(find_call);
    let is_shared = call.is_some() || SHARED.iter().any(|shared| path.starts_with(shared));
    let origin = request.headers().get(ORIGIN).cloned();
    let mut answer = match call {
        _ if request.method() == Method::OPTIONS => respond::text(StatusCode::OK, ""),
        Some(_) if relies_on_certificate(&face, request.extensions()).await => {
            respond::text(StatusCode::BAD_REQUEST, NAME_NOT_USED)
        }
        Some(call) => gateway(calls, request, call).await,
        None => {
            let Ok(routed) = calls.routed(request).await;
            routed
        }
    };
    if is_shared {
        access::share(&web.origins, origin, answer.headers_mut());
    }
    answer
}

/// Whether the caller may take the name in its certificate for enough, which it is not here: once there are users it
/// counts for gRPC alone.
async fn relies_on_certificate(face: &Face, shown: &Extensions) -> bool {
    let name = shown.get::<CommonName>();
    if name.is_none_or(|CommonName(name)| name.is_empty()) {
        return false;
    }
    let board = face.auth.board(&face.handle).await;
    board.is_ok_and(|board| board.is_enabled())
}

/// What etcd says to such a caller.
const NAME_NOT_USED: &str = "CommonName of client sending a request against gateway will be ignored and not used as \
                             expected\n";

async fn gateway(
    calls: impl Calls,
    request: Request<AnyBody>,
    call: Option<&'static Call>,
) -> Response<ResponseBody> {
    let Some(call) = call else {
        return respond::error(&Status::not_found("Not Found"));
    };
    if websocket::is_wanted(request.headers()) {
        return socket::open(calls, request, call);
    }
    if request.method() != Method::POST {
        return respond::error(&Status::unimplemented("Method Not Allowed"));
    }
    made(calls, request, call).await
}

/// The answer to a call, also if it fails.
async fn made(
    calls: impl Calls,
    request: Request<AnyBody>,
    call: &'static Call,
) -> Response<ResponseBody> {
    let answered = make(calls, request, call).await;
    answered.unwrap_or_else(|status| respond::error(&status))
}

/// Makes a call.
async fn make(
    calls: impl Calls,
    request: Request<AnyBody>,
    call: &'static Call,
) -> Result<Response<ResponseBody>, Status> {
    let face = Arc::clone(calls.face());
    let charge = admit(&face.account, 0).map_err(exhausted)?;
    let (head, body) = request.into_parts();
    let mut values = Values::new(body, value_bytes_max(&face, call), face.account.charge());
    let first = match values.next().await {
        Ok(first) => first,
        Err(status) => {
            // A client that is still sending would not read why.
            if status.code() == Code::InvalidArgument {
                values.finish().await;
            }
            return Err(status);
        }
    };
    let body = match (first, call.streams) {
        (None, Streams::Both) => AnyBody::new(Requests::new(call, None, values)),
        (Some(first), Streams::Both) => {
            let first = framed(&first, call.request).map_err(unfit)?;
            AnyBody::new(Requests::new(call, Some(first), values))
        }
        (first, Streams::Neither | Streams::Responses) => {
            values.finish().await;
            let message = framed(&first.unwrap_or_default(), call.request).map_err(unfit)?;
            AnyBody::new(PlainBody::from(message))
        }
    };
    let Ok(response) = calls.answer(grpc(&head.headers, call, body)).await;
    let messages = Messages::new(response, face.account.charge());
    match call.streams {
        Streams::Neither => respond::message(messages, call, charge).await,
        Streams::Responses | Streams::Both => Ok(respond::stream(messages, call, charge).await),
    }
}

/// The longest value that a request may consist of. In JSON, keys and values are a third longer, and a character may be
/// written in several ways.
fn value_bytes_max(face: &Face, call: &Call) -> usize {
    /// The largest requests of services that take no values are shorter than this, however they are written.
    const SMALL_BYTES_MAX: usize = 256 << 10;
    let has_values = ["/etcdserverpb.KV/", "/etcdserverpb.Watch/", "/v3"];
    match has_values
        .iter()
        .any(|service| call.method.starts_with(service))
    {
        true => 2 * face.limits.message_bytes_max(),
        false => SMALL_BYTES_MAX,
    }
}

/// The message that JSON stands for, as gRPC has it.
fn framed(json: &[u8], kind: &'static MessageType) -> Result<Bytes, DecodeError> {
    let mut message = vec![0; PREFIX_BYTES];
    decode(json, kind, &mut message)?;
    // A length that does not fit is refused like every one beyond the limit.
    let length = u32::try_from(message.len() - PREFIX_BYTES).unwrap_or(u32::MAX);
    message[1..PREFIX_BYTES].copy_from_slice(&length.to_be_bytes());
    Ok(message.into())
}

fn unfit(why: DecodeError) -> Status {
    Status::invalid_argument(format!("the request is not the JSON expected: {why}"))
}

/// Headers that begin with this are metadata of the call.
const METADATA_PREFIX: &str = "grpc-metadata-";

/// The call that a request stands for, with the metadata that its headers give.
fn grpc(headers: &HeaderMap, call: &Call, body: AnyBody) -> Request<AnyBody> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = Uri::from(PathAndQuery::from_static(call.method));
    let metadata = request.headers_mut();
    metadata.insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    metadata.insert(TE, HeaderValue::from_static("trailers"));
    for (name, value) in headers {
        if name == AUTHORIZATION {
            metadata.append(AUTHORIZATION, value.clone());
        } else if let Some(name) = name.as_str().strip_prefix(METADATA_PREFIX)
            && let Ok(name) = HeaderName::from_bytes(name.as_bytes())
            && !is_reserved(&name)
        {
            metadata.append(name, value.clone());
        }
    }
    request
}

/// Headers that say how a call is transferred, which is not for its client to say.
fn is_reserved(name: &HeaderName) -> bool {
    name == CONTENT_TYPE || name == TE || name.as_str().starts_with("grpc-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_etcd_json::CALLS;

    #[test]
    fn headers_become_metadata_unless_they_are_about_the_transfer() {
        let headers = [
            ("authorization", "Bearer t"),
            ("grpc-metadata-hasleader", "true"),
            ("grpc-metadata-grpc-timeout", "1n"),
            ("grpc-metadata-content-type", "text/plain"),
            ("grpc-metadata-", "nothing"),
            ("grpc-timeout", "1n"),
            ("cookie", "token=t"),
        ];
        let headers = headers.map(|(name, value)| {
            let name: HeaderName = name.parse().expect("a name");
            (name, HeaderValue::from_static(value))
        });
        let call = find_call("kv/range").expect("a call");
        let request = grpc(&headers.into_iter().collect(), call, AnyBody::empty());
        let mut metadata: Vec<(&str, &str)> = request
            .headers()
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().expect("text")))
            .collect();
        metadata.sort_unstable();
        let expected = [
            ("authorization", "Bearer t"),
            ("content-type", "application/grpc"),
            ("hasleader", "true"),
            ("te", "trailers"),
        ];
        assert_eq!(metadata, expected);
        assert_eq!(request.uri().path(), "/etcdserverpb.KV/Range");
    }

    /// Where a service gets another method, it gets a path in JSON, too; `RangeStream` has none in etcd either.
    #[test]
    fn every_method_of_the_services_has_a_path() {
        let generated = std::fs::read_dir(concat!(env!("OUT_DIR"), "/server"));
        let mut methods = 0;
        for file in generated.expect("the build script wrote it") {
            let path = file.expect("a file").path();
            let code = std::fs::read_to_string(path).expect("a file of code");
            for arm in code.split("\" =>") {
                let literal = arm.rsplit_once('"').map_or("", |(_, literal)| literal);
                if literal.starts_with('/') && !literal.ends_with("/RangeStream") {
                    let has_path = CALLS.iter().any(|call| call.method == literal);
                    assert!(has_path, "{literal} is in no table");
                    methods += 1;
                }
            }
        }
        assert!(methods > 20, "only {methods} methods were found");
    }

    #[test]
    fn only_calls_whose_requests_are_streams_may_be_sent_slowly() {
        for path in ["/v3/watch", "/v3beta/watch", "/v3/lease/keepalive"] {
            assert!(is_stream(path), "{path}");
        }
        for path in [
            "/v3/kv/put",
            "/v3/election/observe",
            "/v3/",
            "/watch",
            "/v2/watch",
        ] {
            assert!(!is_stream(path), "{path}");
        }
    }
}
