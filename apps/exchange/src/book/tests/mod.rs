//! The book beside a model of it, and what must hold whatever comes.

mod cases;
mod model;
mod random;

use crate::book::{
    Book, BookRules, Entered, Event, NewOrder, Owner, ParticipantId, Price, Pricing, SelfTrade,
    Side, TimeInForce,
};

fn rules() -> BookRules {
    BookRules {
        lowest: Price(1),
        levels: 1000,
        orders_max: 64,
        reference: Price(100),
    }
}

fn book() -> Book {
    Book::new(rules()).unwrap()
}

/// An order of participant 1 that waits until it is cancelled.
fn limit(side: Side, quantity: u64, price: u32) -> NewOrder {
    NewOrder {
        owner: Owner {
            participant: ParticipantId(1),
            client_order: 0,
        },
        side,
        quantity,
        pricing: Pricing::Limit(Price(price)),
        time_in_force: TimeInForce::GoodTillCancel,
        post_only: false,
        self_trade: SelfTrade::Allow,
    }
}

fn enter(book: &mut Book, order: &NewOrder) -> (Entered, Vec<Event>) {
    let mut out = Vec::new();
    let entered = book.enter(order, 0, &mut out).unwrap();
    (entered, out)
}
