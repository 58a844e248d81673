//! Users get rights and lose them while they ask.

use super::*;
use crate::judge::{Refusal, Sight, check_with_sights};
use quorate_etcd_api::authpb::{Permission, PermissionType};
use quorate_etcd_api::errors::{self, Error};
use quorate_etcd_api::etcdserverpb::{
    AuthDisableRequest, AuthEnableRequest, AuthRoleAddRequest, AuthRoleGrantPermissionRequest,
    AuthRoleRevokePermissionRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
};
use quorate_etcd_store::{AuthChange, Identity};

/// The client that changes users.
const ADMINISTRATOR: usize = 1_000;
/// When the changes of [`Story::with_alice`] are over.
const READY: u64 = 100;
/// The auth revision that they lead to.
const READY_REVISION: u64 = 7;

fn user(name: &str, revision: u64) -> Asker {
    Asker::User(Identity {
        name: name.into(),
        revision,
    })
}

/// Alice, with a token that is good for ever.
fn alice() -> Asker {
    user("alice", u64::MAX)
}

fn grant(key: &str, end: &str, kind: PermissionType) -> AuthChange {
    AuthChange::RoleGrantPermission(AuthRoleGrantPermissionRequest {
        name: "r".to_owned(),
        perm: Some(Permission {
            perm_type: kind as i32,
            key: bytes(key),
            range_end: bytes(end),
        }),
    })
}

fn take(key: &str, end: &str) -> AuthChange {
    AuthChange::RoleRevokePermission(AuthRoleRevokePermissionRequest {
        role: "r".to_owned(),
        key: bytes(key),
        range_end: bytes(end),
    })
}

fn enable() -> AuthChange {
    AuthChange::Enable(AuthEnableRequest {})
}

fn disable() -> AuthChange {
    AuthChange::Disable(AuthDisableRequest {})
}

/// What makes alice a user with the right to write and read from `a` on and before `c`.
fn first_changes() -> Vec<AuthChange> {
    let add = |name: &str| {
        AuthChange::UserAdd(AuthUserAddRequest {
            name: name.to_owned(),
            ..AuthUserAddRequest::default()
        })
    };
    let give = |user: &str, role: &str| {
        AuthChange::UserGrantRole(AuthUserGrantRoleRequest {
            user: user.to_owned(),
            role: role.to_owned(),
        })
    };
    let role = AuthChange::RoleAdd(AuthRoleAddRequest {
        name: "r".to_owned(),
    });
    vec![
        add("root"),
        give("root", "root"),
        add("alice"),
        role,
        give("alice", "r"),
        grant("a", "c", PermissionType::Readwrite),
        enable(),
    ]
}

impl Story {
    /// One that begins with a user.
    fn with_alice() -> Self {
        let changes = first_changes().into_iter().zip(1..);
        let story = changes.fold(Story::default(), |story, (change, at)| {
            story.auth([10 * at, 10 * at + 5], change, 1)
        });
        story.get([80, 81], "z", 1, 1).by(user("root", u64::MAX))
    }

    /// The administrator changes users while the keys are at a revision.
    fn auth(self, span: [u64; 2], change: AuthChange, at: i64) -> Self {
        let mut story = self.op(span, Request::Auth(change), at, Response::Auth);
        story = story.by(user("root", u64::MAX));
        story.ops.last_mut().unwrap().client = ADMINISTRATOR;
        story
    }

    /// The administrator looks what there is.
    fn status(self, span: [u64; 2], enabled: bool, revision: u64) -> Self {
        let told = Response::AuthStatus(enabled, revision);
        let mut story = self.op(span, Request::AuthStatus, 1, told);
        story = story.by(user("root", u64::MAX));
        story.ops.last_mut().unwrap().client = ADMINISTRATOR;
        story
    }

    fn refused(self, span: [u64; 2], request: Request, why: Error) -> Self {
        self.op(span, request, 0, Response::Refused(Refusal::Auth(why)))
    }

    /// Alice is refused a read of a key.
    fn denied(self, span: [u64; 2], key: &str) -> Self {
        let read = Request::Range(range(key, ""));
        self.refused(span, read, errors::PERMISSION_DENIED)
            .by(alice())
    }

