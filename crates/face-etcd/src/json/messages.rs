//! The messages of a gRPC response, one after the other.

use crate::response_body::{PREFIX_BYTES, ResponseBody, message_length};
use bytes::{Bytes, BytesMut};
use http_body::Body;
use quorate_server::Charge;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::codegen::http::Response;
use tonic::codegen::http::header::HeaderMap;
use tonic::{Code, Status};

/// A gRPC response of this server, or of a member.
pub(super) struct Messages {
    body: ResponseBody,
    /// How the call has ended, once that is known.
    end: Option<Status>,
    /// What came of the next message, and what is charged for it.
    begun: BytesMut,
    charge: Charge,
}

impl Messages {
    /// What is kept for a message that comes in several pieces is added to `charge`.
    pub(super) fn new(response: Response<ResponseBody>, charge: Charge) -> Self {
        let (head, body) = response.into_parts();
        Messages {
            body,
            // A call that fails at once says so in the head.
            end: Status::from_header_map(&head.headers),
            begun: BytesMut::new(),
            charge,
        }
    }

    /// The next message; `None` where the call ended well.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(super) fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Bytes>, Status>> {
        loop {
            if let Some(message) = self.complete()? {
                return Poll::Ready(Ok(Some(message)));
            }
            if let Some(end) = &self.end {
                return Poll::Ready(match end.code() {
                    Code::Ok => Ok(None),
                    _ => Err(end.clone()),
                });
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        if let Some(message) = self.take(data)? {
                            return Poll::Ready(Ok(Some(message)));
                        }
                    }
                    Err(other) => self.end = other.into_trailers().ok().map(|t| ended(&t)),
                },
                Some(Err(status)) => return Poll::Ready(Err(status)),
                None => self.end = Some(Status::internal("the response has no status")),
            }
        }
    }

    /// Takes bytes that came; says if they are one message, which is not copied.
    fn take(&mut self, data: Bytes) -> Result<Option<Bytes>, Status> {
        if self.begun.is_empty()
            && let Some(length) = message_length(&data, usize::MAX)?
        {
            if data.len() == PREFIX_BYTES + length {
                return Ok(Some(data.slice(PREFIX_BYTES..)));
            }
            self.begun.reserve(PREFIX_BYTES + length);
        }
        self.begun.extend_from_slice(&data);
        self.charge.resize_anyway(self.begun.capacity());
        Ok(None)
    }

    /// The message that came in pieces, if it is complete.
    fn complete(&mut self) -> Result<Option<Bytes>, Status> {
        let length = message_length(&self.begun, usize::MAX)?;
        let Some(end) = length
            .map(|length| PREFIX_BYTES + length)
            .filter(|end| *end <= self.begun.len())
        else {
            return Ok(None);
        };
        let message = self.begun.split_to(end).freeze().slice(PREFIX_BYTES..);
        let charge = self.charge.take();
        if self.begun.is_empty() {
            self.begun = BytesMut::new();
        }
        self.charge.resize_anyway(self.begun.capacity());
        Ok(Some(charge.attach(message)))
    }
}

/// How a call ended, by its trailers.
fn ended(trailers: &HeaderMap) -> Status {
    let status = Status::from_header_map(trailers);
    status.unwrap_or_else(|| Status::internal("the response has no status"))
}
