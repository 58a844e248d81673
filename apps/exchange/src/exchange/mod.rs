//! The exchange as a state machine: symbols and participants, and what they ask, each at most once.
//!
//! Commands of different symbols commute ([`Command::footprint`]): each symbol has its book, its requests and its
//! events, and nothing is shared but the list of participants.

mod command;
mod market;
mod messages;

pub use command::{
    Action, Command, Footprint, GatewayId, Outcome, Refused, Reply, Request, Stamp, SymbolEvent,
    SymbolId,
};
pub use market::{RECENT_EVENTS, REMEMBERED_REQUESTS};

use crate::book::{
    Book, BookRules, Ended, Event, LevelView, OrderView, PARTICIPANTS_MAX, ParticipantId, Phase,
    Refusal, Side,
};
use crate::wire::{Reader, WireError, Writer};
use market::Market;
use quorate::{Applied, StateMachine, Timer};
use std::collections::BTreeMap;
use std::time::Duration;

/// The most symbols of an exchange.
pub const SYMBOLS_MAX: usize = 1024;

/// The most events or levels that one query is answered with.
pub const ANSWER_MAX: usize = 1024;

/// What a snapshot begins with: its form and version.
const MAGIC: u32 = u32::from_be_bytes(*b"QXC1");

/// The state of an exchange.
#[derive(Debug, Default)]
pub struct Exchange {
    participants: BTreeMap<ParticipantId, Treatment>,
    markets: BTreeMap<SymbolId, Market>,
    /// The latest time of the log, in ns since the Unix epoch.
    now_ns: u64,
    timers: Vec<Timer<Command>>,
    /// The events of the command under way, kept for its memory.
    events: Vec<Event>,
}

/// How a participant is treated.
#[derive(Clone, Copy, Debug)]
struct Treatment {
    cancels_on_disconnect: bool,
}

/// What is asked of an exchange without changing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// The symbols, with what their books are made for, and their phases.
    Symbols,
    /// The best levels of both sides of a symbol.
    Depth {
        /// The symbol to show.
        symbol: SymbolId,
        /// How many levels of each side, at most [`ANSWER_MAX`].
        levels: usize,
    },
    /// All open orders of a symbol, for a snapshot of the feed.
    Orders(SymbolId),
    /// What happened in a symbol.
    Events {
        /// The symbol to look at.
        symbol: SymbolId,
        /// The sequence of the first event that is wanted.
        from: u64,
        /// How many events, at most [`ANSWER_MAX`].
        most: usize,
    },
}

/// What a query comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// All symbols, by number.
    Symbols(Vec<(SymbolId, BookRules, Phase)>),
    /// The levels of a book.
    Depth(Depth),
    /// The open orders of a book.
    Orders(OpenOrders),
    /// Events of a symbol, in order.
    Events(Vec<SymbolEvent>),
    /// The first of the wanted events is not kept any more: begin with the depth.
    Forgotten,
    /// No such symbol is traded.
    UnknownSymbol,
}

/// The levels of a book, as of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Depth {
    /// The sequence of the last event that is counted in.
    pub sequence: u64,
    /// The levels of those who buy, the highest price first.
    pub bids: Vec<LevelView>,
    /// The levels of those who sell, the lowest price first.
    pub asks: Vec<LevelView>,
}

/// The open orders of a book, as of an event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenOrders {
    /// The sequence of the last event that is counted in.
    pub sequence: u64,
    /// What the book does with orders.
    pub phase: Phase,
    /// The orders that buy, in the order in which they trade.
    pub bids: Vec<OrderView>,
    /// The orders that sell, in the order in which they trade.
    pub asks: Vec<OrderView>,
}

impl StateMachine for Exchange {
    type Command = Command;
    type Reply = Reply;
    type Query = Query;
    type Answer = Answer;

