//! What an endpoint's watch tells of a range of keys, for the judge of histories.

use std::time::Duration;

use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use quorate_face_etcd::client::WatchClient;
use quorate_load::load::payload::KeyRange;
use quorate_sim::judge::{Journal, Stream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// Reads every change of a range that had no keys before revision `first`, through a revision.
///
/// # Errors
/// A message that says why the endpoint could not be read, or what was wrong with what it told.
pub(crate) async fn journal(
    url: &str,
    range: KeyRange,
    first: i64,
    through: i64,
) -> Result<Journal, String> {
    let described = |error: &dyn std::fmt::Display| format!("{url}: watch: {error}");
    let mut watch = Watch::open(url, &range, first)
        .await
        .map_err(|error| described(&error))?;
    let mut journal = Journal::new(first, Vec::new());
    let mut told = Vec::new();
    while journal.end() <= through {
        let response = watch.next().await.map_err(|error| described(&error))?;
        if response.canceled {
            return Err(described(&response.cancel_reason));
        }
        let revision = response.header.as_ref().map_or(0, |header| header.revision);
        let last = response.events.last().and_then(|event| event.kv.as_ref());
        let end = match last {
            Some(kv) => kv.mod_revision + 1,
            None if response.created => journal.end(),
            None => revision + 1,
        };
        journal.add(&response.events, end)?;
        told.push(response);
    }
    let mut stream = Stream::new(range.first, range.end, first);
    for response in &told {
        stream
            .respond(response, &journal)
            .map_err(|error| described(&error))?;
    }
    Ok(journal)
}

/// A watch that is asked for its progress whenever it is silent.
struct Watch {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    async fn open(url: &str, range: &KeyRange, first: i64) -> Result<Watch, String> {
        let endpoint = Channel::from_shared(url.to_owned()).map_err(|error| error.to_string())?;
        let connected = tokio::time::timeout(PATIENCE, endpoint.connect()).await;
        let channel = connected
            .map_err(|_| SILENT)?
            .map_err(|error| error.to_string())?;
        let (requests, sent) = mpsc::channel(16);
        let watch = Watch {
            responses: WatchClient::new(channel)
                .watch(ReceiverStream::new(sent))
                .await
                .map_err(|status| status.to_string())?
                .into_inner(),
            requests,
        };
        let create = WatchCreateRequest {
            key: range.first.clone(),
            range_end: range.end.clone(),
            start_revision: first,
            prev_kv: true,
            ..WatchCreateRequest::default()
        };
        watch.ask(RequestUnion::CreateRequest(create)).await?;
        Ok(watch)
    }

    async fn ask(&self, request: RequestUnion) -> Result<(), String> {
        let request_union = Some(request);
        let sent = self.requests.send(WatchRequest { request_union }).await;
        sent.map_err(|_| "the stream is closed".to_owned())
    }

    async fn next(&mut self) -> Result<WatchResponse, String> {
        let waits = PATIENCE.as_millis() / SILENCE.as_millis();
        for _ in 0..waits {
            let next = tokio::time::timeout(SILENCE, self.responses.message()).await;
            if let Ok(next) = next {
                let response = next.map_err(|status| status.to_string())?;
                return response.ok_or_else(|| "the stream has ended".to_owned());
            }
            let progress = RequestUnion::ProgressRequest(WatchProgressRequest {});
            self.ask(progress).await?;
        }
        Err(SILENT.to_owned())
    }
}

const SILENT: &str = "no answer";
const PATIENCE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(50);
