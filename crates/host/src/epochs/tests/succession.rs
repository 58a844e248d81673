//! One replica's steps, each compared with all that comes of it.

use super::model::{first_epoch, member};
use crate::epochs::{
    Configuration, Expect, GroupState, Input, Known, Note, Order, Output, Record, Standing,
    Succession,
};
use quorate_core::{MILLIS, Member, Slot};

/// Members 1, 2 and 3 until the seal at slot 9; then 2, 3 and 4.
fn state(epochs: u64) -> GroupState {
    let mut state = GroupState::new(first_epoch(3, 1), 1);
    for number in 2..=epochs {
        let newest = state.chain.newest();
        let mut configuration = Configuration::of(newest);
        let members = number as u16..number as u16 + 3;
        configuration.members = members.map(|id| member(id, 1)).collect();
        let next = configuration.behind(newest, Slot(10 * (number - 1) - 1));
        state.chain.push(next).unwrap();
    }
    state
}

/// A replica, its state, and how far that is.
struct Replica {
    succession: Succession,
    state: GroupState,
    applied: u64,
    durable: u64,
}

impl Replica {
    fn new(id: u16, epochs: u64, records: &[Record], at: u64) -> (Replica, Vec<Output>) {
        let (state, mut out) = (state(epochs), Vec::new());
        let standing = standing(&state, at, at);
        let succession = Succession::recover(member(id, 1), records, &standing, &mut out);
        let replica = Replica {
            succession,
            state,
            applied: at,
            durable: at,
        };
        (replica, out)
    }

    fn step(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        let standing = standing(&self.state, self.applied, self.durable);
        self.succession.step(&standing, input, &mut out);
        out
    }

    fn hear(&mut self, from: u16, note: Note) -> Vec<Output> {
        let from = member(from, 1);
        self.step(Input::Heard { from, note })
    }

    fn expect(&self) -> Expect {
        Expect::of(self.state.chain.newest())
    }
}

fn standing(state: &GroupState, applied: u64, durable: u64) -> Standing<'_> {
    Standing {
        state,
        failures: 1,
        applied: Slot(applied),
        durable: Slot(durable),
    }
}

fn send(to: u16, note: Note) -> Output {
    let to = member(to, 1);
    Output::Send { to, note }
}

fn moved(replica: &Replica, opened: bool, settled: bool) -> Note {
    Note::Moved {
        epoch: replica.state.chain.newest().clone(),
        known: Known { opened, settled },
        addresses: replica.state.addresses.clone(),
    }
}

const STARTED: [Record; 1] = [Record::Started { epoch: 1 }];

#[test]
fn the_first_epoch_starts_when_its_record_is_durable_and_needs_no_opening() {
    let (mut replica, out) = Replica::new(1, 1, &[], 0);
    assert_eq!(out, [Output::Persist(STARTED[0])]);
    let out = replica.step(Input::Durable(STARTED[0]));
    let (epoch, again) = (1, false);
    assert_eq!(out, [Output::Start { epoch, again }]);
    let (replica, out) = Replica::new(1, 1, &STARTED, 7);
    assert_eq!(out, [Output::Start { epoch, again: true }]);
    assert_eq!(replica.succession.running(), Some(1));
}

#[test]
fn a_member_that_stays_stops_and_starts_when_the_seal_is_durable() {
    let (mut replica, _) = Replica::new(2, 1, &STARTED, 9);
    (replica.state, replica.applied) = (state(2), 10);
    let (epoch, slot) = (1, Some(Slot(9)));
    assert_eq!(
        replica.step(Input::Progress),
        [Output::Seal { epoch, slot }]
    );
    assert_eq!(replica.step(Input::Progress), []);
    replica.durable = 10;
    let started = Record::Started { epoch: 2 };
    let out = replica.step(Input::Progress);
    assert_eq!(out, [Output::Stop { epoch }, Output::Persist(started)]);
    assert_eq!(replica.succession.running(), None);
    let holds = Note::Holds {
        epoch: replica.expect(),
        base: Slot(10),
    };
    let expected = [
        Output::Start {
            epoch: 2,
            again: false,
        },
        Output::Propose(Order::Opened { epoch: 2 }),
        send(1, holds.clone()),
        send(3, holds.clone()),
        send(4, holds),
        Output::Arm {
            after_ns: 100 * MILLIS,
        },
    ];
    assert_eq!(replica.step(Input::Durable(started)), expected);
}

