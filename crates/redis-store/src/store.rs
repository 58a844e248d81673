//! The store as an application.

use crate::body::{Call, Request};
use crate::context::{Exec, View};
use crate::dispatch;
use crate::followed::{FOLLOWS, Followed, STREAM_TAG, Standing, Transition};
use crate::footprint;
use crate::keyspace::Keyspace as Databases;
use crate::random::Random;
use crate::rdb::{self, Everything, Loaded};
use crate::reply::Reply;
use crate::snapshot::{Cut, Loading};
use crate::subscribers::Subscribers;
use crate::text::Sought;
use crate::users::{Asker, USERS_TAG, UserTable, UsersChange};
use bytes::Bytes;
use quorate_core::{Application, At, CommandProperties, Encoder, Payload, Wire};
use quorate_redis_rdb::RdbError;
use quorate_resp::Resp;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io::Read;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

const NS_PER_MS: u64 = 1_000_000;

/// A read of the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Query {
    /// The replies of calls that only read.
    Calls {
        /// The version of the protocol that the client speaks.
        resp: Resp,
        /// The database in which the calls look.
        db: u32,
        /// The clock of the replica, in ns since the Unix epoch.
        clock_ns: u64,
        /// The calls, in order.
        calls: Vec<Call>,
        /// In whose name they are asked; `None` for the default user, and where the group has no users.
        asker: Option<Asker>,
    },
    /// The versions of keys, each in its database, for whoever watches them.
    Versions {
        /// The clock of the replica, in ns since the Unix epoch.
        clock_ns: u64,
        /// The databases and the keys.
        keys: Vec<(u32, Bytes)>,
    },
    /// How large each database is.
    Keyspace,
    /// All keys and what they hold; while the data of another server is being brought over, how far that is.
    Everything,
    /// Where the stream of another server stands.
    Standing,
}

/// The answer to a read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// The replies, one behind the other: of all calls, or of the first ones up to that with which they reached
    /// [`REPLIES_BYTES_MAX`](crate::REPLIES_BYTES_MAX).
    Replies(Bytes),
    /// The version of each key; 0 for no such key.
    Versions(Vec<u64>),
    /// The size of each database.
    Keyspace(Keyspace),
    /// All keys and what they hold.
    Everything(Everything),
    /// Where the stream of another server stands.
    Standing(Standing),
    /// Something that was looked at is over by the clock, and not yet by the log: to be asked through the log.
    Due,
}

/// The sizes of databases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Keyspace {
    /// The size of each database, in the order of their numbers.
    pub databases: Vec<DatabaseSize>,
}

/// The size of one database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatabaseSize {
    /// The number of keys.
    pub keys: u64,
    /// The number of keys that have an end.
    pub expires: u64,
}

/// The store: databases of keys that hold strings, lists, sets, hashes or sorted sets.
#[derive(Default)]
pub struct Store {
    databases: Databases,
    /// Who may do what; without users, everybody may do everything.
    users: Option<Arc<UserTable>>,
    /// The server that is or was followed; `None` if there never was one.
    followed: Option<Box<Followed>>,
    subscribers: Option<Arc<dyn Subscribers>>,
    loading: Box<Loading>,
    /// Where the names of commands are written, of which versions are made.
    names: Encoder,
    /// Where replies are written that are copied to their place.
    replies: Vec<u8>,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("databases", &self.databases)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// What the bodies of commands say by themselves.
    pub const COMMAND_PROPERTIES: CommandProperties = CommandProperties {
        grows: footprint::grows,
        touches: Some(footprint::touches),
        ..CommandProperties::UNKNOWN
    };

    /// An empty store whose messages nobody hears.
    #[must_use]
    pub fn new() -> Self {
        Store::default()
    }

    /// The store that an RDB of so many bytes stands for, at a time since the Unix epoch. `read` hears how far it is.
    ///
    /// # Errors
    /// What is wrong with the file, or the first key of a kind that the store does not have.
    pub fn from_rdb(
        from: impl Read,
        bytes: u64,
        now_ms: u64,
        read: impl FnMut(u64),
    ) -> Result<(Store, Loaded), RdbError> {
        let (databases, loaded) = rdb::load(from, bytes, now_ms, read)?;
        let store = Store {
            databases,
            ..Store::default()
        };
        Ok((store, loaded))
    }

    /// An empty store that tells messages to these.
    #[must_use]
    pub fn with_subscribers(subscribers: Arc<dyn Subscribers>) -> Self {
        Store {
            subscribers: Some(subscribers),
            ..Store::default()
        }
    }

