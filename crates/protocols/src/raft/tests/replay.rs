//! What a replica finds on its disk is the log that it had, in whatever order the host kept the records.

use super::net::Net;
use crate::raft::{Config, LogEntry, Message, Record, Timer};
use fastrand::Rng;
use quorate_core::{Past, Slot};

const A: usize = 0;

/// Terms of the log at a replica that starts with these records, by slot.
fn terms_after(edit: impl Fn(&mut Config), records: Vec<Record>) -> Vec<(Slot, u64)> {
    let mut net = Net::edited(3, &[], edit);
    net.crash(A);
    let past = Past::Intact {
        next: net.nodes[A].next(),
        base: net.nodes[A].base.clone(),
        records,
    };
    net.start(A, past);
    net.terms(A)
}

fn record(slot: u64, term: u64) -> Record {
    Record::Append {
        slot: Slot(slot),
        at: term,
        entry: LogEntry { term, entry: None },
    }
}

/// Slots 0 and 1 of term 1 are cut off by slot 0 of term 2; the host writes the record of slot 1 again.
pub(super) fn a_cut_entry_again(edit: impl Fn(&mut Config)) -> Vec<(Slot, u64)> {
    let cut = Record::Cut {
        from: Slot(0),
        at: 2,
    };
    let (first, second) = (record(0, 1), record(1, 1));
    let records = vec![first, second.clone(), cut, record(0, 2), second];
    terms_after(edit, records)
}

/// A walk of three replicas that commit nothing, so that everything stays in their logs: one after the other
/// leads by the vote of another, and what it appends comes to some.
fn walk(rng: &mut Rng) -> Net {
    let mut net = Net::new(3, &[]);
    for _ in 0..12 {
        let leader = rng.usize(0..3);
        let voter = (leader + rng.usize(1..3)) % 3;
        // Whom they followed is silent for long.
        for me in [voter, leader, voter, leader] {
            if net.nodes[me].timers.contains_key(&Timer::Election) {
                net.fire(me, Timer::Election);
            }
        }
        net.lose_all();
        net.write(leader);
        if !net.leads(leader) && net.nodes[leader].timers.contains_key(&Timer::Election) {
            net.stand(leader, &[voter]);
        }
        for _ in 0..rng.usize(0..3) {
            net.write(leader);
        }
        let receiver = rng.usize(0..3);
        for _ in 0..2 {
            net.pass(leader, receiver);
            net.lose(|_, _, message| matches!(message, Message::Appended { .. }));
            net.pass(receiver, leader);
        }
        net.lose_all();
    }
    net
}

/// A host that frees a part of its log appends what was there again, behind what was written since, and keeps
/// the last of each scalar.
#[test]
fn records_count_in_any_order() {
    let mut cuts = 0;
    for seed in 0..300 {
        let mut rng = Rng::with_seed(seed);
        let net = walk(&mut rng);
        for node in &net.nodes {
            let written = node.disk.iter().map(|(_, record)| record.clone());
            let (mut records, scalars): (Vec<_>, Vec<_>) = written.partition(Record::is_append);
            let is_cut = |record: &&Record| matches!(record, Record::Cut { .. });
            let last_cut = scalars.iter().rfind(is_cut);
            cuts += usize::from(last_cut.is_some());
            records.extend(last_cut.cloned());
            records.extend(scalars.iter().rfind(|one| one.is_vote()).cloned());
            rng.shuffle(&mut records);
            let machine = node.machine.as_ref().expect("it runs");
            let live = machine.log.iter().map(|(slot, one)| (slot, one.term));
            assert_eq!(
                terms_after(|_| {}, records),
                live.collect::<Vec<_>>(),
                "seed {seed}"
            );
        }
    }
    assert!(cuts > 20, "logs are cut: {cuts}");
}
