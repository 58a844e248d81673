//! What commands of the log change, and how.
//!
//! Both checks of a piece are needed: its epoch, for an executor that was deposed may hold the right offset; and its
//! offset, for protocols may let the commands of one client change places.

use crate::command::{Command, Outcome, ServerVersion};
use crate::shared::{Claimed, StreamState};
use bytes::Bytes;
use quorate_core::{Admission, ReplicaId, Wire};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Pieces ahead of the stream that are kept, at most.
pub(crate) const PENDING_MAX: usize = 64;
/// Bytes of pieces ahead of the stream that are kept, at most.
const PENDING_BYTES_MAX: u64 = 64 << 20;

/// What commands change.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) stream: StreamState,
    /// Pieces of a unit that is not complete.
    pub(crate) unit: Vec<Bytes>,
    pub(crate) unit_bytes: u64,
    /// Pieces ahead of the stream, by their offsets, and whether a unit ends with them.
    pub(crate) pending: BTreeMap<u64, (Bytes, bool)>,
    pub(crate) pending_bytes: u64,
}

/// What a command did that the driver is to learn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) stream: StreamState,
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) claim: Option<Claimed>,
}

impl State {
    /// The offset at which the next piece begins.
    fn end(&self) -> u64 {
        self.stream.len + self.unit_bytes
    }

    pub(crate) fn carry_out(&mut self, admission: Admission, body: &Bytes) -> (Outcome, Change) {
        let mut change = Change::default();
        let outcome = match Command::from_bytes(body.clone()) {
            Err(_) => Outcome::Malformed,
            Ok(_) if admission == Admission::Nothing => Outcome::NoSpace,
            Ok(Command::Claim {
                over,
                by,
                boot,
                version,
            }) => self.claim(over, (by, boot), version, &mut change),
            Ok(Command::Effects { .. }) if admission != Admission::All => Outcome::NoSpace,
            Ok(Command::Effects {
                epoch,
                start,
                bytes,
                last,
            }) => self.effects(epoch, start, (bytes, last), &mut change),
        };
        change.stream = self.stream;
        (outcome, change)
    }

    fn claim(
        &mut self,
        over: u64,
        (by, boot): (ReplicaId, u64),
        version: ServerVersion,
        change: &mut Change,
    ) -> Outcome {
        let StreamState {
            epoch,
            executor,
            len,
            ..
        } = self.stream;
        if over != epoch {
            return Outcome::Stale { epoch, executor };
        }
        if let Some(needed) = self.stream.version_max
            && !version.is_at_least(needed)
        {
            return Outcome::Unfit { needed };
        }
        self.stream.epoch += 1;
        self.stream.executor = Some(by);
        self.stream.version_max = Some(version);
        self.unit.clear();
        self.unit_bytes = 0;
        self.pending.clear();
        self.pending_bytes = 0;
        let epoch = self.stream.epoch;
        change.claim = Some(Claimed {
            epoch,
            by: Some(by),
            boot: Some(boot),
            len: Some(len),
        });
        Outcome::Claimed { epoch, len }
    }

    fn effects(
        &mut self,
        epoch: u64,
        start: u64,
        piece: (Bytes, bool),
        change: &mut Change,
    ) -> Outcome {
        if epoch != self.stream.epoch {
            let StreamState {
                epoch, executor, ..
            } = self.stream;
            return Outcome::Void { epoch, executor };
        }
        let bytes = piece.0.len() as u64;
        if start > self.end() {
            let is_full =
                self.pending.len() >= PENDING_MAX || self.pending_bytes + bytes > PENDING_BYTES_MAX;
            if is_full && !self.pending.contains_key(&start) {
                let len = self.stream.len;
                return Outcome::Beyond { len };
            }
            if self.pending.insert(start, piece).is_none() {
                self.pending_bytes += bytes;
            }
        } else if start == self.end() {
            self.append(piece, change);
            while let Some(piece) = self.pending.remove(&self.end()) {
                self.pending_bytes -= piece.0.len() as u64;
                self.append(piece, change);
            }
        }
        let len = self.stream.len;
        Outcome::Accepted { len }
    }

    fn append(&mut self, (bytes, last): (Bytes, bool), change: &mut Change) {
        self.unit_bytes += bytes.len() as u64;
        self.unit.push(bytes);
        if !last {
            return;
        }
        self.stream.len += std::mem::take(&mut self.unit_bytes);
        for chunk in self.unit.drain(..) {
            self.stream.digest = xxh3_64_with_seed(&chunk, self.stream.digest);
            change.bytes.push(chunk);
        }
    }
}
