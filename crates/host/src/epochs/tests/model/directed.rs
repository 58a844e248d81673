//! Schedules that are easy to get wrong, each played on purpose.

use super::act::Act;
use super::node::Life;
use super::stage::cluster;
use super::{Body, Fault, Mutant, first_epoch, member};
use crate::epochs::{Configuration, Expect, Note, Order, Reconfigure};
use quorate_core::Slot;

/// A schedule holds with the rules, and a broken one shows in it.
fn shows(schedule: fn(Option<Mutant>) -> Result<(), Fault>, mutant: Mutant, as_what: &str) {
    schedule(None).unwrap();
    let fault = schedule(Some(mutant)).expect_err("the broken rule does not show");
    assert!(fault.starts_with(as_what), "{fault}");
}

/// P1: two changes are decided at slots 0 and 1, the second one first; one member learns of that one
/// first, another of the first alone.
#[test]
fn the_first_valid_change_in_slot_order_seals_whatever_is_learned_first() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(4, 3, 1, mutant);
        let first = world.change(0, &[0, 1], 0);
        let second = world.change(0, &[1, 2, 3], 1);
        world.write_to(1, 1, second, &[0, 1, 2])?;
        world.learn(0, 1, Slot(1))?;
        assert_eq!(world.nodes[0].current(), 1);
        world.write_to(2, 0, first, &[0, 1, 2])?;
        world.learn(1, 1, Slot(0))?;
        world.learn(0, 1, Slot(0))?;
        world.learn(2, 1, Slot(0))?;
        world.learn(2, 1, Slot(1))?;
        assert_eq!(world.current()[..3], [2, 2, 2]);
        world.drain()
    }
    shows(schedule, Mutant::LastChangeWins, "divergent logs");
}

/// P2: a change is chosen, nobody knows, its proposer and another voter are lost.
#[test]
fn a_chosen_change_that_nobody_knows_takes_effect() {
    let mut world = cluster(6, 5, 2, None);
    let change = world.change(0, &[2, 3, 4, 5], 1);
    world.write_to(0, 0, change, &[0, 1, 2]).unwrap();
    world.act(&Act::Wipe(0)).unwrap();
    world.act(&Act::Wipe(1)).unwrap();
    world.drain().unwrap();
    assert_eq!(world.truth.state.chain.newest().number, 2);
}

/// P3: whoever asked for the change is lost after it sealed and before anybody holds.
#[test]
fn an_epoch_opens_without_the_one_who_asked_for_it() {
    let mut world = cluster(4, 3, 1, None);
    let change = world.change(0, &[0, 1, 3], 1);
    world.decide_at(0, change, &[0]).unwrap();
    world.act(&Act::Wipe(0)).unwrap();
    world.drain().unwrap();
    assert_eq!(world.current()[1..], [2, 2, 2]);
    assert_eq!(world.nodes[2].life, Life::Left);
}

/// P4: slot 1 is void in epoch 1 and real in epoch 2; the notice of the void one comes late, and
/// again after a restart.
#[test]
fn a_void_slot_never_stands_in_for_a_real_one() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(3, 3, 1, mutant);
        let change = world.change(0, &[0, 1], 0);
        let [void, real] = [Body::Write, Body::Write].map(|body| world.request(body));
        world.write_to(2, 1, void, &[0, 1, 2])?;
        world.learn(1, 1, Slot(1))?;
        world.decide_at(0, change, &[0, 1, 2])?;
        world.quiesce()?;
        world.learn(0, 1, Slot(1))?;
        world.decide_at(1, real, &[1])?;
        world.act(&Act::Crash(0))?;
        world.boot(0)?;
        world.learn(0, 1, Slot(1))?;
        world.learn(0, 2, Slot(1))?;
        world.drain()?;
        assert_eq!(world.canon[1].1, Some(real));
        Ok(())
    }
    shows(schedule, Mutant::SlotAlone, "divergent logs");
    shows(schedule, Mutant::AppliesPastTheSeal, "divergent logs");
}

