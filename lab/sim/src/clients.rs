//! The clients: what they ask, whom, how often they try, and what they make of the answers.

use crate::leases::Leases;
use crate::mix::generator;
use crate::network::exponential;
use crate::plan::{Arrivals, Load};
use crate::rights::Behalf;
use crate::subject::{ADMINISTRATOR, Ask, Asked, Subject, Who, Workload};
use fastrand::Rng;
use quorate_core::{ClientId, MILLIS, PayloadId, RequestId};
use quorate_etcd_store::Asker;
use quorate_host::Token;
use std::collections::BTreeSet;
use std::ops::Range;

mod act;
mod entrance;

/// All clients, and everything they ever asked.
pub(crate) struct Clients<A: Subject> {
    clients: Vec<Client>,
    tasks: Vec<Task<A>>,
    /// The task of each token, the first token being 1.
    tokens: Vec<Attempt>,
    next_value: u64,
    /// The logical clock of the history.
    stamp: u64,
    pending: usize,
    /// Operations that got an answer.
    pub(crate) completed: u64,
    /// The highest revision in an answer.
    pub(crate) newest: i64,
    /// Clients begin nothing new.
    pub(crate) stopped: bool,
    /// What they ask.
    workload: A::Workload,
    /// Whether one of the clients changes users.
    has_administrator: bool,
    /// Draws what comes by itself, so that all clusters that are compared are offered the same.
    offers: Option<Rng>,
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
}

