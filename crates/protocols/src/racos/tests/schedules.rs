//! Schedules told step by step, and the mutants that they find.

use super::net::{Dice, Net};
use super::random::settle;
use crate::rabia::weak_mvc;
use crate::racos::{Config, Message, Racos, Record, Replica, Spread};
use crate::registry::{Protocol, Sabotage};
use quorate_core::{EntryId, Output};
use quorate_testkit::Packet;
use std::any::Any;
use std::panic::catch_unwind;

const FIVE: &[(&str, &str)] = &[("k", "3"), ("vote_hold_us", "0")];

/// A message on its way.
pub(super) type Flying = Packet<Replica>;

impl Net {
    fn five(sabotage: Option<Sabotage<Replica>>) -> Net {
        Net::new(5, FIVE, sabotage)
    }

    /// Takes messages off the network: they are lost, or come later.
    pub(super) fn hold_back(&mut self, which: impl Fn(&Flying) -> bool) -> Vec<Flying> {
        self.take_packets(which)
    }

    /// Delivers these messages, and those of them that follow.
    pub(super) fn bring(&mut self, which: impl Fn(&Flying) -> bool) {
        while let Some(at) = self.wire.iter().position(&which) {
            self.take(at, false);
        }
    }

    /// Everything but some messages happens, for a while. Those stay on the network.
    pub(super) fn go_on_without(&mut self, which: impl Fn(&Flying) -> bool) {
        for round in 0..40 {
            for me in 0..self.nodes.len() {
                self.flush(me);
                self.rebuild(me);
            }
            self.bring(|one| !which(one));
            if round % 4 == 3 {
                (0..self.nodes.len()).for_each(|me| (0..4).for_each(|at| self.fire(me, at)));
            }
        }
    }

    /// Everything happens until nothing is left.
    pub(super) fn come_to_an_end(&mut self) {
        let dice = &mut Dice::new(1);
        let is_over = (0..400).any(|_| settle(self, dice));
        assert!(is_over, "C10: no end: {}", self.describe());
        for me in 0..self.nodes.len() {
            assert_eq!(self.undecided(me), [], "C9");
        }
    }

    /// A node stops, with everything that it wrote on its disk, and starts again.
    pub(super) fn start_again(&mut self, me: usize) {
        self.flush(me);
        self.crash(me, &mut Dice::new(1));
        self.restart(me);
        self.flush(me);
    }

    pub(super) fn start_without_disk(&mut self, me: usize) {
        self.crash(me, &mut Dice::new(1));
        self.lose(me);
        self.flush(me);
    }

    pub(super) fn is_decided(&self, id: EntryId) -> bool {
        self.chosen.values().flatten().any(|entry| entry.id == id)
    }

    /// A value is spread to these others, and announced once its origin is next flushed.
    fn announce(&mut self, me: usize, holders: impl Fn(usize) -> bool) -> EntryId {
        self.submit(me, true);
        let id = self.value_on_its_way();
        drop(self.hold_back(|one| is_spread(one) && !holders(one.to)));
        self.bring(is_spread);
        (0..self.nodes.len()).for_each(|at| self.flush(at));
        self.bring(is_ack);
        id
    }

    /// The value whose segments are on their way.
    pub(super) fn value_on_its_way(&self) -> EntryId {
        let ids = self.messages().filter_map(|(.., message)| match message {
            Message::Spread(Spread { manifest, .. }) => Some(manifest.entry.id),
            _ => None,
        });
        ids.last().expect("something is spread")
    }
}

pub(super) fn is_spread(one: &Flying) -> bool {
    matches!(one.message(), Some(Message::Spread { .. }))
}

pub(super) fn is_ack(one: &Flying) -> bool {
    matches!(one.message(), Some(Message::SegAck { .. }))
}

fn is_roster(one: &Flying) -> bool {
    matches!(one.message(), Some(Message::Roster { .. }))
}

fn is_lost(one: &Flying) -> bool {
    matches!(one.message(), Some(Message::Lost { .. }))
}

fn is_candidate(one: &Flying) -> bool {
    match one.message() {
        Some(Message::Mvc(weak_mvc::Message::Batch { entry })) => entry.bulk_len() > 0,
        _ => false,
    }
}

/// An origin has its value on enough disks and does not hear of it. It starts again, says that the value is
/// dead, and loses its disk before anybody hears that. Now it cannot know that it never announced the value,
/// spreads it once more, and announces it. Then the first roster arrives.
fn roster_from_before_a_loss(sabotage: Option<Sabotage<Replica>>) {
    let mut net = Net::five(sabotage);
    net.submit(0, true);
    let id = net.value_on_its_way();
    drop(net.hold_back(|one| is_spread(one) && one.to == 4));
    net.bring(is_spread);
    (1..4).for_each(|me| net.flush(me));
    drop(net.hold_back(is_ack));
    net.start_again(0);
    let early = net.hold_back(is_roster);
    assert_eq!(early.len(), 4, "to all others");
    net.start_without_disk(0);
    // One of those that have the value does not hear of the loss.
    let is_held_back =
        |one: &Flying| is_roster(one) || is_candidate(one) || is_lost(one) && one.to == 3;
    net.go_on_without(is_held_back);
    let candidates = net.wire.iter().filter(|one| is_candidate(one)).count();
    assert!(candidates > 0 && !net.is_decided(id), "announced");
    let later = net.hold_back(|_| true);
    net.wire = early.into();
    net.bring(is_roster);
    net.wire.extend(later);
    net.come_to_an_end();
    assert!(net.is_decided(id), "it had been announced");
}

