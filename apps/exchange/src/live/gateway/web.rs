//! Browsers: each sees one symbol, and may trade as one participant.

use super::orders::Form;
use super::{Event, GatewayMachine, TICK};
use crate::book::{ParticipantId, Price, Pricing, SelfTrade, Side, TimeInForce};
use crate::entry::{ClientMessage, OrderRequest, Token};
use crate::exchange::{Action, SymbolId};
use crate::link::{OwnOrder, ToReplica};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use crate::live::web::{self, SiteNames, View, WebMessage, orders_text, text_frame, view_text};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Sessions of browsers have the numbers from here on.
const FIRST_SESSION: u64 = 1 << 63;
/// How many ticks there are between two views.
const VIEW_TICKS: u32 = 5;
/// The most trades that are told at once.
const NEWS_MAX: usize = 100;

/// A page that is open somewhere.
#[derive(Debug)]
struct Browser {
    outbox: Outbox,
    symbol: SymbolId,
    /// The last message of the symbol that the page was told of.
    told: u64,
    participant: Option<ParticipantId>,
    /// Whether something may have happened to the participant's orders since they were told.
    orders_changed: bool,
}

/// The pages that are open, by the numbers of their sessions.
#[derive(Debug, Default)]
pub(super) struct Browsers {
    browsers: BTreeMap<u64, Browser>,
    ticks: u32,
    /// The last number of a request from a page.
    number: u64,
}

/// What a page wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Login(ParticipantId, Token),
    Show(SymbolId),
    Trade(Action),
}

impl Wish {
    fn read(text: &str) -> Option<Wish> {
        let mut words = text.split(' ');
        let verb = words.next()?;
        if verb == "login" {
            let participant = ParticipantId(words.next()?.parse().ok()?);
            let token = Token::of_text(words.next().unwrap_or_default())?;
            return words
                .next()
                .is_none()
                .then_some(Wish::Login(participant, token));
        }
        let numbers: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let small = |number: u64| u16::try_from(number).ok();
        Some(match (verb, numbers?.as_slice()) {
            ("symbol", [symbol]) => Wish::Show(SymbolId(small(*symbol)?)),
            ("cancel", [number]) => Wish::Trade(Action::Cancel(*number)),
            ("buy", [quantity, price]) => Wish::enter(Side::Buy, *quantity, *price)?,
            ("sell", [quantity, price]) => Wish::enter(Side::Sell, *quantity, *price)?,
            _ => return None,
        })
    }

    fn enter(side: Side, quantity: u64, price: u64) -> Option<Wish> {
        Some(Wish::Trade(Action::Enter {
            side,
            quantity,
            pricing: Pricing::Limit(Price(u32::try_from(price).ok()?)),
            time_in_force: TimeInForce::GoodTillCancel,
            post_only: false,
            self_trade: SelfTrade::CancelOldest,
        }))
    }
}

/// Takes browsers, for as long as the gateway runs.
pub(super) async fn accept(listener: TcpListener, names: SiteNames, events: mpsc::Sender<Event>) {
    let names = Arc::new(names);
    for session in FIRST_SESSION.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open: some connection has to end first.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (names, events) = (Arc::clone(&names), events.clone());
        // What a browser does wrong is its own business.
        tokio::spawn(async move { serve(session, stream, &names, events).await });
    }
}

async fn serve(
    session: u64,
    stream: TcpStream,
    names: &SiteNames,
    events: mpsc::Sender<Event>,
) -> io::Result<()> {
    let Some(stream) = web::serve(stream, names).await? else {
        return Ok(());
    };
    let (outbox, outgoing) = Outbox::new();
    let begun = Event::SessionBegun(session, outbox.clone(), Form::Web);
    let opened = Event::PageOpened(session, outbox);
    for event in [begun, opened] {
        events.send(event).await.map_err(io::Error::other)?;
    }
    let says = |message| Event::PageSays(session, message);
    let ended = connection::run(stream, outgoing, WebMessage::take, &events, says).await;
    for event in [Event::PageClosed(session), Event::SessionEnded(session)] {
        events.send(event).await.map_err(io::Error::other)?;
    }
    ended
}

impl Browsers {
    pub(super) fn open(&mut self, session: u64, outbox: Outbox) {
        let opened = Browser {
            outbox,
            symbol: SymbolId(0),
            told: 0,
            participant: None,
            orders_changed: false,
        };
        self.browsers.insert(session, opened);
    }

