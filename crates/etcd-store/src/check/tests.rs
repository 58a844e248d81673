use super::*;
use bytes::Bytes;
use quorate_etcd_api::etcdserverpb::Compare;

fn read(key: &str) -> RequestOp {
    Request::RequestRange(RangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        ..RangeRequest::default()
    })
    .into()
}

fn write(key: &str) -> RequestOp {
    Request::RequestPut(PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        ..PutRequest::default()
    })
    .into()
}

fn delete(key: &str, end: &str) -> RequestOp {
    Request::RequestDeleteRange(DeleteRangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(end.as_bytes()),
        prev_kv: false,
    })
    .into()
}

fn branch(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> TxnRequest {
    TxnRequest {
        compare: Vec::new(),
        success,
        failure,
    }
}

fn inner(success: Vec<RequestOp>, failure: Vec<RequestOp>) -> RequestOp {
    Request::RequestTxn(branch(success, failure)).into()
}

#[test]
fn writing_a_key_twice() {
    let refused = Err(Refused::DuplicateKey);
    let cases = [
        (vec![], Ok(())),
        (vec![write("a"), write("b")], Ok(())),
        (vec![write("a"), write("a")], refused),
        (vec![delete("a", ""), write("a")], refused),
        (vec![write("a"), delete("a", "")], refused),
        (vec![delete("a", ""), write("b")], Ok(())),
        (vec![delete("a", "c"), write("b")], refused),
        (vec![delete("a", "c"), write("c")], Ok(())),
        // Deleting every key from one on is allowed beside any put: that is etcd's way.
        (vec![delete("a", "\0"), write("b")], Ok(())),
        (
            vec![delete("a", "\0"), delete("b", ""), write("b")],
            refused,
        ),
        // An end that is not after the start deletes nothing.
        (vec![delete("b", "a"), write("b")], Ok(())),
        // Deleting twice is harmless.
        (
            vec![delete("a", "c"), delete("b", "d"), delete("b", "")],
            Ok(()),
        ),
        (
            vec![delete("a", "c"), delete("b", "e"), write("d")],
            refused,
        ),
        (vec![delete("d", "f"), delete("a", "b"), write("c")], Ok(())),
        // Only one branch of an inner transaction runs.
        (vec![inner(vec![write("a")], vec![write("a")])], Ok(())),
        (vec![inner(vec![write("a")], vec![]), write("a")], refused),
        (vec![write("a"), inner(vec![], vec![write("a")])], refused),
        (
            vec![
                inner(vec![write("a")], vec![]),
                inner(vec![], vec![write("a")]),
            ],
            refused,
        ),
        (
            vec![inner(vec![delete("a", "")], vec![]), write("a")],
            refused,
        ),
        (
            vec![delete("a", ""), inner(vec![], vec![write("a")])],
            refused,
        ),
        (
            vec![
                inner(vec![delete("a", "c")], vec![]),
                inner(vec![write("b")], vec![]),
            ],
            refused,
        ),
        // The other way round it is allowed: etcd looks at earlier deletions only.
        (
            vec![
                inner(vec![write("b")], vec![]),
                inner(vec![delete("a", "c")], vec![]),
            ],
            Ok(()),
        ),
        (
            vec![
                inner(vec![inner(vec![write("x")], vec![])], vec![]),
                write("x"),
            ],
            refused,
        ),
    ];
    for (ops, expected) in cases {
        let success = branch(ops.clone(), vec![]);
        assert_eq!(txn(&success, 128), expected, "success: {ops:?}");
        let failure = branch(vec![], ops.clone());
        assert_eq!(txn(&failure, 128), expected, "failure: {ops:?}");
    }
}

#[test]
fn merged_ranges_cover_what_the_ranges_cover() {
    let mut rng = fastrand::Rng::with_seed(1);
    let keys: Vec<Vec<u8>> = (b'a'..=b'p').map(|c| vec![c]).collect();
    for _ in 0..2000 {
        let mut cover = Cover::default();
        let mut spans = Vec::new();
        for _ in 0..rng.usize(..8) {
            let start = &keys[rng.usize(..keys.len())][..];
            let span = match rng.u8(..10) {
                0 => Span::From(start),
                1 => Span::One(start),
                _ => Span::new(start, &keys[rng.usize(..keys.len())]),
            };
            cover.insert(span);
            spans.push(span);
        }
        for key in &keys {
            let within = |span: &Span<'_>| match *span {
                Span::One(one) => one == &key[..],
                Span::Between(start, end) => start <= &key[..] && &key[..] < end,
                Span::From(_) | Span::Nothing => false,
            };
            assert_eq!(
                cover.contains(key),
                spans.iter().any(within),
                "{spans:?} {key:?}"
            );
        }
    }
}

