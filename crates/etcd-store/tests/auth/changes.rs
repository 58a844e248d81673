//! Changes of users and roles, with etcd's refusals.

use super::*;
use prost::Message;
use quorate_etcd_api::etcdserverpb::AuthenticateResponse;
use quorate_etcd_store::TokenGrant;

/// What a change comes to: by how much the auth revision rises, or why it does not.
fn outcome(talk: &mut Conversation, change: AuthChange) -> Result<u64, Refused> {
    let before = talk.auth_revision();
    let changed = talk.change(&Asker::Server, change);
    let rise = talk.auth_revision() - before;
    assert!(changed.is_ok() || rise == 0, "a refusal changes nothing");
    changed.map(|_| rise)
}

#[test]
fn authentication_needs_a_user_root_with_the_role_root() {
    let mut talk = Conversation::new();
    assert_eq!(talk.auth_revision(), 1);
    let mut say = |change| outcome(&mut talk, change);
    assert_eq!(say(enable()), Err(Refused::RootUserNotExist));
    assert_eq!(say(user_add("root")), Ok(1));
    assert_eq!(say(enable()), Err(Refused::RootRoleNotExist));
    assert_eq!(
        say(grant_role("root", "root")),
        Ok(1),
        "the role need not be added"
    );
    assert_eq!(say(enable()), Ok(0));
    assert_eq!(say(enable()), Ok(0), "it is on already");
    assert_eq!(say(disable()), Ok(1));
    assert_eq!(say(disable()), Ok(0), "it is off already");
    assert_eq!(talk.auth_revision(), 4);
}

#[test]
fn changes_of_users_follow_the_rules_of_etcd() {
    let mut talk = Conversation::new();
    let mut say = |change| outcome(&mut talk, change);
    assert_eq!(say(user_add("")), Err(Refused::UserEmpty));
    assert_eq!(say(user_add("alice")), Ok(1));
    assert_eq!(say(user_add("alice")), Err(Refused::UserExists));
    assert_eq!(say(grant_role("bob", "r")), Err(Refused::UserNotFound));
    assert_eq!(say(grant_role("alice", "r")), Err(Refused::RoleNotFound));
    assert_eq!(say(revoke_role("bob", "r")), Err(Refused::UserNotFound));
    assert_eq!(say(revoke_role("alice", "r")), Err(Refused::RoleNotGranted));
    assert_eq!(say(role_add("r")), Ok(1));
    assert_eq!(say(grant_role("alice", "r")), Ok(1));
    assert_eq!(
        say(grant_role("alice", "r")),
        Ok(0),
        "the user has it already"
    );
    assert_eq!(say(revoke_role("alice", "r")), Ok(1));
    assert_eq!(say(change_password("bob", "h")), Err(Refused::UserNotFound));
    assert_eq!(say(change_password("alice", "h")), Ok(1));
    assert_eq!(say(user_delete("bob")), Err(Refused::UserNotFound));
    assert_eq!(say(user_delete("alice")), Ok(1));
}

#[test]
fn changes_of_roles_follow_the_rules_of_etcd() {
    use PermissionType::{Read, Write};
    let mut talk = Conversation::new();
    let mut say = |change| outcome(&mut talk, change);
    assert_eq!(say(role_add("")), Err(Refused::RoleEmpty));
    assert_eq!(say(role_add("r")), Ok(1));
    assert_eq!(say(role_add("r")), Err(Refused::RoleExists));
    assert_eq!(say(grant("s", Read, "a", "")), Err(Refused::RoleNotFound));
    assert_eq!(say(grant("r", Read, "", "")), Err(Refused::InvalidAuthMgmt));
    assert_eq!(
        say(grant("r", Read, "b", "a")),
        Err(Refused::InvalidAuthMgmt)
    );
    let nothing = AuthRoleGrantPermissionRequest {
        name: "r".to_owned(),
        perm: None,
    };
    let nothing = AuthChange::RoleGrantPermission(nothing);
    assert_eq!(say(nothing), Err(Refused::PermissionNotGiven));
    assert_eq!(say(grant("r", Read, "a", "c")), Ok(1));
    assert_eq!(
        say(grant("r", Write, "a", "c")),
        Ok(1),
        "in the place of the former"
    );
    assert_eq!(say(revoke("s", "a", "c")), Err(Refused::RoleNotFound));
    assert_eq!(
        say(revoke("r", "a", "b")),
        Err(Refused::PermissionNotGranted)
    );
    assert_eq!(say(revoke("r", "a", "c")), Ok(1));
    assert_eq!(
        say(revoke("r", "a", "c")),
        Err(Refused::PermissionNotGranted)
    );
    assert_eq!(say(role_delete("s")), Err(Refused::RoleNotFound));
    assert_eq!(say(role_delete("r")), Ok(1));
}

