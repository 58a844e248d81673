//! Small clusters breadth first: whatever can happen, in every order, each state drained.

use super::act::Act;
use super::node::Life;
use super::{Body, Fault, Mutant, Scope, World, numbers};
use crate::epochs::{Configuration, Expect, Order, Reconfigure};
use quorate_core::{Slot, Wire};
use std::collections::{BTreeSet, VecDeque};
use xxhash_rust::xxh3::xxh3_128;

/// How far a search goes.
#[derive(Clone, Copy)]
struct Bounds {
    slots: u64,
    /// Rounds about a slot of an epoch.
    rounds: usize,
    crashes: usize,
    losses: usize,
    states: usize,
}

/// What a search came to.
#[derive(Debug)]
struct Found {
    states: usize,
    is_complete: bool,
}

/// Visits every state that can be come to within the bounds, and drains each.
fn search(first: World, bounds: Bounds) -> Result<Found, (usize, Fault)> {
    let mut seen = BTreeSet::from([fingerprint(&first)]);
    let mut queue = VecDeque::from([(first, 0, 0)]);
    let mut states = 0;
    while let Some((world, crashes, losses)) = queue.pop_front() {
        states += 1;
        let fault = |fault| (states, fault);
        world.clone().drain().map_err(fault)?;
        if states == bounds.states {
            let is_complete = false;
            return Ok(Found {
                states,
                is_complete,
            });
        }
        let left = Bounds {
            crashes: bounds.crashes - crashes,
            losses: bounds.losses - losses,
            ..bounds
        };
        for act in world.acts(left) {
            let mut next = world.clone();
            next.act(&act).map_err(fault)?;
            if seen.insert(fingerprint(&next)) {
                let crashes = crashes + usize::from(matches!(act, Act::Crash(_)));
                let losses = losses + usize::from(matches!(act, Act::Wipe(_)));
                queue.push_back((next, crashes, losses));
            }
        }
    }
    Ok(Found {
        states,
        is_complete: true,
    })
}

/// All that what can happen depends on.
fn fingerprint(world: &World) -> u128 {
    let mut notes = world.notes.clone();
    notes.sort_by_cached_key(|(from, to, note)| (*from, *to, note.to_bytes()));
    notes.dedup();
    let known = (&world.nodes, &world.voters, &world.chosen, &notes);
    let outside = (&world.answered, &world.seen, &world.read, &world.held);
    xxh3_128(format!("{known:?}{outside:?}").as_bytes())
}

impl World {
    /// Everything that can happen, but timers: what they would say again was said.
    fn acts(&self, left: Bounds) -> Vec<Act> {
        let mut acts = Vec::new();
        self.rounds(left, &mut acts);
        for (place, node) in self.nodes.iter().enumerate() {
            let next = node.live.next;
            let known = self.chosen.keys().filter(|(_, slot)| *slot >= next);
            let known = known.filter(|(epoch, slot)| {
                let waits = || node.window.ahead().any(|(ahead, _)| ahead == *slot);
                *epoch == node.current() && !waits()
            });
            match node.life {
                Life::Up => {
                    acts.extend(known.map(|(epoch, slot)| Act::Learn(place, *epoch, *slot)));
                    if node.disk != node.live || !node.writing.is_empty() {
                        acts.push(Act::Flush(place));
                    }
                    if node.disk != node.live && !node.writing.is_empty() {
                        acts.push(Act::FlushRecords(place));
                    }
                    if left.crashes > 0 {
                        acts.push(Act::Crash(place));
                    }
                    let others = self.nodes.iter().enumerate();
                    let further = others.filter(|(_, o)| o.is_up() && o.live.next > next);
                    acts.extend(further.map(|(from, _)| Act::Fetch(place, from)));
                }
                Life::Down => acts.push(Act::Boot(place)),
                Life::Gone | Life::Left => {}
            }
            let has_disk = matches!(node.life, Life::Up | Life::Down);
            if left.losses > 0 && has_disk && self.may_lose(node.me) {
                acts.push(Act::Wipe(place));
            }
        }
        acts.extend((0..self.notes.len()).map(Act::Note));
        self.read_acts(&mut acts);
        self.acts_apart(&mut acts);
        acts
    }

