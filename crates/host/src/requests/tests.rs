//! The way of single requests.

use super::*;
use quorate_core::Join;

#[test]
fn a_command_asked_for_again_and_again_is_queued_once() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    let (submitted_ns, ordered_ns) = (5, 0);
    let id = RequestId {
        client: ClientId(9),
        seq: 3,
    };
    for token in 0..100 {
        let waiting = Waiting {
            token,
            submitted_ns,
            ordered_ns,
        };
        let command = Command {
            id,
            acked: 0,
            class: Class::Write,
            principal: Principal::default(),
            body: Bytes::new(),
            payloads: Vec::new(),
        };
        requests.command(waiting, command);
    }
    assert_eq!(requests.queued(), 1);
    assert_eq!(requests.take(8, 6).len(), 1);
    assert_eq!(
        requests.take_write(id).map(|waiting| waiting.token),
        Some(99)
    );
}

#[test]
fn what_a_countdown_has_come_to_waits_once_and_may_be_asked_for_again_then() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    requests.set_session(OwnSession::Open);
    let (one, two) = (Bytes::from_static(b"one"), Bytes::from_static(b"two"));
    requests.due(1, one.clone());
    requests.due(2, one.clone());
    requests.due(2, two);
    let taken = requests.take(8, 3);
    assert_eq!(taken.len(), 2);
    requests.due(4, one.clone());
    assert_eq!((requests.queued(), requests.count()), (0, 2));
    let waited = requests
        .take_write(taken[0].id)
        .map(|waiting| waiting.token);
    assert_eq!(waited, Some(NOBODY));
    requests.due(5, one.clone());
    assert_eq!((requests.queued(), requests.count()), (1, 2));
    requests.take_all(Refusal::Unknown);
    requests.due(6, one);
    assert_eq!((requests.queued(), requests.count()), (1, 1));
}

#[test]
fn what_a_sealed_epoch_did_not_answer_is_asked_again_under_its_id() {
    let mut requests = Requests::new(ReplicaId(1), Boot(7));
    let waiting = |token| Waiting {
        token,
        submitted_ns: 0,
        ordered_ns: 0,
    };
    let body = Bytes::from_static(b"w");
    requests.set_session(OwnSession::Open);
    requests.write(waiting(1), (body.clone(), Vec::new()), Principal::default());
    requests.read(waiting(2), 'a');
    requests.read(waiting(3), 'b');
    let taken = requests.take(8, 5);
    assert_eq!(taken.len(), 3);
    requests.locate(taken[1].id, Slot(9));
    requests.locate(taken[2].id, Slot(10));
    requests.write(waiting(4), (body, Vec::new()), Principal::default());
    assert!(requests.start_over(Slot(10), true).is_empty());
    let due: Vec<Token> = requests
        .take_located(Slot(10))
        .iter()
        .map(|r| r.waiting.token)
        .collect();
    assert_eq!(due, [2], "it asks for nothing behind the seal");
    let again = requests.take(8, 6);
    let tokens: Vec<_> = again.iter().map(|c| requests.token_of(c.id)).collect();
    assert_eq!(tokens, [Some(1), Some(3), Some(4)]);
    assert_eq!(again[0].id, taken[0].id);
    assert!(requests.start_over(Slot(10), true).is_empty());
    assert_eq!(
        requests.take(8, 7).len(),
        3,
        "as often as epochs are sealed"
    );
}

