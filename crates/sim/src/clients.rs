//! The clients: what they ask, whom, how often they try, and what they make of the answers.

use crate::history::{Call, Op, Outcome};
use crate::network::{chance, exponential};
use crate::plan::Load;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Class, ClientId, Command, MICROS, MILLIS, Machine, Principal, Refusal, RequestId, SECONDS,
};
use quorate_host::{Answer, Request, Token};
use std::collections::BTreeSet;

/// Longest time a client waits before it tries elsewhere.
const TIMEOUT_MAX_NS: u64 = 2 * SECONDS;
/// Session owners below are the replicas' own.
const OWNER_MIN: u64 = 1_000;

/// All clients, and everything they ever asked.
pub(crate) struct Clients {
    clients: Vec<Client>,
    tasks: Vec<Task>,
    /// The task of each token, the first token being 1.
    tokens: Vec<usize>,
    next_value: u64,
    /// The logical clock of the history.
    stamp: u64,
    pending: usize,
    /// Operations that got an answer.
    pub(crate) completed: u64,
    /// The highest revision in an answer.
    pub(crate) newest: u64,
    /// Clients begin nothing new.
    pub(crate) stopped: bool,
}

struct Client {
    session: Session,
    /// The session's name, and the request the client counts next in it.
    id: ClientId,
    next_seq: u64,
    /// Answered sequence numbers above `acked`.
    answered: BTreeSet<u64>,
    acked: u64,
    pending: usize,
    /// The revision at which each key was last seen modified.
    known: Vec<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    Closed,
    Opening,
    Open,
}

/// What is asked, and in which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ask {
    /// Opens the client's session.
    Open,
    /// Under the client's session: sent again, elsewhere, until it is answered.
    Command(Call),
    /// Under the replica's session: sent once.
    Write(Call),
    Read,
    /// Of whatever state the replica has.
    Peek,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Pending,
    Done(u64, Outcome),
    /// Opened a session, or saw a stale state.
    Unremarkable,
    Unknown,
    NotExecuted,
}

struct Task {
    client: usize,
    key: u8,
    ask: Ask,
    id: RequestId,
    invoked: u64,
    fate: Fate,
    token: Token,
    attempts: u32,
    /// The only replica to ask.
    pinned: Option<usize>,
}

