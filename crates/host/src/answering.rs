//! Requests of clients, from what they ask to what they are answered.

use crate::api::{Answer, HostEvent, Request, Token};
use crate::apply::Applied;
use crate::context::Context;
use crate::epochs::Order;
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::requests::{OwnSession, Requests, Waiting};
use crate::sessions::Known;
use bytes::Bytes;
use quorate_core::{
    Application, Command, Entry, Machine, Now, Outcome, Peers, Record, Refusal, RequestId, Slot,
    Wire,
};

/// What answering works on, beside the requests.
pub(crate) struct RequestHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    requests: &'a mut Requests<A::Query>,
}

impl<Q> Requests<Q> {
    /// Lends what answering works on.
    pub(crate) fn with<'a, M: Machine, A: Application<Query = Q>>(
        &'a mut self,
        context: &'a mut Context<M, A>,
    ) -> RequestHandler<'a, M, A> {
        RequestHandler {
            context,
            requests: self,
        }
    }
}

impl<M: Machine, A: Application> RequestHandler<'_, M, A> {
    /// Takes a request that is not for a payload; `waiting` requests wait already.
    pub(crate) fn submit(
        &mut self,
        now: Now,
        token: Token,
        request: Request<A::Query>,
        waiting: usize,
    ) {
        if let Some(refusal) = self.refusal(&request, waiting) {
            let refused = (token, Answer::Refused(refusal));
            return self.context.effects.answers.push(refused);
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
            Request::Command(command) => match self.context.applier.result(command.id) {
                // Executed here before: no need to order it again.
                Some((slot, result)) => {
                    let answer = Answer::Applied(slot, result);
                    self.context.effects.answers.push((token, answer));
                }
                None => self.requests.command(waiting, command),
            },
            Request::Order(order) => self.requests.order(waiting, &order),
            Request::Peek(query) => self.peek(token, &query),
            Request::Payload(..) => debug_assert!(false, "payloads are gathered"),
        }
    }

    /// Answers from the applied state as it is.
    pub(crate) fn peek(&mut self, token: Token, query: &A::Query) {
        self.context.applier.take_back();
        let (next, app) = (self.context.applied(), self.context.app());
        let answer = Answer::Read(next, app.query(query));
        self.context.effects.answers.push((token, answer));
    }

    /// Why a request is not taken, if it is not, while `waiting` requests wait.
    fn refusal(&self, request: &Request<A::Query>, waiting: usize) -> Option<Refusal> {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            Request::Command(command) => command.body.len(),
            Request::Order(order) => order.to_bytes().len(),
            Request::Read(_) | Request::Peek(_) | Request::Payload(..) => 0,
        };
        self.refusal_of(body, !matches!(request, Request::Payload(..)), waiting)
    }

    /// Orders what a countdown has come to, if it can be ordered here and does not wait already.
    pub(crate) fn order_due(&mut self, now: Now, body: Bytes, waiting: usize) {
        if self.refusal_of(body.len(), true, waiting).is_none() {
            self.requests.due(now.mono_ns, body);
        }
    }

    /// Why nothing of so many bytes is taken, if it is not: what is to be ordered takes a member.
    pub(crate) fn refusal_of(
        &self,
        body: usize,
        takes_member: bool,
        waiting: usize,
    ) -> Option<Refusal> {
        let limits = &self.context.limits;
        if body > limits.command_bytes_max {
            return Some(Refusal::TooLarge);
        }
        if takes_member && !self.context.is_member() {
            return Some(Refusal::NotServing);
        }
        let is_full = waiting >= limits.requests_max
            || self.requests.bytes() + body > limits.request_bytes_max;
        is_full.then_some(Refusal::Overloaded)
    }

    /// Up to `room` commands for the machine, as this epoch takes them.
    pub(crate) fn take(&mut self, now: Now, room: usize, keeps_payloads: bool) -> Vec<Command> {
        let mut commands = self.requests.take(room, now.mono_ns);
        if !keeps_payloads {
            let bytes_max = self.context.limits.command_bytes_max;
            let join = self.context.app().command_properties().join;
            let too_long = self.requests.put_inside(&mut commands, bytes_max, join);
            let too_long = too_long.into_iter();
            let refused = too_long.map(|token| (token, Refusal::TooLarge));
            self.context.effects.refuse(refused);
        }
        if self.context.limits.follow {
            self.report_ordered(&commands);
        }
        commands
    }

    fn report_ordered(&mut self, commands: &[Command]) {
        for command in commands {
            let id = command.id;
            if let Some(token) = self.requests.token_of(id) {
                let ordered = HostEvent::Ordered { token, id };
                self.context.effects.events.push(ordered);
            }
        }
    }

    /// Has an order decided on behalf of this replica, unless the same one waits already.
    pub(crate) fn propose(&mut self, now: Now, order: &Order) {
        if !self.requests.has_order(order) {
            let waiting = Waiting::of_nobody(now.mono_ns);
            self.requests.order(waiting, order);
        }
    }

    /// The machine says what becomes of a request.
    pub(crate) fn reply(&mut self, now: Now, id: RequestId, outcome: Outcome) {
        match outcome {
            Outcome::ReadAt(slot) => self.located(now, id, slot),
            Outcome::Applied(slot, result) => {
                if let Some(waiting) = self.requests.take_early(id) {
                    self.context.effects.spent(now, waiting);
                    let answer = Answer::Applied(slot, result);
                    self.context.effects.answers.push((waiting.token, answer));
                }
            }
            Outcome::Decided => self.requests.decided(id),
            Outcome::Refused(refusal) if self.requests.is_opening(id) => {
                self.requests.set_session(OwnSession::Closed);
                if refusal == Refusal::NotServing {
                    let held = self.requests.take_held(refusal);
                    self.context.effects.refuse(held);
                }
            }
            Outcome::Refused(refusal) => {
                self.requests.take_peer_read(id);
                let read = self.requests.take_read(id);
                let read = read.map(|read| (read.waiting.token, refusal));
                let refused = read.or_else(|| self.requests.take_refused(id, refusal));
                self.context.effects.refuse(refused);
            }
        }
    }

    fn located(&mut self, now: Now, id: RequestId, slot: Slot) {
        if let Some((peer, number)) = self.requests.take_peer_read(id) {
            let mark = Body::Mark { number, slot };
            return self.context.post(Peers::One(peer), &mark);
        }
        let is_early = self.context.limits.flaw == Some(Flaw::ReadsTooEarly);
        let slot = if is_early { Slot(0) } else { slot };
        self.requests.locate(id, slot);
        self.answer_reads(now);
    }

    /// Applies the next slot, and answers who waits for that.
    pub(crate) fn apply(&mut self, now: Now, slot: Slot, entry: Option<&Entry>) {
        let (requests, effects) = (&mut *self.requests, &mut self.context.effects);
        let (follow, entry_id) = (self.context.limits.follow, entry.map(|entry| entry.id));
        self.context.applier.apply(slot, entry, |id, applied| {
            if requests.is_opening(id) {
                requests.set_session(OwnSession::Open);
                return;
            }
            if applied == Applied::Refused(Refusal::NoSession) {
                requests.session_ended(id.client);
            }
            requests.decided(id);
            if let Some(waiting) = requests.take_write(id) {
                effects.spent(now, waiting);
                if follow {
                    let (token, entry) = (waiting.token, entry_id);
                    effects.events.push(HostEvent::Applied {
                        token,
                        id,
                        slot,
                        entry,
                    });
                }
                effects.answers.push((waiting.token, answer(applied)));
            }
        });
    }

    /// Answers the reads whose slot is applied.
    pub(crate) fn answer_reads(&mut self, now: Now) {
        let next = self.context.applied();
        let due = self.requests.take_located(next);
        if !due.is_empty() {
            self.context.applier.take_back();
        }
        for read in due {
            self.context.effects.spent(now, read.waiting);
            let answer = Answer::Read(next, self.context.app().query(&read.query));
            let answer = (read.waiting.token, answer);
            self.context.effects.answers.push(answer);
        }
    }

    /// A snapshot took the place of the state. Requests that were executed within the skipped part are answered from
    /// the sessions. Where the result is gone, whoever waits learns that nobody knows, instead of nothing.
    pub(crate) fn skipped(&mut self) {
        let (next, base) = (self.context.applied(), &self.context.base);
        let settled = self.context.storage.retained.installed(next, base);
        self.own_session_skipped();
        for id in self.requests.writes() {
            if let Some((slot, result)) = self.context.applier.result(id) {
                self.answer_write(id, Applied::Result(slot, result));
            } else if matches!(
                self.context.applier.sessions().known(id),
                Known::Forgotten | Known::Ended
            ) {
                self.answer_write(id, Applied::Refused(Refusal::Unknown));
            }
        }
        for id in self.requests.early() {
            let applier = &self.context.applier;
            let is_decided =
                applier.result(id).is_some() || applier.sessions().known(id) != Known::Open;
            if is_decided {
                self.requests.decided(id);
            }
        }
        let entries = settled.iter().filter_map(Record::entry);
        for command in entries.flat_map(|entry| entry.commands()).flatten() {
            self.answer_write(command.id, Applied::Refused(Refusal::Unknown));
        }
    }

    /// The own session may have been opened, or have ended, within the skipped part.
    fn own_session_skipped(&mut self) {
        let opening = self.requests.opening_id();
        match self.context.applier.sessions().known(opening) {
            Known::Open | Known::Forgotten => self.requests.set_session(OwnSession::Open),
            Known::Ended => self.requests.session_lost(opening.client),
            Known::Nothing => {}
        }
    }

    fn answer_write(&mut self, id: RequestId, applied: Applied) {
        if let Some(waiting) = self.requests.take_write(id) {
            let answer = (waiting.token, answer(applied));
            self.context.effects.answers.push(answer);
        }
    }
}

fn answer<Answered>(applied: Applied) -> Answer<Answered> {
    match applied {
        Applied::Result(slot, result) => Answer::Applied(slot, result),
        Applied::Refused(refusal) => Answer::Refused(refusal),
    }
}
