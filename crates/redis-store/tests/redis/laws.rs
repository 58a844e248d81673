//! What must hold whatever is called: equal commands give equal states, snapshots are whole, what is taken back never
//! was, and commands that touch nothing in common commute.

use super::generate;
use super::ours::{at, load, snapshot};
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Application, Wire};
use quorate_redis_store::{Call, Request, Store, find};
use quorate_resp::Resp;

const NOW_MS: u64 = 1_700_000_000_000;

fn content(store: &mut Store) -> Bytes {
    snapshot(store, usize::MAX).concat().into()
}

/// A body of a few random calls, some of them a transaction, some of keys that end soon.
fn body(rng: &mut Rng, templates: &[&'static str]) -> Bytes {
    let mut request = Request {
        resp: if rng.bool() { Resp::Two } else { Resp::Three },
        db: rng.u32(..2),
        atomic: rng.bool(),
        ..Request::default()
    };
    for _ in 0..rng.usize(1..4) {
        let mut args = generate::call(rng, templates);
        if rng.u8(..12) == 0 {
            let key = args.get(1).cloned().unwrap_or_default();
            let time = Bytes::from(rng.u64(1..50).to_string());
            args = vec![Bytes::from_static(b"PEXPIRE"), key, time];
        }
        request.calls.push(Call { args });
    }
    request.to_bytes()
}

/// Scenario: one store applies everything; another is replaced by a loaded snapshot of itself, taken in small pieces
/// while it applies more, and frees what is over at other times.
#[test]
fn equal_commands_give_equal_states_and_replies() {
    let templates = generate::templates();
    for seed in 0..30 {
        equal_for(seed, |rng, _, _| body(rng, &templates), |_, _| ());
    }
}

/// Has two stores apply the same 200 bodies: one of them frees keys at random, the other one is replaced by snapshots
/// of itself at random. Their results, and at the end their contents, have to be equal. `next` makes a body for a store
/// at a time in ms; `applied` hears of each result, and of the store then.
pub(crate) fn equal_for(
    seed: u64,
    mut next: impl FnMut(&mut Rng, &Store, u64) -> Bytes,
    mut applied: impl FnMut(&Bytes, &Store),
) {
    let mut rng = Rng::with_seed(seed);
    let (mut one, mut other) = (Store::new(), Store::new());
    let mut now_ms = NOW_MS;
    for entry in 0..200 {
        now_ms += rng.u64(..8);
        let body = next(&mut rng, &one, now_ms);
        let results =
            [&mut one, &mut other].map(|store| store.apply(at(entry, now_ms), &body, &[]));
        assert_eq!(results[0], results[1], "seed {seed}, entry {entry}");
        while rng.bool() && one.tidy() {}
        if rng.u8(..20) == 0 {
            other = load(&snapshot(&mut other, rng.usize(1..200))).expect("it is whole");
        }
        applied(&results[0], &one);
    }
    assert_eq!(content(&mut one), content(&mut other), "seed {seed}");
}

/// Scenario: a snapshot is taken in pieces of a few bytes while random commands go on.
#[test]
fn a_snapshot_is_of_what_was_before_the_cut() {
    let templates = generate::templates();
    for seed in 0..50 {
        let mut rng = Rng::with_seed(seed);
        let mut store = Store::new();
        let mut entry = 0;
        let mut apply = |store: &mut Store, rng: &mut Rng| {
            entry += 1;
            store.apply(at(entry, NOW_MS + entry), &body(rng, &templates), &[]);
        };
        (0..rng.usize(..100)).for_each(|_| apply(&mut store, &mut rng));
        let before = content(&mut store);
        let (mut cut, mut pieces) = (store.cut(), Vec::new());
        while let Some(piece) = store.piece(&mut cut, 30) {
            pieces.push(piece);
            (0..rng.usize(..3)).for_each(|_| apply(&mut store, &mut rng));
        }
        store.release(cut);
        let mut loaded = load(&pieces).expect("it is whole");
        assert_eq!(content(&mut loaded), before, "seed {seed}");
    }
}

/// Scenario: random commands are attempted; some are kept, the others are taken back.
#[test]
fn what_is_taken_back_never_was() {
    let templates = generate::templates();
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let (mut store, mut plain) = (Store::new(), Store::new());
        let mut entry = 0;
        for _ in 0..20 {
            let mut attempted = Vec::new();
            for _ in 0..rng.usize(1..6) {
                entry += 1;
                let body = body(&mut rng, &templates);
                if !store.is_retractable(&body) {
                    continue;
                }
                let result = store.attempt(at(entry, NOW_MS + entry), &body);
                attempted.push((entry, body, result));
                assert!(!store.tidy(), "nothing is freed that may come back");
            }
            let kept = rng.usize(..=attempted.len());
            for (entry, body, result) in &attempted[..kept] {
                store.keep();
                assert_eq!(plain.apply(at(*entry, NOW_MS + entry), body, &[]), result);
            }
            (kept..attempted.len()).for_each(|_| store.retract());
            // What can only be decided, such as what ends keys.
            entry += 1;
            let body = body(&mut rng, &templates);
            let place = at(entry, NOW_MS + entry);
            assert_eq!(
                store.apply(place, &body, &[]),
                plain.apply(place, &body, &[])
            );
            assert_eq!(content(&mut store), content(&mut plain), "seed {seed}");
        }
    }
}

