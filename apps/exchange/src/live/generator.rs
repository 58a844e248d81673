//! Participants who trade at a rate, and what they see.

use super::clock;
use super::connection::{self, Outbox};
use super::timer::Timer;
use super::tokens::Tokens;
use crate::book::ParticipantId;
use crate::entry::{ClientMessage, OrderRequest, Report, ReportKind, ServerMessage, Token};
use crate::exchange::{Action, Outcome, Request};
use crate::histogram::Histogram;
use crate::simulated::{Name, Participants, Scenario, exponential};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// How many reports wait for the generator.
const REPORTS_MAX: usize = 65_536;
/// The pause before a gateway that is not there is dialled again.
const DIAL_PAUSE: Duration = Duration::from_millis(50);
/// How long the last answers are waited for, in ns.
const PATIENCE_NS: u64 = 20_000_000_000;
/// How long nothing is reported until nothing more will be, in ns.
const QUIET_NS: u64 = 300_000_000;
/// How long participants say nothing that have nothing to say, in ns.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// How often it is looked whether the last answer has come.
const TICK: Duration = Duration::from_millis(10);

/// The requests that participants send: how many, how often, and for how long.
#[derive(Clone, Debug)]
pub struct Load {
    /// How many participants trade; they are spread over the gateways.
    pub participants: u16,
    /// How many symbols they trade.
    pub symbols: u16,
    /// The mean number of requests in a second, of all participants together: a Poisson process.
    pub rate: u64,
    /// For how long they trade, in ns.
    pub time_ns: u64,
    /// What the requests are drawn from.
    pub seed: u64,
}

/// Requests, answers and trades, as participants counted them.
#[derive(Clone, Debug, Default)]
pub struct LoadSeen {
    /// The requests that were sent.
    pub sent: u64,
    /// Requests that were answered, each once.
    pub answered: u64,
    /// Requests that were answered by what they had come to before: they were sent again to another leader.
    pub repeated: u64,
    /// Requests that were not made, since too many of the participant's waited in the symbol.
    pub skipped: u64,
    /// How often participants were told that an order of theirs traded.
    pub executions: u64,
    /// The times from when a request was to be made to its answer.
    pub confirmed: Histogram,
    /// The times from when an order was to be made to the report of its first trade, of those that traded at once.
    pub executed: Histogram,
    /// The longest time between two answers, in ns.
    pub longest_pause_ns: u64,
    /// The time from the first request to the last answer, in ns.
    pub time_ns: u64,
}

enum Event {
    Connected(u16, Outbox),
    Heard(u16, ServerMessage),
}

/// Keeps a participant's connection, for as long as somebody listens.
async fn keep(participant: u16, token: Token, gateway: String, events: mpsc::Sender<Event>) {
    loop {
        if let Ok(stream) = TcpStream::connect(&gateway).await {
            let (outbox, outgoing) = Outbox::new();
            let login = ClientMessage::Login(ParticipantId(participant), token);
            outbox.send(login.to_bytes());
            let connected = Event::Connected(participant, outbox);
            if events.send(connected).await.is_err() {
                return;
            }
            let reported = |message| Event::Heard(participant, message);
            // What was not answered is sent again over the next connection.
            let _ = connection::run(stream, outgoing, ServerMessage::take, &events, reported).await;
        }
        if events.is_closed() {
            return;
        }
        tokio::time::sleep(DIAL_PAUSE).await;
    }
}

/// Trades through gateways, and waits for the last answer.
///
/// # Errors
/// Why there is no trading.
pub async fn trade(load: Load, gateways: &[String], tokens: &Tokens) -> io::Result<LoadSeen> {
    let (events, heard) = mpsc::channel(REPORTS_MAX);
    for participant in 0..load.participants {
        let gateway = gateways[usize::from(participant) % gateways.len()].clone();
        let token = tokens.of(ParticipantId(participant));
        tokio::spawn(keep(participant, token, gateway, events.clone()));
    }
    let begun_ns = clock::now().steady_ns;
    let traders = Traders {
        rng: Rng::with_seed(load.seed),
        // Numbers go on where an earlier run ended, and nobody else's do.
        participants: Participants::from_number(clock::now().clock_ns / 1000),
        scenario: Scenario {
            participants: load.participants,
            symbols: load.symbols,
            ..Scenario::default()
        },
        outboxes: vec![None; usize::from(load.participants)],
        unreported: BTreeMap::new(),
        begun_ns,
        next_ns: begun_ns,
        alive_ns: begun_ns,
        answered_ns: begun_ns,
        reported_ns: begun_ns,
        load,
        seen: LoadSeen::default(),
    };
    traders.run(heard).await
}

struct Traders {
    load: Load,
    rng: Rng,
    participants: Participants,
    scenario: Scenario,
    outboxes: Vec<Option<Outbox>>,
    /// When orders were made that traded at once by their answers, and whose trades are not reported yet; and the other
    /// way round.
    unreported: BTreeMap<Name, u64>,
    begun_ns: u64,
    /// When the next request is to be made.
    next_ns: u64,
    /// When participants last said that they are there.
    alive_ns: u64,
    answered_ns: u64,
    reported_ns: u64,
    seen: LoadSeen,
}

