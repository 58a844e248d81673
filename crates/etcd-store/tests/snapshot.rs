//! Snapshots of random stores that go on changing while they are taken.

#[path = "differential/generate.rs"]
#[allow(dead_code)] // the differential test uses the rest
mod generate;

use bytes::Bytes;
use generate::Generator;
use quorate_core::{Application, At, Payload, PayloadId, Wire};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, PutRequest, RangeRequest,
};
use quorate_etcd_store::{
    Events, EventsQuery, Keys, LeaseInfo, Query, QueryAnswer, Store, command,
};

/// A command, where it is applied, and the values that are kept as payloads.
#[derive(Clone)]
struct Step {
    at: At,
    body: Bytes,
    payloads: Vec<Payload>,
}

impl Step {
    fn apply(&self, store: &mut Store) {
        store.apply(self.at, &self.body, &self.payloads);
    }
}

/// A command that may do anything, of which longer values are kept as payloads.
fn random_command(random: &mut Generator, store: &Store) -> Step {
    let (body, payloads) = match random.rng.u8(..2) {
        0 => command::split_put(random.put(), Some(2)),
        _ => command::split_txn(random.txn(2, store.revision()), Some(2)),
    };
    let (body, payloads) = match payloads.is_empty() {
        true => (random_inline_command(random, store), payloads),
        false => (body, payloads),
    };
    let mut at = At::default();
    at.payload.entry.seq = random.rng.u64(..);
    Step { at, body, payloads }
}

fn random_inline_command(random: &mut Generator, store: &Store) -> Bytes {
    let revision = store.revision();
    match random.rng.u8(..16) {
        0..=5 => command::encode_put(&random.put()),
        6 | 7 => command::encode_delete_range(&random.delete()),
        8..=10 => command::encode_txn(&random.txn(2, revision)),
        11 => command::encode_compact(&random.compaction(revision, store.status().compacted)),
        12 => command::encode_lease_revoke(&LeaseRevokeRequest { id: random.lease() }),
        13 => command::encode_lease_renew(&LeaseKeepAliveRequest { id: random.lease() }),
        _ => command::encode_lease_grant(&LeaseGrantRequest {
            id: random.lease(),
            ttl: 60,
        }),
    }
}

/// Applies random commands, freeing memory now and then; notes the commands.
fn go_on(random: &mut Generator, store: &mut Store, count: usize) -> Vec<Step> {
    let mut commands = Vec::new();
    for _ in 0..count {
        let step = random_command(random, store);
        step.apply(store);
        commands.push(step);
        if random.rng.u8(..8) == 0 {
            store.tidy();
        }
    }
    commands
}

/// Replays commands with everything freed as soon as it can be.
fn replay(commands: &[Step]) -> Store {
    let mut twin = Store::new();
    for step in commands {
        step.apply(&mut twin);
        while twin.tidy() {}
    }
    twin
}

fn pieces(store: &mut Store, bytes: usize, mut between: impl FnMut(&mut Store)) -> Vec<Bytes> {
    let mut cut = store.cut();
    let mut pieces = Vec::new();
    while let Some(piece) = store.piece(&mut cut, bytes) {
        if !piece.is_empty() {
            pieces.push(piece);
        }
        between(store);
    }
    pieces
}

fn load(into: &mut Store, pieces: &[Bytes]) -> Result<(), String> {
    for piece in pieces {
        into.load(piece.clone())?;
    }
    into.loaded()
}

fn all() -> (Bytes, Bytes) {
    (Bytes::from_static(b"\0"), Bytes::from_static(b"\0"))
}

fn range_at(store: &Store, revision: i64) -> QueryAnswer {
    let (key, range_end) = all();
    store.query(&Query::Range(RangeRequest {
        key,
        range_end,
        revision,
        ..RangeRequest::default()
    }))
}

/// Everything that happened from a revision on, however many answers that takes.
fn events_from(store: &Store, from: i64) -> Vec<QueryAnswer> {
    let mut answers = Vec::new();
    let mut from = from;
    loop {
        let (key, range_end) = all();
        let keys = Keys::Span { key, range_end };
        let answer = store.query(&Query::Events(EventsQuery { keys, from }));
        let next = match &answer {
            QueryAnswer::Events(Events { next, .. }) => *next,
            _ => i64::MAX,
        };
        answers.push(answer);
        if next > store.revision() {
            return answers;
        }
        from = next;
    }
}

