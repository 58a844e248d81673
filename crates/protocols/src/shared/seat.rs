//! Seats for the tests of protocols.

use quorate_core::{Boot, Durability, Epoch, Group, Incarnation, Member, ReplicaId, Seat, Slot};

/// The seat of replica `me`, counted from 0, in the first epoch of a group of `n`.
pub(crate) fn seat(
    protocol: &str,
    n: usize,
    me: usize,
    boot: u64,
    params: &[(&str, &str)],
) -> Seat {
    let member = |index| Member {
        id: ReplicaId(index as u16 + 1),
        incarnation: Incarnation(index as u128),
    };
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..n).map(member).collect(),
            protocol: protocol.to_owned(),
            durability: Durability::Disk,
            params: params.iter().map(text).collect(),
            seed: 7,
        },
        me: ReplicaId(me as u16 + 1),
        boot: Boot(boot),
    }
}
