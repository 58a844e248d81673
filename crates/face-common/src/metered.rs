//! Requests and answers of routes, their bytes charged to the connection that they belong to.

mod messages;

use crate::{Face, is_call};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use messages::Messages;
use quorate_server::{Account, Charge, Exhausted};
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Sleep, sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use tonic::codegen::http::{Request, Response, StatusCode};
use tonic::service::Routes;

/// What a request takes besides its body, in bytes: its stream, its task, its headers. An answer that is shorter needs
/// no more room.
pub const REQUEST_BYTES: usize = 8 << 10;
/// How long an answer waits for room before its client is told that there is none.
pub const ROOM_PATIENCE: Duration = Duration::from_secs(4);
/// There has to be room for so many bytes before the next part of an answer is made.
const PART_BYTES: usize = 64 << 10;
/// How often an answer looks for that room.
const PART_RETRY: Duration = Duration::from_millis(20);

/// Charges a new request, and `more` bytes besides, to its connection.
///
/// # Errors
/// There is no room: the request is to be refused. It does not wait, for what waits takes memory, too.
pub fn admit(account: &Account, more: usize) -> Result<Charge, Exhausted> {
    let mut charge = account.charge();
    charge.add(REQUEST_BYTES + more)?;
    Ok(charge)
}

/// What a gRPC client is told if there is no room for its request or the answer.
#[must_use]
pub fn exhausted(why: Exhausted) -> Status {
    Status::resource_exhausted(format!("etcdserver: {why}"))
}

/// Has a request answered by `answer`, and charges it and the answer to the account of its connection.
///
/// The bytes of a request are charged until the answer is sent; those of a gRPC message only until the next one comes,
/// for calls may be streams of them. A part of an answer is charged until the client has taken it.
///
/// # Errors
/// Those of `answer`.
pub async fn metered<E>(
    account: &Account,
    request: Request<Body>,
    answer: impl AsyncFnOnce(Request<Body>) -> Result<Response<Body>, E>,
) -> Result<Response<Body>, E> {
    let is_call = is_call(request.headers());
    let charge = match admit(account, 0) {
        Ok(charge) => charge,
        Err(why) => return Ok(refusal(is_call, why)),
    };
    let intake = Arc::new(Mutex::new(ReceivedRequest {
        charge,
        messages: is_call.then(Messages::default),
        is_exhausted: false,
    }));
    let request = request.map(|inner| {
        let intake = Arc::clone(&intake);
        Body::new(Received { inner, intake })
    });
    let answer = answer(request).await;
    if lock(&intake).is_exhausted {
        return Ok(refusal(is_call, Exhausted));
    }
    let answer = answer?;
    let mut room = account.charge();
    match answer.body().size_hint().exact().unwrap_or(0) as usize {
        // The request's charge is for this, too.
        made @ ..REQUEST_BYTES => room.resize_anyway(made),
        // It is in memory already, and not to wait there.
        made => {
            if let Err(why) = room.add(made) {
                return Ok(refusal(is_call, why));
            }
        }
    }
    Ok(answer.map(|inner| {
        Body::new(Sent {
            inner,
            room,
            wait: None,
            _intake: intake,
        })
    }))
}

/// Routes as one connection sees them, whose requests and answers are charged to its account ([`metered`]). They find
/// the account among a request's extensions.
#[derive(Clone, Debug)]
pub struct Metered {
    routes: Routes,
    account: Account,
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Metered {
    /// Charges to this account.
    #[must_use]
    pub fn new(routes: Routes, account: Account) -> Metered {
        Metered { routes, account }
    }
}

impl Face for Metered {
    type Body = Body;
    type Answering = Answering;

    fn on_connection(&self, account: Account) -> Self {
        Metered::new(self.routes.clone(), account)
    }

    fn answer(self, mut request: Request<Body>) -> Answering {
        let Metered {
            mut routes,
            account,
        } = self;
        request.extensions_mut().insert(account.clone());
        Box::pin(async move {
            metered(&account, request, async |request| {
                routes.call(request).await
            })
            .await
        })
    }

    fn is_stream(_: &str) -> bool {
        false
    }
}

/// What came of a request.
struct ReceivedRequest {
    charge: Charge,
    /// `None` if the body is one piece.
    messages: Option<Messages>,
    /// There was no room for a part of it.
    is_exhausted: bool,
}

impl ReceivedRequest {
    /// Charges the next bytes.
    fn take(&mut self, data: &[u8]) -> Result<(), Exhausted> {
        if let Some(messages) = &mut self.messages {
            // What was complete is in use or done with by the time that more comes.
            self.charge.give_back(messages.take_complete());
            messages.pass(data);
        }
        let added = self.charge.add(data.len());
        self.is_exhausted |= added.is_err();
        added
    }
}

fn lock(intake: &Mutex<ReceivedRequest>) -> MutexGuard<'_, ReceivedRequest> {
    intake.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of a request.
struct Received {
    inner: Body,
    intake: Arc<Mutex<ReceivedRequest>>,
}

impl HttpBody for Received {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let frame = ready!(Pin::new(&mut self.inner).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
            && let Err(why) = lock(&self.intake).take(data)
        {
            return Poll::Ready(Some(Err(exhausted(why))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer, the next part of which is made once there is room.
struct Sent {
    inner: Body,
    /// For the next part.
    room: Charge,
    /// Until room is looked for again.
    wait: Option<Pin<Box<Sleep>>>,
    /// The request lasts as long as its answer.
    _intake: Arc<Mutex<ReceivedRequest>>,
}

impl Sent {
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(context));
                self.wait = None;
            }
            if self.room.bytes() > 0 || self.room.try_add(PART_BYTES).is_ok() {
                return Poll::Ready(());
            }
            self.wait = Some(Box::pin(sleep(PART_RETRY)));
        }
    }
}

impl HttpBody for Sent {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        ready!(this.poll_room(context));
        let Poll::Ready(frame) = Pin::new(&mut this.inner).poll_frame(context) else {
            // A stream that says nothing takes no room.
            this.room.give_back(PART_BYTES);
            return Poll::Pending;
        };
        let mut room = this.room.take();
        let charged = |data: Bytes| {
            room.resize_anyway(data.len());
            room.attach(data)
        };
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(charged))))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// This body, for which something is charged until it ends.
pub(crate) fn charged(inner: Body, charge: Charge) -> Body {
    Body::new(ChargedBody {
        inner,
        _charge: charge,
    })
}

/// A body with what is charged for it.
struct ChargedBody {
    inner: Body,
    _charge: Charge,
}

impl HttpBody for ChargedBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.inner).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

fn refusal(is_call: bool, why: Exhausted) -> Response<Body> {
    match is_call {
        true => exhausted(why).into_http(),
        false => overloaded(why),
    }
}

/// What any other client is told if there is no room for its request or the answer.
#[must_use]
pub fn overloaded(why: Exhausted) -> Response<Body> {
    let mut refusal = Response::new(Body::new(format!("{why}\n")));
    *refusal.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    let headers = refusal.headers_mut();
    headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    refusal
}
