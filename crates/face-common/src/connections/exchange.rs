//! One request and its answer, as the connection counts them.

use super::read_ahead::ReadAhead;
use super::registry::ConnectionState;
use super::secured::{CommonName, Encrypted};
use super::takeover::{Successor, Takeover};
use super::{Face, call_time};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service as HyperService;
use quorate_server::Account;
use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::header::CONTENT_TYPE;
use tonic::codegen::http::{HeaderMap, Request, Response};

/// A body of one message brings at least so many bytes in each window of time in which it is waited for.
pub(super) const BODY_BYTES_MIN: usize = 10 << 10;

/// The service of one connection.
pub(super) struct Exchange<F> {
    face: F,
    state: Arc<ConnectionState>,
    /// What streams of requests are charged to until they are taken.
    account: Account,
    body_window: Duration,
    /// Who asks, if the client's certificate says so.
    asker: Option<CommonName>,
    is_encrypted: bool,
    successor: Successor,
}

impl<F> Exchange<F> {
    pub(super) fn new(
        face: F,
        state: &Arc<ConnectionState>,
        account: Account,
        body_window: Duration,
    ) -> Self {
        let state = Arc::clone(state);
        Exchange {
            face,
            state,
            account,
            body_window,
            asker: None,
            is_encrypted: false,
            successor: Successor::default(),
        }
    }

    /// Tells the face with each request that it came encrypted, and who asks, if anybody is known to.
    pub(super) fn asked_by(self, asker: Option<CommonName>) -> Self {
        Exchange {
            asker,
            is_encrypted: true,
            ..self
        }
    }

    /// Where a request leaves what the connection goes on with.
    pub(super) fn successor(&self) -> &Successor {
        &self.successor
    }
}

impl<F: Face> HyperService<Request<Incoming>> for Exchange<F> {
    type Response = Response<Counted<F::Body>>;
    type Error = Infallible;
    type Future = Answering<F::Answering>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        if let Some(asker) = &self.asker {
            request.extensions_mut().insert(asker.clone());
        }
        // Calls of gRPC are the same either way.
        if self.is_encrypted && !is_call(request.headers()) {
            request.extensions_mut().insert(Encrypted);
        }
        let open = OpenRequest::begin(&self.state);
        Takeover::offer(&mut request, &self.state, &self.successor);
        let is_stream = F::is_stream(request.uri().path());
        let pace = (!is_stream).then(|| Pace::new(self.body_window));
        let is_held = !is_stream && call_time::is_nearly_over(request.headers());
        let held = is_held.then(|| Box::pin(sleep(call_time::HOLD)));
        let state = Arc::clone(&self.state);
        let request = request.map(|inner| {
            let received = Received {
                inner,
                held,
                pace,
                state,
            };
            match is_stream {
                true => AnyBody::new(ReadAhead::start(received, self.account.charge())),
                false => AnyBody::new(received),
            }
        });
        Answering {
            answer: self.face.clone().answer(request),
            open: Some(open),
        }
    }
}

/// Whether these are the headers of a gRPC call.
#[must_use]
pub fn is_call(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// A request whose answer is not sent yet.
pub(super) struct OpenRequest(Arc<ConnectionState>);

impl OpenRequest {
    pub(super) fn begin(state: &Arc<ConnectionState>) -> Self {
        state.request_begins();
        OpenRequest(Arc::clone(state))
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.request_ends();
    }
}

/// An answer that is awaited.
pub(super) struct Answering<A> {
    answer: A,
    /// The answer takes it along.
    open: Option<OpenRequest>,
}

impl<A, B> Future for Answering<A>
where
    A: Future<Output = Result<Response<B>, Infallible>> + Unpin,
{
    type Output = Result<Response<Counted<B>>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(answer) = ready!(Pin::new(&mut self.answer).poll(context));
        let _open = self.open.take();
        Poll::Ready(Ok(answer.map(|body| Counted { body, _open })))
    }
}

/// The body of an answer. The request is open until it is sent or given up.
pub(super) struct Counted<B> {
    body: B,
    _open: Option<OpenRequest>,
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a request, which fails if it comes too slowly.
struct Received<T = Incoming> {
    inner: T,
    /// The time until which the message is held back: nothing is done with it before.
    held: Option<Pin<Box<Sleep>>>,
    /// `None` if it may come as slowly as it likes.
    pace: Option<Pace>,
    state: Arc<ConnectionState>,
}

impl<T> Body for Received<T>
where
    T: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Unpin,
{
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        if let Some(held) = &mut this.held {
            ready!(held.as_mut().poll(context));
            this.held = None;
        }
        match (
            Pin::new(&mut this.inner).poll_frame(context),
            &mut this.pace,
        ) {
            (Poll::Ready(Some(Ok(frame))), pace) => {
                match pace {
                    Some(pace) => pace.bytes += frame.data_ref().map_or(0, Bytes::len),
                    None => this.state.touch(),
                }
                Poll::Ready(Some(Ok(frame)))
            }
            (Poll::Ready(ended), _) => Poll::Ready(ended.map(|ended| ended.map_err(Into::into))),
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Pending, Some(pace)) => {
                ready!(pace.poll_too_slow(context));
                this.state.counts().slow_bodies.increment(1);
                this.state.finish();
                let why = "the request came more slowly than 1 KiB per second";
                Poll::Ready(Some(Err(Status::deadline_exceeded(why).into())))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// How fast a body comes.
struct Pace {
    window: Duration,
    /// Bytes that came since the present window began.
    bytes: usize,
    /// `None` until the body is waited for: most come with their head.
    end: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(window: Duration) -> Self {
        Pace {
            window,
            bytes: 0,
            end: None,
        }
    }

    /// Completes when a window has passed in which too little came.
    fn poll_too_slow(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let end = self.end.get_or_insert_with(|| {
                self.bytes = 0;
                Box::pin(sleep(self.window))
            });
            ready!(end.as_mut().poll(context));
            if self.bytes < BODY_BYTES_MIN {
                return Poll::Ready(());
            }
            self.end = None;
        }
    }
}
