//! What a gateway knows of symbols: events as they come, and the book that it shows.

use super::GatewayMachine;
use crate::entry::event_reports;
use crate::exchange::{SYMBOLS_MAX, SymbolEvent, SymbolId};
use crate::feed::{BookSnapshot, FollowedBook, InOrder, MarketMessage, Packet};
use crate::link::ToReplica;
use crate::live::clock;
use std::collections::VecDeque;

/// How many messages of a symbol are kept for subscribers who missed some.
const RECENT_MAX: usize = 4096;
/// How many events of a symbol wait for those before them.
const WAITING_MAX: usize = 4096;

/// A symbol, as a gateway knows it.
#[derive(Debug)]
pub(super) struct Market {
    /// The book, as of the last message that was shown.
    pub(super) book: FollowedBook,
    /// The messages that were shown last.
    pub(super) recent: VecDeque<MarketMessage>,
    /// Events for the owners of orders, who are told in order and at once.
    events: InOrder<SymbolEvent>,
    /// Whether a message said what cannot be: nothing is shown until a replica has sent the open orders.
    is_wrong: bool,
}

impl Market {
    /// A symbol whose owners of orders were told of so many events.
    fn new(symbol: SymbolId, told: u64) -> Market {
        Market {
            book: FollowedBook::new(symbol),
            recent: VecDeque::new(),
            events: InOrder::new(told + 1, WAITING_MAX),
            is_wrong: false,
        }
    }

    /// The last event that owners of orders were told of.
    pub(super) fn told(&self) -> u64 {
        self.events.next_number() - 1
    }

    /// The messages from a sequence on, if they are kept.
    pub(super) fn messages_from(
        &self,
        sequence: u64,
    ) -> Option<impl Iterator<Item = &MarketMessage>> {
        let next = self.book.sequence().saturating_add(1);
        let first = self.recent.front().map_or(next, |oldest| oldest.sequence);
        let skipped = sequence.checked_sub(first)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        Some(self.recent.iter().skip(skipped))
    }
}

impl GatewayMachine {
    /// Tells owners of committed events, and holds these for everybody else.
    pub(super) fn take_events(&mut self, release_ns: u64, events: &[SymbolEvent]) {
        let messages = events.iter().map(MarketMessage::of).collect();
        self.take_packet(&Packet {
            release_ns,
            messages,
            latest: Vec::new(),
        });
        for event in events {
            let Some(market) = self.market(event.symbol) else {
                continue;
            };
            market.events.insert(event.event.sequence, *event);
            let mut ready = Vec::new();
            while let Some(event) = market.events.pop() {
                ready.push((event.event.sequence, event_reports(&event)));
            }
            for (sequence, reports) in ready {
                for (participant, report) in &reports {
                    self.tell(*participant, report);
                }
                self.fix_event(sequence, &reports);
            }
        }
        self.fetch();
    }

    pub(super) fn take_latest(&mut self, latest: Vec<(SymbolId, u64)>) {
        for (symbol, _) in &latest {
            self.market(*symbol);
        }
        self.take_packet(&Packet {
            latest,
            ..Packet::default()
        });
        self.fetch();
    }

    fn take_packet(&mut self, packet: &Packet) {
        self.hold.handle_packet(clock::now(), packet);
    }

    /// Goes on with the open orders of a symbol, where nobody keeps the messages before them.
    /// Those who own orders are told of events that are not shown any more, where these are kept.
    pub(super) fn take_book(&mut self, from: u64, snapshot: BookSnapshot) {
        let symbol = snapshot.symbol;
        let Some(market) = self.market(symbol) else {
            return;
        };
        let is_forgotten = market.events.next_number() <= from;
        if is_forgotten {
            market.events.skip_to(snapshot.sequence.saturating_add(1));
        } else {
            market.events.note_seen(snapshot.sequence);
        }
        match is_forgotten {
            true => self.fix_forgotten(symbol, snapshot.sequence),
            false => drop(self.behind.insert(symbol)),
        }
        let Some(market) = self.market(symbol) else {
            return;
        };
        if snapshot.sequence <= market.book.sequence() && !market.is_wrong {
            return;
        }
        match FollowedBook::from_snapshot(&snapshot) {
            Ok(book) => market.book = book,
            Err(error) => return eprintln!("a snapshot of symbol {}: {error}", symbol.0),
        }
        market.is_wrong = false;
        market.recent.clear();
        self.hold.handle_forgotten(symbol, snapshot.sequence);
        self.subscribers.book(snapshot);
        self.fetching = None;
        self.fetch();
    }

