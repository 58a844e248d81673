//! gRPC calls without a library: whatever a server says is seen as it is, and nobody counts time but the server.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, Request};
use prost::Message;
use std::fmt;
use tokio::net::TcpStream;

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// With a gRPC status.
    Status(i32, String),
    /// The server reset the stream.
    Reset(h2::Reason),
    /// The connection ended.
    Closed,
}

pub(crate) const CANCELLED: i32 = 1;
pub(crate) const DEADLINE_EXCEEDED: i32 = 4;
pub(crate) const UNAVAILABLE: i32 = 14;

impl Ended {
    /// Whether etcd's Go client, whose own time is not over, makes the call again by itself whatever it does. It
    /// takes these for calls that did not reach a server.
    pub(crate) fn is_repeated_by_go(&self) -> bool {
        match self {
            Ended::Status(code, _) => [CANCELLED, DEADLINE_EXCEEDED].contains(code),
            Ended::Reset(reason) => {
                [h2::Reason::CANCEL, h2::Reason::REFUSED_STREAM].contains(reason)
            }
            Ended::Closed => false,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Status(code, text) => write!(f, "{code} {text}"),
            Ended::Reset(reason) => write!(f, "reset: {reason}"),
            Ended::Closed => f.write_str("closed"),
        }
    }
}

/// Makes a call of one message on a connection of its own, with further headers.
pub(crate) async fn call(
    url: &str,
    path: &str,
    message: &impl Message,
    headers: &[(&'static str, &str)],
) -> Ended {
    match attempt(url, path, message, headers).await {
        Ok(ended) => ended,
        Err(error) => match error.reason() {
            Some(reason) if error.is_reset() => Ended::Reset(reason),
            _ => Ended::Closed,
        },
    }
}

async fn attempt(
    url: &str,
    path: &str,
    message: &impl Message,
    headers: &[(&'static str, &str)],
) -> Result<Ended, h2::Error> {
    let address = url.strip_prefix("http://").expect("a URL");
    let connection = TcpStream::connect(address).await.expect("it listens");
    let (sender, connection) = h2::client::handshake(connection).await?;
    let connection = tokio::spawn(connection);
    let mut request = Request::post(format!("{url}/etcdserverpb.{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(()).expect("good headers");
    let (response, mut body) = sender.ready().await?.send_request(request, false)?;
    body.send_data(framed(message), true)?;
    let response = response.await?;
    let ended = match status(response.headers()) {
        Some(ended) => ended,
        None => {
            let mut body = response.into_body();
            while let Some(data) = body.data().await {
                data?;
            }
            let trailers = body.trailers().await?.expect("trailers");
            status(&trailers).expect("a status")
        }
    };
    connection.abort();
    Ok(ended)
}

fn framed(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    message.encode(&mut framed).expect("it has room");
    framed.freeze()
}

fn status(headers: &HeaderMap) -> Option<Ended> {
    let text = |name| headers.get(name).map(|value| value.to_str().expect("text"));
    let code = text("grpc-status")?.parse().expect("a number");
    let message = text("grpc-message").unwrap_or_default();
    Some(Ended::Status(code, message.replace("%20", " ")))
}
