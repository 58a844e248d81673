//! Where market data goes out: each message is held until the time at which all gateways show it.

use super::Now;
use crate::exchange::{SYMBOLS_MAX, SymbolId};
use crate::feed::{InOrder, Inserted, MarketMessage, Packet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// How many messages of a symbol wait for those before them, or for their time.
const WAITING_MAX: usize = 4096;

/// A message that participants may see from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Released {
    /// The message to show.
    pub message: MarketMessage,
    /// When all gateways should show it, in ns since the Unix epoch.
    pub release_ns: u64,
    /// Whether it came, or what is before it came, after that time.
    pub is_late: bool,
}

/// A message that came. `due_ns` is on the steady clock, so that no jump of the other one holds it for longer.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    message: MarketMessage,
    release_ns: u64,
    due_ns: u64,
    is_late: bool,
    /// Whether all before it had come when somebody looked.
    was_ready: bool,
}

#[derive(Debug)]
struct Symbol {
    incoming: InOrder<Waiting>,
    /// When the next message is due, if it is there.
    queued_ns: Option<u64>,
}

/// Holds messages at a gateway, and releases those of each symbol in order.
#[derive(Debug)]
pub struct ReleaseHold {
    /// How long a message is held at most, whatever its packet says.
    hold_max_ns: u64,
    symbols: BTreeMap<SymbolId, Symbol>,
    due: BTreeSet<(u64, SymbolId)>,
}

impl ReleaseHold {
    /// Begins with the first message of each symbol.
    #[must_use]
    pub fn new(hold_max_ns: u64) -> ReleaseHold {
        ReleaseHold {
            hold_max_ns,
            symbols: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    /// Takes a packet, in any order and any number of times, from whatever replica; also what was missing.
    pub fn handle_packet(&mut self, now: Now, packet: &Packet) {
        let early_ns = packet.release_ns.saturating_sub(now.clock_ns);
        let due_ns = now.steady_ns.saturating_add(early_ns.min(self.hold_max_ns));
        for message in &packet.messages {
            let waiting = Waiting {
                message: *message,
                release_ns: packet.release_ns,
                due_ns,
                is_late: packet.release_ns < now.clock_ns,
                was_ready: false,
            };
            let Some(symbol) = self.symbol(message.symbol) else {
                continue;
            };
            if symbol.incoming.insert(message.sequence, waiting) == Inserted::Taken {
                for ready in symbol.incoming.ready_mut().filter(|one| !one.was_ready) {
                    ready.is_late |= ready.due_ns < now.steady_ns;
                    ready.was_ready = true;
                }
                self.queue(message.symbol);
            }
        }
        for (symbol, latest) in &packet.latest {
            if let Some(symbol) = self.symbol(*symbol) {
                symbol.incoming.note_seen(*latest);
            }
        }
    }

    /// Goes on behind messages that nobody keeps any more. Participants take a snapshot there.
    pub fn handle_forgotten(&mut self, symbol: SymbolId, latest: u64) {
        if let Some(one) = self.symbol(symbol) {
            one.incoming.skip_to(latest.saturating_add(1));
            self.queue(symbol);
        }
    }

    /// The next message to show, if one may be shown.
    pub fn poll(&mut self, now: Now) -> Option<Released> {
        let (due_ns, symbol) = *self.due.first()?;
        if due_ns > now.steady_ns {
            return None;
        }
        let waiting = self.symbols.get_mut(&symbol)?.incoming.pop()?;
        self.queue(symbol);
        Some(Released {
            message: waiting.message,
            release_ns: waiting.release_ns,
            is_late: waiting.is_late,
        })
    }

    /// When the next message may be shown, by the steady clock.
    #[must_use]
    pub fn next_release_ns(&self) -> Option<u64> {
        self.due.first().map(|(due_ns, _)| *due_ns)
    }

    /// The messages to fetch from any replica before more of a symbol can be shown.
    #[must_use]
    pub fn missing(&self) -> Option<(SymbolId, Range<u64>)> {
        let mut gaps = self.symbols.iter();
        gaps.find_map(|(symbol, one)| Some((*symbol, one.incoming.missing()?)))
    }

    fn symbol(&mut self, symbol: SymbolId) -> Option<&mut Symbol> {
        if self.symbols.len() >= SYMBOLS_MAX && !self.symbols.contains_key(&symbol) {
            return None;
        }
        Some(self.symbols.entry(symbol).or_insert_with(|| Symbol {
            incoming: InOrder::new(1, WAITING_MAX),
            queued_ns: None,
        }))
    }

    /// Queues a symbol by when its next message is due.
    fn queue(&mut self, symbol: SymbolId) {
        let Some(one) = self.symbols.get_mut(&symbol) else {
            return;
        };
        if let Some(queued_ns) = one.queued_ns.take() {
            self.due.remove(&(queued_ns, symbol));
        }
        one.queued_ns = one.incoming.peek().map(|waiting| waiting.due_ns);
        if let Some(queued_ns) = one.queued_ns {
            self.due.insert((queued_ns, symbol));
        }
    }
}
