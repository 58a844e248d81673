//! Rules that are broken, and the schedules in which that shows.

use super::{net, schedules as play, schedules_lives as lives};
use crate::nopaxos::{Config, Fault, NoPaxos, Record};
use crate::registry::{Protocol, Sabotage};
use crate::shared::faults::Faults;

#[test]
#[should_panic(expected = "(N1)")]
fn start_view_again() {
    play::a_late_view_change(|c| c.faults = Faults::only(Fault::StartViewAgain));
}

#[test]
#[should_panic(expected = "(N1)")]
fn start_view_twice() {
    play::a_start_that_comes_twice(|c| c.faults = Faults::only(Fault::StartViewTwice));
}

#[test]
#[should_panic(expected = "(N1)")]
fn value_over_none() {
    play::a_gap_at_one_follower(|c| c.faults = Faults::only(Fault::ValueOverNone));
}

#[test]
#[should_panic(expected = "(N1)")]
fn reuse_session() {
    lives::a_sequencer_that_starts_again(|c| c.faults = Faults::only(Fault::ReuseSession));
}

#[test]
#[should_panic(expected = "(N1)")]
fn count_without_leader() {
    play::replies_without_the_leaders(|c| c.faults = Faults::only(Fault::CountWithoutLeader));
}

#[test]
#[should_panic(expected = "(N1)")]
fn sync_any_view() {
    lives::a_log_of_another_view(|c| c.faults = Faults::only(Fault::SyncAnyView));
}

#[test]
#[should_panic(expected = "(N1)")]
fn quorum_1() {
    play::an_entry_at_the_leader_alone(|c| c.thresholds.reply -= 1, false);
}

#[test]
#[should_panic(expected = "(N1)")]
fn sync_quorum_1() {
    play::an_entry_at_the_leader_alone(|c| c.thresholds.sync -= 1, true);
}

#[test]
#[should_panic(expected = "(N1)")]
fn change_quorum_1() {
    play::a_view_of_one(|c| c.thresholds.change -= 1);
}

#[test]
#[should_panic(expected = "a read sees")]
fn read_quorum_1() {
    play::a_read_at_a_former_leader(|c| c.thresholds.read -= 1);
}

#[test]
#[should_panic(expected = "(N1)")]
fn gap_unpersisted() {
    play::no_ops_and_a_loss_of_power(Some(Record::is_noop));
}

#[test]
#[should_panic(expected = "(N1)")]
fn view_unpersisted() {
    lives::a_member_that_left_and_starts_again(Some(Record::is_view));
}

#[test]
#[should_panic(expected = "(N1)")]
fn hasty() {
    play::a_leader_that_loses_power(true);
}

#[test]
fn every_mutant_changes_something() {
    for mutant in NoPaxos::mutants() {
        if let Sabotage::Config(lower) = mutant.sabotage {
            let config = NoPaxos::config(&net::seat(5, 0, &[])).expect("right");
            let mut lowered: Config = config.clone();
            lower(&mut lowered);
            assert_ne!(lowered, config, "{}", mutant.name);
        }
    }
}
