//! Seats of replicas in the first epoch of a group.

use quorate_core::{Boot, Durability, Epoch, Group, Incarnation, Member, ReplicaId, Seat, Slot};

/// The id of the replica with this index.
#[must_use]
pub fn id(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

/// The index of the replica with this id.
#[must_use]
pub fn index(id: ReplicaId) -> usize {
    usize::from(id.0) - 1
}

/// The first epoch of a group of `n` replicas with these parameters of the protocol.
#[must_use]
pub fn epoch(protocol: &str, n: usize, params: &[(&str, &str)]) -> Epoch {
    let member = |index| Member {
        id: id(index),
        incarnation: Incarnation(index as u128),
    };
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (0..n).map(member).collect(),
        protocol: protocol.to_owned(),
        durability: Durability::Disk,
        params: params.iter().map(text).collect(),
        seed: 7,
    }
}

/// The seat of replica `me` in the first epoch of a group of `n` replicas.
#[must_use]
pub fn seat(protocol: &str, n: usize, me: usize, boot: u64, params: &[(&str, &str)]) -> Seat {
    Seat {
        group: Group(0),
        epoch: epoch(protocol, n, params),
        me: id(me),
        boot: Boot(boot),
    }
}
