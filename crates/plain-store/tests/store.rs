//! What the store does, and that it can be undone, cut in two, and done in another order.

use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Admission, Application, At, Wire};
use quorate_plain_store::{Item, Outcome, Query, QueryAnswer, Refused, Store, Version, Write};

fn at(entry: u64) -> At {
    let mut at = At::default();
    at.payload.entry.seq = entry;
    at
}

fn key(number: u8) -> Bytes {
    Bytes::from(format!("key-{number}"))
}

fn apply(store: &mut Store, entry: u64, write: &Write) -> Outcome {
    let result = store.apply(at(entry), &write.to_bytes(), &[]);
    Outcome::decode(&result).expect("it is a command")
}

fn get(store: &Store, number: u8) -> Option<Item> {
    match store.query(&Query::Get(vec![key(number)])) {
        QueryAnswer::Got(mut items) => items.remove(0),
        other => panic!("a read gave {other:?}"),
    }
}

/// The whole store, in one piece.
fn content(store: &mut Store) -> Bytes {
    let mut cut = store.cut();
    let piece = store.piece(&mut cut, usize::MAX);
    assert_eq!(store.piece(&mut cut, usize::MAX), None);
    store.release(cut);
    piece.expect("a head at least")
}

fn done(outcome: Outcome) -> Vec<Option<Version>> {
    match outcome {
        Outcome::Done(versions) => versions,
        Outcome::Unmet(versions) => panic!("its keys are at {versions:?}"),
    }
}

/// A random write of one to three keys, on conditions that hold about half the time.
fn random_write(rng: &mut Rng, store: &Store) -> Write {
    let mut write = Write::default();
    for _ in 0..rng.usize(..2) {
        let number = rng.u8(..6);
        let held = get(store, number).map(|item| item.version);
        let wrong = Some(Version(rng.u64(1..9)));
        write = write.given(key(number), if rng.bool() { held } else { wrong });
    }
    for _ in 0..rng.usize(1..=3) {
        let number = rng.u8(..6);
        write = match rng.u8(..4) {
            0 => write.and_delete(key(number)),
            _ => write.and_put(key(number), Bytes::from(vec![b'v'; rng.usize(..40)])),
        };
    }
    write
}

#[test]
fn versions_count_the_writes_of_a_key_and_name_no_two_values() {
    let mut store = Store::new();
    let put = Write::put(key(1), Bytes::from_static(b"a"));
    let first = done(apply(&mut store, 1, &put))[0].expect("it is stored");
    let second = done(apply(&mut store, 2, &put))[0].expect("it is stored");
    assert_eq!(second.0, first.0 + 1);
    let delete = Write::default().and_delete(key(1));
    assert_eq!(done(apply(&mut store, 3, &delete)), [None]);
    assert_eq!(get(&store, 1), None);
    let again = done(apply(&mut store, 4, &put))[0].expect("it is stored");
    assert!(again != first && again != second, "nothing is forgotten");
}

#[test]
fn all_changes_are_made_or_none() {
    let mut store = Store::new();
    let put = Write::put(key(1), Bytes::from_static(b"a"));
    let version = done(apply(&mut store, 1, &put))[0];
    let both = Write::put(key(1), Bytes::from_static(b"b"))
        .and_put(key(2), Bytes::from_static(b"b"))
        .given(key(1), version)
        .given(key(2), None);
    assert!(matches!(apply(&mut store, 2, &both), Outcome::Done(_)));
    let (one, two) = (get(&store, 1).unwrap(), get(&store, 2).unwrap());
    let before = content(&mut store);
    let unmet = Outcome::Unmet(vec![Some(one.version), Some(two.version)]);
    assert_eq!(apply(&mut store, 3, &both), unmet);
    assert_eq!(content(&mut store), before);
}

#[test]
fn what_is_no_command_is_said_to_be_none_and_does_nothing() {
    let mut store = Store::new();
    let before = content(&mut store);
    for body in [&b""[..], b"\x01", b"\x01\x00\xff", b"\x09\x00\x00"] {
        let result = store.apply(at(1), &Bytes::from_static(body), &[]);
        assert_eq!(
            Outcome::decode(&result),
            Err(Refused::Malformed),
            "{body:?}"
        );
    }
    assert_eq!(content(&mut store), before);
}

