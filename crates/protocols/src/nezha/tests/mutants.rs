//! Each deliberate fault is found by random schedules, by its name.

use super::super::{Config, Nezha, Record};
use super::random::{Course, run_seed};
use crate::registry::{Protocol, Sabotage};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a fault changes, and the records that are not written.
type Broken = (fn(&mut Config), fn(&Record) -> bool);

/// What a fault changes, and which records it does not write.
pub(super) fn broken(name: &str) -> Broken {
    let mutants = Nezha::mutants();
    let mutant = mutants.iter().find(|mutant| mutant.name == name);
    let mutant = mutant.unwrap_or_else(|| panic!("there is no mutant {name}"));
    match mutant.sabotage {
        Sabotage::Config(change) => (change, |_| false),
        Sabotage::Forget(forgets) => (|_| {}, forgets),
        _ => panic!("{name} is broken in another way"),
    }
}

/// Runs schedules until one shows the fault.
fn finds(name: &str, course: &Course) {
    let (change, forgets) = broken(name);
    for seed in course.seeds.clone() {
        let run = || drop(run_seed(course, seed, change, forgets));
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            eprintln!("{name} is found by seed {seed}");
            return;
        }
    }
    panic!("no schedule of {:?} shows {name}", course.seeds);
}

fn disks(n: usize, seeds: u64) -> Course {
    Course {
        n,
        has_disks: true,
        loses: false,
        is_fast: false,
        commutes: false,
        seeds: 0..seeds,
    }
}

fn fast(n: usize, seeds: u64) -> Course {
    Course {
        is_fast: true,
        ..disks(n, seeds)
    }
}

#[test]
fn a_fast_quorum_of_a_majority_loses_answers() {
    finds("fast-quorum", &fast(3, 300));
}

#[test]
fn a_slow_quorum_of_one_loses_what_was_delivered() {
    finds("slow-quorum", &disks(3, 300));
}

#[test]
fn a_gap_taken_in_is_vouched_for() {
    finds("gaps", &disks(3, 300));
}

#[test]
fn a_view_begun_again_forgets_what_was_vouched_for() {
    finds("start-again", &disks(3, 300));
}

#[test]
fn a_leader_that_leads_on_after_a_crash_tells_two_logs() {
    finds("same-leader", &disks(3, 300));
}

#[test]
fn a_synced_entry_that_counts_as_unsynced_after_a_crash_is_lost() {
    finds("no-sync-record", &disks(3, 300));
}
