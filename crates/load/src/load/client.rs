//! One client: an operation at a time, over a connection it may share.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{PutRequest, PutResponse, RangeRequest, RangeResponse};

use super::connection::Attached;
use super::history::Operation;
use super::ledger::Ledger;
use super::payload;
use super::phase::{Phase, Turn};
use super::rpc::{Call, Failure};
use super::session::{Kind, Session};

/// A client and what it remembers from phase to phase.
#[derive(Debug)]
pub(super) struct Client {
    id: u32,
    connection: usize,
    attached: Option<Attached>,
    random: fastrand::Rng,
    sequence: u64,
    /// Present when the run is verified.
    pub ledger: Option<Ledger>,
    pub outcome: Outcome,
}

/// What the client counted for the verdict.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub acknowledged: u64,
    pub unknown: u64,
    pub stale_reads: u64,
    pub examples: Vec<String>,
}

/// What a client is about to do.
struct Intent {
    kind: Kind,
    key: Bytes,
    /// The slot of the client's ledger, when the run is verified.
    slot: Option<u64>,
}

impl Client {
    pub(super) fn new(id: u32, connection: usize, seed: u64, ledger: Option<Ledger>) -> Client {
        // Neighbouring seeds must not give neighbouring clients the same choices.
        let mut random = fastrand::Rng::with_seed(seed);
        let random = fastrand::Rng::with_seed(random.u64(..) ^ (u64::from(id) << 32));
        let outcome = Outcome::default();
        Client {
            id,
            connection,
            attached: None,
            random,
            sequence: 0,
            ledger,
            outcome,
        }
    }

    /// Takes turns until the phase is over.
    pub(super) async fn run(
        mut self,
        session: Arc<Session>,
        phase: Arc<Phase>,
        filling: bool,
    ) -> Client {
        // The connection comes first: a turn must not wait behind an endpoint that is down.
        while let Some(mut attached) = self.attach(&session, &phase).await {
            let Some(turn) = phase.turn().await else {
                break;
            };
            let intent = match filling {
                true => Intent::write(session.payload.shared_key(turn.number)),
                false => self.choose(&session),
            };
            let result = match intent.kind {
                Kind::Write => self.write(&session, &mut attached, turn, &intent).await,
                Kind::Read => self.read(&session, &mut attached, turn, &intent).await,
            };
            match result {
                Err(Failure {
                    connection_lost: true,
                    ..
                }) => {
                    session.connections[self.connection].detach(&attached).await;
                }
                _ => self.attached = Some(attached),
            }
        }
        self
    }

    async fn attach(&mut self, session: &Session, phase: &Phase) -> Option<Attached> {
        if let Some(attached) = self.attached.take() {
            return Some(attached);
        }
        let connection = &session.connections[self.connection];
        loop {
            match connection.attach(|| phase.over()).await? {
                Ok(attached) => return Some(attached),
                Err(text) => session.endpoints[connection.endpoint].failed(&text),
            }
        }
    }

    fn choose(&mut self, session: &Session) -> Intent {
        let share = session.settings.read_share;
        let kind = match share > 0.0 && self.random.f64() < share {
            true => Kind::Read,
            false => Kind::Write,
        };
        let Some(ledger) = &mut self.ledger else {
            let index = session.settings.keys.choose(&mut self.random);
            return Intent {
                kind,
                key: session.payload.shared_key(index),
                slot: None,
            };
        };
        let slot = match kind {
            Kind::Read => ledger.slot_to_read(&mut self.random),
            Kind::Write => ledger.slot_to_write(&mut self.random),
        };
        Intent {
            kind,
            key: ledger.key(&session.payload, slot),
            slot: Some(slot),
        }
    }

    async fn write(
        &mut self,
        session: &Session,
        attached: &mut Attached,
        turn: Turn,
        intent: &Intent,
    ) -> Result<(), Failure> {
        self.sequence += 1;
        let value = session.payload.value(self.id, self.sequence);
        let (key, sent_value) = (intent.key.clone(), value.clone());
        let request = PutRequest {
            key,
            value: sent_value,
            ..PutRequest::default()
        };
        let sent = Instant::now();
        let call = attached.channel.call::<PutResponse>(Call::Put, &request);
        let result = within(session, call).await;
        let end = self.count(session, Kind::Write, turn, &result);
        let revision = revision(&result, |answer| answer.header.as_ref().map(|h| h.revision));
        self.account(intent, revision);
        let seen = Some(payload::identity(&value));
        self.note(session, intent, seen, sent..end, revision, &result)?;
        result.map(|_| ())
    }

