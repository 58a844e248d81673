//! Subscribers of the feed: each follows the symbols that it asked for.

use super::{Event, GatewayMachine, TICK};
use crate::exchange::SymbolId;
use crate::feed::{BookSnapshot, MarketMessage, PACKET_MESSAGES_MAX, Packet};
use crate::link::{FeedFrame, FeedRequest};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use std::collections::{BTreeMap, BTreeSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// How many ticks there are between two heartbeats.
const HEARTBEAT_TICKS: u32 = 50;

#[derive(Debug)]
struct Subscriber {
    outbox: Outbox,
    symbols: BTreeSet<SymbolId>,
}

/// All who follow the feed at a gateway.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    subscribers: BTreeMap<u64, Subscriber>,
    ticks: u32,
}

/// Takes subscribers, for as long as the gateway runs.
pub(super) async fn accept(listener: TcpListener, events: mpsc::Sender<Event>) {
    for subscriber in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open: some connection has to end first.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (outbox, outgoing) = Outbox::new();
        let begun = Event::SubscriberBegun(subscriber, outbox);
        if events.send(begun).await.is_err() {
            return;
        }
        let events = events.clone();
        tokio::spawn(async move {
            let says = |message| Event::SubscriberSays(subscriber, message);
            // Whoever sends what is no message follows nothing any more.
            let _ = connection::run(stream, outgoing, FeedRequest::take, &events, says).await;
            let _ = events.send(Event::SubscriberEnded(subscriber)).await;
        });
    }
}

/// Packets of messages with their times of release, in order.
fn packets<'a>(
    messages: impl Iterator<Item = &'a (u64, MarketMessage)>,
) -> impl Iterator<Item = Packet> {
    let mut packets: Vec<Packet> = Vec::new();
    for (release_ns, message) in messages {
        match packets.last_mut() {
            Some(last)
                if last.release_ns == *release_ns && last.messages.len() < PACKET_MESSAGES_MAX =>
            {
                last.messages.push(*message);
            }
            _ => packets.push(Packet {
                release_ns: *release_ns,
                messages: vec![*message],
                latest: Vec::new(),
            }),
        }
    }
    packets.into_iter()
}

impl Subscribers {
    pub(super) fn end(&mut self, subscriber: u64) {
        self.subscribers.remove(&subscriber);
    }

    /// Shows messages to those who follow their symbols.
    pub(super) fn show(&mut self, shown: &[(u64, MarketMessage)]) {
        if shown.is_empty() {
            return;
        }
        self.subscribers.retain(|_, one| {
            let followed = |message: &MarketMessage| one.symbols.contains(&message.symbol);
            let mut packets = packets(shown.iter().filter(|(_, message)| followed(message)));
            packets.all(|packet| one.outbox.send(FeedFrame::Packet(packet).to_bytes()))
        });
    }

    /// Goes on with the open orders of a symbol.
    pub(super) fn book(&mut self, snapshot: BookSnapshot) {
        let symbol = snapshot.symbol;
        let bytes = FeedFrame::Book(snapshot).to_bytes();
        self.subscribers
            .retain(|_, one| !one.symbols.contains(&symbol) || one.outbox.send(bytes.clone()));
    }

    fn send(&mut self, subscriber: u64, frame: &FeedFrame) {
        if let Some(one) = self.subscribers.get(&subscriber)
            && !one.outbox.send(frame.to_bytes())
        {
            self.end(subscriber);
        }
    }
}

impl GatewayMachine {
    /// Tells a new subscriber which symbols there are, and how far they are.
    pub(super) fn greet(&mut self, subscriber: u64, outbox: Outbox) {
        let symbols = BTreeSet::new();
        let begun = Subscriber { outbox, symbols };
        self.subscribers.subscribers.insert(subscriber, begun);
        let latest = FeedFrame::Packet(self.latest());
        self.subscribers.send(subscriber, &latest);
    }

    pub(super) fn subscriber_says(&mut self, subscriber: u64, request: FeedRequest) {
        match request {
            FeedRequest::Status => {
                let status = FeedFrame::Status(self.status());
                self.subscribers.send(subscriber, &status);
            }
            FeedRequest::Subscribe { symbol, from } => self.subscribe(subscriber, symbol, from),
        }
    }

    fn subscribe(&mut self, subscriber: u64, symbol: SymbolId, from: u64) {
        let Some(market) = self.markets.get(&symbol) else {
            // Nobody trades it: there is nothing to follow.
            return self.subscribers.end(subscriber);
        };
        if let Some(one) = self.subscribers.subscribers.get_mut(&subscriber) {
            one.symbols.insert(symbol);
        }
        let frames: Vec<FeedFrame> = match market.messages_from(from) {
            Some(messages) => {
                let release_ns = clock::now().clock_ns;
                let messages: Vec<_> = messages.map(|one| (release_ns, *one)).collect();
                packets(messages.iter()).map(FeedFrame::Packet).collect()
            }
            None => vec![FeedFrame::Book(market.book.snapshot())],
        };
        for frame in frames {
            self.subscribers.send(subscriber, &frame);
        }
    }

    /// Says now and then how far symbols are, so that whoever hears nothing knows that the gateway is there.
    pub(super) fn heartbeat(&mut self) {
        self.subscribers.ticks += 1;
        if self.subscribers.ticks.is_multiple_of(HEARTBEAT_TICKS) {
            let bytes = FeedFrame::Packet(self.latest()).to_bytes();
            let subscribers = &mut self.subscribers.subscribers;
            subscribers.retain(|_, one| one.outbox.send(bytes.clone()));
        }
    }

    fn latest(&self) -> Packet {
        let markets = self.markets.iter();
        Packet {
            release_ns: clock::now().clock_ns,
            messages: Vec::new(),
            latest: markets
                .map(|(symbol, market)| (*symbol, market.book.sequence()))
                .collect(),
        }
    }
}
