//! What the exchange is asked to do, and what it replies.

use crate::book::{
    BookRules, Entered, Event, ParticipantId, Phase, Price, Pricing, Refusal, SelfTrade, Side,
    TimeInForce,
};
use std::fmt;

/// A symbol of the exchange, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SymbolId(pub u16);

/// A gateway of the exchange, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct GatewayId(pub u16);

/// When and where a request was first received. Stamps are ordered by time; equal times by gateway, everywhere alike.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stamp {
    /// The time by the gateway's clock, in ns since the Unix epoch.
    pub time_ns: u64,
    /// The gateway that received it.
    pub gateway: GatewayId,
}

/// A command in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// Begins a symbol, whose book trades continuously.
    AddSymbol {
        /// The number of the new symbol.
        symbol: SymbolId,
        /// What its book is made for.
        rules: BookRules,
    },
    /// Admits a participant, or changes how one is treated.
    SetParticipant {
        /// The number of the participant.
        participant: ParticipantId,
        /// Whether all its orders are cancelled when its connection is lost.
        cancels_on_disconnect: bool,
    },
    /// Has a participant do something with its orders.
    Request(Request),
    /// Has a participant do something with its orders, as a gateway received it.
    Order(Stamp, Request),
    /// Cancels all orders of a participant whose connection is lost, if it is to be so.
    Disconnected(ParticipantId),
    /// Begins another phase of a symbol.
    SetPhase(SymbolId, Phase),
    /// Cancels the orders of a symbol that are good for the day.
    EndDay(SymbolId),
    /// Cancels the orders of a symbol whose time has come, if there are any.
    Expire(SymbolId),
}

/// What a participant asks of the book of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The symbol that is traded.
    pub symbol: SymbolId,
    /// The participant that asks.
    pub participant: ParticipantId,
    /// The number among this participant's requests for the symbol: each is done at most once. An order is called by
    /// the number of the request that entered it.
    pub number: u64,
    /// What is to be done.
    pub action: Action,
}

/// What a participant wishes to be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Enters an order.
    Enter {
        /// Whether it buys or sells.
        side: Side,
        /// The lots to trade.
        quantity: u64,
        /// The bound of the order's price, or of the money it may spend.
        pricing: Pricing,
        /// How long the order lives.
        time_in_force: TimeInForce,
        /// Whether it is refused where it would trade at once.
        post_only: bool,
        /// What happens where it meets the participant's own orders.
        self_trade: SelfTrade,
    },
    /// Cancels the order of this number.
    Cancel(u64),
    /// Takes lots from an order.
    Reduce {
        /// The number of the order.
        order: u64,
        /// The lots to take from it.
        by: u64,
    },
    /// Gives an order another price and another quantity.
    Replace {
        /// The number of the order.
        order: u64,
        /// The new price.
        price: Price,
        /// The new quantity, with what has traded.
        quantity: u64,
    },
    /// Cancels all orders of the participant in the symbol.
    CancelAll,
}

/// What a command touches. Commands that touch nothing in common commute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Footprint {
    /// The command touches one symbol.
    Symbol(SymbolId),
    /// The command touches all symbols.
    All,
}

impl Command {
    /// What the command touches.
    #[must_use]
    pub fn footprint(&self) -> Footprint {
        match self {
            Command::Request(Request { symbol, .. })
            | Command::Order(_, Request { symbol, .. })
            | Command::SetPhase(symbol, _)
            | Command::EndDay(symbol)
            | Command::Expire(symbol) => Footprint::Symbol(*symbol),
            Command::AddSymbol { .. }
            | Command::SetParticipant { .. }
            | Command::Disconnected(_) => Footprint::All,
        }
    }
}

/// What a command came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// What became of the command.
    pub outcome: Outcome,
    /// Whether the request was done before, and this is what it came to then. Such a reply has no events.
    pub is_repeated: bool,
    /// The stamp of the request, by which unfairness is measured on the log.
    pub stamp: Option<Stamp>,
    /// What happened in the books, in order.
    pub events: Vec<SymbolEvent>,
}

/// An event of one symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SymbolEvent {
    /// The symbol whose book it happened in.
    pub symbol: SymbolId,
    /// The time of the log at which it happened, in ns since the Unix epoch.
    pub time_ns: u64,
    /// What happened there.
    pub event: Event,
}

/// What became of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// What was asked for is done.
    Done,
    /// An order was entered, or replaced.
    Entered(Entered),
    /// An order was cancelled or reduced, and this many lots of it wait.
    Open(u64),
    /// This many orders were cancelled.
    Cancelled(u32),
    /// Nothing was done.
    Refused(Refused),
}

/// Why the exchange did nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The book refused it.
    Book(Refusal),
    /// No such symbol is traded.
    UnknownSymbol,
    /// No such participant is admitted.
    UnknownParticipant,
    /// There is a symbol of this number already.
    KnownSymbol,
    /// No book can be made by these rules.
    Rules,
    /// There are as many symbols as there may be.
    TooManySymbols,
    /// The request's number is so old that nobody knows any more what it came to.
    OldRequest,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Book(refusal) => refusal.fmt(f),
            Refused::UnknownSymbol => f.write_str("no such symbol is traded"),
            Refused::UnknownParticipant => f.write_str("no such participant is admitted"),
            Refused::KnownSymbol => f.write_str("there is a symbol of this number already"),
            Refused::Rules => f.write_str("no book can be made by these rules"),
            Refused::TooManySymbols => f.write_str("there are as many symbols as there may be"),
            Refused::OldRequest => f.write_str(
                "the request's number is so old that nobody knows what it came to: use a new one",
            ),
        }
    }
}

impl std::error::Error for Refused {}
