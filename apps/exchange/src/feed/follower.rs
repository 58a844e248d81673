//! A subscriber of one symbol: snapshot, then messages in order, and what it has to ask for.

use super::book::{FollowError, FollowedBook};
use super::in_order::InOrder;
use super::message::MarketMessage;
use super::snapshot::BookSnapshot;
use crate::exchange::SymbolId;
use std::ops::Range;

/// How many messages wait for those before them.
const WAITING_MAX: usize = 4096;

/// What a follower needs before it can go on. Any replica has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// A snapshot of the symbol.
    Snapshot,
    /// The messages with these sequences.
    Messages(Range<u64>),
}

/// Holds the book of one symbol by its feed.
#[derive(Debug)]
pub struct FeedFollower {
    symbol: SymbolId,
    book: Option<FollowedBook>,
    incoming: InOrder<MarketMessage>,
}

impl FeedFollower {
    /// Begins to follow a symbol: the first thing it needs is a snapshot.
    #[must_use]
    pub fn new(symbol: SymbolId) -> FeedFollower {
        FeedFollower {
            symbol,
            book: None,
            incoming: InOrder::new(1, WAITING_MAX),
        }
    }

    /// The book as far as it is known; `None` before the first snapshot.
    #[must_use]
    pub fn book(&self) -> Option<&FollowedBook> {
        self.book.as_ref()
    }

    /// Takes a message, in any order and any number of times. Those of other symbols are left alone.
    ///
    /// # Errors
    /// Why messages do not follow from each other; a snapshot is wanted then.
    pub fn handle_message(&mut self, message: MarketMessage) -> Result<(), FollowError> {
        if message.symbol == self.symbol {
            self.incoming.insert(message.sequence, message);
        }
        self.advance()
    }

    /// Learns the last sequence of the symbol.
    pub fn handle_latest(&mut self, sequence: u64) {
        self.incoming.note_seen(sequence);
    }

    /// Begins with a snapshot, if it is newer than what is known.
    ///
    /// # Errors
    /// Why it shows no book, or what came does not follow from it.
    pub fn handle_snapshot(&mut self, snapshot: &BookSnapshot) -> Result<(), FollowError> {
        let known = self.book.as_ref().map(FollowedBook::sequence);
        if snapshot.symbol != self.symbol || known.is_some_and(|known| known >= snapshot.sequence) {
            return Ok(());
        }
        self.book = Some(FollowedBook::from_snapshot(snapshot)?);
        self.incoming.skip_to(snapshot.sequence.saturating_add(1));
        self.advance()
    }

    /// Learns that nobody keeps the messages that were wanted: a snapshot is wanted now.
    pub fn handle_forgotten(&mut self) {
        self.book = None;
    }

    /// What has to be fetched.
    #[must_use]
    pub fn wanted(&self) -> Option<Wanted> {
        match self.book {
            None => Some(Wanted::Snapshot),
            Some(_) => self.incoming.missing().map(Wanted::Messages),
        }
    }

    fn advance(&mut self) -> Result<(), FollowError> {
        let Some(book) = &mut self.book else {
            return Ok(());
        };
        while let Some(message) = self.incoming.pop() {
            if let Err(error) = book.apply(&message) {
                self.book = None;
                return Err(error);
            }
        }
        Ok(())
    }
}
