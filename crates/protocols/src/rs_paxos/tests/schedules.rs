//! Nasty schedules, one test each.

use super::net::{Net, seat};
use crate::multi_paxos::MultiPaxos;
use crate::registry::{Protocol, Sabotage};
use crate::rs_paxos::{Accept, Ballot, Config, Message, Record, Timer};
use quorate_core::{Outcome, Refusal, Slot};
use quorate_testkit::Body;

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;

fn is_accept(message: &Message) -> bool {
    matches!(message, Message::Accept(_))
}

/// A compacted acceptor: what B does not report because it has delivered it was decided, and is
/// learned, not proposed again as a no-op.
#[test]
fn a_candidate_behind_learns_before_it_leads() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(C);
    for _ in 0..5 {
        net.write(A);
        net.run();
    }
    let decided = net.names(B);
    assert_eq!((decided.len(), net.names(C).len()), (6, 1));
    net.cut.clear();
    net.crash(A);
    net.hint(A, false);
    // B cannot be asked for its log yet, so that C stands without it.
    net.cut.insert((B, C));
    net.write(C);
    net.fire(C, Timer::Election);
    net.pass(C, B);
    net.cut.clear();
    net.run();
    assert_eq!(net.names(C)[..6], decided[..], "learned as decided");
    assert!(net.leads(C));
    assert_eq!(net.names(B).len(), 7);
}

/// No value is given up on the strength of half a promise, or of one promise too few.
#[test]
fn half_a_promise_is_none() {
    let mut net = Net::led_by(A, 3, &[("promise_bytes", "1"), ("outstanding", "3")]);
    let requests = [net.write(A), net.write(A), net.write(A)];
    net.lose(|_, to, _| to == C);
    net.pass(A, B);
    net.pass(B, A);
    // Chosen by A and B, and known to A only.
    assert_eq!(net.names(A).len(), 4);
    net.crash(A);
    net.lose(|from, _, _| from == A);
    net.hint(A, false);
    net.write(C);
    net.fire(C, Timer::Election);
    net.pass(C, B);
    net.pass(B, C);
    net.pass(C, B);
    let mut parts = 0;
    net.lose(|from, _, message| {
        from == B && matches!(message, Message::Promise(part) if part.until != Some(Slot(2)))
    });
    parts += net.wire.iter().filter(|packet| packet.from == B).count();
    assert_eq!(parts, 1, "the first of three parts arrives");
    net.run();
    assert!(!net.leads(C));
    net.fire(C, Timer::Retransmit);
    net.run();
    assert!(net.leads(C));
    for request in requests {
        assert_eq!((net.times(B, request), net.times(C, request)), (1, 1));
    }
}

/// C has accepted w in an old ballot; v is chosen there in a later one, and C hears so before it
/// hears of v.
#[test]
fn a_commit_index_says_nothing_about_an_older_accept() {
    a_commit_index_over_an_older_accept(|_| {});
}

pub(super) fn a_commit_index_over_an_older_accept(edit: fn(&mut Config)) {
    let mut net = Net::new(3, &[]);
    let mut configs: Vec<Config> = net.nodes.drain(..).map(|node| node.config).collect();
    configs.iter_mut().for_each(edit);
    let mut net = Net::of(configs).led(A);
    net.nodes[A].is_stuck = true;
    let w = net.write(A);
    net.lose(|_, to, _| to == B);
    net.pass(A, C);
    net.crash(A);
    net.lose(|from, to, _| from == A || to == A);
    net.restart(A);
    net.isolate(C);
    let v = net.write(B);
    net.hint(A, false);
    net.hint(A, true);
    net.elect(B);
    assert_eq!(
        (net.times(B, v), net.times(A, v)),
        (1, 1),
        "v is chosen in slot 1"
    );
    assert_eq!(net.times(B, w), 0);
    net.cut.clear();
    net.write(B);
    net.lose(|_, to, message| {
        to == C && matches!(message, Message::Accept(Accept { slot: Slot(1), .. }))
    });
    net.cut.extend([(A, C), (C, B)]);
    net.run();
    assert_eq!(net.names(C).len(), 1, "w is not taken for chosen");
    net.cut.clear();
    net.fire(C, Timer::CatchUp);
    net.run();
    assert_eq!((net.times(C, v), net.times(C, w)), (1, 0));
}