    async fn read(
        &mut self,
        session: &Session,
        attached: &mut Attached,
        turn: Turn,
        intent: &Intent,
    ) -> Result<(), Failure> {
        let (key, serializable) = (intent.key.clone(), session.settings.serializable);
        let request = RangeRequest {
            key,
            serializable,
            ..RangeRequest::default()
        };
        let sent = Instant::now();
        let call = attached
            .channel
            .call::<RangeResponse>(Call::Range, &request);
        let result = within(session, call).await;
        let end = self.count(session, Kind::Read, turn, &result);
        let found = result
            .as_ref()
            .ok()
            .and_then(|answer| Some(answer.kvs.first()?.value.clone()));
        if result.is_ok() {
            if found.is_none() {
                session.missed(session.connections[self.connection].endpoint);
            }
            self.inspect(session, intent, found.as_deref());
        }
        let revision = revision(&result, |answer| answer.header.as_ref().map(|h| h.revision));
        let seen = found.as_deref().map(payload::identity);
        self.note(session, intent, seen, sent..end, revision, &result)?;
        result.map(|_| ())
    }

    /// Counts the operation and returns when it ended.
    fn count<A>(
        &self,
        session: &Session,
        kind: Kind,
        turn: Turn,
        result: &Result<A, Failure>,
    ) -> Instant {
        let end = Instant::now();
        let endpoint = session.connections[self.connection].endpoint;
        match result {
            Ok(_) => session.succeeded(endpoint, kind, turn, end),
            Err(failure) => session.endpoints[endpoint].failed(&failure.text),
        }
        end
    }

    /// Enters a write in the ledger. Every error leaves the fate of the write open: even one that
    /// sounds like a refusal may come from a server that only lost track of it.
    fn account(&mut self, intent: &Intent, revision: Option<i64>) {
        let (Some(ledger), Some(slot)) = (&mut self.ledger, intent.slot) else {
            return;
        };
        match revision {
            Some(revision) => {
                ledger.acknowledge(slot, self.sequence, revision);
                self.outcome.acknowledged += 1;
            }
            None => {
                ledger.doubt(slot, self.sequence);
                self.outcome.unknown += 1;
            }
        }
    }

    /// Compares a read of a key only this client writes with what it wrote last.
    fn inspect(&mut self, session: &Session, intent: &Intent, found: Option<&[u8]>) {
        let (Some(ledger), Some(slot)) = (&self.ledger, intent.slot) else {
            return;
        };
        let Some((sequence, _)) = ledger.expected(slot) else {
            return;
        };
        let current = found.is_some_and(|value| session.payload.is_value(value, self.id, sequence));
        if current || session.settings.serializable {
            return;
        }
        self.outcome.stale_reads += 1;
        if self.outcome.examples.is_empty() {
            let key = String::from_utf8_lossy(&intent.key);
            let found = found.map_or("nothing".to_owned(), payload::identity);
            let endpoint = &session.endpoints[session.connections[self.connection].endpoint];
            self.outcome.examples.push(format!(
                "{}: stale read: {key}: {found} instead of write {sequence}",
                endpoint.url
            ));
        }
    }

    /// Adds the operation to the history, if one is kept.
    fn note<A>(
        &self,
        session: &Session,
        intent: &Intent,
        value: Option<String>,
        time: Range<Instant>,
        revision: Option<i64>,
        result: &Result<A, Failure>,
    ) -> Result<(), Failure> {
        let Some(history) = &session.history else {
            return Ok(());
        };
        let endpoint = &session.endpoints[session.connections[self.connection].endpoint];
        let operation = Operation {
            client: self.id,
            op: if intent.kind == Kind::Write {
                "put"
            } else {
                "get"
            },
            key: &String::from_utf8_lossy(&intent.key),
            value,
            start_ns: session.at(time.start),
            end_ns: session.at(time.end),
            result: if result.is_ok() { "ok" } else { "unknown" },
            revision,
            serializable: intent.kind == Kind::Read && session.settings.serializable,
            endpoint: &endpoint.url,
            error: result.as_ref().err().map(|failure| failure.text.as_str()),
        };
        history.record(&operation).map_err(|error| {
            let text = format!("cannot write the history: {error}");
            endpoint.failed(&text);
            Failure {
                text,
                connection_lost: false,
            }
        })
    }
}

impl Intent {
    fn write(key: Bytes) -> Intent {
        Intent {
            kind: Kind::Write,
            key,
            slot: None,
        }
    }
}

async fn within<A>(
    session: &Session,
    call: impl Future<Output = Result<A, Failure>>,
) -> Result<A, Failure> {
    let timeout = session.settings.timeout;
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) => Err(Failure {
            text: format!("no answer within {} s", timeout.as_secs_f64()),
            connection_lost: false,
        }),
    }
}

/// The revision of a successful answer; an answer without a header counts as revision 0.
fn revision<A>(result: &Result<A, Failure>, of: impl Fn(&A) -> Option<i64>) -> Option<i64> {
    result.as_ref().ok().map(|answer| of(answer).unwrap_or(0))
}
