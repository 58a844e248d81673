//! The application under test, as the workload sees it.

use crate::judge::{self, Journal};
use crate::plan::Load;
use crate::values::Values;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Application, CommandProperties, Payload, PayloadId};
use quorate_etcd_api::mvccpb::{Event, KeyValue};
use quorate_etcd_store::{Asker, AuthBoard, AuthState, Flaw};
use quorate_redis_effects::{Shared, StreamState};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;

mod administrator;
mod embedded;
mod etcd;
mod etcd_load;
mod mix;
mod plain;
mod redis;
mod stream;

pub use embedded::Testable;
pub(crate) use embedded::{Tested, forget};

/// The client that changes users, where there are any.
pub(crate) const ADMINISTRATOR: usize = 0;
/// The users that come and go.
pub(crate) const USERS: [&str; 4] = ["user-0", "user-1", "user-2", "user-3"];

/// What the workload asks for besides requests whose answers are judged by revision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chore {
    /// Begin a lease.
    Grant { lease: u64, ttl_s: u64 },
    /// Begin its time anew.
    Renew { lease: u64 },
}

/// The keys whose changes are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All, for the one reader of a replica that may read what was compacted but not freed.
    All,
    /// A range as requests name it, for anybody.
    Range(Bytes, Bytes),
}

impl Scope {
    /// All keys, for anybody: from the least on, whatever the end.
    pub(crate) fn every() -> Scope {
        Scope::Range(Bytes::from_static(b"\0"), Bytes::from_static(b"\0"))
    }
}

/// The answer to who asks for changes.
pub(crate) enum Changes {
    /// All changes before `next`.
    Found { events: Vec<Event>, next: i64 },
    /// They cannot be read any more; those from this revision on can.
    Compacted { readable: i64 },
}

/// In which way something is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Ask<R> {
    /// Opens the client's session.
    Open,
    /// Under the client's session: sent again, elsewhere, until it is answered.
    Command(Rc<R>),
    /// Under the replica's session: sent once.
    Write(Rc<R>),
    /// A read of what is decided.
    Read(Rc<R>),
    /// Of whatever state the replica has.
    Peek(Rc<R>),
    /// The bytes of a payload.
    Payload(PayloadId, Payload),
}

impl<R> Ask<R> {
    /// Whether gateways without a replica take it.
    pub(crate) fn is_for_gateways(&self) -> bool {
        matches!(self, Ask::Open | Ask::Command(_) | Ask::Write(_))
    }

    /// What the application is asked, if it is the application.
    pub(crate) fn request(&self) -> Option<&Rc<R>> {
        match self {
            Ask::Open | Ask::Payload(..) => None,
            Ask::Command(asked) | Ask::Write(asked) | Ask::Read(asked) | Ask::Peek(asked) => {
                Some(asked)
            }
        }
    }
}

/// A request of the history, and what became of it. Times are stamps of one counter.
pub(crate) struct Asked<A: Subject> {
    pub(crate) client: usize,
    /// For whom, as the face saw it that took the request.
    pub(crate) asker: Asker,
    pub(crate) request: A::Request,
    /// When it was first sent.
    pub(crate) invoked: u64,
    /// The answer; `None` if there is none, and it may have taken effect at any time, or never.
    pub(crate) returned: Option<A::Returned>,
    /// Who answered a read that may be stale: a number for each life of each replica.
    pub(crate) reader: u64,
}

/// An application with keys that clients store and read.
pub(crate) trait Subject: Application + Sized {
    /// What clients ask.
    type Request: Clone + PartialEq + Debug;
    /// What an answer says, and the stamp of its arrival.
    type Returned: Clone + PartialEq + Debug;
    /// Draws requests for clients.
    type Workload: Workload<Self>;

    /// Whether a Redis server stands beside each replica.
    const HAS_SERVERS: bool = false;

    /// An empty one, which does something wrong if told to.
    fn fresh(flaw: Option<Flaw>) -> Self;

    /// What the bodies of its commands say by themselves.
    fn commands() -> CommandProperties {
        Self::fresh(None).command_properties()
    }

    /// Leaves out of a load what this application has nothing for.
    fn limit(load: &mut Load) {
        let _ = load;
    }

    /// Stores a value of so many bytes at least under a key.
    fn put(key: u8, value: u64, bytes: usize) -> Self::Request;

    /// Reads a key.
    fn get(key: u8) -> Self::Request;