    /// What only some scopes have.
    fn acts_apart(&self, acts: &mut Vec<Act>) {
        for place in (0..self.nodes.len()).filter(|_| self.scope.is_ahead) {
            if self.next_ahead(place).is_some() {
                acts.push(Act::Ahead(place));
            }
            let mut sure = self.sure_ahead(place);
            let waits = |(_, request): (Slot, u16)| !self.answered.contains_key(&request);
            if sure.any(waits) {
                acts.push(Act::AnswerAhead(place));
            }
        }
        for place in (0..self.nodes.len()).filter(|_| self.scope.has_values) {
            let lacking = self.lacking(place).into_iter();
            acts.extend(lacking.map(|request| Act::Gather(place, request)));
        }
        let settled = self.settled().map(Body::Order);
        let is_news = |body: &Body| !self.requests.contains(body);
        acts.extend(settled.filter(is_news).map(Act::Request));
    }

    fn read_acts(&self, acts: &mut Vec<Act>) {
        if self.read.is_some() {
            acts.extend((0..self.nodes.len()).map(Act::Ask));
            acts.push(Act::FinishRead);
        }
    }

    /// Rounds of the first voter of each epoch, about any slot, with any quorum and any writes.
    fn rounds(&self, left: Bounds, acts: &mut Vec<Act>) {
        let epochs: BTreeSet<u64> = self.nodes.iter().filter_map(|n| n.running()).collect();
        for epoch in epochs {
            let voting = self.voting(epoch);
            let Some(config) = self.epoch(epoch) else {
                continue;
            };
            let quorum = numbers(config).quorum();
            let proposer = voting[0];
            let next = self.nodes[proposer].live.next.max(config.first_slot);
            for slot in (next.0..left.slots).map(Slot) {
                let rounds = self
                    .voters
                    .range((epoch, slot, 0)..=(epoch, slot, u32::MAX));
                if rounds.count() >= left.rounds {
                    continue;
                }
                let voted = |place: &&usize| {
                    let votes = &self.nodes[**place].votes;
                    votes.contains_key(&(epoch, slot))
                };
                let is_fresh = !voting.iter().any(|place| voted(&place));
                let mut reads = subsets(&voting, quorum..=quorum);
                reads.truncate(if is_fresh { 1 } else { usize::MAX });
                for read in reads {
                    for write in subsets(&voting, 1..=voting.len()) {
                        let requests = 0..self.requests.len() as u16;
                        acts.extend(requests.map(|request| Act::Round {
                            epoch,
                            slot,
                            proposer,
                            read,
                            write,
                            value: Some(request),
                        }));
                    }
                }
            }
        }
    }
}

/// Sets of so many of these, as masks.
fn subsets(places: &[usize], sizes: std::ops::RangeInclusive<usize>) -> Vec<u32> {
    let all = places.iter().fold(0u32, |mask, place| mask | 1 << place);
    let masks = (1..=all).filter(|mask| mask & !all == 0);
    masks
        .filter(|mask| sizes.contains(&(mask.count_ones() as usize)))
        .collect()
}

/// A cluster in which one write and changes to these members are asked for.
fn small(nodes: usize, members: usize, changes: &[&[usize]], mutant: Option<Mutant>) -> World {
    of_scope(Scope::of(nodes, mutant), members, changes)
}

/// The same; what is written is executed ahead of its decision.
fn ahead(nodes: usize, members: usize, changes: &[&[usize]], mutant: Option<Mutant>) -> World {
    let scope = Scope {
        is_ahead: true,
        ..Scope::of(nodes, mutant)
    };
    of_scope(scope, members, changes)
}

/// The same; the bytes of what is written may never arrive.
fn apart(nodes: usize, members: usize, changes: &[&[usize]], mutant: Option<Mutant>) -> World {
    let scope = Scope {
        has_values: true,
        ..Scope::of(nodes, mutant)
    };
    of_scope(scope, members, changes)
}

fn of_scope(scope: Scope, members: usize, changes: &[&[usize]]) -> World {
    let failures = |n: usize| (n - 1) / 2;
    let mut world = World::new(scope, members, failures(members));
    world.notes.clear();
    world.requests.push(match scope.has_values {
        true => Body::Value,
        false => Body::Write,
    });
    let first = world.truth.state.chain.newest().clone();
    for places in changes {
        let mut configuration = Configuration::of(&first);
        configuration.members = places.iter().map(|place| world.nodes[*place].me).collect();
        let failures = failures(places.len()).to_string();
        configuration.params.insert("f".to_owned(), failures);
        world
            .requests
            .push(Body::Order(Order::Reconfigure(Reconfigure {
                expect: Expect::of(&first),
                configuration,
            })));
    }
    world
}

