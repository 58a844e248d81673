//! Epochs: what all replicas of a cluster must agree on before they agree on anything else.

mod catalogue;
mod chain;

pub use catalogue::{Catalogue, Numbers, Unfit};
pub use chain::{Chain, ChainError};

use crate::ids::{Boot, Group, Incarnation, ReplicaId, Slot};
use crate::wire::{Decoder, Encoder, Wire, WireError};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A replica in the life of its promises.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Member {
    /// The number of the member.
    pub id: ReplicaId,
    /// The life of its promises.
    pub incarnation: Incarnation,
}

/// What survives a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// What a protocol persists is on stable storage before messages that depend on it leave.
    Disk,
    /// Nothing is written but the identity: a restarted replica has lost its promises.
    Memory,
}

/// One fixed configuration: members, protocol and parameters. A command may seal it and name the
/// next. Whatever must be equal on all replicas lives here, not in flags.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Counts the epochs of a group, from 1.
    pub number: u64,
    /// The first slot decided in this epoch.
    pub first_slot: Slot,
    /// The members, ascending by id.
    pub members: Vec<Member>,
    /// The registered name of the protocol.
    pub protocol: String,
    /// What survives a crash.
    pub durability: Durability,
    /// Seed of the common coin: drawn at bootstrap, and in every later epoch the digest of the one
    /// before. So a digest speaks for all epochs up to its own.
    pub seed: u64,
    /// The protocol's agreed parameters, by name; the protocol gives them meaning and defaults.
    pub params: BTreeMap<String, String>,
}

impl Epoch {
    /// Members, at most: protocols keep them in masks of 64 bits.
    pub const MEMBERS_MAX: usize = 64;

    /// The parameter of a group's first epoch that names the interface it was begun for, and with it the
    /// application: for the group's whole life, whatever protocols follow each other. Without it, that is
    /// the first there was.
    pub const FACE: &str = "face";

    /// The parameter of a group's first epoch that names the store behind the interface of Redis.
    pub const REDIS: &str = "redis";

    /// The parameters of a first epoch that concern what is above the log, and no protocol.
    pub const ABOVE_THE_LOG: [&str; 2] = [Epoch::FACE, Epoch::REDIS];

    /// What handshakes compare: equal digests mean equal epochs.
    #[must_use]
    pub fn digest(&self) -> u64 {
        xxh3_64(&self.to_bytes())
    }

    /// The epoch in which one member goes on alone behind this one, by hand: what too few members could
    /// not decide. Its seed says so.
    #[must_use]
    pub fn forced(&self, seal: Slot, member: Member) -> Epoch {
        Epoch {
            number: self.number + 1,
            first_slot: seal.next(),
            members: vec![member],
            seed: self.forced_seed(),
            ..self.clone()
        }
    }

    /// Whether it was made so behind that one.
    #[must_use]
    pub fn is_forced_behind(&self, before: &Epoch) -> bool {
        self.seed == before.forced_seed()
    }

    fn forced_seed(&self) -> u64 {
        xxh3_64_with_seed(b"forced", self.digest())
    }

    /// Number of members.
    #[must_use]
    pub fn n(&self) -> usize {
        self.members.len()
    }

    /// Whether this replica is a member in this very life.
    #[must_use]
    pub fn has(&self, member: Member) -> bool {
        self.members.contains(&member)
    }

    /// The ids of the members, ascending.
    pub fn member_ids(&self) -> impl Iterator<Item = ReplicaId> + Clone {
        self.members.iter().map(|member| member.id)
    }

    /// Position of a member in the ascending order, from 0.
    #[must_use]
    pub fn index_of(&self, id: ReplicaId) -> Option<usize> {
        self.members.iter().position(|m| m.id == id)
    }
}

impl Wire for Member {
    fn encode(&self, out: &mut Encoder) {
        self.id.encode(out);
        self.incarnation.encode(out);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(Member {
            id: ReplicaId::decode(input)?,
            incarnation: Incarnation::decode(input)?,
        })
    }
}

