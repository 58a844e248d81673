//! What goes into a book and what comes out, as bytes.

use super::event::{Ended, Event, EventKind, Party};
use super::types::{
    BookRules, Entered, OrderNumber, Owner, ParticipantId, Phase, Price, Pricing, Refusal,
    SelfTrade, Side, TimeInForce,
};
use crate::wire::{Reader, WireError, Writer};

impl BookRules {
    pub(crate) fn write(&self, out: &mut Writer) {
        out.u32(self.lowest.0);
        out.u32(self.levels);
        out.u32(self.orders_max);
        out.u32(self.reference.0);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(BookRules {
            lowest: Price(from.u32()?),
            levels: from.u32()?,
            orders_max: from.u32()?,
            reference: Price(from.u32()?),
        })
    }
}

impl TimeInForce {
    pub(crate) fn write(self, out: &mut Writer) {
        let (code, until_ns) = match self {
            TimeInForce::GoodTillCancel => (0, 0),
            TimeInForce::Day => (1, 0),
            TimeInForce::GoodTillTime(until_ns) => (2, until_ns),
            TimeInForce::ImmediateOrCancel => (3, 0),
            TimeInForce::FillOrKill => (4, 0),
        };
        out.u8(code);
        out.u64(until_ns);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match (from.u8()?, from.u64()?) {
            (0, 0) => TimeInForce::GoodTillCancel,
            (1, 0) => TimeInForce::Day,
            (2, until_ns) => TimeInForce::GoodTillTime(until_ns),
            (3, 0) => TimeInForce::ImmediateOrCancel,
            (4, 0) => TimeInForce::FillOrKill,
            _ => return Err(WireError::Value("time in force")),
        })
    }
}

impl Pricing {
    pub(crate) fn write(self, out: &mut Writer) {
        let (code, value) = match self {
            Pricing::Limit(price) => (0, u64::from(price.0)),
            Pricing::Market => (1, 0),
            Pricing::Budget(money) => (2, money),
        };
        out.u8(code);
        out.u64(value);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        let invalid = WireError::Value("pricing");
        Ok(match (from.u8()?, from.u64()?) {
            (0, price) => Pricing::Limit(Price(u32::try_from(price).map_err(|_| invalid)?)),
            (1, 0) => Pricing::Market,
            (2, money) => Pricing::Budget(money),
            _ => return Err(invalid),
        })
    }
}

impl Owner {
    pub(crate) fn write(self, out: &mut Writer) {
        out.u16(self.participant.0);
        out.u64(self.client_order);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Owner {
            participant: ParticipantId(from.u16()?),
            client_order: from.u64()?,
        })
    }
}

impl Entered {
    pub(crate) fn write(self, out: &mut Writer) {
        out.u64(self.number.0);
        out.u64(self.executed);
        out.u64(self.open);
        out.u64(self.cancelled);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Entered {
            number: OrderNumber(from.u64()?),
            executed: from.u64()?,
            open: from.u64()?,
            cancelled: from.u64()?,
        })
    }
}

impl Party {
    fn write(self, out: &mut Writer) {
        out.u64(self.number.0);
        self.owner.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Party {
            number: OrderNumber(from.u64()?),
            owner: Owner::read(from)?,
        })
    }
}

impl Event {
    /// The fewest bytes of an event.
    pub(crate) const BYTES_MIN: usize = 10;

    pub(crate) fn write(&self, out: &mut Writer) {
        out.u64(self.sequence);
        self.kind.write(out);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(Event {
            sequence: from.u64()?,
            kind: EventKind::read(from)?,
        })
    }
}

impl EventKind {
    fn write(&self, out: &mut Writer) {
        match *self {
            EventKind::Added {
                order,
                side,
                price,
                quantity,
            } => {
                out.u8(0);
                order.write(out);
                out.u8(side.code());
                out.u32(price.0);
                out.u64(quantity);
            }
            EventKind::Traded {
                trade,
                resting,
                incoming,
                incoming_side,
                price,
                quantity,
                in_auction,
            } => {
                out.u8(1);
                out.u64(trade);
                resting.write(out);
                incoming.write(out);
                out.u8(incoming_side.code());
                out.u32(price.0);
                out.u64(quantity);
                out.flag(in_auction);
            }
            EventKind::Reduced { order, open, why } => {
                out.u8(2);
                order.write(out);
                out.u64(open);
                out.u8(why.code());
            }
            EventKind::Deleted {
                order,
                quantity,
                why,
            } => {
                out.u8(3);
                order.write(out);
                out.u64(quantity);
                out.u8(why.code());
            }
            EventKind::Moved {
                order,
                price,
                quantity,
            } => {
                out.u8(4);
                order.write(out);
                out.u32(price.0);
                out.u64(quantity);
            }
            EventKind::Phase(phase) => {
                out.u8(5);
                out.u8(phase.code());
            }
            EventKind::Uncrossed { price, quantity } => {
                out.u8(6);
                out.u32(price.0);
                out.u64(quantity);
            }
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, WireError> {
        Ok(match from.u8()? {
            0 => EventKind::Added {
                order: Party::read(from)?,
                side: Side::of_code(from.u8()?)?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            1 => EventKind::Traded {
                trade: from.u64()?,
                resting: Party::read(from)?,
                incoming: Party::read(from)?,
                incoming_side: Side::of_code(from.u8()?)?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
                in_auction: from.flag("in auction")?,
            },
            2 => EventKind::Reduced {
                order: Party::read(from)?,
                open: from.u64()?,
                why: Ended::of_code(from.u8()?)?,
            },
            3 => EventKind::Deleted {
                order: Party::read(from)?,
                quantity: from.u64()?,
                why: Ended::of_code(from.u8()?)?,
            },
            4 => EventKind::Moved {
                order: Party::read(from)?,
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            5 => EventKind::Phase(Phase::of_code(from.u8()?)?),
            6 => EventKind::Uncrossed {
                price: Price(from.u32()?),
                quantity: from.u64()?,
            },
            _ => return Err(WireError::Value("kind of event")),
        })
    }
}

/// Gives an enum without fields a code for each variant: its place in the list.
macro_rules! codes {
    ($type:ty, $field:literal, [$($variant:ident),+ $(,)?]) => {
        impl $type {
            /// The byte that stands for this in messages and snapshots.
            pub(crate) fn code(self) -> u8 {
                let all = [$(Self::$variant),+];
                let place = all.iter().position(|one| *one == self);
                place.map_or(u8::MAX, |place| place as u8)
            }

            /// What a byte in a message or a snapshot stands for.
            pub(crate) fn of_code(code: u8) -> Result<Self, WireError> {
                let all = [$(Self::$variant),+];
                all.get(usize::from(code)).copied().ok_or(WireError::Value($field))
            }
        }
    };
}

codes!(Side, "side", [Buy, Sell]);
codes!(Phase, "phase", [Continuous, Auction, Halted]);
codes!(
    SelfTrade,
    "self-trade policy",
    [
        Allow,
        DecreaseAndCancel,
        CancelOldest,
        CancelNewest,
        CancelBoth,
    ]
);
codes!(
    Ended,
    "why it ended",
    [
        Cancelled,
        Expired,
        DayOver,
        SelfTrade,
        Disconnected,
        Replaced,
    ]
);
codes!(
    Refusal,
    "refusal",
    [
        Quantity,
        Price,
        Participant,
        Combination,
        Expired,
        WouldTrade,
        Unfillable,
        Full,
        Halted,
        InAuction,
        Unknown,
    ]
);
