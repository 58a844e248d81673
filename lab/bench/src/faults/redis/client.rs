//! Clients of Redis, each with one request at a time at one replica.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytes::BytesMut;
use quorate_resp::{Reply, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::history::{Access, Count, NEVER, Timed};

/// What all clients of a round share.
#[derive(Debug)]
pub(super) struct Shared {
    /// What the names of the round's keys begin with.
    pub(super) prefix: String,
    /// Where the replicas serve clients, as `host:port`.
    pub(super) servers: Vec<String>,
    /// How long a client waits for replies.
    pub(super) patience: Duration,
    /// How clients take members.
    pub(super) take: Take,
    /// One counter for all, read before a request is sent and after its reply was read.
    pub(super) stamps: AtomicU64,
    /// Values that were written so far: no two are equal.
    pub(super) values: AtomicU64,
    pub(super) is_over: AtomicBool,
}

/// How a member is taken of those that a round begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// Any member of a set (`SPOP`).
    Any,
    /// The first element of a list (`LPOP`), where nothing may be left to chance.
    First,
}

impl Take {
    /// The command that adds members.
    fn add(self) -> &'static str {
        match self {
            Take::Any => "SADD",
            Take::First => "RPUSH",
        }
    }

    /// The command that takes one.
    fn take(self) -> &'static str {
        match self {
            Take::Any => "SPOP",
            Take::First => "LPOP",
        }
    }

    /// The call that shows those that are left.
    fn show(self, key: &str) -> Vec<&str> {
        match self {
            Take::Any => vec!["SMEMBERS", key],
            Take::First => vec!["LRANGE", key, "0", "-1"],
        }
    }
}

/// The keys of a round.
pub(super) const STRINGS: usize = 8;
pub(super) const COUNTERS: usize = 2;
/// Members at the beginning of a round: more than are taken.
pub(super) const MEMBERS: usize = 20_000;

/// What clients did and were told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) strings: [Vec<Timed<Access>>; STRINGS],
    pub(super) counters: [Vec<Timed<Count>>; COUNTERS],
    /// Members that were taken.
    pub(super) taken: Vec<String>,
    /// Requests to take a member that were not answered.
    pub(super) taken_silently: usize,
    /// Replies that no Redis gives.
    pub(super) wrong: Vec<String>,
    pub(super) answered: u64,
}

impl Told {
    /// Adds what another client was told.
    pub(super) fn merge(&mut self, other: Told) {
        let strings = self.strings.iter_mut().zip(other.strings);
        strings.for_each(|(own, more)| own.extend(more));
        let counters = self.counters.iter_mut().zip(other.counters);
        counters.for_each(|(own, more)| own.extend(more));
        self.taken.extend(other.taken);
        self.taken_silently += other.taken_silently;
        self.wrong.extend(other.wrong);
        self.answered += other.answered;
    }
}

/// Why there is no reply.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// Nothing was done.
    Refused,
    /// The request may have been carried out, or not.
    Silent,
}

/// A client at one replica, with at most one connection.
#[derive(Debug)]
pub(super) struct Client {
    shared: Arc<Shared>,
    /// The number of the replica that is asked.
    server: usize,
    random: fastrand::Rng,
    connection: Option<Connection>,
    /// How often reading may still be asked again.
    retries_left: u32,
    told: Told,
}

impl Client {
    pub(super) fn new(shared: &Arc<Shared>, server: usize, seed: u64) -> Client {
        Client {
            shared: Arc::clone(shared),
            server,
            random: fastrand::Rng::with_seed(seed),
            connection: None,
            retries_left: RETRIES,
            told: Told::default(),
        }
    }

    /// Asks until it is over.
    pub(super) async fn run(mut self) -> Told {
        while !self.shared.is_over.load(SeqCst) {
            if self.once().await.is_err() {
                self.connection = None;
                sleep(RETRY).await;
            }
            sleep(PAUSE).await;
        }
        self.told
    }

    async fn once(&mut self) -> Result<(), Failure> {
        let (string, counter) = (self.random.usize(..STRINGS), self.random.usize(..COUNTERS));
        match self.random.u8(..10) {
            0..3 => self.read(string).await,
            3..5 => self.write(string).await,
            5..7 => self.swap(string).await,
            7 => self.add(counter).await,
            8 => self.count(counter).await,
            _ => self.take().await,
        }
    }

    /// Reads everything that the round wrote, for the end of its histories.
    pub(super) async fn read_all(mut self) -> Result<Told, String> {
        for string in 0..STRINGS {
            while let Err(why) = self.read(string).await {
                self.ask_again(&why).await?;
            }
        }
        for counter in 0..COUNTERS {
            while let Err(why) = self.count(counter).await {
                self.ask_again(&why).await?;
            }
        }
        Ok(self.told)
    }

