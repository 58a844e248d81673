//! One watch stream, read on demand.

use std::collections::BTreeMap;
use std::time::Duration;

use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use quorate_face_etcd::client::WatchClient;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

use super::answer::{mask_header, plain};
use super::call::with_token;
use super::leases::Leases;
use super::side::PATIENCE;

/// A stream and what its watches told since somebody last asked.
#[derive(Debug)]
pub(crate) struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    responses: mpsc::Receiver<Result<WatchResponse, Status>>,
    told: BTreeMap<i64, Vec<String>>,
    events: u64,
    /// The revision of the last answer about progress.
    progress: i64,
}

/// What the watches of a stream told.
pub(crate) struct ToldByWatches {
    /// By the number of the watch, in words.
    pub(crate) by_watch: BTreeMap<i64, Vec<String>>,
    /// How many events that was.
    pub(crate) events: u64,
}

impl Stream {
    /// Opens a stream, for whoever was given the token. etcd answers nothing at all before there is a
    /// watch, so neither is waited for here.
    pub(crate) fn open(channel: &Channel, token: Option<String>) -> Stream {
        let (requests, sent) = mpsc::channel(16);
        let (received, responses) = mpsc::channel(16);
        tokio::spawn(receive(
            channel.clone(),
            ReceiverStream::new(sent),
            token,
            received,
        ));
        Stream {
            requests,
            responses,
            told: BTreeMap::new(),
            events: 0,
            progress: 0,
        }
    }

    /// Begins a watch and waits for the answer.
    pub(crate) async fn create(
        &mut self,
        request: WatchCreateRequest,
        leases: &Leases,
    ) -> Result<WatchResponse, String> {
        self.ask(RequestUnion::CreateRequest(request)).await?;
        self.until(leases, |response| response.created).await
    }

    /// Asks to end a watch, without waiting.
    pub(crate) async fn ask_to_cancel(&mut self, watch_id: i64) -> Result<(), String> {
        let request = WatchCancelRequest { watch_id };
        self.ask(RequestUnion::CancelRequest(request)).await
    }

    /// Waits until a watch has ended.
    pub(crate) async fn canceled(
        &mut self,
        watch_id: i64,
        leases: &Leases,
    ) -> Result<WatchResponse, String> {
        let ended = |response: &WatchResponse| response.canceled && response.watch_id == watch_id;
        self.until(leases, ended).await
    }

    /// Waits until the server says that everything up to `revision` was sent.
    ///
    /// etcd drops the question while a watch reads history, so it is asked again and again.
    pub(crate) async fn progress(&mut self, revision: i64, leases: &Leases) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while self.progress < revision {
            self.ask(RequestUnion::ProgressRequest(WatchProgressRequest {}))
                .await?;
            let again = Instant::now() + ASK_AGAIN;
            while self.progress < revision {
                match self.next(again).await? {
                    Some(response) => self.note(response, leases),
                    None => break,
                }
            }
            if Instant::now() > deadline {
                return Err(format!("no progress to revision {revision} was told"));
            }
        }
        Ok(())
    }

    /// What the watches told since the last time.
    pub(crate) fn take(&mut self) -> ToldByWatches {
        ToldByWatches {
            by_watch: std::mem::take(&mut self.told),
            events: std::mem::take(&mut self.events),
        }
    }

    async fn ask(&mut self, request: RequestUnion) -> Result<(), String> {
        let request_union = Some(request);
        let sent = self.requests.send(WatchRequest { request_union }).await;
        sent.map_err(|_| "the watch stream has ended".to_owned())
    }

    async fn until(
        &mut self,
        leases: &Leases,
        awaited: impl Fn(&WatchResponse) -> bool,
    ) -> Result<WatchResponse, String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.next(deadline).await? {
                Some(response) if awaited(&response) => return Ok(response),
                Some(response) => self.note(response, leases),
                None => return Err("the watch stream does not answer".to_owned()),
            }
        }
    }

    /// The next response, if one comes in time.
    async fn next(&mut self, deadline: Instant) -> Result<Option<WatchResponse>, String> {
        match timeout_at(deadline, self.responses.recv()).await {
            Err(_) => Ok(None),
            Ok(Some(Ok(response))) => Ok(Some(response)),
            Ok(None) => Err("the watch stream has ended".to_owned()),
            Ok(Some(Err(status))) => Err(format!("the watch stream has ended: {status}")),
        }
    }

    fn note(&mut self, mut response: WatchResponse, leases: &Leases) {
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let nothing_else = response.events.is_empty() && !response.canceled && !response.created;
        if response.watch_id == NO_WATCH && nothing_else {
            self.progress = self.progress.max(revision);
            return;
        }
        let told = self.told.entry(response.watch_id).or_default();
        // How revisions are spread over responses is every server's own affair.
        for mut event in response.events.drain(..) {
            let at = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            if at > revision {
                told.push(format!("an event of {at} in a response of {revision}"));
            }
            leases.show_event(&mut event);
            told.push(plain(&event));
            self.events += 1;
        }
        if response.canceled || response.created || response.compact_revision != 0 {
            mask_header(&mut response);
            told.push(plain(&response));
        }
    }
}

/// Passes responses on until nobody takes them.
async fn receive(
    channel: Channel,
    requests: ReceiverStream<WatchRequest>,
    token: Option<String>,
    received: mpsc::Sender<Result<WatchResponse, Status>>,
) {
    let mut client = WatchClient::new(channel).max_decoding_message_size(usize::MAX);
    let requests = match with_token(requests, token.as_deref()) {
        Ok(requests) => requests,
        Err(why) => {
            let _ = received.send(Err(Status::internal(why))).await;
            return;
        }
    };
    let mut responses = match client.watch(requests).await {
        Ok(answer) => answer.into_inner(),
        Err(status) => {
            let _ = received.send(Err(status)).await;
            return;
        }
    };
    loop {
        let response = tokio::select! {
            response = responses.message() => response.transpose(),
            () = received.closed() => return,
        };
        let Some(response) = response else { return };
        if received.send(response).await.is_err() {
            return;
        }
    }
}

/// What a response about no watch in particular names.
const NO_WATCH: i64 = -1;
const ASK_AGAIN: Duration = Duration::from_millis(40);
