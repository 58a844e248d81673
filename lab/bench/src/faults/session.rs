//! A round as its clients see it: names, values and stamps, what was asked, and what was answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::RangeRequest;
use quorate_load::load::payload::{KeyRange, Payload};
use quorate_load::load::rpc::{Channel, Failure};
use quorate_sim::judge::{self, Op, Request, Response, Returned};
use quorate_tooling::scrape;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::requests::{self, StoreAnswer};

/// What all clients of one round share.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) seed: u64,
    pub(super) payload: Payload,
    pub(super) endpoints: Vec<String>,
    /// How long a client waits for an answer.
    pub(super) timeout: Duration,
    /// What the names of the round's shared keys begin with.
    prefix: String,
    /// The life that each endpoint's replica is in, where that is known. A connection counts as a life of its
    /// own where it is not.
    lives: Vec<Arc<AtomicU64>>,
    /// One counter for all, read right before a request is sent and right after its answer has
    /// come: stamps are unique and agree with real time.
    stamps: AtomicU64,
    told: Mutex<Told>,
}

/// What was asked and answered so far.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Requests on keys that all clients share.
    pub(super) history: Vec<Op>,
    /// Values that were sent, by their digests: exports name values by these.
    pub(super) values: BTreeMap<u128, Bytes>,
    pub(super) changes: Vec<AcknowledgedChange>,
    pub(super) errors: Vec<ClientError>,
}

/// A change that was acknowledged.
#[derive(Debug)]
pub(super) struct AcknowledgedChange {
    pub(super) at: Instant,
    /// The number of the endpoint that acknowledged it.
    pub(super) endpoint: usize,
    /// Whether it was a single put.
    pub(super) is_put: bool,
}

/// An error that a client got.
#[derive(Debug)]
pub(super) struct ClientError {
    pub(super) at: Instant,
    /// The number of the endpoint that the client uses.
    pub(super) endpoint: usize,
    pub(super) text: String,
}

/// Who asks, and over which connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// The client's number in the history.
    pub(super) client: usize,
    /// The number of the endpoint that is asked.
    pub(super) endpoint: usize,
    /// A number that no two connections share.
    pub(super) connection: u64,
}

impl Session {
    /// A round whose shared keys begin with `command` and the seed.
    pub(super) fn new(
        command: &str,
        seed: u64,
        value_bytes: usize,
        endpoints: &[String],
        timeout: Duration,
    ) -> Session {
        Session {
            seed,
            payload: Payload::new(seed, 0, value_bytes),
            endpoints: endpoints.to_vec(),
            timeout,
            prefix: format!("{command}/{seed:016x}/"),
            lives: Vec::new(),
            stamps: AtomicU64::new(1),
            told: Mutex::default(),
        }
    }

    /// The round with replicas whose lives are known.
    pub(super) fn with_lives(self, lives: Vec<Arc<AtomicU64>>) -> Session {
        Session { lives, ..self }
    }

    /// A key of this round; no other round has it.
    pub(super) fn key(&self, name: &str) -> Bytes {
        format!("{}{name}", self.prefix).into()
    }

    /// All keys of this round whose names begin like this.
    pub(super) fn range(&self, name: &str) -> KeyRange {
        KeyRange::prefixed(&format!("{}{name}", self.prefix))
    }

    /// The value of a client's write of this number. Nobody else sends it, and it is remembered.
    pub(super) fn value(&self, client: usize, sequence: u64) -> Bytes {
        let value = self.payload.value(client as u32, sequence);
        let mut told = self.told();
        for digest in [xxh3_64(&value).into(), xxh3_128(&value)] {
            told.values.insert(digest, value.clone());
        }
        value
    }

    /// The number in the history of the round's own requests through an endpoint.
    pub(super) fn observer(&self, endpoint: usize) -> usize {
        OBSERVERS * self.endpoints.len() + endpoint
    }

    /// Asks for something, and puts it and what becomes of it on record.
    pub(super) async fn ask(
        &self,
        from: Asker,
        request: Request,
        answer: impl Future<Output = Result<StoreAnswer, Failure>>,
    ) -> Result<Returned, Failure> {
        let life = || self.lives.get(from.endpoint).map(|life| life.load(SeqCst));
        let before = life();
        let invoked = self.stamps.fetch_add(1, SeqCst);
        let answered = within(self.timeout, answer).await;
        let stamp = self.stamps.fetch_add(1, SeqCst);
        // Which life of the replica answered is only known if it had one.
        let is_one_life = life() == before;
        let returned = answered.map(|answer| match answer.revision {
            Some(revision) => Returned::at(stamp, revision, answer.response),
            None => Returned::new(stamp, answer.response),
        });
        match &returned {
            Ok(returned) if returned.response.changed() => {
                self.note_change(from.endpoint, matches!(returned.response, Response::Put(_)));
            }
            Ok(_) => {}
            Err(failure) => self.note_error(from.endpoint, failure.text.clone()),
        }
        let says_nothing = match &request {
            Request::Range(range) => returned.is_err() || range.serializable && !is_one_life,
            _ => false,
        };
        if !says_nothing {
            self.told().history.push(Op {
                client: from.client,
                asker: judge::Asker::Anybody,
                request,
                invoked,
                returned: returned.as_ref().ok().cloned(),
                reader: before.map_or(from.connection, |life| (life << 8) + from.endpoint as u64),
            });
        }
        returned
    }

    /// Asks the replica that serves at `url` for something, over a connection of its own.
    pub(super) async fn ask_apart(
        &self,
        client: usize,
        endpoint: usize,
        url: &str,
        request: Request,
    ) -> Result<Returned, String> {
        let connected = Channel::connect(scrape::authority(url)?, self.timeout).await;
        let mut channel = connected.inspect_err(|text| self.note_error(endpoint, text.clone()))?;
        let from = Asker {
            client,
            endpoint,
            connection: u64::MAX - client as u64,
        };
        let sent = requests::send(&mut channel, &request);
        let returned = self.ask(from, request.clone(), sent).await;
        returned.map_err(|failure| failure.text)
    }

    /// Reads all shared keys of the round through every one of these endpoints, into the history; returns the
    /// last revision seen.
    pub(super) async fn read_all(&self, endpoints: &[String]) -> Result<i64, String> {
        let mut last = 0;
        for (number, url) in endpoints.iter().enumerate() {
            for serializable in [false, true] {
                let request = Request::Range(RangeRequest {
                    serializable,
                    ..self.range("").request()
                });
                let observer = self.observer(number);
                let read = self.ask_apart(observer, number, url, request).await;
                last = last.max(read.map_err(|error| format!("{url}: {error}"))?.revision);
            }
        }
        Ok(last)
    }

    /// Notes an acknowledged change.
    pub(super) fn note_change(&self, endpoint: usize, is_put: bool) {
        self.told().changes.push(AcknowledgedChange {
            at: Instant::now(),
            endpoint,
            is_put,
        });
    }

    /// Notes an error that a client of an endpoint got.
    pub(super) fn note_error(&self, endpoint: usize, text: String) {
        self.told().errors.push(ClientError {
            at: Instant::now(),
            endpoint,
            text,
        });
    }

    /// Everything that was asked and answered so far.
    pub(super) fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer to a call, or a failure once the timeout has passed.
pub(super) async fn within<A>(
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

/// Above the numbers of all clients, in multiples of the endpoints.
const OBSERVERS: usize = 10_000;
