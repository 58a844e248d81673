//! How unfair an exchange was: requests that were overtaken, and market data that some saw later than others.

use super::hold::Released;
use crate::exchange::{GatewayId, SymbolId};
use crate::histogram::Histogram;
use std::collections::BTreeMap;

/// How many messages are waited for until all gateways have shown them.
const OPEN_MAX: usize = 65_536;

/// How many requests were executed out of the order of their stamps.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InboundUnfairness {
    /// The requests that were executed.
    pub requests: u64,
    /// Requests stamped earlier than the request executed just before, in any symbol.
    pub before_previous: u64,
    /// Requests stamped earlier than some request executed before, in any symbol.
    pub before_any: u64,
    /// Requests stamped earlier than the one executed just before in their symbol.
    pub before_previous_of_symbol: u64,
    /// Requests stamped earlier than some request executed before in their symbol.
    pub before_any_of_symbol: u64,
}

/// The stamps of what was executed last.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    previous_ns: u64,
    highest_ns: u64,
}

impl Line {
    /// Whether a request comes after one that was stamped later: after the previous one, after any.
    fn follow(&mut self, time_ns: u64) -> (bool, bool) {
        let unfair = (time_ns < self.previous_ns, time_ns < self.highest_ns);
        self.previous_ns = time_ns;
        self.highest_ns = self.highest_ns.max(time_ns);
        unfair
    }
}

/// Counts requests that were overtaken, in the order in which they were executed.
#[derive(Debug, Default)]
pub struct InboundMeter {
    all: Line,
    symbols: BTreeMap<SymbolId, Line>,
    counted: InboundUnfairness,
    gateways: BTreeMap<GatewayId, InboundUnfairness>,
}

impl InboundMeter {
    /// Counts an executed request, by its symbol, its gateway and the time that counts. One whose symbol is not known
    /// is compared with those of all symbols alone.
    pub fn handle_executed(
        &mut self,
        symbol: impl Into<Option<SymbolId>>,
        gateway: GatewayId,
        time_ns: u64,
    ) {
        let (previous, any) = self.all.follow(time_ns);
        let of_symbol = symbol.into().map_or((false, false), |symbol| {
            self.symbols.entry(symbol).or_default().follow(time_ns)
        });
        let of_gateway = self.gateways.entry(gateway).or_default();
        for counted in [&mut self.counted, of_gateway] {
            counted.requests += 1;
            counted.before_previous += u64::from(previous);
            counted.before_any += u64::from(any);
            counted.before_previous_of_symbol += u64::from(of_symbol.0);
            counted.before_any_of_symbol += u64::from(of_symbol.1);
        }
    }

    /// What was counted of all requests.
    #[must_use]
    pub fn counted(&self) -> InboundUnfairness {
        self.counted
    }

    /// What was counted of the requests of one gateway.
    #[must_use]
    pub fn of_gateway(&self, gateway: GatewayId) -> InboundUnfairness {
        self.gateways.get(&gateway).copied().unwrap_or_default()
    }
}

/// How many messages some gateway showed late, and how far apart gateways showed them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OutboundUnfairness {
    /// The messages that all gateways showed, or that were waited for too long.
    pub messages: u64,
    /// Messages that at least one gateway received after their time.
    pub late: u64,
    /// For each message, the time from the first gateway that showed it to the last.
    pub spreads: Histogram,
}

/// What gateways have shown of a message.
#[derive(Clone, Copy, Debug)]
struct Shown {
    gateways: usize,
    first_ns: u64,
    last_ns: u64,
    is_late: bool,
}

/// Compares when gateways showed each message.
#[derive(Debug)]
pub struct OutboundMeter {
    gateways: usize,
    open: BTreeMap<(SymbolId, u64), Shown>,
    counted: OutboundUnfairness,
}

impl OutboundMeter {
    /// Compares so many gateways.
    #[must_use]
    pub fn new(gateways: usize) -> OutboundMeter {
        OutboundMeter {
            gateways,
            open: BTreeMap::new(),
            counted: OutboundUnfairness::default(),
        }
    }

    /// Counts a message that a gateway showed, at a time by a clock that is one for all gateways.
    pub fn handle_released(&mut self, released: &Released, at_ns: u64) {
        let name = (released.message.symbol, released.message.sequence);
        let shown = self.open.entry(name).or_insert(Shown {
            gateways: 0,
            first_ns: at_ns,
            last_ns: at_ns,
            is_late: false,
        });
        shown.gateways += 1;
        shown.first_ns = shown.first_ns.min(at_ns);
        shown.last_ns = shown.last_ns.max(at_ns);
        shown.is_late |= released.is_late;
        if shown.gateways >= self.gateways {
            self.close(name);
        } else if self.open.len() > OPEN_MAX
            && let Some((oldest, _)) = self.open.first_key_value()
        {
            let oldest = *oldest;
            self.close(oldest);
        }
    }

    /// What was counted so far, with the messages that some gateways still have to show left out.
    #[must_use]
    pub fn counted(&self) -> &OutboundUnfairness {
        &self.counted
    }

    fn close(&mut self, name: (SymbolId, u64)) {
        if let Some(shown) = self.open.remove(&name) {
            self.counted.messages += 1;
            self.counted.late += u64::from(shown.is_late);
            self.counted.spreads.record(shown.last_ns - shown.first_ns);
        }
    }
}
