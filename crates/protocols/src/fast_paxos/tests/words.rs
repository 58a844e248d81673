//! What is said and written is read back as it was.

use crate::fast_paxos::{Accept, Commit, FastVote, Known, Message, Promise, Record, Shown, Vote};
use crate::registry::Protocol;
use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use quorate_core::{Boot, Entry, EntryBuilder, EntryId, ReplicaId, Slot, Wire, WireError};
use std::fmt::Debug;

fn is_read_back<T: Wire + PartialEq + Debug>(all: &[T]) {
    for one in all {
        let bytes = one.to_bytes();
        assert_eq!(T::from_bytes(bytes.clone()).as_ref(), Ok(one));
        for len in 0..bytes.len() {
            assert!(
                T::from_bytes(bytes.slice(..len)).is_err(),
                "{one:?} cut to {len}"
            );
        }
    }
}

fn entry() -> Entry {
    let id = EntryId {
        origin: ReplicaId(2),
        boot: Boot(7),
        seq: 9,
    };
    EntryBuilder::default().finish(id, 5)
}

fn ballot() -> Ballot {
    let node = ReplicaId(2);
    Ballot { round: 3, node }
}

fn shown(is_classic: bool, value: Option<Entry>) -> Shown {
    let (slot, ballot) = (Slot(4), ballot());
    let vote = Vote {
        ballot,
        is_classic,
        value,
    };
    Shown { slot, vote }
}

fn messages() -> Vec<Message> {
    let (slot, ballot, id) = (Slot(5), ballot(), entry().id);
    let query = QuestionName {
        boot: Boot(4),
        number: 8,
    };
    let known = |mark| Known { ballot, mark };
    let accept = |value| {
        Message::Accept(Accept {
            ballot,
            slot,
            value,
        })
    };
    vec![
        Message::Propose(entry()),
        Message::FastVote(FastVote {
            ballot,
            slot,
            entry: id,
        }),
        accept(Some(entry())),
        accept(None),
        Message::Accepted(ballot, slot),
        Message::Commit(Commit {
            ballot,
            any: slot,
            first: Slot(3),
            names: vec![Some(id), None],
        }),
        Message::Prepare(ballot, slot),
        Message::Promise(Promise {
            ballot,
            delivered: slot,
            shown: vec![shown(false, Some(entry())), shown(true, None)],
        }),
        Message::Nack(ballot),
        Message::Ask(slot),
        Message::ReadQ(query),
        Message::ReadA(query, known(Some(slot))),
        Message::ReadA(query, known(None)),
    ]
}

fn records() -> Vec<Record> {
    vec![
        Record::Vote(shown(true, Some(entry()))),
        Record::Vote(shown(false, None)),
        Record::Promise(ballot()),
        Record::Lost,
    ]
}

#[test]
fn messages_and_records_are_read_back() {
    is_read_back(&messages());
    is_read_back(&records());
}

#[test]
fn everything_is_said_on_one_line() {
    type P = crate::fast_paxos::FastPaxos;
    let said = messages()
        .iter()
        .map(P::describe_message)
        .collect::<Vec<_>>();
    let written = records().iter().map(P::describe_record).collect::<Vec<_>>();
    assert!(
        said.iter()
            .chain(&written)
            .all(|line| !line.contains('\n') && line.len() < 120)
    );
    assert_eq!(said[1], "fast vote s5 e2.7.9 b3.2");
    assert_eq!(said[5], "any from s5 b3.2; decided from s3: e2.7.9, no-op");
    assert_eq!(written[0], "s4 accepted e2.7.9 b3.2");
}

#[test]
fn unknown_tags_are_refused() {
    let of = |bytes: &'static [u8]| bytes::Bytes::from_static(bytes);
    let message = Message::from_bytes(of(&[99]));
    assert_eq!(message, Err(WireError::Tag("fast-paxos message", 99)));
    let record = Record::from_bytes(of(&[99]));
    assert_eq!(record, Err(WireError::Tag("fast-paxos record", 99)));
    let how = Record::from_bytes(of(&[0, 4, 9]));
    assert_eq!(how, Err(WireError::Tag("fast-paxos vote", 9)));
}
