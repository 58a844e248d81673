//! Closed-loop clients: writes to keys of their own, and bursts on keys all of them share.
//!
//! Keys of their own, each written once, say whether a write was lost. Shared keys, written and
//! read by all at the same moments, give histories in which order matters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{PutRequest, PutResponse, TxnRequest};
use quorate_sim::judge::{Op, Request, Returned};

use super::record::Record;
use super::shared::{self, Drawer};
use quorate_load::load::connection::{Attached, Connection};
use quorate_load::load::ledger::Ledger;
use quorate_load::load::payload::Payload;
use quorate_load::load::rpc::{Call, Channel, Failure};
use quorate_tooling::scrape;

/// What all clients of one round share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) payload: Payload,
    pub(super) seed: u64,
    /// Whether a write that was not answered is asked for again elsewhere.
    pub(super) asks_again: bool,
    pub(super) endpoints: Vec<String>,
    connections: Vec<Connection>,
    timeout: Duration,
    /// One counter for all, read right before an operation is sent and right after its answer has
    /// come: stamps are unique and agree with real time.
    stamps: AtomicU64,
}

/// A stretch of load.
#[derive(Debug)]
pub(super) struct Stage {
    started: Instant,
    over: AtomicBool,
    /// While set, half of all operations are on shared keys: around a fault.
    hot: AtomicBool,
    /// Operations on shared keys still allowed, which bounds what the checker has to do.
    budget: AtomicU64,
}

/// A client and what it remembers from stage to stage of a round.
#[derive(Debug)]
pub(super) struct Client {
    id: u32,
    /// The endpoint it uses, by number.
    pub(super) endpoint: usize,
    attached: Option<Attached>,
    /// Connections it has had.
    attachments: u32,
    random: fastrand::Rng,
    drawer: Drawer,
    sequence: u64,
    pub(super) ledger: Ledger,
    pub(super) record: Record,
    /// When puts were acknowledged.
    pub(super) completions: Vec<Instant>,
    pub(super) errors: Vec<(Instant, String)>,
    /// Writes that were asked for again elsewhere, and those that were not answered there either.
    pub(super) asked_again: u64,
    pub(super) unanswered: Vec<String>,
}

impl Session {
    pub(super) fn new(
        seed: u64,
        val_size: usize,
        endpoints: &[String],
        clients: u32,
        timeout: Duration,
    ) -> Result<Session, String> {
        let connections = (0..clients as usize)
            .map(|client| {
                let endpoint = client % endpoints.len();
                let authority = scrape::authority(&endpoints[endpoint])?;
                Ok(Connection::new(endpoint, authority))
            })
            .collect::<Result<_, String>>()?;
        Ok(Session {
            payload: Payload::new(seed, 0, val_size),
            seed,
            asks_again: false,
            endpoints: endpoints.to_vec(),
            connections,
            timeout,
            stamps: AtomicU64::new(1),
        })
    }

    /// Replicas there are.
    pub(super) fn replicas(&self) -> usize {
        self.endpoints.len()
    }

    /// A client of the history for the last reads through an endpoint, by its number.
    pub(super) fn reader(&self, endpoint: usize) -> u32 {
        (READERS_FROM * self.endpoints.len() + endpoint) as u32
    }

    /// The next stamp.
    pub(super) fn stamp(&self) -> u64 {
        self.stamps.fetch_add(1, SeqCst)
    }

    /// The name of a shared key; no other key of any round has it.
    pub(super) fn shared_key(&self, key: u8) -> Bytes {
        format!("{SHARED}{:016x}/{key}", self.seed).into()
    }

    /// The range of all shared keys.
    pub(super) fn shared_range(&self) -> (Bytes, Bytes) {
        shared::prefixed(format!("{SHARED}{:016x}/", self.seed))
    }

