//! What is said and written is read back as it was.

use crate::mencius::{Header, Learned, Message, Record, Shown, Skips, Span};
use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use quorate_core::{
    Boot, Entry, EntryBuilder, EntryId, MemberIndex, ReplicaId, Slot, Wire, WireError,
};
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
    Ballot {
        round: 3,
        node: ReplicaId(2),
    }
}

fn header() -> Header {
    Header {
        skips: Skips {
            from: Slot(3),
            below: Slot(12),
            except: vec![Slot(6), Slot(9)],
        },
        delivered: Slot(4),
    }
}

fn learned() -> Learned {
    Learned {
        values: vec![(Slot(1), entry().id)],
        noops: vec![span()],
    }
}

fn span() -> Span {
    Span {
        first: Slot(4),
        last: Slot(10),
    }
}

fn shown(is_decided: bool, value: Option<Entry>) -> Shown {
    Shown {
        span: span(),
        ballot: (!is_decided).then(ballot),
        value,
    }
}

#[test]
fn messages_are_read_back() {
    let (lane, query) = (
        MemberIndex::new(2),
        QuestionName {
            boot: Boot(4),
            number: 8,
        },
    );
    let (slot, ballot, entry, header) = (Slot(5), ballot(), entry(), header());
    is_read_back(&[
        Message::Suggest {
            slot,
            ballot,
            entry: entry.clone(),
            learned: learned(),
            header: header.clone(),
        },
        Message::Noops {
            span: span(),
            ballot,
            header: header.clone(),
        },
        Message::Accept {
            ballot,
            spans: vec![span(), span()],
            header: header.clone(),
        },
        Message::Skip {
            header: header.clone(),
        },
        Message::Learn {
            learned: learned(),
            header,
        },
        Message::Decided {
            slot,
            entry: entry.clone(),
        },
    ]);
    is_read_back(&[
        Message::Prepare {
            lane,
            ballot,
            from: slot,
        },
        Message::Promise {
            lane,
            ballot,
            shown: vec![shown(true, None), shown(false, Some(entry))],
            delivered: slot,
        },
        Message::Nack {
            lane,
            promised: ballot,
            delivered: slot,
        },
        Message::Ask {
            next: slot,
            until: Slot(7),
        },
        Message::ReadQ(query),
        Message::ReadA { query, mark: slot },
    ]);
}

#[test]
fn records_are_read_back() {
    let (lane, ballot) = (MemberIndex::new(2), ballot());
    is_read_back(&[
        Record::Accept {
            slot: Slot(5),
            ballot,
            entry: entry(),
        },
        Record::Noops {
            span: span(),
            ballot,
        },
        Record::Promise { lane, ballot },
        Record::Reserve { until: Slot(99) },
        Record::Lost,
    ]);
}

#[test]
fn unknown_tags_are_refused() {
    let of = |bytes: &'static [u8]| bytes::Bytes::from_static(bytes);
    let message = Message::from_bytes(of(&[99]));
    assert_eq!(message, Err(WireError::Tag("mencius message", 99)));
    let record = Record::from_bytes(of(&[99]));
    assert_eq!(record, Err(WireError::Tag("mencius record", 99)));
}