    /// Shows what is due.
    pub(super) fn show(&mut self) {
        let now = clock::now();
        let mut shown = Vec::new();
        while let Some(released) = self.hold.poll(now) {
            self.status.shown += 1;
            self.status.late += u64::from(released.is_late);
            let message = released.message;
            let Some(market) = self.market(message.symbol) else {
                continue;
            };
            if market.is_wrong {
                continue;
            }
            if let Err(error) = market.book.apply(&message) {
                eprintln!("symbol {}: {error}", message.symbol.0);
                market.is_wrong = true;
                continue;
            }
            if market.recent.len() == RECENT_MAX {
                market.recent.pop_front();
            }
            market.recent.push_back(message);
            shown.push((released.release_ns, message));
        }
        self.subscribers.show(&shown);
    }

    /// Asks a replica for what is missing, unless one was asked just now.
    pub(super) fn fetch(&mut self) {
        if let Some((symbol, missing)) = self.hold.missing()
            && self.fetching != Some((symbol, missing.start))
        {
            self.fetching = Some((symbol, missing.start));
            let from = missing.start;
            self.links.ask(&ToReplica::Fetch { symbol, from });
        }
        if self.fetching.is_none() {
            self.fetch_for_owners();
        }
    }

    /// Asks for events that only the owners of orders are still to be told of.
    fn fetch_for_owners(&mut self) {
        while let Some(symbol) = self.behind.first().copied() {
            let market = self.markets.get(&symbol);
            if let Some(missing) = market.and_then(|market| market.events.missing()) {
                let from = missing.start;
                self.fetching = Some((symbol, from));
                return self.links.ask(&ToReplica::Fetch { symbol, from });
            }
            self.behind.remove(&symbol);
        }
    }

    /// Asks again for what nobody has sent, and for the open orders of symbols whose books are wrong.
    pub(super) fn fetch_again(&mut self) {
        self.fetching = None;
        self.fetch();
        let wrong = self.markets.iter().filter(|(_, market)| market.is_wrong);
        for (symbol, _) in wrong {
            // No event has the sequence 0: the open orders come in its place.
            let (symbol, from) = (*symbol, 0);
            self.links.ask(&ToReplica::Fetch { symbol, from });
        }
    }

    pub(super) fn market(&mut self, symbol: SymbolId) -> Option<&mut Market> {
        if self.markets.len() >= SYMBOLS_MAX && !self.markets.contains_key(&symbol) {
            return None;
        }
        let told = self.fix.position(symbol);
        let market = self.markets.entry(symbol);
        Some(market.or_insert_with(|| Market::new(symbol, told)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::book::{Ended, Event, EventKind, OrderNumber, Owner, ParticipantId, Party, Phase};
    use crate::live::gateway::GatewayOptions;
    use crate::live::gateway::fix::FixDesk;

    /// Scenario: between two phases, a replica tells that an order is gone which nobody knows.
    #[tokio::test]
    async fn a_book_that_cannot_be_is_shown_no_more_until_a_snapshot_comes() {
        let symbol = SymbolId(3);
        let mut gateway = GatewayMachine::new(GatewayOptions::alone(), FixDesk::default()).unwrap();
        let event = |sequence, kind| SymbolEvent {
            symbol,
            time_ns: 1,
            event: Event { sequence, kind },
        };
        let order = Party {
            number: OrderNumber(7),
            owner: Owner {
                participant: ParticipantId(1),
                client_order: 1,
            },
        };
        let unknown = EventKind::Deleted {
            order,
            quantity: 1,
            why: Ended::Cancelled,
        };
        let told = [
            event(1, EventKind::Phase(Phase::Halted)),
            event(2, unknown),
            event(3, EventKind::Phase(Phase::Continuous)),
        ];
        gateway.take_events(0, &told);
        gateway.show();
        let market = &gateway.markets[&symbol];
        assert!(market.is_wrong);
        assert_eq!((market.book.sequence(), market.recent.len()), (1, 1));
        assert_eq!(market.messages_from(1).unwrap().count(), 1);
        assert!(market.messages_from(0).is_none());
        let snapshot = BookSnapshot {
            symbol,
            sequence: 3,
            phase: Phase::Continuous,
            orders: Vec::new(),
        };
        gateway.take_book(0, snapshot);
        gateway.take_events(0, &[event(4, EventKind::Phase(Phase::Halted))]);
        gateway.show();
        let market = &gateway.markets[&symbol];
        assert_eq!((market.is_wrong, market.book.sequence()), (false, 4));
        assert_eq!(market.book.phase(), Phase::Halted);
    }
}
