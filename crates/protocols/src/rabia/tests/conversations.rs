//! Conversations with one replica: what it is told, and everything it does in reply.

use super::cluster::{command, config, id, query};
use crate::rabia::{
    Bits, Config, DecidedSet, Message, Nulls, Record, Replica, SlotMessage, Timer, Trail, Value,
};
use quorate_core::{
    Boot, Class, Entry, EntryBuilder, EntryId, EntrySet, Event, Input, Introspect, Lsn, MILLIS,
    Machine, Now, Out, Output, Past, Slot, Wire,
};

struct Talk {
    replica: Replica,
    out: Out<Replica>,
}

const NOW: Now = Now {
    mono_ns: 0,
    clock_ns: 1_000_000_000,
    clock_error_ns: 0,
};

fn batch_id(origin: usize, seq: u64) -> EntryId {
    EntryId {
        origin: id(origin),
        boot: Boot(origin as u64 + 1),
        seq,
    }
}

fn batch(origin: usize, seq: u64) -> Entry {
    let mut builder = EntryBuilder::default();
    builder.push(&command(seq, Class::Write));
    builder.finish(batch_id(origin, seq), 1_000_000 * seq)
}

fn offer(origin: usize, seq: u64) -> Message {
    Message::Batch {
        entry: batch(origin, seq),
    }
}

fn slot(slot: u64, prop: Option<EntryId>, trail: &[Value], q: Option<EntryId>) -> SlotMessage {
    let mut said = Trail::default();
    trail.iter().for_each(|value| said.push(*value));
    SlotMessage {
        slot: Slot(slot),
        prop,
        trail: said,
        q,
        want: false,
        more: false,
    }
}

fn nulls(offsets: &[usize]) -> Nulls {
    let mut bits = Bits::default();
    offsets.iter().for_each(|offset| bits.insert(*offset));
    assert_eq!(bits.iter().collect::<Vec<_>>(), offsets);
    Nulls {
        base: Slot(5),
        bits,
        want: true,
        more: false,
    }
}

impl Talk {
    fn new(config: &Config) -> Talk {
        let mut out = Out::default();
        let replica = Replica::recover(config, Past::Fresh, NOW, &mut out);
        Talk { replica, out }
    }

    fn tell(&mut self, input: Input<Replica>) -> Vec<String> {
        self.replica.step(NOW, input, &mut self.out);
        self.replica.check();
        self.out.drain().map(|output| line(&output)).collect()
    }

    fn hear(&mut self, from: usize, message: Message) -> Vec<String> {
        self.tell(Input::Message {
            from: id(from),
            message,
        })
    }
}

/// One output in a few words.
fn line(output: &Output<Replica>) -> String {
    match output {
        Output::Send { to, message, after } => {
            format!("to {to:?} after {after:?}: {}", said(message))
        }
        Output::Persist { lsn, record } => match record {
            Record::Batch { entry } => format!("{lsn:?}: batch {:?}", entry.id),
            Record::Own {
                slot,
                prop,
                trail,
                q,
            } => {
                format!("{lsn:?}: {slot:?} {prop:?} {trail:?} q={q:?}")
            }
            Record::Reserve { until } => format!("{lsn:?}: reserve {until:?}"),
            Record::Floor { slot } => format!("{lsn:?}: floor {slot:?}"),
        },
        Output::Arm { timer, .. } => format!("arm {timer:?}"),
        Output::Disarm(timer) => format!("disarm {timer:?}"),
        Output::Deliver { slot, entry } => format!("deliver {slot:?} {entry:?}"),
        Output::Emit(Event::Decided {
            slot, fast, noop, ..
        }) => {
            format!("decided {slot:?} fast={fast} noop={noop}")
        }
        Output::Emit(Event::Misbehaved { peer, what }) => format!("{peer:?}: {what}"),
        other => format!("{other:?}"),
    }
}

fn said(message: &Message) -> String {
    match message {
        Message::Batch { entry } => format!("batch {:?}", entry.id),
        Message::Slot(m) => {
            let want = if m.want { " want" } else { "" };
            format!("{:?} {:?} {:?} q={:?}{want}", m.slot, m.prop, m.trail, m.q)
        }
        other => format!("{other:?}"),
    }
}

