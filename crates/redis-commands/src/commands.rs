//! The application: bodies are taken in order, and handed to what feeds the replica's server.

use crate::body::Entry;
use crate::footprint;
use crate::shared::Shared;
use crate::snapshot::{Cut, Loading};
use crate::state::{State, Undo};
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Payload};
use std::collections::VecDeque;
use std::sync::Arc;

/// A question for the replicated state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandsQuery {
    /// How many bodies were taken: a server that has carried out so many may answer a read.
    Position,
    /// The versions of keys, which a transaction may depend on.
    Versions(Vec<Bytes>),
}

/// The answer to a question for the replicated state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandsAnswer {
    /// How many bodies were taken, and the digest of them all.
    Position(u64, u64),
    /// The versions of the keys, in order.
    Versions(Vec<u64>),
}

/// A body that was applied ahead of its decision.
#[derive(Debug)]
struct Attempt {
    entry: Option<Entry>,
    undo: Undo,
}

/// Commands of Redis in the log as an application. The data is in the replica's server.
#[derive(Debug)]
pub struct Commands {
    state: State,
    attempts: VecDeque<Attempt>,
    shared: Arc<Shared>,
    /// What is loaded into an empty state; it ends with the first body that is taken.
    loading: Option<Box<Loading>>,
}

impl Commands {
    /// What the bodies of commands say by themselves.
    pub const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows: footprint::grows,
        touches: Some(footprint::touches),
        ..CommandProperties::UNKNOWN
    };

    /// A state in which nothing was taken yet.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Commands {
            state: State::default(),
            attempts: VecDeque::new(),
            shared,
            loading: None,
        }
    }

    fn publish(&mut self, entry: Option<Entry>) {
        if let Some(entry) = entry {
            if self.loading.take().is_some() && !self.shared.is_empty() {
                self.shared.begin_anew();
            }
            self.shared.publish(entry);
        }
    }
}

impl Application for Commands {
    type Query = CommandsQuery;
    type Answer = CommandsAnswer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        debug_assert!(self.attempts.is_empty(), "decided behind what is not");
        let (outcome, entry, _) = self.state.take(at.admission, body);
        self.publish(entry);
        outcome.to_bytes()
    }

    fn command_properties(&self) -> CommandProperties {
        Commands::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, _: &Bytes) -> bool {
        true
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        let (outcome, entry, undo) = self.state.take(at.admission, body);
        self.attempts.push_back(Attempt { entry, undo });
        outcome.to_bytes()
    }

    fn keep(&mut self) {
        if let Some(attempt) = self.attempts.pop_front() {
            self.publish(attempt.entry);
        }
    }

    fn retract(&mut self) {
        if let Some(attempt) = self.attempts.pop_back() {
            self.state.restore(attempt.undo);
        }
    }

    fn query(&self, query: &CommandsQuery) -> CommandsAnswer {
        match query {
            CommandsQuery::Position => CommandsAnswer::Position(self.state.len, self.state.digest),
            CommandsQuery::Versions(keys) => {
                let versions = keys.iter().map(|key| self.state.version(key));
                CommandsAnswer::Versions(versions.collect())
            }
        }
    }

    fn cut(&mut self) -> Cut {
        let inner = self.shared.lock();
        Cut::new(&self.state, inner.base.clone(), inner.history.clone())
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
        Commands {
            loading: Some(Box::default()),
            ..Commands::new(Arc::clone(&self.shared))
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
            self.shared.install(base, history);
        }
    }
}
