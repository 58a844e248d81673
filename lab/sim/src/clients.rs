//! The clients: what they ask, whom, how often they try, and what they make of the answers.

use crate::judge::{Op, Request as Asked, Response, Returned};
use crate::leases::Leases;
use crate::plan::Load;
use crate::requests;
use fastrand::Rng;
use mix::{Known, Mix};
use quorate_core::{ClientId, MILLIS, Payload, PayloadId, RequestId};
use quorate_etcd_api::etcdserverpb::response_op::Response as PartAnswer;
use quorate_host::Token;
use std::collections::BTreeSet;
use std::rc::Rc;

mod act;
mod mix;

/// All clients, and everything they ever asked.
pub(crate) struct Clients {
    clients: Vec<Client>,
    tasks: Vec<Task>,
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
    /// Requests of more kinds, if there are to be any.
    mix: Option<Mix>,
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
    known: Vec<i64>,
}

/// A request sent once.
struct Attempt {
    task: usize,
    /// The life of the replica that answered it, if one did.
    reader: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Session {
    Closed,
    Opening,
    Open,
}

/// In which way something is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Ask {
    /// Opens the client's session.
    Open,
    /// Under the client's session: sent again, elsewhere, until it is answered.
    Command(Rc<Asked>),
    /// Under the replica's session: sent once.
    Write(Rc<Asked>),
    Read(Rc<Asked>),
    /// Of whatever state the replica has.
    Peek(Rc<Asked>),
    /// The bytes of a payload.
    Payload(PayloadId, Payload),
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Fate {
    Pending,
    Done(Returned),
    /// It opened a session.
    Opened,
    /// It got the bytes of a payload, or learned that it is dead.
    Got,
    Unknown,
    NotExecuted,
}

struct Task {
    client: usize,
    /// The register it is about, or the first of several.
    key: u8,
    ask: Ask,
    id: RequestId,
    invoked: u64,
    /// When it was first sent, in virtual time.
    since_ns: u64,
    fate: Fate,
    token: Token,
    attempts: u32,
    /// The only replica to ask.
    pinned: Option<usize>,
}

impl Clients {
    pub(crate) fn new(load: &Load, seed: u64, rng: &mut Rng) -> Self {
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
            mix: load.rich.then(|| Mix::new(seed, load.keys)),
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
        let tasks = self.tasks.iter();
        let ops = tasks.filter_map(|task| task.op(self.tokens[task.token as usize - 1].reader));
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

    fn begin(&mut self, client: usize, key: u8, ask: Ask, pinned: Option<usize>) -> usize {
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
        match &ended.fate {
            // What may be stale is not what is known.
            Fate::Done(returned) if !matches!(ended.ask, Ask::Peek(_)) => {
                self.completed += 1;
                self.newest = self.newest.max(returned.revision);
                if let Some(modified) = modified(&ended.ask, returned) {
                    client.known[usize::from(ended.key)] = modified;
                }
            }
            Fate::Opened => client.session = Session::Open,
            _ => {}
        }
    }

    /// Now and then something richer in the place of what a client was to ask.
    fn enrich(&mut self, client: usize, ask: Ask, leases: &Leases) -> Ask {
        let Some(mix) = &mut self.mix else {
            return ask;
        };
        let known = Known {
            newest: self.newest,
            modified: &self.clients[client].known,
            leases: leases.held(),
        };
        mix.draw(&known, &mut self.next_value).unwrap_or(ask)
    }

    /// A value that nobody stored before.
    fn next_value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value - 1
    }

    /// A change of one key.
    fn draw_call(&mut self, rng: &mut Rng, client: usize, key: u8) -> Asked {
        let value = self.next_value();
        match rng.u8(..10) {
            0 => Asked::Delete(requests::delete(key)),
            1..=3 => {
                let expected = self.clients[client].known[usize::from(key)];
                Asked::Txn(requests::cas(key, expected, value))
            }
            _ => Asked::Put(requests::put(key, value)),
        }
    }
}

impl Task {
    /// What the history says of it, if it may have done or seen something.
    fn op(&self, reader: u64) -> Option<Op> {
        let returned = match (&self.ask, &self.fate) {
            (_, Fate::Done(returned)) => Some(returned.clone()),
            (Ask::Command(_) | Ask::Write(_), Fate::Pending | Fate::Unknown) => None,
            _ => return None,
        };
        Some(Op {
            client: self.client,
            request: self.ask.request()?.as_ref().clone(),
            invoked: self.invoked,
            returned,
            reader,
        })
    }
}

impl Ask {
    /// Whether gateways without a replica take it.
    fn is_for_gateways(&self) -> bool {
        matches!(self, Ask::Open | Ask::Command(_) | Ask::Write(_))
    }

    fn request(&self) -> Option<&Rc<Asked>> {
        match self {
            Ask::Open | Ask::Payload(..) => None,
            Ask::Command(asked) | Ask::Write(asked) | Ask::Read(asked) | Ask::Peek(asked) => {
                Some(asked)
            }
        }
    }
}

/// The revision at which the key asked about was last modified, as the answer tells it; after a
/// deletion, its revision.
fn modified(ask: &Ask, returned: &Returned) -> Option<i64> {
    let asked = ask.request()?;
    let seen = match &returned.response {
        Response::Range(range) => range.kvs.first(),
        Response::Txn(txn) => match txn.responses.first().and_then(|op| op.response.as_ref()) {
            Some(PartAnswer::ResponseRange(range)) => range.kvs.first(),
            _ => None,
        },
        _ => None,
    };
    let is_about_one = !matches!(&**asked, Asked::Range(range) if !range.range_end.is_empty());
    let seen = seen.filter(|_| is_about_one).map(|kv| kv.mod_revision);
    seen.or(returned.response.changed().then_some(returned.revision))
}
