//! Packets of what is committed, each with the time at which gateways may show it.

use super::in_order::InOrder;
use super::message::MarketMessage;
use super::packet::{PACKET_MESSAGES_MAX, Packet};
use crate::exchange::{SYMBOLS_MAX, SymbolEvent, SymbolId};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many events of a symbol wait for those before them.
const WAITING_MAX: usize = 1024;

/// Publishes what happens on one replica.
///
/// It is told the effects of committed commands alone: what a leader has done and nobody has agreed on never leaves.
#[derive(Debug)]
pub struct Publisher {
    hold_ns: u64,
    symbols: BTreeMap<SymbolId, InOrder<SymbolEvent>>,
}

impl Publisher {
    /// Publishes from the first event of each symbol on, for gateways that hold messages for so long.
    #[must_use]
    pub fn new(hold_ns: u64) -> Publisher {
        Publisher {
            hold_ns,
            symbols: BTreeMap::new(),
        }
    }

    /// Sets how long gateways hold what is published from now on.
    pub fn set_hold(&mut self, hold_ns: u64) {
        self.hold_ns = hold_ns;
    }

    /// Takes events of committed commands, or those that were missing, and returns what can be published by now.
    pub fn handle_events(&mut self, now_ns: u64, events: &[SymbolEvent]) -> Vec<Packet> {
        let mut packets: Vec<Packet> = Vec::new();
        for (release_ns, event) in self.handle_owned(now_ns, events) {
            let message = MarketMessage::of(&event);
            match packets.last_mut() {
                Some(last)
                    if last.release_ns == release_ns
                        && last.messages.len() < PACKET_MESSAGES_MAX =>
                {
                    last.messages.push(message);
                }
                _ => packets.push(Packet {
                    release_ns,
                    messages: vec![message],
                    latest: Vec::new(),
                }),
            }
        }
        packets
    }

    /// Takes events as [`Publisher::handle_events`] does, and returns those that can be published, with their owners
    /// and their times: for gateways, which tell owners at once and everybody at that time.
    pub fn handle_owned(&mut self, now_ns: u64, events: &[SymbolEvent]) -> Vec<(u64, SymbolEvent)> {
        let hold_ns = self.hold_ns;
        let mut ready = Vec::new();
        for one in events {
            let Some(symbol) = self.symbol(one.symbol) else {
                continue;
            };
            symbol.insert(one.event.sequence, *one);
            while let Some(event) = symbol.pop() {
                let release_ns = event.time_ns.max(now_ns).saturating_add(hold_ns);
                ready.push((release_ns, event));
            }
        }
        ready
    }

    /// Learns how far a symbol is, where effects were missed: by its depth.
    pub fn handle_latest(&mut self, symbol: SymbolId, sequence: u64) {
        if let Some(symbol) = self.symbol(symbol) {
            symbol.note_seen(sequence);
        }
    }

    /// Goes on behind events that the replica has forgotten. Followers take a snapshot there.
    pub fn handle_forgotten(&mut self, symbol: SymbolId, latest: u64) {
        if let Some(symbol) = self.symbol(symbol) {
            symbol.skip_to(latest.saturating_add(1));
        }
    }

    /// The events to fetch from the replica before more of a symbol can be published.
    #[must_use]
    pub fn missing(&self) -> Option<(SymbolId, Range<u64>)> {
        let mut gaps = self.symbols.iter();
        gaps.find_map(|(symbol, events)| Some((*symbol, events.missing()?)))
    }

    /// The last sequence of each symbol that was published.
    pub fn latest(&self) -> impl Iterator<Item = (SymbolId, u64)> {
        let symbols = self.symbols.iter();
        symbols.map(|(symbol, events)| (*symbol, events.next_number() - 1))
    }

    /// A packet without messages that says how far each symbol is, for gateways that missed the last ones.
    #[must_use]
    pub fn heartbeat(&self, now_ns: u64) -> Packet {
        Packet {
            release_ns: now_ns.saturating_add(self.hold_ns),
            messages: Vec::new(),
            latest: self.latest().collect(),
        }
    }

    fn symbol(&mut self, symbol: SymbolId) -> Option<&mut InOrder<SymbolEvent>> {
        if self.symbols.len() >= SYMBOLS_MAX && !self.symbols.contains_key(&symbol) {
            return None;
        }
        let events = self.symbols.entry(symbol);
        Some(events.or_insert_with(|| InOrder::new(1, WAITING_MAX)))
    }
}