/// Scenario: random writes are attempted; some are kept, the others are taken back.
#[test]
fn what_is_taken_back_never_was() {
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let (mut store, mut plain) = (Store::new(), Store::new());
        let mut entry = 0;
        for _ in 0..20 {
            let attempted: Vec<_> = (0..rng.usize(1..6))
                .map(|_| {
                    entry += 1;
                    let body = random_write(&mut rng, &store).to_bytes();
                    let result = store.attempt(at(entry), &body);
                    (entry, body, result)
                })
                .collect();
            let kept = rng.usize(..=attempted.len());
            for (entry, body, result) in &attempted[..kept] {
                store.keep();
                assert_eq!(plain.apply(at(*entry), body, &[]), result);
            }
            (kept..attempted.len()).for_each(|_| store.retract());
            assert_eq!(content(&mut store), content(&mut plain), "seed {seed}");
        }
    }
}

/// Scenario: a snapshot is taken in pieces of a few bytes while random writes go on, some of them only
/// attempted.
#[test]
fn a_snapshot_is_of_what_was_before_the_cut() {
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let mut store = Store::new();
        let mut entry = 0;
        let mut write = |store: &mut Store, rng: &mut Rng| {
            entry += 1;
            let body = random_write(rng, store).to_bytes();
            if rng.u8(..3) == 0 {
                store.attempt(at(entry), &body);
                store.retract();
            } else {
                store.apply(at(entry), &body, &[]);
            }
        };
        (0..rng.usize(..30)).for_each(|_| write(&mut store, &mut rng));
        let before = content(&mut store);
        let (mut cut, mut loaded) = (store.cut(), store.empty());
        while let Some(piece) = store.piece(&mut cut, 30) {
            loaded.load(piece).unwrap();
            (0..rng.usize(..3)).for_each(|_| write(&mut store, &mut rng));
        }
        store.release(cut);
        loaded.loaded().unwrap();
        assert_eq!(content(&mut loaded), before, "seed {seed}");
    }
}

/// Scenario: writes are applied in two orders that differ in pairs of neighbours which share no bucket.
#[test]
fn writes_that_touch_nothing_in_common_commute() {
    let touches = Store::COMMAND_PROPERTIES
        .touches
        .expect("the store says what commands touch");
    for seed in 0..200 {
        let mut rng = Rng::with_seed(seed);
        let none = Store::new();
        let mut order: Vec<(u64, Bytes)> = (1..30)
            .map(|entry| (entry, random_write(&mut rng, &none).to_bytes()))
            .collect();
        let results = |order: &[(u64, Bytes)]| {
            let mut store = Store::new();
            let results = order.iter();
            let mut results: Vec<_> = results
                .map(|(entry, body)| (*entry, store.apply(at(*entry), body, &[])))
                .collect();
            results.sort();
            (results, content(&mut store))
        };
        let expected = results(&order);
        let mut swaps = 0;
        for _ in 0..200 {
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

#[test]
fn damaged_snapshots_are_refused() {
    let mut store = Store::new();
    for number in 0..4 {
        apply(
            &mut store,
            number,
            &Write::put(key(number as u8), Bytes::from_static(b"v")),
        );
    }
    let whole = content(&mut store);
    let load = |bytes: Bytes| {
        let mut store = Store::new();
        store.load(bytes).and_then(|()| store.loaded())
    };
    assert_eq!(load(whole.clone()), Ok(()));
    for len in 0..whole.len() {
        assert!(load(whole.slice(..len)).is_err(), "its first {len} bytes");
    }
    assert!(
        load([&whole[..], &whole[..]].concat().into()).is_err(),
        "twice"
    );
}

#[test]
fn alarms_refuse_what_stores_a_value_or_everything() {
    let mut store = Store::new();
    let deletion = Write::default().and_delete(key(1));
    let both = Write::put(key(1), key(1)).and_delete(key(2));
    let mut apply = |admission, write: &Write| {
        let at = At { admission, ..at(1) };
        Outcome::decode(&store.apply(at, &write.to_bytes(), &[])).map(drop)
    };
    for write in [&deletion, &both] {
        let refused = apply(Admission::Nothing, write);
        assert_eq!(refused, Err(Refused::Corrupt));
    }
    assert_eq!(apply(Admission::NoGrowth, &deletion), Ok(()));
    assert_eq!(apply(Admission::NoGrowth, &both), Err(Refused::NoSpace));
    let grows = Store::COMMAND_PROPERTIES.grows;
    assert!(grows(&both.to_bytes()) && !grows(&deletion.to_bytes()));
    assert_eq!(get(&store, 1), None);
}