#[test]
fn nobody_can_lock_everybody_out() {
    let mut talk = Conversation::with_users();
    talk.root(role_add("root")).expect("the name is free");
    for change in [
        user_delete("root"),
        revoke_role("root", "root"),
        role_delete("root"),
    ] {
        assert_eq!(outcome(&mut talk, change), Err(Refused::InvalidAuthMgmt));
    }
    talk.root(disable()).expect("root may");
    for change in [
        revoke_role("root", "root"),
        role_delete("root"),
        user_delete("root"),
    ] {
        assert_eq!(outcome(&mut talk, change), Ok(1), "while it is off");
    }
}

#[test]
fn a_deleted_role_is_nobodys() {
    let mut talk = Conversation::with_users();
    talk.root(grant("reader", PermissionType::Read, "k", ""))
        .expect("granted");
    let alice = talk.user("alice");
    assert!(talk.range(&alice, "k", "").is_ok());
    talk.root(role_delete("reader")).expect("deleted");
    let alice = talk.user("alice");
    assert_eq!(talk.range(&alice, "k", ""), Err(Refused::PermissionDenied));
    let asked = talk.ask(&alice, Query::Auth(AuthQuery::User("alice".to_owned())));
    let names = AuthAnswer::Names(Vec::new());
    assert_eq!(asked, Ok(QueryAnswer::Auth(1, names)));
}

fn token(name: &str, digest: u8, revision: u64) -> AuthChange {
    AuthChange::GrantToken(TokenGrant {
        name: name.to_owned(),
        digest: Bytes::from(vec![digest; 32]),
        revision,
    })
}

fn board(talk: &Conversation) -> std::sync::Arc<quorate_etcd_store::AuthBoard> {
    match talk.ask(&Asker::Anybody, Query::Board) {
        Ok(QueryAnswer::Board(board)) => board,
        other => panic!("not a board: {other:?}"),
    }
}

#[test]
fn a_token_is_granted_under_the_revision_at_which_the_password_was_checked() {
    let mut talk = Conversation::with_users();
    let now = talk.auth_revision();
    let mut say = |change| talk.change(&Asker::Anybody, change);
    assert_eq!(
        say(token("alice", 1, now - 1)),
        Err(Refused::AuthOldRevision)
    );
    assert_eq!(say(token("nobody", 1, now)), Err(Refused::AuthFailed));
    let granted = say(token("alice", 1, now)).expect("granted");
    let granted = AuthenticateResponse::decode(granted).expect("encoded by the store");
    assert_eq!(
        granted.token,
        (talk.slot - 1).to_string(),
        "the slot of the grant"
    );
    talk.root(user_add_without_password("cert")).expect("added");
    let now = talk.auth_revision();
    let asked = talk.change(&Asker::Anybody, token("cert", 2, now));
    assert_eq!(
        asked,
        Err(Refused::AuthFailed),
        "it has no password that could fit"
    );
    talk.root(disable()).expect("root may");
    let asked = talk.change(&Asker::Anybody, token("alice", 3, now + 1));
    assert_eq!(asked, Err(Refused::AuthNotEnabled));
}

#[test]
fn tokens_end_with_the_user_the_password_or_authentication() {
    let ends = [
        user_delete("alice"),
        change_password("alice", "other"),
        disable(),
    ];
    for end in ends {
        let mut talk = Conversation::with_users();
        let (now, board) = (talk.auth_revision(), board(&talk));
        let granted = talk.change(&Asker::Anybody, token("alice", 1, now));
        granted.expect("granted");
        let known = || board.user_of_token(&[1; 32], 1, u64::MAX);
        assert_eq!(known().as_deref(), Some("alice"));
        talk.root(grant_role("alice", "reader")).expect("granted");
        assert!(known().is_some(), "rights may change under a token");
        talk.root(end.clone()).expect("root may");
        assert_eq!(known(), None, "{end:?}");
    }
}

#[test]
fn what_a_password_is_checked_against() {
    let mut talk = Conversation::with_users();
    talk.root(user_add_without_password("cert")).expect("added");
    let login = |name: &str| {
        let name = name.to_owned();
        talk.ask(&Asker::Anybody, Query::Login { name })
    };
    match login("alice") {
        Ok(QueryAnswer::Login(found)) => {
            assert_eq!(
                (&*found.hash, found.revision),
                ("hash of alice", talk.auth_revision())
            );
            assert!(!format!("{found:?}").contains("hash of"));
        }
        other => panic!("not a login: {other:?}"),
    }
    assert_eq!(login("nobody"), Err(Refused::AuthFailed));
    assert_eq!(login("cert"), Err(Refused::NoPasswordUser));
    let off = Conversation::new().ask(
        &Asker::Anybody,
        Query::Login {
            name: "alice".to_owned(),
        },
    );
    assert_eq!(off, Err(Refused::AuthNotEnabled));
}