#[test]
fn the_number_of_operations() {
    let three = || vec![read("a"), read("b"), read("c")];
    let nested = |depth: usize| {
        (0..depth).fold(branch(three(), vec![]), |txn, _| {
            branch(vec![Request::RequestTxn(txn).into()], three())
        })
    };
    let compares = TxnRequest {
        compare: vec![
            Compare {
                key: Bytes::from_static(b"a"),
                ..Compare::default()
            };
            4
        ],
        ..TxnRequest::default()
    };
    for (request, ops_max, expected) in [
        (branch(three(), three()), 3, Ok(())),
        (branch(three(), three()), 2, Err(Refused::TooManyOps)),
        (compares.clone(), 4, Ok(())),
        (compares, 3, Err(Refused::TooManyOps)),
        (nested(2), 9, Ok(())),
        (nested(2), 8, Err(Refused::TooManyOps)),
    ] {
        assert_eq!(txn(&request, ops_max), expected, "{request:?}");
    }
}

#[test]
fn operations_that_can_never_succeed() {
    let sort = |order, target| {
        let mut request = RangeRequest {
            key: Bytes::from_static(b"a"),
            ..RangeRequest::default()
        };
        (request.sort_order, request.sort_target) = (order, target);
        RequestOp::from(Request::RequestRange(request))
    };
    let keep = |value: &'static str, lease, ignore_value, ignore_lease| {
        RequestOp::from(Request::RequestPut(PutRequest {
            key: Bytes::from_static(b"a"),
            value: Bytes::from_static(value.as_bytes()),
            lease,
            ignore_value,
            ignore_lease,
            ..PutRequest::default()
        }))
    };
    for (op, expected) in [
        (RequestOp { request: None }, Err(Refused::KeyNotFound)),
        (read(""), Err(Refused::EmptyKey)),
        (write(""), Err(Refused::EmptyKey)),
        (delete("", "\0"), Err(Refused::EmptyKey)),
        (inner(vec![read("")], vec![]), Err(Refused::EmptyKey)),
        (sort(2, 4), Ok(())),
        (sort(3, 0), Err(Refused::InvalidSort)),
        (sort(0, 5), Err(Refused::InvalidSort)),
        (keep("", 0, true, true), Ok(())),
        (keep("v", 0, true, false), Err(Refused::ValueProvided)),
        (keep("v", 7, false, true), Err(Refused::LeaseProvided)),
        (keep("v", 7, true, true), Err(Refused::ValueProvided)),
    ] {
        assert_eq!(
            txn(&branch(vec![], vec![op.clone()]), 128),
            expected,
            "{op:?}"
        );
    }
}

#[test]
fn what_only_reads_and_what_may_be_stale() {
    let stale = || {
        RequestOp::from(Request::RequestRange(RangeRequest {
            key: Bytes::from_static(b"a"),
            serializable: true,
            ..RangeRequest::default()
        }))
    };
    for (request, reads, serializable) in [
        (branch(vec![], vec![]), true, false),
        (branch(vec![read("a")], vec![]), true, false),
        (branch(vec![stale()], vec![]), true, true),
        (branch(vec![stale()], vec![read("a")]), true, false),
        (
            branch(vec![], vec![inner(vec![stale()], vec![])]),
            true,
            true,
        ),
        (branch(vec![stale()], vec![write("a")]), false, false),
        (
            branch(vec![inner(vec![], vec![delete("a", "")])], vec![]),
            false,
            false,
        ),
    ] {
        assert_eq!(is_read_only(&request), reads, "{request:?}");
        assert_eq!(is_serializable(&request), serializable, "{request:?}");
    }
}
