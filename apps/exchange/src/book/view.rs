//! Questions to a book: its best prices, its levels, its open orders.

use super::Book;
use super::slots::{NONE, Slot};
use super::types::{LevelView, OrderNumber, OrderView, Price, Side};

impl Book {
    /// The best price of a side.
    #[must_use]
    pub fn best(&self, side: Side) -> Option<Price> {
        self.best_level(side)
            .map(|level| self.rules.price_at(level))
    }

    /// An open order.
    #[must_use]
    pub fn order(&self, number: OrderNumber) -> Option<OrderView> {
        let at = self.slots.find(number)?;
        Some(self.show(number, self.slots.get(at)))
    }

    /// How many orders are open.
    #[must_use]
    pub fn orders_len(&self) -> usize {
        self.slots.len()
    }

    /// The levels of a side, the best one first.
    pub fn levels(&self, side: Side) -> impl Iterator<Item = LevelView> {
        self.used_levels(side).map(move |level| {
            let queue = self.side(side).get(level);
            LevelView {
                price: self.rules.price_at(level),
                quantity: queue.quantity,
                orders: queue.orders,
            }
        })
    }

    /// The open orders of a side in the order in which they trade.
    pub fn orders(&self, side: Side) -> impl Iterator<Item = OrderView> {
        let slots = self.slots_by_priority(side);
        slots.filter_map(|slot| slot.number.map(|number| self.show(number, slot)))
    }

    /// The slots of a side in the order in which they trade.
    pub(super) fn slots_by_priority(&self, side: Side) -> impl Iterator<Item = &Slot> {
        self.used_levels(side).flat_map(move |level| {
            let queue = self.side(side).get(level);
            let first = self.slots.get(queue.first);
            std::iter::successors(Some(first), |slot| {
                (slot.after != NONE).then(|| self.slots.get(slot.after))
            })
        })
    }

    fn used_levels(&self, side: Side) -> impl Iterator<Item = u32> {
        std::iter::successors(self.best_level(side), move |level| {
            self.next_level(side, *level)
        })
    }

    fn show(&self, number: OrderNumber, slot: &Slot) -> OrderView {
        OrderView {
            number,
            owner: slot.owner,
            side: slot.side,
            price: self.rules.price_at(slot.level),
            open: slot.open,
            executed: slot.executed,
        }
    }
}
