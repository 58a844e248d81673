//! A book that is slow and obviously right: one list of orders, searched for everything.

use crate::book::{
    BookRules, Ended, NewOrder, Owner, Phase, Price, Pricing, QUANTITY_MAX, Refusal, SelfTrade,
    Side, TimeInForce,
};

/// An order in the model. `rank` is its place in time at its price.
#[derive(Clone, Copy, Debug)]
pub(super) struct ModelOrder {
    pub(super) serial: u64,
    pub(super) order: NewOrder,
    pub(super) price: Price,
    pub(super) rank: u64,
    pub(super) open: u64,
    pub(super) executed: u64,
}

/// What the model says happened; orders are named by their serials.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Said {
    Added(u64, Side, Price, u64),
    /// The resting order, the incoming one, the price and the lots.
    Traded(u64, u64, Price, u64),
    Reduced(u64, u64, Ended),
    Deleted(u64, u64, Ended),
    Moved(u64, Price, u64),
    Phase(Phase),
    Uncrossed(Price, u64),
}

/// What became of an order: lots executed, open and cancelled.
pub(super) type Fate = (u64, u64, u64);

pub(super) struct Model {
    pub(super) rules: BookRules,
    pub(super) phase: Phase,
    pub(super) orders: Vec<ModelOrder>,
    serial: u64,
    rank: u64,
}

impl Model {
    pub(super) fn new(rules: BookRules) -> Self {
        Model {
            rules,
            phase: Phase::Continuous,
            orders: Vec::new(),
            serial: 0,
            rank: 0,
        }
    }

    /// The orders of one side, the one that trades first at the front.
    pub(super) fn queue(&self, side: Side) -> Vec<ModelOrder> {
        let mut queue: Vec<ModelOrder> = self.orders.clone();
        queue.retain(|one| one.order.side == side);
        queue.sort_by_key(|one| {
            let price = i64::from(one.price.0);
            let worse = if side == Side::Buy { -price } else { price };
            (worse, one.rank)
        });
        queue
    }

    fn place(&self, serial: u64) -> Option<usize> {
        self.orders.iter().position(|one| one.serial == serial)
    }

    fn has_price(&self, price: Price) -> bool {
        price >= self.rules.lowest && price.0 < self.rules.lowest.0 + self.rules.levels
    }

    /// Whether an order would trade with the first of the other side.
    fn meets(&self, side: Side, price: Price) -> bool {
        let first = self.queue(side.opposite()).first().copied();
        first.is_some_and(|first| match side {
            Side::Buy => first.price <= price,
            Side::Sell => first.price >= price,
        })
    }

    fn refusal(&self, order: &NewOrder, now_ns: u64) -> Option<Refusal> {
        let rests = !matches!(
            order.time_in_force,
            TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill
        );
        if order.quantity == 0 || order.quantity > QUANTITY_MAX {
            return Some(Refusal::Quantity);
        }
        let fits = match order.pricing {
            Pricing::Limit(_) => rests || !order.post_only,
            Pricing::Market => !rests && !order.post_only,
            Pricing::Budget(_) => !rests && !order.post_only && order.side == Side::Buy,
        };
        if !fits {
            return Some(Refusal::Combination);
        }
        if let Pricing::Limit(price) = order.pricing
            && !self.has_price(price)
        {
            return Some(Refusal::Price);
        }
        if let TimeInForce::GoodTillTime(until) = order.time_in_force
            && until <= now_ns
        {
            return Some(Refusal::Expired);
        }
        match self.phase {
            Phase::Halted => return Some(Refusal::Halted),
            Phase::Auction if !rests || order.post_only => return Some(Refusal::InAuction),
            _ => {}
        }
        if self.orders.len() >= self.rules.orders_max as usize {
            return Some(Refusal::Full);
        }
        if let Pricing::Limit(price) = order.pricing
            && order.post_only
            && self.meets(order.side, price)
        {
            return Some(Refusal::WouldTrade);
        }
        None
    }

