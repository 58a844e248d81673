//! The short way in for the requests that come most.
//!
//! A gRPC call of one message each way needs little: take the body, decode it, ask, encode. What
//! takes this way is `KV.Put`, `KV.Range` and `KV.Txn` without compression; everything else goes
//! through the routes, which answer in the same words.

use crate::call_counts::Method as Counted;
use crate::codec::{decode, decode_txn};
use crate::face::{Face, status};
use crate::json::{self, Answering, Calls};
use crate::leader::requires_leader;
use crate::plain_http::not_found;
use crate::reply::Reply;
use crate::response_body::{PREFIX_BYTES, ResponseBody, message_length};
use crate::serve::is_stream;
use crate::server::Kv;
use bytes::{BufMut, Bytes, BytesMut};
use http_body::Body;
use prost::Message;
use quorate_etcd_api::errors;
use quorate_face_common::{
    Face as _, Metered, REQUEST_BYTES, ROOM_PATIENCE, admit, exhausted, is_call,
};
use quorate_server::{Account, Charge};
use std::future::{Future, poll_fn, ready};
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use tokio::time::Instant;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::request::Parts;
use tonic::codegen::http::{Method, Request, Response};
use tonic::metadata::{GRPC_CONTENT_TYPE, MetadataMap};
use tonic::service::Routes;
use tonic::{Request as Asked, Response as Answered, Status};

/// Answers requests by the short way, or sends them through the routes.
#[derive(Clone)]
pub(crate) struct FastPath {
    face: Arc<Face>,
    routes: Metered,
    message_bytes_max: usize,
    serves: Serves,
}

/// What a port is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Serves {
    /// A port for everything.
    All,
    /// A port for gRPC calls, beside one for plain HTTP.
    Calls,
    /// A port for plain HTTP.
    Http,
}

impl FastPath {
    /// In front of `routes`; messages are bounded as there.
    pub(crate) fn new(face: Arc<Face>, routes: Routes, message_bytes_max: usize) -> Self {
        let routes = Metered::new(routes, face.account.clone());
        FastPath {
            face,
            routes,
            message_bytes_max,
            serves: Serves::All,
        }
    }

    /// Takes only what a port is for.
    pub(crate) fn serving(self, serves: Serves) -> Self {
        FastPath { serves, ..self }
    }

    /// Answers a call of one message each way.
    fn unary<Q, M, F>(
        &self,
        request: Request<AnyBody>,
        method: Counted,
        decode: fn(Bytes) -> Result<Q, Status>,
        ask: impl FnOnce(Arc<Face>, Asked<Q>) -> F + Send + 'static,
    ) -> Answering
    where
        Q: Send + 'static,
        M: Message,
        F: Future<Output = Result<Answered<Reply<M>>, Status>> + Send,
    {
        let (face, bytes_max) = (Arc::clone(&self.face), self.message_bytes_max);
        let call = face.calls.begin(method);
        Box::pin(async move {
            let answered = async {
                let mut charge = admit(&face.account, 0).map_err(exhausted)?;
                let (parts, body) = request.into_parts();
                // While authentication is off nothing is kept of who asks.
                let parts = (!face.auth.is_off()).then(|| Box::new(parts));
                let message = receive(body, bytes_max, &mut charge).await?;
                let message = decode(message)?;
                let asked = match parts {
                    None => Asked::new(message),
                    Some(parts) => asked(*parts, message),
                };
                let reply = ask(face, asked).await?;
                respond(reply.into_inner(), charge).await
            };
            let answered = answered.await;
            call.end(answered.as_ref().err());
            Ok(answered.unwrap_or_else(|status| status.into_http().map(ResponseBody::Routed)))
        })
    }
}

impl quorate_face_common::Face for FastPath {
    type Body = ResponseBody;
    type Answering = Answering;

    fn on_connection(&self, account: Account) -> Self {
        FastPath {
            face: Arc::new(self.face.on_connection(account.clone())),
            routes: self.routes.on_connection(account),
            ..*self
        }
    }

    fn answer(self, request: Request<AnyBody>) -> Answering {
        if requires_leader(request.headers()) && !self.face.handle.has_quorum() {
            let refusal = status(errors::NO_LEADER);
            if let Some(method) = Counted::of(request.uri().path()) {
                self.face.calls.begin(method).end(Some(&refusal));
            }
            let refusal = refusal.into_http();
            return Box::pin(ready(Ok(refusal.map(ResponseBody::Routed))));
        }
        if self.serves == Serves::Http && is_call(request.headers()) {
            return refused();
        }
        if is_plain(&request) {
            match request.uri().path() {
                "/etcdserverpb.KV/Put" => {
                    let ask = async |face: Arc<Face>, put| face.put(put).await;
                    return self.unary(request, Counted::PUT, decode, ask);
                }
                "/etcdserverpb.KV/Range" => {
                    let ask = async |face: Arc<Face>, range| face.range(range).await;
                    return self.unary(request, Counted::RANGE, decode, ask);
                }
                "/etcdserverpb.KV/Txn" => {
                    let ask = async |face: Arc<Face>, txn| face.txn(txn).await;
                    return self.unary(request, Counted::TXN, decode_txn, ask);
                }
                _ => {}
            }
        }
        match is_call(request.headers()) {
            true => self.routed(request),
            false if self.serves == Serves::Calls => refused(),
            false => json::answer(self, request),
        }
    }

