//! Alarms as part of what a group knows of itself, and what they let be carried out.

use super::model::{Sample, first_epoch, member};
use crate::epochs::{
    Alarm, AlarmChange, AlarmKind, Configuration, Effect, Expect, GroupState, Order, Reconfigure,
    Scope,
};
use crate::version::ALARM_LEVEL;
use quorate_core::{Admission, ReplicaId, Slot, Wire};

const GROUP: AlarmChange = AlarmChange::Raise(Scope::Group);
const MEMBER: AlarmChange = AlarmChange::Raise(Scope::Member);
const UNDECIDED: AlarmChange = AlarmChange::Raise(Scope::Undecided);

/// Three members, one of which may fail.
fn state() -> GroupState {
    GroupState::new(first_epoch(3, 1), ALARM_LEVEL)
}

fn alarm(kind: AlarmKind, id: u16) -> Alarm {
    let id = ReplicaId(id);
    Alarm { kind, id }
}

fn apply(state: &mut GroupState, alarm: Alarm, change: AlarmChange) -> Effect {
    state.apply(Slot(5), &Order::Alarm { alarm, change }, &Sample)
}

#[test]
fn before_its_feature_level_an_alarm_is_nothing_and_nothing_is_written_of_it() {
    let mut state = GroupState::new(first_epoch(3, 1), ALARM_LEVEL - 1);
    let before = state.to_bytes();
    let no_space = alarm(AlarmKind::NoSpace, 1);
    assert_eq!(apply(&mut state, no_space, GROUP), Effect::Nothing);
    assert_eq!(state.to_bytes(), before);
    let level = ALARM_LEVEL;
    state.apply(Slot(6), &Order::Level { level }, &Sample);
    assert_eq!(apply(&mut state, no_space, GROUP), Effect::Noted);
    assert_eq!(GroupState::from_bytes(state.to_bytes()), Ok(state));
}

#[test]
fn an_alarm_is_raised_once_and_its_member_does_not_end_what_concerns_all() {
    let mut state = state();
    let no_space = alarm(AlarmKind::NoSpace, 2);
    let end = AlarmChange::End;
    for (change, effect, scope) in [
        (end(Scope::Group), Effect::Nothing, None),
        (MEMBER, Effect::Noted, Some(Scope::Member)),
        (MEMBER, Effect::Nothing, Some(Scope::Member)),
        (GROUP, Effect::Noted, Some(Scope::Group)),
        (MEMBER, Effect::Nothing, Some(Scope::Group)),
        (end(Scope::Member), Effect::Nothing, Some(Scope::Group)),
        (end(Scope::Group), Effect::Noted, None),
        (MEMBER, Effect::Noted, Some(Scope::Member)),
        (end(Scope::Member), Effect::Noted, None),
        (UNDECIDED, Effect::Noted, Some(Scope::Undecided)),
        (MEMBER, Effect::Noted, Some(Scope::Member)),
        (UNDECIDED, Effect::Nothing, Some(Scope::Member)),
        (end(Scope::Undecided), Effect::Nothing, Some(Scope::Member)),
    ] {
        assert_eq!(apply(&mut state, no_space, change), effect, "{change:?}");
        assert_eq!(state.alarms.scope(no_space), scope, "after {change:?}");
    }
}

/// One full disk of three stops nobody else; with two of them there is no quorum that can write.
#[test]
fn alarms_of_members_count_once_more_have_them_than_may_fail() {
    let mut state = state();
    let end = |state: &mut GroupState, alarm| apply(state, alarm, AlarmChange::End(Scope::Group));
    for (kind, admission) in [
        (AlarmKind::NoSpace, Admission::NoGrowth),
        (AlarmKind::Corrupt, Admission::Nothing),
    ] {
        let [one, two, stranger] = [1, 2, 9].map(|id| alarm(kind, id));
        apply(&mut state, one, MEMBER);
        apply(&mut state, stranger, MEMBER);
        assert_eq!(state.admission(&Sample), Admission::All, "{kind:?}");
        apply(&mut state, two, MEMBER);
        assert_eq!(state.admission(&Sample), admission);
        end(&mut state, one);
        assert_eq!(state.admission(&Sample), Admission::All, "{kind:?}");
        apply(&mut state, stranger, GROUP);
        assert_eq!(state.admission(&Sample), admission);
        for alarm in [two, stranger] {
            end(&mut state, alarm);
        }
        assert_eq!(state.admission(&Sample), Admission::All, "{kind:?}");
    }
    apply(&mut state, alarm(AlarmKind::NoSpace, 1), GROUP);
    apply(&mut state, alarm(AlarmKind::Corrupt, 1), GROUP);
    assert_eq!(state.admission(&Sample), Admission::Nothing);
}

/// While nobody knows which member is odd, nothing is written; once that is known, the others go on.
#[test]
fn an_undecided_alarm_counts_for_the_group_until_it_is_decided() {
    let mut state = state();
    let corrupt = alarm(AlarmKind::Corrupt, 2);
    apply(&mut state, corrupt, UNDECIDED);
    assert_eq!(state.admission(&Sample), Admission::Nothing);
    assert_eq!(GroupState::from_bytes(state.to_bytes()), Ok(state.clone()));
    apply(&mut state, corrupt, MEMBER);
    assert_eq!(state.admission(&Sample), Admission::All);
}

#[test]
fn who_leaves_takes_its_alarms_along() {
    let mut state = state();
    let [gone, stays, stranger] = [3, 2, 9].map(|id| alarm(AlarmKind::NoSpace, id));
    for alarm in [gone, stays, stranger] {
        apply(&mut state, alarm, MEMBER);
    }
    state.addresses.insert(ReplicaId(4), "node-4".into());
    let newest = state.chain.newest();
    let mut configuration = Configuration::of(newest);
    configuration.members = vec![member(1, 1), member(2, 1), member(4, 1)];
    let expect = Expect::of(newest);
    let change = Order::Reconfigure(Reconfigure {
        expect,
        configuration,
    });
    let sealed = state.apply(Slot(9), &change, &Sample);
    assert!(matches!(sealed, Effect::Sealed(_)), "{sealed:?}");
    let left: Vec<Alarm> = state.alarms.iter().map(|(alarm, _)| alarm).collect();
    assert_eq!(left, [stays, stranger]);
}

#[test]
fn strangers_names_do_not_fill_the_state() {
    let mut state = state();
    let raised = (100..1100).map(|id| apply(&mut state, alarm(AlarmKind::NoSpace, id), GROUP));
    let noted = raised.filter(|effect| *effect == Effect::Noted).count();
    assert_eq!(noted, 256);
    assert_eq!(GroupState::from_bytes(state.to_bytes()), Ok(state));
}
