//! The hand-off of payloads, for all small pairs of configurations, against what counts in the end:
//! whether the value can be read whoever fails.

use super::pairs::Pair;
use crate::epochs::payload_safety::{is_safe, members_to_settle, stays_safe};
use quorate_core::Numbers;
use std::collections::{BTreeSet, VecDeque};

/// A naive variant of the hand-off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Naive {
    SettlesAtX,
    CountsLeavers,
    DropsAtTheSeal,
    RecodesAtX,
    LeavesWhenOpened,
}

/// Where one payload is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Place {
    /// Nodes with a fragment of the old code, and of the new one.
    old: u32,
    new: u32,
    /// Nodes that failed for good.
    failed: u32,
    is_recoded: bool,
    is_settled: bool,
    /// The leavers have deleted everything.
    has_left: bool,
}

struct Handoff {
    pair: Pair,
    naive: Option<Naive>,
}

impl Handoff {
    fn has(&self, naive: Naive) -> bool {
        self.naive == Some(naive)
    }

    /// The code in force and its holders that have not failed.
    fn in_force(&self, place: &Place) -> (u32, u32) {
        let (x, holders) = match place.is_recoded {
            true => (self.pair.new.x, place.new),
            false => (self.pair.old.x, place.old),
        };
        (x, holders & !place.failed)
    }

    fn is_readable(&self, place: &Place) -> bool {
        let (x, holders) = self.in_force(place);
        holders.count_ones() >= x
    }

    fn is_safe(&self, x: u32, holders: u32, failures: u32) -> bool {
        let counted = match self.has(Naive::CountsLeavers) {
            true => holders,
            false => holders & self.pair.after(),
        };
        is_safe(x as usize, counted.count_ones() as usize, failures as usize)
    }

    /// Every place that the value may be in when the epoch is sealed: any write quorum.
    fn first(&self) -> Vec<Place> {
        let sets = (0..=self.pair.before()).filter(|set| set & !self.pair.before() == 0);
        let quorums = sets.filter(|set| set.count_ones() == self.pair.old.write());
        let place = |old: u32| Place {
            // Members of the next epoch start with nothing.
            old: if self.has(Naive::DropsAtTheSeal) {
                old & !self.pair.after()
            } else {
                old
            },
            new: 0,
            failed: 0,
            is_recoded: false,
            is_settled: false,
            has_left: false,
        };
        quorums.map(place).collect()
    }

    /// What can happen next.
    fn next(&self, place: &Place) -> Vec<Place> {
        let mut next = self.failures(place);
        self.work(place, &mut next);
        let leavers = self.pair.before() & !self.pair.after();
        let may_leave = place.is_settled || self.has(Naive::LeavesWhenOpened);
        if may_leave && !place.has_left {
            let mut gone = *place;
            gone.has_left = true;
            gone.old &= !leavers;
            next.push(gone);
        }
        next
    }

    /// One more failure: at most `F` of the old members until it is settled, and `F'` of the new.
    fn failures(&self, place: &Place) -> Vec<Place> {
        let (before, after) = (self.pair.before(), self.pair.after());
        let nodes = (0..Pair::NODES_MAX).map(|node| 1 << node);
        let alive = nodes.filter(|node| (before | after) & !place.failed & node != 0);
        let fail = alive.map(|node| Place {
            failed: place.failed | node,
            ..*place
        });
        let bears = |place: &Place| {
            let count = |members: u32| (place.failed & members).count_ones();
            let old = place.is_settled || count(before) <= self.pair.old.failures();
            old && count(after) <= self.pair.new.failures()
        };
        fail.filter(bears).collect()
    }

    /// What hosts do: fill, code anew, settle.
    fn work(&self, place: &Place, next: &mut Vec<Place>) {
        let (x, holders) = self.in_force(place);
        let can_gather = holders.count_ones() >= x;
        let nodes = (0..Pair::NODES_MAX).map(|node| 1 << node);
        for node in nodes.filter(|node| self.pair.after() & !place.failed & node != 0) {
            if can_gather && !place.is_recoded {
                next.push(Place {
                    old: place.old | node,
                    ..*place
                });
            }
            if can_gather {
                next.push(Place {
                    new: place.new | node,
                    ..*place
                });
            }
        }
        let failures = self.pair.new.failures();
        let needed = match self.has(Naive::RecodesAtX) {
            true => place.new.count_ones() >= self.pair.new.x,
            false => self.is_safe(self.pair.new.x, place.new, failures),
        };
        if needed && !place.is_recoded {
            // Members drop their old fragments once the new ones stand for the value.
            next.push(Place {
                is_recoded: true,
                old: 0,
                ..*place
            });
        }
        let (x, held) = match place.is_recoded {
            true => (self.pair.new.x, place.new),
            false => (self.pair.old.x, place.old),
        };
        let failures = if self.has(Naive::SettlesAtX) {
            0
        } else {
            failures
        };
        if !place.is_settled && self.is_safe(x, held, failures) {
            next.push(Place {
                is_settled: true,
                ..*place
            });
        }
    }

