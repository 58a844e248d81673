//! The open connections, and the choice of which has to go when there are too many.

use super::pongs::Pongs;
use quorate_server::{ConnectionCounts, LogLimit};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// A connection is idle once no request began, ended or brought anything for so long. Those of clients that ask
/// one request after the other never are.
pub(super) const IDLE_AFTER: Duration = Duration::from_millis(100);
/// How many idle connections are found by one look at all of them.
const CANDIDATES_MAX: usize = 256;

/// The connections of a port.
///
/// When as many are open as there may be, a new one takes the place of one that is idle: of those without an
/// open request the one that has been so for longest, otherwise of those with one. Where none is idle the new
/// one is refused.
pub(super) struct Registry {
    connections_max: usize,
    idle_after: Duration,
    counts: Arc<ConnectionCounts>,
    /// The time that activity counts from.
    began: Instant,
    shared: Arc<Shared>,
    log: LogLimit,
}

#[derive(Default)]
struct Shared {
    open: Mutex<Open>,
    /// A connection left.
    left: Notify,
    pongs: Arc<Pongs>,
}

#[derive(Default)]
struct Open {
    /// The open connections, by a number that grows.
    connections: BTreeMap<u64, Arc<ConnectionState>>,
    number_next: u64,
    /// The next ones to go, the last one first, as idle as they were when they were found.
    candidates: Vec<(Idleness, u64)>,
}

/// How far from idle a connection is; the least goes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Idleness {
    has_open_request: bool,
    active_ms: u64,
}

impl Registry {
    /// A registry for so many connections, which count as idle after such a time.
    pub(super) fn new(
        connections_max: usize,
        idle_after: Duration,
        counts: Arc<ConnectionCounts>,
    ) -> Self {
        counts.allowed.set(connections_max as f64);
        Registry {
            connections_max,
            idle_after,
            counts,
            began: Instant::now(),
            shared: Arc::default(),
            log: LogLimit::default(),
        }
    }

    /// Makes a place for a connection, if need be by closing another one. `None` if none is idle.
    pub(super) async fn admit(&self) -> Option<Place> {
        if let Some(place) = self.place() {
            return Some(place);
        }
        let Some(idle) = self.longest_idle() else {
            self.counts.refused.increment(1);
            self.complain("none of them is idle: new ones are refused");
            return None;
        };
        self.counts.idle_closed.increment(1);
        self.complain("for each new one, the one that has been idle for longest is closed");
        idle.close();
        loop {
            // Nobody else adds connections.
            self.shared.left.notified().await;
            if let Some(place) = self.place() {
                return Some(place);
            }
        }
    }

    fn place(&self) -> Option<Place> {
        let mut open = self.shared.lock();
        if open.connections.len() >= self.connections_max {
            return None;
        }
        let number = open.number_next;
        open.number_next += 1;
        let state = Arc::new(ConnectionState::new(self.began, Arc::clone(&self.counts)));
        open.connections.insert(number, Arc::clone(&state));
        self.counts.open.set(open.connections.len() as f64);
        Some(Place {
            number,
            state,
            shared: Arc::clone(&self.shared),
        })
    }

    /// The connection to close, if one is idle.
    fn longest_idle(&self) -> Option<Arc<ConnectionState>> {
        let mut open = self.shared.lock();
        if let Some(state) = open.pop_candidate() {
            return Some(state);
        }
        let idle_since = self.began.elapsed().checked_sub(self.idle_after)?;
        open.find_candidates(ms(idle_since));
        open.pop_candidate()
    }

    fn complain(&self, consequence: &'static str) {
        if let Some(left_out) = self.log.admit(consequence) {
            tracing::warn!(
                connections = self.connections_max,
                left_out,
                "as many clients are connected as --max-client-connections allows; {consequence}"
            );
        }
    }

    /// Has connections end after their open requests, and waits until none is left.
    pub(super) async fn finish_all(&self) {
        for state in self.shared.lock().connections.values() {
            state.finish();
        }
        while !self.shared.lock().connections.is_empty() {
            self.shared.left.notified().await;
        }
    }

