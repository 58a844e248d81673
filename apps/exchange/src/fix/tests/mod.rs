//! A client at an exchange of its own, without sockets: what it is sent, and what is in its journal.

mod orders;
mod recovery;
mod sessions;

use super::{Client, FixOutput, Message, header, read, tag, time};
use crate::book::ParticipantId;
use crate::entry::{Report, event_reports};
use crate::exchange::tests::{at, exchange};
use crate::exchange::{Command, Exchange, Request, SymbolId};
use crate::fair::Now;
use crate::link::AnsweredRequest;
use quorate::StateMachine;
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;
/// The participant whose client is tested; its orders outlive its connection.
const OWN: ParticipantId = ParticipantId(1);
/// A participant without a session here.
const OTHER: ParticipantId = ParticipantId(3);

/// Whether answers of the exchange come before the events that belong to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum First {
    Answers,
    Events,
}

struct Desk {
    client: Client,
    exchange: Exchange,
    journal: Vec<u8>,
    /// The number of the next message of the participant.
    number: u64,
    steady_ns: u64,
    first: First,
    /// Whether the exchange is away: requests get lost.
    is_away: bool,
    said: VecDeque<Message>,
    /// How often a connection was ended, and whether that was without a word.
    ended: Vec<bool>,
}

impl Desk {
    fn new(first: First) -> Desk {
        Desk {
            client: Client::new(OWN),
            exchange: exchange(),
            journal: header(OWN),
            number: 1,
            steady_ns: SECOND,
            first,
            is_away: false,
            said: VecDeque::new(),
            ended: Vec::new(),
        }
    }

    /// A client that is logged on.
    fn logged_on(first: First) -> Desk {
        let mut desk = Desk::new(first);
        desk.log_on(&[]);
        assert_eq!(desk.say(), "A 34=1 98=0 108=30");
        desk
    }

    fn now(&self) -> Now {
        Now {
            clock_ns: self.steady_ns,
            steady_ns: self.steady_ns,
        }
    }

    /// A message under the next number, with more fields.
    fn message(&mut self, kind: &str, fields: &[(u32, &str)]) -> Message {
        let mut message = Message::new(kind)
            .with(tag::SENDER, OWN.0)
            .with(tag::TARGET, "EXCHANGE")
            .with(tag::MSG_SEQ_NUM, self.number)
            .with(tag::SENDING_TIME, time::text(self.steady_ns));
        self.number += 1;
        for (tag, value) in fields {
            message.push(*tag, value);
        }
        message
    }

    fn log_on(&mut self, fields: &[(u32, &str)]) {
        let logon = self.message("A", &[&[(98, "0"), (108, "30")], fields].concat());
        self.client.handle_logon(self.now(), &logon).unwrap();
        self.run();
    }

    fn tell(&mut self, kind: &str, fields: &[(u32, &str)]) {
        let message = self.message(kind, fields);
        self.take(&message);
    }

    fn take(&mut self, message: &Message) {
        self.client.handle_message(self.now(), message);
        self.run();
    }

    /// A message of orders: the symbol is 2, and the time is now.
    fn ask(&mut self, kind: &str, fields: &[(u32, &str)]) {
        let now = time::text(self.steady_ns);
        self.tell(kind, &[&[(55, "2"), (60, &*now)], fields].concat());
    }

    fn wait(&mut self, ns: u64) {
        self.steady_ns += ns;
        self.client.handle_tick(self.now());
        self.run();
    }

    /// Does what the client wants done, as a gateway does.
    fn run(&mut self) {
        loop {
            self.journal.extend(self.client.take_record());
            let Some(output) = self.client.poll_output() else {
                break;
            };
            match output {
                FixOutput::Send(mut bytes) => {
                    let message = Message::take(&mut bytes).unwrap().unwrap();
                    assert!(bytes.is_empty());
                    self.said.push_back(message);
                }
                FixOutput::Submit(_) if self.is_away => {}
                FixOutput::Submit(request) => self.carry_out(request.of(OWN)),
                FixOutput::Disconnect { is_lost } => self.ended.push(is_lost),
            }
        }
    }

    /// Has the exchange do something, and tells the client what it hears of it.
    fn carry_out(&mut self, request: Request) {
        let reply = self
            .exchange
            .apply(&at(self.steady_ns), Command::Request(request));
        let answered = AnsweredRequest {
            symbol: request.symbol,
            participant: request.participant,
            number: request.number,
            outcome: reply.outcome,
            is_repeated: reply.is_repeated,
        };
        let is_own = request.participant == OWN;
        if is_own && self.first == First::Answers {
            self.client.handle_answer(self.now(), &answered);
        }
        for event in &reply.events {
            let reports = event_reports(event).into_iter();
            let own = reports.filter(|(participant, _)| *participant == OWN);
            let own: Vec<Report> = own.map(|(_, report)| report).collect();
            self.client
                .handle_event(self.now(), event.event.sequence, &own);
        }
        if is_own && self.first == First::Events {
            self.client.handle_answer(self.now(), &answered);
        }
        self.run();
    }

    /// Has the other participant do something.
    fn other(&mut self, number: u64, action: crate::exchange::Action) {
        self.carry_out(Request {
            symbol: SymbolId(2),
            participant: OTHER,
            number,
            action,
        });
    }

    /// Kills the gateway, and starts it again from its journal.
    fn kill(&mut self) {
        let journaled = read(&self.journal).unwrap();
        assert_eq!(journaled.bytes, self.journal.len());
        self.client = Client::recover(journaled);
        self.said.clear();
        assert!(self.client.handle_restart());
        self.run();
    }

    /// The next message that was sent: its type and its fields without those of every message and every report.
    fn say(&mut self) -> String {
        let message = self.said.pop_front().expect("something was sent");
        let unsaid = [49, 56, 52, 60, 122, 37, 55];
        let fields = message
            .fields
            .iter()
            .filter(|(tag, _)| !unsaid.contains(tag));
        let fields = fields.map(|(tag, value)| format!(" {tag}={value}"));
        message.kind + &fields.collect::<String>()
    }

    fn says(&mut self, expected: &[&str]) {
        let mut said = Vec::new();
        while !self.said.is_empty() {
            said.push(self.say());
        }
        assert_eq!(said, expected, "{:?}", self.first);
    }
}