    /// Carries out a body. What is no body changes nothing, and comes to nothing.
    fn execute(&mut self, at: At, body: &Bytes) -> Bytes {
        self.databases.advance(at.stamp_ns / NS_PER_MS);
        match body.first() {
            Some(&USERS_TAG) => return self.change_users(at, body),
            Some(&STREAM_TAG) => return self.follow(at, body),
            _ => {}
        }
        let Ok(request) = Request::from_bytes(body.clone()) else {
            return Bytes::new();
        };
        let version = self.version(at);
        let mut out = Reply::behind(std::mem::take(&mut self.replies), request.resp);
        if self.is_following() {
            dispatch::refuse(&request, &FOLLOWS, &mut out);
            let (replies, space) = out.finish();
            self.replies = space;
            return replies;
        }
        let mut exec = Exec::new(&mut self.databases, request.db, version);
        let subscribers = self.subscribers.as_deref();
        if subscribers.is_some_and(Subscribers::awaits_elements) {
            exec.note_changes();
        }
        let users = self.users.as_deref();
        dispatch::carry_out(&mut exec, &request, users, at.admission, &mut out);
        if let Some(subscribers) = subscribers {
            exec.tell(subscribers);
        }
        let (replies, space) = out.finish();
        self.replies = space;
        replies
    }

    /// Changes users. The reply is the same in both versions of the protocol.
    fn change_users(&mut self, at: At, body: &Bytes) -> Bytes {
        let Ok(change) = UsersChange::from_bytes(body.clone()) else {
            return Bytes::new();
        };
        let version = self.version(at);
        let mut out = Reply::new(Resp::Two);
        let changed = dispatch::admit_change(at.admission)
            .and_then(|()| change.apply(self.users.as_ref(), version));
        match changed {
            Ok((users, deleted)) => {
                self.users = Some(Arc::new(users));
                self.tell_users();
                match deleted {
                    Some(count) => out.count(count),
                    None => out.ok(),
                }
            }
            Err(fault) => out.fault(&fault),
        }
        out.into_writer().into_bytes()
    }

    /// Takes a command of another server's stream; what it came to.
    fn follow(&mut self, at: At, body: &Bytes) -> Bytes {
        let version = self.version(at);
        let mut followed = self.followed.take().unwrap_or_default();
        let has_keys = || self.sizes().databases.iter().any(|size| size.keys > 0);
        let (outcome, transition) = followed.take(at.admission, body, has_keys);
        match transition {
            Transition::Begin => self.databases.clear_and_suspend_expiry(),
            Transition::End => {
                self.databases.resume_expiry();
                if let Some(subscribers) = &self.subscribers {
                    subscribers.all_elements();
                }
            }
            Transition::Continue(accepted) if accepted.is_empty() => {}
            Transition::Continue(accepted) => {
                let mut exec = Exec::new(&mut self.databases, 0, version);
                followed.carry_out(&accepted, &mut exec);
                if let Some(subscribers) = self.subscribers.as_deref() {
                    exec.tell(subscribers);
                }
            }
        }
        self.followed = Some(followed).filter(|followed| followed.is_used());
        outcome.to_bytes()
    }

    /// The state of another server's stream; an empty one if none was ever followed.
    fn standing(&self) -> Standing {
        let followed = self.followed.as_ref();
        followed.map(|one| one.standing()).unwrap_or_default()
    }

    /// Whether only a part of what another server has is here: no state that there was.
    fn is_loading(&self) -> bool {
        self.followed.as_ref().is_some_and(|one| one.is_loading())
    }

    /// Whether clients are served by another server.
    fn is_following(&self) -> bool {
        self.followed.as_ref().is_some_and(|one| one.is_active())
    }

    /// Who may do what; `None` where the group has no users, and everybody may do everything.
    #[must_use]
    pub fn users(&self) -> Option<&UserTable> {
        self.users.as_deref()
    }

    /// The version of what a command changes: a name that no other command has, wherever it ends up in the log.
    fn version(&mut self, at: At) -> u64 {
        at.payload.entry.encode(&mut self.names);
        self.names.u32(at.index);
        xxh3_64(&self.names.take_bytes()).max(1)
    }

    fn tell_users(&self) {
        if let Some(subscribers) = &self.subscribers {
            subscribers.users(self.users.as_ref());
        }
    }

