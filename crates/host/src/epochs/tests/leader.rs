//! The leader by name, and replicas that are to stay learners, as parts of what a group knows of itself.

use super::model::{Sample, first_epoch, member};
use crate::epochs::{Configuration, Effect, Expect, GroupState, NamedLeader, Order, Reconfigure};
use crate::version::USERS_LEVEL;
use quorate_core::{ReplicaId, Slot, Wire};

fn state() -> GroupState {
    GroupState::new(first_epoch(3, 1), USERS_LEVEL)
}

fn apply(state: &mut GroupState, order: &Order) -> Effect {
    let effect = state.apply(Slot(5), order, &Sample);
    assert_eq!(
        GroupState::from_bytes(state.to_bytes()).as_ref(),
        Ok(&*state)
    );
    effect
}

fn lead(id: u16, after: u64) -> Order {
    let id = ReplicaId(id);
    Order::Lead { id, after }
}

fn address(id: u16, address: &str) -> Order {
    Order::Address {
        id: ReplicaId(id),
        address: address.to_owned(),
    }
}

fn learn(id: u16) -> Order {
    let id = ReplicaId(id);
    Order::Learn { id }
}

/// The members change to these.
fn reconfigure(state: &GroupState, ids: &[u16]) -> Order {
    let newest = state.chain.newest();
    let configuration = Configuration {
        members: ids.iter().map(|id| member(*id, 1)).collect(),
        ..Configuration::of(newest)
    };
    Order::Reconfigure(Reconfigure {
        expect: Expect::of(newest),
        configuration,
    })
}

#[test]
fn before_their_feature_level_these_orders_are_nothing_and_nothing_is_written_of_them() {
    let mut state = GroupState::new(first_epoch(3, 1), USERS_LEVEL - 1);
    apply(&mut state, &address(4, "node-4"));
    let before = state.to_bytes();
    for order in [lead(1, 0), learn(4)] {
        assert_eq!(apply(&mut state, &order), Effect::Nothing);
    }
    assert_eq!(state.to_bytes(), before);
}

#[test]
fn each_leader_takes_the_next_term_and_of_two_named_at_once_the_first_counts() {
    let mut state = state();
    for (order, effect, id, term) in [
        (lead(4, 0), Effect::Nothing, None, 0),
        (lead(2, 0), Effect::Noted, Some(2), 1),
        (lead(3, 0), Effect::Nothing, Some(2), 1),
        (lead(2, 1), Effect::Nothing, Some(2), 1),
        (lead(3, 1), Effect::Noted, Some(3), 2),
    ] {
        assert_eq!(apply(&mut state, &order), effect, "{order:?}");
        let id = id.map(ReplicaId);
        assert_eq!(state.leader, NamedLeader { term, id }, "after {order:?}");
    }
}

#[test]
fn a_member_that_leaves_leads_no_longer() {
    let mut state = GroupState::new(first_epoch(4, 1), USERS_LEVEL);
    apply(&mut state, &lead(4, 0));
    let order = reconfigure(&state, &[1, 2, 3]);
    assert!(matches!(apply(&mut state, &order), Effect::Sealed(_)));
    assert_eq!(state.leader, NamedLeader { term: 1, id: None });
}

#[test]
fn a_replica_stays_a_learner_until_it_becomes_a_member_or_is_forgotten() {
    let mut state = state();
    for (order, effect, learners) in [
        (learn(4), Effect::Nothing, &[][..]),
        (learn(1), Effect::Nothing, &[]),
        (address(4, "node-4"), Effect::Noted, &[]),
        (learn(4), Effect::Noted, &[4]),
        (learn(4), Effect::Nothing, &[4]),
        // It moves, which is all that changes (etcd #21736).
        (address(4, "elsewhere"), Effect::Noted, &[4]),
        (address(5, "node-5"), Effect::Noted, &[4]),
        (learn(5), Effect::Noted, &[4, 5]),
        (address(5, ""), Effect::Noted, &[4]),
    ] {
        assert_eq!(apply(&mut state, &order), effect, "{order:?}");
        let known: Vec<u16> = state.learners.iter().map(|id| id.0).collect();
        assert_eq!(known, learners, "after {order:?}");
    }
    let order = reconfigure(&state, &[1, 2, 3, 4]);
    assert!(matches!(apply(&mut state, &order), Effect::Sealed(_)));
    assert!(state.learners.is_empty());
}
