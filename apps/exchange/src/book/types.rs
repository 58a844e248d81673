//! What is asked of a book, and what it says.

use std::fmt;

/// The most lots of one order.
///
/// A price has 32 bits, so that no amount of money of one order, and no sum over a whole book, leaves 64 bits.
pub const QUANTITY_MAX: u64 = (1 << 31) - 1;

/// The most price levels of a book.
pub const LEVELS_MAX: u32 = 1 << 18;

/// The most orders that a book may hold.
pub const ORDERS_MAX: u32 = 1 << OrderNumber::SLOT_BITS;

/// The most participants, whose numbers are below this.
pub const PARTICIPANTS_MAX: u16 = 4096;

/// A price in ticks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Price(pub u32);

/// A participant of the exchange, by number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ParticipantId(pub u16);

/// The participant that an order is of, and what it calls the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The participant that entered the order.
    pub participant: ParticipantId,
    /// The participant's own number for the order.
    pub client_order: u64,
}

/// The book's name for an order; no other order of the symbol ever has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OrderNumber(pub u64);

impl OrderNumber {
    /// How many bits name the order's place in memory.
    const SLOT_BITS: u32 = 20;

    /// How many orders there may be in the life of a book.
    pub(super) const SERIALS: u64 = 1 << (64 - Self::SLOT_BITS);

    pub(super) fn new(serial: u64, slot: u32) -> Self {
        OrderNumber(serial << Self::SLOT_BITS | u64::from(slot))
    }

    pub(super) fn slot(self) -> usize {
        (self.0 & u64::from(ORDERS_MAX - 1)) as usize
    }

    /// The order's place among all that the book accepted, from 1.
    #[must_use]
    pub fn serial(self) -> u64 {
        self.0 >> Self::SLOT_BITS
    }
}

/// The side of the book that an order is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The order buys.
    Buy,
    /// The order sells.
    Sell,
}

impl Side {
    /// The side that this one trades with.
    #[must_use]
    pub fn opposite(self) -> Side {
        match self {
            Side::Buy => Side::Sell,
            Side::Sell => Side::Buy,
        }
    }
}

/// What bounds the price of an order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pricing {
    /// Trades at this price or a better one.
    Limit(Price),
    /// Trades at whatever price there is.
    Market,
    /// Buys as long as everything together costs at most this many ticks times lots.
    Budget(u64),
}

/// How long an order lives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TimeInForce {
    /// Until it is cancelled.
    GoodTillCancel,
    /// Until the end of the day of trading.
    Day,
    /// Up to this time of the log, in ns since the Unix epoch.
    GoodTillTime(u64),
    /// What does not trade at once is cancelled.
    ImmediateOrCancel,
    /// All of it trades at once, or nothing.
    FillOrKill,
}

impl TimeInForce {
    /// Whether the order may wait in the book.
    #[must_use]
    pub fn rests(self) -> bool {
        !matches!(
            self,
            TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill
        )
    }
}

/// What happens where an incoming order meets one of the same participant; the incoming order says it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SelfTrade {
    /// The two trade.
    Allow,
    /// Both lose the smaller of the two quantities, and what has none left is cancelled.
    DecreaseAndCancel,
    /// The resting order is cancelled.
    CancelOldest,
    /// The incoming order is cancelled.
    CancelNewest,
    /// Both orders are cancelled.
    CancelBoth,
}

/// An order as it comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// Who enters it, and under which name.
    pub owner: Owner,
    /// Whether it buys or sells.
    pub side: Side,
    /// The lots to trade, at least 1 and at most [`QUANTITY_MAX`].
    pub quantity: u64,
    /// The bound of the order's price, or of the money it may spend.
    pub pricing: Pricing,
    /// How long the order lives.
    pub time_in_force: TimeInForce,
    /// Whether it is refused where it would trade at once.
    pub post_only: bool,
    /// What happens where it meets the participant's own orders.
    pub self_trade: SelfTrade,
}

/// What became of an order as it came in: the three quantities are together what was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entered {
    /// The order's name from now on.
    pub number: OrderNumber,
    /// The lots that traded at once.
    pub executed: u64,
    /// The lots that wait in the book.
    pub open: u64,
    /// The lots that were cancelled: by its time in force, its budget, or against a self-trade.
    pub cancelled: u64,
}

/// Why nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The quantity is 0 or above [`QUANTITY_MAX`].
    Quantity,
    /// The price is outside the book's levels.
    Price,
    /// The participant's number is not below [`PARTICIPANTS_MAX`].
    Participant,
    /// These properties of an order do not go together.
    Combination,
    /// The time up to which the order is good has passed.
    Expired,
    /// The order may only add to the book, and would trade.
    WouldTrade,
    /// Not all of the order can trade at once.
    Unfillable,
    /// The book holds as many orders as it may.
    Full,
    /// Trading is halted.
    Halted,
    /// Orders of this kind have no place in an auction.
    InAuction,
    /// No open order has this name.
    Unknown,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Quantity => "the quantity is 0 or too large",
            Refusal::Price => "the price is outside the symbol's range",
            Refusal::Participant => "there is no such participant",
            Refusal::Combination => "pricing, time in force and post-only do not go together",
            Refusal::Expired => "the time up to which the order is good has passed",
            Refusal::WouldTrade => "the order is post-only and would trade",
            Refusal::Unfillable => "not all of the order can trade at once",
            Refusal::Full => "the book holds as many orders as it may",
            Refusal::Halted => "trading in the symbol is halted",
            Refusal::InAuction => "orders that trade at once have no place in an auction",
            Refusal::Unknown => "no open order has this name",
        })
    }
}

impl std::error::Error for Refusal {}

/// What a book does with orders at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Orders trade as they come.
    Continuous,
    /// Orders gather without trading, until one price is found for all.
    Auction,
    /// Orders can only be cancelled or reduced.
    Halted,
}

/// The prices of a book, and its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BookRules {
    /// The lowest price, at least 1 tick.
    pub lowest: Price,
    /// How many prices there are, a tick apart, at most [`LEVELS_MAX`].
    pub levels: u32,
    /// The most orders that wait at a time, at most [`ORDERS_MAX`].
    pub orders_max: u32,
    /// The price that an auction prefers where several are equally good.
    pub reference: Price,
}

impl BookRules {
    /// Whether a book can be made by these rules.
    #[must_use]
    pub fn are_sound(&self) -> bool {
        let within = |value: u32, most: u32| (1..=most).contains(&value);
        self.lowest.0 > 0
            && within(self.levels, LEVELS_MAX)
            && within(self.orders_max, ORDERS_MAX)
            && self.lowest.0.checked_add(self.levels).is_some()
            && self.level_of(self.reference).is_some()
    }

    /// The level of a price, from 0.
    pub(super) fn level_of(&self, price: Price) -> Option<u32> {
        let at = price.0.checked_sub(self.lowest.0)?;
        (at < self.levels).then_some(at)
    }

    pub(super) fn price_at(&self, level: u32) -> Price {
        Price(self.lowest.0 + level)
    }
}

/// One price of one side, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelView {
    /// The price of the level.
    pub price: Price,
    /// The lots that wait there.
    pub quantity: u64,
    /// How many orders wait there.
    pub orders: u32,
}

/// An open order, as it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderView {
    /// The book's name for it.
    pub number: OrderNumber,
    /// The owner of the order.
    pub owner: Owner,
    /// Whether it buys or sells.
    pub side: Side,
    /// The price it waits at.
    pub price: Price,
    /// The lots that wait.
    pub open: u64,
    /// The lots that have traded.
    pub executed: u64,
}