/// Scenario: commands are applied in two orders that differ in pairs of neighbours which share no bucket.
#[test]
fn commands_that_touch_nothing_in_common_commute() {
    let touches = Store::COMMAND_PROPERTIES
        .touches
        .expect("the store says what commands touch");
    let templates = generate::templates();
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let bodies = (1..60).map(|entry| (entry, body(&mut rng, &templates)));
        let mut order: Vec<(u64, Bytes)> =
            bodies.filter(|(_, body)| touches(body).is_some()).collect();
        let results = |order: &[(u64, Bytes)]| {
            let mut store = Store::new();
            let results = order.iter();
            let mut results: Vec<_> = results
                .map(|(entry, body)| (*entry, store.apply(at(*entry, NOW_MS), body, &[])))
                .collect();
            results.sort();
            (results, content(&mut store))
        };
        let expected = results(&order);
        let mut swaps = 0;
        for _ in 0..300 {
            let first = rng.usize(..order.len() - 1);
            let [one, two] = [first, first + 1].map(|at| touches(&order[at].1).unwrap());
            if one.iter().all(|bucket| !two.contains(bucket)) {
                order.swap(first, first + 1);
                swaps += 1;
            }
        }
        assert!(swaps > 0);
        assert_eq!(results(&order), expected, "seed {seed}");
    }
}

