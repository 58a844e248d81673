//! Random schedules: messages arrive twice or never and not in their turn, timers fire, disks get stuck, replicas
//! die and come back, links lose everything. In the end everything works again, and everybody has everything.

use crate::cluster::{Cluster, Watch};
use fastrand::Rng;
use quorate_core::{Introspect, Plain, RequestId, majority};
use std::collections::BTreeSet;
use std::ops::{DerefMut, Range};

/// A cluster that is walked with.
pub trait Walked: DerefMut<Target = Cluster<Self::Machine, Self::Watch>> {
    /// The machine of each replica.
    type Machine: Plain + Introspect;
    /// What is watched meanwhile.
    type Watch: Watch<Self::Machine>;
    /// Steps of a walk before everything works again.
    const STEPS: usize = 1_200;
    /// Of a thousand steps, those in which a message arrives, and those in which a timer fires.
    const SHARES: [u32; 2] = [600, 120];

    /// Whether a timer ends requests, and is left alone.
    fn ends_requests(timer: &<Self::Machine as quorate_core::Machine>::Timer) -> bool;

    /// A client asks for something at a replica that is up; `None` if nobody waits for the answer.
    fn ask(&mut self, me: usize, rng: &mut Rng) -> Option<RequestId> {
        let _ = rng;
        let is_serving = self.nodes[me].is_serving();
        is_serving.then(|| self.write(me))
    }

    /// A process dies.
    fn fail(&mut self, me: usize, rng: &mut Rng) {
        let _ = rng;
        self.crash(me);
    }

    /// A process comes back, with its disk or without its promises; its disk gets done.
    fn come_back(&mut self, me: usize, has_promises: bool) {
        self.nodes[me].is_stuck = false;
        match has_promises {
            true => self.restart(me),
            false => self.lose_promises(me),
        }
    }

    /// Whether another process may die, though fewer than a minority have.
    fn may_fail(&self, down: &BTreeSet<usize>) -> bool {
        let _ = down;
        true
    }

    /// Whether a replica that has everything is as it should be.
    fn is_whole(&self, me: usize) -> bool {
        let _ = me;
        true
    }
}

/// The replicas that come back without their promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Losers {
    /// Replicas keep what they promised.
    Nobody,
    /// The last replica loses its promises whenever it dies.
    TheLast,
    /// Whoever dies has lost its promises.
    Everybody,
}

/// Walks with clusters that `make` makes, a seed each, and says which branches were taken.
///
/// # Panics
/// If a cluster does not come to have everything once everything works again; and with what is watched.
pub fn walk<N: Walked>(
    make: impl Fn() -> N,
    losers: Losers,
    seeds: Range<u64>,
) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    for seed in seeds {
        let mut walk = Walk {
            net: make(),
            rng: Rng::with_seed(seed),
            losers,
            asked: Vec::new(),
            down: BTreeSet::new(),
        };
        (0..N::STEPS).for_each(|_| walk.step());
        walk.heal();
        let explained = |me| walk.net.machine(me).explain();
        let states: Vec<String> = (0..walk.n()).map(explained).collect();
        assert!(walk.is_done(), "seed {seed}: {states:#?}");
        seen.extend(walk.net.branches.keys());
    }
    seen
}

struct Walk<N> {
    net: N,
    rng: Rng,
    losers: Losers,
    /// Requests, and where they were asked for.
    asked: Vec<(usize, RequestId)>,
    /// Replicas that are down.
    down: BTreeSet<usize>,
}

impl<N: Walked> Walk<N> {
    fn n(&self) -> usize {
        self.net.nodes.len()
    }

