//! What must hold of the committed log, entry by entry, and of everything that is shown.

use crate::book::{BookRules, Phase, Price, Side};
use crate::exchange::{
    Action, Answer, Command, Exchange, Outcome, Query, Refused, Reply, Request, SymbolId,
};
use crate::feed::{BookSnapshot, FollowedBook, MarketKind, MarketMessage};
use quorate::{Applied, StateMachine};
use std::collections::BTreeMap;

/// An entry of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) at: Applied,
    pub(super) command: Command,
}

/// Follows the committed log.
#[derive(Debug, Default)]
pub(super) struct Audit {
    pub(super) log: Vec<Entry>,
    replies: Vec<Reply>,
    /// All messages of the feed so far.
    pub(super) feed: BTreeMap<SymbolId, Vec<MarketMessage>>,
    books: BTreeMap<SymbolId, FollowedBook>,
    /// What each request came to when it was executed.
    outcomes: BTreeMap<(SymbolId, u16, u64), Outcome>,
    pub(super) repeated: u64,
    pub(super) trades: u64,
}

/// The prices of all symbols.
pub(super) fn rules() -> BookRules {
    BookRules {
        lowest: Price(1),
        levels: 200,
        orders_max: 10_000,
        reference: Price(100),
    }
}

pub(super) fn name(request: &Request) -> (SymbolId, u16, u64) {
    (request.symbol, request.participant.0, request.number)
}

/// Whether a request was refused since it is so old that its outcome is forgotten.
pub(super) fn is_old(reply: &Reply) -> bool {
    reply.outcome == Outcome::Refused(Refused::OldRequest)
}

impl Audit {
    /// Checks an entry that is committed, and what it came to.
    pub(super) fn committed(&mut self, entry: Entry, reply: &Reply) -> Result<(), String> {
        if let Command::Order(_, request) = entry.command {
            self.check_once(&request, reply)?;
        }
        for event in &reply.events {
            self.check_message(MarketMessage::of(event))?;
        }
        let mut symbols: Vec<SymbolId> = reply.events.iter().map(|one| one.symbol).collect();
        symbols.dedup();
        for symbol in symbols {
            self.check_uncrossed(symbol)?;
        }
        self.log.push(entry);
        self.replies.push(reply.clone());
        Ok(())
    }

    fn check_uncrossed(&self, symbol: SymbolId) -> Result<(), String> {
        let Some(book) = self.books.get(&symbol) else {
            return Ok(());
        };
        let best = |side| book.levels(side).next().map(|level| level.price);
        let meets = best(Side::Buy).zip(best(Side::Sell));
        match meets.is_some_and(|(bid, ask)| bid >= ask) && book.phase() == Phase::Continuous {
            true => Err(format!("the book of symbol {} is crossed", symbol.0)),
            false => Ok(()),
        }
    }

    /// A request is executed once, all its lots are accounted for, and it has one outcome for ever.
    fn check_once(&mut self, request: &Request, reply: &Reply) -> Result<(), String> {
        let named = name(request);
        if reply.is_repeated {
            self.repeated += 1;
            return match self.outcomes.get(&named) {
                Some(outcome) if *outcome == reply.outcome => Ok(()),
                other => Err(format!("{named:?} came to {other:?}, then to {reply:?}")),
            };
        }
        if is_old(reply) && self.outcomes.contains_key(&named) {
            self.repeated += 1;
            return Ok(());
        }
        if let Some(before) = self.outcomes.insert(named, reply.outcome) {
            return Err(format!("{named:?} was executed twice, first to {before:?}"));
        }
        match (request.action, reply.outcome) {
            (Action::Enter { quantity, .. }, Outcome::Entered(entered)) => {
                match entered.executed + entered.open + entered.cancelled == quantity {
                    true => Ok(()),
                    false => Err(format!("{quantity} lots became {entered:?}")),
                }
            }
            _ => Ok(()),
        }
    }

    /// Sequences have no gaps, what happens is possible in the book, and trades are with the order whose turn it is.
    fn check_message(&mut self, message: MarketMessage) -> Result<(), String> {
        let symbol = message.symbol;
        let book = self.books.entry(symbol);
        let book = book.or_insert_with(|| FollowedBook::new(symbol));
        if let MarketKind::Traded {
            resting,
            buying: None,
            incoming_side,
            ..
        } = message.kind
        {
            self.trades += 1;
            let turn = book.first(incoming_side.opposite());
            if turn != Some(resting) {
                return Err(format!("{message:?} before {turn:?}"));
            }
        }
        book.apply(&message)
            .map_err(|error| format!("{message:?}: {error}"))?;
        self.feed.entry(symbol).or_default().push(message);
        Ok(())
    }

    /// Whoever shows a message shows a committed one.
    pub(super) fn check_shown(&self, message: &MarketMessage) -> Result<(), String> {
        let of_symbol = self.feed.get(&message.symbol);
        let at = usize::try_from(message.sequence - 1).unwrap_or(usize::MAX);
        match of_symbol.and_then(|messages| messages.get(at)) {
            Some(committed) if committed == message => Ok(()),
            other => Err(format!("{message:?} is shown, and {other:?} is committed")),
        }
    }

    /// What a request came to, for whoever is told.
    pub(super) fn check_answer(&self, request: &Request, outcome: &Outcome) -> Result<(), String> {
        let known = self.outcomes.get(&name(request));
        match known == Some(outcome) {
            true => Ok(()),
            false => Err(format!("{request:?} was told {outcome:?}, not {known:?}")),
        }
    }

    /// A replica, or a replay of the log, holds what the others hold.
    pub(super) fn check_state(&self, exchange: &Exchange) -> Result<(), String> {
        let mut replayed = Exchange::default();
        for (entry, reply) in self.log.iter().zip(&self.replies) {
            if replayed.apply(&entry.at, entry.command) != *reply {
                return Err(format!("{entry:?} has another reply in a replay"));
            }
        }
        if replayed.save() != exchange.save() {
            return Err("a replica holds another state than a replay of the log".to_owned());
        }
        for (symbol, book) in &self.books {
            let Answer::Orders(open) = exchange.query(&Query::Orders(*symbol)) else {
                return Err(format!("symbol {} is gone", symbol.0));
            };
            if BookSnapshot::of(*symbol, &open) != book.snapshot() {
                return Err(format!("the feed of symbol {} is another book", symbol.0));
            }
        }
        Ok(())
    }
}
