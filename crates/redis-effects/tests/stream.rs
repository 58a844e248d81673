//! The stream as an application: what is accepted, what is void, and snapshots.

use bytes::Bytes;
use quorate_core::{Admission, Application, At, ReplicaId, Wire};
use quorate_redis_effects::{
    Command, Config, Conn, Driver, Flavour, Follows, GENESIS_OFFSET, Import, Input, MemoryFiles,
    Mutant, Outcome, Output, ServerVersion, Shared, Stream, StreamQuery, StreamState,
};
use std::sync::Arc;

const A: ReplicaId = ReplicaId(1);
const B: ReplicaId = ReplicaId(2);

fn stream() -> Stream {
    Stream::new(Shared::new(Arc::new(MemoryFiles), Box::new(|| {})))
}

fn claim_as(over: u64, by: ReplicaId, flavour: Flavour, minor: u16) -> Bytes {
    let version = ServerVersion {
        flavour,
        number: (8, minor, 0),
    };
    let boot = 7;
    let claim = Command::Claim {
        over,
        by,
        boot,
        version,
    };
    claim.to_bytes()
}

fn claim(over: u64, by: ReplicaId) -> Bytes {
    claim_as(over, by, Flavour::Valkey, 1)
}

fn effects(epoch: u64, start: u64, bytes: &'static str, last: bool) -> Bytes {
    let bytes = Bytes::from_static(bytes.as_bytes());
    let piece = Command::Effects {
        epoch,
        start,
        bytes,
        last,
    };
    piece.to_bytes()
}

fn apply(stream: &mut Stream, body: &Bytes) -> Outcome {
    let result = stream.apply(At::default(), body, &[]);
    Outcome::from_bytes(result).expect("an outcome")
}

fn state(stream: &Stream) -> StreamState {
    stream.query(&StreamQuery)
}

fn void(epoch: u64, executor: ReplicaId) -> Outcome {
    let executor = Some(executor);
    Outcome::Void { epoch, executor }
}

const BEGIN: u64 = GENESIS_OFFSET;

/// The deposed executor and the new one hold the same offset: only the epoch tells them apart.
#[test]
fn a_piece_of_another_epoch_is_void_whatever_its_offset() {
    let mut stream = stream();
    let len = BEGIN;
    assert_eq!(
        apply(&mut stream, &claim(0, A)),
        Outcome::Claimed { epoch: 1, len }
    );
    assert_eq!(
        apply(&mut stream, &claim(1, B)),
        Outcome::Claimed { epoch: 2, len }
    );
    let before = state(&stream);
    assert_eq!(
        apply(&mut stream, &effects(1, BEGIN, "of A", true)),
        void(2, B)
    );
    assert_eq!(state(&stream), before);
    let accepted = apply(&mut stream, &effects(2, BEGIN, "of B", true));
    assert_eq!(accepted, Outcome::Accepted { len: BEGIN + 4 });
    assert_eq!(
        apply(&mut stream, &effects(3, BEGIN + 4, "of none", true)),
        void(2, B)
    );
    assert_eq!(
        apply(&mut stream, &claim(1, A)),
        Outcome::Stale {
            epoch: 2,
            executor: Some(B)
        }
    );
}

/// Without the check, what the deposed executor says at the right offset becomes part of the stream.
#[test]
fn an_unchecked_epoch_lets_a_deposed_executor_write() {
    let mutant = Some(Mutant::EpochUnchecked);
    let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
    let mut stream = Stream::broken(shared, mutant);
    for body in [claim(0, A), claim(1, B)] {
        apply(&mut stream, &body);
    }
    let accepted = apply(&mut stream, &effects(1, BEGIN, "of A", true));
    assert_eq!(accepted, Outcome::Accepted { len: BEGIN + 4 });
}

#[test]
fn pieces_that_changed_places_come_to_the_same_stream() {
    let pieces = ["one", "two ", "three", "four"];
    let last = [true, false, true, true];
    let mut bodies = Vec::new();
    let mut start = BEGIN;
    for (text, last) in pieces.into_iter().zip(last) {
        bodies.push(effects(1, start, text, last));
        start += text.len() as u64;
    }
    let orders = [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]];
    let ends = orders.map(|order| {
        let mut stream = stream();
        apply(&mut stream, &claim(0, A));
        for at in order {
            let outcome = apply(&mut stream, &bodies[at]);
            assert!(matches!(outcome, Outcome::Accepted { .. }), "{outcome:?}");
            // Once more, for nobody knew the result.
            apply(&mut stream, &bodies[at]);
        }
        state(&stream)
    });
    assert_eq!(ends[0].len, start);
    assert!(ends.iter().all(|end| *end == ends[0]), "{ends:?}");
}