#[test]
fn writes_that_wait_move_to_a_new_session_when_the_own_one_is_lost() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    let body = Bytes::from_static(b"w");
    let waiting = |token| Waiting {
        token,
        submitted_ns: 0,
        ordered_ns: 0,
    };
    requests.write(waiting(1), (body.clone(), Vec::new()), Principal::default());
    let lost = requests.take(8, 0)[0].id.client;
    requests.set_session(OwnSession::Open);
    let sent = requests.take(8, 0)[0].id;
    requests.write(waiting(2), (body, Vec::new()), Principal::default());
    requests.session_lost(lost);
    let opening = requests.take(8, 0);
    assert_eq!((opening.len(), opening[0].class), (1, Class::OpenSession));
    assert_ne!(opening[0].id.client, lost);
    requests.set_session(OwnSession::Open);
    let moved = requests.take(8, 0)[0].id;
    assert_eq!(moved.client, opening[0].id.client);
    let tokens = [sent, moved].map(|id| requests.take_write(id).map(|waiting| waiting.token));
    assert_eq!(tokens, [Some(1), Some(2)]);
}

/// Scenario: the machine has two writes and a third waits when the first comes to its turn and its session has ended,
/// for the opening of an earlier boot's was decided late. None of them was executed: all go on under a new session, in
/// order.
#[test]
fn writes_whose_session_had_ended_at_their_turn_go_on_under_another() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    let write = |requests: &mut Requests<()>, token| {
        let waiting = Waiting {
            token,
            submitted_ns: 0,
            ordered_ns: 0,
        };
        let content = (Bytes::from_static(b"w"), Vec::new());
        requests.write(waiting, content, Principal::default());
    };
    requests.set_session(OwnSession::Open);
    write(&mut requests, 1);
    write(&mut requests, 2);
    let ended = requests.take(8, 5)[0].id.client;
    write(&mut requests, 3);
    requests.session_ended(ended);
    let opening = requests.take(8, 6);
    assert_eq!((opening.len(), opening[0].class), (1, Class::OpenSession));
    requests.set_session(OwnSession::Open);
    let again = requests.take(8, 7);
    assert!(again.iter().all(|command| command.acked == 0));
    let tokens: Vec<_> = again.iter().map(|one| requests.token_of(one.id)).collect();
    assert_eq!(tokens, [Some(1), Some(2), Some(3)]);
    assert!(
        again
            .iter()
            .all(|one| one.id.client == opening[0].id.client)
    );
}

/// Scenario: the second of two writes is answered ahead of its decision, and so is the first, later. What
/// commutes with them could still be decided before them.
#[test]
fn what_is_answered_and_not_decided_is_not_acknowledged() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    let waiting = Waiting {
        token: 1,
        submitted_ns: 0,
        ordered_ns: 0,
    };
    let acked = |requests: &mut Requests<()>| {
        let body = Bytes::from_static(b"w");
        requests.write(waiting, (body, Vec::new()), Principal::default());
        let taken = requests.take(8, 5);
        (taken[0].id, taken[0].acked)
    };
    requests.set_session(OwnSession::Open);
    let (first, none) = acked(&mut requests);
    let (second, _) = acked(&mut requests);
    assert_eq!(none, 0);
    assert!(requests.take_early(second).is_some());
    assert!(requests.take_early(first).is_some());
    let (third, still_none) = acked(&mut requests);
    assert_eq!(still_none, 0);
    requests.decided(first);
    assert_eq!(acked(&mut requests).1, first.seq);
    requests.decided(second);
    assert_eq!(acked(&mut requests).1, second.seq);
    assert_eq!(third.seq, second.seq + 1);
}

#[test]
fn payloads_go_inside_where_there_is_room_and_the_others_are_refused() {
    let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
    let waiting = |token| Waiting {
        token,
        submitted_ns: 5,
        ordered_ns: 0,
    };
    let body = || Bytes::from_static(b"is ");
    for (token, len) in [(1, 5), (2, 6)] {
        let payload = Payload::of(Bytes::from(vec![b'x'; len]));
        requests.write(
            waiting(token),
            (body(), vec![payload]),
            Principal::default(),
        );
    }
    requests.set_session(OwnSession::Open);
    let mut commands = requests.take(8, 6);
    let join: Join = |body, payloads| {
        let parts = payloads.iter().filter_map(|payload| payload.bytes.as_ref());
        let parts: Vec<&[u8]> = parts.map(|bytes| &bytes[..]).collect();
        Some(Bytes::from([&body[..], &parts.concat()].concat()))
    };
    assert_eq!(requests.put_inside(&mut commands, 8, join), [2]);
    let writes = commands
        .iter()
        .filter(|command| command.class == Class::Write);
    let writes: Vec<(&[u8], usize)> = writes
        .map(|command| (&command.body[..], command.payloads.len()))
        .collect();
    assert_eq!(writes, [(&b"is xxxxx"[..], 0)]);
}

