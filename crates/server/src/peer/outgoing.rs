//! The connection to one peer: written by the core itself while the socket takes bytes, by a task
//! of its own when it does not.

use super::datagrams::{self, Path, Unfit};
use super::frame;
pub(crate) use super::framed::Framed;
use super::framed::header;
use super::handshake::{Lane, PeerLane, RejectCode, Welcome};
use super::opening::{self, HandshakeError};
use super::{Arrivals, HANDSHAKE_TIMEOUT, PeerContext};
use crate::log_limit::LogLimit;
use crate::metrics::PeerMetrics;
use crate::security::{self, Connection};
use bytes::{Buf, Bytes};
use quorate_core::ReplicaId;
use quorate_host::WireVersion;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// What may wait for a slow peer; beyond it frames are dropped, as the protocols expect of links.
/// One frame of any size may go over.
pub(super) const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes of bulk frames that may wait for a slow peer: as much as a leader has under way.
pub(super) const BULK_BYTES_MAX: usize = 64 << 20;
/// About how much is written before other connections of the thread have their turn.
const WRITE_BYTES_MAX: usize = 256 << 10;
/// Pieces handed to the kernel at once.
const PIECES_MAX: usize = 256;

const BACKOFF_MIN: Duration = Duration::from_millis(10);
const BACKOFF_MAX: Duration = Duration::from_secs(1);
/// A peer that refuses will not change its mind soon.
const BACKOFF_REJECTED_MAX: Duration = Duration::from_secs(5);

/// The core's end of the connection to one peer.
#[derive(Debug)]
pub(crate) struct Outgoing {
    shared: Arc<Shared>,
    task: Option<AbortHandle>,
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.shared.attach(None);
        if self.shared.lane == Lane::Messages {
            self.shared.metrics.connected.set(0.0);
        }
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// What the core and the connection's task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) peer: ReplicaId,
    pub(super) lane: Lane,
    address: String,
    queue: Mutex<Queue>,
    /// The core left something in the queue.
    leftover: Notify,
    /// The peer was heard of: dial now.
    heard: Notify,
    /// Without that, it is not dialled again.
    waits_for_call: AtomicBool,
    metrics: PeerMetrics,
}

#[derive(Debug, Default)]
struct Queue {
    /// The connection, with the wire version agreed on.
    connection: Option<(Arc<Connection>, WireVersion)>,
    /// The path for short frames as datagrams, while there is one.
    path: Option<Path>,
    /// Frames behind the pieces, without their headers.
    bare: VecDeque<Vec<Bytes>>,
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    pub(crate) fn new(
        PeerLane { peer, lane }: PeerLane,
        address: String,
        metrics: PeerMetrics,
    ) -> Self {
        let shared = Shared {
            peer,
            lane,
            address,
            queue: Mutex::default(),
            leftover: Notify::new(),
            heard: Notify::new(),
            waits_for_call: AtomicBool::new(false),
            metrics,
        };
        Outgoing {
            shared: Arc::new(shared),
            task: None,
        }
    }

    /// The connection's task goes when this does.
    pub(super) fn ends_with(&mut self, task: AbortHandle) {
        self.task = Some(task);
    }

    /// The address that the peer is dialled at.
    pub(super) fn address(&self) -> &str {
        self.shared.address()
    }

    /// Whether the peer is dialled only when it calls.
    pub(super) fn waits_for_call(&self, waits: bool) {
        let waited = self.shared.waits_for_call.swap(waits, Ordering::Relaxed);
        if waited && !waits {
            self.shared.heard();
        }
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }
}

impl Queue {
    /// Whether a frame goes by datagram.
    fn by_datagram(&mut self, frame: &Framed<'_>, metrics: &PeerMetrics) -> bool {
        let Some(path) = self.path.as_mut().filter(|path| path.is_open()) else {
            return false;
        };
        match path.add(frame.chunks, frame.length) {
            Ok(()) => return true,
            Err(Unfit::Long) => metrics.datagrams.unfit_long.increment(1),
            Err(Unfit::Full) => metrics.datagrams.unfit_full.increment(1),
        }
        false
    }

    fn send_datagrams(&mut self, metrics: &PeerMetrics) {
        let Some(path) = &mut self.path else {
            return;
        };
        let sent = path.send();
        metrics.datagrams.sent.increment(sent.datagrams);
        metrics
            .datagrams
            .unfit_unsent
            .increment(sent.back.len() as u64);
        for frame in sent.back {
            if let Some(header) = header(std::slice::from_ref(&frame)) {
                self.bytes += header.len() + frame.len();
                self.push(header, [frame]);
            }
        }
    }

    fn push(&mut self, header: Bytes, payload: impl IntoIterator<Item = Bytes>) {
        self.pieces.push_back(header);
        self.pieces.extend(payload);
    }

