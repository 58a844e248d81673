//! The messages of gRPC in the bodies of requests and responses.

use crate::face::status;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use quorate_etcd_api::errors;
use std::pin::Pin;
use std::task::{self, Context, Poll};
use tonic::Status;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::{HeaderMap, HeaderName, HeaderValue};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// In front of every message: whether it is compressed, and its length.
pub(crate) const PREFIX_BYTES: usize = 5;

/// The length of the message that begins with these bytes, once they say it.
pub(crate) fn message_length(received: &[u8], bytes_max: usize) -> Result<Option<usize>, Status> {
    let Some((prefix, _)) = received.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(None);
    };
    let [compressed, length @ ..] = *prefix;
    if compressed != 0 {
        let why = "the message is compressed, and no grpc-encoding says how";
        return Err(Status::internal(why));
    }
    let length = u32::from_be_bytes(length) as usize;
    if length > bytes_max {
        return Err(Status::out_of_range(format!(
            "the message has {length} bytes, more than {bytes_max}"
        )));
    }
    Ok(Some(length))
}

/// The body of a response.
pub(crate) enum ResponseBody {
    /// One message in two parts, then the trailers that say all went well. What has left is empty,
    /// and so is a part that there is not.
    Message([Bytes; 2]),
    /// Whatever the routes made, or an error.
    Routed(AnyBody),
    /// The gRPC response of a member to a gateway's request.
    Passed(AnyBody),
}

/// What ends a response whose rest is lost between a gateway and a member. Without it the stream would be reset, and
/// clients repeat what was reset with some codes.
fn lost() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // Fails for statuses whose details are no header values: this one has none.
    let _ = status(errors::TIMEOUT_CONNECTION_LOST).add_header(&mut trailers);
    trailers
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match &mut *self {
            ResponseBody::Message(parts) => {
                if let Some(part) = parts.iter_mut().find(|part| !part.is_empty()) {
                    return Poll::Ready(Some(Ok(Frame::data(std::mem::take(part)))));
                }
                *self = ResponseBody::Routed(AnyBody::empty());
                let mut trailers = HeaderMap::with_capacity(1);
                trailers.insert(GRPC_STATUS, HeaderValue::from_static("0"));
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            ResponseBody::Routed(body) => Pin::new(body).poll_frame(context),
            ResponseBody::Passed(body) => {
                let passed = task::ready!(Pin::new(body).poll_frame(context));
                Poll::Ready(passed.map(|frame| {
                    Ok(frame.unwrap_or_else(|_| {
                        *self = ResponseBody::Routed(AnyBody::empty());
                        Frame::trailers(lost())
                    }))
                }))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Message(_) => false,
            ResponseBody::Routed(body) | ResponseBody::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Message(_) => SizeHint::default(),
            ResponseBody::Routed(body) | ResponseBody::Passed(body) => body.size_hint(),
        }
    }
}
