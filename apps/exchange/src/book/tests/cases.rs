//! Single cases, each by its rule.

use super::{book, enter, limit, rules};
use crate::book::{
    Book, BookRules, Ended, Event, EventKind, Indicative, NewOrder, Owner, ParticipantId, Phase,
    Price, Pricing, Refusal, SelfTrade, Side, TimeInForce,
};

fn refused(book: &mut Book, order: NewOrder) -> Refusal {
    let mut out = Vec::new();
    let refusal = book.enter(&order, 50, &mut out).unwrap_err();
    assert!(out.is_empty());
    refusal
}

/// The lots and prices of the trades among events.
fn trades(events: &[Event]) -> Vec<(u64, u32)> {
    let trades = events.iter().filter_map(|event| match event.kind {
        EventKind::Traded {
            quantity, price, ..
        } => Some((quantity, price.0)),
        _ => None,
    });
    trades.collect()
}

#[test]
fn better_prices_trade_first_and_older_orders_before_newer_ones() {
    let mut book = book();
    for (quantity, price) in [(1, 11), (2, 10), (3, 10), (4, 12)] {
        enter(&mut book, &limit(Side::Sell, quantity, price));
    }
    let (entered, events) = enter(&mut book, &limit(Side::Buy, 9, 11));
    assert_eq!(trades(&events), [(2, 10), (3, 10), (1, 11)]);
    assert_eq!((entered.executed, entered.open), (6, 3));
    assert_eq!(book.best(Side::Buy), Some(Price(11)));
    assert_eq!(book.best(Side::Sell), Some(Price(12)));
}

#[test]
fn a_smaller_quantity_keeps_the_place_and_a_larger_one_loses_it() {
    let mut book = book();
    let (first, _) = enter(&mut book, &limit(Side::Buy, 5, 10));
    let (second, _) = enter(&mut book, &limit(Side::Buy, 5, 10));
    let order = |book: &Book| -> Vec<_> { book.orders(Side::Buy).map(|one| one.number).collect() };
    let mut out = Vec::new();
    (book.replace(first.number, Price(10), 4, &mut out)).unwrap();
    assert_eq!(order(&book), [first.number, second.number]);
    (book.replace(first.number, Price(10), 5, &mut out)).unwrap();
    assert_eq!(order(&book), [second.number, first.number]);
}

#[test]
fn a_replaced_quantity_counts_what_has_traded() {
    let mut book = book();
    let (order, _) = enter(&mut book, &limit(Side::Buy, 10, 10));
    enter(&mut book, &limit(Side::Sell, 4, 10));
    let mut out = Vec::new();
    let entered = book.replace(order.number, Price(9), 7, &mut out).unwrap();
    assert_eq!(entered.open, 3);
    let entered = book.replace(order.number, Price(9), 4, &mut out).unwrap();
    assert_eq!((entered.open, book.orders_len()), (0, 0));
}

#[test]
fn a_budget_buys_as_much_as_it_can() {
    let mut book = book();
    for (quantity, price) in [(3, 10), (5, 20)] {
        enter(&mut book, &limit(Side::Sell, quantity, price));
    }
    let budget = NewOrder {
        pricing: Pricing::Budget(79),
        time_in_force: TimeInForce::FillOrKill,
        ..limit(Side::Buy, 6, 1)
    };
    assert_eq!(refused(&mut book, budget), Refusal::Unfillable);
    let (entered, events) = enter(
        &mut book,
        &NewOrder {
            time_in_force: TimeInForce::ImmediateOrCancel,
            ..budget
        },
    );
    assert_eq!(trades(&events), [(3, 10), (2, 20)]);
    assert_eq!((entered.executed, entered.cancelled), (5, 1));
}