#[test]
fn an_origin_offers_writes_proposes_and_delivers() {
    let mut talk = Talk::new(&config(3, 0, &[]));
    assert_eq!(
        talk.tell(Input::Submit(vec![command(1, Class::Write)])),
        [
            "to All after l0: batch e1.1.1",
            "l1: batch e1.1.1",
            "l2: s0 Some(e1.1.1) [] q=None",
            "to All after l2: s0 Some(e1.1.1) [] q=None",
            "arm Retransmit",
        ]
    );
    let mine = Some(batch_id(0, 1));
    // T is reached, but a third equal proposal would save the vote.
    assert_eq!(
        talk.hear(1, Message::Slot(slot(0, mine, &[], None))),
        ["arm Hold(s0)"]
    );
    // All three are equal, but the own one is not durable.
    assert_eq!(
        talk.hear(2, Message::Slot(slot(0, mine, &[], None))),
        [""; 0]
    );
    assert_eq!(talk.tell(Input::Durable(Lsn(1))), [""; 0]);
    assert_eq!(
        talk.tell(Input::Durable(Lsn(2))),
        [
            "disarm Hold(s0)",
            "decided s0 fast=true noop=false",
            "deliver s0 Some(e1.1.1[1 cmds, 18 B])",
        ]
    );
}

#[test]
fn a_peer_writes_batch_and_proposal_in_one_flush_and_votes_when_the_hold_ends() {
    let mut talk = Talk::new(&config(3, 1, &[]));
    assert_eq!(
        talk.hear(0, offer(0, 1)),
        [
            "l1: batch e1.1.1",
            "l2: s0 Some(e1.1.1) [] q=None",
            "to All after l2: s0 Some(e1.1.1) [] q=None",
            "arm Retransmit",
        ]
    );
    let theirs = Some(batch_id(0, 1));
    assert_eq!(
        talk.hear(0, Message::Slot(slot(0, theirs, &[], None))),
        ["arm Hold(s0)"]
    );
    assert_eq!(
        talk.tell(Input::Timer(Timer::Hold(Slot(0)))),
        [
            "Emit(Branch(\"vote hold expired\"))",
            "l3: s0 Some(e1.1.1) [V0=1] q=Some(e1.1.1)",
            "to All after l3: s0 Some(e1.1.1) [V0=1] q=Some(e1.1.1)",
        ]
    );
    // The other's vote makes two, but the own one is not durable.
    let vote = Message::Slot(slot(0, theirs, &[Value::One], theirs));
    assert_eq!(talk.hear(0, vote), [""; 0]);
    assert_eq!(talk.tell(Input::Durable(Lsn(2))), [""; 0]);
    assert_eq!(
        talk.tell(Input::Durable(Lsn(3))),
        [
            "decided s0 fast=true noop=false",
            "deliver s0 Some(e1.1.1[1 cmds, 18 B])"
        ]
    );
}

/// D9: a value counts once however often it comes.
#[test]
fn duplicates_and_stale_copies_change_nothing() {
    let mut talk = Talk::new(&config(5, 0, &[("vote_hold_us", "0")]));
    talk.tell(Input::Submit(vec![command(1, Class::Write)]));
    let mine = Some(batch_id(0, 1));
    let vote = Message::Slot(slot(0, mine, &[Value::One], mine));
    assert_eq!(talk.hear(1, vote.clone()), [""; 0]);
    for _ in 0..3 {
        assert_eq!(talk.hear(1, vote.clone()), [""; 0]);
        assert_eq!(
            talk.hear(1, Message::Slot(slot(0, mine, &[], None))),
            [""; 0]
        );
    }
}

#[test]
fn whoever_wants_an_answer_gets_one() {
    let mut talk = Talk::new(&config(3, 0, &[]));
    talk.tell(Input::Submit(vec![command(1, Class::Write)]));
    let mine = Some(batch_id(0, 1));
    let mut asks = slot(0, None, &[], None);
    asks.want = true;
    assert_eq!(
        talk.hear(1, Message::Slot(asks)),
        [
            "to One(r2) after l2: s0 Some(e1.1.1) [] q=None",
            "arm Hold(s0)"
        ]
    );
    talk.tell(Input::Installed {
        next: Slot(1),
        base: DecidedSet::default(),
    });
    assert_eq!(
        talk.hear(1, Message::Slot(asks)),
        ["Inform { peer: r2, from: s0 }"]
    );
    let silent = Message::Slot(slot(0, mine, &[], None));
    assert_eq!(talk.hear(1, silent), [""; 0]);
}