/// A leader that learned of a decision from others does not claim it: its own value there may not
/// be the one.
#[test]
fn a_leader_claims_only_what_it_counted() {
    let mut net = Net::led_by(A, 3, &[]);
    net.nodes[A].is_stuck = true;
    let x = net.write(A);
    net.lose(|_, to, _| to == B);
    net.pass(A, C);
    // C has accepted x of A. A and C are cut off; no, B needs one of them: A, which forgets x.
    net.lose(|from, _, _| from == C);
    net.cut.extend([(A, C), (C, A), (B, C), (C, B)]);
    net.crash(A);
    net.restart(A);
    let y = net.write(B);
    net.hint(A, false);
    net.elect(B);
    assert_eq!((net.times(A, y), net.times(B, y)), (1, 1));
    assert_eq!(net.times(A, x), 0);
    // The old leader's word, late: slot 1 is decided, but not by its count.
    let claim = crate::rs_paxos::Claim {
        since: Slot(2),
        upto: Slot(2),
    };
    let ballot = Ballot {
        round: 1,
        node: quorate_core::ReplicaId(1),
    };
    let earlier = Vec::new();
    let message = Message::Commit {
        ballot,
        claim,
        earlier,
    };
    net.cut.clear();
    net.put(A, C, Body::Message(message));
    net.pass(A, C);
    assert_eq!(net.names(C).len(), 1, "x is not taken for chosen");
}

/// What the last leader decided and could not tell any more is told by name: nobody needs the
/// bytes again.
#[test]
fn a_new_leader_names_what_was_chosen_before_it() {
    let mut net = Net::led_by(A, 3, &[]);
    let request = net.write(A);
    net.pass(A, B);
    net.pass(A, C);
    net.pass(B, A);
    assert_eq!(net.times(A, request), 1);
    // B hears that it is chosen, C does not.
    net.pass(A, B);
    assert_eq!((net.times(B, request), net.times(C, request)), (1, 0));
    net.crash(A);
    net.lose(|from, to, _| from == A || to == A);
    net.hint(A, false);
    net.write(B);
    net.elect(B);
    assert!(net.leads(B) && net.branches.contains_key("chosen by name"));
    assert_eq!(net.times(C, request), 1);
}

/// A leader that restarts does not lead the same ballot again: its new value could not be told
/// from the old one.
#[test]
fn no_ballot_is_led_twice() {
    let mut net = Net::led_by(A, 3, &[]);
    net.write(A);
    net.pass(A, C);
    net.crash(A);
    net.lose(|_, _, message| is_accept(message));
    net.restart(A);
    net.hint(A, false);
    net.write(A);
    net.elect(A);
    assert!(
        net.leads(A),
        "a higher ballot, or the cluster would have noticed"
    );
}

#[test]
#[should_panic(expected = "one value per slot and ballot (I1)")]
fn a_ballot_that_was_not_written_is_led_twice() {
    let mut net = Net::new(3, &[]);
    net.watch.forget = Some(Record::is_candidacy);
    net.isolate(C);
    net.write(A);
    net.fire(A, Timer::Election);
    net.pass(A, B);
    net.pass(B, A);
    net.pass(A, B);
    net.nodes[A].is_stuck = true;
    net.pass(B, A);
    assert!(
        net.leads(A),
        "by the promises of A and B, with an accept on its way to the disk"
    );
    net.crash(A);
    net.lose(|_, _, _| true);
    net.restart(A);
    net.cut.clear();
    net.isolate(B);
    net.write(A);
    net.elect(A);
}

/// B leads by the promises of B and C, and C restarts before it accepts anything of B. A, which
/// led before, reaches C, and nobody hears of what comes of it. Then B reaches C.
fn an_old_leader_reaches_who_promised_a_new_one(forget: Option<fn(&Record) -> bool>) -> Net {
    let mut net = Net::new(3, &[]);
    net.watch.forget = forget;
    net.write(A);
    net.elect(A);
    net.isolate(A);
    net.hint(A, false);
    net.write(B);
    net.fire(B, Timer::Election);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, C);
    net.pass(C, B);
    assert!(net.leads(B));
    net.lose(|_, _, _| true);
    net.crash(C);
    net.restart(C);
    net.cut.clear();
    net.isolate(B);
    net.write(A);
    net.pass(A, C);
    net.pass(C, A);
    net.lose(|_, _, _| true);
    net.cut.clear();
    net.isolate(A);
    net.fire(B, Timer::Retransmit);
    net.fire(B, Timer::Retransmit);
    net.run();
    net
}