    /// The same place with the nodes of each kind (leavers, those in both, joiners) in order: which
    /// of a kind does what makes no difference.
    fn canonical(&self, place: &Place) -> Place {
        let mut sorted = Place {
            old: 0,
            new: 0,
            failed: 0,
            ..*place
        };
        let (before, after) = (self.pair.before(), self.pair.after());
        let mut at = 0;
        for kind in [before & !after, before & after, after & !before] {
            let nodes = (0..Pair::NODES_MAX).filter(|node| kind >> node & 1 == 1);
            let bit = |set: u32, node: u32| set >> node & 1;
            let of = |node| {
                (
                    bit(place.old, node),
                    bit(place.new, node),
                    bit(place.failed, node),
                )
            };
            let mut nodes: Vec<_> = nodes.map(of).collect();
            nodes.sort_unstable();
            for (old, new, failed) in nodes {
                sorted.old |= old << at;
                sorted.new |= new << at;
                sorted.failed |= failed << at;
                at += 1;
            }
        }
        sorted
    }

    /// Visits everything; says how many places there are, or one in which the value is gone.
    fn search(&self) -> Result<usize, Place> {
        let first = self.first();
        let mut seen: BTreeSet<Place> = first.iter().copied().collect();
        let mut queue: VecDeque<Place> = first.into();
        while let Some(place) = queue.pop_front() {
            if !self.is_readable(&place) {
                return Err(place);
            }
            for next in self.next(&place) {
                let next = self.canonical(&next);
                if seen.insert(next) {
                    queue.push_back(next);
                }
            }
        }
        Ok(seen.len())
    }
}

#[test]
fn a_value_is_readable_at_each_moment_whoever_fails() {
    let pairs = Pair::all();
    assert_eq!(pairs.len(), 336);
    let places = pairs.iter().map(|pair| {
        let payload_safety = Handoff {
            pair: *pair,
            naive: None,
        };
        let places = payload_safety.search();
        places.unwrap_or_else(|place| panic!("{pair:?}: unreadable in {place:?}"))
    });
    println!("{} places of {} pairs", places.sum::<usize>(), pairs.len());
}

#[test]
fn every_naive_hand_off_loses_values() {
    for naive in [
        Naive::SettlesAtX,
        Naive::CountsLeavers,
        Naive::DropsAtTheSeal,
        Naive::RecodesAtX,
        Naive::LeavesWhenOpened,
    ] {
        let pairs = Pair::all();
        let naive_of = |pair: &Pair| Handoff {
            pair: *pair,
            naive: Some(naive),
        };
        let lost = pairs.iter().filter(|pair| naive_of(pair).search().is_err());
        let lost = lost.count();
        println!(
            "{naive:?}: a value is lost in {lost} of {} pairs",
            pairs.len()
        );
        assert!(lost > 0);
    }
}

/// The shortcut never says so where, by the condition itself, something has to move: whichever write
/// quorum holds the value, and whichever of its members leave.
#[test]
fn where_nothing_is_to_move_every_value_is_safe_already() {
    let mut shortcuts = 0;
    for pair in Pair::all() {
        let leavers = pair.old.n - pair.common;
        if !stays_safe(&pair.old.numbers(), leavers as usize, &pair.new.numbers()) {
            continue;
        }
        shortcuts += 1;
        let payload_safety = Handoff { pair, naive: None };
        for place in payload_safety.first() {
            let safe = payload_safety.is_safe(pair.old.x, place.old, pair.new.failures());
            assert!(safe, "{pair:?} {place:?}");
        }
    }
    assert!(shortcuts > 0);
}

/// Whoever is down, the members that are up are enough to make every payload safe.
#[test]
fn members_that_are_up_can_always_settle() {
    for pair in Pair::all() {
        let new = pair.new.numbers();
        let up = new.n - new.failures;
        assert!(is_safe(new.code, up, new.failures), "{pair:?}");
    }
}

/// Also where codes adapt to who answers, and `X' + F'` may be all there are.
#[test]
fn an_epoch_that_is_settled_is_safe_and_every_epoch_can_be_settled() {
    for n in 1..=9 {
        for failures in 0..=(n - 1) / 2 {
            for code in 1..=n - failures {
                let numbers = Numbers { n, failures, code };
                let settled = members_to_settle(&numbers);
                assert!(is_safe(code, settled, failures), "{numbers:?}");
                assert!((n - failures..=n).contains(&settled), "{numbers:?}");
            }
        }
    }
}
