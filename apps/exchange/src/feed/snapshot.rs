//! The open orders of a symbol at one moment, without owners.

use crate::book::{ORDERS_MAX, OrderNumber, OrderView, Phase, Price, Side};
use crate::exchange::{OpenOrders, SymbolId};
use crate::wire::{Reader, WireError, Writer};

/// An open order, as everybody sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PublicOrder {
    /// The book's name for it.
    pub number: OrderNumber,
    /// Whether it buys or sells.
    pub side: Side,
    /// The price it waits at.
    pub price: Price,
    /// The lots that wait.
    pub open: u64,
}

/// The state of a symbol after a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BookSnapshot {
    /// The symbol that is shown.
    pub symbol: SymbolId,
    /// The sequence of the last message that is counted in.
    pub sequence: u64,
    /// What the book does with orders.
    pub phase: Phase,
    /// All open orders: those that buy, then those that sell, each in the order in which they trade.
    pub orders: Vec<PublicOrder>,
}

impl BookSnapshot {
    /// What everybody may see of the open orders of a symbol.
    #[must_use]
    pub fn of(symbol: SymbolId, open: &OpenOrders) -> BookSnapshot {
        let public = |order: &OrderView| PublicOrder {
            number: order.number,
            side: order.side,
            price: order.price,
            open: order.open,
        };
        BookSnapshot {
            symbol,
            sequence: open.sequence,
            phase: open.phase,
            orders: open.bids.iter().chain(&open.asks).map(public).collect(),
        }
    }

    /// The bytes of the snapshot.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.bytes
    }

    /// The snapshot in some bytes.
    ///
    /// # Errors
    /// Why they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<BookSnapshot, WireError> {
        Reader::whole(bytes, BookSnapshot::read)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u16(self.symbol.0);
        out.u64(self.sequence);
        out.u8(self.phase.code());
        out.length(self.orders.len());
        for order in &self.orders {
            out.u64(order.number.0);
            out.u8(order.side.code());
            out.u32(order.price.0);
            out.u64(order.open);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<BookSnapshot, WireError> {
        let mut snapshot = BookSnapshot {
            symbol: SymbolId(from.u16()?),
            sequence: from.u64()?,
            phase: Phase::of_code(from.u8()?)?,
            orders: Vec::new(),
        };
        let count = from.length(21)?;
        if count > ORDERS_MAX as usize {
            return Err(WireError::Value("orders"));
        }
        for _ in 0..count {
            snapshot.orders.push(PublicOrder {
                number: OrderNumber(from.u64()?),
                side: Side::of_code(from.u8()?)?,
                price: Price(from.u32()?),
                open: from.u64()?,
            });
        }
        Ok(snapshot)
    }
}