/// P5: a void command is decided again in the next epoch, and once more when its client retries.
#[test]
fn a_void_command_is_executed_once_however_often_it_is_sent() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(4, 3, 1, mutant);
        let change = world.change(0, &[0, 1, 3], 1);
        let write = world.request(Body::Write);
        world.write_to(1, 1, write, &[0, 1, 2])?;
        world.decide_at(0, change, &[0, 1, 2])?;
        world.quiesce()?;
        assert!(world.truth.log.iter().all(|request| *request != write));
        world.decide_at(1, write, &[0, 1])?;
        world.decide_at(2, write, &[1, 0])?;
        assert_eq!(world.answered.get(&write), Some(&Slot(1)));
        world.drain()
    }
    shows(schedule, Mutant::NoSessions, "double execution");
}

/// P23: a command is void, its session ends, and then it is sent again.
#[test]
fn a_void_command_of_a_session_that_has_ended_is_never_executed() {
    let mut world = cluster(4, 3, 1, None);
    let end = world.request(Body::EndSession);
    let change = world.change(0, &[0, 1, 3], 1);
    let write = world.request(Body::Write);
    world.write_to(1, 2, write, &[0, 1, 2]).unwrap();
    world.decide_at(0, change, &[0, 1, 2]).unwrap();
    world.quiesce().unwrap();
    world.decide_at(1, end, &[0, 1]).unwrap();
    world.decide_at(2, write, &[0, 1]).unwrap();
    assert!(!world.truth.log.contains(&write));
    assert_eq!(world.truth.next, Slot(3));
}

/// P6: a member applies the seal, loses power before it is durable, and is asked again: it has to know
/// what it voted for.
#[test]
fn a_member_that_lost_a_seal_is_a_sound_voter_of_its_epoch() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(3, 3, 1, mutant);
        let change = world.change(0, &[0, 1], 0);
        let other = world.request(Body::Write);
        world.write_to(0, 0, change, &[0, 1])?;
        world.learn(0, 1, Slot(0))?;
        world.act(&Act::Crash(0))?;
        world.act(&Act::Crash(1))?;
        world.boot(0)?;
        world.write_to(2, 0, other, &[0, 2])?;
        world.drain()
    }
    shows(schedule, Mutant::DropsRecordsEarly, "two decisions");
}

/// P7: a member holds, says so, and loses its disk; it comes back in another life, and the leavers ask
/// those who are left. P8: of the holders as many are lost as may be, after the leavers have left.
#[test]
fn holders_that_are_lost_are_made_up_for_by_the_last_one() {
    let mut world = cluster(6, 3, 1, None);
    let change = world.change(0, &[3, 4, 5], 1);
    world.decide_at(0, change, &[0, 1, 2]).unwrap();
    world.quiesce().unwrap();
    for place in [3, 4] {
        world.fetch(place, 0).unwrap();
        world.flush(place).unwrap();
    }
    world.quiesce().unwrap();
    assert!(world.nodes[..3].iter().all(|node| node.life == Life::Left));
    world.act(&Act::Wipe(3)).unwrap();
    world.act(&Act::Return(3)).unwrap();
    world.drain().unwrap();
    assert_eq!(world.nodes[5].current(), 2);
}

/// The same with leavers that are content with one holder where one may fail.
#[test]
fn a_leaver_waits_for_one_holder_more_than_may_fail() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(4, 1, 0, mutant);
        let change = world.change(0, &[1, 2, 3], 1);
        let write = world.request(Body::Write);
        world.decide_at(0, write, &[0])?;
        world.decide_at(1, change, &[0])?;
        world.quiesce()?;
        world.fetch(1, 0)?;
        world.flush(1)?;
        world.quiesce()?;
        world.flush(0)?;
        world.act(&Act::Wipe(1))?;
        world.drain()
    }
    shows(schedule, Mutant::LeavesAfterTooFewHolders, "blocked");
    shows(schedule, Mutant::LeavesAtItsSeal, "blocked");
}

