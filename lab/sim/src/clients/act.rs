//! What clients do, and what they make of the answers.

use super::{Attempt, Fate, Session};
use crate::network::{chance, exponential};
use crate::plan::Arrivals;
use crate::report::Violation;
use crate::rights::Behalf;
use crate::subject::{Ask, Subject};
use crate::world::{Event, World};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Class, ClientId, Command, MILLIS, Machine, PayloadId, Principal, Refusal, SECONDS,
};
use quorate_etcd_store::Asker;
use quorate_host::{Answer, PayloadGone, Request, Token};
use std::rc::Rc;

/// Longest time a client waits before it tries elsewhere.
const TIMEOUT_MAX_NS: u64 = 2 * SECONDS;
/// When a client that waits for its answers and was refused asks again.
const ASK_AGAIN_NS: u64 = MILLIS;
/// How much less than others the administrator thinks between two changes of users.
const ADMINISTRATOR_HASTE: u64 = 4;
/// Session owners below are the replicas' own.
const OWNER_MIN: u64 = 1_000;

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A client has finished thinking.
    pub(crate) fn client_acts(&mut self, client: usize) {
        if self.rig.is_some() {
            return self.rig_puts(client);
        }
        let load = &self.plan.load;
        if let Some(arrivals) = load.arrivals {
            return self.request_comes(client, arrivals);
        }
        if self.clients.stopped || self.clients.clients[client].pending > 0 {
            return;
        }
        let reopen = chance(&mut self.rng, load.reopen);
        let who = &mut self.clients.clients[client];
        if who.session == Session::Open && reopen {
            who.session = Session::Closed;
        }
        if who.session == Session::Closed {
            who.session = Session::Opening;
            who.id = ClientId(self.rng.u64(..));
            (who.next_seq, who.acked) = (1, 0);
            who.answered.clear();
            return self.ask(client, 0, Ask::Open, None);
        }
        let pair = chance(&mut self.rng, load.pairs);
        let key = self.rng.u8(..load.keys);
        let ask = self.clients.draw(&mut self.rng, client, key, &self.leases);
        self.ask(client, key, ask, None);
        if pair {
            let key = self.rng.u8(..self.plan.load.keys);
            let (rng, leases) = (&mut self.rng, &self.leases);
            let call = self.clients.draw_change(rng, client, key, leases);
            self.ask(client, key, Ask::Command(Rc::new(call)), None);
        }
    }

    /// The next of the requests that wait for nobody.
    fn request_comes(&mut self, client: usize, arrivals: Arrivals) {
        if self.clients.stopped {
            return;
        }
        let (key, put) = self.clients.draw_arrival(&mut self.rng);
        let entrance = self.entrance();
        self.ask(client, key, Ask::Write(Rc::new(put)), entrance);
        if let Some(delay) = self.clients.draw_pause(&mut self.rng, arrivals) {
            self.queue.after(delay, Event::Client { client });
        }
    }

    /// A client puts a value of so many bytes under a key of its own.
    pub(crate) fn put_at(&mut self, client: usize, node: usize, value_bytes: usize) {
        let key = client as u8;
        let put = A::put(key, self.clients.next_value(), value_bytes);
        self.ask(client, key, Ask::Write(Rc::new(put)), Some(node));
    }

    /// Every key is read once more through every replica, and every payload.
    pub(crate) fn read_everything(&mut self) {
        let newest = self.newest_epoch().clone();
        for node in 0..self.nodes.len() {
            if !newest.has(self.member(node)) {
                continue;
            }
            let host = self.nodes[node].host.as_ref();
            let mut live = host.map_or(Vec::new(), |host| host.look().app().live(None, usize::MAX));
            live.retain(|(id, _)| self.is_live(*id));
            for (id, payload) in live {
                let client = node % self.clients.count();
                self.ask(client, 0, Ask::Payload(id, payload), Some(node));
            }
            if let Some(status) = A::auth_status().filter(|_| self.rights.are_there()) {
                let client = node % self.clients.count();
                self.ask(client, 0, Ask::Read(Rc::new(status)), Some(node));
            }
            for key in 0..self.plan.load.keys {
                let client = node % self.clients.count();
                let read = Ask::Read(Rc::new(A::get(key)));
                self.ask(client, key, read, Some(node));
            }
        }
    }

    fn ask(&mut self, client: usize, key: u8, ask: Ask<A::Request>, pinned: Option<usize>) {
        let task = self.clients.begin(client, key, ask, pinned);
        self.clients.tasks[task].since_ns = self.queue.now_ns();
        self.clients.tasks[task].behalf = match self.clients.stopped {
            // What is left in the end is all looked at.
            true => Behalf::Server,
            false => self.rights.draw(client),
        };
        self.attempt(task);
    }

    /// Sends a request to some replica, mostly to one that runs.
    fn attempt(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        let node = self.draw_node(index);
        let asker = self.asker_of(index, node);
        let request = self.request_of(index, &asker);
        let attempt = Attempt {
            task: index,
            asker,
            reader: 0,
        };
        self.clients.tokens.push(attempt);
        let token = self.clients.tokens.len() as Token;
        let task = &mut self.clients.tasks[index];
        (task.token, task.attempts) = (token, task.attempts + 1);
        let task = &self.clients.tasks[index];
        let (attempts, client) = (task.attempts, task.client);
        self.trace.event(now_ns, "ask", &[token, node as u64], || {
            let (ask, id) = (&task.ask, task.id);
            format!(
                "#{index} client {client} r{} {ask:?}, {id:?}, attempt {attempts}",
                node + 1
            )
        });
        self.note_offer(token);
        self.send_request(node, token, request);
        if self.rig.is_some() {
            return;
        }
        let timeout_ns = self.plan.load.timeout_ns << (attempts - 1).min(8);
        self.queue
            .after(timeout_ns.min(TIMEOUT_MAX_NS), Event::Timeout { token });
    }

    /// Draws whom a client asks: somebody who runs, mostly.
    fn draw_node(&mut self, index: usize) -> usize {
        let gateways = self.setup.schedule.gateways(self.nodes.len());
        let task = &self.clients.tasks[index];
        if let Some(pinned) = task.pinned {
            return pinned;
        }
        let draw = |rng: &mut Rng| rng.usize(gateways.clone());
        let mut node = draw(&mut self.rng);
        while self.nodes[node].host.is_none() && self.rng.u8(..8) > 0 {
            node = draw(&mut self.rng);
        }
        match task.ask.is_for_gateways() && !self.gateways.is_empty() {
            true => self.maybe_gateway(node),
            false => node,
        }
    }

    /// For whom a replica or gateway is asked. A command stays the same when it is sent again.
    fn asker_of(&mut self, index: usize, node: usize) -> Asker {
        let task = &self.clients.tasks[index];
        let before = task.token.checked_sub(1).map(|token| token as usize);
        match before.map(|before| &self.clients.tokens[before]) {
            Some(attempt) if matches!(task.ask, Ask::Command(_)) => attempt.asker.clone(),
            _ => self.asker_at(node, task.behalf),
        }
    }

    /// How a replica or gateway is asked.
    fn request_of(&mut self, index: usize, asker: &Asker) -> Request<A::Query> {
        let task = &self.clients.tasks[index];
        let (id, principal) = (task.id, Principal::default());
        let acked = self.clients.clients[task.client].acked;
        match &task.ask {
            Ask::Open => {
                let owner = OWNER_MIN + task.client as u64;
                Request::Command(Command {
                    id,
                    acked: 0,
                    class: Class::OpenSession,
                    principal,
                    body: Bytes::copy_from_slice(&owner.to_le_bytes()),
                    payloads: Vec::new(),
                })
            }
            Ask::Command(asked) => {
                let (body, payloads) = A::command(asked, self.values.payload_min);
                self.values.note(&payloads);
                Request::Command(Command {
                    id,
                    acked,
                    class: Class::Write,
                    principal,
                    body: A::sign(asker, body),
                    payloads,
                })
            }
            Ask::Write(asked) => {
                let (body, payloads) = A::command(asked, self.values.payload_min);
                self.values.note(&payloads);
                Request::Write {
                    body: A::sign(asker, body),
                    payloads,
                    principal,
                }
            }
            Ask::Payload(id, payload) => Request::Payload(*id, payload.clone()),
            Ask::Read(asked) => Request::Read(A::asked(asker, A::read(asked))),
            Ask::Peek(asked) => Request::Peek(A::asked(asker, A::read(asked))),
        }
    }

    /// No answer within the client's patience.
    pub(crate) fn timeout(&mut self, token: Token) {
        let index = self.clients.task(token);
        let task = &self.clients.tasks[index];
        if task.fate != Fate::Pending || task.token != token {
            return;
        }
        match task.ask {
            Ask::Write(_) => self.finish(index, Fate::Unknown),
            _ => self.attempt(index),
        }
    }

    /// A refused request is tried again.
    pub(crate) fn retry(&mut self, task: usize) {
        if self.clients.tasks[task].fate == Fate::Pending {
            self.attempt(task);
        }
    }

    /// Judges an answer where it is given, even if its client never sees it.
    pub(crate) fn check_answer(
        &mut self,
        node: usize,
        token: Token,
        answer: &Answer<A::Answer>,
    ) -> Result<(), Violation> {
        let wrong = |what| Violation::new("answer", what);
        self.note_reader(node, token, answer);
        let task = &self.clients.tasks[self.clients.task(token)];
        let is_apart = node >= self.nodes.len();
        match answer {
            Answer::Applied(slot, result) => {
                // One that is known before it is decided has to come true.
                let is_ahead = match is_apart {
                    true => task.ask != Ask::Open,
                    false => *slot >= self.nodes[node].applied(),
                };
                if is_ahead {
                    self.agreement.promised(task.id, *slot);
                    self.totals.hit("answered ahead of its decision");
                }
                if is_apart {
                    self.totals.hit("answered by a gateway");
                }
                if matches!(task.ask, Ask::Command(_)) {
                    self.agreement
                        .answered(task.id, *slot, result)
                        .map_err(wrong)?;
                }
            }
            Answer::Read(_, answer) => {
                if let Ask::Peek(_) = task.ask {
                    let got = A::got(answer, &self.values, 0).map_err(wrong)?;
                    let read = A::revision_of(&got);
                    let peeked = &mut self.nodes[node].peeked;
                    if read != 0 && read < std::mem::replace(peeked, read.max(*peeked)) {
                        return Err(wrong(format!("a stale read went back to revision {read}")));
                    }
                }
            }
            Answer::Refused(Refusal::NoSession) => {
                let is_excused = match task.ask {
                    // Nobody ends that of a gateway, which has no former lives.
                    Ask::Write(_) if is_apart => false,
                    Ask::Write(_) => self.is_own_session_lost(node, task.invoked),
                    // A duplicate may come after its client has moved on to another session.
                    _ => task.fate != Fate::Pending,
                };
                if !is_excused {
                    let task = &self.clients.tasks[self.clients.task(token)];
                    return Err(wrong(format!(
                        "replica {} does not know the session of {:?}, {:?}, which nobody ended",
                        node + 1,
                        task.ask,
                        task.id
                    )));
                }
            }
            // A write is sent once. Its client does not know, but what is withdrawn is never executed: the history is
            // judged without it.
            Answer::Refused(Refusal::Withdrawn) => {
                self.totals.hit("request withdrawn");
                let task = self.clients.task(token);
                let task = &mut self.clients.tasks[task];
                if matches!(task.ask, Ask::Write(_)) && task.fate == Fate::Unknown {
                    task.fate = Fate::NotExecuted;
                }
            }
            Answer::Refused(_) | Answer::Payload(_) => {}
        }
        Ok(())
    }

    /// Notes which life of which replica has come as far as an answer says.
    fn note_reader(&mut self, node: usize, token: Token, answer: &Answer<A::Answer>) {
        let Some(replica) = self.nodes.get(node) else {
            return;
        };
        let has_come_so_far = match answer {
            Answer::Read(..) => true,
            Answer::Applied(slot, _) => *slot < replica.applied(),
            Answer::Refused(_) | Answer::Payload(_) => false,
        };
        if has_come_so_far {
            let reader = u64::from(replica.life) << 8 | node as u64;
            self.clients.tokens[token as usize - 1].reader = reader;
        }
    }

    /// Whether a replica may have lost its own session after a write was begun: the opening of each
    /// of its former lives may be decided late, and ends the session of the present one, once.
    fn is_own_session_lost(&mut self, node: usize, invoked: u64) -> bool {
        let node = &mut self.nodes[node];
        if invoked > node.session_lost {
            node.session_losses += 1;
            node.session_lost = self.clients.tick();
        }
        node.session_losses <= node.life
    }

    /// An answer reaches its client.
    pub(crate) fn answer_arrives(
        &mut self,
        token: Token,
        answer: Answer<A::Answer>,
    ) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let index = self.clients.task(token);
        let is_done = !matches!(answer, Answer::Refused(_));
        self.measure_offer(|meter, now_ns| meter.answered(token, is_done, now_ns));
        let task = &self.clients.tasks[index];
        // To what is withdrawn nobody listens.
        let is_withdrawn = matches!(answer, Answer::Refused(Refusal::Withdrawn));
        if task.fate != Fate::Pending || is_withdrawn {
            return Ok(());
        }
        let (ask, attempts) = (task.ask.clone(), task.attempts);
        let wrong = |why| Violation::new("answer", why);
        let fate = match (&answer, &ask) {
            (Answer::Refused(refusal), _) => {
                self.trace.event(now_ns, "refused", &[token], || {
                    format!("#{index} {refusal:?}")
                });
                self.refused(index, attempts, *refusal);
                return Ok(());
            }
            (Answer::Applied(..), Ask::Open) => Fate::Opened,
            (Answer::Applied(_, result), Ask::Command(asked) | Ask::Write(asked)) => {
                let stamp = self.clients.tick();
                let told = A::response(asked, result, &self.values, stamp);
                Fate::Done(told.map_err(wrong)?)
            }
            (Answer::Read(_, answer), Ask::Read(_) | Ask::Peek(_)) => {
                if let Some((id, payload)) = A::named(answer) {
                    // One replica must have had it; any must be able to get it.
                    let client = self.clients.tasks[index].client;
                    self.ask(client, 0, Ask::Payload(id, payload), None);
                }
                let stamp = self.clients.tick();
                Fate::Done(A::got(answer, &self.values, stamp).map_err(wrong)?)
            }
            (Answer::Payload(Ok(bytes)), Ask::Payload(_, payload)) if payload.is(bytes) => {
                Fate::Got
            }
            (Answer::Payload(Err(PayloadGone::Dead)), Ask::Payload(id, _))
                if !self.is_live(*id) =>
            {
                Fate::Got
            }
            // Too little of it can be reached, or the replica is behind the one that named it.
            (Answer::Payload(Err(_)), Ask::Payload(..)) => {
                let delay = self.rng.u64(MILLIS..5 * MILLIS);
                self.queue.after(delay, Event::Retry { task: index });
                return Ok(());
            }
            (Answer::Applied(..) | Answer::Read(..) | Answer::Payload(_), _) => {
                return Err(wrong(format!("{ask:?} got an answer of another kind")));
            }
        };
        self.trace
            .event(now_ns, "answer", &[token], || format!("#{index} {fate:?}"));
        if let (Fate::Done(returned), Some(asked)) = (&fate, ask.request())
            && let Some(shown) = A::shows(asked, returned)
        {
            self.totals.hit(shown);
        }
        self.clients.tasks[index].token = token;
        self.finish(index, fate);
        Ok(())
    }

    /// Whether a payload is live wherever as much is applied as anywhere. Replicas that have applied
    /// the same may be in the middle of forgetting what was compacted, each in its own place.
    fn is_live(&self, id: PayloadId) -> bool {
        let hosts = || self.nodes.iter().filter_map(|node| node.host.as_ref());
        let newest = hosts().map(|host| host.look().applied()).max();
        let mut ahead = hosts().filter(|host| Some(host.look().applied()) == newest);
        ahead.all(|host| host.look().app().is_live(id))
    }

    fn refused(&mut self, index: usize, attempts: u32, refusal: Refusal) {
        let task = &self.clients.tasks[index];
        match (&task.ask, refusal) {
            (Ask::Command(_), Refusal::NoSession | Refusal::Forgotten) => {
                let who = &mut self.clients.clients[task.client];
                if who.id == task.id.client {
                    who.session = Session::Closed;
                }
                let executed = if attempts > 1 {
                    Fate::Unknown
                } else {
                    Fate::NotExecuted
                };
                self.finish(index, executed);
            }
            (Ask::Write(_), Refusal::NoSession | Refusal::Forgotten)
            | (Ask::Command(_) | Ask::Write(_), Refusal::Unknown) => {
                if self.clients.is_administrator(task.client) {
                    // Another session ends this one: then nothing of it can be carried out later.
                    self.clients.clients[task.client].session = Session::Closed;
                }
                self.finish(index, Fate::Unknown);
            }
            (Ask::Write(_), _) => self.finish(index, Fate::NotExecuted),
            _ => {
                let delay = self.rng.u64(MILLIS..5 * MILLIS);
                self.queue.after(delay, Event::Retry { task: index });
            }
        }
    }

    fn finish(&mut self, index: usize, fate: Fate<A::Returned>) {
        let is_done = matches!(fate, Fate::Done(_));
        self.clients.end(index, fate);
        let task = &self.clients.tasks[index];
        let client = task.client;
        if let Some(rig) = &mut self.rig {
            let now_ns = self.queue.now_ns();
            rig.ended(now_ns, now_ns - task.since_ns, is_done);
        }
        let load = &self.plan.load;
        let comes_by_itself = !matches!(load.arrivals, None | Some(Arrivals::Answered));
        let is_busy = self.clients.clients[client].pending > 0 || comes_by_itself;
        if is_busy || self.clients.stopped {
            return;
        }
        if !is_done && load.arrivals.is_some() {
            return self.queue.after(ASK_AGAIN_NS, Event::Client { client });
        }
        let delay = match load.storm_every_ns {
            _ if self.clients.is_administrator(client) => {
                exponential(&mut self.rng, load.think_ns / ADMINISTRATOR_HASTE)
            }
            Some(every_ns) => every_ns - self.queue.now_ns() % every_ns,
            None => exponential(&mut self.rng, load.think_ns),
        };
        self.queue.after(delay, Event::Client { client });
    }
}
