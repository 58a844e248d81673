//! Participants: their requests on the way in, and what they are told.

use super::{Event, GatewayMachine, TICK};
use crate::book::ParticipantId;
use crate::entry::{ClientMessage, Report, ReportKind};
use crate::exchange::Request;
use crate::link::{AnsweredRequest, ToReplica};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use crate::live::web::{report_text, text_frame};
use std::collections::{BTreeMap, BTreeSet};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// The form of what a session is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Reports of fixed layouts.
    Binary,
    /// Texts for a web page.
    Web,
}

impl Form {
    fn write(self, report: &Report) -> Vec<u8> {
        match self {
            Form::Binary => report.to_bytes(),
            Form::Web => text_frame(&report_text(report)),
        }
    }
}

/// A connection of somebody who trades.
#[derive(Debug)]
struct Session {
    outbox: Outbox,
    form: Form,
    participant: Option<ParticipantId>,
}

/// The connections for orders.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    sessions: BTreeMap<u64, Session>,
    /// The sessions of each participant: all of them are told.
    by_participant: BTreeSet<(ParticipantId, u64)>,
}

/// Takes connections for orders, for as long as the gateway runs.
pub(super) async fn accept(listener: TcpListener, events: mpsc::Sender<Event>) {
    for session in 0.. {
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open: some connection has to end first.
            tokio::time::sleep(TICK).await;
            continue;
        };
        let (outbox, outgoing) = Outbox::new();
        let begun = Event::SessionBegun(session, outbox, Form::Binary);
        if events.send(begun).await.is_err() {
            return;
        }
        let events = events.clone();
        tokio::spawn(async move {
            let says = |message| Event::SessionSays(session, message);
            // Whoever sends what is no message has no session any more.
            let _ = connection::run(stream, outgoing, ClientMessage::take, &events, says).await;
            let _ = events.send(Event::SessionEnded(session)).await;
        });
    }
}

impl Sessions {
    pub(super) fn begin(&mut self, session: u64, outbox: Outbox, form: Form) {
        let begun = Session {
            outbox,
            form,
            participant: None,
        };
        self.sessions.insert(session, begun);
    }

    pub(super) fn end(&mut self, session: u64) {
        let ended = self.sessions.remove(&session);
        if let Some(participant) = ended.and_then(|ended| ended.participant) {
            self.by_participant.remove(&(participant, session));
        }
    }

    /// Tells a participant something, if it has a session here.
    pub(super) fn tell(&mut self, participant: ParticipantId, report: &Report) {
        let all = (participant, 0)..=(participant, u64::MAX);
        let mut gone = Vec::new();
        for (_, session) in self.by_participant.range(all) {
            if let Some(found) = self.sessions.get(session)
                && !found.outbox.send(found.form.write(report))
            {
                gone.push(*session);
            }
        }
        for session in gone {
            self.end(session);
        }
    }

    fn log_in(&mut self, session: u64, participant: ParticipantId) {
        if let Some(found) = self.sessions.get_mut(&session)
            && found.participant.is_none()
        {
            found.participant = Some(participant);
            self.by_participant.insert((participant, session));
        }
    }

    fn participant(&self, session: u64) -> Option<ParticipantId> {
        self.sessions.get(&session)?.participant
    }
}

impl GatewayMachine {
    pub(super) fn session_says(&mut self, session: u64, message: ClientMessage) {
        match message {
            ClientMessage::Login(participant) => self.sessions.log_in(session, participant),
            ClientMessage::Heartbeat => {}
            ClientMessage::Logout => self.sessions.end(session),
            ClientMessage::Request(request) => match self.sessions.participant(session) {
                Some(participant) if self.request(request.of(participant)) => {}
                // Nobody is logged in, or too much is under way: it may come again later.
                _ => self.sessions.end(session),
            },
        }
    }

    /// Stamps a request and sends it to the leader; false where too many are under way.
    fn request(&mut self, request: Request) -> bool {
        let stamped = self.gateway.handle_request(clock::now(), request);
        if let Ok(stamped) = &stamped {
            self.links.send_to_leader(&ToReplica::Order(*stamped));
        }
        stamped.is_ok()
    }

    /// Tells a participant what a request came to, once.
    pub(super) fn answered(&mut self, answered: &AnsweredRequest) {
        let (symbol, participant, number) =
            (answered.symbol, answered.participant, answered.number);
        if self.gateway.handle_answer(symbol, participant, number) {
            let report = Report {
                symbol,
                number,
                kind: ReportKind::Answered {
                    outcome: answered.outcome,
                    is_repeated: answered.is_repeated,
                },
            };
            self.tell(participant, &report);
        }
    }

    /// Tells a participant something, if it has a session here.
    pub(super) fn tell(&mut self, participant: ParticipantId, report: &Report) {
        self.sessions.tell(participant, report);
        self.browsers.note_report(participant);
    }

    /// Sends requests again that are without an answer for long.
    pub(super) fn send_again(&mut self) {
        let now = clock::now();
        while let Some(stamped) = self.gateway.poll_resend(now) {
            self.links.send_to_leader(&ToReplica::Order(stamped));
        }
    }

    /// Sends all requests again that wait for an answer: to a new leader.
    pub(super) fn send_all_again(&mut self) {
        for stamped in self.gateway.unanswered() {
            self.links.send_to_leader(&ToReplica::Order(stamped));
        }
    }
}