    pub(super) fn enter(
        &mut self,
        order: &NewOrder,
        now_ns: u64,
        said: &mut Vec<Said>,
    ) -> Result<(u64, Fate), Refusal> {
        if let Some(refusal) = self.refusal(order, now_ns) {
            return Err(refusal);
        }
        if order.time_in_force == TimeInForce::FillOrKill {
            // Tried on a copy: all of it, or nothing.
            let mut copy = Model {
                orders: self.orders.clone(),
                ..*self
            };
            let mut tried = copy.incoming(order);
            copy.trade(&mut tried, &mut Vec::new());
            if tried.executed < order.quantity {
                return Err(Refusal::Unfillable);
            }
        }
        self.serial += 1;
        let mut incoming = self.incoming(order);
        let mut cancelled = match self.phase {
            Phase::Continuous => self.trade(&mut incoming, said),
            _ => 0,
        };
        let rests = order.time_in_force.rests();
        if rests && incoming.open > 0 {
            self.rest(incoming, said);
        } else {
            cancelled += incoming.open;
            incoming.open = 0;
        }
        Ok((self.serial, (incoming.executed, incoming.open, cancelled)))
    }

    fn incoming(&self, order: &NewOrder) -> ModelOrder {
        let price = match (order.pricing, order.side) {
            (Pricing::Limit(price), _) => price,
            (_, Side::Buy) => Price(self.rules.lowest.0 + self.rules.levels - 1),
            (_, Side::Sell) => self.rules.lowest,
        };
        ModelOrder {
            serial: self.serial,
            order: *order,
            price,
            rank: 0,
            open: order.quantity,
            executed: 0,
        }
    }

    fn rest(&mut self, mut order: ModelOrder, said: &mut Vec<Said>) {
        self.rank += 1;
        order.rank = self.rank;
        self.orders.push(order);
        said.push(Said::Added(
            order.serial,
            order.order.side,
            order.price,
            order.open,
        ));
    }

    fn trade(&mut self, incoming: &mut ModelOrder, said: &mut Vec<Said>) -> u64 {
        let (side, policy) = (incoming.order.side, incoming.order.self_trade);
        let mut money = match incoming.order.pricing {
            Pricing::Budget(money) => u128::from(money),
            _ => u128::MAX,
        };
        let mut cancelled = 0;
        while incoming.open > 0 && self.meets(side, incoming.price) {
            let first = self.queue(side.opposite())[0];
            let at = self.place(first.serial).unwrap();
            if first.order.owner.participant == incoming.order.owner.participant
                && policy != SelfTrade::Allow
            {
                let both = first.open.min(incoming.open);
                let (resting_loses, incoming_loses) = match policy {
                    SelfTrade::Allow => unreachable!(),
                    SelfTrade::DecreaseAndCancel => (both, both),
                    SelfTrade::CancelOldest => (first.open, 0),
                    SelfTrade::CancelNewest => (0, incoming.open),
                    SelfTrade::CancelBoth => (first.open, incoming.open),
                };
                if resting_loses == first.open {
                    self.orders.remove(at);
                    said.push(Said::Deleted(first.serial, first.open, Ended::SelfTrade));
                } else if resting_loses > 0 {
                    self.orders[at].open -= resting_loses;
                    let open = self.orders[at].open;
                    said.push(Said::Reduced(first.serial, open, Ended::SelfTrade));
                }
                incoming.open -= incoming_loses;
                cancelled += incoming_loses;
                continue;
            }
            // One lot after the other.
            let mut lots = 0;
            while lots < first.open.min(incoming.open) && money >= u128::from(first.price.0) {
                money -= u128::from(first.price.0);
                lots += 1;
            }
            if lots == 0 {
                break;
            }
            incoming.open -= lots;
            incoming.executed += lots;
            self.fill(at, lots);
            said.push(Said::Traded(
                first.serial,
                incoming.serial,
                first.price,
                lots,
            ));
        }
        cancelled
    }

    fn fill(&mut self, at: usize, lots: u64) {
        self.orders[at].open -= lots;
        self.orders[at].executed += lots;
        if self.orders[at].open == 0 {
            self.orders.remove(at);
        }
    }

    pub(super) fn delete(&mut self, serial: u64, why: Ended, said: &mut Vec<Said>) -> Option<u64> {
        let gone = self.orders.remove(self.place(serial)?);
        said.push(Said::Deleted(serial, gone.open, why));
        Some(gone.open)
    }

    pub(super) fn reduce(&mut self, serial: u64, by: u64, said: &mut Vec<Said>) -> Option<u64> {
        let at = self.place(serial)?;
        if by >= self.orders[at].open {
            return self.delete(serial, Ended::Cancelled, said).map(|_| 0);
        }
        self.orders[at].open -= by;
        said.push(Said::Reduced(
            serial,
            self.orders[at].open,
            Ended::Cancelled,
        ));
        Some(self.orders[at].open)
    }