/// Another epoch follows before the seal of the first is durable.
#[test]
fn a_seal_is_said_once_and_what_lies_between_is_skipped() {
    let (mut replica, _) = Replica::new(3, 1, &STARTED, 9);
    (replica.state, replica.applied) = (state(2), 10);
    let (epoch, slot) = (1, Some(Slot(9)));
    assert_eq!(
        replica.step(Input::Progress),
        [Output::Seal { epoch, slot }]
    );
    (replica.state, replica.applied) = (state(3), 20);
    assert_eq!(replica.step(Input::Progress), []);
    replica.durable = 10;
    assert_eq!(replica.step(Input::Progress), [Output::Stop { epoch }]);
    replica.durable = 20;
    let started = Record::Started { epoch: 3 };
    assert_eq!(replica.step(Input::Progress), [Output::Persist(started)]);
}

#[test]
fn an_epoch_is_open_when_more_hold_than_may_fail_and_whoever_may_not_know_is_told() {
    let (mut replica, _) = Replica::new(2, 2, &[Record::Started { epoch: 2 }], 10);
    let epoch = replica.expect();
    let holds = Note::Holds {
        epoch,
        base: Slot(10),
    };
    // Neither from somebody else, nor about another epoch of the same number.
    assert_eq!(replica.hear(1, holds.clone()), []);
    let other = Expect {
        digest: epoch.digest + 1,
        ..epoch
    };
    let base = Slot(10);
    assert_eq!(replica.hear(4, Note::Holds { epoch: other, base }), []);
    assert_eq!(
        replica.hear(4, holds),
        [send(4, moved(&replica, true, true))]
    );
    let known = Known {
        opened: true,
        settled: true,
    };
    assert_eq!(replica.hear(4, Note::Heard { epoch: 2, known }), []);
    let tells = [1, 3].map(|to| send(to, moved(&replica, true, true)));
    let after_ns = 200 * MILLIS;
    let arm = Output::Arm { after_ns };
    let [one, three] = tells;
    assert_eq!(replica.step(Input::Timer), [one, three, arm]);
    for id in [1, 3] {
        replica.hear(id, Note::Heard { epoch: 2, known });
    }
    assert_eq!(replica.step(Input::Timer), [], "nobody is left to tell");
}

#[test]
fn those_who_never_answer_are_told_no_more_after_a_while() {
    let (mut replica, _) = Replica::new(2, 2, &[Record::Started { epoch: 2 }], 11);
    let mut delays = Vec::new();
    loop {
        let out = replica.step(Input::Timer);
        let Some(Output::Arm { after_ns }) = out.last() else {
            break;
        };
        delays.push(after_ns / MILLIS);
        assert!(delays.len() < 100, "it never falls silent");
    }
    assert_eq!(delays[..6], [200, 400, 800, 1600, 3200, 5000]);
    let ask = Note::Ask { epoch: 1 };
    assert_eq!(replica.hear(1, ask), [send(1, moved(&replica, true, true))]);
}

#[test]
fn a_leaver_asks_and_leaves_when_the_epoch_without_it_is_open_and_settled() {
    let (mut replica, _) = Replica::new(1, 1, &STARTED, 9);
    replica.state = state(2);
    replica.state.unsettled = Some(2);
    (replica.applied, replica.durable) = (10, 10);
    let (epoch, slot) = (1, Some(Slot(9)));
    let arm = |after_ms| Output::Arm {
        after_ns: after_ms * MILLIS,
    };
    let out = replica.step(Input::Progress);
    assert_eq!(
        out,
        [
            Output::Seal { epoch, slot },
            Output::Stop { epoch },
            arm(100)
        ]
    );
    let ask = |to| send(to, Note::Ask { epoch: 2 });
    assert_eq!(
        replica.step(Input::Timer),
        [ask(2), ask(3), ask(4), arm(200)]
    );
    let heard = |opened, settled| {
        let known = Known { opened, settled };
        send(3, Note::Heard { epoch: 2, known })
    };
    let note = moved(&replica, true, false);
    assert_eq!(replica.hear(3, note), [heard(true, false)]);
    let successor = replica.expect();
    let retired = Record::Retired { successor };
    let note = moved(&replica, true, true);
    assert_eq!(
        replica.hear(3, note.clone()),
        [heard(true, true), Output::Persist(retired)]
    );
    assert_eq!(replica.step(Input::Durable(retired)), [Output::Leave]);
    // It says once more what the members want to hear, and nothing else.
    assert_eq!(replica.hear(3, note), [heard(true, true)]);
    assert_eq!(replica.hear(3, Note::Ask { epoch: 2 }), []);
    assert_eq!(replica.step(Input::Timer), []);
    let (replica, out) = Replica::new(1, 1, &[STARTED[0], retired], 9);
    assert_eq!(out, [Output::Leave]);
    assert!(replica.succession.has_left());
}

