//! Watch streams: many that are read as fast as they tell, and one that is not.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use quorate_face_etcd::client::WatchClient;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use super::puts::key;
use super::{PATIENCE, WatchersArgs};

/// Streams that are read.
#[derive(Debug)]
pub(crate) struct Readers {
    events: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

impl Readers {
    /// Opens all streams and waits until every watch has begun.
    pub(crate) async fn open(
        channels: Vec<Channel>,
        keys: u32,
        args: &WatchersArgs,
    ) -> Result<Readers, String> {
        let events = Arc::new(AtomicU64::new(0));
        let mut tasks = JoinSet::new();
        for stream in 0..args.streams {
            let watches = (stream..args.watchers).step_by(args.streams as usize);
            let requests = watches.map(|number| (key(number % keys), Bytes::new()));
            let channel = &channels[stream as usize % channels.len()];
            let Some(mut opened) = Opened::watch(channel, requests.collect()).await? else {
                continue;
            };
            let events = Arc::clone(&events);
            events.fetch_add(opened.early, Relaxed);
            tasks.spawn(async move {
                while let Ok(Some(response)) = opened.responses.message().await {
                    events.fetch_add(response.events.len() as u64, Relaxed);
                }
            });
        }
        Ok(Readers {
            events,
            _tasks: tasks,
        })
    }

    /// Events told so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }
}

/// The stream that is not read.
#[derive(Debug)]
pub(crate) struct Sleeper {
    opened: Opened,
}

impl Sleeper {
    /// Begins to watch every key.
    pub(crate) async fn open(channel: &Channel) -> Result<Sleeper, String> {
        let everything = vec![(Bytes::from_static(b"w/"), Bytes::from_static(b"w0"))];
        let opened = Opened::watch(channel, everything).await?;
        let opened = opened.ok_or("the stream has no watch")?;
        Ok(Sleeper { opened })
    }

    /// Reads at last. Whether there are that many events, each of a later revision.
    pub(crate) async fn wake(mut self, expected: u64) -> Result<bool, String> {
        let (mut told, mut last) = (self.opened.early, 0);
        while told < expected {
            let Some(response) = self.opened.next(PATIENCE * 3).await? else {
                return Ok(false);
            };
            for event in response.events {
                let at = event.kv.map_or(0, |kv| kv.mod_revision);
                if at <= last {
                    return Ok(false);
                }
                (told, last) = (told + 1, at);
            }
        }
        Ok(told == expected)
    }
}

/// A stream with watches.
#[derive(Debug)]
struct Opened {
    responses: Streaming<WatchResponse>,
    /// Events that came while watches began.
    early: u64,
    /// Keeps the stream open.
    _requests: mpsc::Sender<WatchRequest>,
}

impl Opened {
    /// Opens a stream and begins watches on it; none if there is nothing to watch.
    async fn watch(
        channel: &Channel,
        ranges: Vec<(Bytes, Bytes)>,
    ) -> Result<Option<Opened>, String> {
        let (requests, sent) = mpsc::channel(ranges.len().max(1));
        let count = ranges.len();
        for (key, range_end) in ranges {
            let request = RequestUnion::CreateRequest(WatchCreateRequest {
                key,
                range_end,
                ..WatchCreateRequest::default()
            });
            let request_union = Some(request);
            // There is room for all of them.
            let _ = requests.try_send(WatchRequest { request_union });
        }
        if count == 0 {
            return Ok(None);
        }
        let mut client = WatchClient::new(channel.clone()).max_decoding_message_size(usize::MAX);
        let answer = client.watch(ReceiverStream::new(sent)).await;
        let answer = answer.map_err(|status| format!("no watch stream: {status}"))?;
        let mut opened = Opened {
            responses: answer.into_inner(),
            early: 0,
            _requests: requests,
        };
        let mut begun = 0;
        while begun < count {
            let response = opened.next(PATIENCE).await?;
            let response = response.ok_or("watches did not begin in time")?;
            if response.canceled {
                return Err(format!("a watch was refused: {}", response.cancel_reason));
            }
            begun += usize::from(response.created);
            opened.early += response.events.len() as u64;
        }
        Ok(Some(opened))
    }

    async fn next(&mut self, patience: Duration) -> Result<Option<WatchResponse>, String> {
        match tokio::time::timeout(patience, self.responses.message()).await {
            Err(_) => Ok(None),
            Ok(Ok(Some(response))) => Ok(Some(response)),
            Ok(Ok(None)) => Err("the watch stream has ended".to_owned()),
            Ok(Err(status)) => Err(format!("the watch stream has ended: {status}")),
        }
    }
}
