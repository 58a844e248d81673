//! Identifiers. Each is its own type so that none can stand in for another.

use crate::wire::{Decoder, Encoder, Wire, WireError};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl Wire for $name {
            fn encode(&self, out: &mut Encoder) {
                out.varint(self.0 as u64);
            }

            fn decode(input: &mut Decoder) -> Result<Self, WireError> {
                let raw = input.varint()?;
                Ok($name(<$inner>::try_from(raw).map_err(|_| WireError::Range(stringify!($name)))?))
            }
        }
    };
}

id! {
    /// A replica's number, from 1. A replica that lost its promises keeps the number and returns
    /// under a new [`Incarnation`].
    ReplicaId(u16), "r"
}
id! {
    /// A log position, from 0. Slots are global: epochs follow each other in one sequence.
    Slot(u64), "s"
}
id! {
    /// An independent log (a shard). There is one, group 0, until sharding exists.
    Group(u32), "g"
}
id! {
    /// Position in the sequence of records one machine has persisted during one boot, from 1.
    /// `Lsn(0)` is before every record: what waits for it waits for nothing.
    Lsn(u64), "l"
}
id! {
    /// One start of a process, drawn at random: entry ids made by different boots never collide,
    /// even when a replica has lost its disk between them.
    Boot(u64), "b"
}
id! {
    /// Who sends commands: the face of one boot, or a client that brings its own id.
    ClientId(u64), "c"
}

impl ReplicaId {
    /// Numbers from here on are not of replicas but of gateways that run apart from them. Such a gateway
    /// draws its number when it starts: it has no name that outlives its process.
    pub const GATEWAYS: u16 = 1 << 15;

    /// Whether it is the number of a remote gateway.
    #[must_use]
    pub fn is_gateway(self) -> bool {
        self.0 >= Self::GATEWAYS
    }
}

impl Boot {
    /// The low bits, which say in which epoch a machine named its entries.
    const EPOCH: u64 = 0xffff;

    /// The boot under which the machine of an epoch names entries: they tell which epoch they are of, up
    /// to 65,536 epochs apart.
    #[must_use]
    pub fn of_epoch(self, number: u64) -> Boot {
        Boot(self.0 & !Self::EPOCH | number & Self::EPOCH)
    }

    /// Whether entries named under this boot are of that epoch.
    #[must_use]
    pub fn is_of_epoch(self, number: u64) -> bool {
        self.0 & Self::EPOCH == number & Self::EPOCH
    }
}

impl Slot {
    /// The slot after this one.
    #[must_use]
    pub fn next(self) -> Slot {
        Slot(self.0 + 1)
    }
}

macro_rules! wide_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u128);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl Wire for $name {
            fn encode(&self, out: &mut Encoder) {
                out.slice(&self.0.to_le_bytes());
            }

            fn decode(input: &mut Decoder) -> Result<Self, WireError> {
                Ok($name(u128::from_le_bytes(input.array()?)))
            }
        }
    };
}

wide_id! {
    /// The cluster that a file, a connection or a frame belongs to: 128 random bits drawn at
    /// bootstrap.
    ClusterId
}
wide_id! {
    /// One life of a replica's promises: 128 random bits. A new one begins when they were lost.
    Incarnation
}

/// The name of an entry: unique for ever, its content immutable. Rabia's paper calls it the batch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId {
    /// The replica that formed the entry.
    pub origin: ReplicaId,
    /// The boot of that replica.
    pub boot: Boot,
    /// Counts the entries of that boot, from 1.
    pub seq: u64,
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "e{}.{:x}.{}",
            self.origin.0,
            self.boot.0 & 0xffff,
            self.seq
        )
    }
}

impl Wire for EntryId {
    fn encode(&self, out: &mut Encoder) {
        self.origin.encode(out);
        out.u64(self.boot.0);
        out.varint(self.seq);
    }

    fn decode(input: &mut Decoder) -> Result<Self, WireError> {
        Ok(EntryId {
            origin: ReplicaId::decode(input)?,
            boot: Boot(input.u64()?),
            seq: input.varint()?,
        })
    }
}