/// Its log was damaged before the epoch that took it in: it applies an epoch again that it was not in.
#[test]
fn a_member_whose_state_is_from_before_it_was_one_does_not_leave() {
    let started = Record::Started { epoch: 2 };
    let (mut replica, out) = Replica::new(4, 1, &[started], 3);
    assert_eq!(out, []);
    assert_eq!(replica.step(Input::Progress), []);
    (replica.state, replica.applied, replica.durable) = (state(2), 10, 10);
    assert_eq!(replica.step(Input::Progress), [Output::Persist(started)]);
    let (epoch, again) = (2, false);
    let out = replica.step(Input::Durable(started));
    assert!(out.contains(&Output::Start { epoch, again }), "{out:?}");
}

/// It need not have applied the seal, nor any of the epochs between.
#[test]
fn a_leaver_may_be_told_of_an_epoch_it_has_no_state_of() {
    let (mut replica, _) = Replica::new(1, 1, &STARTED, 3);
    let newer = Replica::new(4, 4, &[], 30).0;
    let from = member(4, 1);
    let out = replica.hear(4, moved(&newer, true, true));
    let successor = newer.expect();
    let retired = Record::Retired { successor };
    let known = Known {
        opened: true,
        settled: true,
    };
    let heard = send(4, Note::Heard { epoch: 1, known });
    assert_eq!(
        out,
        [Output::Fetch { from }, heard, Output::Persist(retired)]
    );
    let out = replica.step(Input::Durable(retired));
    assert_eq!(out, [Output::Stop { epoch: 1 }, Output::Leave]);
}

/// A member of the newest epoch that slept through others takes no part in those.
#[test]
fn a_sleeper_goes_straight_to_the_newest_epoch() {
    let (mut replica, _) = Replica::new(3, 1, &STARTED, 2);
    let newer = Replica::new(3, 3, &[], 20).0;
    let base = Slot(20);
    let epoch = newer.expect();
    let from = member(5, 1);
    assert_eq!(
        replica.hear(5, Note::Holds { epoch, base }),
        [Output::Fetch { from }]
    );
    (replica.state, replica.applied, replica.durable) = (newer.state, 25, 25);
    let (epoch, slot) = (1, Some(Slot(9)));
    let started = Record::Started { epoch: 3 };
    let expected = [
        Output::Seal { epoch, slot },
        Output::Stop { epoch },
        Output::Persist(started),
    ];
    assert_eq!(replica.step(Input::Progress), expected);
    let out = replica.step(Input::Durable(started));
    // Slots of the epoch are applied: it is open, and nobody waits for the first one.
    let (epoch, again) = (3, false);
    assert_eq!(out[0], Output::Start { epoch, again });
    assert!(
        !out.iter()
            .any(|output| matches!(output, Output::Propose(_)))
    );
}

#[test]
fn whatever_belongs_to_an_earlier_epoch_is_answered_with_the_newest() {
    let (mut replica, _) = Replica::new(2, 2, &[Record::Started { epoch: 2 }], 10);
    let from: Member = member(1, 1);
    let told = send(1, moved(&replica, false, true));
    assert_eq!(
        replica.step(Input::Late { from }),
        std::slice::from_ref(&told)
    );
    let older = Replica::new(1, 1, &[], 0).0;
    assert_eq!(replica.hear(1, moved(&older, true, true)), [told]);
}