    /// Asks whether there are users who have to show who they are, if there can be any.
    fn auth_status() -> Option<Self::Request> {
        None
    }

    /// The command for a request that may change something, and the values of so many bytes or more
    /// that are kept apart from it.
    fn command(request: &Self::Request, payload_min: Option<usize>) -> (Bytes, Vec<Payload>);

    /// The query for one that only reads.
    fn read(request: &Self::Request) -> Self::Query;

    /// A command, asked for by somebody.
    fn sign(asker: &Asker, body: Bytes) -> Bytes {
        let _ = asker;
        body
    }

    /// A query, asked by somebody.
    fn asked(asker: &Asker, query: Self::Query) -> Self::Query {
        let _ = asker;
        query
    }

    /// What the result of a command says that arrives at this time.
    fn response(
        request: &Self::Request,
        result: &Bytes,
        values: &Values,
        stamp: u64,
    ) -> Result<Self::Returned, String>;

    /// What the answer to a query says that arrives at this time.
    fn got(answer: &Self::Answer, values: &Values, stamp: u64) -> Result<Self::Returned, String>;

    /// The revision of the whole store that an answer was given at; 0 if it names none.
    fn revision_of(returned: &Self::Returned) -> i64 {
        let _ = returned;
        0
    }

    /// What an answer shows that a seed is counted for, if it does.
    fn shows(request: &Self::Request, returned: &Self::Returned) -> Option<&'static str> {
        let _ = (request, returned);
        None
    }

    /// A payload that an answer names, if it does.
    fn named(answer: &Self::Answer) -> Option<(PayloadId, Payload)> {
        let _ = answer;
        None
    }

    /// Its revisions, if it keeps any.
    fn revisions(&self) -> Option<&dyn Revisions> {
        None
    }

    /// The part that the driver of a server has too, if there is a server.
    fn shared(&self) -> Option<Arc<Shared>> {
        None
    }

    /// The state of the stream in an answer, if it is of a stream.
    fn stream_state(answer: &Self::Answer) -> Option<StreamState> {
        let _ = answer;
        None
    }

    /// The users it has, if it can have any.
    fn guarded(&self) -> Option<&dyn Guarded> {
        None
    }

    /// Whether all that clients were told can have happened one after the other. `chores` are the
    /// requests of those who keep leases or compact, `sights` what watches of users were told, and the
    /// journal has the changes of all revisions: nothing where the application keeps none.
    fn judge(
        history: Vec<Asked<Self>>,
        chores: Vec<judge::Op>,
        sights: &[judge::Sight],
        journal: &Journal,
    ) -> Result<(), String>;
}

/// An application every change of which has a revision of the whole store.
pub(crate) trait Revisions {
    /// Changes from a revision on.
    fn changes(&self, scope: &Scope, from: i64, values: &Values) -> Result<Changes, String>;

    /// All keys as they are now.
    fn content(&self, values: &Values) -> Result<Vec<KeyValue>, String>;

    /// The present revision.
    fn revision(&self) -> i64;

    /// Leases, and keys that go with them.
    fn leases(&self) -> Result<usize, String>;
}

/// An application with users, who have rights.
pub(crate) trait Guarded {
    /// Users and roles.
    fn state(&self) -> Arc<AuthState>;

    /// What faces see of them.
    fn board(&self) -> Arc<AuthBoard>;
}

/// Who a request is drawn for.
pub(crate) struct Who {
    pub(crate) client: usize,
    /// The register it is about, if it is about one.
    pub(crate) key: u8,
    /// Leases that somebody keeps.
    pub(crate) leases: Vec<i64>,
    /// The highest revision in an answer.
    pub(crate) newest: i64,
}

/// Draws what clients ask, and remembers for them what they were told. Values come from a counter:
/// nobody stores the same twice.
pub(crate) trait Workload<A: Subject> {
    /// A workload of its own generator, for what is not to change the rest of a seed.
    fn new(load: &Load, rng: Rng) -> Self;

    /// What a client asks next.
    fn draw(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> Ask<A::Request>;

    /// A change that a client asks for beside something else.
    fn change(&mut self, rng: &mut Rng, who: &Who, next_value: &mut u64) -> A::Request;

    /// A write of those that come by themselves, and the register it is about.
    fn arrive(&mut self, rng: &mut Rng, next_value: &mut u64) -> (u8, A::Request);

    /// A client was told something that is not stale.
    fn learn(&mut self, client: usize, key: u8, asked: &A::Request, returned: &A::Returned);
}
