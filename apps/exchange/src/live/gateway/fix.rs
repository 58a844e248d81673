//! Participants whose engines speak FIX: their connections and their clients, and what these hear.

use super::fix_sync::{GroupSync, Held};
use super::{Event, GatewayMachine, TICK, fix_journal};
use crate::book::{PARTICIPANTS_MAX, ParticipantId};
use crate::entry::{Report, Token};
use crate::exchange::SymbolId;
use crate::fix::{Client, LogonWish, Message, refusal};
use crate::link::AnsweredRequest;
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use crate::wire::WireError;
use fix_journal::Journal;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// How long a connection may take to log on, in ns.
const LOGON_NS: u64 = 10_000_000_000;
/// How many ticks there are between two notes of how far symbols are.
const POSITION_TICKS: u32 = 50;

/// A connection, logged on or not.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) outbox: Outbox,
    participant: Option<ParticipantId>,
    begun_ns: u64,
}

/// A participant with its journal, connected or not.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) client: Client,
    pub(super) journal: Journal,
    pub(super) connection: Option<u64>,
    pub(super) held: Held,
}

impl Seat {
    fn open(folder: &Path, participant: ParticipantId) -> io::Result<Seat> {
        let (journal, client) = Journal::open(folder, participant)?;
        Ok(Seat {
            client,
            journal,
            connection: None,
            held: Held::default(),
        })
    }
}

/// All who ever logged on here.
#[derive(Debug, Default)]
pub(super) struct FixDesk {
    pub(super) folder: PathBuf,
    pub(super) seats: BTreeMap<ParticipantId, Seat>,
    pub(super) connections: BTreeMap<u64, Connection>,
    /// How far each symbol was when this was last noted.
    positions: BTreeMap<SymbolId, u64>,
    ticks: u32,
    /// What waits for journals to be synced.
    pub(super) sync: GroupSync,
    /// Why the gateway cannot go on.
    pub(super) failed: Option<io::Error>,
}

/// Takes connections, for as long as the gateway runs.
pub(super) async fn accept(listener: TcpListener, events: mpsc::Sender<Event>) {
    for connection in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open: some connection has to end first.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (outbox, outgoing) = Outbox::new();
        let begun = Event::FixBegun(connection, outbox);
        if events.send(begun).await.is_err() {
            return;
        }
        let events = events.clone();
        tokio::spawn(async move {
            let says = |message| Event::FixSays(connection, message);
            // Where no message can begin nobody knows where the next one does.
            let take = |received: &mut Vec<u8>| {
                Message::take(received).map_err(|_| WireError::Value("frame"))
            };
            let _ = connection::run(stream, outgoing, take, &events, says).await;
            let _ = events.send(Event::FixEnded(connection)).await;
        });
    }
}

impl FixDesk {
    /// Reads what is kept of everybody who was here; returns who was logged on when the gateway before this one died.
    pub(super) fn open(folder: &Path) -> io::Result<(FixDesk, Vec<ParticipantId>)> {
        let mut desk = FixDesk {
            folder: folder.to_owned(),
            positions: fix_journal::read_positions(folder)?,
            ..FixDesk::default()
        };
        let mut were_on = Vec::new();
        for participant in fix_journal::participants(folder)? {
            let mut seat = Seat::open(folder, participant)?;
            if seat.client.handle_restart() {
                were_on.push(participant);
            }
            desk.seats.insert(participant, seat);
        }
        Ok((desk, were_on))
    }

    /// The last event of a symbol that everybody here was told; 0 where nobody knows.
    pub(super) fn position(&self, symbol: SymbolId) -> u64 {
        self.positions.get(&symbol).copied().unwrap_or(0)
    }

    /// Why the gateway cannot go on, if it cannot.
    pub(super) fn take_failure(&mut self) -> io::Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    pub(super) fn begin(&mut self, connection: u64, outbox: Outbox) {
        let begun = Connection {
            outbox,
            participant: None,
            begun_ns: clock::now().steady_ns,
        };
        self.connections.insert(connection, begun);
    }

    /// Whether a participant has a connection here.
    pub(super) fn is_on(&self, participant: ParticipantId) -> bool {
        let seat = self.seats.get(&participant);
        seat.is_some_and(|seat| seat.connection.is_some())
    }

    fn refuse(&mut self, connection: u64, message: &Message, why: &str) {
        if let Some(refused) = self.connections.remove(&connection) {
            refused.outbox.send(refusal(clock::now(), message, why));
        }
    }