#[test]
fn a_roster_from_before_a_loss_says_nothing_of_what_is_announced_after_it() {
    roster_from_before_a_loss(None);
}

/// Nobody has heard how often the origin had started when its disk is lost; nor does a clock say so.
#[test]
fn lives_after_a_loss_are_later_than_all_before_it() {
    let mut net = Net::five(None);
    (0..4).for_each(|_| net.start_again(0));
    let early = net.hold_back(is_roster);
    net.start_without_disk(0);
    net.go_on_without(is_roster);
    net.submit(0, true);
    let id = net.value_on_its_way();
    net.bring(is_spread);
    (0..5).for_each(|me| net.flush(me));
    let rest = net.hold_back(|_| true);
    net.wire = early.into();
    net.bring(is_roster);
    net.wire.extend(rest);
    net.come_to_an_end();
    assert!(net.is_decided(id) && net.branches.contains_key("old roster refused"));
}

/// Two starts ask for the same number, the first of which loses its disk again before it is told enough.
#[test]
fn no_two_losses_have_one_number() {
    let mut net = Net::five(None);
    net.start_without_disk(0);
    // Of any three others, one of these two will be asked again.
    net.bring(|one| is_lost(one) && one.to <= 2);
    (1..3).for_each(|me| net.flush(me));
    drop(net.hold_back(|_| true));
    net.start_without_disk(0);
    net.come_to_an_end();
    assert!(net.branches.contains_key("number of a loss was taken"));
    net.submit(0, true);
    net.come_to_an_end();
}

/// S1, half announced: it is written that a value was announced, and nobody else is told. The slots of that lane
/// go by, the origin starts again, and another holder is slow.
#[test]
fn what_was_announced_and_not_told_is_decided_a_life_later() {
    let mut net = Net::five(None);
    let id = net.announce(0, |_| true);
    net.flush(0);
    drop(net.hold_back(|one| one.from == 0));
    net.crash(0, &mut Dice::new(1));
    for _ in 0..3 {
        net.submit(1, false);
        net.go_on_without(|_| false);
    }
    assert!(net.chosen.len() > 6 && !net.is_decided(id), "NULL, twice");
    net.restart(0);
    net.go_on_without(|one| one.from == 4 || one.to == 4);
    assert!(net.is_decided(id));
    net.come_to_an_end();
}

/// S2: a segment comes when its origin has started again and all have let go of the value.
#[test]
fn a_segment_after_the_roster_is_refused() {
    let mut net = Net::five(None);
    net.submit(0, true);
    let late = net.hold_back(|one| is_spread(one) && one.to == 4);
    net.bring(is_spread);
    (1..4).for_each(|me| net.flush(me));
    drop(net.hold_back(is_ack));
    net.start_again(0);
    net.come_to_an_end();
    assert!(net.branches.contains_key("segment let go"));
    net.wire = late.into();
    net.bring(is_spread);
    net.come_to_an_end();
}

/// S4, the lost vote of a segment: a value is announced with the help of a disk that is then lost, and the member
/// comes back before it is decided.
fn vote_of_a_lost_segment(sabotage: Option<Sabotage<Replica>>) {
    let mut net = Net::five(sabotage);
    let id = net.announce(0, |at| at < 4);
    net.flush(0);
    net.start_without_disk(3);
    let is_held_back = |one: &Flying| is_candidate(one) || is_spread(one);
    net.go_on_without(is_held_back);
    assert!(!net.nodes[3].is_lost, "it votes again");
    assert!(!net.is_decided(id), "nobody else knows of it");
    net.come_to_an_end();
    assert!(net.is_decided(id));
}

#[test]
fn who_lost_a_segment_that_counts_gets_it_back_before_it_votes() {
    vote_of_a_lost_segment(None);
}

/// S5, as far as it is the machine's: a holder is away while the value is decided, and learns of it from a log.
#[test]
fn what_is_decided_while_its_holder_is_away_is_no_longer_undecided() {
    let mut net = Net::five(None);
    let id = net.announce(0, |_| true);
    net.crash(4, &mut Dice::new(1));
    net.go_on_without(|_| false);
    assert!(net.is_decided(id));
    net.restart(4);
    net.submit(1, false);
    net.come_to_an_end();
}

