//! One price for all orders that gathered: most lots first, then the least surplus, then the nearest to the reference.

use super::Book;
use super::event::{Event, EventKind};
use super::types::{Price, Side};
use std::cmp::Reverse;

/// What an auction would come to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Indicative {
    /// The price of all trades.
    pub price: Price,
    /// The lots that change hands.
    pub quantity: u64,
    /// The lots on the longer side that find none to trade with at that price.
    pub surplus: u64,
}

/// Prices without an order between them, at which equally many lots are bought, and equally many sold.
struct Range {
    first: u32,
    last: u32,
    demand: u64,
    supply: u64,
}

impl Book {
    /// What an auction would come to now; `None` where nothing meets.
    ///
    /// Of all prices in ticks, those at which most lots change hands are looked at; of these, those with the least
    /// surplus; of these, the one nearest to the reference price, and of two the lower one.
    #[must_use]
    pub fn indicative(&self) -> Option<Indicative> {
        let reference = self.rules.level_of(self.rules.reference)?;
        let mut best = None;
        for range in self.ranges() {
            let level = reference.clamp(range.first, range.last);
            let quantity = range.demand.min(range.supply);
            let surplus = range.demand.abs_diff(range.supply);
            let rank = (Reverse(quantity), surplus, level.abs_diff(reference), level);
            if best.is_none_or(|least| rank < least) {
                best = Some(rank);
            }
        }
        let (Reverse(quantity), surplus, _, level) = best?;
        Some(Indicative {
            price: self.rules.price_at(level),
            quantity,
            surplus,
        })
    }

    /// Trades all that meets at one price. Participants may trade with themselves here.
    pub(super) fn uncross(&mut self, out: &mut Vec<Event>) {
        let Some(Indicative {
            price, quantity, ..
        }) = self.indicative()
        else {
            return;
        };
        self.emit(EventKind::Uncrossed { price, quantity }, out);
        let mut left = quantity;
        while left > 0 {
            let (Some(bid), Some(ask)) = (self.first_of(Side::Buy), self.first_of(Side::Sell))
            else {
                debug_assert!(false, "both sides have the lots that were counted");
                return;
            };
            let (buying, selling) = (*self.slots.get(bid), *self.slots.get(ask));
            let quantity = buying.open.min(selling.open).min(left);
            self.trades += 1;
            let kind = EventKind::Traded {
                trade: self.trades,
                resting: selling.party(),
                incoming: buying.party(),
                incoming_side: Side::Buy,
                price,
                quantity,
                in_auction: true,
            };
            self.execute(bid, quantity);
            self.execute(ask, quantity);
            self.emit(kind, out);
            left -= quantity;
        }
    }

    /// The order of one side that trades first.
    fn first_of(&self, side: Side) -> Option<u32> {
        let level = self.best_level(side)?;
        Some(self.side(side).get(level).first)
    }

    /// The prices from the lowest ask to the highest bid, cut where demand or supply changes.
    fn ranges(&self) -> Vec<Range> {
        let (Some(lowest), Some(highest)) = (self.asks.lowest(), self.bids.highest()) else {
            return Vec::new();
        };
        let (asks, bids) = (
            self.levels_from(Side::Sell, highest),
            self.levels_from(Side::Buy, lowest),
        );
        let mut points: Vec<u32> = asks.iter().chain(&bids).map(|level| level.0).collect();
        points.sort_unstable();
        points.dedup();
        let mut ranges = Vec::new();
        let mut demand: u64 = bids.iter().map(|level| level.1).sum();
        let mut supply = 0;
        let (mut asks, mut bids) = (
            asks.into_iter().peekable(),
            bids.into_iter().rev().peekable(),
        );
        for (at, point) in points.iter().enumerate() {
            supply += asks.next_if(|level| level.0 == *point).map_or(0, |l| l.1);
            let mut range = |first, last, demand| {
                ranges.push(Range {
                    first,
                    last,
                    demand,
                    supply,
                });
            };
            range(*point, *point, demand);
            demand -= bids.next_if(|level| level.0 == *point).map_or(0, |l| l.1);
            let next = points.get(at + 1).copied().unwrap_or(*point);
            if next > point + 1 {
                range(point + 1, next - 1, demand);
            }
        }
        ranges
    }

    /// The levels of one side with their lots, from the best one up to `last`.
    fn levels_from(&self, side: Side, last: u32) -> Vec<(u32, u64)> {
        let mut levels = Vec::new();
        let mut next = self.best_level(side);
        while let Some(level) = next {
            let is_beyond = match side {
                Side::Buy => level < last,
                Side::Sell => level > last,
            };
            if is_beyond {
                break;
            }
            levels.push((level, self.side(side).get(level).quantity));
            next = self.next_level(side, level);
        }
        levels
    }
}
