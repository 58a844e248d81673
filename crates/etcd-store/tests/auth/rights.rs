//! What a user may do, by the permissions of its roles.

use super::*;
use quorate_etcd_api::etcdserverpb::request_op::Request;
use quorate_etcd_api::etcdserverpb::{
    CompactionRequest, Compare, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
    TxnRequest,
};
use quorate_etcd_store::LeaseExpiry;

const DENIED: Refused = Refused::PermissionDenied;

/// Authentication is on, and alice has these permissions.
fn alice_with(granted: &[(PermissionType, &str, &str)]) -> (Conversation, Asker) {
    let mut talk = Conversation::with_users();
    for (kind, key, end) in granted {
        talk.root(grant("reader", *kind, key, end))
            .expect("granted");
    }
    let alice = talk.user("alice");
    (talk, alice)
}

fn may(outcome: Result<impl Sized, Refused>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(why) => {
            assert_eq!(why, DENIED);
            false
        }
    }
}

fn txn(success: Vec<Request>, failure: Vec<Request>) -> TxnRequest {
    TxnRequest {
        compare: Vec::new(),
        success: success.into_iter().map(Into::into).collect(),
        failure: failure.into_iter().map(Into::into).collect(),
    }
}

/// Whether alice may run a transaction that writes, and the same one if it only reads.
fn may_txn(talk: &mut Conversation, alice: &Asker, request: &TxnRequest) -> bool {
    let applied = talk.apply(alice, command::encode_txn(request));
    may(applied)
}

#[test]
fn puts_need_writing_and_the_previous_value_reading() {
    use PermissionType::{Read, Readwrite, Write};
    for (kind, plain, with_previous) in [
        (Read, false, false),
        (Write, true, false),
        (Readwrite, true, true),
    ] {
        let (mut talk, alice) = alice_with(&[(kind, "k", "")]);
        assert_eq!(may(talk.put(&alice, "k")), plain);
        assert!(!may(talk.put(&alice, "k2")));
        let request = PutRequest {
            prev_kv: true,
            ..put("k")
        };
        let asked = talk.apply(&alice, command::encode_put(&request));
        assert_eq!(may(asked), with_previous);
        // In a transaction as well: this is what CVE-2026-44283 is about.
        let request = txn(vec![Request::RequestPut(request)], vec![]);
        assert_eq!(may_txn(&mut talk, &alice, &request), with_previous);
    }
}

#[test]
fn deletions_need_writing_of_the_whole_range() {
    use PermissionType::{Readwrite, Write};
    for (kind, with_previous) in [(Write, false), (Readwrite, true)] {
        let (mut talk, alice) = alice_with(&[(kind, "a", "c")]);
        let ask = |talk: &mut Conversation, key, end, prev_kv| {
            let request = DeleteRangeRequest {
                prev_kv,
                ..delete(key, end)
            };
            let alone = may(talk.apply(&alice, command::encode_delete_range(&request)));
            let request = txn(vec![Request::RequestDeleteRange(request)], vec![]);
            assert_eq!(may_txn(talk, &alice, &request), alone);
            alone
        };
        assert!(ask(&mut talk, "a", "c", false));
        assert!(!ask(&mut talk, "a", "d", false));
        assert!(!ask(&mut talk, "a", "\0", false));
        assert_eq!(ask(&mut talk, "a", "c", true), with_previous);
    }
}

#[test]
fn reads_need_reading_of_the_whole_range() {
    let (talk, alice) = alice_with(&[(PermissionType::Read, "a", "c")]);
    for (key, end, expected) in [
        ("a", "", true),
        ("b", "", true),
        ("c", "", false),
        ("a", "c", true),
        ("a", "d", false),
        // All keys from one on are more than that key.
        ("a", "\0", false),
        ("\0", "\0", false),
    ] {
        assert_eq!(
            may(talk.range(&alice, key, end)),
            expected,
            "{key:?} {end:?}"
        );
        let request = txn(vec![Request::RequestRange(range(key, end))], vec![]);
        let asked = talk.ask(&alice, Query::Txn(request));
        assert_eq!(may(asked), expected, "{key:?} {end:?}");
    }
}