fn leases(store: &Store) -> Vec<(i64, LeaseInfo)> {
    let QueryAnswer::Leases(_, ids) = store.query(&Query::Leases) else {
        panic!("not the answer about leases");
    };
    let lease = |id| match store.query(&Query::Lease { id, keys: true }) {
        QueryAnswer::Lease(info) => (id, info),
        other => panic!("not the answer about a lease: {other:?}"),
    };
    ids.into_iter().map(lease).collect()
}

fn assert_equal(seed: u64, a: &Store, b: &Store) {
    assert_eq!(a.revision(), b.revision(), "seed {seed}");
    for revision in 0..=a.revision() {
        assert_eq!(a.hash(revision), b.hash(revision), "seed {seed}");
        let (found, expected) = (range_at(a, revision), range_at(b, revision));
        assert_eq!(found, expected, "seed {seed}");
        let (found, expected) = (events_from(a, revision), events_from(b, revision));
        assert_eq!(found, expected, "seed {seed}: from {revision}");
    }
    assert_eq!(leases(a), leases(b), "seed {seed}");
}

/// Once everything is freed that can be, figures and payloads are equal, too.
fn assert_equal_figures(seed: u64, loaded: &mut Store, fork: &mut Store) {
    for store in [&mut *loaded, fork] {
        while store.tidy() {}
    }
    assert_eq!(loaded.status(), fork.status(), "seed {seed}");
    let live = |store: &Store| store.live(None, usize::MAX);
    assert_eq!(live(loaded), live(fork), "seed {seed}");
}

#[test]
fn what_is_loaded_is_what_was_cut_whatever_happened_meanwhile() {
    for seed in 0..300 {
        let mut random = Generator::new(seed);
        let mut store = Store::new();
        let count = random.rng.usize(..200);
        let mut commands = go_on(&mut random, &mut store, count);
        let mut fork = replay(&commands);
        let bytes = random.rng.usize(1..150);

        let taken = pieces(&mut store, bytes, |store| {
            commands.extend(go_on(&mut random, store, 3));
        });
        assert_eq!(taken, pieces(&mut fork, bytes, |_| {}), "seed {seed}");
        let largest = taken.iter().map(Bytes::len).max();
        assert!(largest < Some(2 * bytes + 80), "seed {seed}: {largest:?}");

        let mut loaded = replay(&commands[..count / 2]).empty();
        assert_eq!(load(&mut loaded, &taken), Ok(()), "seed {seed}");
        assert_equal(seed, &loaded, &fork);
        assert_equal_figures(seed, &mut loaded, &mut fork);

        // What was put off while the snapshot was taken is done now.
        assert_equal_figures(seed, &mut store, &mut replay(&commands));

        for step in go_on(&mut random, &mut fork, 50) {
            step.apply(&mut loaded);
        }
        assert_equal(seed, &loaded, &fork);
    }
}

#[test]
fn all_countdowns_of_a_loaded_store_start() {
    let grant = |store: &mut Store, id| {
        let request = LeaseGrantRequest { id, ttl: 60 };
        store.apply(At::default(), &command::encode_lease_grant(&request), &[]);
    };
    let mut behind = Store::new();
    grant(&mut behind, 1);
    let mut ahead = Store::new();
    grant(&mut ahead, 2);
    grant(&mut ahead, 3);
    let expected = ahead.take_countdowns();

    let taken = pieces(&mut ahead, 1, |_| {});
    let mut loaded = behind.empty();
    assert_eq!(load(&mut loaded, &taken), Ok(()));
    assert_eq!(loaded.take_countdowns(), expected);
}