/// Scenario: large values of all kinds are deleted, written over and flushed, while others stay.
#[test]
fn what_is_large_is_freed_in_steps() {
    const ELEMENTS: usize = 20_000;
    let mut store = Store::new();
    let entry = std::cell::Cell::new(0);
    let call = |store: &mut Store, words: &[&str]| {
        entry.set(entry.get() + 1);
        let args = words
            .iter()
            .map(|word| Bytes::copy_from_slice(word.as_bytes()));
        let request = Request {
            calls: vec![Call {
                args: args.collect(),
            }],
            ..Request::default()
        };
        store.apply(at(entry.get(), NOW_MS), &request.to_bytes(), &[])
    };
    let numbers: Vec<String> = (0..ELEMENTS).map(|number| number.to_string()).collect();
    let pairs = || {
        numbers
            .iter()
            .flat_map(|number| [number.as_str(), number.as_str()])
    };
    let fill = |store: &mut Store| {
        let numbers = numbers.iter().map(String::as_str);
        let words = |begin: [&'static str; 2]| begin.into_iter();
        call(
            store,
            &words(["rpush", "l"])
                .chain(numbers.clone())
                .collect::<Vec<_>>(),
        );
        call(
            store,
            &words(["sadd", "t"]).chain(numbers).collect::<Vec<_>>(),
        );
        call(
            store,
            &words(["hset", "h"]).chain(pairs()).collect::<Vec<_>>(),
        );
        call(
            store,
            &words(["zadd", "z"]).chain(pairs()).collect::<Vec<_>>(),
        );
    };
    fill(&mut store);
    let steps = |store: &mut Store| std::iter::from_fn(|| store.tidy().then_some(())).count();
    assert_eq!(steps(&mut store), 0, "nothing is thrown away");
    call(&mut store, &["del", "l", "t"]);
    call(&mut store, &["set", "h", "short"]);
    let freed = steps(&mut store);
    assert!(freed > 3 * ELEMENTS / 400, "{freed} steps");
    assert_eq!(
        call(&mut store, &["zcard", "z"]),
        format!(":{ELEMENTS}\r\n")
    );
    fill(&mut store);
    steps(&mut store);
    call(&mut store, &["flushall"]);
    let freed = steps(&mut store);
    assert!(freed > 4 * ELEMENTS / 400, "{freed} steps");
    assert_eq!(call(&mut store, &["dbsize"]), ":0\r\n");
}

#[test]
fn damaged_snapshots_are_refused_without_a_panic() {
    let templates = generate::templates();
    let mut rng = Rng::with_seed(1);
    let mut store = Store::new();
    for entry in 0..80 {
        store.apply(at(entry, NOW_MS), &body(&mut rng, &templates), &[]);
    }
    let whole = content(&mut store);
    assert!(load(std::slice::from_ref(&whole)).is_ok());
    for len in 0..whole.len() {
        assert!(
            load(&[whole.slice(..len)]).is_err(),
            "its first {len} bytes"
        );
    }
    for _ in 0..2000 {
        let mut bytes = whole.to_vec();
        let at = rng.usize(..bytes.len());
        bytes[at] = rng.u8(..);
        let bytes = Bytes::from(bytes);
        // Some changes make another snapshot that is well formed: then it is what it says.
        if let Ok(mut loaded) = load(&[bytes]) {
            let bytes = content(&mut loaded);
            let mut again = load(std::slice::from_ref(&bytes)).expect("it is a snapshot");
            assert_eq!(content(&mut again), bytes);
        }
    }
    assert!(load(&[whole.clone(), whole]).is_err(), "twice");
}

#[test]
fn what_is_no_body_comes_to_nothing() {
    let mut store = Store::new();
    let before = content(&mut store);
    for body in [
        &b""[..],
        b"\x01",
        b"\x02\x00\x00\x00\x00",
        b"\x01\x00\x00\x00\x01\x00",
    ] {
        assert_eq!(store.apply(at(1, 0), &Bytes::from_static(body), &[]), "");
    }
    assert_eq!(content(&mut store), before);
}

/// Scenario: every command of the table is called with every number of arguments up to twelve, on keys of all types.
#[test]
fn every_command_bears_any_number_of_arguments() {
    let mut rng = Rng::with_seed(3);
    let templates = generate::templates();
    let mut store = Store::new();
    for entry in 0..60 {
        store.apply(at(entry, NOW_MS), &body(&mut rng, &templates), &[]);
    }
    let words = [
        "s0", "l0", "h0", "t0", "z0", "1", "2", "-1", "GET", "BYSCORE", "", "LIMIT", "*",
    ];
    let mut entry = 100;
    for command in quorate_redis_store::commands() {
        for count in 0..12 {
            for _ in 0..20 {
                let mut args = vec![Bytes::from_static(command.name.as_bytes())];
                args.extend(
                    (0..count)
                        .map(|_| Bytes::from_static(words[rng.usize(..words.len())].as_bytes())),
                );
                let fits = command.check_arity(args.len());
                let is_found = find(&args[0]).is_some();
                let request = Request {
                    calls: vec![Call { args }],
                    ..Request::default()
                };
                entry += 1;
                let reply = store.apply(at(entry, NOW_MS), &request.to_bytes(), &[]);
                assert!(is_found && !reply.is_empty());
                let is_arity = reply.starts_with(b"-ERR wrong number of arguments");
                assert!(fits || is_arity, "{request:?}: {reply:?}");
            }
        }
    }
}
