//! The replicated state: how long the stream is, and who may make it longer.
//!
//! It is a function of the log alone, and small: the bytes themselves go to the driver of the replica's server at once.
//! V1: at equal slots, all replicas have accepted equal bytes. V5: a unit (a command outside `MULTI`, or all from
//! `MULTI` to `EXEC`) is accepted as a whole, for `len` moves at its end only and a claim drops what is not complete.
//!
//! Both checks of a piece are needed: its epoch, for an executor that was deposed may hold the right offset; and its
//! offset, for protocols may let the commands of one client change places.

use crate::command::{Command, Outcome, ServerVersion};
use crate::shared::{Claimed, Shared, StreamState};
use crate::snapshot::{Cut, Loading};
use bytes::Bytes;
use quorate_core::{Admission, Application, At, Payload, ReplicaId, Wire};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Pieces ahead of the stream that are kept, at most.
pub(crate) const PENDING_MAX: usize = 64;
/// Bytes of pieces ahead of the stream that are kept, at most.
const PENDING_BYTES_MAX: u64 = 64 << 20;

/// A question for the state of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamQuery;

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
struct Change {
    stream: StreamState,
    bytes: Vec<Bytes>,
    claim: Option<Claimed>,
}

/// A command that was applied ahead of its decision.
#[derive(Debug)]
struct Attempt {
    before: State,
    change: Change,
}

/// The stream of effects as an application.
#[derive(Debug)]
pub struct Stream {
    state: State,
    attempts: VecDeque<Attempt>,
    shared: Arc<Shared>,
    loading: Option<Box<Loading>>,
}

impl Stream {
    /// A stream as it is shared with the driver: without a byte, before anything was loaded.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        let state = State {
            stream: shared.state(),
            ..State::default()
        };
        Stream {
            state,
            attempts: VecDeque::new(),
            shared,
            loading: None,
        }
    }

    fn publish(&self, change: Change) {
        if !change.bytes.is_empty() || change.claim.is_some() {
            self.shared
                .publish(change.stream, change.bytes, change.claim);
        }
    }
}

impl State {
    /// The offset at which the next piece begins.
    fn end(&self) -> u64 {
        self.stream.len + self.unit_bytes
    }

    fn carry_out(&mut self, admission: Admission, body: &Bytes) -> (Outcome, Change) {
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

impl Application for Stream {
    type Query = StreamQuery;
    type Answer = StreamState;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        debug_assert!(self.attempts.is_empty(), "decided behind what is not");
        let (outcome, change) = self.state.carry_out(at.admission, body);
        self.publish(change);
        outcome.to_bytes()
    }

    fn grows(body: &Bytes) -> bool {
        !matches!(Command::from_bytes(body.clone()), Ok(Command::Claim { .. }))
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        true
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        let before = self.state.clone();
        let (outcome, change) = self.state.carry_out(at.admission, body);
        self.attempts.push_back(Attempt { before, change });
        outcome.to_bytes()
    }

    fn keep(&mut self) {
        if let Some(attempt) = self.attempts.pop_front() {
            self.publish(attempt.change);
        }
    }

    fn retract(&mut self) {
        if let Some(attempt) = self.attempts.pop_back() {
            self.state = attempt.before;
        }
    }

    fn query(&self, _: &StreamQuery) -> StreamState {
        self.state.stream
    }

    fn cut(&mut self) -> Cut {
        let inner = self.shared.lock();
        Cut::new(&self.state, inner.base.clone(), &inner.history)
    }

    fn cut_digest(&self, cut: &Cut) -> Option<u64> {
        Some(cut.digest())
    }

    fn has_cut_digests(&self) -> bool {
        true
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        cut.next_piece(bytes)
    }

    fn release(&mut self, _: Cut) {}

    fn empty(&self) -> Self {
        Stream {
            state: State::default(),
            attempts: VecDeque::new(),
            shared: Arc::clone(&self.shared),
            loading: Some(Box::default()),
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        let loading = self.loading.get_or_insert_default();
        loading.load(piece, self.shared.files())
    }

    fn loaded(&mut self) -> Result<(), String> {
        let loading = self.loading.get_or_insert_default();
        self.state = loading.end()?;
        Ok(())
    }

    fn installed(&mut self) {
        let loaded = self.loading.take().and_then(|loading| loading.into_base());
        if let Some((base, history)) = loaded {
            self.shared.install(self.state.stream, base, history);
        }
    }
}
