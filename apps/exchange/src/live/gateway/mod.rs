//! A gateway as a process: orders of participants come in here, and what happens is shown here.
//!
//! It has a link to every replica. Requests are stamped and sent to the one that leads; events come from it, and what
//! is missed is fetched from any. Owners of orders are told at once, everybody else at the time of release.

mod feed;
mod fix;
mod fix_journal;
mod fix_sync;
mod links;
mod lost;
mod market;
mod orders;
mod web;

use super::clock;
use super::connection::{Outbox, WAITING_MAX};
use super::timer::Timer;
use super::tokens::Tokens;
use super::web::{SiteNames, WebMessage};
use crate::book::ParticipantId;
use crate::entry::{ClientMessage, Token};
use crate::exchange::{GatewayId, SymbolId};
use crate::fair::{Gateway, GatewayLimits, ReleaseHold};
use crate::fix::Message;
use crate::link::{FeedRequest, FromReplica, GatewayStatus};
use feed::Subscribers;
use fix::FixDesk;
use links::ReplicaLinks;
use lost::LostParticipants;
use market::Market;
use orders::{Form, Sessions};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;
use std::{fs, io};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use web::Browsers;

/// When a request without an answer is sent again, in ns.
const RESEND_NS: u64 = 100_000_000;
/// How many requests wait for their answers at a time. All of them go to a new leader at once, beside what else does.
const PENDING_MAX: GatewayLimits = GatewayLimits {
    all: WAITING_MAX / 2,
    each: WAITING_MAX / 8,
};
/// The longest that market data is held, in ns.
const HOLD_MAX_NS: u64 = 1_000_000_000;
/// How many events wait for the gateway.
const EVENTS_MAX: usize = 8192;
/// The time between two heartbeats for subscribers, and after which something is fetched again.
const TICK: Duration = Duration::from_millis(20);

/// How a gateway is set up.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// The gateway's number, which no other one has.
    pub id: GatewayId,
    /// The addresses of replicas for gateways.
    pub replicas: Vec<String>,
    /// The address for orders.
    pub orders: String,
    /// The address for the feed.
    pub feed: String,
    /// The address for browsers.
    pub web: String,
    /// The names under which browsers ask for the page, beside addresses.
    pub web_names: SiteNames,
    /// The address for engines that speak FIX, and the folder of their journals, which no other gateway has.
    pub fix: Option<(String, PathBuf)>,
    /// Who may log in with what; without them anybody may as anyone.
    pub tokens: Option<Tokens>,
    /// Whether the exchange is told of lost connections.
    pub cancels_on_disconnect: bool,
    /// After how long without a message a session ends, in ns.
    pub idle_ns: u64,
}

#[cfg(test)]
impl GatewayOptions {
    /// A gateway without replicas and addresses.
    fn alone() -> GatewayOptions {
        GatewayOptions {
            id: GatewayId(1),
            replicas: Vec::new(),
            orders: String::new(),
            feed: String::new(),
            web: String::new(),
            web_names: SiteNames::default(),
            fix: None,
            tokens: None,
            cancels_on_disconnect: false,
            idle_ns: 1_000_000_000,
        }
    }
}

/// What a gateway hears of.
#[derive(Debug)]
enum Event {
    Linked(usize, Outbox),
    Heard(usize, FromReplica),
    Unlinked(usize),
    SessionBegun(u64, Outbox, Form),
    SessionSays(u64, ClientMessage),
    SessionEnded(u64),
    FixBegun(u64, Outbox),
    FixSays(u64, Message),
    FixEnded(u64),
    SubscriberBegun(u64, Outbox),
    SubscriberSays(u64, FeedRequest),
    SubscriberEnded(u64),
    PageOpened(u64, Outbox),
    PageSays(u64, WebMessage),
    PageClosed(u64),
}

/// Runs a gateway for ever.
///
/// # Errors
/// Why it does not start, or cannot go on.
pub async fn run(options: GatewayOptions) -> Result<(), Box<dyn Error>> {
    let bound = async |what: &str, address: &str| {
        let listener = TcpListener::bind(address).await;
        listener.map_err(|error| format!("{what} cannot be taken at {address}: {error}"))
    };
    let orders = bound("orders", &options.orders).await?;
    let subscribers = bound("subscribers", &options.feed).await?;
    let browsers = bound("browsers", &options.web).await?;
    let (events, heard) = mpsc::channel(EVENTS_MAX);
    tokio::spawn(orders::accept(orders, events.clone()));
    tokio::spawn(feed::accept(subscribers, events.clone()));
    tokio::spawn(web::accept(
        browsers,
        options.web_names.clone(),
        events.clone(),
    ));
    let (mut desk, mut were_on) = (FixDesk::default(), Vec::new());
    if let Some((address, folder)) = &options.fix {
        let engines = bound("engines", address).await?;
        fs::create_dir_all(folder)?;
        (desk, were_on) = FixDesk::open(folder)?;
        tokio::spawn(fix::accept(engines, events.clone()));
    }
    for (place, address) in options.replicas.iter().enumerate() {
        let link = links::keep(place, address.clone(), options.id, events.clone());
        tokio::spawn(link);
    }
    let mut machine = GatewayMachine::new(options, desk)?;
    // Their connections were lost with the process before this one.
    for participant in were_on {
        machine.connection_lost(participant);
    }
    Ok(machine.run(heard).await?)
}

