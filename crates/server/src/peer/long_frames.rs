//! Room for long frames that arrive from gateways: so much for all of them together, and for so long.
//!
//! Who sends a part of a long frame holds memory here. A frame up to [`LONG_BYTES_MIN`] needs no room; a longer one
//! waits for its share before more of it is read, and loses it if it does not arrive in time.

use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// Payloads beyond this are long.
const LONG_BYTES_MIN: usize = 1 << 20;
/// The room for all long frames that arrive at once, in KiB: more than the longest frame there can be.
const ROOM_KIB: u32 = 128 << 10;
/// What the slowest connection brings within a second, in bytes.
const BYTES_PER_S_MIN: usize = 1 << 20;
/// The time that a long frame may take beyond its length at the lowest rate.
const PATIENCE: Duration = Duration::from_secs(10);

/// The room of all connections.
#[derive(Debug)]
pub(crate) struct LongFrames(Semaphore);

impl Default for LongFrames {
    fn default() -> LongFrames {
        LongFrames(Semaphore::new(ROOM_KIB as usize))
    }
}

/// Room for one frame.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    /// When the frame must be here.
    pub(crate) until: Instant,
    _share: SemaphorePermit<'a>,
}

impl LongFrames {
    /// Waits for room for a payload of this length; `None` if it needs none.
    pub(crate) async fn room(&self, bytes: usize) -> Option<Room<'_>> {
        if bytes <= LONG_BYTES_MIN {
            return None;
        }
        let kib = u32::try_from(bytes.div_ceil(1 << 10)).unwrap_or(u32::MAX);
        let share = self.0.acquire_many(kib.min(ROOM_KIB)).await.ok()?;
        let seconds = (bytes / BYTES_PER_S_MIN) as u64;
        Some(Room {
            until: Instant::now() + PATIENCE + Duration::from_secs(seconds),
            _share: share,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::frame::PAYLOAD_BYTES_MAX;
    use tokio::time::timeout;

    /// Scenario: short frames and one of the greatest length, when others of that length arrive already.
    #[tokio::test]
    async fn a_frame_waits_for_those_that_have_the_room() {
        let frames = LongFrames::default();
        let first = frames.room(PAYLOAD_BYTES_MAX).await.unwrap();
        assert!(frames.room(LONG_BYTES_MIN).await.is_none());
        let second = frames.room(PAYLOAD_BYTES_MAX);
        assert!(timeout(Duration::from_millis(20), second).await.is_err());
        drop(first);
        let second = frames.room(PAYLOAD_BYTES_MAX).await.unwrap();
        let seconds = PATIENCE + Duration::from_secs((PAYLOAD_BYTES_MAX >> 20) as u64);
        assert!(second.until <= Instant::now() + seconds);
        assert!(second.until > Instant::now() + seconds / 2);
    }
}