#[test]
fn what_is_too_far_ahead_is_sent_again() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    let ahead = |at: u64| effects(1, BEGIN + 1 + at, "x", true);
    for at in 0..64 {
        let accepted = Outcome::Accepted { len: BEGIN };
        assert_eq!(apply(&mut stream, &ahead(at)), accepted);
    }
    let beyond = Outcome::Beyond { len: BEGIN };
    assert_eq!(apply(&mut stream, &ahead(64)), beyond);
    let all = Outcome::Accepted { len: BEGIN + 65 };
    assert_eq!(apply(&mut stream, &effects(1, BEGIN, "x", true)), all);
}

#[test]
fn a_claim_drops_a_unit_that_is_not_complete() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    apply(&mut stream, &effects(1, BEGIN, "whole", true));
    apply(&mut stream, &effects(1, BEGIN + 5, "half", false));
    let len = BEGIN + 5;
    assert_eq!(
        apply(&mut stream, &claim(1, B)),
        Outcome::Claimed { epoch: 2, len }
    );
    apply(&mut stream, &effects(2, len, "other", true));
    let mut without = self::stream();
    apply(&mut without, &claim(0, A));
    apply(&mut without, &effects(1, BEGIN, "whole", true));
    apply(&mut without, &claim(1, B));
    apply(&mut without, &effects(2, len, "other", true));
    assert_eq!(state(&stream), state(&without));
}

#[test]
fn older_servers_and_other_families_do_not_execute() {
    let mut stream = stream();
    let of = |over, flavour, minor| claim_as(over, A, flavour, minor);
    apply(&mut stream, &of(0, Flavour::Valkey, 1));
    for claim in [of(1, Flavour::Valkey, 0), of(1, Flavour::Redis, 5)] {
        assert!(matches!(apply(&mut stream, &claim), Outcome::Unfit { .. }));
    }
    let newer = apply(&mut stream, &of(1, Flavour::Valkey, 2));
    assert!(matches!(newer, Outcome::Claimed { epoch: 2, .. }));
}

#[test]
fn attempts_are_taken_back_and_nobody_hears_of_them() {
    let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
    let mut stream = Stream::new(Arc::clone(&shared));
    apply(&mut stream, &claim(0, A));
    let before = (state(&stream), shared.state());
    stream.attempt(At::default(), &effects(1, BEGIN, "one", true));
    stream.attempt(At::default(), &claim(1, B));
    assert_eq!(shared.state(), before.1);
    stream.retract();
    stream.keep();
    let kept = state(&stream);
    assert_eq!((kept.epoch, kept.len), (1, BEGIN + 3));
    assert_eq!(shared.state(), kept);
}

#[test]
fn no_room_and_no_command_change_nothing() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    let before = state(&stream);
    let at = At {
        admission: Admission::NoGrowth,
        ..At::default()
    };
    let refused = stream.apply(at, &effects(1, BEGIN, "x", true), &[]);
    assert_eq!(Outcome::from_bytes(refused), Ok(Outcome::NoSpace));
    for wrong in [
        &b""[..],
        b"\x01",
        b"\xe5",
        b"\xe5\x02\x01\x01\x01\x00",
        b"\xe5\x09",
    ] {
        let outcome = apply(&mut stream, &Bytes::copy_from_slice(wrong));
        assert_eq!(outcome, Outcome::Malformed, "{wrong:?}");
    }
    assert_eq!(state(&stream), before);
}

fn pieces(stream: &mut Stream) -> (Vec<Bytes>, Option<u64>) {
    let mut cut = stream.cut();
    let digest = stream.cut_digest(&cut);
    let pieces = std::iter::from_fn(|| stream.piece(&mut cut, 50)).collect();
    (pieces, digest)
}

