//! A book that is held by whoever follows the feed.

use super::message::{MarketKind, MarketMessage};
use super::snapshot::{BookSnapshot, PublicOrder};
use crate::book::{LevelView, ORDERS_MAX, OrderNumber, Phase, Price, QUANTITY_MAX, Side};
use crate::exchange::SymbolId;
use std::collections::BTreeMap;
use std::fmt;

/// Why a message does not follow from what is held: the feed is not that of one exchange.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FollowError {
    /// The message is of another symbol, or not the next one.
    Sequence,
    /// No such order is open.
    Unknown(OrderNumber),
    /// An order of this number is open already.
    Known(OrderNumber),
    /// The order has fewer lots than it should lose, or would wait with none.
    Quantity(OrderNumber),
    /// There are more orders than a book may hold.
    Full,
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Sequence => f.write_str("the message is not the next one of the symbol"),
            FollowError::Unknown(order) => write!(f, "no order {} is open", order.0),
            FollowError::Known(order) => write!(f, "the order {} is open already", order.0),
            FollowError::Quantity(order) => {
                write!(f, "the lots of the order {} do not fit", order.0)
            }
            FollowError::Full => f.write_str("there are more orders than a book may hold"),
        }
    }
}

impl std::error::Error for FollowError {}

/// An order that waits. `rank` is its place in time.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    side: Side,
    price: Price,
    open: u64,
    rank: u64,
}

/// The open orders of a symbol, as the feed tells them.
#[derive(Debug)]
pub struct FollowedBook {
    symbol: SymbolId,
    sequence: u64,
    phase: Phase,
    orders: BTreeMap<OrderNumber, Waiting>,
    bids: BTreeMap<Price, BTreeMap<u64, OrderNumber>>,
    asks: BTreeMap<Price, BTreeMap<u64, OrderNumber>>,
    last_rank: u64,
}

impl FollowedBook {
    /// The book of a symbol in which nothing has happened yet.
    #[must_use]
    pub fn new(symbol: SymbolId) -> FollowedBook {
        FollowedBook {
            symbol,
            sequence: 0,
            phase: Phase::Continuous,
            orders: BTreeMap::new(),
            bids: BTreeMap::new(),
            asks: BTreeMap::new(),
            last_rank: 0,
        }
    }

    /// The book that a snapshot shows.
    ///
    /// # Errors
    /// Why it shows none.
    pub fn from_snapshot(snapshot: &BookSnapshot) -> Result<FollowedBook, FollowError> {
        let mut book = FollowedBook::new(snapshot.symbol);
        for order in &snapshot.orders {
            book.add(order.number, order.side, order.price, order.open)?;
        }
        (book.sequence, book.phase) = (snapshot.sequence, snapshot.phase);
        Ok(book)
    }

    /// What a snapshot of this book shows.
    #[must_use]
    pub fn snapshot(&self) -> BookSnapshot {
        let bids = self.bids.values().rev();
        let queues = bids.chain(self.asks.values());
        let orders = queues.flat_map(BTreeMap::values).filter_map(|number| {
            let order = self.orders.get(number)?;
            Some(PublicOrder {
                number: *number,
                side: order.side,
                price: order.price,
                open: order.open,
            })
        });
        BookSnapshot {
            symbol: self.symbol,
            sequence: self.sequence,
            phase: self.phase,
            orders: orders.collect(),
        }
    }

    /// The sequence of the last message that is counted in.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// What the book does with orders.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The levels of a side, the best one first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = LevelView> {
        let queues: Box<dyn Iterator<Item = _>> = match side {
            Side::Buy => Box::new(self.bids.iter().rev()),
            Side::Sell => Box::new(self.asks.iter()),
        };
        queues.map(|(price, queue)| LevelView {
            price: *price,
            quantity: queue.values().map(|number| self.orders[number].open).sum(),
            orders: queue.len() as u32,
        })
    }

    /// The order of a side that trades first.
    #[must_use]
    pub fn first(&self, side: Side) -> Option<OrderNumber> {
        let queue = match side {
            Side::Buy => self.bids.values().next_back(),
            Side::Sell => self.asks.values().next(),
        };
        queue?.values().next().copied()
    }

    /// Does what the next message says. After an error the book is that of no exchange: begin with a snapshot.
    ///
    /// # Errors
    /// Why it does not follow.
    pub fn apply(&mut self, message: &MarketMessage) -> Result<(), FollowError> {
        if message.symbol != self.symbol || Some(message.sequence) != self.sequence.checked_add(1) {
            return Err(FollowError::Sequence);
        }
        match message.kind {
            MarketKind::Added {
                order,
                side,
                price,
                quantity,
            } => self.add(order, side, price, quantity)?,
            MarketKind::Traded {
                resting,
                buying,
                quantity,
                ..
            } => {
                self.trade(resting, quantity)?;
                if let Some(buying) = buying {
                    self.trade(buying, quantity)?;
                }
            }
            MarketKind::Reduced { order, open } => self.reduce(order, open)?,
            MarketKind::Deleted { order } => {
                self.remove(order)?;
            }
            MarketKind::Moved {
                order,
                price,
                quantity,
            } => {
                let was = self.remove(order)?;
                self.add(order, was.side, price, quantity)?;
            }
            MarketKind::Phase(phase) => self.phase = phase,
            MarketKind::Uncrossed { .. } => {}
        }
        self.sequence = message.sequence;
        Ok(())
    }

    fn queues(&mut self, side: Side) -> &mut BTreeMap<Price, BTreeMap<u64, OrderNumber>> {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    fn add(
        &mut self,
        number: OrderNumber,
        side: Side,
        price: Price,
        open: u64,
    ) -> Result<(), FollowError> {
        if open == 0 || open > QUANTITY_MAX {
            return Err(FollowError::Quantity(number));
        }
        if self.orders.contains_key(&number) {
            return Err(FollowError::Known(number));
        }
        if self.orders.len() >= ORDERS_MAX as usize {
            return Err(FollowError::Full);
        }
        self.last_rank += 1;
        let rank = self.last_rank;
        let order = Waiting {
            side,
            price,
            open,
            rank,
        };
        self.orders.insert(number, order);
        let queue = self.queues(side).entry(price).or_default();
        queue.insert(rank, number);
        Ok(())
    }

    fn remove(&mut self, number: OrderNumber) -> Result<Waiting, FollowError> {
        let order = self.orders.remove(&number);
        let order = order.ok_or(FollowError::Unknown(number))?;
        let queues = self.queues(order.side);
        if let Some(queue) = queues.get_mut(&order.price) {
            queue.remove(&order.rank);
            if queue.is_empty() {
                queues.remove(&order.price);
            }
        }
        Ok(order)
    }

    fn trade(&mut self, number: OrderNumber, quantity: u64) -> Result<(), FollowError> {
        let order = self.orders.get_mut(&number);
        let order = order.ok_or(FollowError::Unknown(number))?;
        let open = order.open.checked_sub(quantity);
        order.open = open.ok_or(FollowError::Quantity(number))?;
        if order.open == 0 {
            self.remove(number)?;
        }
        Ok(())
    }

    fn reduce(&mut self, number: OrderNumber, open: u64) -> Result<(), FollowError> {
        let order = self.orders.get_mut(&number);
        let order = order.ok_or(FollowError::Unknown(number))?;
        if open == 0 || open >= order.open {
            return Err(FollowError::Quantity(number));
        }
        order.open = open;
        Ok(())
    }
}
