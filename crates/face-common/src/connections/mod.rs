//! Connections of clients: taking them, serving HTTP/1 and HTTP/2 on them, and ending.
//!
//! A port has a bound for open connections ([`Registry`]). A connection whose head of a request does not come
//! ([`Heads`]) or whose body comes too slowly ([`Exchange`]) is closed. All others stay open for as long as
//! their clients want, unless the bound is reached and others are wanted more.

#[macro_use]
mod write_through;

mod backpressure;
mod call_time;
mod exchange;
mod frames;
mod gathered;
mod heads;
mod paced;
mod pongs;
mod read_ahead;
mod registry;
mod secured;
mod takeover;
#[cfg(test)]
mod tests;
mod windows;

pub use backpressure::Backpressure;
pub(crate) use call_time::TIMEOUT;
pub use exchange::is_call;
pub use heads::Heads;
pub use secured::{CommonName, Encrypted};
pub use takeover::{TakenOver, Takeover};

use exchange::Exchange;
use gathered::Gathered;
use http_body::Body;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use paced::{Paced, Turns};
use quorate_server::{Account, Connection, Listener};
use registry::{IDLE_AFTER, Order, Place, Registry};
use std::convert::Infallible;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;
use tonic::body::Body as AnyBody;
use tonic::codegen::http::{Request, Response};
use windows::{Window, Windows};

/// What clients may do with connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// Most connections that are open at a time.
    pub connections_max: usize,
    /// How long a connection may take to say what it speaks, and each head of a request to be complete.
    pub head_timeout: Duration,
    /// A body of one message brings at least 10 KiB in each such time in which it is waited for.
    pub body_window: Duration,
    /// Most requests at a time on one HTTP/2 connection.
    pub streams_max: u32,
    /// Largest HTTP/2 frame taken, in bytes.
    pub frame_bytes_max: u32,
    /// Bytes that a client may send ahead on an HTTP/2 connection; it gets fewer where many are connected.
    pub window_bytes: u32,
    /// How long an HTTP/2 connection may be silent before it is asked for a sign of life.
    pub keepalive_interval: Duration,
    /// How long that sign may take before the connection is closed.
    pub keepalive_timeout: Duration,
    /// How long open requests may take after the face was told to stop.
    pub drain: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            connections_max: 10_000,
            head_timeout: Duration::from_secs(10),
            body_window: Duration::from_secs(10),
            streams_max: 1 << 16,
            frame_bytes_max: 1 << 20,
            window_bytes: 4 << 20,
            keepalive_interval: Duration::from_secs(2 * 60 * 60),
            keepalive_timeout: Duration::from_secs(20),
            drain: Duration::from_secs(5),
        }
    }
}

/// The longest head of a request over HTTP/1, in bytes; bodies come through the same buffer.
const HTTP1_BUFFER_BYTES: usize = 32 << 10;

/// The longest head of a request over HTTP/2, in bytes as its fields come to once they are unpacked. It bounds how many
/// frames a head may come in, too.
const HTTP2_HEAD_BYTES_MAX: u32 = 16 << 10;
/// Requests that a client may have taken back before anything was done with them; with one more its connection ends.
const WITHDRAWN_MAX: usize = 20;

/// What answers the requests of a face.
pub trait Face: Clone + Send + 'static {
    /// The body of an answer.
    type Body: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + Unpin + 'static;
    /// An answer under way.
    type Answering: Future<Output = Result<Response<Self::Body>, Infallible>>
        + Send
        + Unpin
        + 'static;

    /// The service for one connection: what its requests and answers take is charged to `account`.
    #[must_use]
    fn on_connection(&self, account: Account) -> Self;

    /// Answers a request.
    fn answer(self, request: Request<AnyBody>) -> Self::Answering;

    /// Whether the body of a request to `path` is a stream of messages, which may come as slowly as its client likes.
    fn is_stream(path: &str) -> bool;
}