    pub(super) fn close(&mut self, session: u64) {
        self.browsers.remove(&session);
    }

    /// Learns that something may have happened to the orders of a participant.
    pub(super) fn note_report(&mut self, participant: ParticipantId) {
        for browser in self.browsers.values_mut() {
            browser.orders_changed |= browser.participant == Some(participant);
        }
    }

    /// Shows a participant's open orders to the pages that look at their symbol.
    pub(super) fn show_orders(
        &mut self,
        symbol: SymbolId,
        participant: ParticipantId,
        orders: &[OwnOrder],
    ) {
        let text = text_frame(&orders_text(symbol, orders));
        for page in self.browsers.values() {
            if page.symbol == symbol && page.participant == Some(participant) {
                page.outbox.send(text.clone());
            }
        }
    }
}

impl GatewayMachine {
    pub(super) fn page_says(&mut self, session: u64, message: &WebMessage) {
        let Some(browser) = self.browsers.browsers.get_mut(&session) else {
            return;
        };
        let text = match message {
            WebMessage::Text(text) => text,
            WebMessage::Close => return self.close_page(session),
            other => {
                if let Some(answer) = other.answer() {
                    browser.outbox.send(answer);
                }
                return;
            }
        };
        match Wish::read(text) {
            Some(Wish::Show(symbol)) => {
                browser.symbol = symbol;
                browser.told = 0;
                browser.orders_changed = true;
            }
            Some(Wish::Login(participant, token)) => {
                self.session_says(session, ClientMessage::Login(participant, token));
                let participant = self.sessions.participant(session);
                if let Some(browser) = self.browsers.browsers.get_mut(&session) {
                    browser.participant = participant;
                    browser.orders_changed = true;
                }
            }
            Some(Wish::Trade(action)) => {
                let symbol = browser.symbol;
                // Numbers of earlier pages, and at other gateways, are lower.
                let number = (clock::now().clock_ns / 1000).max(self.browsers.number + 1);
                self.browsers.number = number;
                let request = OrderRequest {
                    symbol,
                    number,
                    action,
                };
                self.session_says(session, ClientMessage::Request(request));
            }
            // The script of the page says nothing else.
            None => self.close_page(session),
        }
    }

    fn close_page(&mut self, session: u64) {
        self.browsers.close(session);
        self.sessions.end(session);
    }

    /// Shows every page its symbol now and then, and asks for the orders that may have changed.
    pub(super) fn show_pages(&mut self) {
        self.browsers.ticks += 1;
        if !self.browsers.ticks.is_multiple_of(VIEW_TICKS) {
            return;
        }
        let (status, symbols) = (self.status(), self.markets.len());
        for browser in self.browsers.browsers.values_mut() {
            if std::mem::take(&mut browser.orders_changed)
                && let Some(participant) = browser.participant
            {
                let symbol = browser.symbol;
                let wanted = ToReplica::Own(symbol, participant);
                self.links.send_to_leader(&wanted);
            }
            let Some(market) = self.markets.get(&browser.symbol) else {
                continue;
            };
            let shown = market.recent.iter().rev();
            let news = shown.take_while(|message| message.sequence > browser.told);
            let mut news: Vec<_> = news.take(NEWS_MAX).collect();
            news.reverse();
            browser.told = market.book.sequence();
            let view = View {
                book: &market.book,
                news,
                symbols,
                status,
            };
            let text = view_text(browser.symbol, &view);
            // The connection of a page that is too slow ends, and its script makes another one.
            browser.outbox.send(text_frame(&text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_says_is_a_wish_or_nothing() {
        let login = |token| Wish::Login(ParticipantId(3), Token::of_text(token).unwrap());
        assert_eq!(Wish::read("login 3"), Some(login("")));
        assert_eq!(Wish::read("login 3 token"), Some(login("token")));
        assert_eq!(Wish::read("symbol 7"), Some(Wish::Show(SymbolId(7))));
        assert_eq!(Wish::read("cancel 5"), Some(Wish::Trade(Action::Cancel(5))));
        assert_eq!(Wish::read("sell 2 99"), Wish::enter(Side::Sell, 2, 99));
        for wrong in [
            "",
            "login",
            "login x",
            "login 3 token more",
            "symbol 70000",
            "buy 1",
            "buy 1 2 3",
            "buy 1 -2",
        ] {
            assert_eq!(Wish::read(wrong), None, "{wrong}");
        }
    }
}