impl Wire for Epoch {
    fn encode(&self, out: &mut Encoder) {
        out.varint(self.number);
        self.first_slot.encode(out);
        out.varint(self.members.len() as u64);
        self.members.iter().for_each(|member| member.encode(out));
        out.string(&self.protocol);
        out.u8(match self.durability {
            Durability::Disk => 0,
            Durability::Memory => 1,
        });
        out.u64(self.seed);
        out.varint(self.params.len() as u64);
        for (name, value) in &self.params {
            out.string(name);
            out.string(value);
        }
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        let number = input.varint()?;
        let first_slot = Slot::decode(input)?;
        let members = (0..input.count(17)?)
            .map(|_| Member::decode(input))
            .collect::<Result<Vec<_>, _>>()?;
        if members.len() > Epoch::MEMBERS_MAX || !members.is_sorted_by(|a, b| a.id < b.id) {
            return Err(WireError::Range("members of an epoch"));
        }
        let protocol = input.string()?;
        let durability = match input.u8()? {
            0 => Durability::Disk,
            1 => Durability::Memory,
            tag => return Err(WireError::Tag("durability", tag)),
        };
        let seed = input.u64()?;
        let mut params = BTreeMap::new();
        for _ in 0..input.count(2)? {
            let name = input.string()?;
            if params
                .last_key_value()
                .is_some_and(|(last, _)| *last >= name)
            {
                return Err(WireError::Range("order of parameters"));
            }
            params.insert(name, input.string()?);
        }
        Ok(Epoch {
            number,
            first_slot,
            members,
            protocol,
            durability,
            seed,
            params,
        })
    }
}

/// One replica's place in one epoch of one group: all a machine's configuration is made from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seat {
    /// The independent log.
    pub group: Group,
    /// The configuration of the epoch.
    pub epoch: Epoch,
    /// Who I am in it.
    pub me: ReplicaId,
    /// This start of the process.
    pub boot: Boot,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: u16) -> Member {
        Member {
            id: ReplicaId(id),
            incarnation: Incarnation(u128::from(id) << 90),
        }
    }

    pub(super) fn epoch() -> Epoch {
        Epoch {
            number: 1,
            first_slot: Slot(0),
            members: vec![member(1), member(2), member(3)],
            protocol: "rabia".into(),
            durability: Durability::Disk,
            seed: 42,
            params: [("window".to_string(), "4".to_string())].into(),
        }
    }

    /// Data folders and peers of every release know the first epoch by this digest.
    #[test]
    fn the_digest_of_the_first_epoch_stays() {
        assert_eq!(epoch().digest(), 12_068_994_801_021_055_744);
    }

    #[test]
    fn members_out_of_order_twice_or_too_many_are_no_epoch() {
        let of = |members: Vec<Member>| {
            let bytes = Epoch { members, ..epoch() }.to_bytes();
            Epoch::from_bytes(bytes).map(|epoch| epoch.n())
        };
        let wrong = Err(WireError::Range("members of an epoch"));
        assert_eq!(of((1..=64).map(member).collect()), Ok(64));
        assert_eq!(of((1..=65).map(member).collect()), wrong);
        assert_eq!(of(vec![member(1), member(1)]), wrong);
        assert_eq!(of(vec![member(2), member(1)]), wrong);
    }

    #[test]
    fn an_epoch_round_trips_and_its_digest_sees_every_field() {
        let epoch = epoch();
        assert_eq!(Epoch::from_bytes(epoch.to_bytes()), Ok(epoch.clone()));
        let changed = [
            Epoch {
                number: 2,
                ..epoch.clone()
            },
            Epoch {
                first_slot: Slot(1),
                ..epoch.clone()
            },
            Epoch {
                members: vec![member(1), member(2), member(4)],
                ..epoch.clone()
            },
            Epoch {
                protocol: "chora".into(),
                ..epoch.clone()
            },
            Epoch {
                durability: Durability::Memory,
                ..epoch.clone()
            },
            Epoch {
                seed: 43,
                ..epoch.clone()
            },
            Epoch {
                params: BTreeMap::new(),
                ..epoch.clone()
            },
        ];
        assert!(changed.iter().all(|other| other.digest() != epoch.digest()));
    }
}
