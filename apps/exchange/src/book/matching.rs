//! What happens when an incoming order meets those that wait.

use super::Book;
use super::event::{Ended, Event, EventKind};
use super::types::{NewOrder, SelfTrade, Side};

/// What bounds the trades of an incoming order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The worst level to trade at.
    pub(super) level: u32,
    /// The money that is there for all trades together, in ticks times lots.
    pub(super) budget: Option<u64>,
}

impl Bound {
    /// A bound on the price alone.
    pub(super) fn limit(level: u32) -> Self {
        Bound {
            level,
            budget: None,
        }
    }
}

impl Book {
    /// The best level of one side.
    pub(super) fn best_level(&self, side: Side) -> Option<u32> {
        match side {
            Side::Buy => self.bids.highest(),
            Side::Sell => self.asks.lowest(),
        }
    }

    /// The next worse level of one side.
    pub(super) fn next_level(&self, side: Side, level: u32) -> Option<u32> {
        match side {
            Side::Buy => self.bids.below(level),
            Side::Sell => self.asks.above(level),
        }
    }

    /// Whether an order of this side and level would trade.
    pub(super) fn meets(&self, side: Side, level: u32) -> bool {
        let best = self.best_level(side.opposite());
        best.is_some_and(|best| is_within(side, best, level))
    }

    /// Trades an order that is in no level with those that it meets, and returns the lots that it lost against a
    /// self-trade.
    pub(super) fn trade(&mut self, at: u32, bound: Bound, out: &mut Vec<Event>) -> u64 {
        let mut incoming = *self.slots.get(at);
        let mut budget = bound.budget;
        let mut cancelled = 0;
        while incoming.open > 0 {
            let best = self.best_level(incoming.side.opposite());
            let Some(level) = best.filter(|best| is_within(incoming.side, *best, bound.level))
            else {
                break;
            };
            let first = self.side(incoming.side.opposite()).get(level).first;
            let resting = *self.slots.get(first);
            let is_own = resting.owner.participant == incoming.owner.participant;
            if is_own && incoming.self_trade != SelfTrade::Allow {
                let lost = self.prevent(first, incoming.self_trade, incoming.open, out);
                incoming.open -= lost;
                cancelled += lost;
                continue;
            }
            let price = self.rules.price_at(level);
            let affordable = budget.map_or(u64::MAX, |money| money / u64::from(price.0));
            let quantity = incoming.open.min(resting.open).min(affordable);
            if quantity == 0 {
                break;
            }
            budget = budget.map(|money| money - quantity * u64::from(price.0));
            incoming.open -= quantity;
            incoming.executed += quantity;
            self.trades += 1;
            let kind = EventKind::Traded {
                trade: self.trades,
                resting: resting.party(),
                incoming: incoming.party(),
                incoming_side: incoming.side,
                price,
                quantity,
                in_auction: false,
            };
            self.execute(first, quantity);
            self.emit(kind, out);
        }
        let slot = self.slots.get_mut(at);
        (slot.open, slot.executed) = (incoming.open, incoming.executed);
        cancelled
    }

    /// Takes traded lots from an order in a level, and the order from the book once it has none.
    pub(super) fn execute(&mut self, at: u32, quantity: u64) {
        let slot = self.slots.get_mut(at);
        slot.executed += quantity;
        match slot.open - quantity {
            0 => {
                self.unlink(at);
                self.forget(at);
            }
            open => self.set_open(at, open),
        }
    }

    /// Does what a policy says with the resting order, and returns the lots that the incoming one loses.
    fn prevent(
        &mut self,
        resting: u32,
        policy: SelfTrade,
        incoming: u64,
        out: &mut Vec<Event>,
    ) -> u64 {
        let open = self.slots.get(resting).open;
        let (taken, lost) = match policy {
            SelfTrade::Allow => (0, 0),
            SelfTrade::DecreaseAndCancel => (open.min(incoming), open.min(incoming)),
            SelfTrade::CancelOldest => (open, 0),
            SelfTrade::CancelNewest => (0, incoming),
            SelfTrade::CancelBoth => (open, incoming),
        };
        if taken == open {
            self.delete(resting, Ended::SelfTrade, out);
        } else if taken > 0 {
            self.shrink(resting, open - taken, Ended::SelfTrade, out);
        }
        lost
    }

    /// Whether all of an order would trade at once.
    pub(super) fn can_fill(&self, order: &NewOrder, bound: Bound) -> bool {
        let side = order.side.opposite();
        let prevents =
            order.self_trade != SelfTrade::Allow && self.slots.has_orders(order.owner.participant);
        let mut open = order.quantity;
        let mut budget = bound.budget;
        let mut next = self.best_level(side);
        while let Some(level) = next.filter(|level| is_within(order.side, *level, bound.level)) {
            let reach = match prevents {
                true => self.reach(order, level, open),
                false => Reach::all(self.side(side).get(level).quantity),
            };
            let quantity = reach.quantity.min(open);
            let cost = quantity * u64::from(self.rules.price_at(level).0);
            match budget.map(|money| money.checked_sub(cost)) {
                Some(None) => return false,
                Some(left) => budget = left,
                None => {}
            }
            open -= quantity;
            if open == 0 || reach.ends {
                break;
            }
            next = self.next_level(side, level);
        }
        open == 0
    }

    /// The lots of a level that an order would get, given what it does with orders of its own.
    fn reach(&self, order: &NewOrder, level: u32, wanted: u64) -> Reach {
        let queue = self.side(order.side.opposite()).get(level);
        let mut reach = Reach::all(0);
        let mut at = queue.first;
        for _ in 0..queue.orders {
            let slot = self.slots.get(at);
            if slot.owner.participant != order.owner.participant {
                reach.quantity += slot.open;
            } else if order.self_trade != SelfTrade::CancelOldest {
                reach.ends = true;
            }
            if reach.ends || reach.quantity >= wanted {
                break;
            }
            at = slot.after;
        }
        reach
    }
}

/// What an order gets from a level.
struct Reach {
    quantity: u64,
    /// Whether the order would end there, or lose lots without a trade.
    ends: bool,
}

impl Reach {
    fn all(quantity: u64) -> Self {
        Reach {
            quantity,
            ends: false,
        }
    }
}

/// Whether an order of this side may trade at a level.
fn is_within(side: Side, level: u32, worst: u32) -> bool {
    match side {
        Side::Buy => level <= worst,
        Side::Sell => level >= worst,
    }
}