    /// Waits before something is asked again that changes nothing. A connection ends when the executor changes, as it
    /// does once more where several replicas claimed to be it while the cluster came back.
    async fn ask_again(&mut self, why: &Failure) -> Result<(), String> {
        // Silence has lasted as long as many refusals.
        let cost = match why {
            Failure::Refused => 1,
            Failure::Silent => RETRIES / 5,
        };
        let left = self.retries_left.checked_sub(cost);
        self.retries_left = left.ok_or_else(|| self.unread(why))?;
        self.connection = None;
        sleep(RETRY).await;
        Ok(())
    }

    fn unread(&self, why: &Failure) -> String {
        let server = &self.shared.servers[self.server];
        format!("{server} does not answer after all was healed: {why:?}")
    }

    /// Puts all members where they are taken from.
    pub(super) async fn fill(&mut self) -> Result<(), String> {
        let members: Vec<String> = (0..MEMBERS).map(|member| member.to_string()).collect();
        let key = self.key("set", 0);
        for some in members.chunks(1000) {
            let mut words = vec![self.shared.take.add(), &key];
            words.extend(some.iter().map(String::as_str));
            let replies = self.ask(&[&words]).await;
            replies.map_err(|why| self.unread(&why))?;
        }
        Ok(())
    }

    /// The members that are left, in the order of their names.
    pub(super) async fn left(mut self) -> Result<Vec<String>, String> {
        let key = self.key("set", 0);
        let call = self.shared.take.show(&key);
        let replies = loop {
            match self.ask(&[&call]).await {
                Ok(replies) => break replies,
                Err(why) => self.ask_again(&why).await?,
            }
        };
        match &replies[0] {
            Reply::Array(members) | Reply::Set(members) => {
                let mut members: Vec<String> = members.iter().filter_map(Reply::text).collect();
                members.sort();
                Ok(members)
            }
            other => Err(format!("{}: {other:?}", call[0])),
        }
    }

    fn key(&self, kind: &str, number: usize) -> String {
        format!("{}{kind}:{number}", self.shared.prefix)
    }

    async fn read(&mut self, string: usize) -> Result<(), Failure> {
        let (key, began) = (self.key("string", string), self.stamp());
        let replies = self.ask(&[&["GET", &key]]).await?;
        let what = self.value(&replies[0]).map(Access::Read);
        self.note_access(string, began, what);
        Ok(())
    }

