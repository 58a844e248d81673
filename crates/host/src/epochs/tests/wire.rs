//! Everything about epochs that is written or sent, from hostile bytes.

use super::model::{Sample, first_epoch, member};
use crate::epochs::{
    Alarm, AlarmChange, AlarmKind, Configuration, Effect, Expect, Face, GroupState, Invalid, Known,
    Note, Order, Reconfigure, Record, Scope,
};
use crate::fuzz::fuzz;
use crate::version::ALARM_LEVEL;
use quorate_core::{ReplicaId, Slot, Wire};
use quorate_fuzz::Limits;

const EXPECT: Expect = Expect {
    epoch: 300,
    digest: 1 << 60,
};

fn orders() -> Vec<Order> {
    let configuration = Configuration::of(&first_epoch(3, 1));
    vec![
        Order::Reconfigure(Reconfigure {
            expect: EXPECT,
            configuration,
        }),
        Order::Opened { epoch: 2 },
        Order::Settled { epoch: 300 },
        Order::Address {
            id: ReplicaId(4),
            address: "127.0.0.1:2380".into(),
        },
        Order::Level { level: 2 },
        Order::Publish {
            id: ReplicaId(300),
            face: face(),
        },
        Order::Alarm {
            alarm: ALARM,
            change: AlarmChange::Raise(Scope::Member),
        },
        Order::Alarm {
            alarm: ALARM,
            change: AlarmChange::End(Scope::Group),
        },
    ]
}

const ALARM: Alarm = Alarm {
    kind: AlarmKind::Corrupt,
    id: ReplicaId(300),
};

fn face() -> Face {
    Face {
        name: "first".into(),
        client_url: "http://first:2379".into(),
    }
}

fn reasons() -> [Invalid; 11] {
    let id = ReplicaId(300);
    [
        Invalid::Stale { newest: EXPECT },
        Invalid::NoMembers,
        Invalid::TooManyMembers(65),
        Invalid::Twice(id),
        Invalid::NoLife(id),
        Invalid::UnknownMember(id),
        Invalid::Returns(member(4, 9)),
        Invalid::Protocol,
        Invalid::Parameters,
        Invalid::Unsettled { epoch: 2 },
        Invalid::Replaced { count: 3, most: 2 },
    ]
}

fn bytes<T: Wire>(values: impl IntoIterator<Item = T>) -> Vec<bytes::Bytes> {
    values.into_iter().map(|value| value.to_bytes()).collect()
}

#[test]
fn orders_bear_any_bytes() {
    fuzz("order").seeds(bytes(orders())).run_wire::<Order>();
}

/// What a machine is told of an order before it is applied.
#[test]
fn an_order_that_may_seal_is_known_by_its_first_bytes() {
    for order in orders() {
        assert_eq!(Order::may_seal(&order.to_bytes()), order.seals());
    }
    assert!(!Order::may_seal(b""));
}

#[test]
fn results_of_orders_bear_any_bytes() {
    let refused = reasons().map(Effect::Refused);
    let others = [
        Effect::Sealed(EXPECT),
        Effect::Settled,
        Effect::Noted,
        Effect::Nothing,
    ];
    let effects = refused.into_iter().chain(others);
    fuzz("order-result")
        .seeds(bytes(effects))
        .run_wire::<Effect>();
}

#[test]
fn the_state_of_a_group_bears_any_bytes() {
    let mut state = GroupState::new(first_epoch(3, 1), 1);
    let plain = state.to_bytes();
    for id in [1, 2, 300] {
        state.addresses.insert(ReplicaId(id), format!("node-{id}"));
    }
    let newest = state.chain.newest();
    let next = Configuration::of(newest).behind(newest, Slot(9));
    state.chain.push(next).expect("it follows");
    state.unsettled = Some(2);
    state.has_payloads = true;
    let mut published = state.clone();
    published.level = 2;
    for id in [1, 300] {
        published.faces.insert(ReplicaId(id), face());
    }
    let mut alarmed = published.clone();
    alarmed.level = ALARM_LEVEL;
    for id in [2, 300] {
        let alarm = Alarm {
            id: ReplicaId(id),
            ..ALARM
        };
        let order = Order::Alarm {
            alarm,
            change: AlarmChange::Raise(Scope::Group),
        };
        alarmed.apply(Slot(9), &order, &Sample);
    }
    let limits = Limits {
        // An epoch of 14 bytes is ten times as long in memory, in a queue that has just doubled.
        bytes_per_byte: 48,
        ..Limits::default()
    };
    fuzz("group-state")
        .seeds([
            plain,
            state.to_bytes(),
            published.to_bytes(),
            alarmed.to_bytes(),
        ])
        .limits(limits)
        .run_wire::<GroupState>();
}

#[test]
fn notes_and_records_bear_any_bytes() {
    let known = Known {
        opened: true,
        settled: false,
    };
    let notes = [
        Note::Holds {
            epoch: EXPECT,
            base: Slot(1000),
        },
        Note::Ask { epoch: 3 },
        Note::Moved {
            epoch: first_epoch(3, 1),
            known,
            addresses: [(ReplicaId(1), "node-1".to_owned())].into(),
        },
        Note::Heard { epoch: 2, known },
        Note::Ready { epoch: 2 },
        Note::Safe { epoch: EXPECT },
    ];
    let limits = Limits {
        // A short address in a tree of its own.
        base_bytes: 8 << 10,
        bytes_per_byte: 64,
        ..Limits::default()
    };
    fuzz("epoch-note")
        .seeds(bytes(notes))
        .limits(limits)
        .run_wire::<Note>();
    let records = [
        Record::Started { epoch: 300 },
        Record::Retired { successor: EXPECT },
    ];
    fuzz("epoch-record")
        .seeds(bytes(records))
        .run_wire::<Record>();
}
