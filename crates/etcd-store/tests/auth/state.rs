//! Users and roles as a part of the state: snapshots, payloads, commands ahead of their decision.

use super::*;
use quorate_core::Payload;

fn filled() -> Conversation {
    let mut talk = Conversation::with_users();
    talk.root(user_add_without_password("cert")).expect("added");
    for number in 0..60 {
        let (role, user) = (format!("role{number:02}"), format!("user{number:02}"));
        talk.root(role_add(&role)).expect("added");
        talk.root(user_add(&user)).expect("added");
        talk.root(grant_role(&user, &role)).expect("granted");
        let kind = [
            PermissionType::Read,
            PermissionType::Write,
            PermissionType::Readwrite,
        ];
        let key = format!("key{number:02}");
        talk.root(grant(&role, kind[number % 3], &key, ""))
            .expect("granted");
        talk.root(grant(&role, PermissionType::Read, &key, "z"))
            .expect("granted");
    }
    let root = talk.user("root");
    talk.put(&root, "key05").expect("root may");
    talk
}

fn pieces(store: &mut Store, bytes: usize) -> Vec<Bytes> {
    let mut cut = store.cut();
    let mut pieces = Vec::new();
    while let Some(piece) = store.piece(&mut cut, bytes) {
        pieces.push(piece);
    }
    pieces
}

fn load(pieces: &[Bytes]) -> Result<Store, String> {
    let mut store = Store::new();
    for piece in pieces {
        store.load(piece.clone())?;
    }
    store.loaded()?;
    Ok(store)
}

fn board(store: &Store) -> (bool, u64) {
    let board = store.board();
    (board.is_enabled(), board.revision())
}

fn status(talk: &Conversation) -> (bool, u64) {
    let state = talk.store.users();
    (state.is_enabled(), state.revision())
}

/// A replica that is behind fetches a snapshot and goes on applying what it gets meanwhile.
#[test]
fn faces_see_users_of_a_snapshot_once_it_is_installed() {
    let mut behind = Conversation::with_users();
    let token = TokenGrant {
        name: "alice".to_owned(),
        digest: Bytes::from_static(&[1; 32]),
        revision: behind.auth_revision(),
    };
    let root = behind.user("root");
    behind
        .change(&root, AuthChange::GrantToken(token))
        .expect("granted");
    let seen = behind.store.board();
    let knows_token = || seen.user_of_token(&[1; 32], 1, u64::MAX).is_some();
    let mut ahead = filled();
    let mut loading = behind.store.empty();
    for piece in pieces(&mut ahead.store, 100) {
        loading.load(piece).expect("it was just written");
    }
    loading.loaded().expect("it was just written");
    assert_eq!(board(&behind.store), status(&behind));
    assert!(knows_token());
    behind.root(role_add("meanwhile")).expect("added");
    assert_eq!(board(&behind.store), status(&behind));
    loading.installed();
    assert_eq!(board(&loading), status(&ahead));
    assert_eq!(seen.state(), ahead.store.users());
    assert!(!knows_token(), "its user may have got another password");
}

#[test]
fn a_snapshot_has_users_roles_and_what_follows_from_them() {
    let mut talk = filled();
    let whole = pieces(&mut talk.store, usize::MAX).concat();
    for bytes in [1, 40, 300, usize::MAX] {
        let pieces = pieces(&mut talk.store, bytes);
        let mut loaded = load(&pieces).expect("it was just written");
        loaded.installed();
        let mut copy = Conversation {
            store: loaded,
            slot: talk.slot,
        };
        let again = self::pieces(&mut copy.store, usize::MAX).concat();
        assert_eq!(again, whole, "in pieces of {bytes} bytes");
        assert_eq!(copy.auth_revision(), talk.auth_revision());
        let user = copy.user("user05");
        assert!(copy.range(&user, "key05", "").is_ok());
        assert_eq!(
            copy.range(&user, "key04", ""),
            Err(Refused::PermissionDenied)
        );
        assert_eq!(copy.put(&Asker::Anybody, "key05"), Err(Refused::UserEmpty));
        match copy.ask(&Asker::Anybody, Query::Board) {
            Ok(QueryAnswer::Board(board)) => {
                assert!(board.is_enabled());
                assert_eq!(board.revision(), talk.auth_revision());
            }
            other => panic!("not a board: {other:?}"),
        }
    }
}