    fn is_stream(path: &str) -> bool {
        is_stream(path)
    }
}

/// The answer to what another port is for.
fn refused() -> Answering {
    let answer = not_found().map(AnyBody::new);
    Box::pin(ready(Ok(answer.map(ResponseBody::Routed))))
}

impl Calls for FastPath {
    fn face(&self) -> &Arc<Face> {
        &self.face
    }

    fn routed(self, request: Request<AnyBody>) -> Answering {
        let method = Counted::of(request.uri().path());
        let call = method.map(|method| self.face.calls.begin(method));
        let routed = self.routes.answer(request);
        Box::pin(async move {
            let answer = routed.await?;
            if let Some(call) = call {
                call.end_with(answer.headers());
            }
            Ok(answer.map(ResponseBody::Routed))
        })
    }
}

/// A call with what it shows of who asks.
fn asked<Q>(parts: Parts, message: Q) -> Asked<Q> {
    let metadata = MetadataMap::from_headers(parts.headers);
    Asked::from_parts(metadata, parts.extensions, message)
}

/// Whether a request is a gRPC call without any encoding of its messages.
pub(crate) fn is_plain(request: &Request<AnyBody>) -> bool {
    let headers = request.headers();
    let kind = headers.get(CONTENT_TYPE);
    request.method() == Method::POST
        && kind.is_some_and(|kind| kind == "application/grpc" || kind == "application/grpc+proto")
        && !headers.contains_key("grpc-encoding")
}

/// A part of a response that is encoded already is not copied if it is this long.
const SENT_AS_IT_IS_BYTES_MIN: usize = 64 << 10;

/// A longer answer has a buffer of its own, besides its charge.
const SHORT_BYTES_MAX: usize = 256;

/// Takes the one message of a request's body, charged as it comes. Usually it comes in one frame and is not copied.
pub(crate) async fn receive(
    body: AnyBody,
    bytes_max: usize,
    charge: &mut Charge,
) -> Result<Bytes, Status> {
    let mut body = pin!(body);
    let mut whole = BytesMut::new();
    loop {
        let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await else {
            return Err(Status::internal("the request ended before its message did"));
        };
        let Ok(data) = frame?.into_data() else {
            continue;
        };
        charge.add(data.len()).map_err(exhausted)?;
        if whole.is_empty()
            && let Some(message) = message_in(&data, bytes_max)?
        {
            return Ok(data.slice(message));
        }
        // What is not complete is copied, for the frame may be a small part of a buffer.
        whole.put_slice(&data);
        if let Some(message) = message_in(&whole, bytes_max)? {
            return Ok(whole.freeze().slice(message));
        }
        make_room(&mut whole, bytes_max)?;
        let kept = REQUEST_BYTES + whole.capacity();
        let more = kept.saturating_sub(charge.bytes());
        charge.add(more).map_err(exhausted)?;
    }
}

/// Where the message is in the bytes that were received, once it is complete.
fn message_in(received: &[u8], bytes_max: usize) -> Result<Option<Range<usize>>, Status> {
    let length = message_length(received, bytes_max)?;
    let message = length.map(|length| PREFIX_BYTES..PREFIX_BYTES + length);
    Ok(message.filter(|message| received.len() >= message.end))
}

/// Makes room for the rest of a message once enough of it is here to believe its length: otherwise
/// a large one would be copied again and again.
fn make_room(whole: &mut BytesMut, bytes_max: usize) -> Result<(), Status> {
    if let Some(length) = message_length(whole, bytes_max)?
        && whole.len() >= length / 8
    {
        whole.reserve((PREFIX_BYTES + length).saturating_sub(whole.len()));
    }
    Ok(())
}

/// Makes the answer of a reply, once there is room for it. From then on `charge` is for the answer, until the client has
/// taken it. What is encoded already and long has a charge of its own.
pub(crate) async fn respond(
    reply: Reply<impl Message>,
    mut charge: Charge,
) -> Result<Response<ResponseBody>, Status> {
    let length = reply.encoded_len();
    let is_encoded = matches!(reply, Reply::Encoded(..));
    let (reply, rest) = match reply {
        Reply::Encoded(header, rest) if rest.len() >= SENT_AS_IT_IS_BYTES_MIN => {
            (Reply::Encoded(header, Bytes::new()), rest)
        }
        reply => (reply, Bytes::new()),
    };
    let here = PREFIX_BYTES + length - rest.len();
    let room = here.max(REQUEST_BYTES);
    match room.checked_sub(charge.bytes()) {
        // What was encoded before is charged already, and may answer a write: it was done, and must not be told as
        // refused. What is copied here is short.
        _ if is_encoded => charge.resize_anyway(room),
        None | Some(0) => charge.give_back(charge.bytes() - room),
        Some(more) => {
            let waited = charge.add_by(more, Instant::now() + ROOM_PATIENCE);
            waited.await.map_err(exhausted)?;
        }
    }
    let write = |mut out: &mut dyn BufMut| {
        out.put_u8(0);
        // A response longer than that could not have been put together.
        out.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
        reply.encode_raw(&mut out);
    };
    let first = match here {
        0..=SHORT_BYTES_MAX => {
            let mut short = [0; SHORT_BYTES_MAX];
            write(&mut &mut short[..]);
            charge.attach(ShortMessage(short, here))
        }
        _ => {
            let mut out = BytesMut::with_capacity(here);
            write(&mut out);
            charge.attach(out)
        }
    };
    let mut response = Response::new(ResponseBody::Message([first, rest]));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    Ok(response)
}

