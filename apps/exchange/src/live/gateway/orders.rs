//! Participants: their requests on the way in, and what they are told.

use super::{Event, GatewayMachine, TICK};
use crate::book::ParticipantId;
use crate::entry::{ClientMessage, Report, ReportKind, ServerMessage, SessionEnd, Token};
use crate::exchange::Request;
use crate::link::{AnsweredRequest, ToReplica};
use crate::live::clock;
use crate::live::connection::{self, Outbox};
use crate::live::web::{notice_text, report_text, text_frame};
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

    fn write_end(self, why: SessionEnd) -> Vec<u8> {
        match self {
            Form::Binary => ServerMessage::Ended(why).to_bytes(),
            Form::Web => text_frame(&notice_text(&why)),
        }
    }
}

/// A connection of somebody who trades.
#[derive(Debug)]
struct Session {
    outbox: Outbox,
    form: Form,
    participant: Option<ParticipantId>,
    /// When something came last, by the steady clock.
    heard_ns: u64,
    /// When a heartbeat was sent last, by the steady clock.
    said_ns: u64,
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
            heard_ns: clock::now().steady_ns,
            said_ns: clock::now().steady_ns,
        };
        self.sessions.insert(session, begun);
    }

    /// Ends a session; returns whose it was, of one that is not a page's.
    pub(super) fn end(&mut self, session: u64) -> Option<ParticipantId> {
        let ended = self.sessions.remove(&session)?;
        let participant = ended.participant?;
        self.by_participant.remove(&(participant, session));
        Some(participant).filter(|_| ended.form == Form::Binary)
    }

    /// Whether a participant has a session that is not a page's.
    pub(super) fn is_on(&self, participant: ParticipantId) -> bool {
        let all = (participant, 0)..=(participant, u64::MAX);
        let mut sessions = self.by_participant.range(all);
        sessions.any(|(_, session)| {
            let found = self.sessions.get(session);
            found.is_some_and(|found| found.form == Form::Binary)
        })
    }

    /// Tells a participant something, if it has a session here; returns the sessions that are too slow.
    #[must_use]
    fn tell(&mut self, participant: ParticipantId, report: &Report) -> Vec<u64> {
        let all = (participant, 0)..=(participant, u64::MAX);
        let mut gone = Vec::new();
        for (_, session) in self.by_participant.range(all) {
            if let Some(found) = self.sessions.get(session)
                && !found.outbox.send(found.form.write(report))
            {
                gone.push(*session);
            }
        }
        gone
    }

    fn log_in(&mut self, session: u64, participant: ParticipantId) {
        if let Some(found) = self.sessions.get_mut(&session) {
            found.participant = Some(participant);
            if found.form == Form::Binary {
                found.outbox.send(ServerMessage::LoggedIn.to_bytes());
            }
            self.by_participant.insert((participant, session));
        }
    }

    pub(super) fn participant(&self, session: u64) -> Option<ParticipantId> {
        self.sessions.get(&session)?.participant
    }
}

impl GatewayMachine {
    pub(super) fn session_says(&mut self, session: u64, message: ClientMessage) {
        if let Some(found) = self.sessions.sessions.get_mut(&session) {
            found.heard_ns = clock::now().steady_ns;
        }
        match message {
            ClientMessage::Login(participant, token) => {
                if let Err(why) = self.log_in(session, participant, token) {
                    self.end_session(session, why);
                }
            }
            ClientMessage::Heartbeat => {}
            ClientMessage::Logout => {
                self.sessions.end(session);
            }
            ClientMessage::Request(request) => match self.sessions.participant(session) {
                Some(participant) if self.request(request.of(participant)) => {}
                Some(_) => self.end_session(session, SessionEnd::Full),
                None => self.end_session(session, SessionEnd::Login),
            },
        }
    }

    fn log_in(
        &mut self,
        session: u64,
        participant: ParticipantId,
        token: Token,
    ) -> Result<(), SessionEnd> {
        if self.sessions.participant(session).is_some() {
            return Err(SessionEnd::Login);
        }
        if !self.admits(participant, Some(token)) {
            return Err(SessionEnd::Token);
        }
        if self.lost.contains(participant) {
            return Err(SessionEnd::Cancelling);
        }
        self.sessions.log_in(session, participant);
        Ok(())
    }

    /// Ends a session, and says why.
    fn end_session(&mut self, session: u64, why: SessionEnd) {
        if let Some(found) = self.sessions.sessions.get(&session) {
            found.outbox.send(found.form.write_end(why));
        }
        self.session_ended(session);
    }

    /// Learns that the connection of a session is gone, or is to go.
    pub(super) fn session_ended(&mut self, session: u64) {
        if let Some(participant) = self.sessions.end(session) {
            self.connection_lost(participant);
        }
    }

    /// Ends sessions that nothing comes from, and says to the others that the gateway is there.
    pub(super) fn see_to_sessions(&mut self) {
        let (now_ns, idle_ns) = (clock::now().steady_ns, self.options.idle_ns);
        let mut idle = Vec::new();
        for (number, session) in &mut self.sessions.sessions {
            if session.form != Form::Binary {
                continue;
            }
            let since = |before_ns: u64| now_ns.saturating_sub(before_ns);
            if since(session.heard_ns) >= idle_ns {
                idle.push(*number);
            } else if since(session.said_ns) >= idle_ns / 3 && session.participant.is_some() {
                session.said_ns = now_ns;
                // One that is too slow ends where it is told something.
                session.outbox.send(ServerMessage::Heartbeat.to_bytes());
            }
        }
        for session in idle {
            self.end_session(session, SessionEnd::Idle);
        }
    }

    /// Stamps a request and sends it to the leader; false where too many are under way.
    pub(super) fn request(&mut self, request: Request) -> bool {
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
            self.fix_answered(answered);
        }
    }

    /// Tells a participant something, if it has a session here.
    pub(super) fn tell(&mut self, participant: ParticipantId, report: &Report) {
        for slow in self.sessions.tell(participant, report) {
            self.session_ended(slow);
        }
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