/// A transaction could be nested so that rights were looked up for the outer one alone (CVE-2026-33343).
#[test]
fn a_transaction_needs_what_all_its_branches_need_however_deep() {
    let (mut talk, alice) = alice_with(&[(PermissionType::Readwrite, "k", "")]);
    for forbidden in [
        Request::RequestPut(put("x")),
        Request::RequestRange(range("x", "")),
        Request::RequestDeleteRange(delete("x", "")),
    ] {
        for depth in 0..4 {
            for is_taken in [true, false] {
                let mut request = match is_taken {
                    true => txn(vec![forbidden.clone()], vec![]),
                    false => txn(vec![], vec![forbidden.clone()]),
                };
                for _ in 0..depth {
                    let inner = Request::RequestTxn(request);
                    request = txn(vec![Request::RequestPut(put("k")), inner], vec![]);
                }
                let name = format!("{forbidden:?} at {depth}, {is_taken}");
                assert!(!may_txn(&mut talk, &alice, &request), "{name}");
                assert_eq!(
                    talk.store.revision(),
                    1,
                    "{name}: nothing is done by halves"
                );
            }
        }
    }
    let inner = Request::RequestTxn(txn(vec![Request::RequestPut(put("k"))], vec![]));
    assert!(may_txn(&mut talk, &alice, &txn(vec![inner], vec![])));
}

#[test]
fn conditions_need_reading() {
    use PermissionType::{Read, Write};
    let (mut talk, alice) = alice_with(&[(Write, "k", ""), (Read, "r", "s")]);
    for (key, end, expected) in [
        ("r", "", true),
        ("r", "s", true),
        ("k", "", false),
        ("r", "t", false),
    ] {
        let request = TxnRequest {
            compare: vec![Compare {
                key: bytes(key),
                range_end: bytes(end),
                ..Compare::default()
            }],
            ..txn(vec![Request::RequestPut(put("k"))], vec![])
        };
        assert_eq!(
            may_txn(&mut talk, &alice, &request),
            expected,
            "{key:?} {end:?}"
        );
        let inner = txn(vec![Request::RequestTxn(request)], vec![]);
        assert_eq!(
            may_txn(&mut talk, &alice, &inner),
            expected,
            "{key:?} {end:?}"
        );
    }
}

fn with_lease(key: &str, lease: i64) -> PutRequest {
    PutRequest { lease, ..put(key) }
}

/// Leases could be used without any rights to their keys (CVE-2026-33413, CVE-2026-44283).
#[test]
fn a_lease_is_for_who_may_write_its_keys() {
    use PermissionType::{Read, Readwrite, Write};
    let (mut talk, alice) = alice_with(&[(Write, "k", ""), (Readwrite, "rw", ""), (Read, "x", "")]);
    let root = talk.user("root");
    for id in [1, 2] {
        let request = LeaseGrantRequest { id, ttl: 60 };
        let granted = talk.apply(&alice, command::encode_lease_grant(&request));
        granted.expect("any user may");
    }
    let attached = talk.apply(&root, command::encode_put(&with_lease("x", 1)));
    attached.expect("root may");
    let attached = talk.apply(&alice, command::encode_put(&with_lease("rw", 2)));
    attached.expect("alice may");
    let of = |id: i64| {
        [
            command::encode_put(&with_lease("k", id)),
            command::encode_txn(&txn(vec![Request::RequestPut(with_lease("k", id))], vec![])),
            command::encode_lease_renew(&LeaseKeepAliveRequest { id }),
            command::encode_lease_revoke(&LeaseRevokeRequest { id }),
        ]
    };
    for body in of(1) {
        assert_eq!(talk.apply(&alice, body.clone()), Err(DENIED), "{body:?}");
    }
    let keys = |talk: &Conversation, id| talk.ask(&alice, Query::Lease { id, keys: true });
    assert!(may(keys(&talk, 1)), "the key of the lease may be read");
    assert!(may(keys(&talk, 2)));
    assert!(may(talk.ask(&alice, Query::Leases)));
    for body in of(2) {
        assert!(talk.apply(&alice, body.clone()).is_ok(), "{body:?}");
    }
    let attached = talk.apply(&root, command::encode_put(&with_lease("secret", 1)));
    attached.expect("root may");
    assert!(!may(keys(&talk, 1)));
    assert!(!may(talk.ask(&alice, Query::Leases)));
    assert!(
        may(talk.ask(&alice, Query::Lease { id: 1, keys: false })),
        "any user may"
    );
    for body in of(1) {
        assert!(talk.apply(&root, body.clone()).is_ok(), "{body:?}");
    }
}

