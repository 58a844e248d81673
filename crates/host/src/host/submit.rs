//! Requests, as they come.

use super::Host;
use crate::api::{Answer, Request, Token};
use crate::requests::Waiting;
use quorate_core::{Application, Command, Machine, Now, Refusal, Wire};

impl<M: Machine, A: Application> Host<M, A> {
    /// Takes a request; it is ordered at the next turn. A refusal comes as an answer.
    pub fn submit(&mut self, now: Now, token: Token, request: Request<A::Query>) {
        if let Request::Peek(query) = &request {
            self.applier.take_back();
            let answer = Answer::Read(self.applier.next(), self.applier.app().query(query));
            return self.answers.push((token, answer));
        }
        if let Some(refusal) = self.refusal(&request) {
            return self.answers.push((token, Answer::Refused(refusal)));
        }
        let waiting = Waiting {
            token,
            submitted_ns: now.mono_ns,
            ordered_ns: 0,
        };
        match request {
            Request::Write {
                body,
                payloads,
                principal,
            } => self.requests.write(waiting, (body, payloads), principal),
            Request::Read(query) => self.requests.read(waiting, query),
            Request::Command(command) => match self.applier.result(command.id) {
                // Executed here before: no need to order it again.
                Some((slot, result)) => self.answers.push((token, Answer::Applied(slot, result))),
                None => self.requests.command(waiting, command),
            },
            Request::Payload(id, payload) => self.read_payload(now, token, id, &payload),
            Request::Order(order) => self.requests.order(waiting, &order),
            Request::Peek(_) => unreachable!("answered above"),
        }
    }

    /// The same commands as this epoch takes them. They may have been made for another one: where
    /// nothing is kept apart, payloads go inside, and what is too long then is refused.
    pub(super) fn fitting(&mut self, mut commands: Vec<Command>) -> Vec<Command> {
        if self.payload_min.is_some() {
            return commands;
        }
        commands.retain_mut(|command| {
            if command.payloads.is_empty() {
                return true;
            }
            let len = command.body.len() as u64 + command.bulk_len();
            let is_short = len <= self.limits.command_bytes_max as u64;
            let joined = is_short.then(|| A::join(&command.body, &command.payloads));
            let Some(body) = joined.flatten() else {
                if let Some(waiting) = self.requests.take_write(command.id) {
                    let refused = Answer::Refused(Refusal::TooLarge);
                    self.answers.push((waiting.token, refused));
                }
                return false;
            };
            command.body = body;
            command.payloads.clear();
            true
        });
        commands
    }

    fn refusal(&self, request: &Request<A::Query>) -> Option<Refusal> {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            Request::Command(command) => command.body.len(),
            Request::Order(order) => order.to_bytes().len(),
            Request::Read(_) | Request::Peek(_) | Request::Payload(..) => 0,
        };
        if body > self.limits.command_bytes_max {
            return Some(Refusal::TooLarge);
        }
        if !self.is_member() && !matches!(request, Request::Payload(..)) {
            return Some(Refusal::NotServing);
        }
        (self.waiting() >= self.limits.requests_max).then_some(Refusal::Overloaded)
    }
}
