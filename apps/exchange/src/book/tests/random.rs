//! Random operations of all kinds on the book and on its model, compared after each.

use super::model::{Fate, Model, Said};
use crate::book::{
    Book, BookRules, Ended, Entered, Event, EventKind, NewOrder, OrderNumber, Owner, ParticipantId,
    Phase, Price, Pricing, QUANTITY_MAX, Refusal, SelfTrade, Side, TimeInForce,
};
use fastrand::Rng;
use std::collections::BTreeMap;

struct Pair {
    rng: Rng,
    book: Book,
    model: Model,
    now_ns: u64,
    /// The book's names of all orders ever accepted, by serial.
    numbers: Vec<OrderNumber>,
    /// What the events say is open: the lots of each order and their price.
    followed: BTreeMap<OrderNumber, (u64, Price)>,
    /// The lots that the events say each order has traded.
    executed: BTreeMap<OrderNumber, u64>,
    sequence: u64,
    kinds: BTreeMap<&'static str, u64>,
}

impl Pair {
    fn new(seed: u64) -> Pair {
        let mut rng = Rng::with_seed(seed);
        let levels = [5, 12, 70, 300][rng.usize(0..4)];
        let lowest = rng.u32(1..50);
        let rules = BookRules {
            lowest: Price(lowest),
            levels,
            orders_max: [3, 20, 200][rng.usize(0..3)],
            reference: Price(lowest + rng.u32(0..levels)),
        };
        Pair {
            rng,
            book: Book::new(rules).unwrap(),
            model: Model::new(rules),
            now_ns: 1000,
            numbers: Vec::new(),
            followed: BTreeMap::new(),
            executed: BTreeMap::new(),
            sequence: 0,
            kinds: BTreeMap::new(),
        }
    }

    fn price(&mut self) -> Price {
        let rules = self.book.rules();
        // Some are outside, and most near the middle.
        let middle = rules.lowest.0 + rules.levels / 2;
        match self.rng.u32(0..10) {
            0 => Price(self.rng.u32(0..rules.lowest.0 + rules.levels + 2)),
            _ => Price((middle + self.rng.u32(0..6)).saturating_sub(3)),
        }
    }

    fn quantity(&mut self) -> u64 {
        match self.rng.u32(0..100) {
            0 => 0,
            1 => QUANTITY_MAX + 1,
            _ => self.rng.u64(1..20),
        }
    }

    fn order(&mut self) -> NewOrder {
        let policies = [
            SelfTrade::Allow,
            SelfTrade::DecreaseAndCancel,
            SelfTrade::CancelOldest,
            SelfTrade::CancelNewest,
            SelfTrade::CancelBoth,
        ];
        let until_ns = self.now_ns + self.rng.u64(0..40);
        NewOrder {
            owner: Owner {
                participant: ParticipantId(self.rng.u16(0..4)),
                client_order: self.rng.u64(..),
            },
            side: [Side::Buy, Side::Sell][self.rng.usize(0..2)],
            quantity: self.quantity(),
            pricing: match self.rng.u32(0..10) {
                0 => Pricing::Market,
                1 => Pricing::Budget(self.rng.u64(0..2000)),
                _ => Pricing::Limit(self.price()),
            },
            time_in_force: match self.rng.u32(0..10) {
                0 | 1 => TimeInForce::ImmediateOrCancel,
                2 | 3 => TimeInForce::FillOrKill,
                4 => TimeInForce::Day,
                5 => TimeInForce::GoodTillTime(until_ns),
                _ => TimeInForce::GoodTillCancel,
            },
            post_only: self.rng.u32(0..8) == 0,
            self_trade: policies[self.rng.usize(0..5)],
        }
    }

    /// A name that may be open, may have been, or never was.
    fn some_number(&mut self) -> OrderNumber {
        let open = self.model.orders.len();
        if open > 0 && self.rng.u32(0..8) > 0 {
            let serial = self.model.orders[self.rng.usize(0..open)].serial;
            return self.numbers[serial as usize - 1];
        }
        match self.numbers.len() {
            0 => OrderNumber(self.rng.u64(..)),
            all => self.numbers[self.rng.usize(0..all)],
        }
    }

    fn step(&mut self) {
        self.now_ns += self.rng.u64(0..3);
        let (mut out, mut said) = (Vec::new(), Vec::new());
        let now_ns = self.now_ns;
        let expired = self.book.expire(now_ns, &mut out);
        let expected = (self.model).delete_where(Ended::Expired, &mut said, |one| {
            match one.order.time_in_force {
                TimeInForce::GoodTillTime(until) if until <= now_ns => Some((until, one.serial)),
                _ => None,
            }
        });
        assert_eq!(expired, expected);
        let kind = match self.rng.u32(0..100) {
            0..55 => self.step_enter(&mut out, &mut said),
            55..80 => self.step_replace(&mut out, &mut said),
            80..88 => self.step_cancel(&mut out, &mut said),
            88..94 => self.step_reduce(&mut out, &mut said),
            _ => self.step_all(&mut out, &mut said),
        };
        *self.kinds.entry(kind).or_default() += 1;
        self.compare(&out, &said);
    }