    /// Alice reads a key that was never there.
    fn served(self, span: [u64; 2], key: &str) -> Self {
        self.get(span, key, 1, 1).by(alice())
    }
}

/// A watch from `a` on and before `c`, which alice has and which is told something, or ends.
fn sight(stamp: u64, revision: i64, refused: Option<Error>) -> Sight {
    Sight {
        asker: alice(),
        key: bytes("a"),
        range_end: bytes("c"),
        stamp,
        revision,
        refused,
    }
}

#[test]
fn whoever_has_the_right_is_served_and_nobody_else() {
    let story = || Story::with_alice();
    story().served([READY, 101], "b").good();
    story().served([READY, 101], "c").bad("no rights explain");
    story().denied([READY, 101], "c").good();
    story().denied([READY, 101], "b").bad("no rights explain");
    let stranger = story().get([READY, 101], "b", 1, 1);
    stranger.bad("no rights explain");
    let late = story().get([READY, 101], "b", 1, 1);
    late.by(user("alice", READY_REVISION - 1))
        .bad("no rights explain");
    let late = story().refused(
        [READY, 101],
        Request::Range(range("b", "")),
        errors::AUTH_OLD_REVISION,
    );
    late.by(user("alice", READY_REVISION - 1)).good();
}

#[test]
fn a_right_counts_from_its_grant_to_its_end() {
    let taken = || Story::with_alice().auth([110, 120], take("a", "c"), 1);
    taken().served([105, 108], "b").good();
    taken().served([105, 115], "b").good();
    taken().denied([105, 115], "b").good();
    taken().denied([121, 125], "b").good();
    taken().served([121, 125], "b").bad("no rights explain");
    taken().denied([105, 108], "b").bad("no rights explain");
    let again = || taken().auth([130, 140], grant("b", "", PermissionType::Read), 1);
    again().served([135, 136], "b").good();
    again().denied([141, 145], "b").bad("no rights explain");
    again().served([125, 128], "b").bad("no rights explain");
}

#[test]
fn all_answers_take_one_order() {
    let taken = || Story::with_alice().auth([110, 150], take("a", "c"), 1);
    let first = taken().served([111, 115], "b").denied([116, 120], "b");
    first.good();
    let first = taken().denied([111, 115], "b").served([116, 120], "b");
    first.bad("no rights explain");
}

#[test]
fn revisions_say_what_came_first() {
    let story = || {
        Story::with_alice()
            .told(&[("a", Some("1"))])
            .told(&[("b", Some("2"))])
            .put([READY, 103], "a", "1", 2)
            .by(alice())
            .auth([110, 150], take("a", "c"), 2)
    };
    story()
        .put([111, 149], "b", "2", 3)
        .by(user("root", u64::MAX))
        .good();
    story()
        .put([111, 149], "b", "2", 3)
        .by(alice())
        .bad("no rights explain");
    // Nobody was told of the second put, but it was made.
    let lost = |asker| story().put_unknown(111, "b", "2").by(asker);
    lost(user("root", u64::MAX)).good();
    lost(alice()).bad("nobody asked for");
}

#[test]
fn parts_of_a_request_take_rights_of_their_own() {
    let story = || {
        let story = Story::with_alice().auth([90, 95], grant("w", "", PermissionType::Write), 1);
        story.told(&[("w", Some("1"))])
    };
    let put = || PutRequest {
        prev_kv: true,
        ..put("w", "1")
    };
    let done = || Response::Put(PutResponse::default());
    let served = story().op([READY, 101], Request::Put(put()), 2, done());
    served.by(alice()).bad("no rights explain");
    let inner = TxnRequest {
        success: vec![part(Part::RequestRange(range("w", "")))],
        ..TxnRequest::default()
    };
    let outer = TxnRequest {
        success: vec![part(Part::RequestTxn(inner))],
        ..TxnRequest::default()
    };
    let refused = |why| {
        let story = Story::with_alice().refused([READY, 101], Request::Txn(outer.clone()), why);
        story.by(alice())
    };
    refused(errors::PERMISSION_DENIED).good();
    refused(errors::USER_EMPTY).bad("no rights explain");
}