#[test]
fn peers_that_break_the_protocol_are_counted_and_ignored() {
    let mut talk = Talk::new(&config(3, 0, &[]));
    let a = Some(batch_id(1, 1));
    let b = Some(batch_id(1, 2));
    talk.hear(1, offer(1, 1));
    talk.hear(1, Message::Slot(slot(0, a, &[Value::Unsure], None)));
    let before = format!("{:?}", talk.replica);
    let offences = [
        (
            slot(0, b, &[Value::Unsure], None),
            "r2: two proposals in one slot",
        ),
        (
            slot(0, a, &[Value::Zero], None),
            "r2: two values for one step",
        ),
        (
            slot(0, a, &[Value::One], None),
            "r2: a 1 without its request",
        ),
        (
            slot(0, a, &[Value::Unsure, Value::Unsure], None),
            "r2: a State that is neither 0 nor 1",
        ),
    ];
    for (message, offence) in offences {
        assert_eq!(talk.hear(1, Message::Slot(message)), [offence]);
    }
    assert_eq!(
        talk.hear(8, offer(1, 3)),
        ["r9: a message from no other member"]
    );
    assert_eq!(
        talk.hear(0, offer(1, 3)),
        ["r1: a message from no other member"]
    );
    assert_eq!(talk.hear(1, offer(8, 1)), ["r2: a batch of no member"]);
    assert_eq!(talk.hear(1, offer(0, 9)), ["r2: a batch I never formed"]);
    assert_eq!(format!("{:?}", talk.replica), before);
    let far = Message::Slot(slot(u64::MAX, a, &[], None));
    assert_eq!(talk.hear(1, far), ["arm CatchUp"]);
}

#[test]
fn an_origin_that_floods_gets_its_share_of_the_pool_and_no_more() {
    let mut config = config(3, 0, &[("window", "1")]);
    config.pool_entries_max = 2;
    let mut talk = Talk::new(&config);
    talk.hear(1, offer(1, 1));
    assert_eq!(talk.hear(1, offer(1, 2)).len(), 1, "held and acknowledged");
    assert_eq!(
        talk.hear(1, offer(1, 3)),
        ["Emit(Branch(\"pool share full\"))"]
    );
    // What a slot names is taken all the same.
    let named = Message::Slot(slot(0, Some(batch_id(1, 4)), &[], None));
    assert!(talk.hear(1, named)[0].contains("need sent"));
    talk.hear(1, offer(1, 4));
    assert!(talk.replica.holds(batch_id(1, 4)));
}

#[test]
fn more_than_the_queue_holds_is_refused() {
    let mut talk = Talk::new(&config(3, 0, &[("queue", "3"), ("outstanding", "1")]));
    talk.tell(Input::Submit(vec![command(1, Class::Write)]));
    assert_eq!(talk.replica.room(), 3);
    let lines = talk.tell(Input::Submit(
        (2..7).map(|seq| command(seq, Class::Write)).collect(),
    ));
    assert_eq!(talk.replica.room(), 0);
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| line.contains("Overloaded")),
        "{lines:?}"
    );
}

#[test]
fn what_the_host_installed_answers_the_reads_it_covers() {
    let mut talk = Talk::new(&config(3, 0, &[("reads", "log")]));
    talk.tell(Input::Submit(vec![command(1, Class::Read)]));
    let mut done = EntrySet::default();
    done.insert(batch_id(0, 1));
    let lines = talk.tell(Input::Installed {
        next: Slot(7),
        base: DecidedSet { entries: done },
    });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("ReadAt(s7)"), "{lines:?}");
}