    pub(super) fn replace(
        &mut self,
        serial: u64,
        price: Price,
        quantity: u64,
        said: &mut Vec<Said>,
    ) -> Result<Fate, Refusal> {
        let at = self.place(serial).ok_or(Refusal::Unknown)?;
        let old = self.orders[at];
        if quantity == 0 || quantity > QUANTITY_MAX {
            return Err(Refusal::Quantity);
        }
        if !self.has_price(price) {
            return Err(Refusal::Price);
        }
        if self.phase == Phase::Halted {
            return Err(Refusal::Halted);
        }
        let trades = self.phase == Phase::Continuous && self.meets(old.order.side, price);
        if trades && old.order.post_only {
            return Err(Refusal::WouldTrade);
        }
        if quantity <= old.executed {
            self.delete(serial, Ended::Cancelled, said);
            return Ok((0, 0, 0));
        }
        let open = quantity - old.executed;
        if price == old.price && open == old.open {
            return Ok((0, open, 0));
        }
        if price == old.price && open < old.open {
            self.reduce(serial, old.open - open, said);
            return Ok((0, open, 0));
        }
        let mut moved = self.orders.remove(at);
        (moved.price, moved.open) = (price, open);
        if !trades {
            self.rest(moved, &mut Vec::new());
            said.push(Said::Moved(serial, price, open));
            return Ok((0, open, 0));
        }
        said.push(Said::Deleted(serial, old.open, Ended::Replaced));
        // A limit, whatever the order was when it came.
        moved.order.pricing = Pricing::Limit(price);
        let cancelled = self.trade(&mut moved, said);
        if moved.open > 0 {
            self.rest(moved, said);
        }
        Ok((moved.executed - old.executed, moved.open, cancelled))
    }

    /// Deletes those that a condition names, in the order of a key.
    pub(super) fn delete_where<K: Ord>(
        &mut self,
        why: Ended,
        said: &mut Vec<Said>,
        key: impl Fn(&ModelOrder) -> Option<K>,
    ) -> u32 {
        let mut named: Vec<(K, u64)> = self
            .orders
            .iter()
            .filter_map(|one| Some((key(one)?, one.serial)))
            .collect();
        named.sort();
        for (_, serial) in &named {
            self.delete(*serial, why, said);
        }
        named.len() as u32
    }

    pub(super) fn set_phase(&mut self, phase: Phase, said: &mut Vec<Said>) {
        if phase == Phase::Continuous {
            self.uncross(said);
        }
        if phase != self.phase {
            self.phase = phase;
            said.push(Said::Phase(phase));
        }
    }

    /// Every price is tried.
    pub(super) fn auction(&self) -> Option<(Price, u64, u64)> {
        let mut best: Option<(Price, u64, u64)> = None;
        for tick in self.rules.lowest.0..self.rules.lowest.0 + self.rules.levels {
            let lots = |side: Side, takes: &dyn Fn(u32) -> bool| -> u64 {
                let orders = self.orders.iter();
                let orders = orders.filter(|one| one.order.side == side && takes(one.price.0));
                orders.map(|one| one.open).sum()
            };
            let demand = lots(Side::Buy, &|price| price >= tick);
            let supply = lots(Side::Sell, &|price| price <= tick);
            let (volume, surplus) = (demand.min(supply), demand.abs_diff(supply));
            let far = |price: Price| price.0.abs_diff(self.rules.reference.0);
            let is_better = best.is_none_or(|(price, most, least)| {
                volume > most
                    || volume == most && surplus < least
                    || volume == most && surplus == least && far(Price(tick)) < far(price)
            });
            if volume > 0 && is_better {
                best = Some((Price(tick), volume, surplus));
            }
        }
        best
    }

    fn uncross(&mut self, said: &mut Vec<Said>) {
        let Some((price, volume, _)) = self.auction() else {
            return;
        };
        said.push(Said::Uncrossed(price, volume));
        let mut left = volume;
        while left > 0 {
            let (bid, ask) = (self.queue(Side::Buy)[0], self.queue(Side::Sell)[0]);
            let lots = bid.open.min(ask.open).min(left);
            left -= lots;
            self.fill(self.place(bid.serial).unwrap(), lots);
            self.fill(self.place(ask.serial).unwrap(), lots);
            said.push(Said::Traded(ask.serial, bid.serial, price, lots));
        }
    }

    pub(super) fn owners(&self) -> Vec<Owner> {
        self.orders.iter().map(|one| one.order.owner).collect()
    }
}
