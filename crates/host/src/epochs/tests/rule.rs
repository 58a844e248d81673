//! One reason per refusal, the same on every replica, and words for people.

use super::model::{Sample, first_epoch, member};
use crate::epochs::{
    Configuration, Edit, EditError, Effect, Expect, Face, GroupState, Invalid, Order, Reconfigure,
    judge,
};
use quorate_core::{Epoch, ReplicaId, Slot, Wire};
use std::collections::BTreeMap;

/// Three members, one of which may fail; the addresses of four more are known.
fn state() -> GroupState {
    let mut state = GroupState::new(first_epoch(3, 1), 1);
    state.addresses = (1..=7)
        .map(|id| (ReplicaId(id), format!("node-{id}")))
        .collect();
    state
}

fn change(state: &GroupState, edit: impl FnOnce(&mut Reconfigure)) -> Reconfigure {
    let newest = state.chain.newest();
    let mut change = Reconfigure {
        expect: Expect::of(newest),
        configuration: Configuration::of(newest),
    };
    edit(&mut change);
    change
}

fn judged(state: &GroupState, edit: impl FnOnce(&mut Reconfigure)) -> Result<Epoch, Invalid> {
    judge(state, Slot(9), &change(state, edit), &Sample)
}

#[test]
fn a_valid_change_begins_an_epoch_that_follows_from_the_one_before() {
    let state = state();
    let next = judged(&state, |change| {
        change.configuration.members = vec![member(5, 1), member(2, 1), member(1, 1)];
    });
    let newest = state.chain.newest();
    let expected = Epoch {
        number: 2,
        first_slot: Slot(10),
        members: vec![member(1, 1), member(2, 1), member(5, 1)],
        seed: newest.digest(),
        ..newest.clone()
    };
    assert_eq!(next, Ok(expected));
}

#[test]
fn every_reason_has_its_name_and_its_words() {
    let mut state = state();
    let gone = change(&state, |change| {
        change.configuration.members[2] = member(4, 1);
    });
    let gone = Order::Reconfigure(gone);
    state.apply(Slot(8), &gone, &Sample);
    let newest = Expect::of(state.chain.newest());
    type Edit = fn(&mut Reconfigure);
    let cases: [(Edit, Invalid, &str); 10] = [
        (
            |change| change.expect.epoch = 1,
            Invalid::Stale { newest },
            "the configuration has changed meanwhile: this is epoch 2",
        ),
        (
            |change| change.expect.digest += 1,
            Invalid::Stale { newest },
            "Look at it and ask again",
        ),
        (
            |change| change.configuration.members.clear(),
            Invalid::NoMembers,
            "a group without members cannot go on",
        ),
        (
            |change| change.configuration.members = (1..=65).map(|id| member(id, 1)).collect(),
            Invalid::TooManyMembers(65),
            "65 members: there may be 64",
        ),
        (
            |change| change.configuration.members[0] = member(2, 8),
            Invalid::Twice(ReplicaId(2)),
            "replica 2 is listed twice",
        ),
        (
            |change| change.configuration.members[0] = member(1, 0),
            Invalid::NoLife(ReplicaId(1)),
            "replica 1 is listed without an incarnation",
        ),
        (
            |change| change.configuration.members.push(member(8, 1)),
            Invalid::UnknownMember(ReplicaId(8)),
            "nobody knows where replica 8 is reached",
        ),
        (
            |change| change.configuration.members.push(member(3, 1)),
            Invalid::Returns(member(3, 1)),
            "replica 3 has left in the life 00000000000000000000000000000001",
        ),
        (
            |change| change.configuration.protocol = "later".into(),
            Invalid::Protocol,
            "the protocol is unknown to the feature level",
        ),
        (
            |change| {
                change.configuration.params.insert("k".into(), "3".into());
            },
            Invalid::Parameters,
            "the protocol does not work with these members and parameters",
        ),
    ];
    for (edit, reason, words) in cases {
        assert_eq!(judged(&state, edit), Err(reason));
        let text = reason.to_string();
        assert!(text.contains(words), "{text}");
    }
    // In another life the replica that left is welcome.
    let returned = judged(&state, |change| {
        change.configuration.members.push(member(3, 2));
    });
    assert_eq!(returned.map(|epoch| epoch.n()), Ok(4));
}

