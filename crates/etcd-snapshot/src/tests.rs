//! States written and read back, and files that were changed in between.

use crate::{
    DIGEST_BYTES, Database, DatabaseWriter, FileError, KeyRecord, LeaseRecord, MemberRecord,
    Revision, RoleRecord, Sha256, StateReader, StateRest, StateWriter, UserRecord,
};
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::{AlarmMember, AlarmType};
use quorate_etcd_api::mvccpb::KeyValue;
use std::collections::BTreeMap;
use std::io::Cursor;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// A file of these buckets.
fn written(buckets: &BTreeMap<Vec<u8>, Pairs>) -> Bytes {
    let mut writer = DatabaseWriter::new(Cursor::new(Vec::new())).unwrap();
    for (name, pairs) in buckets {
        writer.bucket(name).unwrap();
        for (key, value) in pairs {
            writer.put(key, value).unwrap();
        }
    }
    let (out, bytes) = writer.finish().unwrap();
    let out = out.into_inner();
    assert_eq!(out.len() as u64, bytes);
    out.into()
}

fn read(file: Bytes) -> Result<BTreeMap<Vec<u8>, Pairs>, FileError> {
    let database = Database::open(file)?;
    let mut buckets = BTreeMap::new();
    for name in database.buckets()? {
        let bucket = database.bucket(&name)?.expect("it was listed");
        let mut pairs = Pairs::new();
        database.each(&bucket, |key, value| {
            pairs.insert(key.to_vec(), value.to_vec());
            Ok::<_, FileError>(())
        })?;
        buckets.insert(name.to_vec(), pairs);
    }
    Ok(buckets)
}

/// A number of keys, with values of lengths up to a bound.
fn pairs(count: usize, value_bytes_max: usize) -> Pairs {
    let mut rng = fastrand::Rng::with_seed(count as u64);
    let pair = |at: usize| {
        let key = format!("key {at:08} {}", "x".repeat(rng.usize(..40)));
        (
            key.into_bytes(),
            vec![rng.u8(..); rng.usize(..=value_bytes_max)],
        )
    };
    (0..count).map(pair).collect()
}

#[test]
fn trees_of_every_height_and_values_longer_than_pages_read_back() {
    for (count, value_bytes_max) in [
        (0, 0),
        (1, 0),
        (3, 100),
        (20, 400),
        (3_000, 60),
        (200, 50_000),
        (60_000, 30),
    ] {
        let buckets = BTreeMap::from([
            (b"empty".to_vec(), Pairs::new()),
            (b"many".to_vec(), pairs(count, value_bytes_max)),
            (b"small".to_vec(), pairs(2, 10)),
        ]);
        assert!(read(written(&buckets)).unwrap() == buckets, "{count} keys");
    }
    let none = BTreeMap::new();
    assert_eq!(read(written(&none)).unwrap(), none);
    let names = (0..300_u32).map(|at| (at.to_be_bytes().to_vec(), pairs(3, 200)));
    let many: BTreeMap<_, _> = names.collect();
    assert!(read(written(&many)).unwrap() == many);
}

#[test]
fn keys_out_of_order_and_buckets_written_twice_are_refused() {
    let mut writer = DatabaseWriter::new(Cursor::new(Vec::new())).unwrap();
    assert!(writer.put(b"a", b"").is_err());
    writer.bucket(b"one").unwrap();
    writer.put(b"b", b"").unwrap();
    for key in [&b"a"[..], b"b", b""] {
        assert!(writer.put(key, b"").is_err());
    }
    writer.bucket(b"two").unwrap();
    assert!(writer.bucket(b"one").is_err());
}

#[test]
fn a_file_cut_short_anywhere_is_refused_and_either_meta_is_enough() {
    let buckets = BTreeMap::from([(b"many".to_vec(), pairs(500, 60))]);
    let file = written(&buckets);
    for cut in (0..file.len()).step_by(509) {
        let why = read(file.slice(..cut)).unwrap_err();
        assert!(matches!(why, FileError::Damaged(_)), "{why}");
    }
    for lost in [0, 4096] {
        let mut wrong = file.to_vec();
        wrong[lost + 20..lost + 40].fill(7);
        assert!(read(wrong.clone().into()).unwrap() == buckets);
        wrong[4096 - lost + 70] ^= 1;
        assert!(read(wrong.into()).is_err());
    }
}

/// A page that is its own child would be walked for ever.
#[test]
fn pages_that_name_each_other_in_a_circle_are_found() {
    let file = written(&BTreeMap::from([(b"many".to_vec(), pairs(3_000, 60))]));
    let branch = |page: &&[u8]| page[8..10] == [1, 0];
    let place = file.chunks(4096).position(|page| branch(&page)).unwrap();
    let mut wrong = file.to_vec();
    let child = place * 4096 + 16 + 8;
    wrong[child..child + 8].copy_from_slice(&(place as u64).to_le_bytes());
    let why = read(wrong.into()).unwrap_err().to_string();
    assert!(why.contains("more than once"), "{why}");
}

