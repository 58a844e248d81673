//! Random schedules: whatever replicas, disks and links do, what they commit agrees, and reads see
//! it ([`Net`] watches). In the end everything works again, everybody has everything, and all is
//! quiet.

use super::net::Net;
use crate::chora::Fault;
use crate::chora::{Config, Record, Timer};
use crate::shared::faults::Faults;
use fastrand::Rng;
use quorate_core::{Machine, RequestId};
use std::collections::BTreeSet;
use std::ops::Range;

const STEPS: usize = 1_500;

struct Walk {
    net: Net,
    rng: Rng,
    /// Writes and reads, and where they were asked for.
    writes: Vec<(usize, RequestId)>,
    reads: Vec<(usize, RequestId)>,
    /// Replicas that are down.
    down: BTreeSet<usize>,
    down_max: usize,
    /// Whether promises are lost at all.
    loses: bool,
    /// Replicas that had lost their promises when they started last.
    lost: BTreeSet<usize>,
}

impl Walk {
    fn new(net: Net, seed: u64) -> Walk {
        let down_max = (net.nodes.len() - 1) / 2;
        Walk {
            net,
            rng: Rng::with_seed(seed),
            writes: Vec::new(),
            reads: Vec::new(),
            down: BTreeSet::new(),
            down_max,
            // Where none are, replicas come back sooner and more goes wrong otherwise.
            loses: seed % 4 == 3,
            lost: BTreeSet::new(),
        }
    }

    fn any(&mut self) -> usize {
        self.rng.usize(0..self.net.nodes.len())
    }

    fn step(&mut self) {
        self.net.now_ns += self.rng.u64(0..300_000);
        let me = self.any();
        match self.rng.u32(0..1000) {
            0..600 => self.pass_one(),
            600..730 => self.fire(me),
            730..800 => self.ask(me),
            800..880 => self.flush(me),
            880..920 => self.fail(me),
            920..960 => self.come_back(),
            960..985 => self.toggle_links(me),
            _ => self.net.hint(me, self.rng.bool()),
        }
    }

    /// A message arrives, twice or never, not always in its turn.
    fn pass_one(&mut self) {
        if self.net.wire.is_empty() {
            return;
        }
        let place = match self.rng.u32(0..4) {
            0 => self.rng.usize(0..self.net.wire.len()),
            _ => 0,
        };
        let packet = self.net.wire.remove(place).expect("it is on its way");
        match self.rng.u32(0..20) {
            0 => {}
            1 => {
                self.net.wire.push_back(packet.clone());
                self.net.receive(packet);
            }
            _ => self.net.receive(packet),
        }
    }

    fn fire(&mut self, me: usize) {
        let timers: Vec<Timer> = self.net.nodes[me].timers.keys().copied().collect();
        let is_patience = |timer: &Timer| *timer == Timer::Patience;
        if let Some(timer) = self.rng.choice(timers).filter(|timer| !is_patience(timer)) {
            self.net.fire(me, timer);
        }
    }

    fn ask(&mut self, me: usize) {
        if self.down.contains(&me) || self.writes.len() > STEPS / 20 {
            return;
        }
        if self.rng.u8(0..4) == 0 {
            let read = self.net.read(me);
            self.reads.push((me, read));
        } else {
            let write = self.net.write(me);
            self.writes.push((me, write));
        }
    }

    /// The disk gets stuck, or done.
    fn flush(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        node.is_stuck = !node.is_stuck && node.machine.is_some();
        if !node.is_stuck {
            self.net.flush(me);
        }
    }

    fn fail(&mut self, me: usize) {
        if self.down.len() < self.down_max && self.down.insert(me) {
            self.net.crash(me);
            self.writes.retain(|(at, _)| *at != me);
            self.reads.retain(|(at, _)| *at != me);
        }
    }

    /// With its promises, or without if all others have theirs.
    fn come_back(&mut self) {
        let Some(me) = self.down.pop_first() else {
            return;
        };
        let is_whole = |other: usize| {
            let machine = self.net.nodes[other].machine.as_ref();
            other == me || machine.is_none_or(|machine| machine.is_serving())
        };
        let was_whole = !self.lost.contains(&me);
        let others_are = (0..self.net.nodes.len()).all(is_whole) && self.down.is_empty();
        if self.loses && self.rng.u8(0..4) == 0 && others_are && was_whole {
            self.net.lose_promises(me);
        } else {
            self.net.restart(me);
        }
        let is_out = !self.net.machine(me).is_serving();
        if is_out {
            self.lost.insert(me);
        } else {
            self.lost.remove(&me);
        }
    }

    fn toggle_links(&mut self, me: usize) {
        if self.net.cut.is_empty() {
            self.net.isolate(me);
        } else {
            self.net.cut.clear();
        }
    }

    /// Everything works again.
    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.come_back();
        }
        self.net.cut.clear();
        for me in 0..self.net.nodes.len() {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        self.net.settle();
    }

    fn check(&self, seed: u64) {
        for (me, request) in &self.writes {
            assert_eq!(
                self.net.times(*me, *request),
                1,
                "seed {seed}: {request:?} is in the log of {me} once"
            );
        }
        for (me, request) in &self.reads {
            let mut replies = self.net.nodes[*me].replies.iter();
            assert!(
                replies.any(|(id, _)| id == request),
                "seed {seed}: {request:?}"
            );
        }
    }
}

