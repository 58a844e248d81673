//! The shared parts of every message and record, from hostile bytes.

use bytes::Bytes;
use quorate_core::{
    Boot, Chain, Class, ClientId, Command, Durability, Entry, EntryBuilder, EntryId, EntrySet,
    Epoch, Incarnation, Member, Principal, ReplicaId, RequestId, Slot, Wire,
};
use quorate_fuzz::{Fuzz, Limits};

fn fuzz<T: Wire>(name: &str, values: impl IntoIterator<Item = T>) -> Fuzz {
    let seeds = values.into_iter().map(|value| value.to_bytes());
    Fuzz::new(env!("CARGO_MANIFEST_DIR"), name).seeds(seeds)
}

fn commands() -> Vec<Command> {
    let classes = [
        Class::Write,
        Class::Read,
        Class::OpenSession,
        Class::EndSession,
        Class::Order,
    ];
    let command = |(number, class)| Command {
        id: RequestId {
            client: ClientId(7),
            seq: number,
        },
        acked: number / 2,
        class,
        principal: Principal(number as u32),
        body: Bytes::from(vec![b'x'; 3 * number as usize]),
        payloads: Vec::new(),
    };
    [1, 130, 3, 4]
        .into_iter()
        .zip(classes)
        .map(command)
        .collect()
}

fn id(origin: u16, seq: u64) -> EntryId {
    EntryId {
        origin: ReplicaId(origin),
        boot: Boot(1 << 40),
        seq,
    }
}

fn entries() -> Vec<Entry> {
    let filled = commands()
        .iter()
        .fold(EntryBuilder::default(), |mut entry, command| {
            entry.push(command);
            entry
        });
    vec![
        EntryBuilder::default().finish(id(1, 1), 0),
        filled.finish(id(2, 900), 77),
    ]
}

#[test]
fn commands_bear_any_bytes() {
    fuzz("command", commands()).run_wire::<Command>();
}

/// An entry's commands are taken apart only where they are applied: from an entry that was decided.
#[test]
fn entries_and_their_commands_bear_any_bytes() {
    let limits = Limits {
        // A vector of commands, each at least 14 bytes long, that has just doubled.
        bytes_per_byte: 24,
        ..Limits::default()
    };
    let decode = |input: Bytes| {
        let entry = Entry::from_bytes(input)?;
        let commands: Result<Vec<Command>, _> = entry.commands().collect();
        commands.map(|commands| (entry, commands))
    };
    fuzz("entry", entries())
        .limits(limits)
        .run(decode, |input, (entry, commands)| {
            assert_eq!(entry.to_bytes(), *input);
            assert_eq!(commands.len(), entry.count());
        });
}

fn epoch() -> Epoch {
    let member = |id| Member {
        id: ReplicaId(id),
        incarnation: Incarnation(u128::from(id) << 90),
    };
    Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (1..=3).map(member).collect(),
        protocol: "rabia".into(),
        durability: Durability::Disk,
        seed: 42,
        params: ["lanes", "mode", "window"]
            .map(|name| (name.to_owned(), name.len().to_string()))
            .into(),
    }
}

#[test]
fn epochs_bear_any_bytes() {
    let other = Epoch {
        number: 1 << 40,
        durability: Durability::Memory,
        params: [].into(),
        ..epoch()
    };
    fuzz("epoch", [epoch(), other]).run_wire::<Epoch>();
}

/// What comes in is a chain: each epoch follows the one before.
#[test]
fn chains_of_epochs_bear_any_bytes() {
    let mut chain = Chain::new(epoch());
    for slot in [1, 200, 70_000] {
        let newest = chain.newest();
        let next = Epoch {
            number: newest.number + 1,
            first_slot: Slot(slot),
            seed: newest.digest(),
            ..epoch()
        };
        chain.push(next).expect("it follows");
    }
    let limits = Limits {
        // An epoch of 14 bytes is ten times as long in memory, in a queue that has just doubled.
        bytes_per_byte: 32,
        ..Limits::default()
    };
    fuzz("chain", [Chain::new(epoch()), chain])
        .limits(limits)
        .run_wire::<Chain>();
}

#[test]
fn sets_of_entries_bear_any_bytes() {
    let mut set = EntrySet::default();
    for seq in [1, 2, 3, 7, 8, 1_000_000] {
        set.insert(id(1, seq));
        set.insert(id(2, seq * 2));
    }
    let limits = Limits {
        // A tree of trees: a run of 11 bytes may have a node of its own in both.
        bytes_per_byte: 64,
        ..Limits::default()
    };
    let fuzz = fuzz("entry-set", [EntrySet::default(), set]).limits(limits);
    fuzz.run(EntrySet::from_bytes, |input, set| {
        assert_eq!(set.to_bytes(), *input);
        // It stays a set, whatever is added.
        let mut more = set.clone();
        for seq in [0, 5, u64::MAX - 1, u64::MAX] {
            assert_eq!(more.insert(id(1, seq)), !set.contains(id(1, seq)));
            assert!(more.contains(id(1, seq)));
        }
        assert_eq!(EntrySet::from_bytes(more.to_bytes()), Ok(more));
    });
}