    fn step_enter(&mut self, out: &mut Vec<Event>, said: &mut Vec<Said>) -> &'static str {
        let order = self.order();
        let entered = self.book.enter(&order, self.now_ns, out);
        let expected = self.model.enter(&order, self.now_ns, said);
        assert_eq!(entered.map(fate), expected, "{order:?}");
        let Ok(Entered {
            number,
            executed,
            open,
            cancelled,
        }) = entered
        else {
            return "refused";
        };
        self.numbers.push(number);
        assert_eq!(number.serial(), self.numbers.len() as u64);
        assert_eq!(order.quantity, executed + open + cancelled);
        "entered"
    }

    fn step_replace(&mut self, out: &mut Vec<Event>, said: &mut Vec<Said>) -> &'static str {
        let (number, price, quantity) = (self.some_number(), self.price(), self.quantity());
        let entered = self.book.replace(number, price, quantity, out);
        let expected = self.model.replace(number.serial(), price, quantity, said);
        assert_eq!(entered.map(|entered| fate(entered).1), expected);
        if entered.is_err() {
            return "replace refused";
        }
        "replaced"
    }

    fn step_cancel(&mut self, out: &mut Vec<Event>, said: &mut Vec<Said>) -> &'static str {
        let number = self.some_number();
        let open = self.book.cancel(number, out);
        let expected = self.model.delete(number.serial(), Ended::Cancelled, said);
        assert_eq!(open, expected.ok_or(Refusal::Unknown));
        "cancelled"
    }

    fn step_reduce(&mut self, out: &mut Vec<Event>, said: &mut Vec<Said>) -> &'static str {
        let (number, by) = (self.some_number(), self.rng.u64(1..10));
        let open = self.book.reduce(number, by, out);
        let expected = self.model.reduce(number.serial(), by, said);
        assert_eq!(open, expected.ok_or(Refusal::Unknown));
        "reduced"
    }

    /// A step that concerns many orders at once: a mass cancel, the end of a day, saving and loading, another phase.
    fn step_all(&mut self, out: &mut Vec<Event>, said: &mut Vec<Said>) -> &'static str {
        match self.rng.u32(0..10) {
            0 => {
                let participant = ParticipantId(self.rng.u16(0..5));
                let count = self.book.cancel_all(participant, Ended::Disconnected, out);
                let expected = self.model.delete_where(Ended::Disconnected, said, |one| {
                    (one.order.owner.participant == participant).then_some(one.serial)
                });
                assert_eq!(count, expected);
                "cancelled all"
            }
            1 => {
                let count = self.book.end_day(out);
                let expected = self.model.delete_where(Ended::DayOver, said, |one| {
                    (one.order.time_in_force == TimeInForce::Day).then_some(one.serial)
                });
                assert_eq!(count, expected);
                "day over"
            }
            2 => {
                // What is loaded goes on as what was saved would.
                let saved = self.book.save();
                self.book = Book::load(&saved).unwrap();
                assert_eq!(saved, self.book.save());
                "saved and loaded"
            }
            at => {
                let phases = [Phase::Continuous, Phase::Auction, Phase::Halted];
                // An auction lasts for some orders, a halt for few.
                let phase = match (self.book.phase(), at) {
                    (Phase::Continuous, 3 | 4) => phases[self.rng.usize(0..3)],
                    (Phase::Continuous, _) => Phase::Continuous,
                    (Phase::Auction, 5..) => Phase::Auction,
                    _ => phases[self.rng.usize(0..3)],
                };
                let indicative = self.book.indicative();
                let found = indicative.map(|found| (found.price, found.quantity, found.surplus));
                assert_eq!(found, self.model.auction());
                self.book.set_phase(phase, out);
                self.model.set_phase(phase, said);
                "phase"
            }
        }
    }

    fn compare(&mut self, out: &[Event], said: &[Said]) {
        let translated: Vec<Said> = out.iter().map(|event| translate(&event.kind)).collect();
        assert_eq!(translated, said);
        for event in out {
            self.sequence += 1;
            assert_eq!(event.sequence, self.sequence);
        }
        assert_eq!(self.book.last_sequence(), self.sequence);
        for side in [Side::Buy, Side::Sell] {
            let orders = self.book.orders(side).map(|one| {
                let owner = one.owner;
                (
                    one.number.serial(),
                    one.price,
                    one.open,
                    one.executed,
                    owner,
                )
            });
            let expected = self.model.queue(side).into_iter().map(|one| {
                let owner = one.order.owner;
                (one.serial, one.price, one.open, one.executed, owner)
            });
            assert!(orders.eq(expected));
            for level in self.book.levels(side) {
                let at = self
                    .book
                    .orders(side)
                    .filter(|one| one.price == level.price);
                let (lots, count) = at.fold((0, 0), |sum, one| (sum.0 + one.open, sum.1 + 1));
                assert_eq!((level.quantity, level.orders), (lots, count));
            }
        }
        assert_eq!(self.book.orders_len(), self.model.owners().len());
        let (bid, ask) = (self.book.best(Side::Buy), self.book.best(Side::Sell));
        let is_crossed = bid.zip(ask).is_some_and(|(bid, ask)| bid >= ask);
        assert!(!is_crossed || self.book.phase() != Phase::Continuous);
        self.follow(out);
    }

    /// Whoever follows the events holds the same book, and no lot appears or is lost.
    fn follow(&mut self, out: &[Event]) {
        for event in out {
            match event.kind {
                EventKind::Added {
                    order,
                    price,
                    quantity,
                    ..
                } => {
                    let before = self.followed.insert(order.number, (quantity, price));
                    assert_eq!(before, None);
                }
                EventKind::Traded {
                    resting,
                    incoming,
                    quantity,
                    in_auction,
                    ..
                } => {
                    self.take(resting.number, quantity);
                    if in_auction {
                        self.take(incoming.number, quantity);
                    }
                    for party in [resting, incoming] {
                        *self.executed.entry(party.number).or_default() += quantity;
                    }
                }
                EventKind::Reduced { order, open, .. } => {
                    let waits = self.followed.get_mut(&order.number).unwrap();
                    assert!(open > 0 && open < waits.0);
                    waits.0 = open;
                }
                EventKind::Deleted {
                    order, quantity, ..
                } => {
                    let gone = self.followed.remove(&order.number).unwrap();
                    assert_eq!(gone.0, quantity);
                }
                EventKind::Moved {
                    order,
                    price,
                    quantity,
                } => *self.followed.get_mut(&order.number).unwrap() = (quantity, price),
                EventKind::Phase(_) | EventKind::Uncrossed { .. } => {}
            }
        }
        let mut open = 0;
        for one in [Side::Buy, Side::Sell]
            .into_iter()
            .flat_map(|side| self.book.orders(side))
        {
            assert_eq!(self.followed[&one.number], (one.open, one.price));
            let executed = self.executed.get(&one.number).copied();
            assert_eq!(executed.unwrap_or_default(), one.executed);
            open += 1;
        }
        assert_eq!(self.followed.len(), open);
    }

    fn take(&mut self, number: OrderNumber, lots: u64) {
        let waits = self.followed.get_mut(&number).unwrap();
        waits.0 -= lots;
        if waits.0 == 0 {
            self.followed.remove(&number);
        }
    }
}

