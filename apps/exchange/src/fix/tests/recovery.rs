//! Gateways and engines that die: what is in the journal is enough to go on.

use super::*;
use crate::book::Side;
use crate::exchange::tests::limit;

const ORDER: [(u32, &str); 5] = [(11, "7"), (54, "1"), (38, "5"), (40, "2"), (44, "100")];

/// Scenario: the gateway dies with a request that the exchange never had, and its order trades when it is back.
#[test]
fn a_request_that_was_taken_is_done_though_the_gateway_died() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.is_away = true;
    desk.ask("D", &ORDER);
    desk.says(&[]);
    desk.kill();
    desk.is_away = false;
    desk.wait(SECOND);
    desk.other(1, limit(Side::Sell, 2, 100));
    // Nobody is logged on: reports have their numbers, and wait.
    desk.says(&[]);
    desk.log_on(&[]);
    desk.says(&["A 34=4 98=0 108=30"]);
    desk.tell("2", &[(7, "2"), (16, "0")]);
    desk.says(&[
        "8 34=2 43=Y 11=7 17=2.a7 150=0 39=0 54=1 38=5 44=100 151=5 14=0 6=0",
        "8 34=3 43=Y 11=7 17=2.2b 150=F 39=1 54=1 38=5 44=100 32=2 31=100 151=3 14=2 6=100",
        "4 34=4 43=Y 123=Y 36=5",
    ]);
}

/// Scenario: both die after the exchange has done a request; the engine has not kept that it sent the request.
#[test]
fn a_request_that_comes_again_after_both_died_is_done_once() {
    for first in [First::Answers, First::Events] {
        let mut desk = Desk::logged_on(first);
        desk.ask("D", &ORDER);
        desk.say();
        desk.kill();
        // The engine believes that its order is still to be sent, under the same number.
        desk.number = 2;
        desk.log_on(&[]);
        desk.says(&["5 34=3 58=MsgSeqNum (34) is 2, and 3 was expected"]);
        desk.number = 1;
        desk.log_on(&[(141, "Y")]);
        desk.says(&["A 34=1 98=0 108=30 141=Y"]);
        desk.ask("D", &ORDER);
        assert!(
            desk.say()
                .ends_with("58=ClOrdID (11) is in use in this symbol")
        );
        desk.other(1, limit(Side::Sell, 9, 100));
        desk.says(&[
            "8 34=3 11=7 17=2.2b 150=F 39=2 54=1 38=5 44=100 32=5 31=100 151=0 14=5 6=100",
        ]);
    }
}

/// Scenario: the gateway dies after each step, and events come again from where it last noted how far they were.
#[test]
fn reports_come_once_wherever_the_gateway_dies() {
    for first in [First::Answers, First::Events] {
        let run = |dies: bool| {
            let mut desk = Desk::logged_on(first);
            let mut told = Vec::new();
            let mut step = |desk: &mut Desk| {
                told.extend(std::iter::from_fn(|| {
                    (!desk.said.is_empty()).then(|| desk.say())
                }));
                if dies {
                    desk.kill();
                    desk.log_on(&[]);
                    desk.said.clear();
                }
            };
            desk.ask("D", &ORDER);
            step(&mut desk);
            desk.other(1, limit(Side::Sell, 2, 100));
            step(&mut desk);
            desk.ask(
                "G",
                &[
                    (11, "8"),
                    (41, "7"),
                    (54, "1"),
                    (38, "9"),
                    (40, "2"),
                    (44, "101"),
                ],
            );
            step(&mut desk);
            desk.other(2, limit(Side::Sell, 3, 101));
            step(&mut desk);
            desk.ask("F", &[(11, "9"), (41, "8"), (54, "1"), (38, "9")]);
            step(&mut desk);
            assert!(desk.client.kept.orders.is_empty() && desk.client.kept.pending.is_empty());
            // Numbers of messages differ, for every log-on has one.
            let without = |line: &String| {
                line.split(' ')
                    .filter(|word| !word.starts_with("34="))
                    .collect::<String>()
            };
            told.iter().map(without).collect::<Vec<_>>()
        };
        assert_eq!(run(true), run(false));
    }
}

#[test]
fn events_that_come_again_are_told_once() {
    let mut desk = Desk::logged_on(First::Events);
    desk.ask("D", &ORDER);
    desk.say();
    let request = Request {
        symbol: SymbolId(2),
        participant: OTHER,
        number: 1,
        action: limit(Side::Sell, 2, 100),
    };
    let reply = desk.exchange.apply(&at(SECOND), Command::Request(request));
    for _ in 0..2 {
        for event in &reply.events {
            let reports = event_reports(event).into_iter();
            let own: Vec<Report> = reports
                .filter(|one| one.0 == OWN)
                .map(|one| one.1)
                .collect();
            desk.client
                .handle_event(desk.now(), event.event.sequence, &own);
        }
        desk.run();
    }
    assert_eq!(desk.said.len(), 1);
}

/// A journal that is cut anywhere is read up to its last whole record, and one that is changed is cut or refused.
#[test]
fn a_journal_that_is_cut_or_changed_is_never_read_wrong() {
    let mut desk = Desk::logged_on(First::Answers);
    desk.ask("D", &ORDER);
    desk.other(1, limit(Side::Sell, 2, 100));
    let whole = read(&desk.journal).unwrap();
    assert_eq!(whole.kept, desk.client.kept);
    let mut again = header(OWN);
    again.extend(desk.client.whole_record());
    assert_eq!(read(&again).unwrap().kept, desk.client.kept);
    for cut in header(OWN).len()..desk.journal.len() {
        let read = read(&desk.journal[..cut]).unwrap();
        assert!(read.bytes <= cut && read.kept.next_in <= whole.kept.next_in);
    }
    for at in 0..desk.journal.len() {
        let mut changed = desk.journal.clone();
        changed[at] ^= 0x40;
        assert!(
            read(&changed).is_err() || read(&changed).unwrap().bytes < changed.len() || at < 6,
            "{at}"
        );
    }
}
