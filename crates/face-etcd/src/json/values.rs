//! The requests of a client, as JSON values in the body of its request.

use super::framed;
use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame};
use quorate_etcd_api::errors;
use quorate_etcd_json::{Call, ValueEnds};
use quorate_face_common::exhausted;
use quorate_server::Charge;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tonic::Status;
use tonic::body::Body as AnyBody;

/// The JSON values in a body, one after the other. What is kept of it is charged.
pub(super) struct Values {
    body: AnyBody,
    bytes_max: usize,
    ends: ValueEnds,
    /// The present value, as far as it came in earlier pieces.
    begun: BytesMut,
    /// What came after it.
    ahead: Bytes,
    charge: Charge,
    /// Bytes charged for the value that was given out last.
    given: usize,
}

impl Values {
    /// Values of so many bytes at most.
    pub(super) fn new(body: AnyBody, bytes_max: usize, charge: Charge) -> Self {
        Values {
            body,
            bytes_max,
            ends: ValueEnds::default(),
            begun: BytesMut::new(),
            ahead: Bytes::new(),
            charge,
            given: 0,
        }
    }

    /// The next value; what is left where the body ends in the middle of one; then `None`.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        poll_fn(|context| self.poll_next(context)).await
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Status>> {
        self.charge.give_back(std::mem::take(&mut self.given));
        loop {
            if let Some(value) = self.in_ahead() {
                self.given = value.len();
                return Poll::Ready(Ok(Some(value)));
            }
            if self.begun.len() > self.bytes_max {
                let too_large = crate::face::status(errors::REQUEST_TOO_LARGE);
                return Poll::Ready(Err(too_large));
            }
            match ready!(Pin::new(&mut self.body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.charge.add(data.len()).map_err(exhausted)?;
                        self.ahead = data;
                    }
                }
                Some(Err(status)) => return Poll::Ready(Err(status)),
                None => {
                    let left = self.begun.split().freeze();
                    self.given = left.len();
                    let is_within = std::mem::take(&mut self.ends).is_within();
                    return Poll::Ready(Ok(Some(left).filter(|_| is_within)));
                }
            }
        }
    }

    /// The value that ends in what came last, if one does.
    fn in_ahead(&mut self) -> Option<Bytes> {
        let Some(end) = self.ends.next(&self.ahead) else {
            self.begun
                .extend_from_slice(&std::mem::take(&mut self.ahead));
            return None;
        };
        let last = self.ahead.split_to(end);
        if self.begun.is_empty() {
            return Some(last);
        }
        self.begun.extend_from_slice(&last);
        Some(self.begun.split().freeze())
    }

    /// Reads and drops the rest of the body, within the length that one value may have.
    pub(super) async fn finish(mut self) {
        let mut left = self.bytes_max;
        while let Some(Ok(frame)) =
            poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await
        {
            let Some(less) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else {
                return;
            };
            left = less;
        }
    }
}

/// A stream of requests as gRPC has it. What is no request of this call ends the stream, and with it nothing else.
pub(super) struct Requests {
    call: &'static Call,
    /// The first of them, which was read before.
    first: Option<Bytes>,
    values: Values,
    is_over: bool,
}

impl Requests {
    pub(super) fn new(call: &'static Call, first: Option<Bytes>, values: Values) -> Self {
        Requests {
            call,
            is_over: first.is_none(),
            first,
            values,
        }
    }
}

impl Body for Requests {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        if let Some(first) = this.first.take() {
            return Poll::Ready(Some(Ok(Frame::data(first))));
        }
        if this.is_over {
            return Poll::Ready(None);
        }
        let value = ready!(this.values.poll_next(context));
        let message = match value {
            Ok(value) => value.and_then(|json| framed(&json, this.call.request).ok()),
            Err(status) => {
                this.is_over = true;
                return Poll::Ready(Some(Err(status)));
            }
        };
        this.is_over = message.is_none();
        Poll::Ready(message.map(|message| Ok(Frame::data(message))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_etcd_json::find_call;
    use quorate_server::Budget;
    use std::collections::VecDeque;

    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    fn values(text: &str, piece_bytes: usize, budget: &Budget) -> Values {
        let pieces = text.as_bytes().chunks(piece_bytes);
        let pieces = pieces.map(Bytes::copy_from_slice).collect();
        Values::new(AnyBody::new(Pieces(pieces)), 40, budget.account().charge())
    }

    #[tokio::test]
    async fn values_come_whole_and_are_charged_while_they_are_looked_at() {
        let text = " {\"a\":\"}\"}\n{}{\"b\":";
        for piece_bytes in 1..=text.len() {
            let budget = Budget::new(1000);
            let mut values = values(text, piece_bytes, &budget);
            let mut all = Vec::new();
            while let Some(value) = values.next().await.expect("they are short") {
                assert!((value.len()..=text.len()).contains(&budget.used()));
                all.push(String::from_utf8(value.to_vec()).expect("text"));
            }
            assert_eq!(all, [" {\"a\":\"}\"}", "\n{}", "{\"b\":"]);
            assert_eq!(budget.used(), 0);
        }
    }

    #[tokio::test]
    async fn a_value_that_is_too_long_or_has_no_room_is_refused() {
        let long = format!("{{\"a\":\"{}", "b".repeat(60));
        for (room, code) in [
            (1000, tonic::Code::InvalidArgument),
            (30, tonic::Code::ResourceExhausted),
        ] {
            let mut values = values(&long, 7, &Budget::new(room));
            let refused = values.next().await.expect_err("it is too much");
            assert_eq!(refused.code(), code);
        }
    }

    /// Scenario: a request, something that is none, and another request.
    #[tokio::test]
    async fn what_is_no_request_ends_the_stream_of_requests_without_an_error() {
        let call = find_call("watch").expect("a call");
        let text = "{\"progress_request\":{}}\nv {\"progress_request\":{}}";
        let mut values = values(text, 5, &Budget::new(1000));
        let first = values.next().await.expect("it is short");
        let first = first.map(|json| framed(&json, call.request).expect("a request"));
        let mut requests = Requests::new(call, first, values);
        let mut next =
            async || poll_fn(|context| Pin::new(&mut requests).poll_frame(context)).await;
        let frame = next().await.expect("one").expect("no error");
        assert_eq!(
            frame.data_ref().expect("data")[..],
            [0, 0, 0, 0, 2, 0x1a, 0]
        );
        assert!(next().await.is_none() && next().await.is_none());
    }
}