impl Traders {
    async fn run(mut self, mut heard: mpsc::Receiver<Event>) -> io::Result<LoadSeen> {
        let timer = Timer::new()?;
        let end_ns = self.begun_ns + self.load.time_ns;
        let mut tick = tokio::time::interval(TICK);
        timer.set(Some(1))?;
        loop {
            tokio::select! {
                Some(event) = heard.recv() => self.handle(event),
                fired = timer.wait() => {
                    fired?;
                    let now_ns = clock::now().steady_ns;
                    while self.next_ns <= now_ns.min(end_ns) {
                        self.make_request();
                    }
                    let left_ns = self.next_ns.saturating_sub(now_ns);
                    timer.set((self.next_ns <= end_ns).then_some(left_ns.max(1)))?;
                }
                _ = tick.tick() => self.say_alive(),
            }
            let now_ns = clock::now().steady_ns;
            let is_quiet = now_ns - self.reported_ns > QUIET_NS;
            let is_over = is_quiet && self.participants.waiting.is_empty();
            if now_ns > end_ns && (is_over || now_ns > end_ns + PATIENCE_NS) {
                break;
            }
        }
        self.seen.sent = self.participants.sent;
        self.seen.time_ns = self.answered_ns - self.begun_ns;
        Ok(self.seen)
    }

    /// Says now and then that all participants are there.
    fn say_alive(&mut self) {
        let now_ns = clock::now().steady_ns;
        if now_ns - self.alive_ns > HEARTBEAT_NS {
            self.alive_ns = now_ns;
            for outbox in self.outboxes.iter().flatten() {
                outbox.send(ClientMessage::Heartbeat.to_bytes());
            }
        }
    }

    fn make_request(&mut self) {
        let due_ns = self.next_ns;
        let mean_ns = 1_000_000_000 / self.load.rate.max(1);
        self.next_ns += exponential(&mut self.rng, mean_ns);
        match (self.participants).draw(&mut self.rng, &self.scenario, due_ns) {
            Some(request) => self.send(&request),
            None => self.seen.skipped += 1,
        }
    }

    fn send(&mut self, request: &Request) {
        let outbox = &mut self.outboxes[usize::from(request.participant.0)];
        let message = ClientMessage::Request(OrderRequest {
            symbol: request.symbol,
            number: request.number,
            action: request.action,
        });
        if outbox
            .as_ref()
            .is_some_and(|outbox| !outbox.send(message.to_bytes()))
        {
            *outbox = None;
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(participant, outbox) => {
                self.outboxes[usize::from(participant)] = Some(outbox);
                let waiting = self.participants.waiting.values();
                let of_one = waiting.filter(|one| one.request.participant.0 == participant);
                for request in of_one.map(|one| one.request).collect::<Vec<_>>() {
                    self.send(&request);
                }
            }
            Event::Heard(participant, ServerMessage::Report(report)) => {
                self.reported(participant, &report);
            }
            Event::Heard(participant, ServerMessage::Ended(why)) => {
                eprintln!("participant {participant}: {why}");
            }
            Event::Heard(_, ServerMessage::LoggedIn | ServerMessage::Heartbeat) => {}
        }
    }

    fn reported(&mut self, participant: u16, report: &Report) {
        self.reported_ns = clock::now().steady_ns;
        let named = (report.symbol, participant, report.number);
        match report.kind {
            ReportKind::Answered {
                outcome,
                is_repeated,
            } => self.answered(named, outcome, is_repeated),
            ReportKind::Executed { was_resting, .. } => {
                self.seen.executions += 1;
                if !was_resting {
                    self.executed(named);
                }
            }
            ReportKind::Ended { .. } => {}
        }
    }

    fn answered(&mut self, named: Name, outcome: Outcome, is_repeated: bool) {
        let Some(waiting) = self.participants.waiting.remove(&named) else {
            return;
        };
        let now_ns = self.reported_ns;
        self.seen.answered += 1;
        self.seen.repeated += u64::from(is_repeated);
        let since_ns = now_ns.saturating_sub(waiting.sent_ns);
        self.seen.confirmed.record(since_ns);
        let pause_ns = now_ns - self.answered_ns;
        self.seen.longest_pause_ns = self.seen.longest_pause_ns.max(pause_ns);
        self.answered_ns = now_ns;
        let was_reported = self.unreported.remove(&named).is_some();
        let is_order = matches!(waiting.request.action, Action::Enter { .. });
        let traded = matches!(outcome, Outcome::Entered(entered) if entered.executed > 0);
        if is_order && traded && !is_repeated && !was_reported {
            self.unreported.insert(named, waiting.sent_ns);
        }
    }

    /// Counts the first trade of an order, which may be reported before the order is answered.
    fn executed(&mut self, named: Name) {
        let sent_ns = match self.participants.waiting.get(&named) {
            Some(waiting) => match self.unreported.insert(named, waiting.sent_ns) {
                None => Some(waiting.sent_ns),
                Some(_) => None,
            },
            None => self.unreported.remove(&named),
        };
        if let Some(sent_ns) = sent_ns {
            let since_ns = self.reported_ns.saturating_sub(sent_ns);
            self.seen.executed.record(since_ns);
        }
    }
}