impl Clients {
    pub(crate) fn new(load: &Load, rng: &mut Rng) -> Self {
        let client = |_| Client {
            session: Session::Closed,
            id: ClientId(rng.u64(..)),
            next_seq: 1,
            answered: BTreeSet::new(),
            acked: 0,
            pending: 0,
            known: vec![0; usize::from(load.keys)],
        };
        Clients {
            clients: (0..load.clients).map(client).collect(),
            tasks: Vec::new(),
            tokens: Vec::new(),
            next_value: 1,
            stamp: 0,
            pending: 0,
            completed: 0,
            newest: 0,
            stopped: false,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.clients.len()
    }

    /// Whether nobody waits for anything.
    pub(crate) fn idle(&self) -> bool {
        self.pending == 0
    }

    /// What was asked and answered, for the checker.
    pub(crate) fn history(&self) -> Vec<Op> {
        let ops = self.tasks.iter().filter_map(|task| {
            let (Ask::Command(call) | Ask::Write(call)) = task.ask else {
                let Fate::Done(at, outcome) = task.fate else {
                    return None;
                };
                return Some(task.op(Call::Get, Some((at, outcome))));
            };
            match task.fate {
                Fate::Done(at, outcome) => Some(task.op(call, Some((at, outcome)))),
                Fate::Pending | Fate::Unknown => Some(task.op(call, None)),
                Fate::Unremarkable | Fate::NotExecuted => None,
            }
        });
        ops.collect()
    }

    /// The operations that wait, for people.
    pub(crate) fn describe_pending(&self) -> String {
        let pending = self.tasks.iter().filter(|task| task.fate == Fate::Pending);
        let lines = pending.take(12).map(|task| {
            let Task {
                client,
                key,
                ask,
                id,
                attempts,
                ..
            } = task;
            format!(
                "\n    client {client} waits: {ask:?} of key {key}, {id:?}, {attempts} attempts"
            )
        });
        lines.collect()
    }

    fn tick(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    fn begin(&mut self, client: usize, key: u8, ask: Ask, pinned: Option<usize>) -> usize {
        let invoked = self.tick();
        let owner = &mut self.clients[client];
        let seq = match ask {
            Ask::Command(_) => {
                owner.next_seq += 1;
                owner.next_seq - 1
            }
            _ => 0,
        };
        owner.pending += 1;
        self.pending += 1;
        self.tasks.push(Task {
            client,
            key,
            ask,
            id: RequestId {
                client: owner.id,
                seq,
            },
            invoked,
            fate: Fate::Pending,
            token: 0,
            attempts: 0,
            pinned,
        });
        self.tasks.len() - 1
    }

    fn end(&mut self, task: usize, fate: Fate) {
        let ended = &mut self.tasks[task];
        ended.fate = fate;
        self.pending -= 1;
        let client = &mut self.clients[ended.client];
        client.pending -= 1;
        if matches!(ended.ask, Ask::Command(_)) && ended.id.client == client.id {
            client.answered.insert(ended.id.seq);
            while client.answered.remove(&(client.acked + 1)) {
                client.acked += 1;
            }
        }
        match fate {
            Fate::Done(_, outcome) => {
                self.completed += 1;
                self.newest = self.newest.max(outcome.revision());
                if let Some(seen) = outcome.seen() {
                    client.known[usize::from(ended.key)] = seen.modified;
                } else if outcome.changed() {
                    client.known[usize::from(ended.key)] = outcome.revision();
                }
            }
            Fate::Unremarkable if ended.ask == Ask::Open => client.session = Session::Open,
            _ => {}
        }
    }

    fn draw_call(&mut self, rng: &mut Rng, client: usize, key: u8) -> Call {
        let value = self.next_value;
        self.next_value += 1;
        match rng.u8(..10) {
            0 => Call::Delete,
            1..=3 => {
                let expected = self.clients[client].known[usize::from(key)];
                Call::Cas { expected, value }
            }
            _ => Call::Put(value),
        }
    }
}

impl Task {
    fn op(&self, call: Call, returned: Option<(u64, Outcome)>) -> Op {
        let Task {
            client,
            key,
            invoked,
            ..
        } = *self;
        Op {
            client,
            key,
            call,
            invoked,
            returned,
            hint: None,
        }
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A client has finished thinking.
    pub(crate) fn client_acts(&mut self, client: usize) {
        let load = &self.plan.load;
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
        let call = self.clients.draw_call(&mut self.rng, client, key);
        match self.rng.u8(..20) {
            0..=5 => self.ask(client, key, Ask::Read, None),
            6 => self.ask(client, key, Ask::Peek, None),
            7..=9 => self.ask(client, key, Ask::Write(call), None),
            _ => self.ask(client, key, Ask::Command(call), None),
        }
        if pair {
            let key = self.rng.u8(..self.plan.load.keys);
            let call = self.clients.draw_call(&mut self.rng, client, key);
            self.ask(client, key, Ask::Command(call), None);
        }
    }

    /// Every key is read once more through every replica.
    pub(crate) fn read_everything(&mut self) {
        for node in 0..self.nodes.len() {
            for key in 0..self.plan.load.keys {
                let client = node % self.clients.count();
                self.ask(client, key, Ask::Read, Some(node));
            }
        }
    }

    fn ask(&mut self, client: usize, key: u8, ask: Ask, pinned: Option<usize>) {
        let task = self.clients.begin(client, key, ask, pinned);
        self.attempt(task);
    }

    /// Sends a request to some replica, mostly to one that runs.
    fn attempt(&mut self, index: usize) {
        let now_ns = self.queue.now_ns();
        self.clients.tokens.push(index);
        let token = self.clients.tokens.len() as Token;
        let n = self.nodes.len();
        let task = &mut self.clients.tasks[index];
        (task.token, task.attempts) = (token, task.attempts + 1);
        let mut node = task.pinned.unwrap_or_else(|| self.rng.usize(..n));
        while task.pinned.is_none() && self.nodes[node].host.is_none() && self.rng.u8(..8) > 0 {
            node = self.rng.usize(..n);
        }
        let (key, ask, id) = (task.key, task.ask, task.id);
        let principal = Principal::default();
        let acked = self.clients.clients[task.client].acked;
        let owner = OWNER_MIN + task.client as u64;
        let request = match ask {
            Ask::Open => {
                let body = Bytes::copy_from_slice(&owner.to_le_bytes());
                let class = Class::OpenSession;
                Request::Command(Command {
                    id,
                    acked: 0,
                    class,
                    principal,
                    body,
                })
            }
            Ask::Command(call) => {
                let (body, class) = (A::command(key, call), Class::Write);
                Request::Command(Command {
                    id,
                    acked,
                    class,
                    principal,
                    body,
                })
            }
            Ask::Write(call) => Request::Write {
                body: A::command(key, call),
                principal,
            },
            Ask::Read => Request::Read(A::read(key)),
            Ask::Peek => Request::Peek(A::read(key)),
        };
        let request = Box::new(request);
        let (attempts, client) = (task.attempts, task.client);
        self.trace.event(now_ns, "ask", &[token, node as u64], || {
            format!(
                "#{index} client {client} r{} {ask:?} key {key}, {id:?}, attempt {attempts}",
                node + 1
            )
        });
        let delay = self.rng.u64(10 * MICROS..200 * MICROS);
        self.queue.after(
            delay,
            Event::Request {
                node,
                token,
                request,
            },
        );
        let timeout_ns = self.plan.load.timeout_ns << (attempts - 1).min(8);
        self.queue
            .after(timeout_ns.min(TIMEOUT_MAX_NS), Event::Timeout { token });
    }

    /// No answer within the client's patience.
    pub(crate) fn timeout(&mut self, token: Token) {
        let index = self.clients.tokens[token as usize - 1];
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
        let task = &self.clients.tasks[self.clients.tokens[token as usize - 1]];
        match answer {
            Answer::Applied(slot, result) => {
                let applied = self.nodes[node].applied();
                if *slot >= applied {
                    let what = format!(
                        "{:?} was answered at {slot:?} before it was applied",
                        task.id
                    );
                    return Err(wrong(what));
                }
                if matches!(task.ask, Ask::Command(_)) {
                    self.agreement
                        .answered(task.id, *slot, result)
                        .map_err(wrong)?;
                }
            }
            Answer::Read(_, answer) if task.ask == Ask::Peek => {
                let outcome = A::got(answer).map_err(wrong)?;
                let node = &mut self.nodes[node];
                if outcome.revision() < node.peeked {
                    let what = format!("a stale read went back from revision {}", node.peeked);
                    return Err(wrong(format!("{what} to {outcome:?}")));
                }
                node.peeked = outcome.revision();
                if outcome
                    .seen()
                    .is_some_and(|seen| seen.value >= self.clients.next_value)
                {
                    return Err(wrong(format!(
                        "a stale read saw what nobody wrote: {outcome:?}"
                    )));
                }
            }
            Answer::Refused(Refusal::NoSession) => {
                let is_excused = match task.ask {
                    Ask::Write(_) => self.is_own_session_lost(node, task.invoked),
                    // A duplicate may come after its client has moved on to another session.
                    _ => task.fate != Fate::Pending,
                };
                if !is_excused {
                    let task = &self.clients.tasks[self.clients.tokens[token as usize - 1]];
                    return Err(wrong(format!(
                        "replica {} does not know the session of {:?}, {:?}, which nobody ended",
                        node + 1,
                        task.ask,
                        task.id
                    )));
                }
            }
            Answer::Read(..) | Answer::Refused(_) => {}
        }
        Ok(())
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
        let index = self.clients.tokens[token as usize - 1];
        let task = &self.clients.tasks[index];
        if task.fate != Fate::Pending {
            return Ok(());
        }
        let (ask, attempts) = (task.ask, task.attempts);
        let outcome = match (&answer, ask) {
            (Answer::Refused(refusal), _) => {
                self.trace.event(now_ns, "refused", &[token], || {
                    format!("#{index} {refusal:?}")
                });
                self.refused(index, attempts, *refusal);
                return Ok(());
            }
            (Answer::Applied(..), Ask::Open) | (Answer::Read(..), Ask::Peek) => None,
            (Answer::Applied(_, result), Ask::Command(call) | Ask::Write(call)) => {
                Some(A::outcome(call, result))
            }
            (Answer::Read(_, answer), Ask::Read) => Some(A::got(answer)),
            (Answer::Applied(..) | Answer::Read(..), _) => {
                Some(Err(format!("{ask:?} got an answer of another kind")))
            }
        };
        let outcome = outcome
            .transpose()
            .map_err(|why| Violation::new("answer", why))?;
        self.trace.event(now_ns, "answer", &[token], || {
            format!("#{index} {outcome:?}")
        });
        let fate = match outcome {
            Some(outcome) => Fate::Done(self.clients.tick(), outcome),
            None => Fate::Unremarkable,
        };
        self.finish(index, fate);
        Ok(())
    }

    fn refused(&mut self, index: usize, attempts: u32, refusal: Refusal) {
        let task = &self.clients.tasks[index];
        match (task.ask, refusal) {
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
                self.finish(index, Fate::Unknown);
            }
            (Ask::Write(_), _) => self.finish(index, Fate::NotExecuted),
            _ => {
                let delay = self.rng.u64(MILLIS..5 * MILLIS);
                self.queue.after(delay, Event::Retry { task: index });
            }
        }
    }

    fn finish(&mut self, index: usize, fate: Fate) {
        self.clients.end(index, fate);
        let client = self.clients.tasks[index].client;
        if self.clients.clients[client].pending > 0 || self.clients.stopped {
            return;
        }
        let load = &self.plan.load;
        let delay = match load.storm_every_ns {
            Some(every_ns) => every_ns - self.queue.now_ns() % every_ns,
            None => exponential(&mut self.rng, load.think_ns),
        };
        self.queue.after(delay, Event::Client { client });
    }
}
