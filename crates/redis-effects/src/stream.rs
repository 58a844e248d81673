//! The replicated state: how long the stream is, and who may make it longer.
//!
//! It is a function of the log alone, and small: the bytes themselves go to the driver of the replica's server at once.
//! V1: at equal slots, all replicas have accepted equal bytes. V5: a unit (a command outside `MULTI`, or all from
//! `MULTI` to `EXEC`) is accepted as a whole, for `len` moves at its end only and a claim drops what is not complete.

use crate::command::Command;
use crate::mutant::Mutant;
use crate::rdb::GENESIS_OFFSET;
use crate::shared::{Shared, StreamState};
use crate::snapshot::{Cut, Loading};
use crate::state::{Change, State};
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Payload, Wire};
use std::collections::VecDeque;
use std::sync::Arc;

/// A question for the state of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamQuery;

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
    /// What is loaded into an empty stream; it ends with the first bytes that are shared.
    loading: Option<Box<Loading>>,
}

/// Whether the command with this body may make the state larger.
fn grows(body: &Bytes) -> bool {
    matches!(
        Command::from_bytes(body.clone()),
        Ok(Command::Effects { .. }) | Err(_)
    )
}

impl Stream {
    /// What the bodies of commands say by themselves.
    pub const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows,
        ..CommandProperties::UNKNOWN
    };

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

    /// A stream that breaks a rule, if the mutant is one of the stream.
    #[must_use]
    pub fn broken(shared: Arc<Shared>, mutant: Option<Mutant>) -> Self {
        let mut stream = Stream::new(shared);
        stream.state.mutant = mutant;
        stream
    }

    /// The part that the driver of the replica has too.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn publish(&mut self, change: Change) {
        if !change.bytes.is_empty() || change.claim.is_some() || change.is_imported {
            if self.loading.take().is_some() {
                self.shared.begin_anew();
            }
            self.shared
                .publish(change.stream, change.bytes, change.claim);
        }
    }
}

impl Application for Stream {
    type Query = StreamQuery;
    type Answer = StreamState;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        debug_assert!(self.attempts.is_empty(), "decided behind what is not");
        let (outcome, change) = self
            .state
            .carry_out(at.admission, Command::from_bytes(body.clone()));
        self.publish(change);
        outcome.to_bytes()
    }

    fn command_properties(&self) -> CommandProperties {
        Stream::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        true
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        let before = self.state.clone();
        let (outcome, change) = self
            .state
            .carry_out(at.admission, Command::from_bytes(body.clone()));
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
        // Where a stream begins of which nothing was loaded: the host opens every replica with such a one.
        let stream = StreamState {
            len: GENESIS_OFFSET,
            ..StreamState::default()
        };
        Stream {
            state: State {
                stream,
                mutant: self.state.mutant,
                ..State::default()
            },
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
        let mutant = self.state.mutant;
        self.state = State {
            mutant,
            ..loading.end()?
        };
        Ok(())
    }

    fn installed(&mut self) {
        let loaded = self.loading.take().and_then(|loading| loading.into_base());
        if let Some((base, history)) = loaded {
            self.shared.install(self.state.stream, base, history);
        }
    }
}