#[test]
fn what_only_the_role_root_may() {
    let (mut talk, alice) = alice_with(&[(PermissionType::Readwrite, "\0", "\0")]);
    let root = talk.user("root");
    let compact = || {
        command::encode_compact(&CompactionRequest {
            revision: 1,
            physical: false,
        })
    };
    assert_eq!(talk.apply(&alice, compact()), Err(DENIED));
    assert!(talk.apply(&root, compact()).is_ok());
    for change in [
        user_add("x"),
        role_add("x"),
        disable(),
        grant_role("alice", "root"),
    ] {
        assert_eq!(
            talk.change(&alice, change.clone()),
            Err(DENIED),
            "{change:?}"
        );
    }
    for query in [AuthQuery::Users, AuthQuery::Roles] {
        assert_eq!(
            talk.ask(&alice, Query::Auth(query.clone())),
            Err(DENIED),
            "{query:?}"
        );
        assert!(talk.ask(&root, Query::Auth(query)).is_ok());
    }
}

#[test]
fn whether_users_have_to_say_who_they_are_anybody_may_ask() {
    let (talk, alice) = alice_with(&[]);
    for asker in [alice, Asker::Nobody] {
        assert!(may(talk.ask(&asker, Query::Auth(AuthQuery::Status))));
    }
}

#[test]
fn a_user_may_see_itself_and_its_roles() {
    let (talk, alice) = alice_with(&[]);
    let ask = |query| may(talk.ask(&alice, Query::Auth(query)));
    assert!(ask(AuthQuery::User("alice".to_owned())));
    assert!(!ask(AuthQuery::User("root".to_owned())));
    assert!(ask(AuthQuery::Role("reader".to_owned())));
    assert!(!ask(AuthQuery::Role("root".to_owned())));
}

#[test]
fn who_shows_no_credentials_is_refused_and_the_server_is_not() {
    let (mut talk, _) = alice_with(&[]);
    for asker in [Asker::Anybody, Asker::Nobody] {
        assert_eq!(talk.put(&asker, "k"), Err(Refused::UserEmpty));
        assert_eq!(talk.range(&asker, "k", ""), Err(Refused::UserEmpty));
        let grant = LeaseGrantRequest { id: 1, ttl: 60 };
        let granted = talk.apply(&asker, command::encode_lease_grant(&grant));
        assert_eq!(granted, Err(Refused::UserEmpty));
        assert_eq!(talk.change(&asker, user_add("x")), Err(Refused::UserEmpty));
        assert_eq!(talk.ask(&asker, Query::Leases), Err(Refused::UserEmpty));
    }
    assert!(talk.put(&Asker::Server, "k").is_ok());
    assert!(talk.range(&Asker::Server, "k", "").is_ok());
    let expiry = LeaseExpiry { id: 1, renewal: 1 };
    let expired = talk.apply(&Asker::Anybody, command::encode_expiry(&expiry));
    assert!(expired.is_ok(), "replicas order it by themselves");
}

#[test]
fn credentials_of_an_older_revision_are_refused_where_keys_are_used() {
    let (mut talk, alice) = alice_with(&[(PermissionType::Readwrite, "k", "")]);
    assert!(talk.put(&alice, "k").is_ok());
    talk.root(role_add("other")).expect("added");
    assert_eq!(talk.put(&alice, "k"), Err(Refused::AuthOldRevision));
    assert_eq!(talk.range(&alice, "k", ""), Err(Refused::AuthOldRevision));
    let alice = talk.user("alice");
    assert!(talk.put(&alice, "k").is_ok() && talk.range(&alice, "k", "").is_ok());
}

#[test]
fn a_right_that_was_taken_away_is_gone_for_commands_that_were_on_their_way() {
    for removal in [
        revoke("reader", "k", ""),
        revoke_role("alice", "reader"),
        user_delete("alice"),
        role_delete("reader"),
    ] {
        let (mut talk, before) = alice_with(&[(PermissionType::Readwrite, "k", "")]);
        talk.root(removal.clone()).expect("root may");
        assert_eq!(
            talk.put(&before, "k"),
            Err(Refused::AuthOldRevision),
            "{removal:?}"
        );
        let now = talk.user("alice");
        assert_eq!(talk.put(&now, "k"), Err(DENIED), "{removal:?}");
        assert_eq!(talk.range(&now, "k", ""), Err(DENIED), "{removal:?}");
    }
}

#[test]
fn while_authentication_is_off_credentials_do_not_count() {
    let (mut talk, alice) = alice_with(&[]);
    talk.root(disable()).expect("root may");
    for asker in [Asker::Anybody, alice, talk.user("nobody")] {
        assert!(talk.put(&asker, "k").is_ok());
        assert!(talk.range(&asker, "k", "").is_ok());
    }
}