    fn apply(&mut self, at: &Applied, command: Command) -> Reply {
        self.now_ns = self.now_ns.max(at.time_ns);
        let mut reply = Reply {
            outcome: Outcome::Done,
            is_repeated: false,
            stamp: None,
            events: Vec::new(),
        };
        let outcome = self.carry_out(command, &mut reply);
        reply.outcome = outcome.unwrap_or_else(Outcome::Refused);
        reply
    }

    fn query(&self, query: &Query) -> Answer {
        let market = |symbol| self.markets.get(&symbol);
        match *query {
            Query::Symbols => {
                let all = self.markets.iter();
                let all = all.map(|(symbol, m)| (*symbol, m.book.rules(), m.book.phase()));
                Answer::Symbols(all.collect())
            }
            Query::Depth { symbol, levels } => {
                market(symbol).map_or(Answer::UnknownSymbol, |market| {
                    let show = |side| market.book.levels(side).take(levels.min(ANSWER_MAX));
                    Answer::Depth(Depth {
                        sequence: market.book.last_sequence(),
                        bids: show(Side::Buy).collect(),
                        asks: show(Side::Sell).collect(),
                    })
                })
            }
            Query::Orders(symbol) => market(symbol).map_or(Answer::UnknownSymbol, |market| {
                Answer::Orders(OpenOrders {
                    sequence: market.book.last_sequence(),
                    phase: market.book.phase(),
                    bids: market.book.orders(Side::Buy).collect(),
                    asks: market.book.orders(Side::Sell).collect(),
                })
            }),
            Query::Events { symbol, from, most } => match market(symbol) {
                None => Answer::UnknownSymbol,
                Some(market) => market
                    .events_from(from, most.min(ANSWER_MAX))
                    .map_or(Answer::Forgotten, Answer::Events),
            },
        }
    }

    fn save(&self) -> Vec<u8> {
        let mut out = Writer::default();
        out.u32(MAGIC);
        out.u64(self.now_ns);
        out.length(self.participants.len());
        for (participant, treatment) in &self.participants {
            out.u16(participant.0);
            out.flag(treatment.cancels_on_disconnect);
        }
        out.length(self.markets.len());
        for (symbol, market) in &self.markets {
            out.u16(symbol.0);
            market.write(&mut out);
        }
        out.bytes
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        Exchange::read(bytes).map_err(|error| format!("the snapshot of the exchange: {error}"))
    }

    fn take_timers(&mut self) -> Vec<Timer<Command>> {
        std::mem::take(&mut self.timers)
    }
}

impl Exchange {
    fn read(bytes: &[u8]) -> Result<Exchange, WireError> {
        let mut from = Reader::new(bytes);
        if from.u32()? != MAGIC {
            return Err(WireError::Value("form"));
        }
        let mut exchange = Exchange {
            now_ns: from.u64()?,
            ..Exchange::default()
        };
        for _ in 0..from.length(3)? {
            let participant = ParticipantId(from.u16()?);
            let cancels_on_disconnect = from.flag("cancels on disconnect")?;
            let treatment = Treatment {
                cancels_on_disconnect,
            };
            exchange.participants.insert(participant, treatment);
        }
        let markets = from.length(2)?;
        if markets > SYMBOLS_MAX {
            return Err(WireError::Value("symbols"));
        }
        for _ in 0..markets {
            let symbol = SymbolId(from.u16()?);
            let market = Market::read(symbol, &mut from)?;
            exchange.markets.insert(symbol, market);
        }
        from.end()?;
        // A loaded state says all the timers that run.
        let symbols: Vec<SymbolId> = exchange.markets.keys().copied().collect();
        for symbol in symbols {
            exchange.arm(symbol);
        }
        Ok(exchange)
    }