/// P9: two of three sleep through three epochs while the third leaves; then a client writes at one.
#[test]
fn sleepers_find_the_group_where_it_is() {
    let mut world = cluster(5, 3, 1, None);
    world.act(&Act::Crash(2)).unwrap();
    for members in [&[0, 1, 2, 3][..], &[0, 1, 2, 3], &[1, 2, 3]] {
        let slot = world.truth.next.0;
        let voter = world.voting(world.truth.state.chain.newest().number)[0];
        let change = world.change(voter, members, 1);
        world.decide_at(slot, change, &[voter]).unwrap();
        for place in [0, 1, 3] {
            if world.nodes[place].current() < world.nodes[voter].current() {
                world.fetch(place, voter).unwrap();
            }
        }
        world.quiesce().unwrap();
    }
    assert_eq!(world.nodes[0].life, Life::Left);
    assert_eq!(world.nodes[2].current(), 1);
    world.drain().unwrap();
    assert_eq!(world.nodes[2].running(), Some(4));
}

/// P12: of three members one is sealed, one has voted for the change and does not know that it is
/// decided, and the reader knows nothing. The sealed one has gone on alone.
#[test]
fn a_read_meets_a_seal_in_the_marks() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(3, 3, 1, mutant);
        let change = world.change(0, &[0], 0);
        let write = world.request(Body::Write);
        world.write_to(0, 0, change, &[0, 1])?;
        world.learn(0, 1, Slot(0))?;
        world.go_on_alone(0)?;
        world.decide_at(1, write, &[0])?;
        assert_eq!(world.answered.get(&write), Some(&Slot(1)));
        world.act(&Act::BeginRead(2))?;
        for place in [2, 1] {
            world.act(&Act::Ask(place))?;
            world.act(&Act::FinishRead)?;
            assert!(world.read.is_some(), "too few, and then a mark");
        }
        world.learn(2, 1, Slot(0))?;
        world.act(&Act::FinishRead)?;
        assert_eq!((world.counts.reads, world.read.is_some()), (0, true));
        world.fetch(2, 0)?;
        world.act(&Act::Ask(0))?;
        world.act(&Act::FinishRead)?;
        assert_eq!(world.counts.reads, 1);
        Ok(())
    }
    shows(schedule, Mutant::SealNotMarked, "stale read");
    shows(schedule, Mutant::ReadQuorumShort, "stale read");
    shows(old_quorum, Mutant::OldReadQuorum, "stale read");
}

/// The reader hears two members, applies the seal itself, and answers only after it has asked again.
fn old_quorum(mutant: Option<Mutant>) -> Result<(), Fault> {
    let mut world = cluster(3, 3, 1, mutant);
    let change = world.change(0, &[0], 0);
    let write = world.request(Body::Write);
    world.write_to(0, 0, change, &[0, 1])?;
    world.learn(0, 1, Slot(0))?;
    world.go_on_alone(0)?;
    world.decide_at(1, write, &[0])?;
    world.act(&Act::BeginRead(2))?;
    for place in [2, 1] {
        world.act(&Act::Ask(place))?;
    }
    world.learn(2, 1, Slot(0))?;
    world.act(&Act::FinishRead)?;
    assert_eq!(world.counts.reads, 0);
    Ok(())
}

/// P13 and P14: what is meant for a former life of a node does not reach the next one.
#[test]
fn a_note_for_a_former_life_is_not_heard_by_the_next() {
    let mut world = cluster(3, 3, 1, None);
    let before = world.nodes[2].me;
    world.act(&Act::Wipe(2)).unwrap();
    world.act(&Act::Return(2)).unwrap();
    assert_eq!(world.nodes[2].running(), None, "it is no member");
    let epoch = Expect::of(&first_epoch(3, 1));
    let note = Note::Holds {
        epoch,
        base: Slot(0),
    };
    world.notes.push((member(1, 1), before, note));
    let succession = world.nodes[2].succession.clone();
    world.act(&Act::Note(world.notes.len() - 1)).unwrap();
    assert_eq!(world.nodes[2].succession, succession);
    world.drain().unwrap();
}