#[test]
fn snapshots_carry_everything_and_damaged_ones_are_refused() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    apply(&mut stream, &effects(1, BEGIN, "whole", true));
    apply(&mut stream, &effects(1, BEGIN + 5, "half", false));
    apply(&mut stream, &effects(1, BEGIN + 20, "ahead", true));
    let (snapshot, digest) = pieces(&mut stream);
    let mut copy = self::stream().empty();
    for piece in &snapshot {
        copy.load(piece.clone()).expect("a good piece");
    }
    copy.loaded().expect("a whole snapshot");
    copy.installed();
    assert_eq!(state(&copy), state(&stream));
    assert_eq!(pieces(&mut copy).1, digest);
    for stream in [&mut copy, &mut stream] {
        apply(stream, &effects(1, BEGIN + 9, "second half", true));
    }
    assert_eq!(state(&copy), state(&stream));
    assert_eq!(state(&copy).len, BEGIN + 25);
    for (at, piece) in snapshot.iter().enumerate() {
        for cut in 0..piece.len() {
            let mut copy = self::stream().empty();
            let mut shorter = snapshot.clone();
            shorter[at] = piece.slice(..cut);
            let loaded = shorter.into_iter().try_for_each(|piece| copy.load(piece));
            let whole = loaded.and_then(|()| copy.loaded());
            // Shorter pieces of the unit are told from whole ones by the host's sums.
            assert!(whole.is_err() || piece[0] == 4, "piece {at} cut at {cut}");
        }
    }
}

/// A host that mends its log while it opens reads it twice, each time into an empty application.
#[test]
fn a_log_that_is_read_twice_makes_one_stream() {
    let opened = stream();
    let mut last = opened.empty();
    for _ in 0..2 {
        last = opened.empty();
        apply(&mut last, &claim(0, A));
        apply(&mut last, &effects(1, GENESIS_OFFSET, "abc", true));
        assert_eq!(state(&last).len, GENESIS_OFFSET + 3);
    }
    let mut other = stream().empty();
    apply(&mut other, &claim(0, A));
    apply(&mut other, &effects(1, GENESIS_OFFSET, "abc", true));
    assert_eq!(pieces(&mut last), pieces(&mut other));
}

