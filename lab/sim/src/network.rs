//! The links between replicas: what arrives, when, and how often.

use crate::plan::Links;
use fastrand::Rng;
use quorate_core::SECONDS;
use std::collections::BTreeMap;

/// The state of all links, by ordered pair of replicas.
pub(crate) struct Network {
    n: usize,
    /// How many partitions cut this link.
    cuts: Vec<u32>,
    /// By replica: whether all its links are cut.
    isolated: Vec<bool>,
    /// Counts the resets of a link: what was on its way before is lost.
    resets: Vec<u32>,
    /// When the last frame arrives.
    last_ns: Vec<u64>,
    /// When the last frame has left, on links that carry only so much.
    free_ns: Vec<u64>,
    /// By how much a link is slower, and until when.
    slow_ns: Vec<(u64, u64)>,
    /// What every frame on a link takes beyond what links take.
    ways_ns: Vec<u64>,
    /// When that came about which an end heard last of a connection.
    heard_ns: BTreeMap<(usize, usize), u64>,
    pub(crate) counts: Counts,
}

/// What happened to frames.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) lost: u64,
    pub(crate) cut_off: u64,
    pub(crate) reset: u64,
    pub(crate) duplicated: u64,
    pub(crate) overtaken: u64,
    pub(crate) spiked: u64,
    pub(crate) slowed: u64,
    pub(crate) queued: u64,
    pub(crate) too_many: u64,
    /// Bytes of frames that were sent, lost ones included.
    pub(crate) sent_bytes: u64,
}

impl Counts {
    /// Frames that did not arrive.
    pub(crate) fn dropped(&self) -> u64 {
        self.lost + self.cut_off + self.reset + self.too_many
    }

    /// By name.
    pub(crate) fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("frame lost", self.lost),
            ("frame cut off", self.cut_off),
            ("frame lost by a reset", self.reset),
            ("frame duplicated", self.duplicated),
            ("frame overtaken", self.overtaken),
            ("frame delayed by a spike", self.spiked),
            ("frame on a slow link", self.slowed),
            ("frame waited for bandwidth", self.queued),
            ("frame beyond the link's queue", self.too_many),
        ]
    }
}

/// What waits before a link that carries only so much, at most: the rest is dropped.
const LINK_QUEUE_BYTES_MAX: u64 = 512 << 10;

impl Network {
    pub(crate) fn new(n: usize) -> Self {
        Network {
            n,
            cuts: vec![0; n * n],
            isolated: vec![false; n],
            resets: vec![0; n * n],
            last_ns: vec![0; n * n],
            free_ns: vec![0; n * n],
            slow_ns: vec![(0, 0); n * n],
            ways_ns: vec![0; n * n],
            heard_ns: BTreeMap::new(),
            counts: Counts::default(),
        }
    }

    /// Whether an end has heard nothing later of a connection: a server hears of its connections to a peer in their
    /// order, late or not at all.
    pub(crate) fn is_news(&mut self, link: (usize, usize), of_ns: u64) -> bool {
        let heard = self.heard_ns.entry(link).or_default();
        let is_news = *heard <= of_ns;
        *heard = (*heard).max(of_ns);
        is_news
    }

    /// Decides the fate of a frame: the delay of each copy that will arrive.
    pub(crate) fn route(
        &mut self,
        now_ns: u64,
        rng: &mut Rng,
        links: &Links,
        (from, to): (usize, usize),
        len: usize,
    ) -> [Option<u64>; 2] {
        let link = self.link(from, to);
        if !self.is_open(from, to) {
            self.counts.cut_off += 1;
            return [None, None];
        }
        if chance(rng, links.loss) {
            self.counts.lost += 1;
            return [None, None];
        }
        let Some(held) = self.hold(now_ns, links, link, len) else {
            self.counts.too_many += 1;
            return [None, None];
        };
        let mut delay = held + self.ways_ns[link] + self.delay(rng, links);
        if links.ordered {
            delay = delay.max(self.last_ns[link].saturating_sub(now_ns));
        }
        self.counts.overtaken += u64::from(now_ns + delay < self.last_ns[link]);
        self.last_ns[link] = self.last_ns[link].max(now_ns + delay);
        let twice = chance(rng, links.duplication).then(|| delay + self.delay(rng, links));
        self.counts.duplicated += u64::from(twice.is_some());
        [Some(delay), twice]
    }

    /// How long a frame is held up by a slow link and by frames before it; `None`: it is dropped.
    fn hold(&mut self, now_ns: u64, links: &Links, link: usize, len: usize) -> Option<u64> {
        let mut held = 0;
        let (slower_ns, until_ns) = self.slow_ns[link];
        if now_ns < until_ns {
            self.counts.slowed += 1;
            held += slower_ns;
        }
        if let Some(rate) = links.bytes_per_second {
            let begin_ns = self.free_ns[link].max(now_ns);
            let waits_ns = begin_ns - now_ns;
            if waits_ns > LINK_QUEUE_BYTES_MAX * SECONDS / rate {
                return None;
            }
            self.counts.queued += u64::from(waits_ns > 0);
            self.free_ns[link] = begin_ns + len as u64 * SECONDS / rate;
            held += self.free_ns[link] - now_ns;
        }
        Some(held)
    }

    fn delay(&mut self, rng: &mut Rng, links: &Links) -> u64 {
        let spike = if chance(rng, links.spike) {
            self.counts.spiked += 1;
            rng.u64(0..links.spike_max_ns)
        } else {
            0
        };
        let jitter_ns = match links.has_even_jitter {
            true => rng.u64(..(2 * links.jitter_ns).max(1)),
            false => exponential(rng, links.jitter_ns),
        };
        links.delay_min_ns + jitter_ns + spike
    }

    /// What every frame on a link takes beyond what links take.
    pub(crate) fn set_way(&mut self, from: usize, to: usize, way_ns: u64) {
        let link = self.link(from, to);
        self.ways_ns[link] = way_ns;
    }

    /// Makes a link slower until a time.
    pub(crate) fn slow_down(&mut self, from: usize, to: usize, by_ns: u64, until_ns: u64) {
        let link = self.link(from, to);
        self.slow_ns[link] = (by_ns, until_ns);
    }

    /// Whether frames have a chance on a link.
    pub(crate) fn is_open(&self, from: usize, to: usize) -> bool {
        self.cuts[self.link(from, to)] == 0 && !self.isolated[from] && !self.isolated[to]
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

    /// Cuts all links of a replica, whatever is mended, until all is.
    pub(crate) fn isolate(&mut self, index: usize) {
        self.isolated[index] = true;
    }

    /// Takes back all cuts, and makes slow links as fast as the others.
    pub(crate) fn mend_all(&mut self) {
        self.cuts.fill(0);
        self.isolated.fill(false);
        self.slow_ns.fill((0, 0));
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