#[test]
fn of_two_changes_made_for_one_epoch_the_first_takes_effect() {
    let mut state = state();
    let [one, other] = [4, 5].map(|id| {
        let change = change(&state, |change| {
            change.configuration.members.push(member(id, 1))
        });
        Order::Reconfigure(change)
    });
    let apply = |state: &mut GroupState, slot, order| state.apply(Slot(slot), order, &Sample);
    let sealed = apply(&mut state, 3, &one);
    let newest = Expect::of(state.chain.newest());
    assert_eq!(sealed, Effect::Sealed(newest));
    let refused = Effect::Refused(Invalid::Stale { newest });
    assert_eq!(apply(&mut state, 4, &other), refused);
    assert_eq!(apply(&mut state, 5, &one), refused);
    assert_eq!(state.chain.seal_of(1), Some(Slot(3)));
}

#[test]
fn a_level_is_raised_and_never_lowered() {
    let mut state = state();
    let mut raise = |level| state.apply(Slot(1), &Order::Level { level }, &Sample);
    assert_eq!(
        [3, 2, 3].map(&mut raise),
        [Effect::Noted, Effect::Nothing, Effect::Nothing]
    );
    assert_eq!(state.level, 3);
}

#[test]
fn what_is_so_already_is_not_asked_for_again() {
    let epoch = first_epoch(3, 1);
    let members = |edit: &Edit| {
        let next = edit.of(&epoch).unwrap();
        next.map(|next| {
            next.members
                .iter()
                .map(|m| (m.id.0, m.incarnation.0))
                .collect::<Vec<_>>()
        })
    };
    assert_eq!(members(&Edit::Add(member(2, 1))), None);
    assert_eq!(members(&Edit::Remove(ReplicaId(4))), None);
    assert_eq!(members(&Edit::Replace(member(2, 1))), None);
    assert_eq!(
        members(&Edit::Add(member(0, 1))),
        Some(vec![(0, 1), (1, 1), (2, 1), (3, 1)])
    );
    assert_eq!(
        members(&Edit::Remove(ReplicaId(2))),
        Some(vec![(1, 1), (3, 1)])
    );
    assert_eq!(
        members(&Edit::Replace(member(2, 5))),
        Some(vec![(1, 1), (2, 5), (3, 1)])
    );
    let protocol = |f: &str| Edit::Protocol {
        name: "sample".into(),
        params: BTreeMap::from([("f".to_owned(), f.to_owned())]),
    };
    assert_eq!(protocol("1").of(&epoch), Ok(None));
    assert!(matches!(protocol("0").of(&epoch), Ok(Some(next)) if next.params["f"] == "0"));
}

#[test]
fn what_cannot_be_asked_for_says_why() {
    let (three, one) = (first_epoch(3, 1), first_epoch(1, 0));
    let add = Edit::Add(member(2, 7)).of(&three).unwrap_err();
    assert_eq!(add, EditError::OtherLife(member(2, 1)));
    assert!(add.to_string().contains("replace it instead"));
    let replace = Edit::Replace(member(9, 1)).of(&three).unwrap_err();
    assert_eq!(replace.to_string(), "replica 9 is not a member");
    let last = Edit::Remove(ReplicaId(1)).of(&one).unwrap_err();
    assert!(last.to_string().starts_with("replica 1 is the last member"));
}

/// Scenario: a member says where clients reach it, before and after the level that knows such a thing;
/// so does somebody of whom nobody has heard. Who leaves is forgotten.
#[test]
fn what_replicas_say_of_themselves_counts_from_level_two_on() {
    let mut state = state();
    state.addresses.remove(&ReplicaId(3));
    let face = |url: &str| Face {
        name: "n".into(),
        client_url: url.into(),
    };
    let publish = |state: &mut GroupState, id, url| {
        let (id, face) = (ReplicaId(id), face(url));
        state.apply(Slot(1), &Order::Publish { id, face }, &Sample)
    };
    assert_eq!(publish(&mut state, 3, "a"), Effect::Nothing);
    let before = state.to_bytes();
    state.apply(Slot(2), &Order::Level { level: 2 }, &Sample);
    assert_eq!(publish(&mut state, 3, "a"), Effect::Noted);
    assert_eq!(publish(&mut state, 3, "a"), Effect::Nothing);
    assert_eq!(publish(&mut state, 4, "b"), Effect::Noted);
    assert_eq!(publish(&mut state, 9, "c"), Effect::Nothing);
    assert_eq!(GroupState::from_bytes(state.to_bytes()), Ok(state.clone()));
    assert!(
        !GroupState::from_bytes(before)
            .unwrap()
            .faces
            .contains_key(&ReplicaId(3))
    );

    let without = change(&state, |change| {
        change.configuration.members[2] = member(5, 1);
    });
    let sealed = state.apply(Slot(8), &Order::Reconfigure(without), &Sample);
    assert!(matches!(sealed, Effect::Sealed(_)), "{sealed:?}");
    let (id, address) = (ReplicaId(4), String::new());
    state.apply(Slot(9), &Order::Address { id, address }, &Sample);
    assert!(state.faces.is_empty());
}