#[test]
fn what_does_not_go_together_is_refused() {
    let order = limit(Side::Buy, 1, 10);
    let ioc = TimeInForce::ImmediateOrCancel;
    let wrong = [
        NewOrder {
            pricing: Pricing::Market,
            ..order
        },
        NewOrder {
            time_in_force: ioc,
            post_only: true,
            ..order
        },
        NewOrder {
            pricing: Pricing::Budget(5),
            time_in_force: ioc,
            side: Side::Sell,
            ..order
        },
    ];
    for order in wrong {
        assert_eq!(refused(&mut book(), order), Refusal::Combination);
    }
    let late = TimeInForce::GoodTillTime(50);
    let late = NewOrder {
        time_in_force: late,
        ..order
    };
    assert_eq!(refused(&mut book(), late), Refusal::Expired);
    assert_eq!(
        refused(&mut book(), limit(Side::Buy, 1, 1001)),
        Refusal::Price
    );
    assert_eq!(refused(&mut book(), limit(Side::Buy, 1, 0)), Refusal::Price);
    let stranger = Owner {
        participant: ParticipantId(4096),
        client_order: 0,
    };
    let stranger = NewOrder {
        owner: stranger,
        ..order
    };
    assert_eq!(refused(&mut book(), stranger), Refusal::Participant);
}

#[test]
fn a_post_only_order_never_trades_as_it_comes() {
    let mut book = book();
    let post_only = |price| NewOrder {
        post_only: true,
        ..limit(Side::Buy, 1, price)
    };
    enter(&mut book, &limit(Side::Sell, 1, 10));
    assert_eq!(refused(&mut book, post_only(10)), Refusal::WouldTrade);
    let (order, _) = enter(&mut book, &post_only(9));
    let moved = book.replace(order.number, Price(10), 1, &mut Vec::new());
    assert_eq!(moved, Err(Refusal::WouldTrade));
    assert_eq!(book.best(Side::Buy), Some(Price(9)));
}

#[test]
fn own_orders_meet_as_the_policy_says() {
    let meet = |self_trade| {
        let mut book = book();
        enter(&mut book, &limit(Side::Sell, 3, 10));
        let (entered, events) = enter(
            &mut book,
            &NewOrder {
                self_trade,
                ..limit(Side::Buy, 5, 10)
            },
        );
        let resting = book.orders(Side::Sell).map(|one| one.open).sum::<u64>();
        (
            trades(&events).len(),
            entered.open,
            entered.cancelled,
            resting,
        )
    };
    assert_eq!(meet(SelfTrade::Allow), (1, 2, 0, 0));
    assert_eq!(meet(SelfTrade::DecreaseAndCancel), (0, 2, 3, 0));
    assert_eq!(meet(SelfTrade::CancelOldest), (0, 5, 0, 0));
    assert_eq!(meet(SelfTrade::CancelNewest), (0, 0, 5, 3));
    assert_eq!(meet(SelfTrade::CancelBoth), (0, 0, 5, 0));
}

#[test]
fn a_halted_book_lets_orders_out_and_none_in() {
    let mut book = book();
    let (order, _) = enter(&mut book, &limit(Side::Buy, 5, 10));
    let mut out = Vec::new();
    book.set_phase(Phase::Halted, &mut out);
    assert_eq!(refused(&mut book, limit(Side::Buy, 1, 10)), Refusal::Halted);
    let replaced = book.replace(order.number, Price(11), 5, &mut out);
    assert_eq!(replaced, Err(Refusal::Halted));
    assert_eq!(book.reduce(order.number, 2, &mut out), Ok(3));
    assert_eq!(book.cancel(order.number, &mut out), Ok(3));
    assert_eq!(book.cancel(order.number, &mut out), Err(Refusal::Unknown));
}

/// A book in an auction with these orders: side, lots, price.
fn gathered(reference: u32, orders: &[(Side, u64, u32)]) -> Book {
    let mut book = Book::new(BookRules {
        reference: Price(reference),
        ..rules()
    })
    .unwrap();
    book.set_phase(Phase::Auction, &mut Vec::new());
    for (side, quantity, price) in orders {
        enter(&mut book, &limit(*side, *quantity, *price));
    }
    book
}

