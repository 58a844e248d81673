//! The Election service.

use crate::face::{Face, refused};
use crate::gather::ValueMissing;
use crate::leader::LeaderWatch;
use crate::queue::{in_words, not_leader, prefix, prefix_end};
use crate::server::Election;
use crate::watch::Follower;
use bytes::Bytes;
use quorate_etcd_api::mvccpb::{Event, EventType, KeyValue};
use quorate_etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use quorate_etcd_store::{Asker, event_value_refs, fill_events};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, async_trait};

type Answered<M> = Result<Response<M>, Status>;

/// Leaders between an observer's task and its connection.
const LEADERS_WAITING_MAX: usize = 4;

#[async_trait]
impl Election for Face {
    async fn campaign(&self, request: Request<CampaignRequest>) -> Answered<CampaignResponse> {
        self.stand(request).await.map_err(in_words)
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Answered<ProclaimResponse> {
        self.announce_as_leader(request).await.map_err(in_words)
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Answered<LeaderResponse> {
        self.find_leader(request).await.map_err(in_words)
    }

    type ObserveStream = ReceiverStream<Result<LeaderResponse, Status>>;

    async fn observe(&self, request: Request<LeaderRequest>) -> Answered<Self::ObserveStream> {
        let asker = self.asker(&request).await.map_err(in_words)?;
        let (leaders, taken) = mpsc::channel(LEADERS_WAITING_MAX);
        let mut watched = LeaderWatch::of(&request, &self.handle);
        let (face, name) = (self.clone(), request.into_inner().name);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = face.tell_leaders(&name, &leaders, &asker) => ended,
                status = watched.lost() => Err(status),
                () = leaders.closed() => Ok(()),
            };
            if let Err(status) = ended {
                // A client that is gone needs no reason.
                let _ = leaders.send(Err(in_words(status))).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(taken)))
    }

    /// Gives a leadership back; one that is over already is no error.
    async fn resign(&self, request: Request<ResignRequest>) -> Answered<ResignResponse> {
        self.step_down(request).await.map_err(in_words)
    }
}

impl Face {
    async fn stand(&self, request: Request<CampaignRequest>) -> Answered<CampaignResponse> {
        let asker = self.asker(&request).await?;
        let CampaignRequest { name, lease, value } = request.into_inner();
        let turn = self.wait_in_queue(&name, Some(value), lease, asker).await?;
        let place = turn.place;
        Ok(Response::new(CampaignResponse {
            header: Some(self.header(place.revision).await?),
            leader: Some(LeaderKey {
                name,
                key: place.key,
                rev: place.created,
                lease: place.lease,
            }),
        }))
    }

    async fn announce_as_leader(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Answered<ProclaimResponse> {
        let asker = self.asker(&request).await?;
        let ProclaimRequest { leader, value } = request.into_inner();
        let leader = leader.ok_or_else(no_leader_given)?;
        let lease = self.lease_or_new(leader.lease, &asker).await?;
        let written = self.write_place(&leader.key, leader.rev, value, lease, &asker);
        let revision = written.await?.ok_or_else(not_leader)?;
        Ok(Response::new(ProclaimResponse {
            header: Some(self.header(revision).await?),
        }))
    }

    async fn find_leader(&self, request: Request<LeaderRequest>) -> Answered<LeaderResponse> {
        let asker = self.asker(&request).await?;
        let name = request.into_inner().name;
        let (revision, first) = self.first_in_queue(&name, &asker).await?;
        let first = first.ok_or_else(|| Status::unknown("election: no leader"))?;
        Ok(Response::new(self.leads(revision, first).await?))
    }

    async fn step_down(&self, request: Request<ResignRequest>) -> Answered<ResignResponse> {
        let asker = self.asker(&request).await?;
        let leader = request.into_inner().leader.ok_or_else(no_leader_given)?;
        let revision = self.give_up(&leader.key, leader.rev, &asker).await?;
        Ok(Response::new(ResignResponse {
            header: Some(self.header(revision).await?),
        }))
    }
}

type Leaders = mpsc::Sender<Result<LeaderResponse, Status>>;

/// An observer that does not listen any more.
struct Gone;

impl Face {
    async fn leads(&self, revision: i64, kv: KeyValue) -> Result<LeaderResponse, Status> {
        Ok(LeaderResponse {
            header: Some(self.header(revision).await?),
            kv: Some(kv),
        })
    }

    /// Tells an observer of each leader and what it announces, for as long as there is an observer.
    async fn tell_leaders(
        &self,
        name: &Bytes,
        leaders: &Leaders,
        asker: &Asker,
    ) -> Result<(), Status> {
        loop {
            let (mut revision, mut first) = self.first_in_queue(name, asker).await?;
            if first.is_none() {
                first = self.first_to_stand(name, revision + 1).await?;
                revision = first.as_ref().map_or(revision, |kv| kv.mod_revision);
            }
            // What happened was compacted before it was read: look again.
            let Some(first) = first else { continue };
            let key = first.key.clone();
            if let Err(Gone) = self.tell(leaders, revision, first).await? {
                return Ok(());
            }
            if let Err(Gone) = self.tell_values(key, revision + 1, leaders).await? {
                return Ok(());
            }
        }
    }

    /// Waits for the first key of an election in which nobody stands; `None` if it was compacted before it was read.
    async fn first_to_stand(&self, name: &Bytes, from: i64) -> Result<Option<KeyValue>, Status> {
        let prefix = prefix(name);
        let mut follower = Follower::new(self, prefix.clone(), prefix_end(&prefix), from);
        while let Some(events) = follower.next().await? {
            for event in events {
                if event.r#type == EventType::Put as i32 {
                    return self.whole(&event).await;
                }
            }
        }
        Ok(None)
    }

    /// Tells what a leader announces until it leads no longer.
    async fn tell_values(
        &self,
        key: Bytes,
        from: i64,
        leaders: &Leaders,
    ) -> Result<Result<(), Gone>, Status> {
        let mut follower = Follower::new(self, key, Bytes::new(), from);
        while let Some(events) = follower.next().await? {
            for event in events {
                if event.r#type == EventType::Delete as i32 {
                    return Ok(Ok(()));
                }
                // A value that was compacted is not the last one.
                if let Some(kv) = self.whole(&event).await?
                    && let Err(Gone) = self.tell(leaders, kv.mod_revision, kv).await?
                {
                    return Ok(Err(Gone));
                }
            }
        }
        Ok(Ok(()))
    }

    async fn tell(
        &self,
        leaders: &Leaders,
        revision: i64,
        kv: KeyValue,
    ) -> Result<Result<(), Gone>, Status> {
        let leader = self.leads(revision, kv).await?;
        Ok(leaders.send(Ok(leader)).await.map_err(|_| Gone))
    }

    /// The key of an event, with its value even if that is kept as a payload; `None` if it was compacted.
    async fn whole(&self, event: &Event) -> Result<Option<KeyValue>, Status> {
        let mut events = [Event {
            r#type: event.r#type,
            kv: event.kv.clone(),
            prev_kv: None,
        }];
        let references = event_value_refs(&events).map_err(refused)?;
        if !references.is_empty() {
            match self.gatherer.gather(references).await {
                Ok(values) => fill_events(&mut events, values),
                Err(ValueMissing::Dead) => return Ok(None),
                Err(ValueMissing::Failed(status)) => return Err(status),
            }
        }
        let [event] = events;
        Ok(event.kv)
    }
}

fn no_leader_given() -> Status {
    Status::unknown("\"leader\" field must be provided")
}
