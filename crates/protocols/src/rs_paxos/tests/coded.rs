//! Nasty schedules of coded values, one test each. Five members, of which any four elect a leader and
//! any three fragments rebuild a value, unless a test says otherwise.

use super::net::Net;
use super::schedules::a_commit_index_over_an_older_accept;
use crate::rs_paxos::{Accept, Ballot, Claim, Config, Fault, Message, Record, Timer};
use crate::shared::faults::Faults;
use quorate_core::{Entry, Input, Record as _, ReplicaId, RequestId, Slot, hollow_share};
use quorate_testkit::Body;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const E: usize = 4;

fn is_accept(_: usize, _: usize, message: &Message) -> bool {
    matches!(message, Message::Accept(_))
}

pub(super) fn five(edit: fn(&mut Config)) -> Net {
    let mut net = Net::coded(5, &[]);
    let mut configs: Vec<Config> = net.nodes.drain(..).map(|node| node.config).collect();
    configs.iter_mut().for_each(edit);
    Net::of(configs).led(A)
}

/// A value of A is chosen by A, B, C and D, which only A knows, and A is no more.
fn chosen_by_four(edit: fn(&mut Config)) -> (Net, RequestId) {
    let mut net = five(edit);
    let request = net.write_bulk(A);
    net.lose(|_, to, _| to == E);
    [B, C, D].into_iter().for_each(|to| net.pass(A, to));
    [B, C, D].into_iter().for_each(|from| net.pass(from, A));
    assert_eq!(net.times(A, request), 1);
    net.crash(A);
    net.lose(|_, _, _| true);
    net.hint(A, false);
    (net, request)
}

/// Codes of the accepts on a replica's disk, of values with payloads.
pub(super) fn codes(net: &Net, me: usize) -> Vec<u8> {
    let records = net.nodes[me].disk.iter().map(|(_, record)| record);
    let code = |record: &Record| match record {
        Record::Accept { code, .. } if record.entry().map_or(0, Entry::bulk_len) > 0 => Some(*code),
        _ => None,
    };
    records.filter_map(code).collect()
}

/// T1. B accepts the value again, at ballot 2 and alone. The promises of B, C, D and E show one
/// fragment of ballot 2 and two of ballot 1.
fn overwritten_by_the_same_value(edit: fn(&mut Config)) {
    let (mut net, request) = chosen_by_four(edit);
    net.fire(B, Timer::Election);
    net.run_losing(is_accept);
    assert!(net.leads(B) && net.branches.contains_key("payloads gathered"));
    net.crash(B);
    net.restart(B);
    net.hint(B, false);
    net.hint(B, true);
    net.elect(C);
    for me in [B, C, D, E] {
        assert_eq!(net.times(me, request), 1);
    }
    assert_eq!(
        net.names(C)[1].map(|id| id.origin),
        Some(ReplicaId(1)),
        "its name (T3)"
    );
}

#[test]
fn fragments_of_two_ballots_rebuild_a_value() {
    overwritten_by_the_same_value(|_| {});
}

#[test]
#[should_panic(expected = "one value is chosen per slot (I2)")]
fn fragments_counted_by_ballot_lose_a_chosen_value() {
    overwritten_by_the_same_value(|config| config.faults = Faults::only(Fault::CountByBallot));
}

/// T2. B proposes the value again at ballot 2 under X = 2, and accepts that alone.
fn overwritten_by_another_coding(edit: fn(&mut Config)) {
    let (mut net, request) = chosen_by_four(edit);
    net.fire(B, Timer::Election);
    net.run_but_gather(B);
    assert!(net.leads(B) && net.nodes[B].gathers.len() == 1);
    net.hint(E, false);
    net.lose(|_, _, _| true);
    assert!(net.gather(B));
    net.lose(is_accept);
    assert_eq!(codes(&net, B), [3, 2]);
    net.crash(B);
    net.lose(|_, _, _| true);
    net.restart(B);
    [B, E].into_iter().for_each(|me| net.hint(me, true));
    net.hint(B, false);
    net.hint(B, true);
    net.elect(C);
    assert_eq!((net.times(C, request), net.times(E, request)), (1, 1));
}

#[test]
fn another_coding_of_a_value_leaves_the_first() {
    overwritten_by_another_coding(|_| {});
}

#[test]
#[should_panic(expected = "one value is chosen per slot (I2)")]
fn without_the_retention_rule_a_chosen_value_is_lost() {
    overwritten_by_another_coding(|config| config.faults = Faults::only(Fault::DropFragments));
}

/// E hears of a value some slots ahead, but does not get its fragment. Nobody else hears of it, and E
/// leads next.
#[test]
fn a_slot_without_a_fragment_is_none_of_a_new_leader() {
    let mut net = five(|_| {});
    net.write_bulk(A);
    let sent = net.messages().find_map(|(_, to, message)| match message {
        Message::Accept(accept) if to == E => Some(accept.clone()),
        _ => None,
    });
    let mut bare = sent.expect("A proposes it to E");
    bare.is_attached = false;
    bare.slot.0 += 3;
    bare.value = bare.value.map(|entry| entry.with_share(None));
    net.lose(|_, _, _| true);
    net.hear(A, E, &Message::Accept(bare));
    assert!(net.branches.contains_key("fragment missing"));
    net.crash(A);
    net.lose(|_, _, _| true);
    net.hint(A, false);
    net.write(E);
    net.elect(E);
    assert!(net.leads(E));
}

