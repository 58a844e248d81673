//! Orders and what is heard of them, with answers before events and the other way round.

use super::*;
use crate::book::Side;
use crate::exchange::Action;
use crate::exchange::tests::limit;

const ORDERS: [First; 2] = [First::Answers, First::Events];

/// Scenario: a limit order rests, trades in two parts and is over.
#[test]
fn an_order_rests_trades_and_is_filled() {
    for first in ORDERS {
        let mut desk = Desk::logged_on(first);
        desk.ask(
            "D",
            &[
                (11, "7"),
                (54, "1"),
                (38, "5"),
                (40, "2"),
                (44, "100.00"),
                (59, "1"),
            ],
        );
        desk.says(&["8 34=2 11=7 17=2.a7 150=0 39=0 54=1 38=5 44=100 151=5 14=0 6=0"]);
        desk.other(1, limit(Side::Sell, 2, 100));
        desk.says(&[
            "8 34=3 11=7 17=2.2b 150=F 39=1 54=1 38=5 44=100 32=2 31=100 151=3 14=2 6=100",
        ]);
        desk.other(2, limit(Side::Sell, 9, 99));
        desk.says(&[
            "8 34=4 11=7 17=2.3b 150=F 39=2 54=1 38=5 44=100 32=3 31=100 151=0 14=5 6=100",
        ]);
        assert!(desk.client.kept.orders.is_empty() && desk.client.kept.pending.is_empty());
    }
}

/// Scenario: an order trades at once at two prices, and the rest of it is cancelled.
#[test]
fn the_rest_of_an_immediate_order_is_cancelled_behind_its_trades() {
    for first in ORDERS {
        let mut desk = Desk::logged_on(first);
        desk.other(1, limit(Side::Sell, 1, 100));
        desk.other(2, limit(Side::Sell, 2, 101));
        desk.ask("D", &[(11, "7"), (54, "1"), (38, "5"), (40, "1")]);
        desk.says(&[
            "8 34=2 11=7 17=2.a7 150=0 39=0 54=1 38=5 151=5 14=0 6=0",
            "8 34=3 11=7 17=2.3b 150=F 39=1 54=1 38=5 32=1 31=100 151=4 14=1 6=100",
            "8 34=4 11=7 17=2.4b 150=F 39=1 54=1 38=5 32=2 31=101 151=2 14=3 6=100.6666",
            "8 34=5 11=7 17=2.c7 150=4 39=4 54=1 38=5 151=0 14=3 6=100.6666 58=what did not trade \
             at once is cancelled",
        ]);
        assert!(desk.client.kept.orders.is_empty());
    }
}

/// Scenario: an order is replaced twice, the second time so that it trades, and cancelled by its last name.
#[test]
fn an_order_has_the_name_of_its_last_replacement() {
    for first in ORDERS {
        let mut desk = Desk::logged_on(first);
        desk.ask(
            "D",
            &[(11, "7"), (54, "2"), (38, "5"), (40, "2"), (44, "100")],
        );
        desk.ask(
            "G",
            &[
                (11, "8"),
                (41, "7"),
                (54, "2"),
                (38, "3"),
                (40, "2"),
                (44, "100"),
            ],
        );
        desk.other(1, limit(Side::Buy, 1, 90));
        desk.ask(
            "G",
            &[
                (11, "9"),
                (41, "8"),
                (54, "2"),
                (38, "4"),
                (40, "2"),
                (44, "90"),
            ],
        );
        desk.ask("F", &[(11, "10"), (41, "9"), (54, "2"), (38, "4")]);
        desk.says(&[
            "8 34=2 11=7 17=2.a7 150=0 39=0 54=2 38=5 44=100 151=5 14=0 6=0",
            "8 34=3 11=8 41=7 17=2.a8 150=5 39=0 54=2 38=3 44=100 151=3 14=0 6=0",
            "8 34=4 11=9 41=8 17=2.a9 150=5 39=0 54=2 38=4 44=90 151=4 14=0 6=0",
            "8 34=5 11=9 17=2.5s 150=F 39=1 54=2 38=4 44=90 32=1 31=90 151=3 14=1 6=90",
            "8 34=6 11=10 41=9 17=2.7 150=4 39=4 54=2 38=4 44=90 151=0 14=1 6=90 58=cancelled",
        ]);
        assert!(desk.client.kept.orders.is_empty() && desk.client.kept.pending.is_empty());
    }
}