/// Reads that come while a query is under way share the next one; what answers another query, or
/// one of a former life, is no answer; a member counts once.
#[test]
fn a_query_serves_all_reads_that_waited_for_it_and_only_its_own_answers_count() {
    let mut talk = Talk::new(&config(5, 0, &[]));
    let read = |seq| command(seq, Class::Read);
    let asked = "to All after l0: ReadQ(QuestionName { boot: b1, number: 1 })";
    assert_eq!(
        talk.tell(Input::Submit(vec![read(1), read(2)])),
        [asked, "arm Retransmit"]
    );
    assert_eq!(talk.tell(Input::Submit(vec![read(3)])), [""; 0]);
    let answer = |boot, number, mark| Message::ReadA {
        query: query(boot, number),
        mark: Slot(mark),
    };
    assert_eq!(talk.hear(1, answer(9, 1, 50)), [""; 0]);
    assert_eq!(talk.hear(1, answer(1, 2, 50)), [""; 0]);
    assert_eq!(talk.hear(1, answer(1, 1, 4)), [""; 0]);
    assert_eq!(talk.hear(1, answer(1, 1, 4)), [""; 0]);
    let lines = talk.hear(2, answer(1, 1, 3));
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines[0].contains("seq: 1") && lines[0].contains("ReadAt(s4)"));
    assert!(lines[1].contains("seq: 2") && lines[1].contains("ReadAt(s4)"));
    let asked = "to All after l0: ReadQ(QuestionName { boot: b1, number: 2 })";
    assert_eq!(lines[2], asked);
}

#[test]
fn a_mark_counts_what_is_proposed_and_what_is_known_to_be_decided() {
    let mut talk = Talk::new(&config(3, 0, &[]));
    let mark = |talk: &mut Talk| talk.hear(1, Message::ReadQ(query(2, 1))).remove(0);
    assert!(mark(&mut talk).ends_with("mark: s0 }"));
    talk.hear(1, Message::Slot(slot(0, None, &[], None)));
    assert!(mark(&mut talk).ends_with("mark: s0 }"), "NULL is no write");
    talk.tell(Input::Submit(vec![command(1, Class::Write)]));
    assert!(mark(&mut talk).ends_with("mark: s2 }"), "not durable yet");
    let value = Some(batch_id(1, 4));
    talk.hear(
        1,
        Message::Decided {
            slot: Slot(4),
            value,
        },
    );
    assert!(mark(&mut talk).ends_with("mark: s5 }"));
    let (next, base) = (Slot(9), DecidedSet::default());
    talk.tell(Input::Installed { next, base });
    assert!(
        mark(&mut talk).ends_with("mark: s10 }"),
        "the write goes there"
    );
}

/// The first answer of a member counts, and no other; a floor is a window above the highest.
#[test]
fn a_floor_is_a_window_above_what_a_majority_of_others_have_started() {
    let mut out = Out::default();
    let past = Past::Lost {
        next: Slot(0),
        base: DecidedSet::default(),
    };
    let replica = Replica::recover(&config(5, 0, &[]), past, NOW, &mut out);
    let lines = out.drain().map(|output| line(&output)).collect::<Vec<_>>();
    assert_eq!(
        lines,
        [
            "l1: floor None",
            "to All after l1: Recover { boot: b1, from: s0 }",
            "arm Retransmit"
        ]
    );
    let mut talk = Talk { replica, out };
    let answer = |boot, started| Message::RecoverA {
        boot: Boot(boot),
        started: Slot(started),
    };
    assert_eq!(talk.hear(1, answer(9, 700)), [""; 0], "of a former life");
    assert_eq!(talk.hear(1, answer(1, 10)), [""; 0]);
    assert_eq!(talk.hear(1, answer(1, 90)), [""; 0]);
    assert_eq!(talk.hear(2, answer(1, 30)), [""; 0]);
    assert_eq!(
        talk.hear(3, answer(1, 20)),
        ["to All after l1: Nudge { until: s32, from: s0 }"]
    );
    assert_eq!(talk.hear(1, Message::ReadQ(query(2, 1))), [""; 0]);
    let from = Slot(0);
    assert_eq!(
        talk.hear(
            1,
            Message::Recover {
                boot: Boot(2),
                from
            }
        ),
        [""; 0]
    );
    talk.tell(Input::Durable(Lsn(1)));
    let base = DecidedSet::default();
    let next = Slot(31);
    talk.tell(Input::Installed { next, base });
    assert!(!talk.replica.is_serving());
    let (next, base) = (Slot(32), DecidedSet::default());
    assert_eq!(
        talk.tell(Input::Installed { next, base }),
        ["l2: floor Some(s32)"]
    );
    assert!(!talk.replica.is_serving(), "not durable yet");
    assert_eq!(
        talk.tell(Input::Durable(Lsn(2))),
        ["Emit(Branch(\"rejoined\"))"]
    );
    assert!(talk.replica.is_serving());
}

