//! HTTP/2 connections that take no more than they are told to.

use std::future::poll_fn;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::Request;
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// A connection whose streams take so many bytes of an answer at a time.
pub(super) struct Session {
    sender: SendRequest<Bytes>,
    connection: JoinHandle<()>,
}

impl Session {
    pub(super) async fn connect(authority: &str, window_bytes: u32) -> Result<Session, String> {
        Session::connect_with(authority, window_bytes, window_bytes.max(WINDOW_BYTES_MIN)).await
    }

    /// Connects with other windows for streams and for the connection, in bytes.
    pub(super) async fn connect_with(
        authority: &str,
        stream_bytes: u32,
        connection_bytes: u32,
    ) -> Result<Session, String> {
        let connected = timeout(CONNECT_PATIENCE, TcpStream::connect(authority)).await;
        let stream = connected.map_err(|_| "connect: no answer".to_owned())?;
        let stream = stream.map_err(|error| format!("connect: {error}"))?;
        let mut http = h2::client::Builder::new();
        http.initial_window_size(stream_bytes)
            .initial_connection_window_size(connection_bytes);
        let (sender, connection) = http.handshake(stream).await.map_err(text)?;
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Session { sender, connection })
    }

    /// Begins a call of this method, named with its service.
    pub(super) async fn call(
        &mut self,
        path: &str,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), String> {
        poll_fn(|context| self.sender.poll_ready(context))
            .await
            .map_err(text)?;
        let request = Request::post(format!("http://attack/etcdserverpb.{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())
            .map_err(|error| error.to_string())?;
        self.sender.send_request(request, false).map_err(text)
    }

    /// Whether the server ended the connection.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_finished()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// What came of a call: the beginning of an answer, or a refusal.
pub(super) enum Told {
    /// The answer follows, as far as it is taken.
    Answer { body: RecvStream },
    /// The server has no memory for it.
    Exhausted,
}

/// Waits for an answer to begin.
pub(super) async fn told(answer: ResponseFuture) -> Result<Told, String> {
    let answer = answer.await.map_err(text)?;
    let status = answer.headers().get("grpc-status");
    match status.map(|status| status.as_bytes()) {
        None | Some(b"0") => Ok(Told::Answer {
            body: answer.into_body(),
        }),
        Some(b"8") => Ok(Told::Exhausted),
        Some(code) => Err(format!("gRPC status {}", code.escape_ascii())),
    }
}

/// A message with gRPC's prefix.
pub(super) fn framed(message: &impl Message) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(message.encoded_len() as u32);
    framed.put_slice(&message.encode_to_vec());
    framed.freeze()
}

fn text(error: h2::Error) -> String {
    format!("HTTP/2: {error}")
}

/// The window of a connection before its ends agree on another one (RFC 9113, section 6.9.2).
const WINDOW_BYTES_MIN: u32 = (64 << 10) - 1;
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);