const BOUNDS: Bounds = Bounds {
    slots: 2,
    rounds: 1,
    crashes: 1,
    losses: 1,
    states: 4_000,
};

#[test]
fn a_single_member_hands_over_to_another_in_every_order() {
    let bounds = Bounds {
        crashes: 0,
        losses: 0,
        states: 20_000,
        ..BOUNDS
    };
    let found = search(small(2, 1, &[&[1]], None), bounds).unwrap();
    println!("1 -> another 1, no faults: {found:?}");
    assert!(found.is_complete && found.states > 100);
}

#[test]
fn a_single_member_hands_over_to_another_whatever_fails() {
    let found = search(small(2, 1, &[&[1]], None), BOUNDS).unwrap();
    println!("1 -> another 1: {found:?}");
}

#[test]
fn one_of_two_is_replaced_in_many_orders() {
    let found = search(small(3, 2, &[&[0, 2]], None), BOUNDS).unwrap();
    println!("2 -> 2, one replaced: {found:?}");
}

#[test]
fn what_is_executed_ahead_of_a_seal_is_answered_in_no_order_wrongly() {
    let found = search(ahead(2, 1, &[&[1]], None), BOUNDS).unwrap();
    println!("1 -> another 1, executed ahead: {found:?}");
}

#[test]
fn bytes_that_never_arrive_are_missed_by_nobody_in_any_order() {
    let found = search(apart(2, 1, &[&[1]], None), BOUNDS).unwrap();
    println!("1 -> another 1, bytes apart: {found:?}");
}

#[test]
#[ignore = "minutes"]
fn small_clusters_in_every_order() {
    let within = |states| Bounds { states, ..BOUNDS };
    let found = search(small(2, 1, &[&[1]], None), within(40_000)).unwrap();
    println!("1 -> another 1: {found:?}");
    assert!(found.is_complete);
    for (name, world) in [
        ("executed ahead", ahead(2, 1, &[&[1]], None)),
        ("bytes apart", apart(2, 1, &[&[1]], None)),
    ] {
        let found = search(world, within(400_000)).unwrap();
        println!("1 -> another 1, {name}: {found:?}");
        assert!(found.is_complete);
    }
    let scopes: [(&str, World); 8] = [
        ("2 -> 2, ahead", ahead(3, 2, &[&[0, 2]], None)),
        ("2 -> 2, bytes apart", apart(3, 2, &[&[0, 2]], None)),
        ("3 -> 3, ahead", ahead(4, 3, &[&[0, 1, 3]], None)),
        ("3 -> 3, bytes apart", apart(4, 3, &[&[0, 1, 3]], None)),
        ("2 -> 2, one replaced", small(3, 2, &[&[0, 2]], None)),
        ("1 -> 3", small(3, 1, &[&[0, 1, 2]], None)),
        ("3 -> 3, one replaced", small(4, 3, &[&[0, 1, 3]], None)),
        ("3, two changes", small(3, 3, &[&[0], &[1, 2]], None)),
    ];
    for (name, world) in scopes {
        let found = search(world, within(15_000));
        println!("{name}: {:?}", found.unwrap());
    }
}

/// Rules whose breaking shows in the smallest clusters.
#[test]
fn broken_rules_show_in_every_order_of_small_clusters() {
    let plain = [
        Mutant::LeavesAtItsSeal,
        Mutant::NoSessions,
        Mutant::AnswersWhenDecided,
    ];
    let plain = plain.map(|mutant| (mutant, small(2, 1, &[&[1]], Some(mutant))));
    let mutant = Mutant::ExecutesBehindChange;
    let ahead = (mutant, ahead(2, 1, &[&[1]], Some(mutant)));
    let cases = plain.into_iter().chain([ahead]);
    for (mutant, world) in cases {
        let found = search(world, BOUNDS);
        let (states, fault) = found
            .err()
            .unwrap_or_else(|| panic!("{mutant:?} does not show"));
        println!("{mutant:?}: after {states} states, {fault}");
    }
}
