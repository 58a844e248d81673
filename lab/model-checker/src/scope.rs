//! How far one search goes: sizes, requests, faults, and how many states that gives.

use quorate_core::{Boot, Class, Durability, Epoch, Group, Incarnation, Member, Seat, Slot, coin};

/// One configuration of the general search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// The protocol it is for.
    pub(crate) protocol: &'static str,
    /// What it covers, in a few words.
    pub(crate) what: &'static str,
    /// Whether it takes seconds, and belongs into every run of the tests.
    pub(crate) quick: bool,
    /// Whether one instance is searched layer by layer, instead of every order of every step.
    pub(crate) by_layers: bool,
    /// Members.
    pub(crate) n: usize,
    /// The epoch's parameters.
    pub(crate) params: &'static [(&'static str, &'static str)],
    /// What clients ask for, each once, at any time.
    pub(crate) requests: &'static [Request],
    /// Slots; a replica that has delivered them takes no further part.
    pub(crate) slots: usize,
    /// Steps in one slot ([`quorate_core::Machine::depth`]); states beyond are cut off.
    pub(crate) depth: usize,
    /// Outcomes of the common coin that are searched one by one: every combination for this many
    /// phases of every slot.
    pub(crate) coins: u32,
    /// Crashes in all, each followed by a restart with what is durable and any part of the rest.
    pub(crate) crashes: u8,
    /// Restarts in all of a replica that lost everything.
    pub(crate) losses: u8,
    /// The kinds of timers that may fire.
    pub(crate) timers: &'static [&'static str],
    /// How often timers may fire at each replica.
    pub(crate) fires: u8,
    /// Kinds of messages that are always lost, for they only bring repeats about or save them.
    pub(crate) lost: &'static [&'static str],
    /// Readings that the synchronised clock may give at any step, in ns.
    pub(crate) clocks: &'static [u64],
    /// What survives a crash, and when.
    pub(crate) disks: Disks,
    /// States found, by outcome of the coin or by layer: fewer would mean that something is not searched any more.
    pub(crate) states: &'static [u64],
}

/// How disks behave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disks {
    /// There are none: what is written is as durable as it will ever be, and a restart loses all.
    None,
    /// What a step writes is durable before the replica's next step, unless it crashes in between.
    Fast,
    /// What is written becomes durable at any time, while the replica goes on.
    Slow,
}

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// The replica it asks.
    pub(crate) at: usize,
    /// A write or a read.
    pub(crate) class: Class,
    /// Whether its value is a payload.
    pub(crate) is_long: bool,
}

/// A write at a replica.
pub(crate) const fn write(at: usize) -> Request {
    let (class, is_long) = (Class::Write, false);
    Request { at, class, is_long }
}

/// A write of a value that is a payload.
pub(crate) const fn write_long(at: usize) -> Request {
    let (class, is_long) = (Class::Write, true);
    Request { at, class, is_long }
}

/// A linearizable read at a replica.
pub(crate) const fn read(at: usize) -> Request {
    let (class, is_long) = (Class::Read, false);
    Request { at, class, is_long }
}

impl Scope {
    /// A seed of the common coin for every combination of outcomes that is to be searched.
    pub(crate) fn seeds(&self) -> Vec<u64> {
        let tosses = self.slots as u32 * self.coins;
        let wanted = 0..1u64 << tosses;
        wanted.map(|outcomes| self.seed(outcomes)).collect()
    }

    /// The first seed whose coins are these bits, phase by phase and slot by slot.
    fn seed(&self, outcomes: u64) -> u64 {
        let has_them = |seed: &u64| {
            let mut slots = 0..self.slots as u64;
            slots.all(|slot| {
                (0..self.coins).all(|phase| {
                    let bit = slot as u32 * self.coins + phase;
                    coin(*seed, EPOCH, Slot(slot), phase + 1) == (outcomes >> bit & 1 == 1)
                })
            })
        };
        (0..)
            .find(has_them)
            .expect("a fair coin shows every outcome")
    }

    /// The outcomes of the coin under a seed, slot by slot, as people read them.
    pub(crate) fn coins_of(&self, seed: u64) -> String {
        let digit = |bit| if bit { '1' } else { '0' };
        let of_slot = |slot: usize| {
            let phases = 1..=self.coins;
            let bits = phases.map(|phase| coin(seed, EPOCH, Slot(slot as u64), phase));
            bits.map(digit).collect::<String>()
        };
        (0..self.slots).map(of_slot).collect::<Vec<_>>().join(" ")
    }
}

const EPOCH: u64 = 1;

/// The seat of a replica in one of its lives, the first of which is number 0.
pub(crate) fn seat(
    (protocol, n): (&str, usize),
    params: &[(&str, &str)],
    (me, life): (usize, u8),
    (seed, disks): (u64, Disks),
) -> Seat {
    let member = |index: usize| Member {
        id: replica(index),
        incarnation: Incarnation(index as u128),
    };
    let param = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    Seat {
        group: Group(0),
        epoch: Epoch {
            number: EPOCH,
            first_slot: Slot(0),
            members: (0..n).map(member).collect(),
            protocol: protocol.to_string(),
            durability: match disks {
                Disks::None => Durability::Memory,
                Disks::Fast | Disks::Slow => Durability::Disk,
            },
            seed,
            params: params.iter().map(param).collect(),
        },
        me: replica(me),
        boot: Boot(100 * u64::from(life) + me as u64 + 1),
    }
}

/// The id of a member by position.
pub(crate) fn replica(index: usize) -> quorate_core::ReplicaId {
    quorate_core::ReplicaId(index as u16 + 1)
}
