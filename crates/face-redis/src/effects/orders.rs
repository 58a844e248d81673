//! A replica as its relay needs it.

use crate::application::{Answer, Query, RedisApplication};
use bytes::Bytes;
use quorate_core::{Principal, ReplicaId};
use quorate_redis_effects::{StreamQuery, StreamState};
use quorate_redis_relay::{Look, Orders, Pending};
use quorate_server::{Consistency, Handle, Status};

/// A replica that orders what its relay wants.
pub(super) struct Replica {
    handle: Handle<RedisApplication>,
}

impl Replica {
    pub(super) fn new(handle: Handle<RedisApplication>) -> Replica {
        Replica { handle }
    }
}

impl Orders for Replica {
    fn submit(&self, body: Bytes) -> Pending<Option<Bytes>> {
        let handle = self.handle.clone();
        Box::pin(async move { handle.write(body, Principal::default()).await.ok() })
    }

    fn read(&self) -> Pending<Option<StreamState>> {
        let handle = self.handle.clone();
        Box::pin(async move {
            let query = Query::Effects(StreamQuery);
            match handle.read(query, Consistency::Linearizable).await {
                Ok(Answer::Effects(state)) => Some(state),
                _ => None,
            }
        })
    }

    fn look(&self) -> Pending<Option<Look>> {
        let handle = self.handle.clone();
        Box::pin(async move { handle.status().await.ok().map(|status| look(&status)) })
    }
}

/// How a replica stands among its peers: the leader claims first, then members by number. One whose link is down is
/// waited for by none.
fn look(status: &Status) -> Look {
    let members = status.members.iter().filter(|member| !member.is_learner);
    let mut order: Vec<ReplicaId> = members.map(|member| member.id).collect();
    let replicas = order.len() as u32;
    order.retain(|id| *id == status.me || status.links_up.contains(id));
    order.sort_by_key(|id| (Some(*id) != status.leader, *id));
    let place = order.iter().position(|id| *id == status.me);
    let others = status
        .members
        .iter()
        .filter(|member| member.id != status.me);
    Look {
        rank: place.unwrap_or(order.len()) as u32,
        replicas,
        peers: others
            .map(|member| (member.id, !status.links_up.contains(&member.id)))
            .collect(),
    }
}