    /// Has a place for a participant, new or old.
    fn seat(&mut self, participant: ParticipantId) -> io::Result<&mut Seat> {
        if !self.seats.contains_key(&participant) {
            let seat = Seat::open(&self.folder, participant)?;
            self.seats.insert(participant, seat);
        }
        self.seats
            .get_mut(&participant)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl GatewayMachine {
    pub(super) fn fix_says(&mut self, connection: u64, message: &Message) {
        let Some(found) = self.fix.connections.get(&connection) else {
            return;
        };
        let Some(participant) = found.participant else {
            if let Err(why) = self.log_on(connection, message) {
                self.fix.refuse(connection, message, &why);
            }
            return;
        };
        // A connection that is about to end says nothing any more.
        let seat = self.fix.seats.get_mut(&participant);
        if let Some(seat) = seat.filter(|seat| seat.connection == Some(connection)) {
            seat.client.handle_message(clock::now(), message);
            self.pump(participant);
        }
    }

    fn log_on(&mut self, connection: u64, message: &Message) -> Result<(), String> {
        let wish = LogonWish::read(message)?;
        let participant = wish.participant;
        let token = Token::of_text(&wish.password);
        if participant.0 >= PARTICIPANTS_MAX || !self.admits(participant, token) {
            return Err(format!(
                "participant {}: the password (554) is wrong or missing",
                participant.0
            ));
        }
        if self.lost.contains(participant) {
            return Err(
                "orders of a connection that was lost are being cancelled: try again".to_owned(),
            );
        }
        let seat = self.fix.seat(participant).map_err(|error| {
            eprintln!("the journal of participant {}: {error}", participant.0);
            "the gateway cannot open the journal of this participant".to_owned()
        })?;
        let before = seat.connection.replace(connection);
        if before.is_some() {
            seat.client.handle_connection_lost();
        }
        let begun = seat.client.handle_logon(clock::now(), message);
        if begun.is_err() {
            seat.connection = None;
        }
        // A session has one connection, and the newest is that of a participant which is there.
        before.map(|before| self.fix.connections.remove(&before));
        if let Some(found) = self.fix.connections.get_mut(&connection) {
            found.participant = Some(participant);
        }
        self.pump(participant);
        if begun.is_err() && before.is_some() {
            self.connection_lost(participant);
        }
        begun
    }

    pub(super) fn fix_ended(&mut self, connection: u64) {
        let ended = self.fix.connections.remove(&connection);
        let Some(participant) = ended.and_then(|ended| ended.participant) else {
            return;
        };
        let Some(seat) = self.fix.seats.get_mut(&participant) else {
            return;
        };
        if seat.connection == Some(connection) {
            seat.connection = None;
            seat.client.handle_connection_lost();
            self.pump(participant);
            self.connection_lost(participant);
        }
    }

    /// Tells participants of an event that is about their orders.
    pub(super) fn fix_event(&mut self, sequence: u64, reports: &[(ParticipantId, Report)]) {
        for (at, (participant, _)) in reports.iter().enumerate() {
            let is_first = reports[..at]
                .iter()
                .all(|(before, _)| before != participant);
            let Some(seat) = self.fix.seats.get_mut(participant).filter(|_| is_first) else {
                continue;
            };
            let own = reports.iter().filter(|(of, _)| of == participant);
            let own: Vec<Report> = own.map(|(_, report)| *report).collect();
            seat.client.handle_event(clock::now(), sequence, &own);
            self.pump(*participant);
        }
    }

    pub(super) fn fix_answered(&mut self, answered: &AnsweredRequest) {
        if let Some(seat) = self.fix.seats.get_mut(&answered.participant) {
            seat.client.handle_answer(clock::now(), answered);
            self.pump(answered.participant);
        }
    }

    /// Tells participants that nobody keeps the events of a symbol up to one.
    pub(super) fn fix_forgotten(&mut self, symbol: SymbolId, sequence: u64) {
        let participants: Vec<ParticipantId> = self.fix.seats.keys().copied().collect();
        for participant in participants {
            if let Some(seat) = self.fix.seats.get_mut(&participant) {
                seat.client.handle_forgotten(clock::now(), symbol, sequence);
            }
            self.pump(participant);
        }
    }

    /// Sees to signs of life, to requests that wait, and to those who connect and say nothing.
    pub(super) fn fix_tick(&mut self) {
        let now = clock::now();
        let participants: Vec<ParticipantId> = self.fix.seats.keys().copied().collect();
        for participant in participants {
            if let Some(seat) = self.fix.seats.get_mut(&participant) {
                seat.client.handle_tick(now);
            }
            self.pump(participant);
        }
        self.fix.connections.retain(|_, connection| {
            let waited_ns = now.steady_ns.saturating_sub(connection.begun_ns);
            connection.participant.is_some() || waited_ns < LOGON_NS
        });
        self.fix.ticks += 1;
        if self.fix.ticks.is_multiple_of(POSITION_TICKS) && !self.fix.seats.is_empty() {
            self.note_positions();
        }
    }

    /// Notes how far symbols are, so that the next gateway goes on there.
    fn note_positions(&mut self) {
        let markets = self.markets.iter();
        let told = markets.map(|(symbol, market)| (*symbol, market.told()));
        // A symbol that nobody has spoken of yet is where it was.
        let mut positions = self.fix.positions.clone();
        positions.extend(told);
        if positions != self.fix.positions {
            self.fix.sync.note(positions.clone());
            self.fix.positions = positions;
        }
    }
}
