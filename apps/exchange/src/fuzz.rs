//! Messages from hostile bytes: refused, or read to what is written as it came.

use crate::book::{
    OrderNumber, ParticipantId, Phase, Price, Pricing, SelfTrade, Side, TimeInForce,
};
use crate::entry::{
    ClientMessage, OrderRequest, Report, ReportKind, ServerMessage, SessionEnd, Token,
};
use crate::exchange::{
    Action, Command, GatewayId, Outcome, Refused, Reply, Request, Stamp, SymbolId,
};
use crate::feed::{BookSnapshot, FollowedBook, MarketKind, MarketMessage, Packet, PublicOrder};
use crate::fix::{self, Client};
use crate::link::{FeedFrame, FromReplica, ToReplica, tests};
use crate::wire::WireError;
use quorate::{Bytes, Message};
use quorate_fuzz::{Fuzz, Limits};

fn fuzz(name: &str) -> Fuzz {
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name)
}

fn enter() -> Action {
    Action::Enter {
        side: Side::Sell,
        quantity: 7,
        pricing: Pricing::Limit(Price(99)),
        time_in_force: TimeInForce::GoodTillTime(1 << 60),
        post_only: true,
        self_trade: SelfTrade::CancelBoth,
    }
}

fn message(sequence: u64, kind: MarketKind) -> MarketMessage {
    MarketMessage {
        symbol: SymbolId(3),
        sequence,
        time_ns: 1 << 60,
        kind,
    }
}

fn messages() -> Vec<MarketMessage> {
    let (order, price) = (OrderNumber(1 << 20), Price(50));
    let added = MarketKind::Added {
        order,
        side: Side::Buy,
        price,
        quantity: 9,
    };
    let traded = MarketKind::Traded {
        trade: 1,
        resting: order,
        buying: None,
        incoming_side: Side::Sell,
        price,
        quantity: 4,
    };
    let moved = MarketKind::Moved {
        order,
        price: Price(51),
        quantity: 6,
    };
    let kinds = [
        added,
        traded,
        moved,
        MarketKind::Reduced { order, open: 2 },
        MarketKind::Deleted { order },
        MarketKind::Phase(Phase::Auction),
        MarketKind::Uncrossed { price, quantity: 1 },
    ];
    (1..)
        .zip(kinds)
        .map(|(at, kind)| message(at, kind))
        .collect()
}

#[test]
fn any_bytes_are_packets_or_refused() {
    let packet = Packet {
        release_ns: 5,
        messages: messages(),
        latest: vec![(SymbolId(3), 7), (SymbolId(4), 0)],
    };
    let fuzz = fuzz("packet").seeds([packet.to_bytes()]);
    fuzz.run(
        |input| Packet::from_bytes(&input),
        |input, packet| {
            assert_eq!(packet.to_bytes(), input[..]);
            let longest = packet.messages.iter().map(|one| one.to_bytes().len()).max();
            assert!(longest.is_none_or(|bytes| bytes <= MarketMessage::BYTES_MAX));
            let mut book = FollowedBook::new(SymbolId(3));
            for message in &packet.messages {
                let _ = book.apply(message);
            }
        },
    );
}

#[test]
fn any_bytes_are_snapshots_or_refused() {
    let snapshot = BookSnapshot {
        symbol: SymbolId(3),
        sequence: 2,
        phase: Phase::Continuous,
        orders: vec![PublicOrder {
            number: OrderNumber(1 << 20),
            side: Side::Buy,
            price: Price(50),
            open: 9,
        }],
    };
    let fuzz = fuzz("snapshot").seeds([snapshot.to_bytes()]);
    fuzz.run(
        |input| BookSnapshot::from_bytes(&input),
        |input, snapshot| {
            assert_eq!(snapshot.to_bytes(), input[..]);
            if let Ok(mut book) = FollowedBook::from_snapshot(snapshot) {
                assert_eq!(book.snapshot().orders.len(), snapshot.orders.len());
                let next = book.sequence().saturating_add(1);
                let _ = book.apply(&message(next, MarketKind::Phase(Phase::Halted)));
                assert!(book.levels(Side::Buy).all(|level| level.quantity > 0));
            }
        },
    );
}