/// The same node under the name it had would vote twice.
#[test]
fn a_wiped_disk_takes_its_incarnation_with_it() {
    fn schedule(mutant: Option<Mutant>) -> Result<(), Fault> {
        let mut world = cluster(3, 3, 1, mutant);
        let [one, other] = [Body::Write, Body::Write].map(|body| world.request(body));
        world.write_to(0, 0, one, &[0, 1])?;
        world.act(&Act::Wipe(1))?;
        world.act(&Act::Return(1))?;
        world.flush(1)?;
        world.act(&Act::Crash(0))?;
        if world.nodes[1].running() == Some(1) {
            world.write_to(1, 0, other, &[1, 2])?;
        }
        world.drain()
    }
    shows(schedule, Mutant::KeepsIncarnation, "two decisions");
}

/// P15: the proposer of a change, the only one that knows it, is removed by it.
#[test]
fn a_removed_proposer_hands_over_and_leaves() {
    let mut world = cluster(4, 3, 1, None);
    let writes = [Body::Write, Body::Write].map(|body| world.request(body));
    world.decide_at(0, writes[0], &[0]).unwrap();
    world.decide_at(1, writes[1], &[0]).unwrap();
    let change = world.change(0, &[1, 2, 3], 1);
    world.decide_at(2, change, &[0]).unwrap();
    world.drain().unwrap();
    assert_eq!(world.nodes[0].life, Life::Left);
    assert_eq!(world.answered.len(), 4);
}

/// P16: 3 to 1 to 3; 1 to 2 with the joiner down at the seal; 2 to 1 with one dead, which must block; and
/// 4 with one that may fail.
#[test]
fn small_groups_shrink_and_grow() {
    let mut world = cluster(4, 3, 1, None);
    let change = world.change(0, &[1], 0);
    world.decide_at(0, change, &[0, 1]).unwrap();
    world.drain().unwrap();
    let slot = world.truth.next.0;
    let grow = world.change(1, &[1, 3], 0);
    world.act(&Act::Crash(3)).unwrap();
    world.decide_at(slot, grow, &[1]).unwrap();
    world.quiesce().unwrap();
    assert_eq!(world.voting(3), [1], "one of two cannot decide");
    world.drain().unwrap();
    world.act(&Act::Wipe(3)).unwrap();
    let slot = world.truth.next.0;
    let shrink = world.change(1, &[1], 0);
    world.write_to(1, slot, shrink, &[1]).unwrap();
    let fault = world.drain().expect_err("both are needed to decide");
    assert!(fault.starts_with("blocked"), "{fault}");

    let mut world = cluster(4, 4, 1, None);
    world.act(&Act::Wipe(3)).unwrap();
    let change = world.change(0, &[0, 1, 2], 1);
    world.decide_at(0, change, &[0]).unwrap();
    world.drain().unwrap();
}

/// P19: a change to a protocol that the feature level does not have does nothing, whatever the
/// program at hand knows; at a higher level it takes effect.
#[test]
fn a_protocol_beyond_the_feature_level_is_refused_by_all() {
    let mut world = cluster(3, 3, 1, None);
    let newest = world.nodes[0].live.state.chain.newest();
    let change = Reconfigure {
        expect: Expect::of(newest),
        configuration: Configuration {
            protocol: "later".into(),
            ..Configuration::of(newest)
        },
    };
    let order = Order::Reconfigure(change);
    let refused = world.request(Body::Order(order.clone()));
    world.decide_at(0, refused, &[0, 1, 2]).unwrap();
    assert_eq!((world.current(), world.counts.refused), (vec![1, 1, 1], 1));
    let level = world.request(Body::Order(Order::Level { level: 2 }));
    world.decide_at(1, level, &[0, 1, 2]).unwrap();
    assert_eq!(world.nodes[2].live.state.level, 2);
    let allowed = world.request(Body::Order(order));
    world.decide_at(2, allowed, &[0, 1, 2]).unwrap();
    assert_eq!((world.current(), world.counts.refused), (vec![2, 2, 2], 1));
}