#[test]
fn equal_replicas_have_equal_fingerprints_and_what_they_hear_shows() {
    use std::hash::Hasher;
    let print = |replica: &Replica| {
        let mut hasher = std::hash::DefaultHasher::new();
        replica.fingerprint(&mut hasher);
        hasher.finish()
    };
    let mut talk = Talk::new(&config(3, 0, &[]));
    let mut prints = vec![print(&talk.replica)];
    talk.tell(Input::Submit(vec![command(1, Class::Write)]));
    prints.push(print(&talk.replica));
    talk.hear(1, Message::Slot(slot(0, None, &[], None)));
    prints.push(print(&talk.replica));
    talk.tell(Input::Durable(Lsn(2)));
    prints.push(print(&talk.replica));
    assert_eq!(print(&talk.replica.clone()), prints[3]);
    prints.sort_unstable();
    prints.dedup();
    assert_eq!(prints.len(), 4);
}

#[test]
fn messages_and_records_round_trip_and_garbage_is_an_error() {
    let a = Some(batch_id(1, 1));
    let messages = [
        offer(2, 5),
        Message::Need {
            from: Slot(3),
            ids: vec![batch_id(0, 1), batch_id(2, 9)],
        },
        Message::Have { ids: vec![] },
        Message::Slot(slot(9, a, &[Value::One, Value::Zero], a)),
        Message::Decided {
            slot: Slot(4),
            value: None,
        },
        Message::Nulls(nulls(&[0, 63, 64, 200])),
        Message::Nulls(nulls(&[])),
        Message::Recover {
            boot: Boot(7),
            from: Slot(2),
        },
        Message::RecoverA {
            boot: Boot(7),
            started: Slot(300),
        },
        Message::Nudge {
            until: Slot(300),
            from: Slot(2),
        },
        Message::ReadQ(query(7, 300)),
        Message::ReadA {
            query: query(7, 300),
            mark: Slot(11),
        },
    ];
    for message in messages {
        let bytes = message.to_bytes();
        assert_eq!(Message::from_bytes(bytes.clone()), Ok(message));
        for len in 0..bytes.len() {
            assert!(Message::from_bytes(bytes.slice(..len)).is_err());
        }
    }
    let trail = slot(0, a, &[Value::Unsure], None).trail;
    let records = [
        Record::Batch { entry: batch(1, 1) },
        Record::Own {
            slot: Slot(1),
            prop: a,
            trail,
            q: None,
        },
        Record::Reserve { until: Slot(70) },
        Record::Floor { slot: None },
        Record::Floor {
            slot: Some(Slot(8)),
        },
    ];
    for record in records {
        assert_eq!(Record::from_bytes(record.to_bytes()), Ok(record));
    }
}

#[test]
fn parameters_are_checked_and_unknown_ones_named() {
    use super::cluster::seat;
    use crate::rabia::Rabia;
    use crate::registry::Protocol;
    let error = |params: &[(&str, &str)]| Rabia::config(&seat(3, 0, 1, params)).unwrap_err();
    assert!(error(&[("windw", "4")]).starts_with("unknown parameter windw: rabia knows f, mode"));
    assert_eq!(error(&[("f", "2")]), "f = 2: must be a number from 0 to 1");
    assert_eq!(
        error(&[("window", "x")]),
        "window = x: must be a number from 1 to 256"
    );
    assert_eq!(
        error(&[("echo", "yes")]),
        "echo = yes: must be true or false"
    );
    assert_eq!(
        error(&[("reads", "lease")]),
        "reads = lease: must be quorum or log"
    );
    assert_eq!(
        error(&[("mode", "two")]),
        "mode = two: must be two_step or three_step"
    );
    assert_eq!(
        Rabia::config(&seat(3, 4, 1, &[])).unwrap_err(),
        "replica 5 is not a member"
    );
    let config = config(
        5,
        0,
        &[("f", "1"), ("rtt_us", "100"), ("vote_hold_us", "0")],
    );
    assert_eq!((config.thresholds.f, config.rtx_min_ns), (1, 2 * MILLIS));
}
