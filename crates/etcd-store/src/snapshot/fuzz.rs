//! The store's part of a snapshot from hostile bytes: whatever loads is a store that works.

use super::END;
use crate::command;
use crate::store::Store;
use bytes::Bytes;
use quorate_core::{Application, At, Encoder, Payload};
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, LeaseGrantRequest, PutRequest,
};
use quorate_fuzz::{Fuzz, Limits};

/// All of a store but the end.
fn whole(store: &mut Store) -> Bytes {
    let mut cut = store.cut();
    let piece = store.piece(&mut cut, usize::MAX).expect("a head at least");
    store.release(cut);
    piece
}

/// A store from the bytes of one piece, and the end that belongs to it.
fn load(piece: Bytes) -> Result<Store, String> {
    let mut store = Store::new();
    store.load(piece)?;
    let totals = store.loading.as_ref().map(|loading| loading.totals());
    let totals = totals.unwrap_or_default();
    let mut end = Encoder::new();
    end.u8(END);
    [totals.leases, totals.keys, totals.versions]
        .into_iter()
        .for_each(|count| end.varint(count));
    end.u64(totals.digest);
    store.load(end.into_bytes())?;
    store.loaded()?;
    Ok(store)
}

fn put(key: &'static [u8], lease: i64) -> Bytes {
    command::encode_put(&PutRequest {
        key: Bytes::from_static(key),
        value: Bytes::from_static(b"value"),
        lease,
        ..PutRequest::default()
    })
}

/// Applies commands of which some have a value apart, each of another entry from `first` on.
fn apply_all(store: &mut Store, first: u64, mut after: impl FnMut(&mut Store)) {
    for (seq, (body, payloads)) in (first..).zip(commands()) {
        let mut at = At::default();
        at.payload.entry.seq = seq;
        store.apply(at, &body, &payloads);
        after(store);
    }
}

fn put_apart(key: &'static [u8], lease: i64) -> (Bytes, Vec<Payload>) {
    let request = PutRequest {
        key: Bytes::from_static(key),
        value: Bytes::from_static(b"payload"),
        lease,
        ..PutRequest::default()
    };
    command::split_put(request, Some(1))
}

fn commands() -> Vec<(Bytes, Vec<Payload>)> {
    let compact = |revision| {
        command::encode_compact(&CompactionRequest {
            revision,
            physical: false,
        })
    };
    let delete = command::encode_delete_range(&DeleteRangeRequest {
        key: Bytes::from_static(b"a"),
        range_end: Bytes::from_static(b"\0"),
        prev_kv: false,
    });
    let grant = command::encode_lease_grant(&LeaseGrantRequest { id: 7, ttl: 60 });
    let inline = |body| (body, Vec::new());
    vec![
        inline(grant),
        inline(put(b"a", 0)),
        inline(put(b"b", 7)),
        inline(put(b"a", 7)),
        put_apart(b"d", 0),
        put_apart(b"e", 7),
        inline(compact(3)),
        inline(delete),
        inline(put(b"c", 0)),
        put_apart(b"c", 0),
        inline(compact(8)),
    ]
}

#[test]
fn what_loads_is_a_store_that_works() {
    let mut store = Store::new();
    let mut seeds = vec![whole(&mut store)];
    apply_all(&mut store, 1, |store| seeds.push(whole(store)));
    let limits = Limits {
        // A key with its history, a version and its change in the journal, for a few bytes each.
        base_bytes: 160 << 10,
        bytes_per_byte: 128,
        ..Limits::default()
    };
    let fuzz = Fuzz::new(env!("CARGO_MANIFEST_DIR"), "snapshot").seeds(seeds);
    fuzz.limits(limits).run(load, |input, _| {
        let mut store = load(input.clone()).expect("it loaded before");
        let again = whole(&mut store);
        let mut twin = load(again.clone()).expect("what a store writes, it reads");
        assert_eq!(whole(&mut twin), again);
        // Far from the entries that it may have applied.
        apply_all(&mut store, u64::MAX >> 1, |store| while store.tidy() {});
        load(whole(&mut store)).expect("what a store writes, it reads");
    });
}
