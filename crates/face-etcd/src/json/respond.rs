//! The answers of the gateway: one message, a line for each, or why there is none.

use super::messages::Messages;
use crate::face::no_room;
use crate::response_body::ResponseBody;
use axum::body::Body as PlainBody;
use bytes::Bytes;
use http_body::{Body, Frame};
use quorate_etcd_json::{Call, encode, encode_text};
use quorate_face_common::{ROOM_PATIENCE, exhausted};
use quorate_server::Charge;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::time::Instant;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::{
    CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use tonic::codegen::http::{Response, StatusCode};
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::{Code, Status};

const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Header of etcd's gateway, which shows the metadata of the response that it got: it is always this one.
const METADATA_CONTENT_TYPE: HeaderName = HeaderName::from_static("grpc-metadata-content-type");

fn response(code: StatusCode, body: AnyBody) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Routed(body));
    *response.status_mut() = code;
    response
}

/// An answer in words.
pub(super) fn text(code: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let body = PlainBody::from(text.into());
    let mut response = response(code, AnyBody::new(body));
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    // Words of a request that a browser may have sent are not to be taken for a page.
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The answer to a call that failed.
pub(super) fn error(status: &Status) -> Response<ResponseBody> {
    failure(status, written_status(status))
}

fn failure(status: &Status, json: String) -> Response<ResponseBody> {
    let body = AnyBody::new(PlainBody::from(json));
    let mut response = response(http_code(status.code()), body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    if status.code() == Code::Unauthenticated
        && let Ok(why) = HeaderValue::from_str(status.message())
    {
        headers.insert(WWW_AUTHENTICATE, why);
    }
    response
}

/// The answer to a call of one response.
pub(super) async fn message(
    mut messages: Messages,
    call: &Call,
    mut charge: Charge,
) -> Result<Response<ResponseBody>, Status> {
    let missing = || Status::internal("the call ended well and has no response");
    let message = messages.next().await?.ok_or_else(missing)?;
    // In JSON it is longer: by a third, if it has keys and values.
    let room = 2 * message.len();
    if let Some(more) = room.checked_sub(charge.bytes()).filter(|more| *more > 0) {
        let waited = charge.add_by(more, Instant::now() + ROOM_PATIENCE).await;
        waited.map_err(|why| match call.method {
            "/etcdserverpb.KV/Range" => exhausted(why),
            _ => no_room(why),
        })?;
    }
    let mut json = String::with_capacity(message.len() + message.len() / 2);
    encode(&message, call.response, &mut json).map_err(unwritable)?;
    charge.resize_anyway(json.capacity());
    let body = AnyBody::new(PlainBody::from(charge.attach(json)));
    let mut response = response(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(METADATA_CONTENT_TYPE, GRPC_CONTENT_TYPE);
    Ok(response)
}

/// The answer to a call of many responses, once the first has come, or the call has failed without one.
pub(super) async fn stream(
    mut messages: Messages,
    call: &'static Call,
    charge: Charge,
) -> Response<ResponseBody> {
    let first = match messages.next().await {
        Ok(first) => first,
        Err(status) => return failure(&status, error_line(&status)),
    };
    let body = AnyBody::new(Lines {
        is_over: first.is_none(),
        first,
        messages,
        call,
        charge,
    });
    let mut response = response(StatusCode::OK, body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(METADATA_CONTENT_TYPE, GRPC_CONTENT_TYPE);
    response
}

/// The responses of a call, each as a line and a frame of its own.
struct Lines {
    first: Option<Bytes>,
    messages: Messages,
    call: &'static Call,
    /// For the request, and whatever comes of it.
    charge: Charge,
    is_over: bool,
}

impl Body for Lines {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if this.is_over {
            return Poll::Ready(None);
        }
        let message = match this.first.take() {
            Some(first) => Ok(Some(first)),
            None => ready!(this.messages.poll_next(context)),
        };
        let line = |message: Bytes| result_line(&message, this.call);
        let line = match message.and_then(|message| message.map(line).transpose()) {
            Ok(line) => line,
            Err(status) => {
                this.is_over = true;
                Some(error_line(&status))
            }
        };
        let Some(line) = line else {
            this.is_over = true;
            return Poll::Ready(None);
        };
        // Its message is charged until here, and it is in memory already.
        let mut charge = this.charge.account().charge();
        charge.resize_anyway(line.len());
        Poll::Ready(Some(Ok(Frame::data(charge.attach(line)))))
    }
}

fn result_line(message: &[u8], call: &Call) -> Result<String, Status> {
    let mut line = String::with_capacity(message.len() + message.len() / 2);
    line.push_str("{\"result\":");
    encode(message, call.response, &mut line).map_err(unwritable)?;
    line.push_str("}\n");
    Ok(line)
}

fn error_line(status: &Status) -> String {
    format!("{{\"error\":{}}}\n", written_status(status))
}

/// A status as `google.rpc.Status` has it.
fn written_status(status: &Status) -> String {
    let mut json = format!("{{\"code\":{}", i32::from(status.code()));
    if !status.message().is_empty() {
        json.push_str(",\"message\":");
        encode_text(status.message(), &mut json);
    }
    json.push('}');
    json
}

fn unwritable(why: quorate_etcd_json::EncodeError) -> Status {
    Status::internal(why.to_string())
}

/// What HTTP says where gRPC has this code (`google/rpc/code.proto`).
fn http_code(code: Code) -> StatusCode {
    let number = match code {
        Code::Ok => 200,
        // A client that went away: nginx's number, which no standard has.
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::Unauthenticated => 401,
        Code::PermissionDenied => 403,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::DeadlineExceeded => 504,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    };
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_as_etcd_does() {
        let status = Status::not_found("etcdserver: \"a\" not found");
        let json = r#"{"code":5,"message":"etcdserver: \"a\" not found"}"#;
        assert_eq!(written_status(&status), json);
        assert_eq!(error_line(&status), format!("{{\"error\":{json}}}\n"));
        assert_eq!(written_status(&Status::unknown("")), r#"{"code":2}"#);
    }

    #[test]
    fn every_code_has_its_status() {
        for code in 0..17 {
            let http = http_code(Code::from_i32(code)).as_u16();
            assert!((code == 0) == (http == 200), "{code} {http}");
        }
        assert_eq!(http_code(Code::Unavailable).as_u16(), 503);
        assert_eq!(http_code(Code::Cancelled).as_u16(), 499);
    }
}