#[test]
fn any_bytes_are_messages_of_participants_or_refused() {
    let request = |action| {
        ClientMessage::Request(OrderRequest {
            symbol: SymbolId(1),
            number: 8,
            action,
        })
    };
    let replace = Action::Replace {
        order: 3,
        price: Price(9),
        quantity: 2,
    };
    let seeds = [
        ClientMessage::Login(ParticipantId(7), Token::default()),
        ClientMessage::Heartbeat,
        ClientMessage::Logout,
        request(enter()),
        request(Action::Cancel(3)),
        request(Action::Reduce { order: 3, by: 1 }),
        request(replace),
        request(Action::CancelAll),
    ];
    let fuzz = fuzz("entry").seeds(seeds.map(|one| one.to_bytes()));
    fuzz.run(
        |input| ClientMessage::from_bytes(&input),
        |input, message| {
            assert_eq!(message.to_bytes(), input[..]);
            assert!(input.len() <= ClientMessage::BYTES_MAX);
            let mut received = input.to_vec();
            received.push(b'H');
            assert_eq!(ClientMessage::take(&mut received), Ok(Some(*message)));
            assert_eq!(received, b"H");
        },
    );
}

#[test]
fn any_bytes_are_reports_or_refused() {
    let report = |kind| Report {
        symbol: SymbolId(1),
        number: 8,
        kind,
    };
    let answered = ReportKind::Answered {
        outcome: Outcome::Refused(Refused::OldRequest),
        is_repeated: true,
    };
    let executed = ReportKind::Executed {
        sequence: 4,
        time_ns: 1 << 60,
        trade: 2,
        price: Price(9),
        quantity: 1,
        was_resting: true,
    };
    let fuzz = fuzz("report").seeds([answered, executed].map(|kind| report(kind).to_bytes()));
    fuzz.run(
        |input| Report::from_bytes(&input),
        |input, report| assert_eq!(report.to_bytes(), input[..]),
    );
    let messages = [
        ServerMessage::LoggedIn,
        ServerMessage::Heartbeat,
        ServerMessage::Ended(SessionEnd::Idle),
        ServerMessage::Report(report(executed)),
    ];
    let fuzz = self::fuzz("server").seeds(messages.map(|one| one.to_bytes()));
    fuzz.run(
        |input| ServerMessage::from_bytes(&input),
        |input, message| assert_eq!(message.to_bytes(), input[..]),
    );
}

/// Puts length and checksum of a message right.
fn seal_fix(input: &mut Vec<u8>) {
    let begin = input.windows(3).position(|part| part == b"35=");
    let Some(begin) = begin.filter(|begin| begin + 7 < input.len()) else {
        return;
    };
    let body = &input[begin..input.len() - 7];
    let mut bytes = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    let sum = bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    bytes.extend(format!("10={sum:03}\x01").bytes());
    *input = bytes;
}

/// Makes one record of all that follows the head of the first one.
fn seal_journal(input: &mut Vec<u8>) {
    let header = fix::header(ParticipantId(3));
    if let Some(changes) = input.get(header.len() + 8..) {
        *input = [header, fix::record(changes)].concat();
    }
}

#[test]
fn any_bytes_are_fix_messages_or_refused() {
    let logon = fix::Message::new("A").with(34, 1).with(49, 3).with(98, 0);
    let logon = logon.with(108, 30).with(554, "secret");
    let order = fix::Message::new("D").with(34, 2).with(11, 7).with(55, 1);
    let seeds = [logon, order].map(|one| one.to_bytes());
    // A field takes more memory than bytes.
    let limits = Limits {
        bytes_per_byte: 64,
        ..Limits::default()
    };
    fuzz("fix").seeds(seeds).limits(limits).seal(seal_fix).run(
        |input| {
            let mut received = input.to_vec();
            fix::Message::take(&mut received)
        },
        |_, message| {
            let Some(message) = message.as_ref().filter(|message| message.defect.is_none()) else {
                return;
            };
            let again = fix::Message::take(&mut message.to_bytes());
            // Bytes that are no text become longer texts.
            assert!(again.is_err() || again == Ok(Some(message.clone())));
        },
    );
}

