//! What all clients of a round share: names, stamps, and what was asked and told.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_sim::judge::{Op, Request, Response, Returned};
use tonic::transport::{Channel, Endpoint};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// A round, as its clients see it.
#[derive(Debug)]
pub(super) struct Session {
    prefix: String,
    endpoints: Vec<String>,
    lives: Vec<Arc<AtomicU64>>,
    pub(super) timeout: Duration,
    /// One counter for all, read right before a request is sent and right after its answer has
    /// come: stamps are unique and agree with real time.
    stamps: AtomicU64,
    over: AtomicBool,
    told: Mutex<Told>,
}

/// What was asked and told so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) history: Vec<Op>,
    /// Values that were sent, by their digests: exports name values by these.
    pub(super) values: BTreeMap<u128, Bytes>,
    /// When changes were acknowledged.
    pub(super) changed: Vec<Instant>,
    /// Errors, in words, with how often each was seen.
    pub(super) errors: BTreeMap<String, u64>,
}

/// What a request came to.
pub(super) enum Outcome {
    /// It was answered.
    Answered(Response),
    /// It was answered, at this revision.
    AnsweredAt(i64, Response),
    /// It failed, and may have been done.
    Unknown(String),
}

impl Session {
    pub(super) fn new(
        seed: u64,
        endpoints: &[String],
        lives: Vec<Arc<AtomicU64>>,
        timeout: Duration,
    ) -> Session {
        Session {
            prefix: format!("chaos/{seed:016x}/"),
            endpoints: endpoints.to_vec(),
            lives,
            timeout,
            stamps: AtomicU64::new(1),
            over: AtomicBool::new(false),
            told: Mutex::default(),
        }
    }

    /// A key of this round; no other round has it.
    pub(super) fn key(&self, name: &str) -> Bytes {
        format!("{}{name}", self.prefix).into()
    }

    /// All keys whose names begin like this: the first, and the first behind them.
    pub(super) fn range(&self, name: &str) -> (Bytes, Bytes) {
        let mut end = self.key(name).to_vec();
        // No name ends with the highest byte.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        (self.key(name), end.into())
    }

    /// A value nobody else sends, remembered.
    pub(super) fn value(&self, text: String) -> Bytes {
        let value = Bytes::from(text);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for digest in [xxh3_64(&value).into(), xxh3_128(&value)] {
            told.values.insert(digest, value.clone());
        }
        value
    }

    /// Replicas there are.
    pub(super) fn replicas(&self) -> usize {
        self.endpoints.len()
    }

    /// A connection to a replica, made when it is first used and again whenever it was lost.
    pub(super) fn channel(&self, replica: usize) -> Result<Channel, String> {
        let endpoint = Endpoint::from_shared(self.endpoints[replica].clone());
        let endpoint = endpoint.map_err(|error| error.to_string())?;
        Ok(endpoint.connect_timeout(CONNECT_PATIENCE).connect_lazy())
    }

    /// Whether clients are to stop.
    pub(super) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    /// Asks clients to stop.
    pub(super) fn end(&self) {
        self.over.store(true, SeqCst);
    }

    /// Asks a replica for something, and puts it and what becomes of it on record. Gives the answer.
    pub(super) async fn ask(
        &self,
        client: usize,
        replica: usize,
        request: Request,
        answer: impl Future<Output = Outcome>,
    ) -> Option<Response> {
        let life = self.lives[replica].load(SeqCst);
        let invoked = self.stamps.fetch_add(1, SeqCst);
        let outcome = tokio::time::timeout(self.timeout, answer).await;
        let stamp = self.stamps.fetch_add(1, SeqCst);
        let outcome = outcome.unwrap_or_else(|_| Outcome::Unknown("no answer in time".to_owned()));
        // Which life of the replica answered is only known if it had one.
        let is_one_life = self.lives[replica].load(SeqCst) == life;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let returned = match &outcome {
            Outcome::Answered(response) => {
                if response.changed() {
                    told.changed.push(Instant::now());
                }
                Some(Returned::new(stamp, response.clone()))
            }
            Outcome::AnsweredAt(revision, response) => {
                Some(Returned::at(stamp, *revision, response.clone()))
            }
            Outcome::Unknown(text) => {
                *told.errors.entry(text.clone()).or_default() += 1;
                None
            }
        };
        let says_nothing = match &request {
            Request::Range(range) => returned.is_none() || range.serializable && !is_one_life,
            _ => false,
        };
        if !says_nothing {
            told.history.push(Op {
                client,
                request,
                invoked,
                returned,
                reader: (life << 8) + replica as u64,
            });
        }
        match outcome {
            Outcome::Answered(response) | Outcome::AnsweredAt(_, response) => Some(response),
            Outcome::Unknown(_) => None,
        }
    }

    /// Notes an error outside of the history.
    pub(super) fn failed(&self, text: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        *told.errors.entry(text).or_default() += 1;
    }

    /// Takes everything that was told.
    pub(super) fn take(&self) -> Told {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut told)
    }
}

const CONNECT_PATIENCE: Duration = Duration::from_secs(1);
