//! What is said and written is read back as it was, and the parameters are what they are called.

use super::net::seat;
use crate::nopaxos::{Message, NoPaxos, Record, Reply, StartView, Sync, Value, View, ViewChange};
use crate::registry::Protocol;
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{
    Boot, Entry, EntryBuilder, EntryId, MICROS, MILLIS, MemberIndex, ReplicaId, Slot, Wire,
    WireError,
};
use std::fmt::Debug;

fn is_read_back<T: Wire + PartialEq + Debug>(all: &[T]) {
    for one in all {
        let bytes = one.to_bytes();
        assert_eq!(T::from_bytes(bytes.clone()).as_ref(), Ok(one));
        for len in 0..bytes.len() {
            let cut = T::from_bytes(bytes.slice(..len));
            assert!(cut.is_err(), "{one:?} cut to {len}");
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

const VIEW: View = View {
    lead: 3,
    session: 300,
};

fn log() -> Vec<Value> {
    vec![Some(entry()), None, Some(entry())]
}

fn messages() -> Vec<Message> {
    let (view, from, until, upto) = (VIEW, Slot(5), Slot(700), Slot(6));
    let (session, entry, id) = (9, entry(), entry().id);
    let reply = |results| {
        Message::Reply(Reply {
            view,
            slot: from,
            id,
            results,
        })
    };
    let query = QuestionName {
        boot: Boot(4),
        number: 8,
    };
    let answer = |end| Message::ReadA {
        query,
        view,
        delivered: from,
        end,
    };
    let (stamps_from, first, last_normal) = (Slot(4), Slot(12), View::FIRST);
    vec![
        Message::Marked {
            session,
            number: 300,
            entry: entry.clone(),
        },
        Message::Stamp { session, entry },
        reply(None),
        reply(Some(vec![Bytes::new(), Bytes::from_static(b"result")])),
        Message::Lookup { view, from, until },
        Message::Gap { view, from, until },
        Message::GapA { view, until },
        Message::ViewChangeReq(view),
        Message::ViewChange(ViewChange {
            view,
            last_normal,
            stamps_from,
            first,
            log: log(),
        }),
        Message::StartView(StartView {
            view,
            stamps_from,
            first,
            log: log(),
        }),
        Message::Sync(Sync {
            view,
            from,
            upto,
            noops: vec![Slot(5)],
        }),
        Message::SyncA { view, upto },
        Message::Synced { view, upto },
        Message::Ask(view),
        Message::ReadQ(query),
        answer(None),
        answer(Some(until)),
    ]
}

fn records() -> Vec<Record> {
    let (view, slot) = (VIEW, Slot(5));
    let place = |value| Record::Place { view, slot, value };
    vec![
        place(Some(entry())),
        place(None),
        Record::Again {
            view,
            slot,
            entry: entry(),
        },
        Record::View {
            view,
            last_normal: View::FIRST,
            stamps_from: slot,
        },
        Record::Lost,
    ]
}

#[test]
fn messages_and_records_are_read_back() {
    is_read_back(&messages());
    is_read_back(&records());
}

#[test]
fn every_message_and_record_has_words_of_its_own() {
    let mut said: Vec<String> = messages().iter().map(NoPaxos::describe_message).collect();
    said.extend(records().iter().map(NoPaxos::describe_record));
    let count = said.len();
    said.sort();
    said.dedup();
    assert_eq!(said.len(), count, "{said:#?}");
}

#[test]
fn unknown_tags_and_numbers_that_nobody_reaches_are_refused() {
    let of = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
    let message = Message::from_bytes(of(&[99]));
    assert_eq!(message, Err(WireError::Tag("nopaxos message", 99)));
    let record = Record::from_bytes(of(&[99]));
    assert_eq!(record, Err(WireError::Tag("nopaxos record", 99)));
    let far = Message::ViewChangeReq(View {
        lead: u64::MAX,
        session: 0,
    });
    assert!(Message::from_bytes(far.to_bytes()).is_err());
}

#[test]
fn parameters_are_read_and_wrong_ones_are_named() {
    let of = |params: &[(&str, &str)]| NoPaxos::config(&seat(5, 1, params));
    let usual = of(&[]).expect("right");
    let (delays, thresholds) = (&usual.delays, usual.thresholds);
    assert_eq!((delays.sync_ns, delays.gap_ns), (MILLIS, 0));
    assert_eq!((thresholds.reply, thresholds.change), (3, 3));
    assert_eq!(usual.leader(View::FIRST), MemberIndex::new(0));
    assert_eq!(usual.sequencer(View::FIRST), MemberIndex::new(1));
    let set = of(&[("gap_us", "100"), ("seq_ms", "7"), ("window", "3")]).expect("right");
    let delays = &set.delays;
    assert_eq!((delays.gap_ns, delays.seq_ns), (100 * MICROS, 7 * MILLIS));
    assert_eq!((set.window, set.slots_max), (3, 14));
    for (name, value) in [
        ("window", "0"),
        ("sync_us", "0"),
        ("gap_us", "-1"),
        ("gaps", "1"),
    ] {
        let wrong = of(&[(name, value)]).expect_err("wrong");
        assert!(wrong.contains(name), "{wrong}");
    }
}
