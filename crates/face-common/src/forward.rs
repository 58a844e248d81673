//! What a remote gateway passes on to members: reads, and whatever else needs the state or is about the cluster.
//!
//! One member gets all of it while it can be reached; another one does when it fails. What only reads is asked
//! again there; of everything else the client is told that the member is unavailable, and does as with any
//! server that goes away.

use crate::connections::TIMEOUT;
use crate::dial::Dialer;
use crate::metered::{admit, charged};
use quorate_server::{Account, Charge, Exhausted, Upstream};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tonic::ConnectError;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::codegen::http::header::{CONNECTION, HOST};
use tonic::codegen::http::{Request, Response, Version};
use tonic::transport::{Channel, Endpoint};

/// How long a connection may take to come about, and a member's sign of life.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(1);
const SIGN_OF_LIFE_TIMEOUT: Duration = Duration::from_secs(2);
/// Rounds through the members before a client is told that none can be reached, and the pause between two.
const ROUNDS_MAX: usize = 3;
const ROUND_PAUSE: Duration = Duration::from_millis(100);
/// What a member may send of an answer that the client does not take, in bytes.
const ANSWER_AHEAD_BYTES: u32 = 64 << 10;
/// The most that a window of HTTP/2 may be.
const WINDOW_BYTES_MAX: u32 = (1 << 31) - 1;
/// Members to which connections are kept.
const CHANNELS_MAX: usize = 64;

/// The members, as clients reach them.
#[derive(Clone)]
pub struct Members {
    upstream: watch::Receiver<Upstream>,
    /// The longest time a member may take for an answer before another is asked.
    patience: Duration,
    dialer: Dialer,
    shared: Arc<Shared>,
}

struct Shared {
    channels: Mutex<BTreeMap<String, Channel>>,
    /// The member that is asked next: it changes when that one fails.
    turn: AtomicUsize,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members").finish_non_exhaustive()
    }
}

/// Why no member answered, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unanswered {
    /// None was reached: nothing was done.
    Unreached(String),
    /// A member was asked and did not answer: what was asked for may have been done.
    Lost(String),
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unanswered::Unreached(why) => write!(f, "no member can be reached: {why}"),
            Unanswered::Lost(why) => write!(f, "a member was asked and did not answer: {why}"),
        }
    }
}

impl std::error::Error for Unanswered {}

impl Unanswered {
    fn nobody() -> Self {
        Unanswered::Unreached("none is known".to_owned())
    }

    /// What became of a request that a connection was to carry.
    fn of(error: &(dyn std::error::Error + 'static)) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let texts: Vec<String> = causes.clone().map(ToString::to_string).collect();
        let text = texts.join(": ");
        match causes.into_iter().any(|cause| cause.is::<ConnectError>()) {
            true => Unanswered::Unreached(text),
            false => Unanswered::Lost(text),
        }
    }
}

impl Members {
    /// The members that the gateway knows of at any time. A member has `patience` to answer a read; `dialer` connects
    /// to those that speak TLS.
    #[must_use]
    pub fn new(upstream: watch::Receiver<Upstream>, patience: Duration, dialer: Dialer) -> Members {
        // Gateways begin with different members.
        let first = usize::from(upstream.borrow().me.0);
        let shared = Shared {
            channels: Mutex::default(),
            turn: AtomicUsize::new(first),
        };
        Members {
            upstream,
            patience,
            dialer,
            shared: Arc::new(shared),
        }
    }

    /// Whether the gateway orders writes itself.
    #[must_use]
    pub fn leave_writes(&self) -> bool {
        self.upstream.borrow().orders
    }

    /// Room for what a member may send of an answer before the client takes it.
    ///
    /// # Errors
    /// The budget has no room: the request is to be refused.
    pub fn room(&self, account: &Account) -> Result<Charge, Exhausted> {
        admit(account, ANSWER_AHEAD_BYTES as usize)
    }

    /// Passes a request on as it is, to one member. `room` is that for the answer.
    ///
    /// # Errors
    /// Why that one gave no answer, and whether it was asked.
    pub async fn pass(
        &self,
        request: Request<Body>,
        room: Charge,
    ) -> Result<Response<Body>, Unanswered> {
        self.wait_for_somebody().await;
        let (turn, mut channel) = self.pick().ok_or_else(Unanswered::nobody)?;
        let answer = ask(&mut channel, request).await;
        let answer = answer.inspect_err(|_| self.failed(turn))?;
        Ok(answer.map(|body| charged(body, room)))
    }

    /// Asks for what changes nothing: one member after the other, until one gives an answer that does not say
    /// that it cannot serve. `room` is that for the answer.
    ///
    /// # Errors
    /// Why the last of them gave no answer.
    pub async fn read(
        &self,
        request: impl Fn() -> Request<Body>,
        is_unavailable: impl Fn(&Response<Body>) -> bool,
        room: Charge,
    ) -> Result<Response<Body>, Unanswered> {
        self.wait_for_somebody().await;
        let mut last = Err(Unanswered::nobody());
        for round in 0..ROUNDS_MAX {
            if round > 0 {
                tokio::time::sleep(ROUND_PAUSE).await;
            }
            let members = self.upstream.borrow().urls.len();
            for _ in 0..members {
                let Some((turn, mut channel)) = self.pick() else {
                    break;
                };
                let asked = tokio::time::timeout(self.patience, ask(&mut channel, request())).await;
                last = match asked {
                    Ok(Ok(response)) if !is_unavailable(&response) => {
                        return Ok(response.map(|body| charged(body, room)));
                    }
                    Ok(answer) => answer,
                    Err(_) => Err(Unanswered::Lost("not in time".to_owned())),
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

    /// The member whose turn it is, with a channel to it.
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
        let endpoint = endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(SIGN_OF_LIFE_EVERY)
            .keep_alive_timeout(SIGN_OF_LIFE_TIMEOUT)
            .initial_stream_window_size(ANSWER_AHEAD_BYTES)
            // A client that does not take its answer holds up no other one's.
            .initial_connection_window_size(WINDOW_BYTES_MAX)
            .tcp_nodelay(true);
        let channel = match url.starts_with("https://") {
            true => endpoint.connect_with_connector_lazy(self.dialer.clone()),
            false => endpoint.connect_lazy(),
        };
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

async fn ask(channel: &mut Channel, request: Request<Body>) -> Result<Response<Body>, Unanswered> {
    let (mut parts, body) = request.into_parts();
    // A browser's, or a probe's: its connection is not the one to the member.
    parts.headers.remove(HOST);
    parts.headers.remove(CONNECTION);
    // The client counts its time itself, and leaves when it is over. The channel would count it too, and end the
    // call before the client does.
    parts.headers.remove(TIMEOUT);
    parts.version = Version::HTTP_2;
    let request = Request::from_parts(parts, body);
    let ready = poll_fn(|context| Service::<Request<Body>>::poll_ready(channel, context));
    ready.await.map_err(|error| Unanswered::of(&error))?;
    let answered = channel.call(request).await;
    answered.map_err(|error| {
        let why = Unanswered::of(&error);
        tracing::debug!("{why}");
        why
    })
}
