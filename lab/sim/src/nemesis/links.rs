//! Links that are cut, slow or reset.

use crate::node::Inbound;
use crate::recording::What;
use crate::subject::Subject;
use crate::world::{Event, World};
use quorate_core::{MILLIS, Machine};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// The cluster falls into two parts; mostly one replica is cut off.
    pub(super) fn partition(&mut self) {
        let n = self.nodes.len();
        let one = self.rng.usize(..n);
        let side: Vec<bool> = match self.rng.u8(..3) {
            0 => (0..n).map(|_| self.rng.bool()).collect(),
            _ => (0..n).map(|index| index == one).collect(),
        };
        let (outward, inward) = [(true, true), (true, false), (false, true)][self.rng.usize(..3)];
        let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        let links: Vec<(usize, usize)> = pairs
            .filter(|(from, to)| {
                side[*from] != side[*to] && if side[*from] { outward } else { inward }
            })
            .collect();
        self.totals.hit(match (outward, inward) {
            (true, true) => "partition",
            _ => "partition one way",
        });
        self.cut(links);
    }

    /// Cuts links for a while; replicas may or may not notice.
    fn cut(&mut self, links: Vec<(usize, usize)>) {
        self.note_links("cut", &links);
        self.network.cut(&links);
        let now_ns = self.queue.now_ns();
        for (from, to) in &links {
            if self.rng.bool() {
                let delay = self.rng.u64(..20 * MILLIS);
                self.tell_of_link((*from, *to), false, now_ns, delay);
            }
        }
        let delay = self.rng.u64(..=self.plan.outage_max_ns);
        for (from, to) in &links {
            let later = delay + self.rng.u64(..5 * MILLIS);
            self.tell_of_link((*from, *to), true, now_ns + delay, later);
        }
        self.queue.after(delay, Event::Mend { links });
    }

    /// A replica hears after a while that a connection came up or went down.
    pub(crate) fn tell_of_link(
        &mut self,
        (node, peer): (usize, usize),
        up: bool,
        of_ns: u64,
        delay_ns: u64,
    ) {
        let event = Event::Link {
            node,
            peer,
            up,
            of_ns,
        };
        self.queue.after(delay_ns, event);
    }

    /// A replica hears that a connection came up or went down, unless it has heard something later of it.
    pub(crate) fn hear_of_link(&mut self, (node, peer): (usize, usize), up: bool, of_ns: u64) {
        if !self.network.is_news((node, peer), of_ns) {
            return;
        }
        let agreed = self.supported(node).common(self.supported(peer));
        let version = agreed.filter(|_| up);
        let peer = self.number(peer);
        self.arrive(node, Inbound::Link { peer, version });
    }

    /// What is cut or whole again, for the trace.
    pub(crate) fn note_links(&mut self, what: &'static str, links: &[(usize, usize)]) {
        let now_ns = self.queue.now_ns();
        self.record(|| match what {
            "cut" => What::Cut(links.to_vec()),
            _ => What::Mended(links.to_vec()),
        });
        self.trace.event(now_ns, what, &[links.len() as u64], || {
            let names = links
                .iter()
                .map(|(from, to)| format!(" r{}>r{}", from + 1, to + 1));
            names.collect()
        });
    }

    /// A connection breaks and comes back; now and then the hints about it are wrong.
    pub(super) fn reset(&mut self) {
        let n = self.nodes.len();
        let (a, b) = (self.rng.usize(..n), self.rng.usize(..n));
        if a == b {
            return;
        }
        if self.rng.u8(..10) > 0 {
            self.network.reset(a, b);
            self.totals.hit("reset");
        }
        let now_ns = self.queue.now_ns();
        for (node, peer) in [(a, b), (b, a)] {
            if self.rng.u8(..10) > 0 {
                let down = self.rng.u64(..MILLIS);
                let up = down + self.rng.u64(..5 * MILLIS);
                self.tell_of_link((node, peer), false, now_ns, down);
                self.tell_of_link((node, peer), true, now_ns, up);
            }
        }
    }

    /// One link carries nothing; the other direction works.
    pub(super) fn cut_one_way(&mut self) {
        if let Some(link) = self.some_link() {
            self.totals.hit("link cut one way");
            self.cut(vec![link]);
        }
    }

    /// Two parts that only one replica connects, seen by both.
    pub(super) fn bridge(&mut self) {
        let n = self.nodes.len();
        if n < 3 {
            return;
        }
        let bridge = self.nemesis.rng.usize(..n);
        let side: Vec<bool> = (0..n).map(|_| self.nemesis.rng.bool()).collect();
        let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
        let between = |(from, to): &(usize, usize)| {
            side[*from] != side[*to] && *from != bridge && *to != bridge
        };
        let links: Vec<_> = pairs.filter(between).collect();
        if !links.is_empty() {
            self.totals.hit("partition with a bridge");
            self.cut(links);
        }
    }

    /// A link takes longer for a while.
    pub(super) fn slow_link(&mut self) {
        if let Some((from, to)) = self.some_link() {
            let rng = &mut self.nemesis.rng;
            let by_ns = rng.u64(1..50) * MILLIS;
            let until_ns = self.queue.now_ns() + rng.u64(..=2 * self.plan.outage_max_ns);
            self.network.slow_down(from, to, by_ns, until_ns);
            self.totals.hit("slow link");
        }
    }

    fn some_link(&mut self) -> Option<(usize, usize)> {
        let n = self.nodes.len();
        let rng = &mut self.nemesis.rng;
        let link = (rng.usize(..n), rng.usize(..n));
        (link.0 != link.1).then_some(link)
    }
}
