//! How much clients may send before anybody reads it.
//!
//! What came on an HTTP/2 connection and was not read stays in memory, as does the part of a frame that came. So a
//! window is a promise of memory, made when the connection begins. All promises together stay near a bound: each
//! connection is promised a part of what is left, and never less than HTTP/2 has anyway.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// What all connections may be promised together, the least for each not counted.
const PROMISED_BYTES_MAX: usize = 64 << 20;
/// A connection is promised one part of so many of what is left.
const PARTS: usize = 16;
/// The window of a connection before its ends agree on another one (RFC 9113, section 6.9.2).
const WINDOW_BYTES_MIN: usize = (64 << 10) - 1;
/// The largest frame before the ends of a connection agree on another one (RFC 9113, section 6.5.2).
const FRAME_BYTES_MIN: usize = 16 << 10;

/// The windows of all connections of a port.
#[derive(Default)]
pub(super) struct Windows {
    promised: Arc<AtomicUsize>,
}

impl Windows {
    /// The window of a new connection, no larger than `bytes_max`.
    pub(super) fn next(&self, bytes_max: u32) -> Window {
        let left = PROMISED_BYTES_MAX.saturating_sub(self.promised.load(Relaxed));
        let bytes = (left / PARTS).min(bytes_max as usize);
        self.promised.fetch_add(bytes, Relaxed);
        Window {
            bytes,
            promised: Arc::clone(&self.promised),
        }
    }
}

/// The window of one connection, which others may have when this is dropped.
pub(super) struct Window {
    bytes: usize,
    promised: Arc<AtomicUsize>,
}

impl Window {
    /// Bytes that the client may send ahead, on one stream or on all of them.
    pub(super) fn bytes(&self) -> u32 {
        u32::try_from(self.bytes.max(WINDOW_BYTES_MIN)).unwrap_or(u32::MAX)
    }

    /// The largest frame that the client may send, in bytes.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        u32::try_from((self.bytes / 4).max(FRAME_BYTES_MIN)).unwrap_or(u32::MAX)
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.promised.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_shrink_as_connections_come_and_grow_as_they_go() {
        let windows = Windows::default();
        let first = windows.next(4 << 20);
        assert_eq!(first.bytes(), 4 << 20);
        assert_eq!(first.frame_bytes_max(), 1 << 20);
        let others: Vec<Window> = (0..10_000).map(|_| windows.next(4 << 20)).collect();
        let all: usize = others.iter().map(|window| window.bytes).sum();
        assert!(first.bytes + all <= PROMISED_BYTES_MAX);
        let last = &others[9_999];
        assert_eq!(last.bytes() as usize, WINDOW_BYTES_MIN);
        assert_eq!(last.frame_bytes_max() as usize, FRAME_BYTES_MIN);
        drop((first, others));
        assert_eq!(windows.next(4 << 20).bytes(), 4 << 20);
        assert_eq!(windows.next(100).bytes() as usize, WINDOW_BYTES_MIN);
    }
}