fn walk(net: impl Fn() -> Net, seeds: Range<u64>) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut walk = Walk::new(net(), seed);
        for _ in 0..STEPS {
            walk.step();
        }
        walk.heal();
        walk.check(seed);
        seen.extend(walk.net.branches.keys());
    }
    seen
}

const RESPONSIVE: &[(&str, &str)] = &[("mode", "responsive"), ("window", "64")];

#[test]
fn three_proposers_agree() {
    let seen = walk(|| Net::new(3, RESPONSIVE), 0..150);
    for branch in [
        "began a view",
        "tail cut",
        "recovered",
        "installed",
        "joined a view",
    ] {
        assert!(seen.contains(branch), "{branch} of {seen:?}");
    }
}

#[test]
fn five_members_with_some_proposers_agree() {
    walk(|| Net::new(5, RESPONSIVE), 0..50);
    walk(
        || Net::new(5, &[("proposers", "2"), ("window", "64")]),
        100..140,
    );
}

#[test]
fn one_proposer_leads() {
    walk(
        || Net::new(3, &[("proposers", "1"), ("window", "16")]),
        0..80,
    );
}

#[test]
fn rounds_agree() {
    let seen = walk(|| Net::new(3, &[("mode", "pulsing")]), 0..80);
    assert!(seen.contains("pulses ended"), "{seen:?}");
    walk(
        || Net::new(5, &[("mode", "pulsing"), ("proposers", "3")]),
        0..30,
    );
}

#[test]
fn four_and_seven_members_agree() {
    walk(|| Net::new(4, RESPONSIVE), 0..30);
    walk(|| Net::new(7, RESPONSIVE), 0..20);
}

/// The schedules above are such that what goes wrong shows: in one of the first seeds, in what replicas
/// commit and answer. Nobody checks itself.
fn is_noticed(seeds: Range<u64>, edit: fn(&mut Config), forget: Option<fn(&Record) -> bool>) {
    let net = || {
        let mut net = Net::with(3, RESPONSIVE, edit);
        (net.watch.forget, net.is_checked) = (forget, false);
        net
    };
    let why = failure(|| drop(walk(net, seeds)));
    assert!(is_disagreement(&why), "{why}");
}

/// What a panic says.
pub(super) fn failure(of: impl FnOnce()) -> String {
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(of));
    let why = found.expect_err("nothing is noticed");
    let literal = why.downcast_ref::<&str>().map(ToString::to_string);
    let why = literal.or_else(|| why.downcast_ref::<String>().cloned());
    why.expect("a message")
}

/// Whether it is what [`Net`] says of replicas that contradict each other, or clients.
pub(super) fn is_disagreement(why: &str) -> bool {
    let known = [
        "agreement",
        "one value per slot and view",
        "a read sees what completed",
        "every entry takes effect once",
        "is in the log of",
        "misbehaved",
    ];
    known.iter().any(|known| why.contains(known))
}

/// A VIEW-INIT that tells of one segment only: most tails are older.
#[test]
fn lists_of_one_segment_agree() {
    let short: fn(&mut Config) = |config| config.segments_max = 1;
    walk(|| Net::with(3, RESPONSIVE, short), 0..60);
}

#[test]
fn one_acknowledgement_too_few_is_noticed() {
    is_noticed(0..40, |config| config.thresholds.commit -= 1, None);
}

#[test]
fn one_vote_too_few_is_noticed() {
    is_noticed(0..40, |config| config.thresholds.vote -= 1, None);
}

#[test]
fn a_read_that_asks_too_few_is_noticed() {
    is_noticed(0..40, |config| config.thresholds.read -= 1, None);
}

#[test]
fn a_stale_tail_is_noticed() {
    is_noticed(
        0..200,
        |config| config.faults = Faults::only(Fault::VerifyOutOfOrder),
        None,
    );
}

#[test]
fn a_commit_index_beyond_the_log_is_noticed() {
    is_noticed(
        0..40,
        |config| config.faults = Faults::only(Fault::UnclampedCommit),
        None,
    );
}

#[test]
fn what_is_recovered_unverified_is_noticed() {
    is_noticed(
        0..4000,
        |config| config.faults = Faults::only(Fault::RecoverUnverified),
        None,
    );
}

#[test]
fn a_proposer_that_goes_on_after_a_restart_is_noticed() {
    is_noticed(
        0..40,
        |config| config.faults = Faults::only(Fault::ProposeAfterRestart),
        None,
    );
}

#[test]
fn a_read_by_acknowledgements_is_noticed() {
    is_noticed(
        0..400,
        |config| config.faults = Faults::only(Fault::ReadByAck),
        None,
    );
}

#[test]
fn a_vote_that_was_not_written_is_noticed() {
    // By a replica that checks itself: two initiators of one view are rare here.
    let net = || {
        let mut net = Net::new(3, RESPONSIVE);
        net.watch.forget = Some(Record::is_view);
        net
    };
    failure(|| drop(walk(net, 0..40)));
}

#[test]
fn a_log_that_was_not_written_is_noticed() {
    is_noticed(0..200, |_| {}, Some(Record::is_append));
}

#[test]
fn a_life_that_nobody_took_note_of_is_noticed() {
    is_noticed(0..4_000, |config| config.thresholds.rejoin = 0, None);
}
