//! The store that a cluster begins anew with.

#![allow(missing_docs, reason = "tests")]

use bytes::Bytes;
use quorate_core::{Application, At, EntryId, PayloadId, Slot};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_etcd_store::{Query, QueryAnswer, Refused, Store, UnreadableVersion, command};
use std::collections::BTreeSet;

fn id(part: u64) -> PayloadId {
    PayloadId {
        entry: EntryId {
            seq: part,
            ..EntryId::default()
        },
        part: 0,
    }
}

/// Puts values that are kept as payloads under these names.
fn store(puts: &[(&'static str, u64)]) -> Store {
    let mut store = Store::new();
    for (key, payload) in puts {
        let request = PutRequest {
            key: Bytes::from_static(key.as_bytes()),
            value: Bytes::from(vec![*payload as u8; 100]),
            ..PutRequest::default()
        };
        let (body, payloads) = command::split_put(request, Some(1));
        let at = At {
            slot: Slot(*payload),
            payload: id(*payload),
            ..At::default()
        };
        store.apply(at, &body, &payloads);
    }
    store
}

fn range(store: &Store, revision: i64) -> Result<Vec<String>, Refused> {
    let request = RangeRequest {
        key: Bytes::from_static(b"\0"),
        range_end: Bytes::from_static(b"\0"),
        keys_only: true,
        revision,
        ..RangeRequest::default()
    };
    match store.query(&Query::Range(request)) {
        QueryAnswer::Refused(why) => Err(why),
        QueryAnswer::Range(found) => Ok(names(found.kvs.iter().map(|kv| &kv.key[..]))),
        other => panic!("{other:?}"),
    }
}

fn names<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    keys.map(|key| String::from_utf8_lossy(key).into_owned())
        .collect()
}

/// Scenario: a key's present value is gone, and an old value of another; both are named, and afterwards
/// nothing refers to either.
#[test]
fn keys_whose_values_are_gone_are_named_and_given_up() {
    let mut store = store(&[("a", 1), ("b", 2), ("a", 3), ("c", 4)]);
    let gone = BTreeSet::from([id(1), id(2)]);
    let unreadable = |key: &str, revision, is_present| UnreadableVersion {
        key: key.into(),
        revision,
        is_present,
    };
    let found = store.versions_of(&gone);
    let expected = [unreadable("a", 2, false), unreadable("b", 3, true)];
    assert_eq!(found, expected);
    let present = found.into_iter().filter(|one| one.is_present);
    store.give_up(&present.map(|one| one.key).collect());
    assert_eq!(range(&store, 0), Ok(vec!["a".to_owned(), "c".to_owned()]));
    assert_eq!(store.revision(), 6);
    assert_eq!(range(&store, 5), Err(Refused::Compacted));
    assert!(store.versions_of(&gone).is_empty());
    let live: Vec<_> = store.live(None, 9).into_iter().map(|(id, _)| id).collect();
    assert_eq!(live, [id(3), id(4)]);
}

/// Scenario: revisions go on far ahead, and none before can be read; so it is after a snapshot, too.
#[test]
fn revisions_go_ahead_and_history_is_forgotten() {
    let mut first = store(&[("a", 1), ("b", 2)]);
    assert!(!first.bump_revision(u64::MAX));
    assert!(first.bump_revision(1000));
    let mut cut = first.cut();
    let mut loaded = first.empty();
    while let Some(piece) = first.piece(&mut cut, 1 << 16) {
        loaded.load(piece).unwrap();
    }
    loaded.loaded().unwrap();
    for store in [first, loaded] {
        assert_eq!(store.revision(), 1003);
        assert_eq!(range(&store, 0).unwrap().len(), 2);
        assert_eq!(range(&store, 1003).unwrap().len(), 2);
        assert_eq!(range(&store, 1002), Err(Refused::Compacted));
    }
}
