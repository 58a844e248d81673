//! The stream as an application: what is accepted, what is void, and snapshots.

use bytes::Bytes;
use quorate_core::{Admission, Application, At, ReplicaId, Wire};
use quorate_redis_effects::{
    Command, Config, Driver, Flavour, GENESIS_OFFSET, Input, MemoryFiles, Outcome, Output,
    ServerVersion, Shared, Stream, StreamQuery, StreamState,
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