    /// The clients of this round.
    pub(super) fn clients(&self) -> Vec<Client> {
        let mut random = fastrand::Rng::with_seed(self.seed);
        (0..)
            .zip(&self.connections)
            .map(|(id, connection)| Client {
                id,
                endpoint: connection.endpoint,
                attached: None,
                attachments: 0,
                random: fastrand::Rng::with_seed(random.u64(..)),
                drawer: Drawer::new(id, random.u64(..)),
                sequence: 0,
                ledger: Ledger::new(id, None),
                record: Record::default(),
                completions: Vec::new(),
                errors: Vec::new(),
                asked_again: 0,
                unanswered: Vec::new(),
            })
            .collect()
    }
}

impl Stage {
    pub(super) fn new() -> Stage {
        Stage {
            started: Instant::now(),
            over: AtomicBool::new(false),
            hot: AtomicBool::new(false),
            budget: AtomicU64::new(BUDGET),
        }
    }

    /// When it began.
    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Ends it; operations under way are still waited for.
    pub(super) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    /// Says whether a fault is near.
    pub(super) fn set_hot(&self, hot: bool) {
        self.hot.store(hot, SeqCst);
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Whether the next operation is on a shared key. Bursts come at the same moments for all
    /// clients, and leave enough of the budget for those around a fault.
    fn shares(&self, random: &mut fastrand::Rng) -> bool {
        let burst = self.started.elapsed().as_millis() % BURST_EVERY_MS < BURST_MS;
        let reserve = match self.hot.load(SeqCst) {
            true if random.bool() => 0,
            false if burst => RESERVE,
            _ => return false,
        };
        let spend = |left: u64| (left > reserve).then(|| left - 1);
        self.budget.fetch_update(SeqCst, SeqCst, spend).is_ok()
    }
}

impl Client {
    /// Sends one operation after the other until the stage is over.
    pub(super) async fn run(mut self, session: Arc<Session>, stage: Arc<Stage>) -> Client {
        while !stage.is_over() {
            let Some(mut attached) = self.attach(&session, &stage).await else {
                break;
            };
            let result = match stage.shares(&mut self.random) {
                true => self.share(&session, &mut attached).await,
                false if session.asks_again => self.write_once(&session, &mut attached).await,
                false => self.write_own(&session, &mut attached).await,
            };
            if let Err(failure) = result {
                self.errors.push((Instant::now(), failure.text));
                if failure.connection_lost {
                    self.connection(&session).detach(&attached).await;
                    continue;
                }
            }
            self.attached = Some(attached);
        }
        self
    }

