//! Watchers: each follows all keys of a round through one replica, over every loss of connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use quorate_etcd_api::mvccpb::EventType;
use quorate_face_etcd::client::WatchClient;
use quorate_load::load::payload::KeyRange;
use quorate_sim::judge::{Journal, Stream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use super::channel;
use crate::faults::session::Session;

/// A watcher at one replica.
#[derive(Debug)]
pub(super) struct Watcher {
    pub(super) replica: usize,
    client: WatchClient<Channel>,
    range: KeyRange,
    patience: Duration,
    /// What was told over each connection, one after the other.
    pub(super) attempts: Vec<Attempt>,
    reached: Arc<AtomicI64>,
}

/// One watch, until its connection was lost.
#[derive(Debug)]
pub(super) struct Attempt {
    start: i64,
    responses: Vec<(Instant, WatchResponse)>,
}

impl Watcher {
    /// A watcher of everything from a revision on.
    pub(super) fn new(replica: usize, session: &Session, start: i64) -> Result<Watcher, String> {
        let client = WatchClient::new(channel(session, replica)?);
        Ok(Watcher {
            replica,
            client: client.max_decoding_message_size(usize::MAX),
            range: session.range(""),
            patience: session.timeout,
            attempts: Vec::new(),
            reached: Arc::new(AtomicI64::new(start - 1)),
        })
    }

    /// The last revision of which it was told; whoever waits for it looks here.
    pub(super) fn reached(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.reached)
    }

    /// Watches until told to stop.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) -> Watcher {
        while !*stop.borrow() {
            let start = self.reached.load(SeqCst) + 1;
            let mut attempt = Attempt {
                start,
                responses: Vec::new(),
            };
            tokio::select! {
                () = self.attempt(&mut attempt) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
            self.attempts.push(attempt);
            tokio::select! {
                () = tokio::time::sleep(PAUSE) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        self
    }

    /// Follows one stream to its end, or until nothing is heard although progress was asked for.
    async fn attempt(&self, attempt: &mut Attempt) {
        let (requests, sent) = mpsc::channel(2);
        let create = WatchCreateRequest {
            key: self.range.first.clone(),
            range_end: self.range.end.clone(),
            start_revision: attempt.start,
            progress_notify: true,
            ..WatchCreateRequest::default()
        };
        let request_union = Some(RequestUnion::CreateRequest(create));
        // There is room.
        let _ = requests.try_send(WatchRequest { request_union });
        let mut client = self.client.clone();
        let opened = client.watch(ReceiverStream::new(sent));
        let Ok(Ok(answer)) = tokio::time::timeout(self.patience, opened).await else {
            return;
        };
        let mut responses = answer.into_inner();
        let mut was_asked = false;
        loop {
            match tokio::time::timeout(QUIET, responses.message()).await {
                Ok(Ok(Some(response))) => {
                    was_asked = false;
                    self.note(attempt, response);
                }
                Ok(_) => return,
                // A connection into nothing shows by silence alone.
                Err(_) if was_asked => return,
                Err(_) => {
                    let progress = RequestUnion::ProgressRequest(Default::default());
                    let request_union = Some(progress);
                    if requests.try_send(WatchRequest { request_union }).is_err() {
                        return;
                    }
                    was_asked = true;
                }
            }
        }
    }

    fn note(&self, attempt: &mut Attempt, response: WatchResponse) {
        let is_whole = !response.fragment;
        let last = response.events.last().and_then(|event| event.kv.as_ref());
        if let Some(last) = last.filter(|_| is_whole) {
            self.reached.store(last.mod_revision, SeqCst);
        }
        attempt.responses.push((Instant::now(), response));
    }

    /// Responses it got.
    pub(super) fn told(&self) -> u64 {
        let responses = self.attempts.iter().flat_map(|one| &one.responses);
        responses
            .map(|(_, response)| response.events.len() as u64)
            .sum()
    }

    /// When it was told that a key is gone.
    pub(super) fn deleted(&self, key: &[u8]) -> Option<Instant> {
        let responses = self.attempts.iter().flat_map(|one| &one.responses);
        let is_end = |response: &WatchResponse| {
            response.events.iter().any(|event| {
                let kv = event.kv.as_ref();
                event.r#type == EventType::Delete as i32 && kv.is_some_and(|kv| kv.key[..] == *key)
            })
        };
        let mut ends = responses.filter(|(_, response)| is_end(response));
        ends.next().map(|(at, _)| *at)
    }

    /// Holds everything it was told, connection by connection, against the order of all changes up
    /// to a revision.
    pub(super) fn check(&self, journal: &Journal, last: i64) -> Result<(), String> {
        let mut next = self.attempts.first().map_or(0, |attempt| attempt.start);
        let named = |why| format!("the watch through replica {}: {why}", self.replica + 1);
        for (at, attempt) in self.attempts.iter().enumerate() {
            if attempt.start > next {
                let why = format!(
                    "it began again at {}, told of all before {next}",
                    attempt.start
                );
                return Err(named(why));
            }
            let KeyRange { first, end } = self.range.clone();
            let mut stream = Stream::new(first, end, attempt.start);
            for (_, response) in &attempt.responses {
                stream.respond(response, journal).map_err(named)?;
            }
            next = next.max(stream.next());
            if at + 1 == self.attempts.len() {
                stream.finish(last + 1, journal).map_err(named)?;
            }
        }
        Ok(())
    }
}

const PAUSE: Duration = Duration::from_millis(50);
const QUIET: Duration = Duration::from_secs(1);