    /// Writes until the pieces are gone or the socket is full, or so much is written that others have
    /// their turn.
    fn write(&mut self) -> io::Result<()> {
        let Some((connection, _)) = self.connection.clone() else {
            return Ok(());
        };
        let bytes = self.bytes;
        while !self.pieces.is_empty() && bytes - self.bytes < WRITE_BYTES_MAX {
            let pieces: Vec<IoSlice<'_>> = self
                .pieces
                .iter()
                .take(PIECES_MAX)
                .map(|piece| IoSlice::new(piece))
                .collect();
            match connection.try_write_vectored(&pieces) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        match connection.try_flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether something waits for the socket.
    fn has_leftover(&self) -> bool {
        let of_connection =
            |(connection, _): &(Arc<Connection>, WireVersion)| connection.has_unsent();
        self.bytes > 0 || self.connection.as_ref().is_some_and(of_connection)
    }

    fn written(&mut self, mut count: usize) {
        self.bytes -= count;
        while count > 0 {
            let Some(first) = self.pieces.front_mut() else {
                return;
            };
            if first.len() > count {
                first.advance(count);
                return;
            }
            count -= first.len();
            self.pieces.pop_front();
        }
    }
}

impl Shared {
    /// The address that the peer is dialled at.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// Queues a frame; it leaves with the next [`Shared::flush`]. Dropped without a connection,
    /// and if it was meant for one in a newer version that is gone.
    pub(crate) fn push(&self, version: WireVersion, frame: &Framed<'_>) {
        let length = frame::HEADER_BYTES + frame.length;
        let mut queue = self.queue();
        let is_understood = queue
            .connection
            .as_ref()
            .is_some_and(|(_, most)| version <= *most);
        let most = match self.lane {
            Lane::Messages | Lane::Datagrams => QUEUE_BYTES_MAX,
            Lane::Bulk => BULK_BYTES_MAX,
        };
        if !is_understood || queue.bytes > most {
            self.lost();
            return;
        }
        if !queue.by_datagram(frame, &self.metrics) {
            let payload = frame.chunks.iter().filter(|piece| !piece.is_empty());
            match self.lane {
                // The thread of those with bulk adds the headers.
                Lane::Bulk => queue.bare.push_back(payload.cloned().collect()),
                _ => queue.push(frame.header(), payload.cloned()),
            }
            queue.bytes += length;
        }
        self.metrics.sent_frames.increment(1);
        self.metrics.sent_bytes.increment(length as u64);
    }

    /// Gives the kernel all it takes right now; the rest goes when the socket is ready. Bulk goes from
    /// another thread.
    pub(crate) fn flush(&self) {
        let (left, has_leftover) = {
            let mut queue = self.queue();
            if self.lane == Lane::Messages {
                queue.send_datagrams(&self.metrics);
                // An error shows in the connection's own task as well, which ends it there.
                let _ = queue.write();
            }
            (queue.bytes, queue.has_leftover())
        };
        self.metrics.queued_bytes.set(left as f64);
        if has_leftover {
            self.leftover.notify_one();
        }
    }

    /// A frame is not sent.
    pub(super) fn lost(&self) {
        self.metrics.dropped.increment(1);
    }

    /// The peer showed that it lives: a dialler that waits tries at once.
    pub(super) fn heard(&self) {
        self.heard.notify_one();
    }

    /// The core is told of the lane for messages only: that is whether the peer can be reached.
    async fn tell(&self, version: Option<WireVersion>, arrivals: &Arrivals) {
        if self.lane == Lane::Messages {
            self.metrics
                .connected
                .set(f64::from(u8::from(version.is_some())));
            arrivals.link(self.peer, version).await;
        }
    }

    /// Waits before the next attempt: so long, or until the peer calls.
    async fn pause(&self, pause: Duration) {
        if let Ok(()) = tokio::time::timeout(pause, self.heard.notified()).await {
            return;
        }
        if self.waits_for_call.load(Ordering::Relaxed) {
            self.heard.notified().await;
        }
    }

    /// Sends short frames by this path from now on.
    pub(super) fn set_path(&self, path: Option<Path>) {
        self.queue().path = path;
    }

    /// Does something with the way for short frames, if there is one.
    pub(super) fn with_path<T>(&self, what: impl FnOnce(&mut Path) -> T) -> Option<T> {
        self.queue().path.as_mut().map(what)
    }

    /// For people: whether short frames do go that way.
    pub(super) fn goes_by_datagram(&self, goes: bool) {
        self.metrics.datagrams.open.set(f64::from(u8::from(goes)));
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attach(&self, connection: Option<(Arc<Connection>, WireVersion)>) {
        *self.queue() = Queue {
            connection,
            ..Queue::default()
        };
        self.metrics.queued_bytes.set(0.0);
    }
}

/// Keeps a connection to one peer for as long as the replica runs.
pub(super) async fn keep_connected(shared: Arc<Shared>, context: PeerContext, arrivals: Arrivals) {
    let mut backoff = BACKOFF_MIN;
    let mut complaint = String::new();
    // For one that takes connections and ends them.
    let log = LogLimit::default();
    loop {
        let most = match dial(&shared, shared.lane, &context).await {
            Ok((connection, version)) => {
                if let Some(left_out) = log.admit("connected") {
                    tracing::info!(
                        peer = %shared.peer, lane = ?shared.lane, address = %shared.address,
                        wire_version = %version, left_out, "peer connected"
                    );
                }
                (backoff, complaint) = (BACKOFF_MIN, String::new());
                let why = serve(&shared, connection, version, &context, &arrivals).await;
                if let Some(left_out) = log.admit("lost") {
                    tracing::warn!(peer = %shared.peer, left_out, "peer connection lost: {why}");
                }
                BACKOFF_MAX
            }
            Err(error) => {
                shared.metrics.failed_dials.increment(1);
                complain(&shared, &error, &mut complaint);
                match error {
                    HandshakeError::Io(_) | HandshakeError::Timeout => BACKOFF_MAX,
                    _ => BACKOFF_REJECTED_MAX,
                }
            }
        };
        let jitter = fastrand::f64().mul_add(0.5, 0.75);
        shared.pause(backoff.min(most).mul_f64(jitter)).await;
        backoff = (backoff * 2).min(most);
    }
}

/// Says what is wrong once, not at every attempt.
fn complain(shared: &Shared, error: &HandshakeError, last: &mut String) {
    let text = match error {
        HandshakeError::Rejected(rejection) if rejection.code == RejectCode::WireVersion => {
            rejection.text.clone()
        }
        HandshakeError::Rejected(rejection) => {
            format!(
                "the peer refused ({:?}): {}",
                rejection.code, rejection.text
            )
        }
        other => other.to_string(),
    };
    if text != *last {
        tracing::warn!(
            peer = %shared.peer, address = %shared.address,
            "no connection to the peer, retrying: {text}"
        );
        *last = text;
    }
}

/// A connection to a peer on which both know the other.
pub(super) async fn dial(
    shared: &Shared,
    lane: Lane,
    context: &PeerContext,
) -> Result<(Connection, WireVersion), HandshakeError> {
    let greet = async {
        let mut connection = security::dial(&shared.address, &context.security)
            .await
            .map_err(HandshakeError::Io)?;
        let supported = context.identity.supported;
        let token = context.contacts.token(shared.peer);
        let token = token.map_err(HandshakeError::Io)?;
        let hello = context.identity.hello(shared.peer, lane, token);
        opening::send(&mut connection, &hello, supported)
            .await
            .map_err(HandshakeError::Io)?;
        let (welcome, version) = opening::receive::<Welcome>(&mut connection, supported).await?;
        context
            .identity
            .judge_welcome(shared.peer, &welcome, &context.incarnations)
            .map_err(HandshakeError::Rejected)?;
        if lane == Lane::Messages {
            context.contacts.dialled(shared.peer);
        }
        Ok((connection, version))
    };
    tokio::time::timeout(HANDSHAKE_TIMEOUT, greet)
        .await
        .map_err(|_| HandshakeError::Timeout)?
}

/// Looks after an established connection until it ends; returns why.
async fn serve(
    shared: &Shared,
    connection: Connection,
    version: WireVersion,
    context: &PeerContext,
    arrivals: &Arrivals,
) -> String {
    let connection = Arc::new(connection);
    shared.attach(Some((Arc::clone(&connection), version)));
    shared.tell(Some(version), arrivals).await;
    let why = tokio::select! {
        why = drain(shared, &connection) => why,
        why = closed(&connection) => why,
        never = datagrams::keep_associated(shared, context), if shared.lane == Lane::Messages => {
            match never {}
        }
    };
    shared.attach(None);
    shared.tell(None, arrivals).await;
    why
}

/// Gives the first frame that has none its header, once its turn has come.
fn add_header(shared: &Shared) {
    let next = {
        let mut queue = shared.queue();
        let is_turn = queue.pieces.is_empty();
        is_turn.then(|| queue.bare.pop_front()).flatten()
    };
    // The core may add frames meanwhile.
    if let Some(payload) = next
        && let Some(header) = header(&payload)
    {
        shared.queue().push(header, payload);
    }
}

/// Writes what the core could not or should not, whenever the socket takes more.
pub(super) async fn drain(shared: &Shared, connection: &Connection) -> String {
    loop {
        shared.leftover.notified().await;
        loop {
            add_header(shared);
            if let Err(error) = connection.writable().await {
                return error.to_string();
            }
            {
                let mut queue = shared.queue();
                if let Err(error) = queue.write() {
                    return error.to_string();
                }
                if queue.pieces.is_empty() && queue.bare.is_empty() && !connection.has_unsent() {
                    break;
                }
            }
            tokio::task::yield_now().await;
        }
        shared.metrics.queued_bytes.set(0.0);
    }
}

/// Nothing is ever received here after the handshake: whatever there is to read ends it.
async fn closed(connection: &Connection) -> String {
    loop {
        if let Err(error) = connection.readable().await {
            return error.to_string();
        }
        match connection.try_read(&mut [0; 1]) {
            Ok(0) => return "closed by the peer".to_owned(),
            Ok(_) => return "the peer sent bytes where none belong".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return error.to_string(),
        }
    }
}
