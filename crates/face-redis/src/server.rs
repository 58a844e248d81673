//! What all connections of a replica share.

use crate::access::Users;
use crate::application::{self, RedisApplication};
use crate::clients::Clients;
use crate::fed::Fed;
use crate::limits::Limits;
use crate::pubsub::Subscriptions;
use bytes::Bytes;
use quorate_core::{Principal, Wire};
use quorate_redis_store::{Answer, Asker, Call, Query, Request};
use quorate_resp::Resp;
use quorate_server::{Consistency, Failure, Handle};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::watch;

/// The replica as its clients see it.
pub(crate) struct Server {
    pub(crate) handle: Handle<RedisApplication>,
    /// What carries commands out in command mode; otherwise the embedded store does.
    pub(crate) fed: Option<Fed>,
    pub(crate) limits: Limits,
    /// The users that the replica was started with.
    pub(crate) users: Users,
    /// Whether clients are served: the cluster has its users, or is not to be waited for any longer.
    pub(crate) is_settled: watch::Sender<bool>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) clients: Arc<Clients>,
    pub(crate) counters: Counters,
    /// The first port for clients.
    pub(crate) port: u16,
    /// The address for operators.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) began: Instant,
}

/// What is counted since the start, or since `CONFIG RESETSTAT`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections that were accepted.
    pub(crate) connections: AtomicU64,
    /// Connections that were refused, for want of room.
    pub(crate) refused: AtomicU64,
    /// Commands of all kinds that were taken.
    pub(crate) commands: AtomicU64,
    /// Errors that clients were told.
    pub(crate) errors: AtomicU64,
}

impl Server {
    /// Orders a body; the result is what the client gets.
    pub(crate) async fn order(&self, request: &Request) -> Result<Bytes, Failure> {
        match &self.fed {
            Some(fed) => fed.order(&self.handle, request).await,
            None => self.order_body(request.to_bytes()).await,
        }
    }

    /// Orders a body that is encoded.
    pub(crate) async fn order_body(&self, body: Bytes) -> Result<Bytes, Failure> {
        let result = self.handle.write(body, Principal::default()).await?;
        // The store has told that this was no body: a bug, and nothing was done.
        match result.is_empty() {
            true => Err(Failure::NotServing),
            false => Ok(result),
        }
    }

    /// Asks the store.
    pub(crate) async fn read(
        &self,
        query: Query,
        consistency: Consistency,
    ) -> Result<Answer, Failure> {
        let query = application::Query::Embedded(query);
        match self.handle.read(query, consistency).await? {
            application::Answer::Embedded(answer) => Ok(answer),
            _ => Err(Failure::NotServing),
        }
    }

    /// Asks calls that change nothing; `None` if they have to be ordered, for a key's time is over by the clock and not
    /// yet by the log.
    pub(crate) async fn ask(
        &self,
        (resp, db): (Resp, u32),
        calls: Vec<Call>,
        asker: Option<Asker>,
        consistency: Consistency,
    ) -> Result<Option<Bytes>, Failure> {
        if let Some(fed) = &self.fed {
            let request = Request {
                resp,
                db,
                calls,
                ..Request::default()
            };
            let replies = fed.read(&self.handle, request, consistency).await?;
            return Ok(Some(replies));
        }
        let query = Query::Calls {
            resp,
            db,
            clock_ns: clock_ns(),
            calls,
            asker,
        };
        match self.read(query, consistency).await? {
            Answer::Replies(replies) => Ok(Some(replies)),
            _ => Ok(None),
        }
    }

    /// The versions of keys, and with no keys a moment before which everything that was answered is applied here.
    pub(crate) async fn versions(&self, keys: Vec<(u32, Bytes)>) -> Result<Vec<u64>, Failure> {
        if let Some(fed) = &self.fed {
            let keys = keys.into_iter().map(|(_, key)| key).collect();
            return fed.versions(&self.handle, keys).await;
        }
        let query = Query::Versions {
            clock_ns: clock_ns(),
            keys,
        };
        match self.read(query, Consistency::Linearizable).await? {
            Answer::Versions(versions) => Ok(versions),
            _ => Ok(Vec::new()),
        }
    }
}

/// The replica's clock, in ns since the Unix epoch.
fn clock_ns() -> u64 {
    u64::try_from(since_epoch().as_nanos()).unwrap_or(u64::MAX)
}

/// The replica's clock, since the Unix epoch.
pub(crate) fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