#[test]
fn the_keys_of_a_lease_count_as_they_are_then() {
    let story = || {
        Story::with_alice()
            .told_leased(&[("z", Some("1"))], 7)
            .op(
                [READY, 101],
                Request::Put(PutRequest {
                    lease: 7,
                    ..put("z", "1")
                }),
                2,
                Response::Put(PutResponse::default()),
            )
            .by(user("root", u64::MAX))
    };
    let renew = |story: Story, response, at| {
        let story = story.op([110, 111], Request::Renew(7), at, response);
        story.by(alice())
    };
    let denied = || Response::Refused(Refusal::Auth(errors::PERMISSION_DENIED));
    renew(story(), denied(), 0).good();
    renew(story(), Response::Renewed, 2).bad("no rights explain");
    renew(Story::with_alice(), Response::Renewed, 1).good();
    renew(Story::with_alice(), denied(), 0).bad("no rights explain");
    let ended = |asker| {
        let story = story().told(&[("z", None)]);
        let story = story.op([110, 111], Request::Revoke(7), 3, Response::Revoked);
        story.by(asker)
    };
    ended(user("root", u64::MAX)).good();
    ended(alice()).bad("no rights explain");
    // Nobody was told of what its keys went by, and alice has no right to any other.
    let emptied = |open: Request| {
        let story = story().told(&[("z", None)]);
        let story = story.op([105, 0], open, 0, Response::Revoked);
        let story = story.by(user("root", u64::MAX));
        let story = story.op([110, 111], Request::Revoke(7), 3, Response::Revoked);
        story.by(alice())
    };
    emptied(Request::Delete(delete("z", ""))).good();
    emptied(Request::Renew(8)).bad("no rights explain");
}

#[test]
fn a_change_without_an_answer_is_known_once_somebody_looks() {
    let doubtful = || Story::with_alice().auth([110, 0], take("a", "c"), 0);
    doubtful().served([120, 121], "b").good();
    doubtful().denied([120, 121], "b").good();
    let made = || doubtful().status([130, 131], true, READY_REVISION + 1);
    made().denied([132, 133], "b").good();
    made().served([132, 133], "b").bad("no rights explain");
    let lost = || doubtful().status([130, 131], true, READY_REVISION);
    lost().denied([132, 133], "b").bad("no rights explain");
    lost().served([132, 133], "b").good();
    doubtful()
        .status([130, 131], true, READY_REVISION + 2)
        .bad("there should be");
    doubtful()
        .auth([120, 121], disable(), 1)
        .bad("nobody knows what became");
}

#[test]
fn without_authentication_there_are_no_rights() {
    let story = || Story::with_alice().auth([110, 120], disable(), 1);
    story().get([121, 122], "z", 1, 1).good();
    story().denied([121, 122], "z").bad("no rights explain");
    let on = story().auth([130, 140], enable(), 1);
    on.get([141, 142], "z", 1, 1).bad("no rights explain");
}

#[test]
fn a_change_comes_to_what_there_is() {
    let story = Story::with_alice().auth([110, 120], take("x", ""), 1);
    story.bad("it should come to");
    let request = Request::Auth(take("x", ""));
    let refused = Story::with_alice().refused([110, 120], request, errors::PERMISSION_NOT_GRANTED);
    refused.by(user("root", u64::MAX)).good();
}

#[test]
fn a_watch_lasts_as_long_as_its_right() {
    let judged = |sight| {
        let story = Story::with_alice().auth([110, 120], take("a", "c"), 1);
        let story = story
            .told(&[("z", Some("1"))])
            .put([130, 131], "z", "1", 2)
            .by(user("root", u64::MAX));
        check_with_sights(&story.ops, &[sight], &story.journal)
    };
    let denied = Some(errors::PERMISSION_DENIED);
    assert!(judged(sight(105, 1, None)).is_ok());
    // A replica may be behind, as long as it is not further than the right was.
    assert!(judged(sight(140, 1, None)).is_ok());
    assert!(judged(sight(140, 2, None)).is_err());
    assert!(judged(sight(140, 2, denied)).is_ok());
    assert!(judged(sight(115, 1, denied)).is_ok());
    assert!(judged(sight(105, 1, denied)).is_err());
}