/// Scenario: many keys were deleted and compacted, and are not freed yet.
#[test]
fn keys_that_do_not_count_are_passed_a_few_at_a_time() {
    let mut store = Store::new();
    let mut commands: Vec<_> = (0..10_000)
        .map(|n| {
            command::encode_put(&PutRequest {
                key: format!("k-{n:05}").into(),
                ..PutRequest::default()
            })
        })
        .collect();
    commands.push(command::encode_delete_range(&DeleteRangeRequest {
        key: Bytes::from_static(b"k-00001"),
        range_end: Bytes::from_static(b"k-09999"),
        prev_kv: false,
    }));
    commands.push(command::encode_put(&PutRequest {
        key: Bytes::from_static(b"last"),
        ..PutRequest::default()
    }));
    commands.push(command::encode_compact(&CompactionRequest {
        revision: 10_003,
        physical: false,
    }));
    let inline = |body: Bytes| Step {
        at: At::default(),
        body,
        payloads: Vec::new(),
    };
    let commands: Vec<Step> = commands.into_iter().map(inline).collect();
    commands.iter().for_each(|step| step.apply(&mut store));
    let mut cut = store.cut();
    let all: Vec<_> = std::iter::from_fn(|| store.piece(&mut cut, 1000)).collect();
    let (passing, found): (Vec<_>, Vec<_>) = all.into_iter().partition(Bytes::is_empty);
    assert_eq!(passing.len(), 2);
    assert_eq!(found, pieces(&mut replay(&commands), 1000, |_| {}));
    assert_eq!(load(&mut store.empty(), &found), Ok(()));
}

#[test]
fn a_snapshot_given_up_pins_nothing() {
    let mut random = Generator::new(1);
    let mut store = Store::new();
    let mut commands = go_on(&mut random, &mut store, 100);
    let mut cut = store.cut();
    store.piece(&mut cut, 10);
    commands.extend(go_on(&mut random, &mut store, 100));
    store.release(cut);
    assert_equal_figures(1, &mut store, &mut replay(&commands));
    let taken = pieces(&mut store, 64, |_| {});
    let mut loaded = store.empty();
    assert_eq!(load(&mut loaded, &taken), Ok(()));
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut random = Generator::new(3);
    let mut store = Store::new();
    go_on(&mut random, &mut store, 300);
    let whole = pieces(&mut store, 30, |_| {});
    assert!(whole.len() > 10, "{}", whole.len());
    let refused = |pieces: &[Bytes]| load(&mut store.empty(), pieces).expect_err("damaged");

    assert!(refused(&[]).contains("incomplete"));
    assert!(refused(&whole[..whole.len() - 1]).contains("incomplete"));
    for at in 0..whole.len() {
        let mut pieces = whole.clone();
        pieces.remove(at);
        refused(&pieces);
        pieces = whole.clone();
        pieces.insert(at, whole[at].clone());
        refused(&pieces);
        pieces = whole.clone();
        pieces[at].truncate(whole[at].len() - 1);
        refused(&pieces);
        if at > 0 {
            pieces = whole.clone();
            pieces.swap(at - 1, at);
            refused(&pieces);
        }
        for byte in 0..whole[at].len() {
            let mut damaged = whole[at].to_vec();
            damaged[byte] ^= 1 << random.rng.u8(..8);
            pieces = whole.clone();
            pieces[at] = damaged.into();
            refused(&pieces);
        }
    }
}

#[test]
fn any_bytes_are_refused_without_a_panic() {
    let mut rng = fastrand::Rng::with_seed(5);
    for _ in 0..200_000 {
        let mut store = Store::new();
        // A head that passes, so that what follows is looked at.
        let mut piece = vec![1, 1, rng.u8(1..9), rng.u8(..5), rng.u8(..)];
        for _ in 0..rng.usize(..6) {
            piece.push(rng.u8(2..10));
            for _ in 0..rng.usize(..9) {
                piece.push(rng.u8(..4));
            }
        }
        let result = store.load(piece.into()).and_then(|()| store.loaded());
        assert!(result.is_err());
    }
}