struct GatewayMachine {
    options: GatewayOptions,
    links: ReplicaLinks,
    gateway: Gateway,
    hold: ReleaseHold,
    markets: BTreeMap<SymbolId, Market>,
    sessions: Sessions,
    fix: FixDesk,
    lost: LostParticipants,
    subscribers: Subscribers,
    browsers: Browsers,
    status: GatewayStatus,
    /// What a replica was asked for: the first missing event of a symbol.
    fetching: Option<(SymbolId, u64)>,
    /// Symbols whose owners of orders are to be told of events that nobody shows any more.
    behind: BTreeSet<SymbolId>,
    timer: Timer,
    /// When the timer goes off, by the steady clock.
    armed_ns: Option<u64>,
}

impl GatewayMachine {
    /// A gateway that has heard of nothing yet.
    fn new(options: GatewayOptions, fix: FixDesk) -> io::Result<GatewayMachine> {
        Ok(GatewayMachine {
            links: ReplicaLinks::new(options.replicas.len()),
            gateway: Gateway::new(options.id, RESEND_NS, PENDING_MAX),
            hold: ReleaseHold::new(HOLD_MAX_NS),
            markets: BTreeMap::new(),
            sessions: Sessions::default(),
            fix,
            lost: LostParticipants::default(),
            subscribers: Subscribers::default(),
            browsers: Browsers::default(),
            status: GatewayStatus::default(),
            fetching: None,
            behind: BTreeSet::new(),
            timer: Timer::new()?,
            armed_ns: None,
            options,
        })
    }

    async fn run(mut self, mut heard: mpsc::Receiver<Event>) -> io::Result<()> {
        let mut tick = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                Some(event) = heard.recv() => self.handle(event),
                fired = self.timer.wait() => {
                    fired?;
                    self.armed_ns = None;
                }
                synced = self.fix.sync.done() => self.fix_synced(synced),
                _ = tick.tick() => self.tick(),
            }
            self.show();
            self.send_again();
            self.fix_sync();
            self.fix.take_failure()?;
            self.arm()?;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Linked(replica, outbox) => self.links.begin(replica, outbox),
            Event::Heard(replica, message) => self.hear(replica, message),
            Event::Unlinked(replica) => {
                if self.links.end(replica) {
                    self.send_all_again();
                    self.tell_all_lost();
                }
            }
            Event::SessionBegun(session, outbox, form) => {
                self.sessions.begin(session, outbox, form);
            }
            Event::SessionSays(session, message) => self.session_says(session, message),
            Event::SessionEnded(session) => self.session_ended(session),
            Event::FixBegun(connection, outbox) => self.fix.begin(connection, outbox),
            Event::FixSays(connection, message) => self.fix_says(connection, &message),
            Event::FixEnded(connection) => self.fix_ended(connection),
            Event::SubscriberBegun(subscriber, outbox) => self.greet(subscriber, outbox),
            Event::SubscriberSays(subscriber, request) => self.subscriber_says(subscriber, request),
            Event::SubscriberEnded(subscriber) => self.subscribers.end(subscriber),
            Event::PageOpened(session, outbox) => self.browsers.open(session, outbox),
            Event::PageSays(session, message) => self.page_says(session, &message),
            Event::PageClosed(session) => self.browsers.close(session),
        }
    }

    fn hear(&mut self, replica: usize, message: FromReplica) {
        match message {
            FromReplica::Leads(leads) => {
                if self.links.lead(replica, leads) {
                    // What the leader before it held is lost.
                    self.send_all_again();
                    self.tell_all_lost();
                }
            }
            FromReplica::Answer(answered) => self.answered(&answered),
            FromReplica::Events { release_ns, events } => self.take_events(release_ns, &events),
            FromReplica::Status { latest, requests } => {
                if self.links.leader() == Some(replica) {
                    self.status.requests = requests;
                }
                self.take_latest(latest);
            }
            FromReplica::Book { from, snapshot } => self.take_book(from, snapshot),
            FromReplica::Cancelled(participant) => self.lost.handle_cancelled(participant),
            FromReplica::Own {
                symbol,
                participant,
                orders,
            } => self.browsers.show_orders(symbol, participant, &orders),
            FromReplica::Clock(asked_ns) => self.links.tell_time(replica, asked_ns),
        }
    }

    fn tick(&mut self) {
        self.see_to_sessions();
        self.fix_tick();
        self.tell_lost();
        self.fetch_again();
        self.heartbeat();
        self.show_pages();
    }

    /// Whether somebody may be this participant.
    fn admits(&self, participant: ParticipantId, token: Option<Token>) -> bool {
        let Some(tokens) = &self.options.tokens else {
            return true;
        };
        token.is_some_and(|token| tokens.admits(participant, token))
    }

    /// Sets the timer to when something is to be shown or sent again next.
    fn arm(&mut self) -> io::Result<()> {
        let resend_ns = self.gateway.next_resend_ns();
        let due_ns = self.hold.next_release_ns().into_iter().chain(resend_ns);
        let Some(due_ns) = due_ns.min() else {
            return Ok(());
        };
        // A wake-up that comes too early costs less than setting the timer for each message.
        if self.armed_ns.is_none_or(|armed_ns| due_ns < armed_ns) {
            let after_ns = due_ns.saturating_sub(clock::now().steady_ns);
            self.timer.set(Some(after_ns))?;
            self.armed_ns = Some(due_ns);
        }
        Ok(())
    }

    fn status(&self) -> GatewayStatus {
        GatewayStatus {
            leader: self.links.leader().map_or(0, |place| place as u16 + 1),
            pending: self.gateway.pending() as u64,
            ..self.status
        }
    }
}
