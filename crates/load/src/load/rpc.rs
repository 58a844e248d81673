//! Unary gRPC calls directly on HTTP/2.
//!
//! The generator shares its cores with the servers it measures, so every layer between a client
//! and the wire is throughput taken from them. A unary call needs little: five bytes in front of
//! the message, two headers, and the status among the trailers.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version, header};
use prost::Message;
use quorate_etcd_api::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};
use quorate_tls::Connection;
use tokio::net::TcpStream;

use super::access::Access;

/// Why a call gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// For people, and the key errors are counted under: no ids, no times.
    pub text: String,
    /// Whether the connection is of no further use.
    pub connection_lost: bool,
}

/// One HTTP/2 connection; clones share it.
#[derive(Debug, Clone)]
pub struct Channel {
    sender: SendRequest<Bytes>,
    /// Where each call goes.
    uris: [Uri; PATHS.len()],
    /// What says who asks.
    token: Option<HeaderValue>,
}

/// The calls made.
#[derive(Debug, Clone, Copy)]
pub enum Call {
    /// The call `KV.Put`.
    Put,
    /// The call `KV.Range`.
    Range,
    /// The call `KV.DeleteRange`.
    DeleteRange,
    /// The call `KV.Txn`.
    Txn,
    /// The call `KV.Compact`.
    Compact,
    /// The call `Maintenance.Status`.
    Status,
    /// The call `Maintenance.HashKV`.
    HashKv,
    /// The call `Auth.Authenticate`.
    Authenticate,
    /// The call `Auth.AuthEnable`.
    AuthEnable,
    /// The call `Auth.UserAdd`.
    UserAdd,
    /// The call `Auth.UserGrantRole`.
    UserGrantRole,
    /// The call `Auth.RoleAdd`.
    RoleAdd,
    /// The call `Auth.RoleGrantPermission`.
    RoleGrantPermission,
}

/// The paths of calls, in their order.
const PATHS: [&str; 13] = [
    "KV/Put",
    "KV/Range",
    "KV/DeleteRange",
    "KV/Txn",
    "KV/Compact",
    "Maintenance/Status",
    "Maintenance/HashKV",
    "Auth/Authenticate",
    "Auth/AuthEnable",
    "Auth/UserAdd",
    "Auth/UserGrantRole",
    "Auth/RoleAdd",
    "Auth/RoleGrantPermission",
];

impl Channel {
    /// Connects to `authority` (`host:port`) within `patience`, as anybody, in plain text.
    pub async fn connect(authority: &str, patience: Duration) -> Result<Channel, String> {
        Channel::connect_as(authority, &Access::default(), patience).await
    }

    /// Connects to `authority` (`host:port`) within `patience`, and logs a user in, if there is one.
    pub async fn connect_as(
        authority: &str,
        access: &Access,
        patience: Duration,
    ) -> Result<Channel, String> {
        match tokio::time::timeout(patience, Channel::open(authority, access)).await {
            Ok(channel) => channel,
            Err(_) => Err(format!(
                "connect: no answer within {} s",
                patience.as_secs_f64()
            )),
        }
    }

    async fn open(authority: &str, access: &Access) -> Result<Channel, String> {
        let mut channel = Channel::handshake(authority, access).await?;
        if let Some(login) = &access.login {
            let request = AuthenticateRequest {
                name: login.name.clone(),
                password: login.password.clone(),
            };
            let answer = channel.call(Call::Authenticate, &request).await;
            let answer: AuthenticateResponse =
                answer.map_err(|failure| format!("log in: {}", failure.text))?;
            let token = HeaderValue::from_str(&answer.token);
            let mut token = token.map_err(|_| "log in: the token is no header".to_owned())?;
            token.set_sensitive(true);
            channel.token = Some(token);
        }
        Ok(channel)
    }

    async fn handshake(authority: &str, access: &Access) -> Result<Channel, String> {
        let scheme = if access.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let uri = |path: &str| -> Result<Uri, String> {
            format!("{scheme}://{authority}/etcdserverpb.{path}")
                .parse()
                .map_err(|_| format!("'{authority}' is not a host and a port"))
        };
        let mut uris: [Uri; PATHS.len()] = std::array::from_fn(|_| Uri::default());
        for (known, path) in uris.iter_mut().zip(PATHS) {
            *known = uri(path)?;
        }
        let stream = TcpStream::connect(authority)
            .await
            .map_err(|error| format!("connect: {}", short(&error)))?;
        stream
            .set_nodelay(true)
            .map_err(|error| format!("connect: {}", short(&error)))?;
        let host = authority
            .rsplit_once(':')
            .map_or(authority, |(host, _)| host);
        let stream = match &access.tls {
            None => Connection::from(stream),
            Some(tls) => {
                let connected = tls.connect(stream, host).await;
                connected.map_err(|error| format!("connect: {error}"))?
            }
        };
        let (sender, connection) = h2::client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(stream)
            .await
            .map_err(|error| format!("connect: {}", describe(&error)))?;
        // How the connection ended reaches every call that was waiting on it.
        tokio::spawn(async move { connection.await.ok() });
        Ok(Channel {
            sender,
            uris,
            token: None,
        })
    }

