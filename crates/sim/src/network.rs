//! The links between replicas: what arrives, when, and how often.

use crate::plan::Links;
use fastrand::Rng;

/// The state of all links, by ordered pair of replicas.
pub(crate) struct Network {
    n: usize,
    /// How many partitions cut this link.
    cuts: Vec<u32>,
    /// Counts the resets of a link: what was on its way before is lost.
    resets: Vec<u32>,
    /// When the last frame arrives, on links that keep order.
    last_ns: Vec<u64>,
    pub(crate) dropped: u64,
}

impl Network {
    pub(crate) fn new(n: usize) -> Self {
        Network {
            n,
            cuts: vec![0; n * n],
            resets: vec![0; n * n],
            last_ns: vec![0; n * n],
            dropped: 0,
        }
    }

    /// Decides the fate of a frame: the delay of each copy that will arrive.
    pub(crate) fn route(
        &mut self,
        now_ns: u64,
        rng: &mut Rng,
        links: &Links,
        from: usize,
        to: usize,
    ) -> [Option<u64>; 2] {
        let link = self.link(from, to);
        if self.cuts[link] > 0 || chance(rng, links.loss) {
            self.dropped += 1;
            return [None, None];
        }
        let mut delay = delay(rng, links);
        if links.ordered {
            delay = delay.max(self.last_ns[link].saturating_sub(now_ns));
            self.last_ns[link] = now_ns + delay;
        }
        let twice = chance(rng, links.duplication).then(|| delay + self::delay(rng, links));
        [Some(delay), twice]
    }

    /// Names the present life of a link's connection.
    pub(crate) fn life(&self, from: usize, to: usize) -> u32 {
        self.resets[self.link(from, to)]
    }

    /// Loses what is on its way between two replicas, in both directions.
    pub(crate) fn reset(&mut self, a: usize, b: usize) {
        for link in [self.link(a, b), self.link(b, a)] {
            self.resets[link] += 1;
        }
    }

    /// Cuts the given links once more.
    pub(crate) fn cut(&mut self, links: &[(usize, usize)]) {
        for (from, to) in links {
            let link = self.link(*from, *to);
            self.cuts[link] += 1;
        }
    }

    /// Takes back one [`Self::cut`].
    pub(crate) fn mend(&mut self, links: &[(usize, usize)]) {
        for (from, to) in links {
            let link = self.link(*from, *to);
            self.cuts[link] = self.cuts[link].saturating_sub(1);
        }
    }

    /// Takes back all cuts.
    pub(crate) fn mend_all(&mut self) {
        self.cuts.fill(0);
    }

    fn link(&self, from: usize, to: usize) -> usize {
        from * self.n + to
    }
}

/// True with this probability; without one, no die is thrown.
pub(crate) fn chance(rng: &mut Rng, probability: f64) -> bool {
    probability > 0.0 && rng.f64() < probability
}

/// A random time of this mean, now and then much longer.
pub(crate) fn exponential(rng: &mut Rng, mean_ns: u64) -> u64 {
    let uniform = rng.f64().max(1e-9);
    (-(uniform.ln()) * mean_ns as f64) as u64
}

fn delay(rng: &mut Rng, links: &Links) -> u64 {
    let spike = if chance(rng, links.spike) {
        rng.u64(0..links.spike_max_ns)
    } else {
        0
    };
    links.delay_min_ns + exponential(rng, links.jitter_ns) + spike
}
