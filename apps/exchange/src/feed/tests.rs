use super::*;
use crate::book::{OrderNumber, ParticipantId, Phase, Side};
use crate::exchange::tests::{Draw, SYMBOLS, at, exchange, limit};
use crate::exchange::{
    Answer, Command, Exchange, Query, RECENT_EVENTS, Request, SymbolEvent, SymbolId,
};
use fastrand::Rng;
use quorate::StateMachine;
use std::collections::BTreeMap;
use std::ops::Range;

/// How long gateways hold what is published, in ns.
const HOLD_NS: u64 = 300;

fn symbols() -> impl Iterator<Item = SymbolId> {
    (0..SYMBOLS).map(SymbolId)
}

fn snapshot(exchange: &Exchange, symbol: SymbolId) -> BookSnapshot {
    match exchange.query(&Query::Orders(symbol)) {
        Answer::Orders(open) => BookSnapshot::of(symbol, &open),
        other => panic!("{other:?}"),
    }
}

/// Events that a replica keeps; `None` where it has forgotten the first.
fn kept(exchange: &Exchange, symbol: SymbolId, range: &Range<u64>) -> Option<Vec<SymbolEvent>> {
    let (from, most) = (range.start, 50);
    match exchange.query(&Query::Events { symbol, from, most }) {
        Answer::Events(events) => Some(events),
        Answer::Forgotten => None,
        other => panic!("{other:?}"),
    }
}

/// Has a publisher fetch from a replica what it missed.
fn fill(publisher: &mut Publisher, exchange: &Exchange) -> Vec<Packet> {
    let mut packets = Vec::new();
    while let Some((symbol, range)) = publisher.missing() {
        match kept(exchange, symbol, &range) {
            Some(events) => packets.extend(publisher.handle_events(0, &events)),
            None => publisher.handle_forgotten(symbol, snapshot(exchange, symbol).sequence),
        }
    }
    packets
}

/// What the packets say of each symbol, as bytes.
#[derive(Default, PartialEq, Eq, Debug)]
struct Published(BTreeMap<SymbolId, Vec<u8>>);

impl Published {
    fn add(&mut self, packets: &[Packet]) {
        for message in packets.iter().flat_map(|packet| &packet.messages) {
            let bytes = self.0.entry(message.symbol).or_default();
            bytes.extend(message.to_bytes());
        }
    }
}

#[test]
fn two_replicas_and_a_replay_of_the_log_publish_the_same_bytes() {
    for seed in 0..10 {
        let mut draw = Draw::new(seed);
        let (mut one, mut other) = (exchange(), exchange());
        let mut publishers = [Publisher::new(HOLD_NS), Publisher::new(9 * HOLD_NS)];
        let mut published = [Published::default(), Published::default()];
        let mut log = Vec::new();
        for _ in 0..600 {
            let (command, now) = (draw.command(), at(draw.now_ns));
            log.push((command, now));
            let reply = one.apply(&now, command);
            published[0].add(&publishers[0].handle_events(now.time_ns, &reply.events));
            let reply = other.apply(&now, command);
            // This one loses some effects, and is loaded from a snapshot now and then.
            match draw.rng.u32(0..20) {
                0 => other = Exchange::load(&other.save()).unwrap(),
                1 => {}
                _ => published[1].add(&publishers[1].handle_events(0, &reply.events)),
            }
            published[1].add(&fill(&mut publishers[1], &other));
        }
        for symbol in symbols() {
            publishers[1].handle_latest(symbol, snapshot(&other, symbol).sequence);
        }
        published[1].add(&fill(&mut publishers[1], &other));
        let (mut replayed, mut again) = (exchange(), Published::default());
        let mut publisher = Publisher::new(0);
        for (command, now) in log {
            let reply = replayed.apply(&now, command);
            again.add(&publisher.handle_events(u64::MAX, &reply.events));
        }
        let [first, second] = published;
        assert_eq!(first, second);
        assert_eq!(first, again);
        assert_eq!(first.0.len(), usize::from(SYMBOLS), "all symbols were busy");
    }
}

/// A network that loses, repeats and reorders packets.
struct Lossy {
    rng: Rng,
    under_way: Vec<Vec<u8>>,
}

impl Lossy {
    fn send(&mut self, packet: &Packet) {
        for _ in 0..[0, 1, 1, 1, 2][self.rng.usize(0..5)] {
            self.under_way.push(packet.to_bytes());
        }
    }

    fn receive(&mut self) -> Option<Packet> {
        if self.under_way.len() < self.rng.usize(0..8) {
            return None;
        }
        let at = self.rng.usize(0..self.under_way.len().max(1));
        let bytes = (at < self.under_way.len()).then(|| self.under_way.swap_remove(at))?;
        Some(Packet::from_bytes(&bytes).unwrap())
    }
}

/// Tells a follower what it wants, from a replica.
fn serve(follower: &mut FeedFollower, exchange: &Exchange, symbol: SymbolId) {
    match follower.wanted() {
        None => {}
        Some(Wanted::Snapshot) => {
            let bytes = snapshot(exchange, symbol).to_bytes();
            let snapshot = BookSnapshot::from_bytes(&bytes).unwrap();
            follower.handle_snapshot(&snapshot).unwrap();
        }
        Some(Wanted::Messages(range)) => match kept(exchange, symbol, &range) {
            None => follower.handle_forgotten(),
            Some(events) => {
                for event in &events {
                    follower.handle_message(MarketMessage::of(event)).unwrap();
                }
            }
        },
    }
}

