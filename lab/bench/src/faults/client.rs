//! Closed-loop clients: each has one request outstanding, at one endpoint.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{PutRequest, PutResponse, TxnRequest};
use quorate_load::load::connection::{Attached, Connection};
use quorate_load::load::ledger::Ledger;
use quorate_load::load::rpc::{Call, Channel, Failure};
use quorate_sim::judge::Request;
use quorate_tooling::scrape;

use super::requests::{self, Requests};
use super::session::{Asker, Session, within};
use super::stage::Stage;

/// What the clients of a round do.
#[derive(Debug, Clone, Copy)]
pub(super) enum Workload {
    /// A client puts keys of its own, each once, which say whether a write was lost. At the same moments all
    /// clients ask for shared keys, which gives histories in which order matters.
    Ledger {
        /// Whether a write without an answer is asked for again at the next endpoint.
        asks_again: bool,
    },
    /// A client asks for shared keys, overwrites keys of its own, and compacts what is older than a revision.
    Mixed {
        /// The store's revision at the beginning of the round.
        begin: i64,
    },
}

/// A client, and what it remembers from stage to stage of a round.
#[derive(Debug)]
pub(super) struct Client {
    id: usize,
    /// The number of the endpoint it uses.
    endpoint: usize,
    workload: Workload,
    connection: Connection,
    attached: Option<Attached>,
    /// Connections it has had.
    attachments: u32,
    random: fastrand::Rng,
    requests: Requests,
    pub(super) ledger: Ledger,
    /// Writes that were asked for again elsewhere.
    pub(super) asked_again: u64,
    /// Writes that were not answered elsewhere either, in words.
    pub(super) unanswered: Vec<String>,
}

/// A put of a key that only its client writes.
struct OwnPut {
    /// The key's slot in the ledger.
    slot: u64,
    key: Bytes,
    /// The number of the client's write.
    sequence: u64,
}

impl Client {
    /// The clients of a round, spread over its endpoints.
    pub(super) fn all(
        session: &Session,
        count: u32,
        workload: Workload,
    ) -> Result<Vec<Client>, String> {
        let mut random = fastrand::Rng::with_seed(session.seed);
        let keys = match workload {
            Workload::Ledger { .. } => LEDGER_KEYS,
            Workload::Mixed { .. } => MIXED_KEYS,
        };
        let client = |id: u32| {
            let number = id as usize;
            let endpoint = number % session.endpoints.len();
            let authority = scrape::authority(&session.endpoints[endpoint])?;
            Ok(Client {
                id: number,
                endpoint,
                workload,
                connection: Connection::new(endpoint, authority),
                attached: None,
                attachments: 0,
                random: fastrand::Rng::with_seed(random.u64(..)),
                requests: Requests::new(number, keys, random.u64(..)),
                ledger: Ledger::new(id, None),
                asked_again: 0,
                unanswered: Vec::new(),
            })
        };
        (0..count).map(client).collect()
    }

    /// Sends one request after the other until the stage is over.
    pub(super) async fn run(mut self, session: Arc<Session>, stage: Arc<Stage>) -> Client {
        while !stage.is_over() {
            let Some(mut attached) = self.attach(&session, &stage).await else {
                break;
            };
            let result = match self.workload {
                Workload::Ledger { asks_again } => match stage.shares(&mut self.random) {
                    true => self.ask_shared(&session, &mut attached).await,
                    false if asks_again => self.put_once(&session, &mut attached).await,
                    false => self.put_own(&session, &mut attached).await,
                },
                Workload::Mixed { begin } => {
                    let request = self.draw_mixed(&session, begin);
                    let result = self.ask(&session, &mut attached, request).await;
                    if result.is_err() {
                        // A replica that is down is not asked as fast as it refuses.
                        tokio::time::sleep(PAUSE).await;
                    }
                    result
                }
            };
            if result.is_err_and(|failure| failure.connection_lost) {
                self.connection.detach(&attached).await;
            } else {
                self.attached = Some(attached);
            }
        }
        self
    }

    async fn attach(&mut self, session: &Session, stage: &Stage) -> Option<Attached> {
        if let Some(attached) = self.attached.take() {
            return Some(attached);
        }
        loop {
            match self.connection.attach(|| stage.is_over()).await? {
                Ok(attached) => {
                    self.attachments += 1;
                    return Some(attached);
                }
                Err(text) => session.note_error(self.endpoint, text),
            }
        }
    }

