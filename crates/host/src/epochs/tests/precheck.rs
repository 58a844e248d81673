//! What is refused before it is proposed.

use super::model::{Sample, first_epoch, member};
use crate::epochs::precheck::{Limits, NotReady, Refused, Seen, View, may_propose};
use crate::epochs::{Configuration, Edit, Expect, GroupState, Invalid, Reconfigure};
use quorate_core::{MILLIS, ReplicaId, SECONDS, Slot};

const APPLIED: Slot = Slot(10_000);

fn state() -> GroupState {
    let mut state = GroupState::new(first_epoch(3, 1), 1);
    state.addresses = (1..=5)
        .map(|id| (ReplicaId(id), format!("node-{id}")))
        .collect();
    state
}

/// Four replicas in their first life, all well.
fn seen() -> Vec<Seen> {
    let seen = |id| Seen {
        member: member(id, 1),
        ago_ns: 10 * MILLIS,
        durable: APPLIED,
        level: 1,
    };
    (1..=4).map(seen).collect()
}

fn asked(state: &GroupState, seen: &[Seen], is_open: bool, edits: &[Edit]) -> Result<(), Refused> {
    let newest = state.chain.newest();
    let mut next = newest.clone();
    for edit in edits {
        if let Some(edited) = edit.of(&next).unwrap() {
            next.members = edited.members;
            next.params = edited.params;
        }
    }
    let change = Reconfigure {
        expect: Expect::of(newest),
        configuration: Configuration::of(&next),
    };
    let view = View {
        state,
        applied: APPLIED,
        is_open,
        seen,
    };
    may_propose(&view, &change, &Limits::default(), &Sample)
}

fn refused(seen: &[Seen], edit: Edit) -> Refused {
    asked(&state(), seen, true, &[edit]).expect_err("it is refused")
}

#[test]
fn what_is_ready_may_go_on() {
    let add = Edit::Add(member(4, 1));
    assert_eq!(
        asked(&state(), &seen(), true, std::slice::from_ref(&add)),
        Ok(())
    );
    let replace = [add, Edit::Remove(ReplicaId(3))];
    assert_eq!(asked(&state(), &seen(), true, &replace), Ok(()));
}

#[test]
fn a_joiner_has_to_be_there_in_this_life_nearly_caught_up_and_new_enough() {
    let why = |change: fn(&mut Vec<Seen>)| {
        let mut seen = seen();
        change(&mut seen);
        match refused(&seen, Edit::Add(member(4, 1))) {
            Refused::JoinerNotReady { id, why } => {
                assert_eq!(id, ReplicaId(4));
                why
            }
            other => panic!("{other}"),
        }
    };
    let reasons = [
        why(|seen| seen.truncate(3)),
        why(|seen| seen[3].member = member(4, 2)),
        why(|seen| seen[3].ago_ns = 3 * SECONDS),
        why(|seen| seen[3].durable = Slot(APPLIED.0 - 257)),
        why(|seen| seen[3].level = 0),
    ];
    let expected = [
        NotReady::Unheard,
        NotReady::OtherLife,
        NotReady::Silent(3 * SECONDS),
        NotReady::Behind(257),
        NotReady::OldProgram,
    ];
    assert_eq!(reasons, expected);
    let mut seen = seen();
    seen[3].durable = Slot(APPLIED.0 - 256);
    assert_eq!(
        asked(&state(), &seen, true, &[Edit::Add(member(4, 1))]),
        Ok(())
    );
}

#[test]
fn a_change_needs_a_quorum_now_and_one_afterwards() {
    let mut few = seen();
    few[0].ago_ns = 9 * SECONDS;
    few.remove(1);
    let (answer, needed) = (1, 2);
    let now = refused(&few, Edit::Add(member(4, 1)));
    assert_eq!(now, Refused::NoQuorumNow { answer, needed });
    let mut behind = seen();
    behind[1].durable = Slot(0);
    behind.pop();
    let shrink = Edit::Remove(ReplicaId(3));
    let to_two = [
        shrink,
        Edit::Protocol {
            name: "sample".into(),
            params: [("f".to_owned(), "0".to_owned())].into(),
        },
    ];
    let next = asked(&state(), &behind, true, &to_two).unwrap_err();
    let text = next.to_string();
    assert_eq!(
        text,
        "the group would stand still: 1 of the next members are ready, and it takes 2; replica 2 is \
         10000 slots behind"
    );
}

#[test]
fn changes_come_one_after_the_other() {
    let add = [Edit::Add(member(4, 1))];
    let closed = asked(&state(), &seen(), false, &add);
    assert_eq!(closed, Err(Refused::NotOpen { epoch: 1 }));
}

#[test]
fn what_would_do_nothing_is_refused_with_its_reason() {
    let unknown = refused(&seen(), Edit::Add(member(7, 1)));
    let reason = Invalid::UnknownMember(ReplicaId(7));
    assert_eq!(unknown, Refused::Invalid(reason));
    let shrink = refused(&seen(), Edit::Remove(ReplicaId(3)));
    assert_eq!(
        shrink.to_string(),
        "f = 1, k = 1: 2 members are too few",
        "the protocol's own words"
    );
}

#[test]
fn a_member_that_answers_stays_while_payloads_are_moved() {
    let mut state = state();
    state.unsettled = Some(1);
    let replace = [Edit::Replace(member(3, 9))];
    let mut seen = seen();
    let kept = asked(&state, &seen, true, &replace);
    assert_eq!(kept, Err(Refused::StillNeeded { id: ReplicaId(3) }));
    seen[2].member = member(3, 9);
    assert_eq!(asked(&state, &seen, true, &replace), Ok(()));
}