/// A request sent once.
struct Attempt {
    task: usize,
    /// For whom, as the face saw it that took the request.
    asker: Asker,
    /// The life of the replica that answered it, if one did.
    reader: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    Closed,
    Opening,
    Open,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate<R> {
    Pending,
    Done(R),
    /// It opened a session.
    Opened,
    /// It got the bytes of a payload, or learned that it is dead.
    Got,
    Unknown,
    NotExecuted,
}

struct Task<A: Subject> {
    client: usize,
    /// The register it is about, or the first of several.
    key: u8,
    ask: Ask<A::Request>,
    id: RequestId,
    invoked: u64,
    /// When it was first sent, in virtual time.
    since_ns: u64,
    fate: Fate<A::Returned>,
    token: Token,
    attempts: u32,
    /// The only replica to ask.
    pinned: Option<usize>,
    /// For whom it is asked.
    behalf: Behalf,
}

impl<A: Subject> Clients<A> {
    pub(crate) fn new(load: &Load, seed: u64, rng: &mut Rng) -> Self {
        let client = |_| Client {
            session: Session::Closed,
            id: ClientId(rng.u64(..)),
            next_seq: 1,
            answered: BTreeSet::new(),
            acked: 0,
            pending: 0,
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
            workload: A::Workload::new(load, generator(seed, "mix")),
            has_administrator: load.users,
            offers: load.spread.map(|_| generator(seed, "offers")),
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
    pub(crate) fn history(&self) -> Vec<Asked<A>> {
        let tasks = self.tasks.iter();
        let ops = tasks.filter_map(|task| task.op(&self.tokens[task.token as usize - 1]));
        ops.collect()
    }

    /// The operations that wait, for people.
    pub(crate) fn describe_pending(&self, now_ns: u64) -> String {
        let pending = self.tasks.iter().filter(|task| task.fate == Fate::Pending);
        let lines = pending.take(12).map(|task| {
            let Task {
                client,
                key,
                ask,
                id,
                attempts,
                since_ns,
                ..
            } = task;
            let ms = (now_ns - since_ns) / MILLIS;
            format!(
                "\n    client {client} waits for {ms} ms: {ask:?} of key {key}, {id:?}, {attempts} \
                 attempts"
            )
        });
        lines.collect()
    }

    /// The payloads that clients wait for.
    pub(crate) fn payloads_wanted(&self) -> impl Iterator<Item = PayloadId> {
        let pending = self.tasks.iter().filter(|task| task.fate == Fate::Pending);
        pending.filter_map(|task| match &task.ask {
            Ask::Payload(id, _) => Some(*id),
            _ => None,
        })
    }

    /// What was asked: its number and kind, then all of it.
    pub(crate) fn in_words(&self, token: Token) -> Vec<String> {
        let number = self.task(token);
        let ask = format!("{:?}", self.tasks[number].ask);
        let kind: Vec<&str> = ask.split('(').take(2).collect();
        vec![format!("#{number} {}", kind.join(" ")), ask]
    }

    /// Who asked.
    pub(crate) fn client_of(&self, token: Token) -> usize {
        self.tasks[self.task(token)].client
    }

    /// Whether a client waits for the answer to this attempt: not if it has given up, or has tried again since.
    pub(crate) fn is_waiting(&self, token: Token) -> bool {
        let task = &self.tasks[self.task(token)];
        task.fate == Fate::Pending && task.token == token
    }

    /// The task of an attempt.
    fn task(&self, token: Token) -> usize {
        self.tokens[token as usize - 1].task
    }

    /// The next stamp of the history.
    pub(crate) fn tick(&mut self) -> u64 {
        self.stamp += 1;
        self.stamp
    }

    /// Whether a client changes users.
    fn is_administrator(&self, client: usize) -> bool {
        self.has_administrator && client == ADMINISTRATOR
    }

    fn begin(
        &mut self,
        client: usize,
        key: u8,
        ask: Ask<A::Request>,
        pinned: Option<usize>,
    ) -> usize {
        let invoked = self.tick();
        let owner = &mut self.clients[client];
        let seq = match &ask {
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
            since_ns: 0,
            fate: Fate::Pending,
            token: 0,
            attempts: 0,
            pinned,
            behalf: Behalf::Anybody,
        });
        self.tasks.len() - 1
    }

    fn end(&mut self, task: usize, fate: Fate<A::Returned>) {
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
        match &ended.fate {
            // What may be stale is not what is known.
            Fate::Done(returned) if !matches!(ended.ask, Ask::Peek(_)) => {
                self.completed += 1;
                self.newest = self.newest.max(A::revision_of(returned));
                if let Some(asked) = ended.ask.request() {
                    self.workload
                        .learn(ended.client, ended.key, asked, returned);
                }
            }
            Fate::Opened => client.session = Session::Open,
            _ => {}
        }
    }

    /// What a client asks next.
    fn draw(&mut self, rng: &mut Rng, client: usize, key: u8, leases: &Leases) -> Ask<A::Request> {
        let who = self.who(client, key, leases);
        self.workload.draw(rng, &who, &mut self.next_value)
    }

    /// A change that a client asks for beside something else.
    fn draw_change(
        &mut self,
        rng: &mut Rng,
        client: usize,
        key: u8,
        leases: &Leases,
    ) -> A::Request {
        let who = self.who(client, key, leases);
        self.workload.change(rng, &who, &mut self.next_value)
    }

    /// A write of those that come by themselves.
    fn draw_arrival(&mut self, rng: &mut Rng) -> (u8, A::Request) {
        let rng = self.offers.as_mut().unwrap_or(rng);
        self.workload.arrive(rng, &mut self.next_value)
    }

    /// When the next of them comes, if it waits for nobody.
    fn draw_pause(&mut self, rng: &mut Rng, arrivals: Arrivals) -> Option<u64> {
        let rng = self.offers.as_mut().unwrap_or(rng);
        match arrivals {
            Arrivals::Every(ns) => Some(ns),
            Arrivals::About(mean_ns) => Some(exponential(rng, mean_ns)),
            Arrivals::Answered => None,
        }
    }

    /// One of these endpoints for what comes by itself.
    fn draw_entrance(&mut self, rng: &mut Rng, among: Range<usize>) -> usize {
        self.offers.as_mut().unwrap_or(rng).usize(among)
    }

    fn who(&self, client: usize, key: u8, leases: &Leases) -> Who {
        Who {
            client,
            key,
            leases: leases.held(),
            newest: self.newest,
        }
    }

    /// A value that nobody stored before.
    fn next_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value - 1
    }
}

impl<A: Subject> Task<A> {
    /// What the history says of it, if it may have done or seen something.
    fn op(&self, attempt: &Attempt) -> Option<Asked<A>> {
        let returned = match (&self.ask, &self.fate) {
            (_, Fate::Done(returned)) => Some(returned.clone()),
            (Ask::Command(_) | Ask::Write(_), Fate::Pending | Fate::Unknown) => None,
            _ => return None,
        };
        Some(Asked {
            client: self.client,
            asker: attempt.asker.clone(),
            request: self.ask.request()?.as_ref().clone(),
            invoked: self.invoked,
            returned,
            reader: attempt.reader,
        })
    }
}
