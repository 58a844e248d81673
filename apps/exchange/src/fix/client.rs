//! A participant at a gateway: what is kept of it, its connection, and what is to be done for it.

use super::journal::{Journaled, record};
use super::kept::{Change, Kept, Name};
use super::session::Connected;
use crate::book::ParticipantId;
use crate::entry::OrderRequest;
use crate::exchange::SymbolId;
use crate::wire::Writer;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Something that a client wants done, after its changes are in its journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FixOutput {
    /// Sends a message over the connection.
    Send(Vec<u8>),
    /// Hands a request to the exchange, again and again until it is answered.
    Submit(OrderRequest),
    /// Ends the connection: `is_lost` where the other end is gone rather than logged out.
    Disconnect {
        /// Whether the participant went without a word.
        is_lost: bool,
    },
}

/// A participant, as a gateway knows it.
#[derive(Debug)]
pub struct Client {
    pub(super) participant: ParticipantId,
    pub(super) kept: Kept,
    pub(super) connected: Option<Connected>,
    /// Requests that the exchange has, and that are not answered.
    pub(super) under_way: BTreeSet<Name>,
    /// Orders that were answered as repeated, and until when their trades are waited for.
    pub(super) repeated: BTreeMap<Name, u64>,
    pub(super) outputs: VecDeque<FixOutput>,
    changes: Writer,
}

impl Client {
    /// A participant that was never here.
    #[must_use]
    pub fn new(participant: ParticipantId) -> Client {
        Client {
            participant,
            kept: Kept::default(),
            connected: None,
            under_way: BTreeSet::new(),
            repeated: BTreeMap::new(),
            outputs: VecDeque::new(),
            changes: Writer::default(),
        }
    }

    /// A participant that was here, and whose connection is gone.
    #[must_use]
    pub fn recover(journaled: Journaled) -> Client {
        Client {
            kept: journaled.kept,
            ..Client::new(journaled.participant)
        }
    }

    /// The participant that this is.
    #[must_use]
    pub fn participant(&self) -> ParticipantId {
        self.participant
    }

    /// Whether the participant has a connection.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Takes the record of what has changed; empty where nothing has. It is written before outputs are carried out.
    #[must_use]
    pub fn take_record(&mut self) -> Vec<u8> {
        let changes = std::mem::take(&mut self.changes).bytes;
        match changes.is_empty() {
            true => changes,
            false => record(&changes),
        }
    }

    /// A record that says all that is kept, for a journal that begins anew.
    #[must_use]
    pub fn whole_record(&self) -> Vec<u8> {
        let mut out = Writer::default();
        for change in self.kept.as_changes() {
            change.write(&mut out);
        }
        record(&out.bytes)
    }

    /// Takes what is to be done next.
    pub fn poll_output(&mut self) -> Option<FixOutput> {
        self.outputs.pop_front()
    }

    /// The sequence of the last event of a symbol that was reported; 0 where none was.
    #[must_use]
    pub fn reported(&self, symbol: SymbolId) -> u64 {
        self.kept.reported.get(&symbol).copied().unwrap_or(0)
    }

    pub(super) fn change(&mut self, change: Change) {
        change.write(&mut self.changes);
        self.kept.apply(change);
    }
}