    fn carry_out(&mut self, command: Command, reply: &mut Reply) -> Result<Outcome, Refused> {
        match command {
            Command::AddSymbol { symbol, rules } => self.add_symbol(symbol, rules)?,
            Command::SetParticipant {
                participant,
                cancels_on_disconnect,
            } => {
                if participant.0 >= PARTICIPANTS_MAX {
                    return Err(Refused::Book(Refusal::Participant));
                }
                let treatment = Treatment {
                    cancels_on_disconnect,
                };
                self.participants.insert(participant, treatment);
            }
            Command::Request(request) => return self.request(&request, reply),
            Command::Order(stamp, request) => {
                reply.stamp = Some(stamp);
                return self.request(&request, reply);
            }
            Command::Disconnected(participant) => return self.disconnected(participant, reply),
            Command::SetPhase(symbol, phase) => {
                self.change(symbol, reply, |market, out| {
                    market.book.set_phase(phase, out)
                })?;
            }
            Command::EndDay(symbol) => {
                let count = self.change(symbol, reply, |market, out| market.book.end_day(out))?;
                return Ok(Outcome::Cancelled(count));
            }
            Command::Expire(symbol) => self.change(symbol, reply, |_, _| ())?,
        }
        Ok(Outcome::Done)
    }

    fn add_symbol(&mut self, symbol: SymbolId, rules: BookRules) -> Result<(), Refused> {
        if self.markets.contains_key(&symbol) {
            return Err(Refused::KnownSymbol);
        }
        if self.markets.len() >= SYMBOLS_MAX {
            return Err(Refused::TooManySymbols);
        }
        let book = Book::new(rules).ok_or(Refused::Rules)?;
        self.markets.insert(symbol, Market::new(book));
        Ok(())
    }

    fn request(&mut self, request: &Request, reply: &mut Reply) -> Result<Outcome, Refused> {
        if !self.participants.contains_key(&request.participant) {
            return Err(Refused::UnknownParticipant);
        }
        let now_ns = self.now_ns;
        let carried = self.change(request.symbol, reply, |market, out| {
            market.carry_out(request, now_ns, out)
        })?;
        reply.is_repeated = carried.is_repeated;
        Ok(carried.outcome)
    }

    fn disconnected(
        &mut self,
        participant: ParticipantId,
        reply: &mut Reply,
    ) -> Result<Outcome, Refused> {
        let treatment = self.participants.get(&participant);
        let treatment = treatment.ok_or(Refused::UnknownParticipant)?;
        let mut count = 0;
        if treatment.cancels_on_disconnect {
            let symbols: Vec<SymbolId> = self.markets.keys().copied().collect();
            for symbol in symbols {
                count += self.change(symbol, reply, |market, out| {
                    (market.book).cancel_all(participant, Ended::Disconnected, out)
                })?;
            }
        }
        Ok(Outcome::Cancelled(count))
    }

    /// Does something in a symbol, after what expired before it, and keeps what follows from it.
    fn change<T>(
        &mut self,
        symbol: SymbolId,
        reply: &mut Reply,
        act: impl FnOnce(&mut Market, &mut Vec<Event>) -> T,
    ) -> Result<T, Refused> {
        let market = self.markets.get_mut(&symbol);
        let market = market.ok_or(Refused::UnknownSymbol)?;
        self.events.clear();
        market.book.expire(self.now_ns, &mut self.events);
        let came_to = act(market, &mut self.events);
        let first = reply.events.len();
        let time_ns = self.now_ns;
        reply
            .events
            .extend(self.events.iter().map(|event| SymbolEvent {
                symbol,
                time_ns,
                event: *event,
            }));
        market.note(&reply.events[first..]);
        self.arm(symbol);
        Ok(came_to)
    }

    /// Has the symbol's timer run up to when its next order expires.
    fn arm(&mut self, symbol: SymbolId) {
        let Some(market) = self.markets.get_mut(&symbol) else {
            return;
        };
        let next_ns = market.book.next_expiry_ns();
        if market.armed_ns == next_ns {
            return;
        }
        market.armed_ns = next_ns;
        let id = u64::from(symbol.0);
        self.timers.push(match next_ns {
            Some(next_ns) => Timer::Start {
                id,
                after: Duration::from_nanos(next_ns.saturating_sub(self.now_ns)),
                command: Command::Expire(symbol),
            },
            None => Timer::Stop { id },
        });
    }
}

#[cfg(test)]
pub(crate) mod tests;
