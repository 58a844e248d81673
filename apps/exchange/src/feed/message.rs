//! A message of the feed, of a fixed layout for each kind.

use crate::book::{EventKind, OrderNumber, Phase, Price, Side};
use crate::exchange::{SymbolEvent, SymbolId};
use crate::wire::{Reader, WireError, Writer};

/// One thing that happened in a symbol, as everybody sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarketMessage {
    /// The symbol it happened in.
    pub symbol: SymbolId,
    /// The place among all messages of the symbol, from 1, without gaps.
    pub sequence: u64,
    /// The time of the log at which it happened, in ns since the Unix epoch.
    pub time_ns: u64,
    /// The thing that happened.
    pub kind: MarketKind,
}

/// The kinds of messages. Whoever follows them from the first one holds the same book.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MarketKind {
    /// An order waits at the end of its level.
    Added {
        /// The order that waits.
        order: OrderNumber,
        /// The side it waits on.
        side: Side,
        /// The price it waits at.
        price: Price,
        /// The lots that wait.
        quantity: u64,
    },
    /// Two orders traded; those that wait have less from now on, and one without lots is gone.
    Traded {
        /// The number of the trade, from 1.
        trade: u64,
        /// The order that was in the book; in an auction, the selling one.
        resting: OrderNumber,
        /// In an auction, the buying order, which was in the book too.
        buying: Option<OrderNumber>,
        /// The side of the order that came.
        incoming_side: Side,
        /// The price of the trade.
        price: Price,
        /// The lots that changed hands.
        quantity: u64,
    },
    /// An order has fewer lots, and keeps its place.
    Reduced {
        /// The order that has fewer.
        order: OrderNumber,
        /// The lots that wait from now on.
        open: u64,
    },
    /// An order that waited is gone.
    Deleted {
        /// The order that is gone.
        order: OrderNumber,
    },
    /// An order waits at the end of another level, or of its own.
    Moved {
        /// The order that moved.
        order: OrderNumber,
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

impl MarketMessage {
    /// The fewest bytes of a message.
    pub(crate) const BYTES_MIN: usize = 20;
    /// The most bytes of a message.
    pub const BYTES_MAX: usize = 56;

    /// What everybody may see of an event.
    #[must_use]
    pub fn of(event: &SymbolEvent) -> MarketMessage {
        MarketMessage {
            symbol: event.symbol,
            sequence: event.event.sequence,
            time_ns: event.time_ns,
            kind: MarketKind::of(&event.event.kind),
        }
    }

    /// The bytes of the message.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.bytes
    }

    /// The message in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<MarketMessage, WireError> {
        Reader::whole(bytes, MarketMessage::read)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u8(self.kind.letter());
        out.u16(self.symbol.0);
        out.u64(self.sequence);
        out.u64(self.time_ns);
        self.kind.write(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let letter = from.u8()?;
        let (symbol, sequence) = (SymbolId(from.u16()?), from.u64()?);
        if sequence == 0 {
            return Err(WireError::Value("sequence"));
        }
        Ok(MarketMessage {
            symbol,
            sequence,
            time_ns: from.u64()?,
            kind: MarketKind::read(letter, from)?,
        })
    }
}

impl MarketKind {
    fn of(kind: &EventKind) -> MarketKind {
        match *kind {
            EventKind::Added {
                order,
                side,
                price,
                quantity,
            } => MarketKind::Added {
                order: order.number,
                side,
                price,
                quantity,
            },
            EventKind::Traded {
                trade,
                resting,
                incoming,
                incoming_side,
                price,
                quantity,
                in_auction,
            } => MarketKind::Traded {
                trade,
                resting: resting.number,
                buying: in_auction.then_some(incoming.number),
                incoming_side,
                price,
                quantity,
            },
            EventKind::Reduced { order, open, .. } => MarketKind::Reduced {
                order: order.number,
                open,
            },
            EventKind::Deleted { order, .. } => MarketKind::Deleted {
                order: order.number,
            },
            EventKind::Moved {
                order,
                price,
                quantity,
            } => MarketKind::Moved {
                order: order.number,
                price,
                quantity,
            },
            EventKind::Phase(phase) => MarketKind::Phase(phase),
            EventKind::Uncrossed { price, quantity } => MarketKind::Uncrossed { price, quantity },
        }
    }

    /// The byte that a message of this kind begins with.
    fn letter(&self) -> u8 {
        match self {
            MarketKind::Added { .. } => b'A',
            MarketKind::Traded { .. } => b'T',
            MarketKind::Reduced { .. } => b'R',
            MarketKind::Deleted { .. } => b'D',
            MarketKind::Moved { .. } => b'M',
            MarketKind::Phase(_) => b'P',
            MarketKind::Uncrossed { .. } => b'U',
        }
    }

    fn write(&self, out: &mut Writer) {
        match *self {
            MarketKind::Added {
                order,
                side,
                price,
                quantity,
            } => {
                out.u64(order.0);
                out.u8(side.code());
                out.u32(price.0);
                out.u64(quantity);
            }
            MarketKind::Traded {
                trade,
                resting,
                buying,
                incoming_side,
                price,
                quantity,
            } => {
                out.u64(trade);
                out.u64(resting.0);
                // No order has the number 0.
                out.u64(buying.map_or(0, |order| order.0));
                out.u8(incoming_side.code());
                out.u32(price.0);
                out.u64(quantity);
            }
            MarketKind::Reduced { order, open } => {
                out.u64(order.0);
                out.u64(open);
            }
            MarketKind::Deleted { order } => out.u64(order.0),
            MarketKind::Moved {
                order,
                price,
                quantity,
            } => {
                out.u64(order.0);
                out.u32(price.0);
                out.u64(quantity);
            }
            MarketKind::Phase(phase) => out.u8(phase.code()),
            MarketKind::Uncrossed { price, quantity } => {
                out.u32(price.0);
                out.u64(quantity);
            }
        }
    }

    fn read(letter: u8, from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match letter {
            b'A' => MarketKind::Added {
                order: OrderNumber(from.u64()?),
                side: Side::of_code(from.u8()?)?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            b'T' => MarketKind::Traded {
                trade: from.u64()?,
                resting: OrderNumber(from.u64()?),
                buying: match from.u64()? {
                    0 => None,
                    order => Some(OrderNumber(order)),
                },
                incoming_side: Side::of_code(from.u8()?)?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            b'R' => MarketKind::Reduced {
                order: OrderNumber(from.u64()?),
                open: from.u64()?,
            },
            b'D' => MarketKind::Deleted {
                order: OrderNumber(from.u64()?),
            },
            b'M' => MarketKind::Moved {
                order: OrderNumber(from.u64()?),
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            b'P' => MarketKind::Phase(Phase::of_code(from.u8()?)?),
            b'U' => MarketKind::Uncrossed {
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            _ => return Err(WireError::Value("kind of message")),
        })
    }
}
