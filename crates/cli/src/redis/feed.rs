//! The stream of the other server on its way into that of the cluster.

use super::cluster::{Cluster, Keeper, Ordered};
use super::source::Trouble;
use quorate_redis_effects::{Command, Units};
use quorate_resp::encode_request;
use std::time::{Duration, Instant};

/// Bytes that are ordered at a time, at most.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Bytes that a replica's server may be behind before no more is ordered for a while.
const LAG_BYTES_MAX: u64 = 64 << 20;
/// How often it is looked how far the servers are behind, in bytes.
const LAG_EACH_BYTES: u64 = 16 << 20;
/// How long that may last, and the pause between two looks.
const LAG_WITHIN: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// What makes a server empty. Quorate's own store is emptied by what begins an import.
const EMPTYING: [&[&str]; 3] = [&["SELECT", "0"], &["FLUSHALL"], &["FUNCTION", "FLUSH"]];

/// The commands that make whoever keeps the data empty.
pub(super) fn emptying(keeper: Keeper) -> Vec<u8> {
    let mut out = Vec::new();
    if keeper == Keeper::Own {
        return out;
    }
    for words in EMPTYING {
        encode_request(words, &mut out);
    }
    out
}

/// Bytes of a stream on their way into that of the cluster.
pub(super) struct Feed {
    /// The epoch of the import.
    pub(super) epoch: u64,
    /// What was received and not ordered yet.
    pub(super) units: Units,
    /// Bytes until the servers are looked at.
    until_look: u64,
}

impl Feed {
    pub(super) fn new(epoch: u64, len: u64) -> Feed {
        Feed {
            epoch,
            units: Units::new(len),
            until_look: LAG_EACH_BYTES,
        }
    }

    /// Has whole units ordered; what is left waits for more.
    pub(super) fn push(&mut self, cluster: &mut Cluster, bytes: &[u8]) -> Result<(), Trouble> {
        let pushed = self.units.push(bytes);
        pushed.map_err(|why| Trouble::Fatal(format!("what came cannot be followed: {why}")))?;
        while let Some(piece) = self.units.take(PIECE_BYTES) {
            let bytes = piece.bytes.len() as u64;
            let effects = Command::Effects {
                epoch: self.epoch,
                start: piece.start,
                bytes: piece.bytes,
                last: piece.last,
            };
            match cluster.order(&effects)? {
                Ordered::Accepted => {}
                _ => return Err(cluster.why_not(self.epoch)),
            }
            self.until_look = self.until_look.saturating_sub(bytes);
            if self.until_look == 0 {
                self.until_look = LAG_EACH_BYTES;
                let began = Instant::now();
                while cluster.lag() > LAG_BYTES_MAX && began.elapsed() < LAG_WITHIN {
                    std::thread::sleep(LOOK_AGAIN);
                }
            }
        }
        Ok(())
    }
}
