//! Operations a second and their times on one book: 9 % GTC, 3 % IOC, 6 % cancels, 82 % moves, 1,000 resting orders.
//!
//! `cargo bench -p quorate-exchange [-- OPERATIONS]`

#![allow(
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark reads the clock"
)]

use fastrand::Rng;
use quorate_exchange::book::{
    Book, BookRules, NewOrder, OrderNumber, Owner, ParticipantId, Price, Pricing, SelfTrade, Side,
    TimeInForce,
};
use std::time::Instant;

/// How many orders wait at a time.
const RESTING: usize = 1000;
/// How many participants enter orders.
const PARTICIPANTS: u16 = 48;
/// The price around which orders come.
const MIDDLE: u32 = 50_000;
/// How far from it their prices are, in ticks.
const SPREAD: u32 = 500;
/// Operations in front of those that are timed.
const WARM_UP: usize = 200_000;

enum Operation {
    Enter(NewOrder),
    Cancel(OrderNumber),
    Move(OrderNumber, Price),
}

/// Chooses operations by what is open; that takes no part in the times.
struct Generator {
    rng: Rng,
    open: Vec<(OrderNumber, Side)>,
    next: u64,
}

impl Generator {
    /// A price on an order's own side of the middle; some reach over it, and trade.
    fn price(&mut self, side: Side) -> Price {
        let far = self.rng.u32(0..SPREAD).min(self.rng.u32(0..SPREAD));
        Price(match side {
            Side::Buy => MIDDLE + 2 - far,
            Side::Sell => MIDDLE - 2 + far,
        })
    }

    fn order(&mut self, time_in_force: TimeInForce) -> NewOrder {
        let side = [Side::Buy, Side::Sell][self.rng.usize(0..2)];
        self.next += 1;
        NewOrder {
            owner: Owner {
                participant: ParticipantId(self.rng.u16(0..PARTICIPANTS)),
                client_order: self.next,
            },
            side,
            quantity: self.rng.u64(1..100),
            pricing: Pricing::Limit(match time_in_force {
                TimeInForce::ImmediateOrCancel => Price(MIDDLE),
                _ => self.price(side),
            }),
            time_in_force,
            post_only: false,
            self_trade: SelfTrade::CancelOldest,
        }
    }

    fn operation(&mut self, book: &Book) -> Operation {
        let dice = self.rng.u32(0..100);
        // The mix keeps the number of orders only on average.
        let wants_more = self.open.len() < RESTING;
        match dice {
            0..9 if wants_more => {
                return Operation::Enter(self.order(TimeInForce::GoodTillCancel));
            }
            9..12 => return Operation::Enter(self.order(TimeInForce::ImmediateOrCancel)),
            _ => {}
        }
        while !self.open.is_empty() {
            let at = self.rng.usize(0..self.open.len());
            let (number, side) = self.open[at];
            if book.order(number).is_none() {
                self.open.swap_remove(at);
            } else if dice >= 18 {
                return Operation::Move(number, self.price(side));
            } else {
                self.open.swap_remove(at);
                return Operation::Cancel(number);
            }
        }
        Operation::Enter(self.order(TimeInForce::GoodTillCancel))
    }
}

fn main() {
    let given = std::env::args().skip(1).find_map(|arg| arg.parse().ok());
    let operations: usize = given.unwrap_or(3_000_000);
    let rules = BookRules {
        lowest: Price(1),
        levels: 100_000,
        orders_max: 65_536,
        reference: Price(MIDDLE),
    };
    let mut book = Book::new(rules).expect("the rules are sound");
    let mut generator = Generator {
        rng: Rng::with_seed(1),
        open: Vec::new(),
        next: 0,
    };
    let mut out = Vec::new();
    let mut times_ns: Vec<u32> = Vec::with_capacity(operations);
    let (mut trades, mut events) = (0, 0);
    for turn in 0..WARM_UP + operations {
        let operation = match generator.open.len() < RESTING && turn < WARM_UP {
            true => Operation::Enter(generator.order(TimeInForce::GoodTillCancel)),
            false => generator.operation(&book),
        };
        out.clear();
        let begin = Instant::now();
        let entered = match &operation {
            Operation::Enter(order) => book.enter(order, 0, &mut out).ok(),
            Operation::Cancel(number) => {
                let _ = book.cancel(*number, &mut out);
                None
            }
            Operation::Move(number, price) => {
                let quantity = book.order(*number).map_or(1, |one| one.open + one.executed);
                book.replace(*number, *price, quantity, &mut out).ok()
            }
        };
        let took = begin.elapsed();
        if turn >= WARM_UP {
            times_ns.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
            events += out.len();
            trades += entered.map_or(0, |entered| usize::from(entered.executed > 0));
        }
        if let (Operation::Enter(order), Some(entered)) = (&operation, entered)
            && entered.open > 0
        {
            generator.open.push((entered.number, order.side));
        }
    }
    report(&mut times_ns, events, trades, book.orders_len());
}

fn report(times_ns: &mut [u32], events: usize, trades: usize, resting: usize) {
    let sum: u64 = times_ns.iter().map(|ns| u64::from(*ns)).sum();
    let count = times_ns.len();
    times_ns.sort_unstable();
    let at = |per_mille: usize| times_ns[(count - 1) * per_mille / 1000];
    println!(
        "{count} operations, {events} events, {trades} operations that traded, {resting} resting orders at the end"
    );
    println!(
        "{:.2} M operations/s (reading the clock is counted)",
        count as f64 * 1e3 / sum.max(1) as f64
    );
    println!(
        "ns: p50 {}, p90 {}, p99 {}, p99.9 {}, most {}",
        at(500),
        at(900),
        at(990),
        at(999),
        at(1000)
    );
}
