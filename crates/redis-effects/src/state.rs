//! What commands of the log change, and how.
//!
//! Both checks of a piece are needed: its epoch, for an executor that was deposed may hold the right offset; and its
//! offset, for protocols may let the commands of one client change places.

use crate::command::{Command, Follows, Import, Outcome, ServerVersion};
use crate::mutant::Mutant;
use crate::shared::{Claimed, StreamState};
use bytes::Bytes;
use quorate_core::{Admission, ReplicaId, WireError};
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
    /// A rule that it breaks.
    pub(crate) mutant: Option<Mutant>,
}

/// What a command did that the driver is to learn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change {
    pub(crate) stream: StreamState,
    pub(crate) bytes: Vec<Bytes>,
    pub(crate) claim: Option<Claimed>,
    /// Whether all that another server had is there now.
    pub(crate) is_imported: bool,
}

impl State {
    /// The offset at which the next piece begins.
    pub(crate) fn end(&self) -> u64 {
        self.stream.len + self.unit_bytes
    }

    pub(crate) fn carry_out(
        &mut self,
        admission: Admission,
        command: Result<Command, WireError>,
    ) -> (Outcome, Change) {
        let mut change = Change::default();
        let outcome = match command {
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
            Ok(Command::Import {
                over,
                at,
                is_anew,
                version,
            }) => self.import((over, at), is_anew, version, &mut change),
            Ok(Command::Imported { epoch, follows }) => self.imported(epoch, follows, &mut change),
            Ok(Command::Cutover { epoch, len_min }) => self.cut_over(epoch, len_min, &mut change),
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
        // What is here is not all that the other server has.
        if over != epoch || self.stream.import.is_some() {
            return Outcome::Stale { epoch, executor };
        }
        if let Some(needed) = self.stream.version_max
            && !version.is_at_least(needed)
        {
            return Outcome::Unfit { needed };
        }
        self.stream.version_max = Some(version);
        let epoch = self.begin_epoch(Some((by, boot)), change);
        Outcome::Claimed { epoch, len }
    }

    /// Begins an epoch: what is not complete of the one before is dropped.
    fn begin_epoch(&mut self, executor: Option<(ReplicaId, u64)>, change: &mut Change) -> u64 {
        self.stream.epoch += 1;
        self.stream.executor = executor.map(|(by, _)| by);
        self.unit.clear();
        self.unit_bytes = 0;
        self.pending.clear();
        self.pending_bytes = 0;
        let epoch = self.stream.epoch;
        change.claim = Some(Claimed {
            epoch,
            by: self.stream.executor,
            boot: executor.map(|(_, boot)| boot),
            len: Some(self.stream.len),
        });
        epoch
    }

    fn import(
        &mut self,
        (over, at): (u64, Option<u64>),
        is_anew: bool,
        version: ServerVersion,
        change: &mut Change,
    ) -> Outcome {
        let StreamState {
            epoch,
            len,
            version_max,
            import,
            ..
        } = self.stream;
        let is_followed = matches!(import, Some(Import::Following(_)));
        let is_there = at.is_none_or(|at| at == len) && (is_anew || is_followed);
        if over != epoch || !is_there {
            return Outcome::Elsewhere { epoch, len };
        }
        let needed = match version_max {
            Some(needed) if needed.flavour != version.flavour => return Outcome::Unfit { needed },
            Some(needed) if needed.is_at_least(version) => needed,
            _ => version,
        };
        self.stream.version_max = Some(needed);
        if is_anew {
            self.stream.import = Some(Import::Loading);
        }
        let epoch = self.begin_epoch(None, change);
        Outcome::Claimed { epoch, len }
    }

    fn imported(&mut self, of: u64, follows: Follows, change: &mut Change) -> Outcome {
        let StreamState {
            epoch, len, import, ..
        } = self.stream;
        let is_there = follows.len == len && self.unit.is_empty() && self.pending.is_empty();
        if of != epoch || import.is_none() || !is_there {
            return Outcome::Elsewhere { epoch, len };
        }
        self.stream.import = Some(Import::Following(follows));
        change.is_imported = true;
        Outcome::Accepted { len }
    }

    fn cut_over(&mut self, of: u64, len_min: u64, change: &mut Change) -> Outcome {
        let StreamState {
            epoch, len, import, ..
        } = self.stream;
        let is_complete = matches!(import, Some(Import::Following(_))) && len >= len_min;
        if of != epoch || !is_complete {
            return Outcome::Elsewhere { epoch, len };
        }
        self.stream.import = None;
        let epoch = self.begin_epoch(None, change);
        Outcome::Claimed { epoch, len }
    }

    /// Ends the epoch of an import whose stream cannot be carried out: everything has to be brought over anew.
    pub(crate) fn fail(&mut self) {
        self.stream.import = Some(Import::Loading);
        self.begin_epoch(None, &mut Change::default());
    }

    fn effects(
        &mut self,
        epoch: u64,
        start: u64,
        piece: (Bytes, bool),
        change: &mut Change,
    ) -> Outcome {
        if epoch != self.stream.epoch && self.mutant != Some(Mutant::EpochUnchecked) {
            let StreamState {
                epoch, executor, ..
            } = self.stream;
            return Outcome::Void { epoch, executor };
        }
        let bytes = piece.0.len() as u64;
        if self.mutant == Some(Mutant::OffsetUnchecked) {
            self.append(piece, change);
        } else if start > self.end() {
            let is_full =
                self.pending.len() >= PENDING_MAX || self.pending_bytes + bytes > PENDING_BYTES_MAX;
            if is_full && !self.pending.contains_key(&start) {
                let len = self.stream.len;
                return Outcome::Beyond { len };
            }
            self.pending_bytes += bytes;
            if let Some((before, _)) = self.pending.insert(start, piece) {
                self.pending_bytes -= before.len() as u64;
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