/// Scenario: a replacement asks for no more than has traded already.
#[test]
fn a_replacement_by_what_has_traded_cancels_the_rest() {
    for first in ORDERS {
        let mut desk = Desk::logged_on(first);
        desk.ask(
            "D",
            &[(11, "7"), (54, "2"), (38, "5"), (40, "2"), (44, "100")],
        );
        desk.other(1, limit(Side::Buy, 2, 100));
        desk.said.clear();
        desk.ask(
            "G",
            &[
                (11, "8"),
                (41, "7"),
                (54, "2"),
                (38, "2"),
                (40, "2"),
                (44, "100"),
            ],
        );
        desk.says(&[
            "8 34=4 11=8 41=7 17=2.3 150=4 39=4 54=2 38=5 44=100 151=0 14=2 6=100 58=cancelled",
        ]);
        assert!(desk.client.kept.orders.is_empty() && desk.client.kept.pending.is_empty());
    }
}

#[test]
fn what_the_exchange_refuses_is_told_with_its_reason() {
    for first in ORDERS {
        let mut desk = Desk::logged_on(first);
        desk.ask(
            "D",
            &[(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "500")],
        );
        desk.ask("F", &[(11, "8"), (41, "7"), (54, "1"), (38, "5")]);
        desk.ask(
            "G",
            &[
                (11, "9"),
                (41, "7"),
                (54, "1"),
                (38, "5"),
                (40, "2"),
                (44, "100"),
            ],
        );
        desk.ask(
            "D",
            &[
                (11, "10"),
                (54, "1"),
                (38, "5"),
                (40, "2"),
                (44, "100"),
                (59, "4"),
            ],
        );
        desk.says(&[
            "8 34=2 11=7 17=2.r7 150=8 39=8 103=99 54=1 38=5 44=500 151=0 14=0 6=0 58=the price is outside \
             the symbol's range",
            "9 34=3 11=8 41=7 39=8 434=1 102=1 58=no open order has this name",
            "9 34=4 11=9 41=7 39=8 434=2 102=1 58=no open order has this name",
            "8 34=5 11=10 17=2.r10 150=8 39=8 103=99 54=1 38=5 44=100 151=0 14=0 6=0 58=not all of the order \
             can trade at once",
        ]);
        assert!(desk.client.kept.orders.is_empty() && desk.client.kept.pending.is_empty());
    }
}

#[test]
fn a_name_that_is_in_use_enters_no_second_order() {
    let mut desk = Desk::logged_on(First::Answers);
    let order = [(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "100")];
    desk.ask("D", &order);
    desk.say();
    desk.ask("D", &order);
    assert!(
        desk.say()
            .ends_with("58=ClOrdID (11) is in use in this symbol")
    );
    assert_eq!(desk.client.kept.orders.len(), 1);
}

/// Scenario: the order was entered over another gateway, where it has traded; it comes again here.
#[test]
fn an_order_that_was_done_elsewhere_is_done_once_and_told_as_it_is() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.other(1, limit(Side::Sell, 2, 100));
    let elsewhere = Command::Request(Request {
        symbol: SymbolId(2),
        participant: OWN,
        number: 7,
        action: limit(Side::Buy, 5, 100),
    });
    desk.exchange.apply(&at(SECOND), elsewhere);
    desk.ask(
        "D",
        &[(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "100")],
    );
    desk.says(&["8 34=2 11=7 17=2.a7 150=0 39=0 54=1 38=5 44=100 151=5 14=0 6=0"]);
    desk.wait(2 * SECOND);
    let told = desk.say();
    assert!(
        told.starts_with("8 34=3 11=7 17=2.i7 150=I 39=1 54=1 38=5 44=100 151=3 14=2"),
        "{told}"
    );
    desk.ask("F", &[(11, "8"), (41, "7"), (54, "1"), (38, "5")]);
    assert!(desk.say().starts_with("8 34=4 11=8 41=7 17=2.4 150=4 39=4"));
}