fn kv(key: &str, revision: i64, value: usize) -> KeyValue {
    KeyValue {
        key: Bytes::copy_from_slice(key.as_bytes()),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        value: vec![b'v'; value].into(),
        lease: 7,
    }
}

/// A small state: its records of keys, and the rest.
pub(crate) fn state() -> (Vec<KeyRecord>, StateRest) {
    let key = |main, sub, is_deletion, kv| KeyRecord {
        revision: Revision { main, sub },
        is_deletion,
        kv,
    };
    let gone = KeyValue {
        key: Bytes::from_static(b"b"),
        ..KeyValue::default()
    };
    let keys = vec![
        key(4, 0, false, kv("a", 4, 10)),
        key(5, 0, false, kv("b", 5, 0)),
        key(5, 1, false, kv("c", 5, 9000)),
        key(6, 0, true, gone),
    ];
    let user = UserRecord {
        name: Bytes::from_static(b"root"),
        password: Bytes::from_static(b"$2a$10$hash"),
        roles: vec!["root".to_owned()],
        options: None,
    };
    let rest = StateRest {
        consistent_index: 300,
        term: 4,
        compacted: 4,
        leases: vec![LeaseRecord {
            id: 7,
            ttl_s: 60,
            remaining_ttl_s: 0,
        }],
        auth_enabled: true,
        auth_revision: 3,
        users: vec![user],
        roles: vec![RoleRecord {
            name: Bytes::from_static(b"root"),
            permissions: Vec::new(),
        }],
        members: vec![MemberRecord {
            id: 255,
            name: "one".to_owned(),
            peer_urls: vec!["http://localhost:2380".to_owned()],
            ..MemberRecord::default()
        }],
        alarms: [(0, AlarmType::Nospace), (255, AlarmType::Corrupt)]
            .map(|(member_id, alarm)| AlarmMember {
                member_id,
                alarm: alarm as i32,
            })
            .to_vec(),
    };
    (keys, rest)
}

/// The file of a state, with or without its digest.
pub(crate) fn file(keys: &[KeyRecord], rest: &StateRest, has_digest: bool) -> Vec<u8> {
    let mut writer = StateWriter::new(Cursor::new(Vec::new())).unwrap();
    for key in keys {
        writer.key(key.revision, key.is_deletion, &key.kv).unwrap();
    }
    let (out, _) = writer.finish(rest).unwrap();
    let mut out = out.into_inner();
    if has_digest {
        let mut digest = Sha256::default();
        digest.update(&out);
        out.extend_from_slice(&digest.finish());
    }
    out
}

#[test]
fn a_state_reads_back_as_it_was_written() {
    let (keys, rest) = state();
    let reader = StateReader::open_snapshot(Bytes::from(file(&keys, &rest, true))).unwrap();
    let mut found = Vec::new();
    reader
        .each_key(|key| {
            found.push(key);
            Ok::<_, FileError>(())
        })
        .unwrap();
    assert_eq!(found, keys);
    assert_eq!(reader.leases().unwrap(), rest.leases);
    assert_eq!(reader.users().unwrap(), rest.users);
    assert_eq!(reader.roles().unwrap(), rest.roles);
    assert_eq!(reader.members().unwrap(), rest.members);
    assert_eq!(reader.alarms().unwrap(), rest.alarms);
    let summary = reader.summary().unwrap();
    assert_eq!(
        (summary.consistent_index, summary.term, summary.compacted),
        (300, 4, 4)
    );
    assert_eq!((summary.auth_enabled, summary.auth_revision), (true, 3));
    assert!(!format!("{:?}", rest.users).contains("hash"));
}

#[test]
fn a_snapshot_without_its_digest_or_with_another_is_refused() {
    let (keys, rest) = state();
    let open = |bytes: Vec<u8>| StateReader::open_snapshot(Bytes::from(bytes)).map(|_| ());
    let why = open(file(&keys, &rest, false)).unwrap_err().to_string();
    assert!(why.contains("no digest"), "{why}");
    let mut wrong = file(&keys, &rest, true);
    let end = wrong.len();
    for at in [5000, end - DIGEST_BYTES, end - 1] {
        wrong[at] ^= 1;
        let why = open(wrong.clone()).unwrap_err().to_string();
        assert!(why.contains("does not match"), "{why}");
        wrong[at] ^= 1;
    }
    open(wrong).unwrap();
}