/// A replica may have applied a claim before its driver begins: clients that come to it are led to the executor.
#[test]
fn a_driver_tells_of_an_executor_that_was_there_before_it() {
    let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
    let mut stream = Stream::new(Arc::clone(&shared));
    let len = BEGIN;
    assert_eq!(
        apply(&mut stream, &claim(0, A)),
        Outcome::Claimed { epoch: 1, len }
    );
    let version = ServerVersion {
        flavour: Flavour::Valkey,
        number: (8, 1, 0),
    };
    let mut driver = Driver::new(Config::new(B, 7, version), shared);
    driver.input(0, Input::Shared);
    let told: Vec<_> = std::iter::from_fn(|| driver.output())
        .filter_map(|output| match output {
            Output::Executor { epoch, executor } => Some((epoch, executor)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [(1, Some(A))]);
}

fn import(over: u64, at: Option<u64>, is_anew: bool) -> Bytes {
    let version = ServerVersion {
        flavour: Flavour::Valkey,
        number: (8, 1, 0),
    };
    let import = Command::Import {
        over,
        at,
        is_anew,
        version,
    };
    import.to_bytes()
}

fn imported(epoch: u64, len: u64) -> Bytes {
    let follows = Follows {
        id: [b'a'; 40],
        source: 1000,
        len,
    };
    Command::Imported { epoch, follows }.to_bytes()
}

fn cutover(epoch: u64, len_min: u64) -> Bytes {
    Command::Cutover { epoch, len_min }.to_bytes()
}

fn is_elsewhere(outcome: Outcome) -> bool {
    matches!(outcome, Outcome::Elsewhere { .. })
}

/// While half of another server's data is here nobody executes, whoever claims; and only what is whole is served.
#[test]
fn another_servers_data_is_served_as_a_whole() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    apply(&mut stream, &effects(1, BEGIN, "old", true));
    let len = BEGIN + 3;
    assert!(is_elsewhere(apply(
        &mut stream,
        &import(1, Some(BEGIN), true)
    )));
    assert!(is_elsewhere(apply(&mut stream, &import(1, None, false))));
    assert!(is_elsewhere(apply(
        &mut stream,
        &import(0, Some(len), true)
    )));
    let begun = apply(&mut stream, &import(1, Some(len), true));
    assert_eq!(begun, Outcome::Claimed { epoch: 2, len });
    let late = apply(&mut stream, &effects(1, len, "of A", true));
    assert!(matches!(
        late,
        Outcome::Void {
            epoch: 2,
            executor: None
        }
    ));
    let claimed = apply(&mut stream, &claim(2, B));
    assert!(matches!(
        claimed,
        Outcome::Stale {
            epoch: 2,
            executor: None
        }
    ));
    apply(&mut stream, &effects(2, len, "half", false));
    assert!(is_elsewhere(apply(&mut stream, &imported(2, len))));
    assert!(is_elsewhere(apply(&mut stream, &cutover(2, 0))));
    apply(&mut stream, &effects(2, len + 4, "half", true));
    let len = len + 8;
    assert_eq!(
        apply(&mut stream, &imported(2, len)),
        Outcome::Accepted { len }
    );
    assert!(is_elsewhere(apply(&mut stream, &cutover(1, len))));
    assert!(is_elsewhere(apply(&mut stream, &cutover(2, len + 1))));
    // Another process goes on: the last one's pieces are void, and what it had in common stays.
    let again = apply(&mut stream, &import(2, Some(len), false));
    assert_eq!(again, Outcome::Claimed { epoch: 3, len });
    let late = apply(&mut stream, &effects(2, len, "late", true));
    assert!(matches!(late, Outcome::Void { .. }));
    apply(&mut stream, &effects(3, len, "more", true));
    let Some(Import::Following(follows)) = state(&stream).import else {
        panic!("{:?}", state(&stream));
    };
    assert_eq!(follows.source_at(len + 4), 1004);
    let over = apply(&mut stream, &cutover(3, follows.len_at(1004)));
    assert_eq!(
        over,
        Outcome::Claimed {
            epoch: 4,
            len: len + 4
        }
    );
    assert_eq!(state(&stream).import, None);
    let claimed = apply(&mut stream, &claim(4, B));
    assert!(matches!(claimed, Outcome::Claimed { epoch: 5, .. }));
}

/// Programs before feature level 6 read what this one writes where no import goes on.
#[test]
fn an_import_is_part_of_snapshots_and_changes_no_others() {
    let mut stream = stream();
    apply(&mut stream, &claim(0, A));
    let (before, _) = pieces(&mut stream);
    assert_eq!(before[0][1], 1, "the first format");
    apply(&mut stream, &import(1, None, true));
    let (loading, _) = pieces(&mut stream);
    apply(&mut stream, &imported(2, BEGIN));
    let (following, digest) = pieces(&mut stream);
    assert_eq!((loading[0][1], following[0][1]), (2, 2));
    assert_ne!(loading[0], following[0]);
    let mut copy = self::stream().empty();
    for piece in following {
        copy.load(piece).expect("a good piece");
    }
    copy.loaded().expect("a whole snapshot");
    copy.installed();
    assert_eq!(state(&copy), state(&stream));
    assert_eq!(pieces(&mut copy).1, digest);
}

/// A client that waits is no reason to execute while another server's data is brought over; the cutover is one.
#[test]
fn nobody_claims_while_another_server_is_followed() {
    let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
    let mut stream = Stream::new(Arc::clone(&shared));
    apply(&mut stream, &import(0, None, true));
    apply(&mut stream, &imported(1, BEGIN));
    let version = ServerVersion {
        flavour: Flavour::Valkey,
        number: (8, 1, 0),
    };
    let mut driver = Driver::new(Config::new(B, 7, version), Arc::clone(&shared));
    driver.input(0, Input::Shared);
    let life = quorate_redis_effects::Life(1);
    driver.input(1, Input::Started { life });
    for conn in [Conn::Control, Conn::Link] {
        driver.input(2, Input::Opened { life, conn });
    }
    let bytes = Bytes::from_static(
        b"*2\r\n$4\r\nAUTH\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$1\r\n2\r\n",
    );
    let conn = Conn::Link;
    driver.input(3, Input::Bytes { life, conn, bytes });
    driver.input(4, Input::Waiting(true));
    driver.input(5, Input::Offered { epoch: 1 });
    driver.input(10_000_000_000, Input::Tick);
    let submitted = std::iter::from_fn(|| driver.output())
        .filter(|output| matches!(output, Output::Submit { .. }))
        .count();
    assert_eq!(submitted, 0);
    apply(&mut stream, &cutover(1, BEGIN));
    driver.input(10_000_000_001, Input::Shared);
    driver.input(20_000_000_000, Input::Tick);
    let submitted = std::iter::from_fn(|| driver.output())
        .filter(|output| matches!(output, Output::Submit { .. }))
        .count();
    assert_ne!(submitted, 0);
}
