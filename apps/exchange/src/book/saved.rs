//! A book as bytes, which are equal where books will do the same from then on.

use super::Book;
use super::slots::Slot;
use super::types::{
    BookRules, OrderNumber, Owner, PARTICIPANTS_MAX, Phase, QUANTITY_MAX, SelfTrade, Side,
    TimeInForce,
};
use crate::wire::{Reader, WireError, Writer};

/// The fewest bytes of an order.
const ORDER_BYTES: usize = 50;
/// More orders, trades or events than there can have been.
const COUNT_MAX: u64 = u64::MAX / 2;

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
    /// [`WireError`] when the bytes end early, or hold a value that no saved book has.
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
        if book.serial.max(book.trades).max(book.events) > COUNT_MAX {
            return Err(WireError::Value("counts"));
        }
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
    slot.owner.write(out);
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
    let owner = Owner::read(from)?;
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
