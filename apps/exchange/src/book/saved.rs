//! A book as bytes, which are equal where books will do the same from then on.

use super::Book;
use super::slots::Slot;
use super::types::{
    BookRules, OrderNumber, Owner, PARTICIPANTS_MAX, ParticipantId, Phase, Price, QUANTITY_MAX,
    SelfTrade, Side, TimeInForce,
};
use crate::wire::{Reader, WireError, Writer};

/// The fewest bytes of an order.
const ORDER_BYTES: usize = 50;

impl Book {
    /// The whole book as bytes.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        self.write(&mut out);
        out.bytes
    }

    /// The book that [`Book::save`] wrote.
    ///
    /// # Errors
    /// What is wrong with the bytes.
    pub fn load(bytes: &[u8]) -> Result<Book, WireError> {
        let mut from = Reader::new(bytes);
        let book = Book::read(&mut from)?;
        from.end()?;
        Ok(book)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        self.rules.write(out);
        out.u8(self.phase.code());
        out.u64(self.serial);
        out.u64(self.trades);
        out.u64(self.events);
        // Where the next orders go in memory is part of their names.
        out.u32(self.slots.end());
        out.length(self.slots.free.len());
        for slot in &self.slots.free {
            out.u32(*slot);
        }
        out.length(self.slots.len());
        for side in [Side::Buy, Side::Sell] {
            for slot in self.slots_by_priority(side) {
                write_order(slot, out);
            }
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Book, WireError> {
        let rules = BookRules::read(from)?;
        let mut book = Book::new(rules).ok_or(WireError::Value("rules"))?;
        book.phase = Phase::of_code(from.u8()?)?;
        book.serial = from.u64()?;
        book.trades = from.u64()?;
        book.events = from.u64()?;
        let end = from.u32()?;
        if end > rules.orders_max {
            return Err(WireError::Value("slots"));
        }
        book.slots.extend_to(end);
        let mut is_free = vec![false; end as usize];
        for _ in 0..from.length(4)? {
            let slot = from.u32()?;
            let seen = is_free.get_mut(slot as usize);
            let seen = seen.filter(|seen| !**seen);
            *seen.ok_or(WireError::Value("free slot"))? = true;
            book.slots.free.push(slot);
        }
        let orders = from.length(ORDER_BYTES)?;
        if orders != book.slots.len() {
            return Err(WireError::Value("orders"));
        }
        for _ in 0..orders {
            let slot = read_order(&rules, from)?;
            let number = slot.party().number;
            let is_taken = is_free.get_mut(number.slot());
            let is_taken = is_taken.filter(|taken| !**taken);
            *is_taken.ok_or(WireError::Value("order number"))? = true;
            if number.serial() > book.serial {
                return Err(WireError::Value("order number"));
            }
            if let TimeInForce::GoodTillTime(until_ns) = slot.time_in_force {
                book.deadlines.insert((until_ns, number));
            }
            book.slots.put(number.slot() as u32, slot);
            book.link(number.slot() as u32);
        }
        Ok(book)
    }
}

fn write_order(slot: &Slot, out: &mut Writer) {
    out.u64(slot.party().number.0);
    out.u16(slot.owner.participant.0);
    out.u64(slot.owner.client_order);
    out.u8(slot.side.code());
    out.flag(slot.post_only);
    out.u8(slot.self_trade.code());
    slot.time_in_force.write(out);
    out.u32(slot.level);
    out.u64(slot.open);
    out.u64(slot.executed);
}

fn read_order(rules: &BookRules, from: &mut Reader<'_>) -> Result<Slot, WireError> {
    let number = OrderNumber(from.u64()?);
    let owner = Owner {
        participant: ParticipantId(from.u16()?),
        client_order: from.u64()?,
    };
    let side = Side::of_code(from.u8()?)?;
    let slot = Slot {
        post_only: from.flag("post-only")?,
        self_trade: SelfTrade::of_code(from.u8()?)?,
        time_in_force: TimeInForce::read(from)?,
        level: from.u32()?,
        open: from.u64()?,
        executed: from.u64()?,
        ..Slot::new(number, owner, side, 0)
    };
    if slot.level >= rules.levels || owner.participant.0 >= PARTICIPANTS_MAX {
        return Err(WireError::Value("order"));
    }
    if slot.open == 0 || slot.open.saturating_add(slot.executed) > QUANTITY_MAX {
        return Err(WireError::Value("quantity"));
    }
    Ok(slot)
}

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
        out.u8(match self {
            TimeInForce::GoodTillCancel => 0,
            TimeInForce::Day => 1,
            TimeInForce::GoodTillTime(_) => 2,
            TimeInForce::ImmediateOrCancel => 3,
            TimeInForce::FillOrKill => 4,
        });
        out.u64(match self {
            TimeInForce::GoodTillTime(until_ns) => until_ns,
            _ => 0,
        });
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

/// Gives an enum without fields a code for each variant: its place in the list.
macro_rules! codes {
    ($type:ty, $field:literal, [$($variant:ident),+]) => {
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
        CancelBoth
    ]
);