/// An answer that needs no buffer of its own.
struct ShortMessage([u8; SHORT_BYTES_MAX], usize);

impl AsRef<[u8]> for ShortMessage {
    fn as_ref(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use quorate_etcd_api::etcdserverpb::{RangeResponse, ResponseHeader};
    use quorate_server::Budget;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use tonic::Code;

    /// A body that comes in these pieces.
    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    async fn received(bytes: &[u8], piece_bytes: usize) -> Result<Bytes, Status> {
        let pieces = bytes.chunks(piece_bytes).map(Bytes::copy_from_slice);
        let body = AnyBody::new(Pieces(pieces.collect()));
        receive(body, 100, &mut Budget::new(1 << 20).account().charge()).await
    }

    #[tokio::test]
    async fn a_message_may_come_in_any_pieces() {
        let mut framed = vec![0, 0, 0, 0, 10];
        framed.extend(0..10);
        for piece_bytes in 1..=framed.len() {
            let message = received(&framed, piece_bytes).await.unwrap();
            assert_eq!(message, &framed[5..], "in pieces of {piece_bytes}");
        }
    }

    #[tokio::test]
    async fn what_is_no_message_gets_a_status() {
        let cases: [(&[u8], Code); 5] = [
            (&[], Code::Internal),
            (&[0, 0, 0], Code::Internal),
            (&[0, 0, 0, 0, 3, 1, 2], Code::Internal),
            (&[1, 0, 0, 0, 1, 9], Code::Internal),
            (&[0, 0xff, 0xff, 0xff, 0xff, 9], Code::OutOfRange),
        ];
        for (bytes, code) in cases {
            for piece_bytes in 1..4 {
                let status = received(bytes, piece_bytes).await.unwrap_err();
                assert_eq!(status.code(), code, "{bytes:?}: {status}");
            }
        }
    }

    /// Scenario: a member's connection ends in the middle of a response that a gateway passes on.
    #[tokio::test]
    async fn a_response_whose_rest_is_lost_ends_with_a_status() {
        struct Broken(Option<Bytes>);
        impl Body for Broken {
            type Data = Bytes;
            type Error = Status;

            fn poll_frame(
                mut self: Pin<&mut Self>,
                _context: &mut Context<'_>,
            ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
                let frame = self.0.take().map(Frame::data);
                Poll::Ready(Some(frame.ok_or_else(|| Status::cancelled("reset"))))
            }
        }
        let mut body = pin!(ResponseBody::Passed(AnyBody::new(Broken(Some(
            "some".into()
        )))));
        let mut frames = Vec::new();
        while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
            frames.push(frame.expect("an error would reset the stream"));
        }
        assert_eq!(frames.len(), 2);
        assert_eq!(frames[0].data_ref().expect("data"), "some");
        let trailers = frames[1].trailers_ref().expect("trailers");
        let status = Status::from_header_map(trailers).expect("a status");
        let lost = errors::TIMEOUT_CONNECTION_LOST;
        assert_eq!(
            (status.code(), status.message()),
            (Code::Unavailable, lost.text)
        );
    }

    /// Scenario: there is no room for anything more. The response of a write is sent all the same.
    #[tokio::test]
    async fn a_write_that_was_done_is_not_refused_for_want_of_room() {
        let rest = Bytes::from(vec![7; SENT_AS_IT_IS_BYTES_MIN - 1]);
        let reply = Reply::<RangeResponse>::Encoded(ResponseHeader::default(), rest);
        assert!(
            respond(reply, Budget::new(1).account().charge())
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn a_large_response_is_sent_in_two_parts_that_make_the_message() {
        for length in [100, SENT_AS_IT_IS_BYTES_MIN] {
            let header = ResponseHeader {
                revision: 3,
                ..ResponseHeader::default()
            };
            let rest = Bytes::from(vec![7; length]);
            let reply = || Reply::<RangeResponse>::Encoded(header, rest.clone());
            let response = respond(reply(), Budget::new(1 << 20).account().charge()).await;
            let mut body = pin!(response.expect("there is room").into_body());
            let mut sent = Vec::new();
            while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
                if let Ok(data) = frame.expect("no error").into_data() {
                    sent.extend_from_slice(&data);
                }
            }
            let message = reply().encode_to_vec();
            assert_eq!(
                message_length(&sent, usize::MAX).unwrap(),
                Some(message.len())
            );
            assert_eq!(sent[PREFIX_BYTES..], message);
        }
    }
}