    fn answer_calls(
        &self,
        (resp, db): (Resp, u32),
        clock_ns: u64,
        calls: &[Call],
        asker: Option<&Asker>,
    ) -> Answer {
        if db >= crate::keyspace::DATABASES {
            return Answer::Replies(Bytes::new());
        }
        let is_due = Cell::new(false);
        let random = RefCell::new(Random::new(clock_ns));
        let clock_ms = clock_ns / NS_PER_MS;
        let view = || View::new(&self.databases, db, clock_ms, &is_due, &random);
        // Without room to begin with: one string gets as much as it takes.
        let mut out = Reply::behind(Vec::new(), resp);
        if self.is_following() {
            calls.iter().for_each(|_| out.fault(&FOLLOWS));
            return Answer::Replies(out.into_writer().into_bytes());
        }
        let asking = dispatch::asking(self.users.as_deref(), asker);
        dispatch::answer(view, calls, &asking, &mut out);
        match is_due.get() {
            true => Answer::Due,
            false => Answer::Replies(out.into_writer().into_bytes()),
        }
    }

    fn versions(&self, clock_ns: u64, keys: &[(u32, Bytes)]) -> Answer {
        if self.is_following() {
            return Answer::Versions(vec![0; keys.len()]);
        }
        let is_due = Cell::new(false);
        let random = RefCell::new(Random::new(0));
        let clock_ms = clock_ns / NS_PER_MS;
        let version = |(db, key): &(u32, Bytes)| {
            let view = View::new(&self.databases, *db, clock_ms, &is_due, &random);
            view.item(Sought::new(key)).map_or(0, |item| item.version)
        };
        let of_databases = keys
            .iter()
            .filter(|(db, _)| *db < crate::keyspace::DATABASES);
        let versions = of_databases.map(version).collect();
        match is_due.get() {
            true => Answer::Due,
            false => Answer::Versions(versions),
        }
    }

    fn sizes(&self) -> Keyspace {
        let now_ms = self.databases.now_ms();
        let databases = self
            .databases
            .databases()
            .iter()
            .map(|database| DatabaseSize {
                keys: database.len(now_ms) as u64,
                expires: database.ending(now_ms) as u64,
            });
        Keyspace {
            databases: databases.collect(),
        }
    }
}

impl Application for Store {
    type Query = Query;
    type Answer = Answer;
    type Cut = Cut;

    fn apply(&mut self, at: At, body: &Bytes, _: &[Payload]) -> Bytes {
        debug_assert!(!self.databases.has_attempts(), "decided behind what is not");
        self.execute(at, body)
    }

    fn command_properties(&self) -> CommandProperties {
        Store::COMMAND_PROPERTIES
    }

    fn is_retractable(&self, body: &Bytes) -> bool {
        footprint::is_retractable(&self.databases, body)
    }

    fn attempt(&mut self, at: At, body: &Bytes) -> Bytes {
        self.databases.begin_attempt();
        self.execute(at, body)
    }

    fn keep(&mut self) {
        self.databases.keep_attempt();
    }

    fn retract(&mut self) {
        self.databases.retract_attempt();
    }

    fn tidy(&mut self) -> bool {
        self.databases.free_some()
    }

    fn query(&self, query: &Query) -> Answer {
        match query {
            Query::Calls {
                resp,
                db,
                clock_ns,
                calls,
                asker,
            } => self.answer_calls((*resp, *db), *clock_ns, calls, asker.as_ref()),
            Query::Versions { clock_ns, keys } => self.versions(*clock_ns, keys),
            Query::Keyspace => Answer::Keyspace(self.sizes()),
            Query::Everything if self.is_loading() => Answer::Standing(self.standing()),
            Query::Everything => Answer::Everything(Everything::new(&self.databases)),
            Query::Standing => Answer::Standing(self.standing()),
        }
    }

    fn cut(&mut self) -> Cut {
        Cut::new(&self.databases, self.users.clone(), self.followed.clone())
    }

    fn piece(&mut self, cut: &mut Cut, bytes: usize) -> Option<Bytes> {
        cut.next_piece(bytes)
    }

    fn release(&mut self, _: Cut) {}

    fn empty(&self) -> Self {
        Store {
            subscribers: self.subscribers.clone(),
            ..Store::default()
        }
    }

    fn load(&mut self, piece: Bytes) -> Result<(), String> {
        self.loading.load(piece)
    }

    fn loaded(&mut self) -> Result<(), String> {
        let loaded = std::mem::take(&mut *self.loading).end()?;
        (self.databases, self.users) = (loaded.databases, loaded.users);
        self.followed = loaded.followed;
        self.tell_users();
        if let Some(subscribers) = &self.subscribers {
            subscribers.all_elements();
        }
        Ok(())
    }
}
