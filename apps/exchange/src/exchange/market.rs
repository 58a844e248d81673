//! One symbol: its book, what participants asked of it, and what happened last.

use super::command::{Action, Outcome, Refused, Request, SymbolEvent, SymbolId};
use crate::book::{
    Book, Ended, Event, EventKind, NewOrder, OrderNumber, Owner, ParticipantId, Party, Refusal,
    Side,
};
use crate::wire::{Reader, WireError, Writer};
use std::collections::{BTreeMap, VecDeque};

/// How many events of a symbol the exchange keeps for those who missed some.
pub const RECENT_EVENTS: usize = 1024;

/// How many outcomes are remembered of each participant's requests for a symbol.
pub const REMEMBERED_REQUESTS: usize = 16;

/// A symbol that is traded.
#[derive(Debug)]
pub(super) struct Market {
    pub(super) book: Book,
    /// The book's name of each open order.
    open: BTreeMap<Owner, OrderNumber>,
    requests: BTreeMap<ParticipantId, Requests>,
    recent: VecDeque<SymbolEvent>,
    /// The time that the timer of this symbol runs up to.
    pub(super) armed_ns: Option<u64>,
}

/// What is known of a participant's requests.
#[derive(Debug, Default)]
struct Requests {
    /// The highest number that was forgotten.
    forgotten: u64,
    outcomes: BTreeMap<u64, Outcome>,
}

/// What a request came to, and whether it was done before.
pub(super) struct Carried {
    pub(super) outcome: Outcome,
    pub(super) is_repeated: bool,
}

impl Market {
    pub(super) fn new(book: Book) -> Self {
        Market {
            book,
            open: BTreeMap::new(),
            requests: BTreeMap::new(),
            recent: VecDeque::new(),
            armed_ns: None,
        }
    }

    /// Does what a participant asks, unless it was done before.
    pub(super) fn carry_out(
        &mut self,
        request: &Request,
        now_ns: u64,
        out: &mut Vec<Event>,
    ) -> Carried {
        let known = self.requests.entry(request.participant).or_default();
        if let Some(outcome) = known.outcomes.get(&request.number) {
            return Carried {
                outcome: *outcome,
                is_repeated: true,
            };
        }
        let outcome = match request.number <= known.forgotten {
            true => Outcome::Refused(Refused::OldRequest),
            false => {
                let outcome = self.act(request, now_ns, out);
                let outcome =
                    outcome.unwrap_or_else(|refusal| Outcome::Refused(Refused::Book(refusal)));
                let known = self.requests.entry(request.participant).or_default();
                known.remember(request.number, outcome);
                outcome
            }
        };
        Carried {
            outcome,
            is_repeated: false,
        }
    }

    fn act(
        &mut self,
        request: &Request,
        now_ns: u64,
        out: &mut Vec<Event>,
    ) -> Result<Outcome, Refusal> {
        let owner = |client_order| Owner {
            participant: request.participant,
            client_order,
        };
        let named = |client_order| {
            let number = self.open.get(&owner(client_order)).copied();
            number.ok_or(Refusal::Unknown)
        };
        match request.action {
            Action::Enter {
                side,
                quantity,
                pricing,
                time_in_force,
                post_only,
                self_trade,
            } => {
                let order = NewOrder {
                    owner: owner(request.number),
                    side,
                    quantity,
                    pricing,
                    time_in_force,
                    post_only,
                    self_trade,
                };
                self.book.enter(&order, now_ns, out).map(Outcome::Entered)
            }
            Action::Cancel(order) => {
                self.book.cancel(named(order)?, out)?;
                Ok(Outcome::Open(0))
            }
            Action::Reduce { order, by } => {
                let open = self.book.reduce(named(order)?, by, out);
                open.map(Outcome::Open)
            }
            Action::Replace {
                order,
                price,
                quantity,
            } => {
                let entered = self.book.replace(named(order)?, price, quantity, out);
                entered.map(Outcome::Entered)
            }
            Action::CancelAll => {
                let count = (self.book).cancel_all(request.participant, Ended::Cancelled, out);
                Ok(Outcome::Cancelled(count))
            }
        }
    }