    /// Makes one call and waits for its answer.
    pub async fn call<A: Message + Default>(
        &mut self,
        call: Call,
        request: &impl Message,
    ) -> Result<A, Failure> {
        poll_fn(|context| self.sender.poll_ready(context))
            .await
            .map_err(lost)?;
        let (response, mut body) = self
            .sender
            .send_request(self.head(call), false)
            .map_err(lost)?;
        body.send_data(frame(request), true).map_err(lost)?;
        let response = response.await.map_err(lost)?;
        let (head, mut body) = response.into_parts();
        if head.headers.contains_key(STATUS) {
            check(&head.headers)?;
        }
        let message = receive(&mut body).await?;
        if let Some(trailers) = body.trailers().await.map_err(lost)? {
            check(&trailers)?;
        }
        if head.status != http::StatusCode::OK {
            return Err(failure(format!("HTTP status {}", head.status.as_u16())));
        }
        decode(message)
    }

    fn head(&self, call: Call) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = self.uris[call as usize].clone();
        let headers = request.headers_mut();
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/grpc"),
        );
        if let Some(token) = &self.token {
            headers.insert(TOKEN, token.clone());
        }
        request
    }
}

/// A message with gRPC's prefix: not compressed, and its length.
fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + length);
    frame.put_u8(0);
    frame.put_u32(length as u32);
    message
        .encode(&mut frame)
        .expect("the buffer has room for the length just computed");
    frame.freeze()
}

/// The whole body. Most answers arrive as one frame, which is passed on without a copy.
async fn receive(body: &mut h2::RecvStream) -> Result<Bytes, Failure> {
    let mut whole = Bytes::new();
    let mut gathered = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(lost)?;
        body.flow_control()
            .release_capacity(chunk.len())
            .map_err(lost)?;
        if whole.is_empty() && gathered.is_empty() {
            whole = chunk;
        } else {
            gathered.extend_from_slice(&std::mem::take(&mut whole));
            gathered.extend_from_slice(&chunk);
        }
    }
    Ok(if gathered.is_empty() {
        whole
    } else {
        gathered.freeze()
    })
}

fn decode<A: Message + Default>(mut message: Bytes) -> Result<A, Failure> {
    if message.len() < PREFIX_BYTES || message[0] != 0 {
        return Err(failure(
            "the answer is not an uncompressed gRPC message".to_owned(),
        ));
    }
    message.advance(PREFIX_BYTES);
    A::decode(message).map_err(|error| failure(format!("undecodable answer: {error}")))
}

fn check(headers: &HeaderMap) -> Result<(), Failure> {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
    };
    match text(STATUS).and_then(|code| code.parse::<usize>().ok()) {
        Some(0) | None => Ok(()),
        Some(code) => {
            let name = CODES.get(code).copied().unwrap_or("UNKNOWN CODE");
            Err(failure(format!(
                "{name}: {}",
                unescape(text(MESSAGE).unwrap_or_default())
            )))
        }
    }
}

/// Undoes gRPC's percent encoding of messages; what is not an escape stays as it is.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let digits = tail.get(..2).filter(|_| first == b'%');
        let escaped = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn failure(text: String) -> Failure {
    Failure {
        text,
        connection_lost: false,
    }
}

fn lost(error: h2::Error) -> Failure {
    // A reset ends one stream; the connection carries on.
    Failure {
        text: describe(&error),
        connection_lost: !error.is_reset(),
    }
}

fn describe(error: &h2::Error) -> String {
    match (error.get_io(), error.reason()) {
        (Some(error), _) => format!("connection lost: {}", short(error)),
        (None, Some(reason)) if error.is_reset() => format!("stream reset: {reason}"),
        (None, Some(reason)) => format!("connection closed: {reason}"),
        (None, None) => "connection closed".to_owned(),
    }
}

/// An I/O error without the number behind it.
fn short(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error")
        .next()
        .unwrap_or_default()
        .to_lowercase()
}

const PREFIX_BYTES: usize = 5;
/// The header that carries a user's token, in lower case as HTTP/2 wants it.
const TOKEN: &str = "token";
const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
const WINDOW_BYTES: u32 = 64 << 20;

/// gRPC's status codes by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_reported_by_name_and_text() {
        let mut headers = HeaderMap::new();
        headers.insert(STATUS, HeaderValue::from_static("14"));
        headers.insert(
            MESSAGE,
            HeaderValue::from_static("etcdserver: leader%20changed, 5%"),
        );
        let text = check(&headers).unwrap_err().text;
        assert_eq!(text, "UNAVAILABLE: etcdserver: leader changed, 5%");
        headers.insert(STATUS, HeaderValue::from_static("0"));
        assert_eq!(check(&headers), Ok(()));
    }

    #[test]
    fn an_answer_that_is_no_message_is_an_error() {
        assert!(decode::<()>(Bytes::from_static(b"\0\0\0")).is_err());
        assert!(decode::<()>(Bytes::from_static(b"\x01\0\0\0\0")).is_err());
        assert!(decode::<()>(Bytes::from_static(b"\0\0\0\0\0")).is_ok());
    }
}
