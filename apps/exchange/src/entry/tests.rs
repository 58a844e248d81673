use super::*;
use crate::book::{ParticipantId, Side};
use crate::exchange::tests::{Draw, at, exchange, limit};
use crate::exchange::{Action, Command, Exchange, Outcome, Reply, Request, SymbolId};
use quorate::StateMachine;
use std::collections::BTreeMap;

fn request_of(command: &Command) -> Option<&Request> {
    match command {
        Command::Request(request) | Command::Order(_, request) => Some(request),
        _ => None,
    }
}

/// Both sides of each trade hear of it once, with the same lots; and what the owner of an order hears adds up.
#[test]
fn reports_tell_both_sides_of_each_trade_the_same() {
    for seed in 0..10 {
        let mut draw = Draw::new(seed);
        let mut exchange = exchange();
        let mut stream = Vec::new();
        let mut expected = Vec::new();
        for _ in 0..600 {
            let command = draw.command();
            let reply = exchange.apply(&at(draw.now_ns), command);
            let told = reports(request_of(&command), &reply);
            check_trades(&told);
            check_answer(&command, &reply, &told);
            for (_, report) in told {
                stream.extend(report.to_bytes());
                expected.push(report);
            }
        }
        let mut read = Vec::new();
        while let Some(report) = Report::take(&mut stream).unwrap() {
            read.push(report);
        }
        assert!(stream.is_empty());
        assert_eq!(read, expected);
    }
}

fn check_trades(told: &[(ParticipantId, Report)]) {
    let mut trades = BTreeMap::new();
    for (_, report) in told {
        if let ReportKind::Executed {
            sequence,
            trade,
            price,
            quantity,
            ..
        } = report.kind
        {
            let sides = trades.entry((report.symbol, sequence)).or_insert((0, None));
            sides.0 += 1;
            let terms = (trade, price, quantity);
            assert_eq!(*sides.1.get_or_insert(terms), terms);
        }
    }
    assert!(trades.values().all(|(sides, _)| *sides == 2), "{told:?}");
}

/// The lots that an order is said to have traded at once are those of its reports.
fn check_answer(command: &Command, reply: &Reply, told: &[(ParticipantId, Report)]) {
    let (Some(request), Outcome::Entered(entered)) = (request_of(command), reply.outcome) else {
        return;
    };
    let number = match request.action {
        Action::Replace { order, .. } => order,
        _ => request.number,
    };
    if reply.is_repeated {
        return;
    }
    let executed = told.iter().filter_map(|(participant, report)| {
        let is_it = (*participant, report.symbol, report.number)
            == (request.participant, request.symbol, number);
        match report.kind {
            ReportKind::Executed {
                quantity,
                was_resting: false,
                ..
            } if is_it => Some(quantity),
            _ => None,
        }
    });
    assert_eq!(executed.sum::<u64>(), entered.executed);
}

/// Scenario: one participant cancels its order while another one's order fills it.
#[test]
fn a_cancel_that_races_with_a_fill_comes_to_the_same_for_both_sides() {
    let request = |participant, number, action| Request {
        symbol: SymbolId(0),
        participant: ParticipantId(participant),
        number,
        action,
    };
    for fill_first in [false, true] {
        let mut exchange = exchange();
        let mut told = Vec::new();
        let mut ask = |exchange: &mut Exchange, request: Request| {
            let reply = exchange.apply(&at(2), Command::Request(request));
            told.extend(reports(Some(&request), &reply));
            reply.outcome
        };
        ask(&mut exchange, request(0, 1, limit(Side::Buy, 5, 100)));
        let (cancel, fill) = (Action::Cancel(1), limit(Side::Sell, 5, 100));
        let (cancel, fill) = (request(0, 2, cancel), request(1, 1, fill));
        let cancelled = match fill_first {
            true => {
                ask(&mut exchange, fill);
                ask(&mut exchange, cancel)
            }
            false => {
                let outcome = ask(&mut exchange, cancel);
                ask(&mut exchange, fill);
                outcome
            }
        };
        assert_eq!(matches!(cancelled, Outcome::Refused(_)), fill_first);
        let executed = |of| {
            let of_one = told.iter().filter(|(participant, _)| participant.0 == of);
            let lots = of_one.filter_map(|(_, report)| match report.kind {
                ReportKind::Executed { quantity, .. } => Some(quantity),
                _ => None,
            });
            lots.sum::<u64>()
        };
        let lots = if fill_first { 5 } else { 0 };
        assert_eq!((executed(0), executed(1)), (lots, lots));
    }
}

#[test]
fn a_stream_of_messages_is_read_however_it_is_cut() {
    let messages = [
        ClientMessage::Login(ParticipantId(3), Token::default()),
        ClientMessage::Request(OrderRequest {
            symbol: SymbolId(1),
            number: 2,
            action: limit(Side::Sell, 4, 100),
        }),
        ClientMessage::Heartbeat,
    ];
    let bytes: Vec<u8> = messages.iter().flat_map(ClientMessage::to_bytes).collect();
    for cut in 0..bytes.len() {
        let (mut received, mut read) = (Vec::new(), Vec::new());
        for part in [&bytes[..cut], &bytes[cut..]] {
            received.extend_from_slice(part);
            while let Some(message) = ClientMessage::take(&mut received).unwrap() {
                read.push(message);
            }
        }
        assert_eq!(read, messages);
    }
    assert!(ClientMessage::take(&mut vec![b'z']).is_err());
}