#[test]
fn an_auction_takes_most_lots_then_least_surplus_then_the_reference() {
    let (buy, sell) = (Side::Buy, Side::Sell);
    let found = |reference, orders: &[_]| {
        let indicative = gathered(reference, orders).indicative();
        indicative.map(|i: Indicative| (i.price.0, i.quantity, i.surplus))
    };
    assert_eq!(found(15, &[(buy, 5, 10), (sell, 5, 11)]), None);
    // Most lots: only from 12 on are both sellers there.
    let two = [(buy, 9, 14), (sell, 4, 10), (sell, 5, 12)];
    assert_eq!(found(10, &two), Some((12, 9, 0)));
    // Equal lots: at 13 the second buyer is no longer there, and the surplus is gone.
    let three = [(buy, 5, 14), (buy, 3, 12), (sell, 5, 10)];
    assert_eq!(found(10, &three), Some((13, 5, 0)));
    // Equal in both: the reference, or what is nearest to it.
    let open = [(buy, 5, 20), (sell, 5, 10)];
    assert_eq!(found(15, &open), Some((15, 5, 0)));
    assert_eq!(found(25, &open), Some((20, 5, 0)));
    assert_eq!(found(2, &open), Some((10, 5, 0)));
}

#[test]
fn after_an_auction_nothing_meets_and_time_still_counts() {
    let (buy, sell) = (Side::Buy, Side::Sell);
    let mut book = gathered(
        12,
        &[(buy, 3, 12), (buy, 3, 12), (buy, 2, 15), (sell, 6, 10)],
    );
    let mut out = Vec::new();
    book.set_phase(Phase::Continuous, &mut out);
    assert_eq!(trades(&out), [(2, 12), (3, 12), (1, 12)]);
    let left: Vec<u64> = book.orders(buy).map(|one| one.open).collect();
    assert_eq!(left, [2]);
    assert_eq!(book.best(sell), None);
    let last = out.last().map(|event| event.kind);
    assert_eq!(last, Some(EventKind::Phase(Phase::Continuous)));
}

#[test]
fn a_day_and_a_time_end_the_orders_that_are_good_until_then() {
    let mut book = book();
    let day = NewOrder {
        time_in_force: TimeInForce::Day,
        ..limit(Side::Buy, 1, 10)
    };
    enter(&mut book, &day);
    let timed = NewOrder {
        time_in_force: TimeInForce::GoodTillTime(7),
        ..day
    };
    enter(&mut book, &timed);
    enter(&mut book, &limit(Side::Buy, 1, 10));
    let mut out = Vec::new();
    assert_eq!(book.next_expiry_ns(), Some(7));
    assert_eq!(book.expire(6, &mut out), 0);
    assert_eq!(book.expire(7, &mut out), 1);
    assert_eq!(book.end_day(&mut out), 1);
    assert_eq!((book.orders_len(), book.next_expiry_ns()), (1, None));
    let why = out.iter().map(|event| match event.kind {
        EventKind::Deleted { why, .. } => Some(why),
        _ => None,
    });
    assert!(why.eq([Some(Ended::Expired), Some(Ended::DayOver)]));
}

#[test]
fn a_damaged_book_is_refused() {
    let mut book = book();
    for price in 10..20 {
        enter(&mut book, &limit(Side::Buy, 3, price));
    }
    let (gone, _) = enter(&mut book, &limit(Side::Buy, 3, 9));
    book.cancel(gone.number, &mut Vec::new()).unwrap();
    let saved = book.save();
    let mut rng = fastrand::Rng::with_seed(1);
    for cut in 0..saved.len() {
        assert!(Book::load(&saved[..cut]).is_err());
    }
    for _ in 0..20_000 {
        let mut bytes = saved.clone();
        let at = rng.usize(0..bytes.len());
        bytes[at] ^= 1 << rng.u32(0..8);
        // Whatever is taken can be worked with.
        if let Ok(mut book) = Book::load(&bytes) {
            let mut out = Vec::new();
            let _ = book.enter(&limit(Side::Sell, 8, 12), 0, &mut out);
            book.cancel_all(ParticipantId(1), Ended::Cancelled, &mut out);
        }
    }
}
