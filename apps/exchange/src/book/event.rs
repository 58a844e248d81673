//! What happens in a book, in an order of its own.

use super::types::{OrderNumber, Owner, Phase, Price, Side};

/// One thing that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The place among all events of the symbol, from 1, without gaps.
    pub sequence: u64,
    /// The thing that happened.
    pub kind: EventKind,
}

/// One of the two orders of a trade.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Party {
    /// The book's name for the order.
    pub number: OrderNumber,
    /// The owner of the order.
    pub owner: Owner,
}

/// The kinds of events. Whoever follows them from the first one holds the same book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// An order waits at the end of its level.
    Added {
        /// The order that waits.
        order: Party,
        /// The side it waits on.
        side: Side,
        /// The price it waits at.
        price: Price,
        /// The lots that wait.
        quantity: u64,
    },
    /// Two orders traded. The resting one has less from now on; in an auction, both rest.
    Traded {
        /// The number of the trade, from 1.
        trade: u64,
        /// The order that was in the book; in an auction, the selling one.
        resting: Party,
        /// The order that came; in an auction, the buying one.
        incoming: Party,
        /// The side of the order that came.
        incoming_side: Side,
        /// The price of the trade.
        price: Price,
        /// The lots that changed hands.
        quantity: u64,
        /// Whether an auction made the trade.
        in_auction: bool,
    },
    /// An order has fewer lots, and keeps its place.
    Reduced {
        /// The order that has fewer.
        order: Party,
        /// The lots that wait from now on.
        open: u64,
        /// Why there are fewer.
        why: Ended,
    },
    /// An order that waited is gone.
    Deleted {
        /// The order that is gone.
        order: Party,
        /// The lots that waited.
        quantity: u64,
        /// Why it is gone.
        why: Ended,
    },
    /// An order waits at the end of another level, or of its own.
    Moved {
        /// The order that moved.
        order: Party,
        /// The price it waits at from now on.
        price: Price,
        /// The lots that wait from now on.
        quantity: u64,
    },
    /// The symbol is in this phase.
    Phase(Phase),
    /// An auction found a price.
    Uncrossed {
        /// The price of all its trades.
        price: Price,
        /// The lots that change hands.
        quantity: u64,
    },
}

/// Why lots no longer wait.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ended {
    /// The owner wished so.
    Cancelled,
    /// The time up to which the order was good has passed.
    Expired,
    /// The day of trading is over.
    DayOver,
    /// The order met another one of its owner.
    SelfTrade,
    /// The owner's connection is gone.
    Disconnected,
    /// The order has a new price at which it trades; what is left of it waits again.
    Replaced,
}
