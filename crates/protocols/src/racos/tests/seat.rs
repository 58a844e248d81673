//! Whose machine it is.

use quorate_core::{Boot, Durability, Epoch, Group, Incarnation, Member, ReplicaId, Seat, Slot};

/// A seat of a group of `n` in its first epoch.
pub(super) fn seat(n: usize, me: usize, boot: u64, params: &[(&str, &str)]) -> Seat {
    let member = |id| Member {
        id: ReplicaId(id as u16 + 1),
        incarnation: Incarnation(id as u128),
    };
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..n).map(member).collect(),
            protocol: "racos".to_owned(),
            durability: Durability::Disk,
            params: params.iter().map(text).collect(),
            seed: 7,
        },
        me: ReplicaId(me as u16 + 1),
        boot: Boot(boot),
    }
}