fn fate(entered: Entered) -> (u64, Fate) {
    let Entered {
        number,
        executed,
        open,
        cancelled,
    } = entered;
    (number.serial(), (executed, open, cancelled))
}

fn translate(kind: &EventKind) -> Said {
    match *kind {
        EventKind::Added {
            order,
            side,
            price,
            quantity,
        } => Said::Added(order.number.serial(), side, price, quantity),
        EventKind::Traded {
            resting,
            incoming,
            price,
            quantity,
            ..
        } => Said::Traded(
            resting.number.serial(),
            incoming.number.serial(),
            price,
            quantity,
        ),
        EventKind::Reduced { order, open, why } => Said::Reduced(order.number.serial(), open, why),
        EventKind::Deleted {
            order,
            quantity,
            why,
        } => Said::Deleted(order.number.serial(), quantity, why),
        EventKind::Moved {
            order,
            price,
            quantity,
        } => Said::Moved(order.number.serial(), price, quantity),
        EventKind::Phase(phase) => Said::Phase(phase),
        EventKind::Uncrossed { price, quantity } => Said::Uncrossed(price, quantity),
    }
}

#[test]
fn the_book_does_what_its_model_does() {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    for seed in 0..200 {
        let mut pair = Pair::new(seed);
        for _ in 0..400 {
            pair.step();
        }
        for (kind, count) in pair.kinds {
            *kinds.entry(kind).or_default() += count;
        }
    }
    assert_eq!(kinds.len(), 10, "{kinds:?}");
    assert!(kinds.values().all(|count| *count > 100), "{kinds:?}");
}