#[test]
fn any_bytes_are_journals_or_refused() {
    let client = Client::new(ParticipantId(3));
    let mut journal = fix::header(client.participant());
    journal.extend(client.whole_record());
    journal.extend(fix::record(&[b'I', 0, 0, 0, 0, 0, 0, 0, 9, b'L', 1]));
    // A list of messages grows by nodes of a tree.
    let limits = Limits {
        bytes_per_byte: 256,
        ..Limits::default()
    };
    fuzz("journal")
        .seeds([journal])
        .limits(limits)
        .seal(seal_journal)
        .run(
            |input| fix::read(&input),
            |input, journal| assert!(journal.bytes <= input.len()),
        );
}

/// The first frame of some bytes, where nothing follows it.
fn frame<T>(
    input: &[u8],
    take: impl Fn(&mut Vec<u8>) -> Result<Option<T>, WireError>,
) -> Result<T, WireError> {
    let mut received = input.to_vec();
    match take(&mut received)? {
        Some(frame) if received.is_empty() => Ok(frame),
        Some(_) => Err(WireError::Long),
        None => Err(WireError::Short),
    }
}

#[test]
fn any_bytes_are_frames_of_links_or_refused() {
    // An event takes more memory than bytes, and a list of them grows by doubling.
    let limits = Limits {
        bytes_per_byte: 32,
        ..Limits::default()
    };
    let seeds = tests::to_replica();
    let seeds = seeds.iter().map(ToReplica::to_bytes);
    fuzz("to_replica").seeds(seeds).run(
        |input| frame(&input, ToReplica::take),
        |input, frame| assert_eq!(frame.to_bytes(), input[..]),
    );
    let seeds = tests::from_replica();
    let seeds = seeds.iter().map(FromReplica::to_bytes);
    fuzz("from_replica").seeds(seeds).limits(limits).run(
        |input| frame(&input, FromReplica::take),
        |input, frame| assert_eq!(frame.to_bytes(), input[..]),
    );
    let seeds = tests::feed_frames();
    let seeds = seeds.iter().map(FeedFrame::to_bytes);
    fuzz("feed").seeds(seeds).limits(limits).run(
        |input| frame(&input, FeedFrame::take),
        |input, frame| assert_eq!(frame.to_bytes(), input[..]),
    );
}

#[test]
fn any_bytes_are_commands_and_replies_or_refused() {
    let request = Request {
        symbol: SymbolId(1),
        participant: ParticipantId(2),
        number: 3,
        action: enter(),
    };
    let stamp = Stamp {
        time_ns: 1 << 60,
        gateway: GatewayId(4),
    };
    let commands = [
        Command::Request(request),
        Command::Order(stamp, request),
        Command::EndDay(SymbolId(2)),
    ];
    let seeds = commands.map(|one| bytes(&one));
    fuzz("command").seeds(seeds).run(
        |input| Command::from_bytes(&input),
        |input, command| assert_eq!(bytes(command), *input),
    );
    let reply = Reply {
        outcome: Outcome::Open(5),
        is_repeated: false,
        stamp: Some(stamp),
        events: Vec::new(),
    };
    // An event takes more memory than bytes, and a list of them grows by doubling.
    let limits = Limits {
        bytes_per_byte: 32,
        ..Limits::default()
    };
    fuzz("reply").seeds([bytes(&reply)]).limits(limits).run(
        |input| Reply::from_bytes(&input),
        |input, reply| assert_eq!(bytes(reply), *input),
    );
}

fn bytes<M: Message>(message: &M) -> Bytes {
    message.to_bytes().expect("every message has a form")
}