/// R1: of five, some propose a value, and one of them hears of all of those; the others propose NULL. It stops, and
/// the others go on without anything that it said.
fn one_hears_enough(sabotage: Option<Sabotage<Replica>>, proposers: usize) {
    let mut net = Net::five(sabotage);
    net.announce(0, |_| true);
    net.flush(0);
    let mut said = net.hold_back(|one| one.from == 0);
    said.retain(|one| is_candidate(one) && one.to < proposers);
    // Who has something for a slot of its own proposes NULL in those before.
    for me in proposers..5 {
        net.submit(me, false);
        net.flush(me);
    }
    let nulls = net.hold_back(|_| true);
    net.wire = said.into();
    net.bring(is_candidate);
    (1..proposers).for_each(|me| net.flush(me));
    net.bring(|one| one.to == 0);
    net.crash(0, &mut Dice::new(1));
    net.wire.extend(nulls);
    net.go_on_without(is_candidate);
    net.restart(0);
    net.come_to_an_end();
}

#[test]
fn who_decides_in_one_step_and_stops_has_decided_for_all() {
    (1..5).for_each(|proposers| one_hears_enough(None, proposers));
}

/// S13, one slot ahead: one of five is down, and one is a slot behind the others, who are needed and do not wait.
/// No timer is needed.
fn one_slot_ahead(sabotage: Option<Sabotage<Replica>>) {
    let mut net = Net::five(sabotage);
    let is_late = |one: &Flying| one.to == 3 && is_of_slots(one);
    let go_on = |net: &mut Net, which: &dyn Fn(&Flying) -> bool| {
        for _ in 0..10 {
            (0..4).for_each(|me| net.flush(me));
            net.bring(|one| !which(one));
        }
    };
    net.crash(4, &mut Dice::new(1));
    net.submit(0, false);
    go_on(&mut net, &is_late);
    let late = net.hold_back(is_late);
    let delivered = [net.delivered(0), net.delivered(3)];
    assert_eq!(delivered, [1, 0], "the others are ahead");
    net.submit(0, false);
    go_on(&mut net, &is_late);
    net.bring(is_late);
    net.wire.extend(late);
    go_on(&mut net, &|_| false);
    assert_eq!(net.delivered(3), 6, "both are decided");
}

fn is_of_slots(one: &Flying) -> bool {
    use weak_mvc::Message as M;
    matches!(one.message(), Some(Message::Mvc(M::Slot(_) | M::Nulls(_))))
}

#[test]
fn who_is_a_slot_ahead_is_heard() {
    one_slot_ahead(None);
    let deaf: fn(&mut Config) = |config| config.mvc.recv_window = config.mvc.window;
    let stalled = catch_unwind(|| one_slot_ahead(Some(Sabotage::Config(deaf))));
    assert!(stalled.is_err(), "what is not kept must be said again");
}

/// S14: NULLs were sent for idle lanes, their sender's own among them, and it starts again with a command for its
/// lane.
fn restart_within_an_idle_run(sabotage: Option<Sabotage<Replica>>) {
    let mut net = Net::five(sabotage);
    net.submit(4, false);
    net.flush(4);
    // What it does not have it does not propose: it writes nothing but how far NULL may go.
    net.bring(|one| one.to == 1 && is_of_slots(one));
    net.flush(1);
    let sent = net
        .wire
        .iter()
        .filter(|one| one.from == 1 && is_of_slots(one));
    assert!(sent.count() > 0, "NULLs");
    net.bring(|one| one.from == 1);
    let others = net.hold_back(|_| true);
    net.crash(1, &mut Dice::new(1));
    net.restart(1);
    net.submit(1, false);
    for _ in 0..4 {
        net.flush(1);
        net.bring(|one| one.from == 1);
    }
    net.wire.extend(others);
    net.come_to_an_end();
}

#[test]
fn what_was_null_stays_null_after_a_restart() {
    restart_within_an_idle_run(None);
    let forgets: fn(&mut Output<Replica>) -> bool = |output| {
        let Output::Persist { record, .. } = output else {
            return true;
        };
        !matches!(record, Record::Mvc(weak_mvc::Record::Reserve { .. }))
    };
    let caught = catch_unwind(|| restart_within_an_idle_run(Some(Sabotage::Output(forgets))));
    assert!(text_of(caught.expect_err("caught")).contains("two proposals"));
}

fn text_of(caught: Box<dyn Any + Send>) -> String {
    let text = caught.downcast_ref::<String>();
    text.expect("a text").clone()
}

type Schedule = fn(Option<Sabotage<Replica>>);

/// What `mutants.rs` says is found here, and by which check.
#[test]
fn every_directed_mutant_is_found() {
    let by: [(&str, Schedule, &str); 4] = [
        ("undying-roster", roster_from_before_a_loss, "C5"),
        ("no-rebuild", vote_of_a_lost_segment, "C1"),
        ("paper-fast-path", |s| one_hears_enough(s, 4), "agreement"),
        ("fast-1", |s| one_hears_enough(s, 3), "agreement"),
    ];
    for (name, schedule, check) in by {
        let mutants = Racos::mutants();
        let mutant = mutants.iter().find(|mutant| mutant.name == name);
        let sabotage = mutant.expect("it is registered").sabotage;
        let caught = catch_unwind(|| schedule(Some(sabotage))).expect_err(name);
        let text = text_of(caught);
        assert!(text.contains(check), "{name}: {text}");
    }
}