    /// Keeps the names of open orders and the last events by what happened.
    pub(super) fn note(&mut self, happened: &[SymbolEvent]) {
        for one in happened {
            match one.event.kind {
                EventKind::Added { order, .. } => {
                    self.open.insert(order.owner, order.number);
                }
                EventKind::Traded {
                    resting, incoming, ..
                } => {
                    self.forget_closed(resting);
                    self.forget_closed(incoming);
                }
                EventKind::Deleted { order, .. } => self.forget_closed(order),
                EventKind::Reduced { .. }
                | EventKind::Moved { .. }
                | EventKind::Phase(_)
                | EventKind::Uncrossed { .. } => {}
            }
            if self.recent.len() == RECENT_EVENTS {
                self.recent.pop_front();
            }
            self.recent.push_back(*one);
        }
    }

    fn forget_closed(&mut self, party: Party) {
        if self.book.order(party.number).is_none() {
            self.open.remove(&party.owner);
        }
    }

    /// The events from a sequence on, at most so many; `None` where the first of them is not kept any more.
    pub(super) fn events_from(&self, sequence: u64, most: usize) -> Option<Vec<SymbolEvent>> {
        let first = self.book.last_sequence() + 1 - self.recent.len() as u64;
        let skipped = sequence.checked_sub(first)?;
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
        let events = self.recent.iter().skip(skipped).take(most);
        Some(events.copied().collect())
    }

    pub(super) fn write(&self, out: &mut Writer) {
        self.book.write(out);
        out.length(self.requests.len());
        for (participant, requests) in &self.requests {
            out.u16(participant.0);
            out.u64(requests.forgotten);
            out.length(requests.outcomes.len());
            for (number, outcome) in &requests.outcomes {
                out.u64(*number);
                outcome.write(out);
            }
        }
        out.length(self.recent.len());
        for one in &self.recent {
            out.u64(one.time_ns);
            one.event.write(out);
        }
    }

    pub(super) fn read(symbol: SymbolId, from: &mut Reader<'_>) -> Result<Market, WireError> {
        let mut market = Market::new(Book::read(from)?);
        for side in [Side::Buy, Side::Sell] {
            let orders = market.book.orders(side);
            market
                .open
                .extend(orders.map(|order| (order.owner, order.number)));
        }
        for _ in 0..from.length(14)? {
            let participant = ParticipantId(from.u16()?);
            let mut requests = Requests {
                forgotten: from.u64()?,
                outcomes: BTreeMap::new(),
            };
            for _ in 0..from.length(9)? {
                requests.outcomes.insert(from.u64()?, Outcome::read(from)?);
            }
            market.requests.insert(participant, requests);
        }
        let length = from.length(8 + Event::BYTES_MIN)?;
        if length as u64 > market.book.last_sequence() || length > RECENT_EVENTS {
            return Err(WireError::Value("recent events"));
        }
        for _ in 0..length {
            market.recent.push_back(SymbolEvent {
                symbol,
                time_ns: from.u64()?,
                event: Event::read(from)?,
            });
        }
        let first = market.book.last_sequence() + 1 - length as u64;
        let sequences = market.recent.iter().map(|one| one.event.sequence);
        if !sequences.eq(first..first + length as u64) {
            return Err(WireError::Value("recent events"));
        }
        Ok(market)
    }
}

impl Requests {
    fn remember(&mut self, number: u64, outcome: Outcome) {
        self.outcomes.insert(number, outcome);
        if self.outcomes.len() > REMEMBERED_REQUESTS
            && let Some((oldest, _)) = self.outcomes.pop_first()
        {
            self.forgotten = oldest;
        }
    }
}
