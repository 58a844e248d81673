//! What a gateway apart passes on to members: reads, watches, leases, and whatever is about the cluster.
//!
//! One member gets all of it while it can be reached; another one does when it fails. What only reads is asked
//! again there; of everything else the client is told that the member is unavailable, and does as with any
//! server that goes away.

use crate::front::PREFIX_BYTES;
use axum::body::Body as PlainBody;
use bytes::{BufMut, Bytes, BytesMut};
use quorate_server::Upstream;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use tonic::codegen::http::{Method, Request, Response, Uri, Version};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

/// How long a connection may take to come about, and a member's sign of life.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(1);
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(2);
/// Rounds through the members before a client is told that none can be reached, and the pause between two.
const ROUNDS_MAX: usize = 3;
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// Members to which connections are kept.
const CHANNELS_MAX: usize = 64;

/// The members, as clients reach them.
#[derive(Clone)]
pub(crate) struct Members {
    upstream: watch::Receiver<Upstream>,
    /// How long one may take for an answer before another is asked.
    patience: Duration,
    shared: Arc<Shared>,
}

struct Shared {
    channels: Mutex<BTreeMap<String, Channel>>,
    /// Which of them has its turn: the same until it fails.
    turn: AtomicUsize,
}

impl Members {
    pub(crate) fn new(upstream: watch::Receiver<Upstream>, patience: Duration) -> Members {
        // Gateways begin with different members.
        let first = usize::from(upstream.borrow().me.0);
        let shared = Shared {
            channels: Mutex::default(),
            turn: AtomicUsize::new(first),
        };
        Members {
            upstream,
            patience,
            shared: Arc::new(shared),
        }
    }

    /// Whether the gateway orders writes itself.
    pub(crate) fn leave_writes(&self) -> bool {
        self.upstream.borrow().orders
    }

    /// Passes a request on as it is, to one member.
    pub(crate) async fn pass(&self, request: Request<Body>) -> Response<Body> {
        self.wait_for_somebody().await;
        let Some((turn, mut channel)) = self.pick() else {
            return nobody();
        };
        let (mut parts, body) = request.into_parts();
        // A browser's, or a probe's: its connection is not the one to the member.
        parts.headers.remove(HOST);
        parts.headers.remove(CONNECTION);
        parts.version = Version::HTTP_2;
        let request = Request::from_parts(parts, body);
        match ask(&mut channel, request).await {
            Ok(response) => response,
            Err(why) => {
                self.failed(turn);
                unavailable(&why)
            }
        }
    }

    /// Passes on a call of one message each way which changes nothing: to one member after the other, until
    /// one answers.
    pub(crate) async fn read(
        &self,
        uri: &Uri,
        headers: &HeaderMap,
        message: Bytes,
    ) -> Response<Body> {
        self.wait_for_somebody().await;
        let mut last = nobody();
        for round in 0..ROUNDS_MAX {
            if round > 0 {
                tokio::time::sleep(ROUND_PAUSE).await;
            }
            let members = self.upstream.borrow().urls.len();
            for _ in 0..members {
                let Some((turn, mut channel)) = self.pick() else {
                    break;
                };
                let request = call(uri, headers, &message);
                let asked = tokio::time::timeout(self.patience, ask(&mut channel, request)).await;
                last = match asked {
                    Ok(Ok(response)) if !is_unavailable(&response) => return response,
                    Ok(Ok(response)) => response,
                    Ok(Err(why)) => unavailable(&why),
                    Err(_) => unavailable("it did not answer in time"),
                };
                self.failed(turn);
            }
        }
        last
    }

    /// When another epoch begins, the gateway connects to all members anew: for a moment there is none.
    async fn wait_for_somebody(&self) {
        let mut upstream = self.upstream.clone();
        let somebody = upstream.wait_for(|upstream| !upstream.urls.is_empty());
        // Who is not there by then cannot be reached.
        let _ = tokio::time::timeout(CONNECT_TIMEOUT.min(self.patience), somebody).await;
    }

    /// Whose turn it is.
    fn pick(&self) -> Option<(usize, Channel)> {
        let turn = self.shared.turn.load(Ordering::Relaxed);
        let url = {
            let upstream = self.upstream.borrow();
            let at = turn.checked_rem(upstream.urls.len())?;
            upstream.urls[at].clone()
        };
        let mut channels = self.shared.channels.lock();
        let channels = channels.as_mut().unwrap_or_else(PoisonError::get_mut);
        if let Some(channel) = channels.get(&url) {
            return Some((turn, channel.clone()));
        }
        if channels.len() >= CHANNELS_MAX {
            channels.pop_first();
        }
        let endpoint = Endpoint::from_shared(url.clone()).ok()?;
        let channel = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(SIGN_OF_LIFE_EVERY)
            .keep_alive_timeout(SIGN_OF_LIFE_TIMEOUT)
            .tcp_nodelay(true)
            .connect_lazy();
        channels.insert(url, channel.clone());
        Some((turn, channel))
    }

    /// The member whose turn it was failed: the next one has it, unless somebody else noticed before.
    fn failed(&self, turn: usize) {
        let (from, to) = (turn, turn.wrapping_add(1));
        let (set, seen) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.shared.turn.compare_exchange(from, to, set, seen);
    }
}

async fn ask(channel: &mut Channel, request: Request<Body>) -> Result<Response<Body>, String> {
    let ready = poll_fn(|context| Service::<Request<Body>>::poll_ready(channel, context));
    ready.await.map_err(|error| error.to_string())?;
    channel
        .call(request)
        .await
        .map_err(|error| error.to_string())
}

/// A message with what is in front of it.
pub(crate) fn framed(message: &Bytes) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// A call of one message.
fn call(uri: &Uri, headers: &HeaderMap, message: &Bytes) -> Request<Body> {
    let mut request = Request::new(Body::new(PlainBody::from(framed(message))));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = uri.clone();
    *request.version_mut() = Version::HTTP_2;
    *request.headers_mut() = headers.clone();
    let kind = HeaderValue::from_static("application/grpc");
    request.headers_mut().insert(CONTENT_TYPE, kind);
    request
}

/// Whether a response says right away that the member cannot serve.
fn is_unavailable(response: &Response<Body>) -> bool {
    let status = Status::from_header_map(response.headers());
    status.is_some_and(|status| status.code() == Code::Unavailable)
}

fn nobody() -> Response<Body> {
    unavailable("no member can be reached")
}

fn unavailable(why: &str) -> Response<Body> {
    Status::unavailable(format!("etcdserver: {why}")).into_http()
}
