//! What is said and written is read back as it was, and said in words.

use crate::domino::{
    Accept, Accepted, Ask, Beat, Domino, Held, LaneNo, LaneRecord, Learn, Mark, Message, Named,
    Place, Placed, Probe, Promise, Proposal, Record, Round, Shown, Stamp, Step, Vote, Votes, Way,
};
use crate::registry::Protocol;
use crate::shared::ballot::Ballot;
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{Boot, Entry, EntryBuilder, EntryId, ReplicaId, Slot, Wire, WireError};
use std::fmt::Debug;

const LANE: LaneNo = LaneNo(3);
const PROBE: Probe = Probe {
    sent_ns: 5,
    arrived_ns: 7,
};
const MARK: Mark = Mark {
    next: Slot(4),
    walk: Stamp(900),
};

fn entry() -> Entry {
    let id = EntryId {
        origin: ReplicaId(3),
        boot: Boot(2),
        seq: 8,
    };
    EntryBuilder::default().finish(id, 1)
}

fn ballot() -> Ballot {
    Ballot {
        round: 2,
        node: ReplicaId(1),
    }
}

fn named() -> Named {
    Named {
        stamp: Stamp(1_000),
        id: entry().id,
    }
}

fn round() -> Round {
    Round {
        ballot: ballot(),
        nat: Stamp(950),
    }
}

fn step() -> Step {
    Step {
        through: Stamp(980),
        ballot: ballot(),
    }
}

fn beat() -> Beat {
    Beat {
        learned: vec![Learn {
            lane: LANE,
            since: Slot(2),
            from: Stamp(900),
            through: Stamp(1_000),
            named: vec![named()],
        }],
        votes: Some(Votes {
            ballot: ballot(),
            from: Stamp(900),
            nat: Stamp(950),
            named: vec![named()],
        }),
    }
}

fn promise() -> Promise {
    let held = Held {
        ballot: ballot(),
        is_classic: false,
        id: entry().id,
    };
    Promise {
        lane: LANE,
        ballot: ballot(),
        mark: MARK,
        steps: vec![step()],
        round: Some(round()),
        shown: vec![Shown {
            stamp: Stamp(1_000),
            held,
            entry: entry(),
        }],
    }
}

fn said() -> Vec<(Message, &'static str)> {
    let (entry, ballot, stamp) = (entry(), ballot(), Stamp(1_000));
    let query = QuestionName {
        boot: Boot(4),
        number: 8,
    };
    let proposal = Proposal {
        stamp,
        sent_ns: 5,
        entry: entry.clone(),
    };
    let vote = |is_for| Vote {
        ballot,
        named: named(),
        is_for,
        probe: PROBE,
    };
    let accept = Accept {
        lane: LANE,
        ballot,
        since: Slot(1),
        prev: Stamp(900),
        through: stamp,
        sent_ns: 5,
        placed: vec![Placed { stamp, entry }],
    };
    let accepted = Accepted {
        lane: LANE,
        ballot,
        through: stamp,
        probe: PROBE,
    };
    let ask = Ask {
        mark: MARK,
        until: stamp,
    };
    vec![
        (Message::Propose(proposal), "propose t1000 e3.2.8"),
        (Message::Vote(vote(true)), "accepts t1000 e3.2.8 b2.1"),
        (Message::Vote(vote(false)), "rejects t1000 e3.2.8 b2.1"),
        (
            Message::Beat(beat()),
            "beat: lane 4 decided t900 to t1000, t1000 e3.2.8; no accept time t950 b2.1, t1000 e3.2.8",
        ),
        (
            Message::Accept(accept),
            "accept lane 4 t900 to t1000 b2.1, t1000 e3.2.8",
        ),
        (Message::Accepted(accepted), "accepted lane 4 to t1000 b2.1"),
        (Message::Prepare(LANE, ballot), "prepare lane 4 b2.1"),
        (
            Message::Promise(promise()),
            "promise lane 4 b2.1, delivered to s4; t1000 voted e3.2.8 b2.1",
        ),
        (Message::Nack(LANE, ballot), "no: lane 4 b2.1"),
        (Message::Ask(ask), "ask from s4, until t1000"),
        (Message::Mark(MARK), "time of s4: t900"),
        (Message::ReadQ(query), "query 8"),
        (Message::ReadA(query, stamp), "to query 8: t1000"),
    ]
}

fn written() -> Vec<(Record, &'static str)> {
    let place = |is_classic| Place {
        lane: LANE,
        stamp: Stamp(1_000),
        ballot: ballot(),
        is_classic,
    };
    let lane = LaneRecord {
        lane: LANE,
        promised: ballot(),
        steps: vec![step()],
        round: Some(round()),
    };
    vec![
        (
            Record::Entry(entry(), vec![place(true), place(false)]),
            "e3.2.8, accepted lane 4 t1000 b2.1, voted lane 4 t1000 b2.1",
        ),
        (
            Record::Lane(lane),
            "lane 4 promise b2.1, accepted to t980 b2.1",
        ),
        (Record::Reserve(Stamp(7)), "stamps to t7"),
        (Record::Lost, "promises lost"),
    ]
}

fn is_read_back<T: Wire + PartialEq + Debug>(one: &T) {
    let bytes = one.to_bytes();
    assert_eq!(T::from_bytes(bytes.clone()).as_ref(), Ok(one));
    let mut shorter = (0..bytes.len()).map(|len| T::from_bytes(bytes.slice(..len)));
    assert!(shorter.all(|cut| cut.is_err()), "{one:?}");
}

#[test]
fn messages_and_records_are_read_back_and_said_on_one_line() {
    for (message, words) in said() {
        is_read_back(&message);
        assert_eq!(Domino::describe_message(&message), words);
    }
    for (record, words) in written() {
        is_read_back(&record);
        assert_eq!(Domino::describe_record(&record), words);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let read = |bytes: &[u8]| Message::from_bytes(Bytes::copy_from_slice(bytes));
    assert_eq!(read(&[99]), Err(WireError::Tag("domino message", 99)));
    assert_eq!(read(&[5, 65]), Err(WireError::Range("lane")));
    let after_the_last = Ask {
        mark: MARK,
        until: Stamp(Stamp::LAST.0 + 1),
    };
    let refused = read(&Message::Ask(after_the_last).to_bytes());
    assert_eq!(refused, Err(WireError::Range("time")));
    let record = Record::from_bytes(Bytes::from_static(&[99]));
    assert_eq!(record, Err(WireError::Tag("domino record", 99)));
}

#[test]
fn ways_are_told_by_name_and_others_refused() {
    let of = |value| {
        let seat = quorate_testkit::seat(Domino::NAME, 3, 0, 1, &[("way", value)]);
        Domino::config(&seat).map(|config| config.way)
    };
    let ways = ["dfp", "dm", "predict"].map(|value| of(value).unwrap());
    assert_eq!(ways, [Way::Fast, Way::Own, Way::Predicted]);
    assert!(of("fast").unwrap_err().contains("dfp, dm or predict"));
}