/// A contradiction that carries the right digest, as a faulty program might write it.
#[test]
fn what_contradicts_itself_is_refused() {
    let record = |fields: &[u8]| fields.to_vec();
    let head = record(&[1, 1, 3, 0, 0]);
    let key = record(&[3, 1, b'k']);
    let end = |piece: &[u8], keys: u8, versions: u8| {
        let digest = xxhash_rust::xxh3::xxh3_64_with_seed(piece, 0);
        [&[7, 0, keys, versions][..], &digest.to_le_bytes()].concat()
    };
    let load_all = |records: &[&[u8]], keys, versions| {
        let piece = records.concat();
        let end = end(&piece, keys, versions);
        load(&mut Store::new(), &[piece.into(), end.into()])
    };
    let write_at_2 = record(&[4, 2, 0, 0, 1, 0]);
    let write_at_3 = record(&[4, 1, 0, 1, 2, 0]);
    // Values that are kept as payloads, of the same payload.
    let apart_at = |kind_and_place: &[u8], len: u8| {
        let name = PayloadId::default().to_bytes();
        record(&[kind_and_place, &name, &[len], &[0; 16]].concat())
    };
    let apart_at_2 = apart_at(&[8, 2, 0, 0, 1], 5);
    let apart_at_3 = apart_at(&[8, 1, 0, 1, 2], 5);
    let good = load_all(&[&head, &key, &apart_at_2, &apart_at_3], 1, 2);
    assert_eq!(good, Ok(()));
    let other_at_3 = apart_at(&[8, 1, 0, 1, 2], 6);
    let good = load_all(&[&head, &key, &write_at_2, &write_at_3], 1, 2);
    assert_eq!(good, Ok(()));
    for (why, records, versions) in [
        ("is missing", vec![&head, &key, &write_at_2], 1),
        ("two values", vec![&head, &key, &apart_at_2, &other_at_3], 2),
        (
            "not whole",
            vec![&head, &key, &record(&[4, 3, 0, 0, 1, 0])],
            1,
        ),
        ("no version", vec![&head, &key], 0),
        (
            "out of order",
            vec![&head, &key, &write_at_2, &write_at_3, &write_at_3],
            3,
        ),
        (
            "has lease 9",
            vec![
                &head,
                &key,
                &write_at_2,
                &record(&[5, 1, 0, 1, 2, 0, 9, 0, 0, 0, 0, 0, 0, 0]),
            ],
            2,
        ),
    ] {
        let records: Vec<&[u8]> = records.into_iter().map(|r| &r[..]).collect();
        let refused = load_all(&records, 1, versions).expect_err(why);
        assert!(refused.contains(why), "{refused}");
    }
}

#[test]
fn a_value_larger_than_a_piece_is_not_cut() {
    let mut store = Store::new();
    let value = Bytes::from(vec![b'v'; 1 << 20]);
    for key in ["a", "b"] {
        let body = command::encode_put(&PutRequest {
            key: Bytes::from_static(key.as_bytes()),
            value: value.clone(),
            ..PutRequest::default()
        });
        store.apply(At::default(), &body, &[]);
    }
    let taken = pieces(&mut store, 4096, |_| {});
    assert_eq!(taken.len(), 3, "one per value, and the end");
    let mut loaded = store.empty();
    assert_eq!(load(&mut loaded, &taken), Ok(()));
    assert_eq!(range_at(&loaded, 0), range_at(&store, 0));
}

/// etcd #17780: a member that stopped in the middle of a compaction came back with an older
/// revision, for the newest one was that of a deletion, which had been forgotten.
#[test]
fn the_revision_does_not_go_back_after_a_compaction_that_was_cut_short() {
    let put = |store: &mut Store, n: u8| {
        let request = PutRequest {
            key: Bytes::from(vec![b'a' + n % 7]),
            ..PutRequest::default()
        };
        store.apply(At::default(), &command::encode_put(&request), &[]);
    };
    let mut is_tidy = false;
    for steps in 0.. {
        let mut store = Store::new();
        (0..200).for_each(|n| put(&mut store, n));
        let (key, range_end) = all();
        let everything = DeleteRangeRequest {
            key,
            range_end,
            ..DeleteRangeRequest::default()
        };
        store.apply(
            At::default(),
            &command::encode_delete_range(&everything),
            &[],
        );
        let revision = store.revision();
        let request = CompactionRequest {
            revision,
            physical: false,
        };
        store.apply(At::default(), &command::encode_compact(&request), &[]);
        is_tidy |= (0..steps).any(|_| !store.tidy());
        let mut again = Store::new();
        load(&mut again, &pieces(&mut store, 100, |_| {})).unwrap();
        assert_eq!(
            (again.revision(), again.status().compacted),
            (revision, revision)
        );
        assert_eq!(again.hash(0), store.hash(0), "after {steps} steps");
        put(&mut again, 0);
        assert_eq!(again.revision(), revision + 1);
        if is_tidy {
            break;
        }
    }
}
