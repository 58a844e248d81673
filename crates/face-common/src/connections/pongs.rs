//! Acknowledgements of pings that clients' libraries send to measure a path.
//!
//! Libraries of gRPC send a ping when a part of an answer comes, to learn how much is under way until it is
//! acknowledged; the next answer brings the next ping. For a client that asks one small request after the other,
//! that is a packet more for each answer, and a wake-up of the client. An acknowledgement that follows an answer is
//! held until a clock has ticked ([`HOLD`]); then the next answer takes it along, or it leaves alone at the tick
//! after that. Until it has come, the library sends no other ping. What the library measures meanwhile is as right
//! as before, for the bytes of the longer time count as well. Pings of a connection that says nothing are answered
//! at once, and so are those that come while one is held.

use std::io::IoSlice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::time::sleep;

/// The time between two ticks: far less than any library waits before it gives up a connection.
const HOLD: Duration = Duration::from_millis(25);

const FRAME_HEADER_BYTES: usize = 9;
const DATA: u8 = 0;
const PING: u8 = 6;
const ACK: u8 = 1;
const PONG_BYTES: usize = 17;

/// A whole frame that acknowledges a ping.
pub(super) type Pong = [u8; PONG_BYTES];

/// Ticks for the connections of a port that hold acknowledgements: for all of them at once, and not while none is held.
#[derive(Default)]
pub(super) struct Pongs {
    /// The ticks so far.
    tick: AtomicU64,
    waiting: Mutex<Vec<Waker>>,
}

impl Pongs {
    /// Has a task wake at the next tick.
    fn wait(self: &Arc<Self>, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push(waker.clone());
        if waiting.len() == 1 {
            let pongs = Arc::clone(self);
            tokio::spawn(async move {
                sleep(HOLD).await;
                pongs.tick();
            });
        }
    }

    /// Wakes all that wait for it.
    pub(super) fn tick(&self) {
        self.tick.fetch_add(1, Relaxed);
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut *waiting);
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// What a connection says, as far as that decides how soon a ping is acknowledged.
#[derive(Default)]
pub(super) struct Outlook {
    is_begun: bool,
    /// Bytes of the present frame that are still to come; `None` once nobody knows where frames begin: the connection
    /// speaks another protocol, or a header was cut in two.
    left: Option<usize>,
    /// A part of an answer was said since the last acknowledgement.
    has_answered: bool,
    held: Option<Held>,
}

/// An acknowledgement that is held, and since which tick.
struct Held {
    pong: Pong,
    since: u64,
    /// The tick at which the task is going to be woken for this.
    awaited: u64,
}

/// What the next bytes of a connection are.
pub(super) enum Seen {
    /// Bytes that leave as they are: their number.
    Bytes(usize),
    /// A frame that acknowledges a ping.
    Pong(Pong),
}

impl Outlook {
    /// Follows the first of these bytes, of which there is at least one.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Seen {
        if !self.is_begun {
            self.is_begun = true;
            // The first frame is short; other protocols begin with a letter.
            self.left = (bytes[0] == 0).then_some(0);
        }
        let Some(left) = self.left else {
            return Seen::Bytes(bytes.len());
        };
        if left > 0 {
            let count = left.min(bytes.len());
            self.left = Some(left - count);
            return Seen::Bytes(count);
        }
        let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
            self.left = None;
            return Seen::Bytes(bytes.len());
        };
        let [a, b, c, kind, flags, ..] = *header;
        if let (PING, ACK, Some(pong)) = (kind, flags, bytes.first_chunk::<PONG_BYTES>()) {
            return Seen::Pong(*pong);
        }
        self.has_answered |= kind == DATA;
        self.left = Some(u32::from_be_bytes([0, a, b, c]) as usize);
        Seen::Bytes(FRAME_HEADER_BYTES)
    }

    /// Follows the first `count` bytes of several parts, which were written.
    pub(super) fn skip(&mut self, bufs: &[IoSlice<'_>], count: usize) {
        let mut count = count;
        for buf in bufs {
            let mut rest = &buf[..count.min(buf.len())];
            count -= rest.len();
            while !rest.is_empty() {
                match self.next(rest) {
                    Seen::Bytes(count) => rest = &rest[count..],
                    Seen::Pong(pong) => rest = &rest[pong.len()..],
                }
            }
        }
    }

    /// Keeps an acknowledgement that is to wait. `Some` if it is not: with what has to leave before it.
    pub(super) fn hold(&mut self, pong: Pong, pongs: &Pongs) -> Option<Vec<u8>> {
        if let Some(first) = self.held.take() {
            return Some(first.pong.to_vec());
        }
        if !std::mem::take(&mut self.has_answered) {
            return Some(Vec::new());
        }
        self.held = Some(Held {
            pong,
            since: pongs.tick.load(Relaxed),
            awaited: 0,
        });
        None
    }

    /// Takes the acknowledgement that is held at the end of a turn, if it is to leave: with an answer after one tick,
    /// and after two in any case. Otherwise the task is woken at the next tick.
    pub(super) fn due(
        &mut self,
        says_more: bool,
        pongs: &Arc<Pongs>,
        waker: &Waker,
    ) -> Option<Pong> {
        // Where frames cannot be followed any more, later acknowledgements are not to overtake this one.
        let is_followed = self.left.is_some();
        let held = self.held.as_mut()?;
        let next = pongs.tick.load(Relaxed) + 1;
        let ticks_min = if says_more { 1 } else { 2 };
        if !is_followed || next > held.since + ticks_min {
            return self.held.take().map(|held| held.pong);
        }
        if held.awaited < next {
            held.awaited = next;
            pongs.wait(waker);
        }
        None
    }
}
