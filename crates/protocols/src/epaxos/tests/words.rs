//! What is said and written is read back as it was, and parameters mean what they say.

use super::net::seat;
use crate::epaxos::{
    Accept, Commit, Conflict, Deps, EPaxos, Header, Kept, Message, Phase, PreAccept, Record, Said,
    Shown, Validate, Validated,
};
use crate::registry::Protocol;
use crate::shared::ballot::Ballot;
use crate::shared::lags::Probe;
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{
    Boot, Entry, EntryBuilder, EntryId, MICROS, MemberSet, ReplicaId, Slot, Wire, WireError,
};

fn id(seq: u64) -> EntryId {
    EntryId {
        origin: ReplicaId(3),
        boot: Boot(5),
        seq,
    }
}

fn entry() -> Entry {
    EntryBuilder::default().finish(id(1), 77)
}

fn deps() -> Deps {
    Deps {
        ids: [id(4), id(9)].into(),
        after: Slot(6),
    }
}

fn ballot() -> Ballot {
    Ballot {
        round: 2,
        node: ReplicaId(1),
    }
}

const PROBE: Probe = Probe {
    sent_ns: 5,
    arrived_ns: 1 << 61,
};

fn pre_accept() -> PreAccept {
    PreAccept {
        entry: entry(),
        deps: deps(),
        quorum: MemberSet::first(4),
        keep_at_ns: 1 << 61,
        sent_ns: 5,
    }
}

fn all_said() -> Vec<Said> {
    let shown = |initial| Shown {
        id: id(1),
        ballot: ballot(),
        accepted: Ballot::default(),
        phase: Phase::PreAccepted,
        is_void: false,
        entry: Some(entry()),
        deps: deps(),
        initial,
        quorum: MemberSet::first(2),
        is_coordinating: true,
    };
    let accept = |value| {
        let (id, ballot, deps) = (id(1), ballot(), deps());
        Said::Accept(Accept {
            id,
            ballot,
            value,
            deps,
        })
    };
    let commit = |is_void, entry| {
        Said::Commit(Commit {
            id: id(1),
            is_void,
            entry,
            deps: deps(),
        })
    };
    let question = QuestionName {
        boot: Boot(5),
        number: 6,
    };
    let conflict = Conflict {
        id: id(8),
        is_committed: true,
    };
    vec![
        Said::PreAccept(pre_accept()),
        Said::PreAcceptA(id(1), deps(), PROBE),
        accept(Some(entry())),
        accept(None),
        Said::AcceptA(id(1), ballot()),
        commit(false, Some(entry())),
        commit(true, None),
        Said::Recover(id(1), ballot()),
        Said::RecoverA(shown(Some(deps()))),
        Said::RecoverA(shown(None)),
        Said::Nack(id(1), ballot()),
        Said::Validate(Validate {
            ballot: ballot(),
            entry: entry(),
            deps: deps(),
        }),
        Said::ValidateA(Validated {
            id: id(1),
            ballot: ballot(),
            conflicts: vec![conflict],
            after: Slot(3),
        }),
        Said::Waiting(id(1), 2, deps()),
        Said::Ask(vec![id(1), id(2)]),
        Said::Progress(true),
        Said::ReadQ(question),
        Said::ReadA(question, Slot(7)),
    ]
}

fn messages() -> Vec<Message> {
    let header = Header {
        delivered: Slot(9),
        durable: Slot(8),
    };
    let all = all_said().into_iter();
    all.map(|said| Message { header, said }).collect()
}

fn records() -> Vec<Record> {
    let kept = Kept {
        id: id(1),
        version: 4,
        entry: entry(),
        phase: Phase::Accepted,
        ballot: ballot(),
        accepted: ballot(),
        is_void: true,
        deps: deps(),
        initial: Some(deps()),
        quorum: MemberSet::first(2),
    };
    vec![
        Record::Instance(kept),
        Record::Delivered(Slot(4)),
        Record::Lost,
    ]
}

#[test]
fn words_come_back_as_they_were_and_none_that_is_cut_short() {
    for message in messages() {
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(bytes.clone()), Ok(message));
        let cut = |end| Message::from_bytes(bytes.slice(..end));
        assert!((0..bytes.len()).all(|end| cut(end).is_err()));
    }
    for record in records() {
        let bytes = record.to_bytes();
        assert_eq!(Record::from_bytes(bytes.clone()), Ok(record));
        let cut = |end| Record::from_bytes(bytes.slice(..end));
        assert!((0..bytes.len()).all(|end| cut(end).is_err()));
    }
}

#[test]
fn dependencies_that_do_not_ascend_are_refused() {
    let mut bytes = deps().to_bytes().to_vec();
    let one = (bytes.len() - 2) / 2;
    let (first, second) = (bytes[1..=one].to_vec(), bytes[one + 1..=2 * one].to_vec());
    bytes[1..=2 * one].copy_from_slice(&[second, first].concat());
    let why = Deps::from_bytes(Bytes::from(bytes));
    assert_eq!(why, Err(WireError::Range("order of dependencies")));
}

#[test]
fn each_word_is_described_on_a_line() {
    let said: Vec<String> = messages().iter().map(EPaxos::describe_message).collect();
    let written: Vec<String> = records().iter().map(EPaxos::describe_record).collect();
    let all = said.iter().chain(&written);
    assert!(
        all.clone()
            .all(|line| !line.is_empty() && !line.contains('\n'))
    );
    assert_eq!(
        said[0],
        "pre-accept e3.5.1 behind s6 e3.5.4 e3.5.9 by [1 2 3 4]"
    );
    assert_eq!(said[6], "commit e3.5.1 void");
    assert_eq!(said[15], "delivered to s9, durably to s8, and you?");
    assert_eq!(
        written[0],
        "e3.5.1 b2.1 accepted void behind s6 e3.5.4 e3.5.9"
    );
}

#[test]
fn parameters_mean_what_they_say_and_others_are_refused() {
    let params = [
        ("outstanding", "1"),
        ("batch_commands", "1"),
        ("mark_us", "700"),
    ];
    let config = EPaxos::config(&seat(5, 0, &params)).unwrap();
    assert_eq!(
        (config.batches.outstanding, config.batches.commands_max),
        (1, 1)
    );
    assert_eq!(config.waits.mark_ns, 700_000);
    assert!(config.queueing.is_none() && !config.is_thrifty);
    let held = [("toq_us", "300"), ("thrifty", "true")];
    let config = EPaxos::config(&seat(5, 0, &held)).unwrap();
    let queueing = config.queueing.unwrap();
    assert_eq!((config.is_thrifty, config.thresholds.fast), (true, 4));
    assert_eq!(
        [queueing.added_ns, queueing.far_ns],
        [300 * MICROS, 1400 * MICROS]
    );
    for wrong in [
        ("mark_us", "0"),
        ("recover_ms", "x"),
        ("thrifty", "2"),
        ("toq_us", "-1"),
    ] {
        assert!(EPaxos::config(&seat(3, 0, &[wrong])).is_err(), "{wrong:?}");
    }
}