#[test]
fn a_snapshot_is_of_the_moment_of_its_cut() {
    let mut talk = filled();
    let before = pieces(&mut talk.store, usize::MAX).concat();
    let mut cut = talk.store.cut();
    let mut taken = Vec::new();
    for number in 0.. {
        let Some(piece) = talk.store.piece(&mut cut, 100) else {
            break;
        };
        taken.push(piece);
        let _ = talk.root(user_add(&format!("later{number}")));
    }
    let copy = load(&taken).expect("it was just written");
    let mut copy = Conversation {
        store: copy,
        slot: 0,
    };
    assert_eq!(pieces(&mut copy.store, usize::MAX).concat(), before);
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut talk = Conversation::with_users();
    let pieces = pieces(&mut talk.store, usize::MAX);
    for (number, piece) in pieces.iter().enumerate() {
        for at in 0..piece.len() {
            let mut damaged = piece.to_vec();
            damaged[at] ^= 0x10;
            let mut all = pieces.clone();
            all[number] = damaged.into();
            assert!(load(&all).is_err(), "byte {at} of piece {number}");
        }
    }
}

#[test]
fn a_store_that_never_had_users_writes_what_older_programs_read() {
    let mut talk = Conversation::new();
    talk.put(&Asker::Anybody, "k")
        .expect("authentication is off");
    let plain = pieces(&mut talk.store, usize::MAX).concat();
    for kind in [10, 11, 12, 13] {
        let head = &plain[..6];
        assert!(!head.contains(&kind), "{head:?}");
    }
    talk.change(&Asker::Anybody, user_add("alice"))
        .expect("added");
    assert_ne!(pieces(&mut talk.store, usize::MAX).concat(), plain);
}

#[test]
fn a_users_command_may_have_payloads() {
    let mut talk = Conversation::with_users();
    talk.root(grant("reader", PermissionType::Write, "k", ""))
        .expect("granted");
    let alice = talk.user("alice");
    let request = PutRequest {
        value: bytes("a long value"),
        ..put("k")
    };
    let (body, payloads) = command::split_put(request.clone(), Some(4));
    let signed = alice.sign(body);
    let names: Vec<Payload> = payloads.clone();
    let result = talk.store.apply(At::default(), &signed, &names);
    assert!(decode_result(&result).is_ok());
    assert_eq!(talk.store.live(None, 9).len(), 1);
    let joined = (Store::COMMAND_PROPERTIES.join)(&signed, &payloads);
    assert_eq!(joined, Some(alice.sign(command::encode_put(&request))));
    // What was refused keeps no payload.
    let other = PutRequest {
        key: bytes("x"),
        ..request
    };
    let (body, payloads) = command::split_put(other, Some(4));
    let result = talk
        .store
        .apply(At::default(), &alice.sign(body), &payloads);
    assert_eq!(decode_result(&result), Err(Refused::PermissionDenied));
    assert_eq!(talk.store.live(None, 9).len(), 1);
}

#[test]
fn who_asks_changes_nothing_of_what_a_command_is_to_the_host() {
    let alice = Conversation::new().user("alice");
    let bodies = [
        command::encode_put(&put("k")),
        command::encode_delete_range(&delete("k", "")),
        command::encode_auth(&user_add("x")),
    ];
    let store = Store::new();
    for body in bodies {
        let signed = alice.sign(body.clone());
        let grows = Store::COMMAND_PROPERTIES.grows;
        assert_eq!(grows(&signed), grows(&body));
        assert_eq!(store.is_retractable(&signed), store.is_retractable(&body));
    }
    assert!(!store.is_retractable(&command::encode_auth(&user_add("x"))));
}

#[test]
fn a_users_command_can_be_taken_back() {
    let mut talk = Conversation::with_users();
    talk.root(grant("reader", PermissionType::Write, "k", ""))
        .expect("granted");
    let alice = talk.user("alice");
    let before = pieces(&mut talk.store, usize::MAX);
    for key in ["k", "x"] {
        let body = alice.sign(command::encode_put(&put(key)));
        talk.store.attempt(At::default(), &body);
        talk.store.retract();
    }
    assert_eq!(pieces(&mut talk.store, usize::MAX), before);
}
