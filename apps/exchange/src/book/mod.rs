//! The matching engine of one symbol: orders by price, then by time, and what happens when they meet.
//!
//! Prices are ticks, quantities are lots. Every method is told what it needs, and says what happened as [`Event`]s,
//! which have a sequence of their own without gaps. Time is told by [`Book::expire`], before what happens at that time.

mod auction;
mod encoding;
mod event;
mod ladder;
mod matching;
mod saved;
mod slots;
mod types;
mod view;

pub use auction::Indicative;
pub use event::{Ended, Event, EventKind, Party};
pub use types::{
    BookRules, Entered, LEVELS_MAX, LevelView, NewOrder, ORDERS_MAX, OrderNumber, OrderView, Owner,
    PARTICIPANTS_MAX, ParticipantId, Phase, Price, Pricing, QUANTITY_MAX, Refusal, SelfTrade, Side,
    TimeInForce,
};

use ladder::Ladder;
use matching::Bound;
use slots::{NONE, Slot, Slots};
use std::collections::BTreeSet;

/// The open orders of a symbol.
#[derive(Debug)]
pub struct Book {
    rules: BookRules,
    phase: Phase,
    bids: Ladder,
    asks: Ladder,
    slots: Slots,
    /// How many orders were accepted.
    serial: u64,
    /// How many trades there were.
    trades: u64,
    /// How many events there were.
    events: u64,
    /// When orders expire, in ns of the log's time, and which.
    deadlines: BTreeSet<(u64, OrderNumber)>,
}

impl Book {
    /// An empty book that trades continuously; `None` where [`BookRules::are_sound`] is false.
    #[must_use]
    pub fn new(rules: BookRules) -> Option<Book> {
        rules.are_sound().then(|| Book {
            rules,
            phase: Phase::Continuous,
            bids: Ladder::new(rules.levels),
            asks: Ladder::new(rules.levels),
            slots: Slots::new(rules.orders_max),
            serial: 0,
            trades: 0,
            events: 0,
            deadlines: BTreeSet::new(),
        })
    }