    fn connection<'a>(&self, session: &'a Session) -> &'a Connection {
        &session.connections[self.id as usize]
    }

    async fn attach(&mut self, session: &Session, stage: &Stage) -> Option<Attached> {
        if let Some(attached) = self.attached.take() {
            return Some(attached);
        }
        loop {
            let attempt = self.connection(session).attach(|| stage.is_over()).await?;
            match attempt {
                Ok(attached) => {
                    self.attachments += 1;
                    return Some(attached);
                }
                Err(text) => self.errors.push((Instant::now(), text)),
            }
        }
    }

    /// Writes a key that no one else writes and that is never written again.
    async fn write_own(
        &mut self,
        session: &Session,
        attached: &mut Attached,
    ) -> Result<(), Failure> {
        let slot = self.ledger.slot_to_write(&mut self.random);
        let key = self.ledger.key(&session.payload, slot);
        let (sequence, result) = self.put(session, attached, key).await;
        match &result {
            Ok(revision) => self.ledger.acknowledge(slot, sequence, *revision),
            Err(_) => self.ledger.doubt(slot, sequence),
        }
        result.map(|_| ())
    }

    /// The same, unless the key is there: so that it may be asked for again elsewhere when there is no answer.
    async fn write_once(
        &mut self,
        session: &Session,
        attached: &mut Attached,
    ) -> Result<(), Failure> {
        let slot = self.ledger.slot_to_write(&mut self.random);
        let key = self.ledger.key(&session.payload, slot);
        self.sequence += 1;
        let value = session.payload.value(self.id, self.sequence);
        let request = shared::put_once(key, value);
        let asked = shared::ask_once(&mut attached.channel, &request);
        let first = within(session.timeout, asked).await;
        let answer = match &first {
            Ok(revision) => Ok(*revision),
            Err(_) => {
                self.asked_again += 1;
                self.elsewhere(session, &request).await
            }
        };
        match answer {
            Ok(revision) => {
                self.completions.push(Instant::now());
                self.ledger.acknowledge(slot, self.sequence, revision);
            }
            Err(why) => {
                self.unanswered
                    .push(format!("a write was not answered elsewhere either: {why}"));
                self.ledger.doubt(slot, self.sequence);
            }
        }
        first.map(|_| ())
    }

    /// Asks once more, through the next endpoint.
    async fn elsewhere(&self, session: &Session, request: &TxnRequest) -> Result<i64, String> {
        let next = (self.endpoint + 1) % session.endpoints.len();
        let authority = scrape::authority(&session.endpoints[next])?;
        let mut channel = Channel::connect(authority, session.timeout).await?;
        let asked = shared::ask_once(&mut channel, request);
        let answer = within(session.timeout, asked).await;
        answer.map_err(|failure| failure.text)
    }

    /// Writes or reads shared keys.
    async fn share(&mut self, session: &Session, attached: &mut Attached) -> Result<(), Failure> {
        let request = self.drawer.draw(session, &mut self.sequence);
        let is_read = matches!(request, Request::Range(_));
        let is_put = matches!(request, Request::Put(_));
        let invoked = session.stamp();
        let sent = shared::send(&mut attached.channel, &request);
        let (returned, result) = match within(session.timeout, sent).await {
            Ok(response) => {
                self.drawer.learn(session, &response);
                if is_put {
                    self.completions.push(Instant::now());
                }
                (Some(Returned::new(session.stamp(), response)), Ok(()))
            }
            Err(failure) => (None, Err(failure)),
        };
        if returned.is_some() || !is_read {
            self.record.add(Op {
                client: self.id as usize,
                request,
                invoked,
                returned,
                // A replica's life is no shorter than a connection to it.
                reader: u64::from(self.id) << 32 | u64::from(self.attachments),
            });
        }
        result
    }

    /// Puts this client's next value. The revision of an answer without a header counts as 0,
    /// which no store has given to a put.
    async fn put(
        &mut self,
        session: &Session,
        attached: &mut Attached,
        key: Bytes,
    ) -> (u64, Result<i64, Failure>) {
        self.sequence += 1;
        let request = PutRequest {
            key,
            value: session.payload.value(self.id, self.sequence),
            ..PutRequest::default()
        };
        let call = attached.channel.call::<PutResponse>(Call::Put, &request);
        let result = within(session.timeout, call).await;
        if result.is_ok() {
            self.completions.push(Instant::now());
        }
        let revision = |answer: PutResponse| answer.header.map_or(0, |header| header.revision);
        (self.sequence, result.map(revision))
    }
}

async fn within<A>(
    timeout: Duration,
    call: impl Future<Output = Result<A, Failure>>,
) -> Result<A, Failure> {
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) => Err(Failure {
            text: format!("no answer within {} s", timeout.as_secs_f64()),
            connection_lost: false,
        }),
    }
}

/// What names of shared keys begin with; those of own keys begin with a hexadecimal digit.
pub(super) const SHARED: &str = "shared/";
/// Few, so that operations on a key overlap.
pub(super) const SHARED_KEYS: u8 = 4;
/// Above the numbers of all clients.
const READERS_FROM: usize = 10_000;
const BUDGET: u64 = 16_000;
const RESERVE: u64 = 8_000;
const BURST_EVERY_MS: u128 = 100;
const BURST_MS: u128 = 10;
