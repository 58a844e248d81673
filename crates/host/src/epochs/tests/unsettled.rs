//! What may follow while payloads are on their way.

use super::model::{Sample, first_epoch, member};
use crate::epochs::{Configuration, Effect, Expect, GroupState, Invalid, Order, Reconfigure};
use quorate_core::{ReplicaId, Slot, Wire};

/// Five members of which two may fail, one of them just replaced; payloads are under way.
fn state() -> GroupState {
    let mut state = GroupState::new(first_epoch(5, 2), 1);
    state.has_payloads = true;
    state.addresses = (1..=9)
        .map(|id| (ReplicaId(id), format!("node-{id}")))
        .collect();
    let effect = change(&mut state, 0, |next| next.members[0] = member(6, 1));
    assert!(matches!(effect, Effect::Sealed(_)));
    assert_eq!(state.unsettled, Some(2));
    state
}

fn change(state: &mut GroupState, slot: u64, edit: impl FnOnce(&mut Configuration)) -> Effect {
    let newest = state.chain.newest();
    let mut configuration = Configuration::of(newest);
    edit(&mut configuration);
    let expect = Expect::of(newest);
    let order = Order::Reconfigure(Reconfigure {
        expect,
        configuration,
    });
    state.apply(Slot(slot), &order, &Sample)
}

#[test]
fn only_lost_lives_may_be_replaced_and_no_more_than_may_fail() {
    let refused = Effect::Refused(Invalid::Unsettled { epoch: 2 });
    let mut state = state();
    let removed = change(&mut state, 5, |next| {
        next.members.pop();
        next.params.insert("f".to_owned(), "1".to_owned());
    });
    assert_eq!(removed, refused);
    let recoded = change(&mut state, 5, |next| {
        next.params.insert("k".to_owned(), "1".to_owned());
    });
    assert_eq!(recoded, refused);
    let replaced = |state: &mut GroupState, slot, place: usize| {
        change(state, slot, |next| {
            let life = next.members[place].incarnation.0 + 10;
            next.members[place] = member(next.members[place].id.0, life);
        })
    };
    for (slot, place) in [(5, 0), (6, 1)] {
        assert!(matches!(
            replaced(&mut state, slot, place),
            Effect::Sealed(_)
        ));
    }
    let (count, most) = (3, 2);
    let third = replaced(&mut state, 7, 2);
    assert_eq!(third, Effect::Refused(Invalid::Replaced { count, most }));
    // What was said of an older epoch counts for nothing.
    let settled =
        |state: &mut GroupState, epoch| state.apply(Slot(8), &Order::Settled { epoch }, &Sample);
    assert_eq!(settled(&mut state, 2), Effect::Nothing);
    assert_eq!(
        (settled(&mut state, 4), state.unsettled),
        (Effect::Settled, None)
    );
    assert_eq!(state.settled, 4);
    assert!(matches!(replaced(&mut state, 9, 2), Effect::Sealed(_)));
}

#[test]
fn who_stays_keeps_its_place_and_who_comes_takes_a_free_one() {
    let mut state = GroupState::new(first_epoch(5, 1), 1);
    state.addresses = (1..=9)
        .map(|id| (ReplicaId(id), format!("node-{id}")))
        .collect();
    let places = |state: &GroupState| {
        let places = state.places.iter();
        places.map(|(id, place)| (id.0, *place)).collect::<Vec<_>>()
    };
    assert_eq!(places(&state), [(1, 0), (2, 1), (3, 2), (4, 3), (5, 4)]);
    change(&mut state, 0, |next| {
        next.members.retain(|member| member.id.0 != 2);
    });
    assert_eq!(places(&state), [(1, 0), (3, 2), (4, 3), (5, 4)]);
    change(&mut state, 1, |next| {
        next.members.extend([member(8, 1), member(9, 1)]);
    });
    let now = [(1, 0), (3, 2), (4, 3), (5, 4), (8, 1), (9, 5)];
    assert_eq!(places(&state), now);
    // In another life, a replica has the place of the one before.
    change(&mut state, 2, |next| next.members[1] = member(3, 7));
    assert_eq!(places(&state), now);
    let again = GroupState::from_bytes(state.to_bytes()).unwrap();
    assert_eq!(again, state);
}

#[test]
fn without_payloads_or_where_they_stay_safe_an_epoch_is_settled_at_once() {
    let mut state = GroupState::new(first_epoch(5, 2), 1);
    state.has_payloads = true;
    let effect = change(&mut state, 0, |next| {
        next.params.insert("f".to_owned(), "1".to_owned());
    });
    assert!(matches!(effect, Effect::Sealed(_)));
    assert_eq!(state.unsettled, None);
    let effect = change(&mut state, 1, |next| {
        next.members.pop();
    });
    assert!(matches!(effect, Effect::Sealed(_)));
    assert_eq!(state.unsettled, Some(3));
    let mut state = GroupState::new(first_epoch(5, 2), 1);
    let effect = change(&mut state, 0, |next| {
        next.members.pop();
        next.params.insert("f".to_owned(), "1".to_owned());
    });
    assert!(matches!(effect, Effect::Sealed(_)));
    assert_eq!(state.unsettled, None);
}