    fn step(&mut self) {
        let me = self.rng.usize(0..self.n());
        let [passes, fires] = N::SHARES;
        let asks = passes + fires;
        match self.rng.u32(0..1000) {
            draw if draw < passes => self.pass_one(),
            draw if draw < asks => self.fire(me),
            draw if draw < asks + 80 => self.ask(me),
            draw if draw < asks + 170 => self.toggle_disk(me),
            draw if draw < asks + 205 => self.fail(me),
            draw if draw < asks + 245 => self.come_back(),
            draw if draw < asks + 265 => self.toggle_links(me),
            _ => {
                let up = self.rng.bool();
                self.net.hint(me, up);
            }
        }
    }

    /// A message arrives, twice or never, not always in its turn.
    fn pass_one(&mut self) {
        let last = self.net.wire.len().saturating_sub(1);
        let place = match self.rng.u32(0..4) {
            0 => self.rng.usize(0..=last),
            _ => 0,
        };
        let Some(packet) = self.net.wire.remove(place) else {
            return;
        };
        match self.rng.u32(0..20) {
            0 => return,
            1 => self.net.wire.push_back(packet.clone()),
            _ => {}
        }
        self.net.receive(packet);
    }

    fn fire(&mut self, me: usize) {
        let timers = self.net.nodes[me].timers.keys().copied();
        let timers: Vec<_> = timers.filter(|timer| !N::ends_requests(timer)).collect();
        if let Some(timer) = self.rng.choice(timers) {
            self.net.fire(me, timer);
        }
    }

    fn ask(&mut self, me: usize) {
        if self.net.nodes[me].machine.is_some() && self.asked.len() < N::STEPS / 20 {
            let asked = self.net.ask(me, &mut self.rng);
            self.asked.extend(asked.map(|request| (me, request)));
        }
    }

    /// The disk gets stuck, or done.
    fn toggle_disk(&mut self, me: usize) {
        let node = &mut self.net.nodes[me];
        if node.machine.is_none() {
            return;
        }
        node.is_stuck = !node.is_stuck;
        if !node.is_stuck {
            self.net.flush(me);
        }
    }

    fn fail(&mut self, me: usize) {
        let is_minority = self.down.len() < self.n() - majority(self.n());
        if is_minority && self.net.may_fail(&self.down) && self.down.insert(me) {
            self.net.fail(me, &mut self.rng);
            self.asked.retain(|(at, _)| *at != me);
        }
    }

    fn come_back(&mut self) {
        let Some(me) = self.down.pop_first() else {
            return;
        };
        let has_promises = match self.losers {
            Losers::Nobody => true,
            Losers::TheLast => me + 1 < self.n(),
            Losers::Everybody => false,
        };
        self.net.come_back(me, has_promises);
    }

    fn toggle_links(&mut self, me: usize) {
        match self.net.cut.is_empty() {
            true => self.net.isolate(me),
            false => self.net.cut.clear(),
        }
    }

    /// Everything works again, until all have everything.
    fn heal(&mut self) {
        while !self.down.is_empty() {
            self.come_back();
        }
        self.net.cut.clear();
        for me in 0..self.n() {
            self.net.nodes[me].is_stuck = false;
            self.net.flush(me);
            self.net.hint(me, true);
        }
        for round in 0..600 {
            self.net.run();
            if round > 2 && self.is_done() {
                return;
            }
            if round == 2 {
                // Whoever missed all there was hears of something.
                let me = (0..self.n()).find(|me| self.net.nodes[*me].is_serving());
                let me = me.expect("a majority is");
                let request = self.net.write(me);
                self.asked.push((me, request));
            }
            let (first, n) = (self.rng.usize(0..self.n()), self.n());
            for me in (0..n).map(|me| (me + first) % n) {
                self.fire(me);
                self.net.run();
            }
        }
    }

    fn is_done(&self) -> bool {
        let nodes = &self.net.nodes;
        let longest = nodes.iter().map(|node| node.log.len()).max();
        let is_complete = |me: usize| Some(nodes[me].log.len()) == longest && self.net.is_whole(me);
        let is_served = |(at, request): &(usize, RequestId)| nodes[*at].times(*request) == 1;
        (0..nodes.len()).all(is_complete) && self.asked.iter().all(is_served)
    }
}
