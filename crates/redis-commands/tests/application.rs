//! The application from outside: what is taken, taken back, and found again in snapshots.

#[path = "../../redis-store/tests/redis/alike.rs"]
mod alike;
#[path = "application/determinism.rs"]
mod determinism;
#[path = "../../redis-store/tests/redis/generate.rs"]
mod generate;
#[allow(dead_code, reason = "the tests of another crate use more of it")]
#[path = "../../redis-store/tests/redis/server.rs"]
mod server;

use bytes::Bytes;
use quorate_core::{Admission, Application, At};
use quorate_redis_commands::{
    Commands, CommandsAnswer, CommandsQuery, Origin, Outcome, Shared, body,
};
use quorate_redis_effects::MemoryFiles;
use quorate_redis_store::{Call, Request, Watched};
use std::sync::Arc;

fn new() -> (Commands, Arc<Shared>) {
    let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
    (Commands::new(Arc::clone(&shared)), shared)
}

fn request(call: &str) -> Request {
    let args = call
        .split(' ')
        .map(|word| Bytes::copy_from_slice(word.as_bytes()));
    Request {
        calls: vec![Call {
            args: args.collect(),
        }],
        ..Request::default()
    }
}

fn bytes(number: u64, call: &str) -> Bytes {
    body(Origin { boot: 1, number }, &request(call))
}

fn watching(number: u64, call: &str, key: &str, version: u64) -> Bytes {
    let request = Request {
        atomic: true,
        watched: vec![Watched {
            db: 0,
            key: Bytes::copy_from_slice(key.as_bytes()),
            version,
        }],
        ..request(call)
    };
    body(Origin { boot: 1, number }, &request)
}

fn apply(app: &mut Commands, body: &Bytes) -> Outcome {
    Outcome::of(&app.apply(At::default(), body, &[])).expect("a result")
}

fn version(app: &Commands, key: &str) -> u64 {
    let keys = vec![Bytes::copy_from_slice(key.as_bytes())];
    match app.query(&CommandsQuery::Versions(keys)) {
        CommandsAnswer::Versions(versions) => versions[0],
        other => panic!("{other:?}"),
    }
}

fn position(app: &Commands) -> (u64, u64) {
    match app.query(&CommandsQuery::Position) {
        CommandsAnswer::Position(len, digest) => (len, digest),
        other => panic!("{other:?}"),
    }
}

fn pieces(app: &mut Commands) -> (Vec<Bytes>, u64) {
    let mut cut = app.cut();
    let digest = app.cut_digest(&cut).expect("it has one");
    let pieces = std::iter::from_fn(|| app.piece(&mut cut, 1000)).collect();
    (pieces, digest)
}

#[test]
fn a_transaction_depends_on_what_it_watches() {
    let (mut app, shared) = new();
    assert_eq!(apply(&mut app, &bytes(1, "set a 1")), Outcome::Taken);
    let seen = version(&app, "a");
    assert_eq!(apply(&mut app, &bytes(2, "set b 1")), Outcome::Taken);
    let swap = watching(3, "set a 2", "a", seen);
    assert_eq!(apply(&mut app, &swap), Outcome::Taken);
    let late = watching(4, "set a 3", "a", seen);
    assert_eq!(apply(&mut app, &late), Outcome::Aborted);
    let seen = version(&app, "a");
    assert_eq!(apply(&mut app, &bytes(5, "flushall")), Outcome::Taken);
    assert_ne!(version(&app, "a"), seen);
    assert_eq!(shared.len(), 4);
    assert_eq!(
        apply(&mut app, &Bytes::from_static(b"x")),
        Outcome::Malformed
    );
}

#[test]
fn where_space_is_short_nothing_grows() {
    let (mut app, shared) = new();
    let at = |admission| At {
        admission,
        ..At::default()
    };
    let mut apply = |admission, call: &str| {
        let result = app.apply(at(admission), &bytes(1, call), &[]);
        Outcome::of(&result)
    };
    assert_eq!(
        apply(Admission::NoGrowth, "set a 1"),
        Some(Outcome::NoSpace)
    );
    assert_eq!(apply(Admission::NoGrowth, "del a"), Some(Outcome::Taken));
    assert_eq!(apply(Admission::Nothing, "del a"), Some(Outcome::Corrupt));
    assert_eq!(shared.len(), 1);
}

#[test]
fn what_is_taken_back_never_was() {
    let (mut app, shared) = new();
    apply(&mut app, &bytes(1, "set a 1"));
    let before = (position(&app), version(&app, "a"), version(&app, "b"));
    app.attempt(At::default(), &bytes(2, "mset a 2 b 2"));
    app.attempt(At::default(), &bytes(3, "flushall"));
    assert_ne!(version(&app, "b"), before.2);
    assert_eq!(shared.len(), 1, "no server has it");
    app.retract();
    app.retract();
    assert_eq!(
        (position(&app), version(&app, "a"), version(&app, "b")),
        before
    );
    app.attempt(At::default(), &bytes(4, "set a 4"));
    app.attempt(At::default(), &bytes(5, "set a 5"));
    app.keep();
    app.retract();
    let kept = shared.from(1, 9).expect("they are there");
    assert_eq!(
        kept.iter()
            .map(|entry| entry.origin.number)
            .collect::<Vec<_>>(),
        [4]
    );
}

#[test]
fn a_snapshot_has_everything_and_damage_is_noticed() {
    let (mut app, _) = new();
    for number in 0..500 {
        apply(
            &mut app,
            &bytes(number, &format!("set key{number} {number}")),
        );
    }
    let (pieces, digest) = pieces(&mut app);
    let (other, shared) = new();
    let mut loaded = other.empty();
    pieces
        .iter()
        .for_each(|piece| loaded.load(piece.clone()).unwrap());
    loaded.loaded().unwrap();
    assert_eq!(shared.len(), 0, "nothing is seen of it yet");
    loaded.installed();
    assert_eq!((shared.len(), shared.installs()), (500, 1));
    assert_eq!(position(&loaded), position(&app));
    assert_eq!(version(&loaded, "key7"), version(&app, "key7"));
    assert_eq!(self::pieces(&mut loaded).1, digest);
    for left_out in 0..pieces.len() {
        let mut damaged = other.empty();
        let mut rest = pieces.iter().enumerate().filter(|(at, _)| *at != left_out);
        let failed = rest.any(|(_, piece)| damaged.load(piece.clone()).is_err());
        let is_versions = pieces[left_out].first() == Some(&2);
        assert!(
            failed || damaged.loaded().is_err() || is_versions,
            "{left_out}"
        );
    }
    for cut_off in [1, 10] {
        let mut damaged = other.empty();
        let head = pieces[0].slice(..pieces[0].len() - cut_off);
        assert!(damaged.load(head).is_err());
    }
}

#[test]
fn replicas_that_saved_at_different_positions_compare_equal() {
    let ([mut one, mut two], [shared, _]) = {
        let [(one, first), (two, second)] = [new(), new()];
        ([one, two], [first, second])
    };
    for number in 0..9 {
        let body = bytes(number, "incr a");
        assert_eq!(apply(&mut one, &body), apply(&mut two, &body));
    }
    let mut base = shared.base();
    (base.position, base.replies) = (5, 77);
    shared.rebase(base.clone());
    assert_eq!((shared.base().position, shared.from(4, 1)), (5, None));
    // An older file, and one from the future, are of no use.
    for position in [4, 10] {
        base.position = position;
        shared.rebase(base.clone());
    }
    assert_eq!(shared.base().position, 5);
    assert_eq!(pieces(&mut one).1, pieces(&mut two).1);
}
