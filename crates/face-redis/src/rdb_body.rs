//! RDB files as answers over HTTP, in parts that are made on another thread.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use quorate_redis_effects::Rdb;
use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Bytes of an RDB that are read at a time.
const PART_BYTES: usize = 256 << 10;
/// Parts that are made before the operator has taken those before.
const PARTS_MAX: usize = 4;

type Part = io::Result<Bytes>;

/// Takes the bytes of a file, and waits while the operator takes none.
pub(crate) struct Parts(mpsc::Sender<Part>);

impl Parts {
    fn send(&self, part: Part) -> io::Result<()> {
        let sent = self.0.blocking_send(part);
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Hands over a part without a copy.
    pub(crate) fn part(&self, bytes: Bytes) -> io::Result<()> {
        self.send(Ok(bytes))
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(Ok(Bytes::copy_from_slice(bytes)))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The file as a body, part by part.
struct Received {
    parts: mpsc::Receiver<Part>,
    /// The bytes that are still to come, where that is known.
    left: Option<u64>,
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let polled = self.parts.poll_recv(cx);
        if let (Poll::Ready(Some(Ok(part))), Some(left)) = (&polled, &mut self.left) {
            *left = left.saturating_sub(part.len() as u64);
        }
        polled.map(|part| part.map(|part| part.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// An answer that is a file, of so many bytes where that is known.
pub(crate) fn file(
    bytes: Option<u64>,
    write: impl FnOnce(&mut Parts) -> io::Result<()> + Send + 'static,
) -> Response {
    let (sender, parts) = mpsc::channel(PARTS_MAX);
    tokio::task::spawn_blocking(move || {
        let mut to = Parts(sender);
        if let Err(error) = write(&mut to) {
            tracing::warn!("an RDB was not handed out to its end: {error}");
            // The operator may be the one who ended it.
            let _ = to.send(Err(error));
        }
    });
    let body = Body::new(Received { parts, left: bytes });
    let kind = HeaderValue::from_static("application/octet-stream");
    (StatusCode::OK, [(CONTENT_TYPE, kind)], body).into_response()
}

/// An answer that is an RDB which a server has saved.
pub(crate) fn file_of(rdb: Arc<dyn Rdb>) -> Response {
    file(Some(rdb.len()), move |parts| {
        let mut offset = 0;
        while offset < rdb.len() {
            let part = rdb.read(offset, PART_BYTES).map_err(io::Error::other)?;
            if part.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            offset += part.len() as u64;
            parts.part(part)?;
        }
        Ok(())
    })
}