#[test]
fn a_promise_survives_a_restart() {
    let net = an_old_leader_reaches_who_promised_a_new_one(None);
    assert!(net.leads(B) && !net.leads(A));
}

#[test]
#[should_panic(expected = "one value is chosen per slot (I2)")]
fn a_promise_that_was_not_written_lets_two_leaders_decide() {
    an_old_leader_reaches_who_promised_a_new_one(Some(Record::is_promise));
}

/// An entry proposed by two leaders gets two slots, and takes effect in the first. Whether the next
/// leader knows of that when it stands, or only later.
fn an_entry_of_two_leaders(is_known: bool) -> Net {
    let mut net = Net::led_by(A, 3, &[]);
    // A alone accepts an entry of its own in slot 1, and C's in slot 2.
    net.write(A);
    let request = net.write(C);
    net.pass(C, A);
    net.lose(|from, _, _| from == A);
    net.isolate(A);
    net.hint(A, false);
    // C leads, and its entry is chosen in slot 1.
    net.fire(C, Timer::Election);
    net.run_losing(|_, _, message| !is_known && matches!(message, Message::Commit { .. }));
    assert!(net.leads(C) && net.times(C, request) == 1);
    assert_eq!(net.times(B, request), usize::from(is_known));
    // B takes over with the help of A, which takes itself for the leader until it is told.
    net.cut.clear();
    net.isolate(C);
    net.hint(C, false);
    net.write(B);
    net.elect(B);
    net.fire(B, Timer::Retransmit);
    net.run();
    assert!(net.leads(B));
    if is_known {
        // Slot 1 was decided before B led: A, which has accepted something else there, fetches it.
        net.fire(A, Timer::CatchUp);
    }
    assert_eq!((net.times(A, request), net.times(B, request)), (1, 1));
    assert_eq!(net.names(B)[2], None, "slot 2 is a no-op everywhere");
    net
}

#[test]
fn an_entry_of_two_leaders_takes_effect_once() {
    let net = an_entry_of_two_leaders(false);
    assert!(net.branches.contains_key("double decision skipped"));
}

/// The payloads of such an entry may be gone by then: nobody wants them for its second slot.
#[test]
fn an_entry_delivered_already_is_a_no_op_to_a_candidate() {
    let net = an_entry_of_two_leaders(true);
    assert!(!net.branches.contains_key("double decision skipped"));
}

/// What a replica accepted beyond the end of the log of a leader that did not hear of it is not
/// chosen. Its slot ends all the same, so that nobody waits for it for ever.
#[test]
fn a_slot_that_one_replica_alone_accepted_ends() {
    let mut net = Net::led_by(A, 3, &[]);
    net.nodes[A].is_stuck = true;
    let lost = net.write(A);
    net.pass(A, C);
    net.crash(A);
    net.lose(|_, _, _| true);
    net.isolate(C);
    net.restart(A);
    net.hint(A, false);
    net.read(B);
    net.elect(B);
    assert!(net.leads(B) && net.names(B).len() == 1);
    net.cut.clear();
    net.fire(C, Timer::Retransmit);
    net.fire(C, Timer::Retransmit);
    net.run();
    assert_eq!(net.names(C)[1..], [None]);
    assert_eq!(net.times(C, lost), 0);
}

/// A replica cut off from the leader alone does not depose it; its entries go by another way.
#[test]
fn a_replica_that_hears_of_a_leader_refuses_its_vote_and_passes_entries_on() {
    let mut net = Net::led_by(A, 3, &[]);
    net.cut.extend([(A, C), (C, A)]);
    let request = net.write(C);
    net.run();
    net.fire(C, Timer::Election);
    net.fire(C, Timer::Election);
    net.run();
    assert!(net.leads(A) && !net.leads(C), "refused by A's followers");
    net.fire(C, Timer::Retransmit);
    net.run();
    net.fire(C, Timer::Retransmit);
    net.run();
    assert_eq!(net.times(B, request), 1, "it got to the leader through B");
}

