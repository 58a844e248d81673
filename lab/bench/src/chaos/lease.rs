//! Leases: granted, kept alive, revoked or let go, and what must come of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
};
use quorate_face_etcd::client::{KvClient, LeaseClient};
use quorate_sim::judge::{Request, Response};
use tonic::transport::Channel;

use super::client::{describe, judged, send};
use super::history::{Outcome, Session};

/// What leases' keys are named.
pub(super) const LEASED: &str = "leased/";

/// A client that keeps one lease after the other at one replica.
#[derive(Debug)]
pub(super) struct Keeper {
    id: usize,
    replica: usize,
    session: Arc<Session>,
    kv: KvClient<Channel>,
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
    pub(super) fn new(id: usize, session: &Arc<Session>, seed: u64) -> Result<Keeper, String> {
        let replica = id % session.replicas();
        let channel = session.channel(replica)?;
        Ok(Keeper {
            id,
            replica,
            session: Arc::clone(session),
            kv: KvClient::new(channel.clone()),
            lease: LeaseClient::new(channel),
            random: fastrand::Rng::with_seed(seed ^ id as u64),
            count: 0,
            kept: Vec::new(),
        })
    }

    /// Keeps leases until the round's load is over.
    pub(super) async fn run(mut self) -> Keeper {
        while !self.session.is_over() {
            if let Err(error) = self.keep_one().await {
                self.session.failed(error);
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
        let key = self
            .session
            .key(&format!("{LEASED}{}/{}", self.id, self.count));
        let value = self
            .session
            .value(format!("lease-{}-{}", self.id, self.count));
        let put = Request::Put(PutRequest {
            key: key.clone(),
            value,
            lease,
            ..PutRequest::default()
        });
        let answer = send(&mut self.kv, put.clone());
        let stored = self.session.ask(self.id, self.replica, put, answer).await;
        let mut until = granted + time;
        for _ in 0..self.random.u8(..3) {
            tokio::time::sleep(time.mul_f64(0.4)).await;
            match self.renew(lease).await {
                Ok(renewed) => until = renewed + time,
                Err(error) => self.session.failed(error),
            }
        }
        if self.random.u8(..3) == 0 {
            return self.revoke(lease).await;
        }
        if matches!(stored, Some(Response::Put(_))) {
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

    async fn revoke(&mut self, lease: i64) -> Result<(), String> {
        let mut client = self.lease.clone();
        let answer = async {
            match client.lease_revoke(LeaseRevokeRequest { id: lease }).await {
                Ok(answer) => {
                    let header = answer.into_inner().header;
                    let revision = header.map_or(0, |header| header.revision);
                    Outcome::AnsweredAt(revision, Response::Revoked)
                }
                Err(status) => judged(&status),
            }
        };
        let request = Request::Revoke(lease);
        self.session
            .ask(self.id, self.replica, request, answer)
            .await;
        Ok(())
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

/// Times to live, in seconds: the shortest there are.
const TTL_S: std::ops::Range<u64> = 2..4;
const PAUSE: Duration = Duration::from_millis(100);
