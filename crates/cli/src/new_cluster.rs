//! The beginning of a cluster: epoch 1 and everybody's identity.
//!
//! All but the incarnations follows from one token, which must be unique: two clusters with the same
//! token, members and addresses would take each other's replicas for their own. `quorate up` draws
//! the token and writes all data folders itself, incarnations included; replicas that are begun
//! separately draw their incarnations and agree on all of them before any speaks.

use quorate_core::{
    ClusterId, Durability, Epoch, Group, Incarnation, Member, ReplicaId, Seat, Slot,
};
use quorate_protocols::AnyConfig;
use quorate_server::{Meta, ReplicaState};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_128;

/// What a cluster is begun with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NewCluster {
    /// Unique per cluster.
    pub(crate) token: String,
    /// The members' peer addresses, by number.
    pub(crate) members: BTreeMap<ReplicaId, String>,
    pub(crate) protocol: String,
    pub(crate) durability: Durability,
    pub(crate) params: BTreeMap<String, String>,
}

impl NewCluster {
    /// The cluster's id.
    pub(crate) fn cluster(&self) -> ClusterId {
        let mut text = format!("cluster\n{}\n", self.token);
        for (id, address) in &self.members {
            text.push_str(&format!("{id}={address}\n"));
        }
        ClusterId(xxh3_128(text.as_bytes()))
    }

    /// The first epoch.
    pub(crate) fn epoch(&self) -> Epoch {
        let cluster = self.cluster();
        let derive = |what: &str| xxh3_128(format!("{what}\n{cluster}").as_bytes());
        let member = |id: &ReplicaId| Member {
            id: *id,
            incarnation: Incarnation(derive(&format!("incarnation {id}"))),
        };
        Epoch {
            number: 1,
            first_slot: Slot(0),
            members: self.members.keys().map(member).collect(),
            protocol: self.protocol.clone(),
            durability: self.durability,
            seed: derive("coin") as u64,
            params: self.params.clone(),
        }
    }

    /// What replica `me` begins with before it has heard of the others: an incarnation of its own, and an
    /// epoch that names nobody's yet.
    pub(crate) fn joining_meta(&self, me: ReplicaId, incarnation: Incarnation) -> Meta {
        let mut meta = Meta {
            incarnation,
            state: ReplicaState::Joining,
            ..self.meta(me)
        };
        for member in &mut meta.epoch.members {
            member.incarnation = Incarnation::default();
        }
        meta
    }

    /// What the only replica of a cluster begins with. Its incarnation is its own: whoever begins the same cluster
    /// once more, on an empty folder, does not pass for it.
    pub(crate) fn meta_alone(&self, me: ReplicaId, incarnation: Incarnation) -> Meta {
        let mut meta = self.joining_meta(me, incarnation);
        for member in &mut meta.epoch.members {
            member.incarnation = incarnation;
        }
        Meta {
            state: ReplicaState::Bootstrapped,
            ..meta
        }
    }

    /// What replica `me` begins with, where one hand begins them all.
    pub(crate) fn meta(&self, me: ReplicaId) -> Meta {
        let epoch = self.epoch();
        let own = epoch.members.iter().find(|member| member.id == me);
        Meta {
            cluster: self.cluster(),
            replica: me,
            incarnation: own.map(|member| member.incarnation).unwrap_or_default(),
            listed_as: None,
            state: ReplicaState::Bootstrapped,
            group: Group(0),
            epoch,
        }
    }
}

/// Asks the epoch's protocol whether it can work with it; returns how many failures it survives. Who is
/// not listed asks for one that is.
pub(crate) fn failures_survived(epoch: &Epoch, me: ReplicaId) -> Result<usize, String> {
    let first = epoch
        .members
        .first()
        .filter(|_| epoch.index_of(me).is_none());
    let me = first.map_or(me, |member| member.id);
    let seat = Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me,
        boot: quorate_core::Boot(0),
    };
    AnyConfig::of(&seat).map(|_| quorate_protocols::failures_survived(epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new_cluster() -> NewCluster {
        NewCluster {
            token: "t".into(),
            members: (1..=3)
                .map(|id| (ReplicaId(id), format!("http://h{id}:2380")))
                .collect(),
            protocol: "rabia".into(),
            durability: Durability::Disk,
            params: BTreeMap::new(),
        }
    }

    #[test]
    fn replicas_bootstrapped_apart_agree_and_differ_only_in_who_they_are() {
        let metas = [1, 2].map(|id| new_cluster().meta(ReplicaId(id)));
        assert_eq!(metas[0].cluster, metas[1].cluster);
        assert_eq!(metas[0].epoch.digest(), metas[1].epoch.digest());
        assert_ne!(metas[0].incarnation, metas[1].incarnation);
        assert_eq!(metas[1].incarnation, metas[0].epoch.members[1].incarnation);
    }

    #[test]
    fn another_token_or_member_is_another_cluster() {
        let mut others = [new_cluster(), new_cluster(), new_cluster()];
        others[0].token = "u".into();
        others[1]
            .members
            .insert(ReplicaId(3), "http://elsewhere:2380".into());
        others[2].members.remove(&ReplicaId(3));
        assert!(
            others
                .iter()
                .all(|other| other.cluster() != new_cluster().cluster())
        );
        assert!(
            others
                .iter()
                .all(|other| other.epoch().seed != new_cluster().epoch().seed)
        );
    }

    #[test]
    fn a_protocol_judges_its_epoch() {
        assert_eq!(
            failures_survived(&new_cluster().epoch(), ReplicaId(1)),
            Ok(1)
        );
        let mut epoch = new_cluster().epoch();
        epoch.protocol = "paxos".into();
        let error = failures_survived(&epoch, ReplicaId(1)).unwrap_err();
        assert!(
            error.contains("\"paxos\"") && error.contains("rabia"),
            "{error}"
        );
        let mut epoch = new_cluster().epoch();
        epoch.params.insert("no-such-parameter".into(), "1".into());
        assert!(failures_survived(&epoch, ReplicaId(1)).is_err());
    }
}