#[test]
fn a_leader_that_reaches_nobody_gives_up() {
    let mut net = Net::led_by(A, 3, &[]);
    net.isolate(A);
    net.write(A);
    net.run();
    net.fire(A, Timer::Election);
    net.fire(A, Timer::Election);
    assert!(!net.leads(A) && net.branches.contains_key("leader gave up"));
}

#[test]
fn without_a_leader_requests_are_refused_in_the_end() {
    let mut net = Net::new(3, &[("outstanding", "1")]);
    net.isolate(A);
    let (formed, waiting) = (net.write(A), net.write(A));
    let read = net.read(A);
    net.fire(A, Timer::Patience);
    let refused = Some(Outcome::Refused(Refusal::NotServing));
    assert_eq!(net.outcome(A, waiting), refused);
    assert_eq!(net.outcome(A, read), refused);
    assert_eq!(net.outcome(A, formed), None, "it stays under way");
}

/// A replica that lost its promises accepts nothing and promises nothing, but learns, and its clients are
/// served; when all the others know of its new life, it votes.
#[test]
fn a_replica_that_lost_its_promises_votes_in_a_new_life() {
    let mut net = Net::led_by(A, 3, &[]);
    net.crash(C);
    net.cut.extend([(B, C), (C, B)]);
    net.lose_promises(C);
    let request = net.write(C);
    net.run();
    net.fire(C, Timer::Retransmit);
    net.fire(C, Timer::Retransmit);
    net.run();
    assert_eq!((net.times(A, request), net.times(C, request)), (1, 1));
    let read = net.read(C);
    net.run();
    assert_eq!(net.outcome(C, read), None, "A alone confirms nothing");
    assert!(!net.votes(C));
    net.crash(C);
    net.restart(C);
    net.run();
    assert!(!net.votes(C), "it knows after a restart, too");
    net.cut.clear();
    net.hint(C, true);
    net.run();
    assert!(net.votes(C) && net.branches.contains_key("rejoined"));
    net.crash(B);
    let request = net.write(A);
    net.run();
    assert_eq!(net.times(A, request), 1, "chosen by A and C");
    net.crash(C);
    net.restart(C);
    assert!(net.votes(C), "it knows that, too");
}

/// B stands, and C promises; before B hears so, C loses everything and comes back with the help
/// of A and B. The promise is one of a life that is over.
#[test]
fn a_promise_of_a_former_life_is_not_counted() {
    let mut net = Net::led_by(A, 3, &[]);
    net.hint(A, false);
    net.cut.extend([(A, B), (B, A)]);
    net.write(B);
    net.fire(B, Timer::Election);
    net.pass(B, C);
    net.pass(C, B);
    net.pass(B, C);
    let late: Vec<_> = net
        .wire
        .drain(..)
        .filter(|packet| packet.from == C)
        .collect();
    assert_eq!(late.len(), 1);
    net.crash(C);
    net.lose_promises(C);
    net.pass(C, B);
    net.pass(C, A);
    net.wire.extend(late);
    net.run();
    assert!(net.branches.contains_key("promise of a former life"));
    assert!(!net.leads(B));
    net.fire(B, Timer::Retransmit);
    net.run();
    assert!(net.leads(B), "by a promise of the new life");
}

#[test]
fn what_means_nothing_is_refused() {
    let error = |params: &[(&str, &str)]| {
        MultiPaxos::config(&seat::<MultiPaxos>(3, 0, params)).unwrap_err()
    };
    assert!(error(&[("windw", "4")]).starts_with("unknown parameter windw: multi-paxos knows qr"));
    assert!(error(&[("qr", "4")]).contains("qr = 4: must be a number from 1 to 3"));
}

#[test]
fn every_mutant_changes_something() {
    for mutant in MultiPaxos::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let leased = seat::<MultiPaxos>(5, 0, &[("lease_ms", "300")]);
            let config = MultiPaxos::config(&leased).unwrap();
            let mut lowered = config.clone();
            lower(&mut lowered);
            assert_ne!(lowered, config, "{}", mutant.name);
        }
    }
}
