//! Locks and elections: what one caller asks for from beginning to end. Nobody else stands in the queue, so that no
//! call waits.

use super::side::{Served, Side};
use super::step::Outcome;
use bytes::Bytes;
use quorate_etcd_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use quorate_etcd_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};

/// The name of every lock and election.
const NAME: Bytes = Bytes::from_static(b"turn");

impl Side {
    /// Takes a lock twice under one lease, and gives it back twice.
    pub(super) async fn lock(&mut self, at: usize, lease: i64) -> Served {
        let mut whole = Outcome::default();
        let mut key = Bytes::from_static(b"turn/none");
        for _ in 0..2 {
            let request = LockRequest { name: NAME, lease };
            let locked = self.call(
                at,
                "/v3lockpb.Lock/Lock",
                request,
                |_, message: &mut LockResponse| key = message.key.clone(),
            );
            whole.add(locked.await?);
        }
        for _ in 0..2 {
            let request = UnlockRequest { key: key.clone() };
            let unlocked = self.call(
                at,
                "/v3lockpb.Lock/Unlock",
                request,
                |_, _: &mut UnlockResponse| (),
            );
            whole.add(unlocked.await?);
        }
        Ok(whole)
    }

    /// Stands for election, announces something else, and resigns; asks meanwhile, and behind the end.
    pub(super) async fn elect(&mut self, at: usize, lease: i64, value: &Bytes) -> Served {
        let mut whole = Outcome::default();
        whole.add(self.leader_of_election(at).await?);
        let mut leader = LeaderKey {
            name: NAME,
            key: Bytes::from_static(b"turn/none"),
            rev: 1,
            lease,
        };
        for value in [value.clone(), Bytes::new()] {
            let request = CampaignRequest {
                name: NAME,
                lease,
                value,
            };
            let won = self.call(
                at,
                "/v3electionpb.Election/Campaign",
                request,
                |_, message: &mut CampaignResponse| {
                    leader = message.leader.clone().unwrap_or_default();
                },
            );
            whole.add(won.await?);
            whole.add(self.leader_of_election(at).await?);
        }
        whole.add(self.proclaim(at, &leader, value).await?);
        for _ in 0..2 {
            let request = ResignRequest {
                leader: Some(leader.clone()),
            };
            let resigned = self.call(
                at,
                "/v3electionpb.Election/Resign",
                request,
                |_, _: &mut ResignResponse| (),
            );
            whole.add(resigned.await?);
        }
        whole.add(self.proclaim(at, &leader, value).await?);
        whole.add(self.leader_of_election(at).await?);
        Ok(whole)
    }

    async fn leader_of_election(&mut self, at: usize) -> Served {
        let request = LeaderRequest { name: NAME };
        let answer = |_: &mut Side, _: &mut LeaderResponse| ();
        self.call(at, "/v3electionpb.Election/Leader", request, answer)
            .await
    }

    async fn proclaim(&mut self, at: usize, leader: &LeaderKey, value: &Bytes) -> Served {
        let request = ProclaimRequest {
            leader: Some(leader.clone()),
            value: value.clone(),
        };
        let answer = |_: &mut Side, _: &mut ProclaimResponse| ();
        self.call(at, "/v3electionpb.Election/Proclaim", request, answer)
            .await
    }
}