    /// Takes an order in: trades what can trade, and keeps what may wait.
    ///
    /// # Errors
    /// Why nothing was done.
    pub fn enter(
        &mut self,
        order: &NewOrder,
        now_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<Entered, Refusal> {
        let bound = self.check(order, now_ns)?;
        self.serial += 1;
        let slot = self.slots.next_free().ok_or(Refusal::Full)?;
        let number = OrderNumber::new(self.serial, slot);
        let at = self.slots.insert(Slot {
            open: order.quantity,
            post_only: order.post_only,
            self_trade: order.self_trade,
            time_in_force: order.time_in_force,
            ..Slot::new(number, order.owner, order.side, bound.level)
        });
        let cancelled = match self.phase {
            Phase::Continuous => self.trade(at, bound, out),
            Phase::Auction | Phase::Halted => 0,
        };
        let slot = *self.slots.get(at);
        let rests = slot.open > 0 && order.time_in_force.rests();
        match rests {
            true => {
                if let TimeInForce::GoodTillTime(until_ns) = order.time_in_force {
                    self.deadlines.insert((until_ns, number));
                }
                self.add(at, out);
            }
            false => self.slots.remove(at),
        }
        let open = if rests { slot.open } else { 0 };
        Ok(Entered {
            number,
            executed: slot.executed,
            open,
            cancelled: cancelled + (slot.open - open),
        })
    }

    /// Cancels an order, and returns the lots that waited.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where it is not open.
    pub fn cancel(&mut self, number: OrderNumber, out: &mut Vec<Event>) -> Result<u64, Refusal> {
        let at = self.slots.find(number).ok_or(Refusal::Unknown)?;
        let open = self.slots.get(at).open;
        self.delete(at, Ended::Cancelled, out);
        Ok(open)
    }

    /// Takes lots from an order, which keeps its place, and returns what is left; an order without lots is cancelled.
    ///
    /// # Errors
    /// [`Refusal::Unknown`] where it is not open, [`Refusal::Quantity`] where `by` is 0.
    pub fn reduce(
        &mut self,
        number: OrderNumber,
        by: u64,
        out: &mut Vec<Event>,
    ) -> Result<u64, Refusal> {
        let at = self.slots.find(number).ok_or(Refusal::Unknown)?;
        if by == 0 {
            return Err(Refusal::Quantity);
        }
        let open = self.slots.get(at).open.saturating_sub(by);
        match open {
            0 => self.delete(at, Ended::Cancelled, out),
            _ => self.shrink(at, open, Ended::Cancelled, out),
        }
        Ok(open)
    }

    /// Gives an order another price and another quantity, which counts what has traded before.
    ///
    /// The order keeps its place if the price stays and the quantity does not grow; otherwise it is the newest at its
    /// price, after it has traded with what it now meets. A quantity that has traded already cancels the rest.
    ///
    /// # Errors
    /// Why the order stays as it is.
    pub fn replace(
        &mut self,
        number: OrderNumber,
        price: Price,
        quantity: u64,
        out: &mut Vec<Event>,
    ) -> Result<Entered, Refusal> {
        let at = self.slots.find(number).ok_or(Refusal::Unknown)?;
        let slot = *self.slots.get(at);
        check_quantity(quantity)?;
        let level = self.rules.level_of(price).ok_or(Refusal::Price)?;
        if self.phase == Phase::Halted {
            return Err(Refusal::Halted);
        }
        let trades = self.phase == Phase::Continuous && self.meets(slot.side, level);
        if trades && slot.post_only {
            return Err(Refusal::WouldTrade);
        }
        let mut entered = Entered {
            number,
            executed: 0,
            open: quantity.saturating_sub(slot.executed),
            cancelled: 0,
        };
        if entered.open == 0 {
            self.delete(at, Ended::Cancelled, out);
        } else if level == slot.level && entered.open <= slot.open {
            if entered.open < slot.open {
                self.shrink(at, entered.open, Ended::Cancelled, out);
            }
        } else if trades {
            entered = self.replace_and_trade(at, level, entered, out);
        } else {
            self.unlink(at);
            let moved = self.slots.get_mut(at);
            (moved.level, moved.open) = (level, entered.open);
            let (order, quantity) = (moved.party(), moved.open);
            self.link(at);
            self.emit(
                EventKind::Moved {
                    order,
                    price,
                    quantity,
                },
                out,
            );
        }
        Ok(entered)
    }

    fn replace_and_trade(
        &mut self,
        at: u32,
        level: u32,
        mut entered: Entered,
        out: &mut Vec<Event>,
    ) -> Entered {
        self.unlink(at);
        let slot = *self.slots.get(at);
        self.emit(
            EventKind::Deleted {
                order: slot.party(),
                quantity: slot.open,
                why: Ended::Replaced,
            },
            out,
        );
        let incoming = self.slots.get_mut(at);
        (incoming.level, incoming.open) = (level, entered.open);
        entered.cancelled = self.trade(at, Bound::limit(level), out);
        let left = *self.slots.get(at);
        entered.executed = left.executed - slot.executed;
        entered.open = left.open;
        match left.open {
            0 => self.forget(at),
            _ => self.add(at, out),
        }
        entered
    }

    /// Cancels all open orders of a participant, the oldest first, and returns how many there were.
    pub fn cancel_all(
        &mut self,
        participant: ParticipantId,
        why: Ended,
        out: &mut Vec<Event>,
    ) -> u32 {
        let numbers = self.slots.orders_of(participant);
        self.delete_each(numbers, why, out)
    }

    /// Cancels the orders that are good for the day, the oldest first, and returns how many there were.
    pub fn end_day(&mut self, out: &mut Vec<Event>) -> u32 {
        let of_day = self.slots.iter();
        let of_day = of_day.filter(|slot| slot.time_in_force == TimeInForce::Day);
        let mut numbers: Vec<OrderNumber> = of_day.filter_map(|slot| slot.number).collect();
        numbers.sort_unstable();
        self.delete_each(numbers, Ended::DayOver, out)
    }

    /// Cancels what is good up to a time that has come, in the order of those times, and returns how many there were.
    pub fn expire(&mut self, now_ns: u64, out: &mut Vec<Event>) -> u32 {
        let mut expired = 0;
        while let Some((_, number)) = self.deadlines.first().copied().filter(|d| d.0 <= now_ns) {
            expired += self.delete_each(vec![number], Ended::Expired, out);
        }
        expired
    }

    /// The time at which the next order expires, in ns of the log's time.
    #[must_use]
    pub fn next_expiry_ns(&self) -> Option<u64> {
        self.deadlines.first().map(|(until_ns, _)| *until_ns)
    }

    /// Begins another phase. Where trading becomes continuous, an auction trades what meets.
    pub fn set_phase(&mut self, phase: Phase, out: &mut Vec<Event>) {
        if phase == Phase::Continuous {
            self.uncross(out);
        }
        if self.phase != phase {
            self.phase = phase;
            self.emit(EventKind::Phase(phase), out);
        }
    }

    /// What the book does with orders at the moment.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The prices, the bound of orders and the reference price by which this book was made.
    #[must_use]
    pub fn rules(&self) -> BookRules {
        self.rules
    }

    /// The sequence of the last event; 0 before the first.
    #[must_use]
    pub fn last_sequence(&self) -> u64 {
        self.events
    }

    /// Checks all that can be wrong with an order, and returns what bounds its trades.
    fn check(&self, order: &NewOrder, now_ns: u64) -> Result<Bound, Refusal> {
        check_quantity(order.quantity)?;
        if order.owner.participant.0 >= PARTICIPANTS_MAX {
            return Err(Refusal::Participant);
        }
        let is_limit = matches!(order.pricing, Pricing::Limit(_));
        let rests = order.time_in_force.rests();
        let has_budget = matches!(order.pricing, Pricing::Budget(_));
        if (!is_limit && rests)
            || (order.post_only && !rests)
            || (has_budget && order.side == Side::Sell)
        {
            return Err(Refusal::Combination);
        }
        let bound = match order.pricing {
            Pricing::Limit(price) => {
                Bound::limit(self.rules.level_of(price).ok_or(Refusal::Price)?)
            }
            Pricing::Market => Bound::limit(self.worst_level(order.side)),
            Pricing::Budget(money) => Bound {
                level: self.worst_level(order.side),
                budget: Some(money),
            },
        };
        if matches!(order.time_in_force, TimeInForce::GoodTillTime(until) if until <= now_ns) {
            return Err(Refusal::Expired);
        }
        match self.phase {
            Phase::Halted => return Err(Refusal::Halted),
            Phase::Auction if !rests || order.post_only => return Err(Refusal::InAuction),
            Phase::Auction | Phase::Continuous => {}
        }
        if self.slots.next_free().is_none() || self.serial + 1 >= OrderNumber::SERIALS {
            return Err(Refusal::Full);
        }
        if order.post_only && self.meets(order.side, bound.level) {
            return Err(Refusal::WouldTrade);
        }
        if order.time_in_force == TimeInForce::FillOrKill && !self.can_fill(order, bound) {
            return Err(Refusal::Unfillable);
        }
        Ok(bound)
    }

    fn worst_level(&self, side: Side) -> u32 {
        match side {
            Side::Buy => self.rules.levels - 1,
            Side::Sell => 0,
        }
    }

    fn delete_each(&mut self, numbers: Vec<OrderNumber>, why: Ended, out: &mut Vec<Event>) -> u32 {
        let mut deleted = 0;
        for number in numbers {
            if let Some(at) = self.slots.find(number) {
                self.delete(at, why, out);
                deleted += 1;
            }
        }
        deleted
    }

    /// Takes an order out of the book, and says so.
    fn delete(&mut self, at: u32, why: Ended, out: &mut Vec<Event>) {
        self.unlink(at);
        let slot = self.slots.get(at);
        let kind = EventKind::Deleted {
            order: slot.party(),
            quantity: slot.open,
            why,
        };
        self.forget(at);
        self.emit(kind, out);
    }

    /// Frees the slot of an order that is in no level any more.
    fn forget(&mut self, at: u32) {
        let slot = self.slots.get(at);
        if let (TimeInForce::GoodTillTime(until_ns), Some(number)) =
            (slot.time_in_force, slot.number)
        {
            self.deadlines.remove(&(until_ns, number));
        }
        self.slots.remove(at);
    }

    /// Leaves an order fewer lots, and says so.
    fn shrink(&mut self, at: u32, open: u64, why: Ended, out: &mut Vec<Event>) {
        let order = self.slots.get(at).party();
        self.set_open(at, open);
        self.emit(EventKind::Reduced { order, open, why }, out);
    }

    /// Puts an order at the end of its level, and says so.
    fn add(&mut self, at: u32, out: &mut Vec<Event>) {
        self.link(at);
        let slot = self.slots.get(at);
        let kind = EventKind::Added {
            order: slot.party(),
            side: slot.side,
            price: self.rules.price_at(slot.level),
            quantity: slot.open,
        };
        self.emit(kind, out);
    }

    fn emit(&mut self, kind: EventKind, out: &mut Vec<Event>) {
        self.events += 1;
        out.push(Event {
            sequence: self.events,
            kind,
        });
    }

    fn side(&self, side: Side) -> &Ladder {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    fn side_mut(&mut self, side: Side) -> &mut Ladder {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    /// Sets the lots of an order in a level.
    fn set_open(&mut self, at: u32, open: u64) {
        let slot = self.slots.get_mut(at);
        let (side, level, less) = (slot.side, slot.level, slot.open - open);
        slot.open = open;
        self.side_mut(side).get_mut(level).quantity -= less;
    }

    /// Puts an order at the end of its level.
    fn link(&mut self, at: u32) {
        let Slot {
            side, level, open, ..
        } = *self.slots.get(at);
        let queue = self.side_mut(side).get_mut(level);
        let last = match queue.orders {
            0 => NONE,
            _ => queue.last,
        };
        if last == NONE {
            queue.first = at;
        }
        queue.last = at;
        queue.orders += 1;
        queue.quantity += open;
        if last != NONE {
            self.slots.get_mut(last).after = at;
        }
        let slot = self.slots.get_mut(at);
        (slot.before, slot.after) = (last, NONE);
    }

    /// Takes an order out of its level.
    fn unlink(&mut self, at: u32) {
        let Slot {
            side,
            level,
            open,
            before,
            after,
            ..
        } = *self.slots.get(at);
        let ladder = self.side_mut(side);
        let queue = ladder.get_mut(level);
        queue.orders -= 1;
        queue.quantity -= open;
        if before == NONE {
            queue.first = after;
        }
        if after == NONE {
            queue.last = before;
        }
        if queue.orders == 0 {
            ladder.remove(level);
        }
        if before != NONE {
            self.slots.get_mut(before).after = after;
        }
        if after != NONE {
            self.slots.get_mut(after).before = before;
        }
    }
}

fn check_quantity(quantity: u64) -> Result<(), Refusal> {
    match (1..=QUANTITY_MAX).contains(&quantity) {
        true => Ok(()),
        false => Err(Refusal::Quantity),
    }
}

#[cfg(test)]
mod tests;