    /// A request on shared keys, a put of a key of its own, or a compaction.
    fn draw_mixed(&mut self, session: &Session, begin: i64) -> Request {
        match self.random.u8(..100) {
            0 => Request::Compact(begin),
            1..=30 => {
                let name = format!("own/{}/{}", self.id, self.random.u8(..OWN_KEYS));
                Request::Put(self.requests.put(session, session.key(&name)))
            }
            _ => self.requests.draw(session),
        }
    }

    async fn ask_shared(
        &mut self,
        session: &Session,
        attached: &mut Attached,
    ) -> Result<(), Failure> {
        let request = self.requests.draw(session);
        self.ask(session, attached, request).await
    }

    /// Asks for something, into the history.
    async fn ask(
        &mut self,
        session: &Session,
        attached: &mut Attached,
        request: Request,
    ) -> Result<(), Failure> {
        let from = Asker {
            client: self.id,
            endpoint: self.endpoint,
            // A replica's life is no shorter than a connection to it.
            connection: (self.id as u64) << 32 | u64::from(self.attachments),
        };
        let sent = requests::send(&mut attached.channel, &request);
        let returned = session.ask(from, request.clone(), sent).await?;
        self.requests.learn(session, &returned.response);
        Ok(())
    }

    /// Puts a key that no one else writes and that is never written again. The revision of an answer without a
    /// header counts as 0, which no store has given to a put.
    async fn put_own(&mut self, session: &Session, attached: &mut Attached) -> Result<(), Failure> {
        let own = self.next_own(session);
        let request = PutRequest {
            key: own.key.clone(),
            value: session.payload.value(self.id as u32, own.sequence),
            ..PutRequest::default()
        };
        let call = attached.channel.call::<PutResponse>(Call::Put, &request);
        let answered = within(session.timeout, call).await;
        let revision = answered.map(|answer| answer.header.map_or(0, |header| header.revision));
        self.note_own(session, &own, revision.as_ref().ok());
        revision.map(drop).inspect_err(|failure| {
            session.note_error(self.endpoint, failure.text.clone());
        })
    }

    /// Puts such a key unless it is there: so that the put may be asked for again elsewhere when there is no answer.
    async fn put_once(
        &mut self,
        session: &Session,
        attached: &mut Attached,
    ) -> Result<(), Failure> {
        let own = self.next_own(session);
        let value = session.payload.value(self.id as u32, own.sequence);
        let request = requests::put_once(own.key.clone(), value);
        let sent = requests::send_put_once(&mut attached.channel, &request);
        let first = within(session.timeout, sent).await;
        let revision = match &first {
            Ok(revision) => Ok(*revision),
            Err(failure) => {
                session.note_error(self.endpoint, failure.text.clone());
                self.asked_again += 1;
                self.elsewhere(session, &request).await
            }
        };
        self.note_own(session, &own, revision.as_ref().ok());
        if let Err(why) = revision {
            let text = format!("a write was not answered elsewhere either: {why}");
            self.unanswered.push(text);
        }
        first.map(drop)
    }

    /// Sends a put once more, through the next endpoint.
    async fn elsewhere(&self, session: &Session, request: &TxnRequest) -> Result<i64, String> {
        let next = (self.endpoint + 1) % session.endpoints.len();
        let authority = scrape::authority(&session.endpoints[next])?;
        let mut channel = Channel::connect(authority, session.timeout).await?;
        let sent = requests::send_put_once(&mut channel, request);
        let answer = within(session.timeout, sent).await;
        answer.map_err(|failure| failure.text)
    }

    fn next_own(&mut self, session: &Session) -> OwnPut {
        let slot = self.ledger.slot_to_write(&mut self.random);
        let key = self.ledger.key(&session.payload, slot);
        OwnPut {
            slot,
            key,
            sequence: self.requests.next_sequence(),
        }
    }

    /// Remembers at which revision a put of its own was acknowledged, or that it may have been done.
    fn note_own(&mut self, session: &Session, own: &OwnPut, at: Option<&i64>) {
        match at {
            Some(revision) => {
                session.note_change(self.endpoint, true);
                self.ledger.acknowledge(own.slot, own.sequence, *revision);
            }
            None => self.ledger.doubt(own.slot, own.sequence),
        }
    }
}

/// Shared keys where clients ask for them in bursts only.
const LEDGER_KEYS: u8 = 4;
/// Shared keys where clients ask for them all the time.
const MIXED_KEYS: u8 = 8;
/// Keys of its own that a client overwrites.
const OWN_KEYS: u8 = 200;
const PAUSE: Duration = Duration::from_millis(30);
