//! The bounds of what waits for a server in command mode: requests of the own clients, and bodies of the log.

use quorate_redis_store::Request;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most requests that wait for a server at a time.
const REQUESTS_MAX: usize = 16 << 10;
/// Bytes that a request takes beside its arguments, and an argument beside its own.
const KEPT_BYTES: usize = 64;
/// A replica gives up if the bodies that its servers failed to carry out take so many times the memory for clients.
const GIVE_UP_FACTOR: u64 = 4;

/// What may wait for a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WaitLimits {
    /// Most requests that wait.
    requests_max: usize,
    /// Bytes of requests that wait.
    bytes_max: usize,
    /// Bytes of bodies that the server has yet to carry out before requests of the own clients are refused.
    behind_bytes_max: u64,
}

impl WaitLimits {
    /// The limits where requests and replies of clients may take so many bytes.
    pub(super) fn of(client_memory: usize) -> WaitLimits {
        WaitLimits {
            requests_max: REQUESTS_MAX,
            // Their connections hold them, too, and are to be told before there is no room for those.
            bytes_max: client_memory / 2,
            behind_bytes_max: client_memory as u64,
        }
    }

    /// Whether the own clients may change something while so many bytes of bodies are to be carried out.
    pub(super) fn takes_writes(&self, behind_bytes: u64) -> bool {
        behind_bytes <= self.behind_bytes_max
    }

    /// Bytes of bodies to be carried out beyond which a replica whose servers fail ends.
    pub(super) fn give_up_bytes(&self) -> u64 {
        self.behind_bytes_max.saturating_mul(GIVE_UP_FACTOR)
    }
}

/// The requests that wait for a server, counted.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) limits: WaitLimits,
    /// The number of requests, and their bytes.
    taken: Mutex<(usize, usize)>,
}

/// The room of one request that waits. It is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    waiting: Arc<Waiting>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(limits: WaitLimits) -> Arc<Waiting> {
        Arc::new(Waiting {
            limits,
            taken: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, (usize, usize)> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a request, if there is any. One that waits alone may be as long as it likes.
    pub(super) fn room(self: &Arc<Self>, request: &Request) -> Option<Room> {
        let bytes = bytes_of(request);
        let mut taken = self.lock();
        let (requests, all) = (taken.0 + 1, taken.1 + bytes);
        let has_room = requests <= self.limits.requests_max && all <= self.limits.bytes_max;
        if !has_room && taken.0 > 0 {
            return None;
        }
        *taken = (requests, all);
        Some(Room {
            waiting: Arc::clone(self),
            bytes,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut taken = self.waiting.lock();
        *taken = (taken.0 - 1, taken.1 - self.bytes);
    }
}

fn bytes_of(request: &Request) -> usize {
    let args = request.calls.iter().flat_map(|call| &call.args);
    let args: usize = args.map(|arg| arg.len() + KEPT_BYTES).sum();
    args + KEPT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_redis_store::Call;

    fn request(bytes: usize) -> Request {
        Request {
            calls: vec![Call {
                args: vec![vec![b'x'; bytes].into()],
            }],
            ..Request::default()
        }
    }

    #[test]
    fn room_is_bounded_in_requests_and_bytes_and_comes_back() {
        let limits = WaitLimits {
            requests_max: 3,
            ..WaitLimits::of(20_000)
        };
        let waiting = Waiting::new(limits);
        let room = |bytes| waiting.room(&request(bytes));
        let mut held: Vec<Option<Room>> = (0..3).map(|_| room(1)).collect();
        assert!(held.iter().all(Option::is_some));
        assert!(room(1).is_none(), "a fourth one");
        held.truncate(1);
        assert!(room(10_000).is_none(), "more bytes than there is room for");
        held.clear();
        let long = room(50_000);
        assert!(long.is_some(), "alone it has room");
        assert!(room(1).is_none(), "nothing goes beside it");
        drop(long);
        assert_eq!(*waiting.lock(), (0, 0));
    }

    #[test]
    fn writes_are_refused_long_before_a_replica_gives_up() {
        let limits = WaitLimits::of(1 << 20);
        assert!(limits.takes_writes(1 << 20) && !limits.takes_writes((1 << 20) + 1));
        assert_eq!(limits.give_up_bytes(), 4 << 20);
    }
}