/// T2. Whoever has all of a value needs no fragment of it.
#[test]
fn the_whole_is_not_replaced_by_a_fragment() {
    let mut net = five(|_| {});
    net.write_bulk(A);
    let sent = net.messages().find_map(|(_, to, message)| match message {
        Message::Accept(accept) if to == B => Some(accept.clone()),
        _ => None,
    });
    let sent = sent.expect("A proposes it to B");
    net.lose(|_, _, _| true);
    let again = |round, code, is_attached| {
        let node = ReplicaId(1);
        let ballot = Ballot { round, node };
        Message::Accept(Accept {
            ballot,
            code,
            is_attached,
            claim: Claim::default(),
            ..sent.clone()
        })
    };
    net.hear(A, B, &again(7, 1, true));
    net.hear(A, B, &again(8, 3, false));
    assert_eq!(net.count("lacks"), 0);
    net.hear(A, B, &again(9, 3, true));
    assert_eq!(
        codes(&net, B),
        [1],
        "the other accepts are of what is there"
    );
}

/// T6. Three promises are no leader, whatever they show.
#[test]
fn promises_of_less_than_a_read_quorum_decide_nothing() {
    let (mut net, request) = chosen_by_four(|_| {});
    net.crash(D);
    net.hint(D, false);
    net.elect(B);
    assert!(!net.leads(B));
    net.restart(D);
    net.hint(D, true);
    net.elect(B);
    assert!(net.leads(B) && net.times(E, request) == 1);
}

/// Schedule T7 of the full design.
#[test]
#[should_panic(expected = "one value is chosen per slot (I2)")]
fn an_index_over_older_accepts_delivers_what_was_not_chosen() {
    a_commit_index_over_an_older_accept(|config| {
        config.faults = Faults::only(Fault::ClaimOverBallots)
    });
}

/// T12. D promises to have a fragment and dies before it is asked for it: two are left.
fn a_holder_dies_between_promise_and_gathering(edit: fn(&mut Config)) {
    let (mut net, request) = chosen_by_four(edit);
    net.fire(B, Timer::Election);
    net.run_but_gather(B);
    net.crash(D);
    net.hint(D, false);
    net.run();
    for _ in 0..4 {
        if net.leads(B) {
            net.fire(B, Timer::Election);
        }
        net.run();
    }
    assert!(!net.leads(B) && net.branches.contains_key("fragments out of reach"));
    assert_eq!((net.names(B).len(), net.times(B, request)), (1, 0));
    net.restart(D);
    net.hint(D, true);
    net.elect(B);
    assert!(net.leads(B) && net.times(E, request) == 1);
}

#[test]
fn a_value_out_of_reach_is_waited_for() {
    a_holder_dies_between_promise_and_gathering(|_| {});
}

#[test]
#[should_panic(expected = "one value is chosen per slot (I2)")]
fn a_no_op_for_what_is_out_of_reach_loses_a_chosen_value() {
    a_holder_dies_between_promise_and_gathering(|config| {
        config.faults = Faults::only(Fault::GiveUpFragments)
    });
}

/// Writes go on in later slots while an earlier leader's value is gathered, and take effect behind it.
#[test]
fn new_writes_need_not_wait_for_what_is_gathered() {
    let (mut net, request) = chosen_by_four(|_| {});
    net.fire(B, Timer::Election);
    net.run_but_gather(B);
    let later = net.write(B);
    net.run_but_gather(B);
    assert_eq!((net.times(B, request), net.times(B, later)), (0, 0));
    assert_eq!(
        net.nodes[B].log.len(),
        1,
        "nothing takes effect before slot 1 ends"
    );
    net.run();
    for me in [B, C, D, E] {
        assert_eq!(net.nodes[me].log.len(), 3);
        assert_eq!((net.times(me, request), net.times(me, later)), (1, 1));
    }
}

/// What A told of its value comes to B when B gathers it to propose it again; then the payloads come.
#[test]
fn what_a_former_leader_told_of_is_not_proposed_again() {
    let (mut net, request) = chosen_by_four(|_| {});
    net.fire(B, Timer::Election);
    net.run_but_gather(B);
    let ballot = |record: &Record| match record {
        Record::Accept { ballot, .. } => Some(*ballot),
        _ => None,
    };
    let of_a = net.nodes[B]
        .disk
        .iter()
        .find_map(|(_, record)| ballot(record));
    let (since, upto) = (Slot(1), Slot(2));
    let told = Message::Commit {
        ballot: of_a.expect("B has a fragment of it"),
        claim: Claim { since, upto },
        earlier: Vec::new(),
    };
    net.hear(A, B, &told);
    assert_eq!(net.times(B, request), 1);
    net.run();
    let later = net.write(B);
    net.run();
    // E, which never had a fragment, has to fetch it.
    for me in [C, D] {
        net.fire(me, Timer::CatchUp);
    }
    net.run();
    for me in [B, C, D] {
        assert_eq!((net.times(me, request), net.times(me, later)), (1, 1));
    }
}