#[test]
fn followers_hold_the_book_whatever_the_network_does() {
    for seed in 0..10 {
        let mut draw = Draw::new(seed);
        let mut exchange = exchange();
        let mut publisher = Publisher::new(HOLD_NS);
        let mut network = Lossy {
            rng: Rng::with_seed(seed),
            under_way: Vec::new(),
        };
        let mut followers: Vec<_> = symbols().map(FeedFollower::new).collect();
        let deliver = |follower: &mut FeedFollower, packet: &Packet| {
            for message in &packet.messages {
                follower.handle_message(*message).unwrap();
            }
            for (symbol, latest) in &packet.latest {
                if follower
                    .book()
                    .is_some_and(|b| b.snapshot().symbol == *symbol)
                {
                    follower.handle_latest(*latest);
                }
            }
        };
        for _ in 0..600 {
            let (command, now) = (draw.command(), at(draw.now_ns));
            let reply = exchange.apply(&now, command);
            for packet in publisher.handle_events(draw.now_ns, &reply.events) {
                assert_eq!(packet.release_ns, draw.now_ns + HOLD_NS);
                network.send(&packet);
            }
            while let Some(packet) = network.receive() {
                for follower in &mut followers {
                    deliver(follower, &packet);
                }
            }
            let at = draw.rng.usize(0..followers.len());
            if draw.rng.u32(0..4) == 0 {
                serve(&mut followers[at], &exchange, SymbolId(at as u16));
            }
            if draw.rng.u32(0..100) == 0 {
                followers[at] = FeedFollower::new(SymbolId(at as u16));
            }
        }
        let last = Packet::from_bytes(&publisher.heartbeat(draw.now_ns).to_bytes()).unwrap();
        for (symbol, follower) in symbols().zip(&mut followers) {
            deliver(follower, &last);
            while follower.wanted().is_some() {
                serve(follower, &exchange, symbol);
            }
            let book = follower.book().unwrap();
            assert_eq!(book.snapshot(), snapshot(&exchange, symbol), "{symbol:?}");
            check_levels(book, &exchange, symbol);
        }
    }
}

fn check_levels(book: &FollowedBook, exchange: &Exchange, symbol: SymbolId) {
    let levels = usize::MAX;
    let Answer::Depth(depth) = exchange.query(&Query::Depth { symbol, levels }) else {
        panic!("{symbol:?} is not traded");
    };
    assert!(book.levels(Side::Buy).eq(depth.bids));
    assert!(book.levels(Side::Sell).eq(depth.asks));
}

#[test]
fn what_is_forgotten_everywhere_is_skipped_and_followers_take_a_snapshot() {
    let mut exchange = exchange();
    let symbol = SymbolId(0);
    let mut follower = FeedFollower::new(symbol);
    serve(&mut follower, &exchange, symbol);
    let phases = [Phase::Auction, Phase::Continuous].into_iter().cycle();
    for phase in phases.take(RECENT_EVENTS + 1) {
        exchange.apply(&at(1), Command::SetPhase(symbol, phase));
    }
    let mut publisher = Publisher::new(0);
    let order = Command::Request(Request {
        symbol,
        participant: ParticipantId(0),
        number: 1,
        action: limit(Side::Buy, 1, 100),
    });
    let events = exchange.apply(&at(1), order).events;
    assert_eq!(publisher.handle_events(1, &events), []);
    let (_, range) = publisher.missing().unwrap();
    assert_eq!(range.start, 1);
    assert!(fill(&mut publisher, &exchange).is_empty());
    assert_eq!(publisher.missing(), None);
    let latest = publisher.heartbeat(1).latest;
    assert_eq!(latest, [(symbol, snapshot(&exchange, symbol).sequence)]);
    follower.handle_latest(latest[0].1);
    assert!(matches!(follower.wanted(), Some(Wanted::Messages(_))));
    serve(&mut follower, &exchange, symbol);
    assert_eq!(follower.wanted(), Some(Wanted::Snapshot));
    serve(&mut follower, &exchange, symbol);
    assert_eq!(follower.wanted(), None);
}

#[test]
fn a_feed_that_contradicts_itself_is_told_and_begun_anew() {
    let symbol = SymbolId(1);
    let mut follower = FeedFollower::new(symbol);
    let empty = FollowedBook::new(symbol).snapshot();
    follower.handle_snapshot(&empty).unwrap();
    let order = OrderNumber(1 << 20);
    let deleted = MarketMessage {
        symbol,
        sequence: 1,
        time_ns: 1,
        kind: MarketKind::Deleted { order },
    };
    let refused = follower.handle_message(deleted);
    assert_eq!(refused, Err(FollowError::Unknown(order)));
    assert_eq!(follower.wanted(), Some(Wanted::Snapshot));
}

#[test]
fn what_waits_for_its_turn_is_bounded_and_comes_out_in_order() {
    let mut queue = InOrder::new(1, 3);
    for (number, expected) in [
        (5, Inserted::Taken),
        (5, Inserted::Known),
        (4, Inserted::Taken),
        (7, Inserted::Taken),
        (8, Inserted::Full),
        // The highest goes.
        (2, Inserted::Taken),
        (1, Inserted::Taken),
    ] {
        assert_eq!(queue.insert(number, number), expected, "{number}");
        assert!(queue.waiting() <= 3);
    }
    assert_eq!(
        (queue.pop(), queue.pop(), queue.pop()),
        (Some(1), Some(2), None)
    );
    assert_eq!(queue.missing(), Some(3..4));
    queue.insert(3, 3);
    while queue.pop().is_some() {}
    // What went for want of room is known to exist.
    assert_eq!(queue.missing(), Some(5..9));
    queue.skip_to(9);
    assert_eq!(
        (queue.missing(), queue.insert(8, 8)),
        (None, Inserted::Known)
    );
}
