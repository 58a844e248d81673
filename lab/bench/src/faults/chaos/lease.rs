//! Leases: granted, kept alive, revoked or let go, and what must come of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
};
use quorate_face_etcd::client::LeaseClient;
use quorate_load::load::rpc::Failure;
use quorate_sim::judge::{Request, Response, Returned};
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::channel;
use crate::faults::requests::{StoreAnswer, refused};
use crate::faults::session::{Asker, Session};
use crate::faults::stage::Stage;

/// What leases' keys are named.
pub(super) const LEASED: &str = "leased/";

/// A client that keeps one lease after the other at one replica.
#[derive(Debug)]
pub(super) struct Keeper {
    id: usize,
    replica: usize,
    session: Arc<Session>,
    lease: LeaseClient<Channel>,
    random: fastrand::Rng,
    count: u64,
    pub(super) kept: Vec<Kept>,
}

/// A key with a lease, and how long it must stay at least.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) key: Bytes,
    /// When the last renewal that was acknowledged was sent, plus its time.
    pub(super) until: Instant,
}

impl Keeper {
    pub(super) fn new(id: usize, replica: usize, session: &Arc<Session>) -> Result<Keeper, String> {
        Ok(Keeper {
            id,
            replica,
            session: Arc::clone(session),
            lease: LeaseClient::new(channel(session, replica)?),
            random: fastrand::Rng::with_seed(session.seed ^ id as u64),
            count: 0,
            kept: Vec::new(),
        })
    }

    /// Keeps leases until the round's load is over.
    pub(super) async fn run(mut self, stage: Arc<Stage>) -> Keeper {
        while !stage.is_over() {
            if let Err(error) = self.keep_one().await {
                self.session.note_error(self.replica, error);
                tokio::time::sleep(PAUSE).await;
            }
        }
        self
    }

    async fn keep_one(&mut self) -> Result<(), String> {
        let time = Duration::from_secs(self.random.u64(TTL_S));
        let granted = Instant::now();
        let request = LeaseGrantRequest {
            ttl: time.as_secs().cast_signed(),
            id: 0,
        };
        let answer = self.within(self.lease.clone().lease_grant(request)).await?;
        let lease = answer.id;
        self.count += 1;
        let name = format!("{LEASED}{}/{}", self.id, self.count);
        let key = self.session.key(&name);
        let put = Request::Put(PutRequest {
            key: key.clone(),
            value: self.session.value(self.id, self.count),
            lease,
            ..PutRequest::default()
        });
        let url = &self.session.endpoints[self.replica];
        let stored = self.session.ask_apart(self.id, self.replica, url, put);
        let stored = stored.await.map(|returned| returned.response);
        let mut until = granted + time;
        for _ in 0..self.random.u8(..3) {
            tokio::time::sleep(time.mul_f64(0.4)).await;
            match self.renew(lease).await {
                Ok(renewed) => until = renewed + time,
                Err(error) => self.session.note_error(self.replica, error),
            }
        }
        if self.random.u8(..3) == 0 {
            // An error is on record.
            let _ = self.revoke(lease).await;
        } else if matches!(stored, Ok(Response::Put(_))) {
            self.kept.push(Kept { key, until });
        }
        Ok(())
    }

    /// Renews a lease, and says when the renewal was sent.
    async fn renew(&mut self, lease: i64) -> Result<Instant, String> {
        let sent = Instant::now();
        let requests = tokio_stream::once(LeaseKeepAliveRequest { id: lease });
        let mut client = self.lease.clone();
        let mut answers = self.within(client.lease_keep_alive(requests)).await?;
        let answer = tokio::time::timeout(self.session.timeout, answers.message()).await;
        match answer {
            Ok(Ok(Some(answer))) if answer.ttl > 0 => Ok(sent),
            Ok(Ok(_)) => Err("the lease to renew is gone".to_owned()),
            Ok(Err(status)) => Err(describe(&status)),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn revoke(&mut self, lease: i64) -> Result<Returned, Failure> {
        let mut client = self.lease.clone();
        let answer = async {
            match client.lease_revoke(LeaseRevokeRequest { id: lease }).await {
                Ok(answer) => {
                    let header = answer.into_inner().header;
                    Ok(StoreAnswer {
                        response: Response::Revoked,
                        revision: Some(header.map_or(0, |header| header.revision)),
                    })
                }
                Err(status) => refused(status.message()).ok_or_else(|| Failure {
                    text: describe(&status),
                    connection_lost: false,
                }),
            }
        };
        let from = Asker {
            client: self.id,
            endpoint: self.replica,
            connection: u64::MAX - self.id as u64,
        };
        self.session.ask(from, Request::Revoke(lease), answer).await
    }

    async fn within<A>(
        &self,
        answer: impl Future<Output = Result<tonic::Response<A>, tonic::Status>>,
    ) -> Result<A, String> {
        match tokio::time::timeout(self.session.timeout, answer).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(describe(&status)),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }
}

/// An error by its kind: what the transport adds differs from case to case.
fn describe(status: &Status) -> String {
    match status.code() {
        Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Internal
            if !status.message().starts_with("etcdserver") =>
        {
            "connection lost".to_owned()
        }
        _ => status.message().to_owned(),
    }
}

/// Times to live, in seconds: the shortest there are.
const TTL_S: std::ops::Range<u64> = 2..4;
const PAUSE: Duration = Duration::from_millis(100);