/// D and E say nothing, and no link tells. Who leads finds out by and by, and must still lead then:
/// three of five are too few to elect anybody.
#[test]
fn a_leader_keeps_on_while_enough_members_answer() {
    let mut net = five(|_| {});
    for gone in [D, E] {
        net.cut.extend([(A, gone), (gone, A)]);
    }
    let request = net.write_bulk(A);
    net.run();
    for _ in 0..10 {
        if net.times(A, request) == 1 {
            break;
        }
        net.fire(A, Timer::Election);
        net.fire(A, Timer::Retransmit);
        net.run();
    }
    assert!(net.leads(A) && net.branches.contains_key("smaller code"));
    assert_eq!(net.times(A, request), 1);
}

/// T15. Two accepts under X = 3 and two under X = 2 are neither four of the one nor three of the
/// other.
#[test]
fn accepts_of_two_codes_are_not_counted_together() {
    let mut net = five(|_| {});
    let request = net.write_bulk(A);
    net.lose(|_, to, _| to != B);
    net.run();
    for gone in [D, E] {
        net.cut.extend([(A, gone), (gone, A)]);
        net.hint(gone, false);
    }
    net.lose(|_, _, _| true);
    net.fire(A, Timer::Retransmit);
    net.fire(A, Timer::Retransmit);
    assert!(net.branches.contains_key("smaller code"));
    net.pass(A, C);
    net.pass(C, A);
    assert_eq!((codes(&net, A), codes(&net, C)), (vec![3, 2], vec![2]));
    assert_eq!(net.times(A, request), 0, "A and B, A and C");
    net.pass(A, B);
    net.pass(B, A);
    assert_eq!(net.times(A, request), 1, "A, B and C under X = 2");
    assert_eq!(codes(&net, B), [3, 2]);
}

/// A disk that lost a fragment says so, and the value is not given up for it.
#[test]
fn a_lost_fragment_is_reported_and_waited_for() {
    let (mut net, request) = chosen_by_four(|_| {});
    drop_attachment(&mut net, C);
    net.elect(B);
    assert!(!net.leads(B) && net.branches.contains_key("fragments lost"));
    net.restart(A);
    net.hint(A, true);
    net.elect(B);
    assert_eq!(net.times(B, request), 1, "A has it");
}

/// A value of A is accepted by A, B, C and D. Then C lost its fragment, and A its promises: A votes
/// again once the slot is decided, and nobody decides it without what A still has of the value.
#[test]
fn a_lost_fragment_is_made_up_for_by_one_of_who_lost_its_promises() {
    let mut net = five(|_| {});
    let request = net.write_bulk(A);
    [B, C, D].into_iter().for_each(|to| net.pass(A, to));
    net.crash(A);
    net.lose(|_, _, _| true);
    net.hint(A, false);
    drop_attachment(&mut net, C);
    net.lose_promises(A);
    net.hint(A, true);
    net.elect(B);
    assert!(!net.leads(B) && !net.votes(A));
    net.fire(B, Timer::Retransmit);
    net.run();
    assert_eq!(net.nodes[B].gathers.len(), 1, "asked for once");
    let value = net.nodes[B].gathers.remove(0);
    let share = Some(hollow_share(&value, 1, 0));
    net.step(B, Input::Held(value.with_share(share)));
    net.run();
    assert!(net.leads(B) && net.times(B, request) == 1);
    net.fire(A, Timer::Retransmit);
    net.run();
    assert!(net.votes(A) && net.times(A, request) == 1);
}

/// A promise that speaks of the fragment as if it were there: the leader has nothing to gather.
#[test]
fn a_lost_fragment_that_is_promised_leaves_nothing_to_gather() {
    let (mut net, _) = chosen_by_four(|_| {});
    drop_attachment(&mut net, C);
    net.fire(B, Timer::Election);
    while let Some(mut packet) = net.wire.pop_front() {
        if let Body::Message(Message::Promise(part)) = &mut packet.body {
            part.votes
                .iter_mut()
                .for_each(|vote| vote.fragments = vote.fragments.restored());
        }
        net.receive(packet);
    }
    assert!(net.leads(B) && !net.gather(B) && net.nodes[B].gathers.len() == 1);
}

/// After a restart the host finds what was attached to a replica's accepts gone.
fn drop_attachment(net: &mut Net, me: usize) {
    net.crash(me);
    let records = net.nodes[me].disk.iter_mut();
    records.for_each(|(_, record)| record.drop_attachment());
    net.restart(me);
    net.hint(me, false);
    net.hint(me, true);
}