    /// Ends all connections now.
    pub(super) fn close_all(&self) {
        for state in self.shared.lock().connections.values() {
            state.close();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// The first candidate that is as idle as it was.
    fn pop_candidate(&mut self) -> Option<Arc<ConnectionState>> {
        while let Some((idleness, number)) = self.candidates.pop() {
            if let Some(state) = self.connections.get(&number)
                && state.idleness() == idleness
            {
                return Some(Arc::clone(state));
            }
        }
        None
    }

    /// Looks at all connections for those that are idle since then or for longer.
    fn find_candidates(&mut self, idle_since_ms: u64) {
        let all = self.connections.iter();
        let mut idle: Vec<_> = all
            .map(|(number, state)| (state.idleness(), *number))
            .filter(|(idleness, _)| idleness.active_ms <= idle_since_ms)
            .collect();
        if idle.len() > CANDIDATES_MAX {
            idle.select_nth_unstable(CANDIDATES_MAX);
            idle.truncate(CANDIDATES_MAX);
        }
        idle.sort_unstable_by(|a, b| b.cmp(a));
        // One with an open request is the next to go only until there is one without.
        let without = idle.partition_point(|(idleness, _)| idleness.has_open_request);
        idle.drain(..without.min(idle.len().saturating_sub(1)));
        self.candidates = idle;
    }
}

/// The place of an open connection, which is free when this is dropped.
pub(super) struct Place {
    number: u64,
    state: Arc<ConnectionState>,
    shared: Arc<Shared>,
}

impl Place {
    pub(super) fn state(&self) -> &Arc<ConnectionState> {
        &self.state
    }

    /// What the connections of the port wait for together.
    pub(super) fn pongs(&self) -> &Arc<Pongs> {
        &self.shared.pongs
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.shared.lock();
        open.connections.remove(&self.number);
        self.state.counts.open.set(open.connections.len() as f64);
        drop(open);
        self.shared.left.notify_one();
    }
}

/// How a connection is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Take no more requests; end after those that are open.
    Finish,
    /// End now, whatever requests are open.
    Close,
}

/// What is known of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    began: Instant,
    counts: Arc<ConnectionCounts>,
    /// When a request began, ended or brought something, in milliseconds since `began`.
    active_ms: AtomicU64,
    open_requests: AtomicUsize,
    /// Whether HTTP/1 waits for the rest of a head.
    is_head_incomplete: AtomicBool,
    is_to_finish: AtomicBool,
    is_to_close: AtomicBool,
    /// An order was given.
    ordered: Notify,
}

impl ConnectionState {
    fn new(began: Instant, counts: Arc<ConnectionCounts>) -> Self {
        ConnectionState {
            began,
            counts,
            active_ms: AtomicU64::new(ms(began.elapsed())),
            open_requests: AtomicUsize::new(0),
            is_head_incomplete: AtomicBool::new(false),
            is_to_finish: AtomicBool::new(false),
            is_to_close: AtomicBool::new(false),
            ordered: Notify::new(),
        }
    }

    pub(super) fn counts(&self) -> &ConnectionCounts {
        &self.counts
    }

    /// Notes that the client did something.
    pub(super) fn touch(&self) {
        self.active_ms.store(ms(self.began.elapsed()), Relaxed);
    }

    pub(super) fn request_begins(&self) {
        self.is_head_incomplete.store(false, Relaxed);
        self.open_requests.fetch_add(1, Relaxed);
        self.touch();
    }

    pub(super) fn request_ends(&self) {
        self.open_requests.fetch_sub(1, Relaxed);
        self.touch();
    }

    pub(super) fn has_open_requests(&self) -> bool {
        self.open_requests.load(Relaxed) > 0
    }

    /// Notes that bytes came over HTTP/1: a head, unless they are the body of an open request.
    pub(super) fn bytes_came(&self) {
        if !self.has_open_requests() {
            self.is_head_incomplete.store(true, Relaxed);
        }
    }

    /// The client begins a handshake of TLS, which this port does not speak.
    pub(super) fn speaks_tls(&self) {
        self.counts.tls_failed.increment(1);
        if let Some(left_out) = self.counts.log.admit("tls on a plain port") {
            tracing::warn!(
                left_out,
                "a client speaks TLS to this port, which is plain: have it use http://, or give this replica a \
                 certificate and https:// in --listen-client-urls"
            );
        }
    }

    pub(super) fn is_head_incomplete(&self) -> bool {
        self.is_head_incomplete.load(Relaxed)
    }

    fn idleness(&self) -> Idleness {
        Idleness {
            has_open_request: self.has_open_requests(),
            active_ms: self.active_ms.load(Relaxed),
        }
    }

    /// Has the connection take no more requests and end after those that are open.
    pub(super) fn finish(&self) {
        self.is_to_finish.store(true, Relaxed);
        self.ordered.notify_one();
    }

    fn close(&self) {
        self.is_to_close.store(true, Relaxed);
        self.ordered.notify_one();
    }

    /// Waits for the next order.
    pub(super) async fn order(&self) -> Order {
        loop {
            if self.is_to_close.load(Relaxed) {
                return Order::Close;
            }
            if self.is_to_finish.swap(false, Relaxed) {
                return Order::Finish;
            }
            self.ordered.notified().await;
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