/// Scenario: a write that the machine has and one that it has not, a read that it has, one whose slot is known,
/// and something that the replica asks by itself; nobody waits any more.
#[test]
fn what_nobody_waits_for_is_dropped_unless_the_machine_has_it() {
    let mut requests = Requests::new(ReplicaId(1), Boot(7));
    let waiting = |token| Waiting {
        token,
        submitted_ns: 0,
        ordered_ns: 0,
    };
    let write = |requests: &mut Requests<char>, token| {
        let body = Bytes::from_static(b"write");
        requests.write(waiting(token), (body, Vec::new()), Principal::default());
    };
    requests.set_session(OwnSession::Open);
    write(&mut requests, 1);
    requests.read(waiting(2), 'a');
    requests.read(waiting(3), 'b');
    let taken = requests.take(8, 5);
    requests.locate(taken[2].id, Slot(9));
    write(&mut requests, 4);
    write(&mut requests, 5);
    requests.read(waiting(6), 'c');
    requests.due(5, Bytes::from_static(b"due"));
    assert_eq!((requests.count(), requests.bytes()), (7, 18));

    let withdrawn = requests.withdraw(|token| token == 5);
    let gone = [2, 6, 3, 4].map(|token| (token, Refusal::Withdrawn));
    assert_eq!(withdrawn.gone, gone);
    assert_eq!(withdrawn.taken, BTreeSet::from([taken[0].id, taken[1].id]));
    assert_eq!((requests.count(), requests.bytes()), (3, 13));
    let again = requests.withdraw(|token| token == 5);
    assert!(again.gone.is_empty() && again.taken.is_empty(), "{again:?}");

    let left = requests.take(8, 6);
    let tokens: Vec<_> = left.iter().map(|c| requests.token_of(c.id)).collect();
    assert_eq!(tokens, [Some(5), Some(NOBODY)]);
    assert!(
        left.iter().all(|command| command.acked < taken[0].id.seq),
        "what may be decided yet is not acknowledged"
    );
}

/// Scenario: a machine has two writes, nobody waits for the first any more, and it ends: its epoch is sealed, or it is
/// to begin again and what it had may be decided yet. Then nobody waits for the second.
#[test]
fn what_is_withdrawn_is_not_asked_again_and_what_was_offered_once_stays_doubtful() {
    for (is_void, refusal) in [(true, Refusal::Withdrawn), (false, Refusal::Unknown)] {
        let mut requests = Requests::<()>::new(ReplicaId(1), Boot(7));
        let body = Bytes::from_static(b"w");
        requests.set_session(OwnSession::Open);
        for token in [1, 2] {
            let waiting = Waiting {
                token,
                submitted_ns: 0,
                ordered_ns: 0,
            };
            requests.write(waiting, (body.clone(), Vec::new()), Principal::default());
        }
        assert_eq!(requests.take(8, 5).len(), 2);
        assert_eq!(requests.withdraw(|token| token == 2).taken.len(), 1);
        assert_eq!(requests.start_over(Slot(3), is_void), [(1, refusal)]);
        assert_eq!((requests.queued(), requests.count()), (1, 1));
        assert_eq!(requests.withdraw(|_| false).gone, [(2, refusal)]);
        assert_eq!((requests.queued(), requests.count()), (0, 0));
    }
}