    async fn write(&mut self, string: usize) -> Result<(), Failure> {
        let (key, to) = (self.key("string", string), self.next_value());
        let began = self.stamp();
        let replies = self.ask(&[&["SET", &key, &to.to_string()]]).await;
        match replies {
            Ok(replies) if replies[0] == Reply::Simple("OK".to_owned()) => {
                self.note_access(string, began, Some(Access::Write(to)));
            }
            Ok(replies) => self.wrong("SET", &replies),
            Err(Failure::Silent) => {
                self.note_silent(string, began, Access::Write(to));
                return Err(Failure::Silent);
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Writes a value where another one is, if that stays until then.
    async fn swap(&mut self, string: usize) -> Result<(), Failure> {
        let (key, to) = (self.key("string", string), self.next_value());
        let began = self.stamp();
        let replies = self.ask(&[&["WATCH", &key], &["GET", &key]]).await?;
        let Some(from) = self.value(&replies[1]) else {
            return Ok(());
        };
        self.note_access(string, began, Some(Access::Read(from)));
        let (began, what) = (self.stamp(), Access::Swap { from, to });
        let set = to.to_string();
        match self
            .ask(&[&["MULTI"], &["SET", &key, &set], &["EXEC"]])
            .await
        {
            Ok(replies) => match &replies[2] {
                Reply::Array(done) if done.len() == 1 => {
                    self.note_access(string, began, Some(what));
                }
                // Another client was faster: nothing was done.
                Reply::Null => {}
                _ => self.wrong("EXEC", &replies),
            },
            Err(Failure::Silent) => {
                self.note_silent(string, began, what);
                return Err(Failure::Silent);
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    async fn add(&mut self, counter: usize) -> Result<(), Failure> {
        let (key, began) = (self.key("counter", counter), self.stamp());
        let asked = self.ask(&[&["INCR", &key]]).await;
        let (what, ended) = match &asked {
            Ok(replies) => match replies[0] {
                Reply::Integer(count) => (Count::Added(Some(count as u64)), self.stamp()),
                _ => {
                    self.wrong("INCR", replies);
                    return Ok(());
                }
            },
            Err(Failure::Silent) => (Count::Added(None), NEVER),
            Err(Failure::Refused) => return Err(Failure::Refused),
        };
        self.told.counters[counter].push(Timed { began, ended, what });
        asked.map(|_| ())
    }

    async fn count(&mut self, counter: usize) -> Result<(), Failure> {
        let (key, began) = (self.key("counter", counter), self.stamp());
        let replies = self.ask(&[&["GET", &key]]).await?;
        let ended = self.stamp();
        if let Some(count) = self.value(&replies[0]) {
            let what = Count::Read(count.unwrap_or(0));
            self.told.counters[counter].push(Timed { began, ended, what });
        }
        Ok(())
    }

    async fn take(&mut self) -> Result<(), Failure> {
        let key = self.key("set", 0);
        let take = self.shared.take.take();
        match self.ask(&[&[take, &key]]).await {
            Ok(replies) => match replies[0].text() {
                Some(member) => self.told.taken.push(member),
                None => self.wrong(take, &replies),
            },
            Err(Failure::Silent) => {
                self.told.taken_silently += 1;
                return Err(Failure::Silent);
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// The value that a reply tells of; `None` if it is no such reply.
    fn value(&mut self, reply: &Reply) -> Option<Option<u64>> {
        let value = match reply {
            Reply::Null => Some(None),
            reply => reply.text().and_then(|text| text.parse().ok()).map(Some),
        };
        if value.is_none() {
            self.wrong("GET", std::slice::from_ref(reply));
        }
        value
    }

    fn note_access(&mut self, string: usize, began: u64, what: Option<Access>) {
        let ended = self.stamp();
        let access = what.map(|what| Timed { began, ended, what });
        self.told.strings[string].extend(access);
    }

    fn note_silent(&mut self, string: usize, began: u64, what: Access) {
        let ended = NEVER;
        self.told.strings[string].push(Timed { began, ended, what });
    }

    fn wrong(&mut self, asked: &str, replies: &[Reply]) {
        self.told
            .wrong
            .push(format!("{asked} was answered with {replies:?}"));
    }

    fn stamp(&self) -> u64 {
        self.shared.stamps.fetch_add(1, SeqCst)
    }

    fn next_value(&self) -> u64 {
        self.shared.values.fetch_add(1, SeqCst)
    }

    /// The replies to requests that are sent at once.
    async fn ask(&mut self, requests: &[&[&str]]) -> Result<Vec<Reply>, Failure> {
        let server = &self.shared.servers[self.server];
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                let connected = timeout(self.shared.patience, TcpStream::connect(server)).await;
                // What was never sent was not done.
                let stream = connected
                    .ok()
                    .and_then(Result::ok)
                    .ok_or(Failure::Refused)?;
                none.insert(Connection {
                    stream,
                    input: BytesMut::new(),
                })
            }
        };
        let exchanged = timeout(self.shared.patience, connection.exchange(requests)).await;
        let replies = exchanged.ok().flatten().ok_or(Failure::Silent)?;
        self.told.answered += replies.len() as u64;
        let is_refused =
            |reply: &Reply| matches!(reply, Reply::Error(why) if why.starts_with("LOADING "));
        match replies.iter().any(is_refused) {
            true => Err(Failure::Refused),
            false => Ok(replies),
        }
    }
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    input: BytesMut,
}

impl Connection {
    /// Sends requests, and reads as many replies, or those up to one after which the connection ends; `None` if it
    /// fails before.
    async fn exchange(&mut self, requests: &[&[&str]]) -> Option<Vec<Reply>> {
        let mut out = Vec::new();
        requests
            .iter()
            .for_each(|request| encode_request(request, &mut out));
        self.stream.write_all(&out).await.ok()?;
        let mut replies = Vec::new();
        while replies.len() < requests.len() {
            match Reply::take(&mut self.input).ok()? {
                Some(Reply::Error(why)) if why.starts_with("LOADING ") => {
                    return Some(vec![Reply::Error(why)]);
                }
                Some(reply) => replies.push(reply),
                None if self.stream.read_buf(&mut self.input).await.ok()? == 0 => return None,
                None => {}
            }
        }
        Some(replies)
    }
}

/// How long a client waits before it connects again.
const RETRY: Duration = Duration::from_millis(5);
/// How often what changes nothing is asked again after a round.
const RETRIES: u32 = 400;
/// The time between two requests of a client, which bounds what the checker has to do.
const PAUSE: Duration = Duration::from_millis(2);