/// Serves until `shutdown` completes, then lets open requests finish for a while. `wrap` may put something
/// between a connection and HTTP.
pub async fn serve<T: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    listener: Listener,
    face: impl Face,
    limits: &ConnectionLimits,
    wrap: impl Fn(Heads<Backpressure<Connection>>) -> T + Copy + Send + 'static,
    shutdown: impl Future<Output = ()>,
) {
    let registry = Registry::new(limits.connections_max, IDLE_AFTER, listener.counts());
    let budget = listener.budget();
    let windows = Windows::default();
    let mut shutdown = pin!(shutdown);
    loop {
        let (connection, from) = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        let Some(place) = registry.admit().await else {
            continue; // Dropped, and thereby closed.
        };
        let account = budget.account();
        let face = face.on_connection(account.clone());
        let exchange = Exchange::new(face, place.state(), account, limits.body_window);
        let window = windows.next(limits.window_bytes);
        let http = http(limits, &window);
        let head_timeout = limits.head_timeout;
        let io = move |connection, place: &Place| {
            let connection = Backpressure::new(connection);
            wrap(Heads::new(connection, place.state(), head_timeout))
        };
        let Some(tls) = listener.tls() else {
            let io = io(connection.into(), &place);
            tokio::spawn(serve_connection(io, exchange, http, window, place));
            continue;
        };
        tokio::spawn(async move {
            if let Some(connection) = secured::accept(&tls, connection, from, &place).await {
                let exchange = exchange.asked_by(tls.user_of(&connection).map(CommonName));
                let io = io(connection, &place);
                serve_connection(io, exchange, http, window, place).await;
            }
        });
    }
    drop(listener);
    let finished = tokio::time::timeout(limits.drain, registry.finish_all()).await;
    if finished.is_err() {
        registry.close_all();
    }
}

fn http(limits: &ConnectionLimits, window: &Window) -> Builder<TokioExecutor> {
    let mut http = Builder::new(TokioExecutor::new());
    http.http2()
        .timer(TokioTimer::new())
        .initial_stream_window_size(window.bytes())
        .initial_connection_window_size(window.bytes())
        .max_concurrent_streams(limits.streams_max)
        .max_pending_accept_reset_streams(WITHDRAWN_MAX)
        .max_header_list_size(HTTP2_HEAD_BYTES_MAX)
        .max_frame_size(window.frame_bytes_max().min(limits.frame_bytes_max))
        .keep_alive_interval(limits.keepalive_interval)
        .keep_alive_timeout(limits.keepalive_timeout);
    // The library would end a connection also between two requests; `Heads` has the deadline.
    http.http1()
        .header_read_timeout(None)
        .max_buf_size(HTTP1_BUFFER_BYTES);
    http
}

/// How long an end may take that a client has to agree to.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// Serves one connection until its client or an order ends it.
async fn serve_connection(
    io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    exchange: Exchange<impl Face>,
    http: Builder<TokioExecutor>,
    _window: Window,
    place: Place,
) {
    let successor = exchange.successor().clone();
    let mut finishing = false;
    // The connection is closed before its place is free.
    {
        let turns = Turns::default();
        let (io, ends) = Gathered::new(io, Arc::clone(place.pongs()));
        let io = TokioIo::new(Paced::new(io, turns.clone()));
        let mut serving = pin!(http.serve_connection_with_upgrades(io, exchange));
        loop {
            let order = tokio::select! {
                biased;
                ended = poll_fn(|context| {
                    turns.begin();
                    ends.turn(context, |context| serving.as_mut().poll(context))
                }) => {
                    if let Err(error) = ended {
                        tracing::debug!(error, "a client's connection failed");
                    }
                    break;
                }
                order = place.state().order() => order,
                // A client that keeps its side open does not keep the connection.
                () = sleep(GOODBYE_MAX), if finishing => match place.state().has_open_requests() {
                    true => continue,
                    false => Order::Close,
                },
            };
            if !finishing {
                finishing = true;
                serving.as_mut().graceful_shutdown();
            }
            if order == Order::Close {
                // Says goodbye if that can be done at once.
                poll_fn(|context| {
                    let _ = ends.turn(context, |context| serving.as_mut().poll(context));
                    Poll::Ready(())
                })
                .await;
                break;
            }
        }
    }
    if let Some(mut going_on) = successor.take().filter(|_| !finishing) {
        tokio::select! {
            () = &mut going_on => {}
            _ = place.state().order() => {}
        }
    }
    drop(place);
}
