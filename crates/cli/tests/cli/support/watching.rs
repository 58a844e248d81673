//! Streams that a client holds open, with or without `hasleader`.

use super::{Client, channel, eventually};
use quorate_etcd_api::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse, WatchCreateRequest,
    WatchRequest, WatchResponse,
};
use quorate_face_etcd::client::{LeaseClient, WatchClient};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

/// A call that says whether it is only for a member that knows a leader.
pub fn call<T>(message: T, hasleader: bool) -> Request<T> {
    let mut call = Request::new(message);
    if hasleader {
        call.metadata_mut()
            .insert("hasleader", "true".parse().unwrap());
    }
    call
}

/// A watch of all keys.
pub struct Watch {
    _requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watch {
    pub async fn try_open(url: &str, hasleader: bool) -> Result<Watch, Status> {
        let (requests, stream) = mpsc::channel(1);
        let all = WatchCreateRequest {
            key: vec![0].into(),
            range_end: vec![0].into(),
            ..WatchCreateRequest::default()
        };
        let create = WatchRequest {
            request_union: Some(RequestUnion::CreateRequest(all)),
        };
        requests.send(create).await.unwrap();
        let mut client = WatchClient::new(channel(url).await);
        let opened = client.watch(call(ReceiverStream::new(stream), hasleader));
        let mut watch = Watch {
            _requests: requests,
            responses: opened.await?.into_inner(),
        };
        let first = watch.responses.message().await?.unwrap();
        assert!(first.created && !first.canceled, "{first:?}");
        Ok(watch)
    }

    /// Tries until it is there: a replica that starts reaches nobody at first.
    pub async fn open(url: &str, hasleader: bool) -> Watch {
        eventually("a watch is created", || async {
            Watch::try_open(url, hasleader).await.ok()
        })
        .await
    }

    /// What ends it.
    pub async fn ended(&mut self) -> Option<Status> {
        loop {
            match self.responses.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(status) => return Some(status),
            }
        }
    }

    /// Waits until it tells of a key.
    pub async fn tells_of(&mut self, key: &str) {
        loop {
            let response = self.responses.message().await;
            let response = response
                .expect("the watch goes on")
                .expect("the watch goes on");
            let mut keys = response.events.iter().filter_map(|event| event.kv.as_ref());
            if keys.any(|kv| kv.key == key.as_bytes()) {
                return;
            }
        }
    }
}

/// A lease that is kept alive.
pub struct KeepAlive {
    _requests: mpsc::Sender<LeaseKeepAliveRequest>,
    answers: Streaming<LeaseKeepAliveResponse>,
}

impl KeepAlive {
    pub async fn open(url: &str, hasleader: bool) -> KeepAlive {
        let mut client = LeaseClient::new(channel(url).await);
        let grant = LeaseGrantRequest { ttl: 600, id: 0 };
        let id = client.lease_grant(grant).await.unwrap().into_inner().id;
        let (requests, stream) = mpsc::channel(1);
        let renew = LeaseKeepAliveRequest { id };
        requests.send(renew).await.unwrap();
        let opened = client.lease_keep_alive(call(ReceiverStream::new(stream), hasleader));
        let mut answers = opened.await.unwrap().into_inner();
        assert_eq!(answers.message().await.unwrap().unwrap().id, id);
        KeepAlive {
            _requests: requests,
            answers,
        }
    }

    /// What ends it.
    pub async fn ended(&mut self) -> Option<Status> {
        self.answers.message().await.err()
    }
}

/// Puts new keys through whoever answers for so long; each watch tells of each of them.
pub async fn keep_telling(urls: &[&str], watches: &mut [Watch], prefix: &str, time: Duration) {
    let began = Instant::now();
    for number in 0.. {
        let key = format!("{prefix}/{number}");
        eventually("a put is acknowledged", || async {
            for url in urls {
                if let Some(mut client) = Client::try_connect(url).await
                    && client.put(&key, "v").await.is_ok()
                {
                    return Some(());
                }
            }
            None
        })
        .await;
        for watch in &mut *watches {
            watch.tells_of(&key).await;
        }
        if began.elapsed() > time {
            return;
        }
    }
}
