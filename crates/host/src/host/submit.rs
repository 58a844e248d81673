//! Requests, as they come.

use super::Host;
use crate::api::{Answer, Request, Token};
use crate::flaw::Flaw;
use crate::requests::{Waiting, Withdrawn};
use bytes::Bytes;
use quorate_core::{Application, Command, Input, Machine, Now, Refusal, RequestId, Wire};

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

    /// Drops the requests that nobody waits for any more, as far as the machine has offered them to nobody; they are
    /// answered [`Refusal::Withdrawn`]. What is offered may be executed yet: the machine's bounds say how much that
    /// is. To be called whenever somebody who waited has been told that it took too long, or has left.
    pub fn withdraw(&mut self, now: Now, is_wanted: impl Fn(Token) -> bool) {
        let Withdrawn { gone, taken } = self.requests.withdraw(is_wanted);
        self.refuse(gone);
        if taken.is_empty() {
            return;
        }
        if self.limits.flaw == Some(Flaw::WithdrawsWhatIsOffered) {
            let withdrawn = |id: &RequestId| self.requests.take_refused(*id, Refusal::Withdrawn);
            let gone: Vec<(Token, Refusal)> = taken.iter().filter_map(withdrawn).collect();
            return self.refuse(gone);
        }
        self.step(now, Input::Withdraw(taken));
    }

    pub(super) fn refuse(&mut self, requests: impl IntoIterator<Item = (Token, Refusal)>) {
        let requests = requests.into_iter();
        let answers = requests.map(|(token, refusal)| (token, Answer::Refused(refusal)));
        self.answers.extend(answers);
    }

    /// Whether the machine gets nothing for now. A driver says so while it reaches too few members: what cannot be
    /// decided would be offered all the same, and be decided long after whoever asked was told otherwise.
    pub fn hold_back(&mut self, holds_back: bool) {
        self.holds_back = holds_back;
    }

    /// Orders what a countdown has come to (see [`crate::Countdowns`]), if it can be ordered here and does not
    /// wait already. Nobody is told what becomes of it.
    pub fn order_due(&mut self, now: Now, body: Bytes) {
        if self.refusal_of(body.len(), true).is_none() {
            self.requests.due(now.mono_ns, body);
        }
    }

    /// The same commands as this epoch takes them.
    pub(super) fn fitting(&mut self, mut commands: Vec<Command>) -> Vec<Command> {
        if self.payload_min.is_none() {
            let bytes_max = self.limits.command_bytes_max;
            let too_long = self.requests.put_inside(&mut commands, bytes_max, A::join);
            let refused = |token| (token, Answer::Refused(Refusal::TooLarge));
            self.answers.extend(too_long.into_iter().map(refused));
        }
        commands
    }

    fn refusal(&self, request: &Request<A::Query>) -> Option<Refusal> {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            Request::Command(command) => command.body.len(),
            Request::Order(order) => order.to_bytes().len(),
            Request::Read(_) | Request::Peek(_) | Request::Payload(..) => 0,
        };
        self.refusal_of(body, !matches!(request, Request::Payload(..)))
    }

    /// Why nothing of so many bytes is taken, if it is not: what is to be ordered takes a member.
    fn refusal_of(&self, body: usize, takes_member: bool) -> Option<Refusal> {
        if body > self.limits.command_bytes_max {
            return Some(Refusal::TooLarge);
        }
        if takes_member && !self.is_member() {
            return Some(Refusal::NotServing);
        }
        let is_full = self.waiting() >= self.limits.requests_max
            || self.requests.bytes() + body > self.limits.request_bytes_max;
        is_full.then_some(Refusal::Overloaded)
    }
}