/// Scenario: an order of a binary session is cancelled here, by the number that entered it.
#[test]
fn an_order_of_another_session_can_be_cancelled() {
    let mut desk = Desk::logged_on(First::Answers);
    let elsewhere = Command::Request(Request {
        symbol: SymbolId(2),
        participant: OWN,
        number: 7,
        action: limit(Side::Sell, 5, 100),
    });
    desk.exchange.apply(&at(SECOND), elsewhere);
    desk.ask("F", &[(11, "8"), (41, "7"), (54, "2"), (38, "5")]);
    let told = desk.say();
    assert!(
        told.starts_with("8 34=2 11=8 41=7 17=2.a8 150=4 39=4 54=2"),
        "{told}"
    );
}

/// Scenario: a book that is too far on: nobody keeps the events that this order is about.
#[test]
fn an_order_whose_events_are_forgotten_is_told_so() {
    let mut desk = Desk::logged_on(First::Events);
    desk.ask(
        "D",
        &[(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "100")],
    );
    desk.say();
    desk.client.handle_forgotten(desk.now(), SymbolId(2), 2000);
    desk.run();
    assert!(desk.say().starts_with("8 34=3 11=7 17=2.2000.7 150=I 39=0"));
}

/// Scenario: many orders at once, and an exchange that answers none of them for a while.
#[test]
fn no_more_requests_of_a_symbol_are_under_way_than_the_exchange_remembers() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.is_away = true;
    for number in 1..=40 {
        let name = number.to_string();
        desk.ask(
            "D",
            &[(11, &name), (54, "1"), (38, "1"), (40, "2"), (44, "100")],
        );
    }
    assert_eq!(desk.client.under_way.len(), 16);
    desk.is_away = false;
    for request in desk.client.under_way.clone() {
        let action = limit(Side::Buy, 1, 100);
        desk.carry_out(Request {
            symbol: request.0,
            participant: OWN,
            number: request.1,
            action,
        });
    }
    assert!(desk.client.kept.pending.is_empty());
    assert_eq!(desk.client.kept.orders.len(), 40);
    desk.carry_out(Request {
        symbol: SymbolId(2),
        participant: OWN,
        number: 41,
        action: Action::CancelAll,
    });
    assert!(desk.client.kept.orders.is_empty());
}

#[test]
fn a_request_that_means_nothing_is_rejected_with_its_tag() {
    let right = [(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "100")];
    let with = |tag: u32, value: &'static str| {
        let mut fields = right.to_vec();
        fields.retain(|(found, _)| *found != tag);
        fields.push((tag, value));
        fields.retain(|(_, value)| !value.is_empty());
        fields
    };
    for (tag, value, reason) in [
        (11, "", 1),
        (11, "x7", 5),
        (11, "07", 5),
        (11, "99999999999999999999", 5),
        (54, "3", 5),
        (38, "1.5", 5),
        (38, "-1", 5),
        (40, "3", 5),
        (44, "100.01", 5),
        (44, "0", 5),
        (44, "", 1),
        (59, "2", 5),
        (18, "G", 5),
    ] {
        let mut desk = Desk::logged_on(First::Answers);
        desk.ask("D", &with(tag, value));
        let told = desk.say();
        let expected = format!("3 34=2 45=2 371={tag} 372=D 373={reason} 58=");
        assert!(told.starts_with(&expected), "{tag}={value}: {told}");
        assert!(desk.client.kept.pending.is_empty());
    }
    let mut desk = Desk::logged_on(First::Answers);
    desk.ask("q", &right);
    desk.says(&["j 34=2 45=2 372=q 380=3 58=messages of type q are not taken here"]);
}
