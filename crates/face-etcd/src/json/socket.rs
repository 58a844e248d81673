//! Calls over a WebSocket: each message of the client is a request in JSON, and each response is a message.
//!
//! A page cannot give headers with a WebSocket, so the token comes as a protocol that the client offers:
//! `Sec-WebSocket-Protocol: Bearer, TOKEN`. Cookies are not looked at: a browser sends them whatever page asks.

use super::{Calls, access, made, respond, value_bytes_max};
use crate::response_body::ResponseBody;
use bytes::Bytes;
use http_body::{Body, Frame};
use quorate_etcd_json::{Call, Streams};
use quorate_face_common::websocket::{self, CloseReason, Incoming, Reader, Writer};
use quorate_face_common::{TakenOver, Takeover};
use std::future::{pending, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::io::split;
use tokio::sync::mpsc;
use tonic::Status;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::{AUTHORIZATION, HeaderMap, HeaderValue, SEC_WEBSOCKET_PROTOCOL};
use tonic::codegen::http::{Method, Request, Response, StatusCode};

/// The protocol that clients offer together with their token.
const BEARER: &str = "Bearer";

/// Has the connection of this request go on as a WebSocket, over which the call is made.
pub(super) fn open<C: Calls>(
    calls: C,
    mut request: Request<AnyBody>,
    call: &'static Call,
) -> Response<ResponseBody> {
    let origins = &calls.face().limits.web.origins;
    if access::origin(request.headers()).is_some_and(|origin| !origins.allows(origin)) {
        let why = "pages of this origin may not ask here: --cors does not name it\n";
        return respond::text(StatusCode::FORBIDDEN, why);
    }
    let mut response: Response<AnyBody> = match websocket::accept(&request) {
        Ok(response) => response,
        Err(why) => return respond::text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    let offered = request.headers().get(SEC_WEBSOCKET_PROTOCOL).cloned();
    let offered = offered.as_ref().and_then(|offered| offered.to_str().ok());
    if offered.is_some_and(|offered| offered.starts_with(BEARER)) {
        let taken = HeaderValue::from_static(BEARER);
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, taken);
    }
    let mut headers = request.headers().clone();
    if let Some(token) = offered.and_then(token) {
        headers.insert(AUTHORIZATION, token);
    }
    let serve = move |connection| serve(connection, calls, headers, call);
    if !Takeover::begin(&mut request, serve) {
        let why = "a WebSocket is opened over HTTP/1.1\n";
        return respond::text(StatusCode::BAD_REQUEST, why);
    }
    response.map(ResponseBody::Routed)
}

/// The token among the protocols that a client offers, as the header that carries one otherwise.
fn token(offered: &str) -> Option<HeaderValue> {
    let (_, token) = offered.split_once("Bearer,")?;
    let mut token = HeaderValue::from_str(&format!("{BEARER} {}", token.trim())).ok()?;
    token.set_sensitive(true);
    Some(token)
}

/// What the reading half of a WebSocket has the writing half send.
enum Control {
    Pong(Bytes),
    Close(CloseReason),
}

/// Makes the call over a WebSocket until it is over, or the client has closed it.
async fn serve<C: Calls>(connection: TakenOver, calls: C, headers: HeaderMap, call: &'static Call) {
    let (reading, writing) = split(connection);
    let face = calls.face();
    let bytes_max = value_bytes_max(face, call);
    let mut reader = Reader::new(reading, bytes_max, face.account.charge());
    let mut writer = Writer::new(writing);
    // What waits in here is charged, and there is no more of it than there is room.
    let (requests, body) = mpsc::unbounded_channel();
    let (controls, mut controlled) = mpsc::channel(1);
    let read = async {
        let mut requests = Some(requests);
        loop {
            match reader.next().await {
                Incoming::Message(request) => {
                    // The call may be over, or have all its requests.
                    let _ = requests.as_ref().map(|requests| requests.send(request));
                    if call.streams != Streams::Both {
                        requests = None;
                    }
                }
                // Of several pings the last needs an answer; of those that come too fast none.
                Incoming::Ping(content) => drop(controls.try_send(Control::Pong(content))),
                Incoming::End(reason) => return reason,
                Incoming::Failed(_) => return CloseReason::Normal,
            }
        }
    };
    let read = async {
        let reason = read.await;
        let _ = controls.send(Control::Close(reason)).await;
        pending().await
    };
    let mut request = Request::new(AnyBody::new(Received(body)));
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    let answer = made(calls, request, call);
    tokio::select! {
        () = read => {}
        // Where the connection has failed, there is nobody to tell.
        _ = write(&mut writer, answer, &mut controlled) => {}
    }
}

/// Sends what the call is answered, until it is over.
async fn write<T: tokio::io::AsyncWrite + Unpin>(
    writer: &mut Writer<T>,
    answer: impl Future<Output = Response<ResponseBody>>,
    controlled: &mut mpsc::Receiver<Control>,
) -> io::Result<()> {
    let mut answer = pin!(answer);
    let mut body = None;
    loop {
        tokio::select! {
            response = &mut answer, if body.is_none() => body = Some(response.into_body()),
            frame = next(&mut body), if body.is_some() => match frame {
                Some(line) => writer.text(line.strip_suffix(b"\n").unwrap_or(&line)).await?,
                None => return writer.close(CloseReason::Normal).await,
            },
            Some(control) = controlled.recv() => match control {
                Control::Pong(content) => writer.pong(&content).await?,
                Control::Close(reason) => return writer.close(reason).await,
            },
        }
    }
}

/// The next part of an answer, which is a line.
async fn next(body: &mut Option<ResponseBody>) -> Option<Bytes> {
    let body = body.as_mut()?;
    loop {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await?;
        if let Ok(data) = frame.ok()?.into_data() {
            return Some(data);
        }
    }
}

/// The requests that came over a WebSocket, as the body of one.
struct Received(mpsc::UnboundedReceiver<Bytes>);

impl Body for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let received = self.0.poll_recv(context);
        received.map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_taken_from_what_the_client_offers() {
        for (offered, expected) in [
            ("Bearer, abc.1", Some("Bearer abc.1")),
            ("Bearer,abc.1", Some("Bearer abc.1")),
            ("Bearer", None),
            ("chat", None),
        ] {
            let token = token(offered);
            let token = token.as_ref().map(|token| token.to_str().expect("text"));
            assert_eq!(token, expected, "{offered}");
        }
        let shown = format!("{:?}", token("Bearer, secret"));
        assert!(!shown.contains("secret"), "{shown}");
    }
}
