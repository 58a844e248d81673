//! What a run without faults costs: how its slots were decided, and how long requests took.

use crate::capacity::Reading;
use crate::phases::Phase;
use crate::subject::Subject;
use crate::world::World;
use bytes::Bytes;
use quorate_core::{Introspect, MILLIS, Machine, Slot};
use quorate_host::Token;
use std::collections::BTreeMap;

/// Replicas and their sessions have begun by then; nothing before is measured.
pub(crate) const WARM_UP_NS: u64 = 200 * MILLIS;

/// What was measured, of all replicas together.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Measured {
    /// From the first decision to the last, virtual time.
    pub lasted_ns: u64,
    /// Slots from the first decided to the last.
    pub slots: u64,
    /// Decisions by a replica's own count. A replica that was told counts none.
    pub decided: u64,
    /// Those on the fast path.
    pub fast: u64,
    /// Those for nothing.
    pub noops: u64,
    /// Decisions by the message delays they took from the proposals on.
    pub delays: BTreeMap<u32, u64>,
    /// Times from a request's arrival at a replica to its answer, ascending, ns.
    pub latencies_ns: Vec<u64>,
    /// Requests that a replica had no room for.
    pub refused: u64,
    /// What machines did whose capacity counts.
    pub(crate) reading: Option<Reading>,
    /// How often machines said that something happened, by its name.
    pub branches: BTreeMap<&'static str, u64>,
    /// By how much those figures of machines grew that only grow, by name.
    pub figures: BTreeMap<&'static str, u64>,
    /// How long was measured what was offered, ns.
    pub lasted_offers_ns: u64,
    /// How long the cores of replicas, gateways and servers were busy meanwhile, where cores count, ns.
    pub cores_busy_ns: Vec<u64>,
    /// Flushes of all replicas.
    pub(crate) flushes: u64,
    /// Messages by sender, receiver and the first word of what they say; only if they were to be counted.
    pub messages: BTreeMap<(usize, usize, String), u64>,
}

/// Measures while a run goes on.
#[derive(Default)]
pub(crate) struct Meter {
    measured: Measured,
    /// When each request that is not answered arrived.
    asked_ns: BTreeMap<Token, u64>,
    began_ns: Option<u64>,
    /// The least and the greatest slot decided.
    slots: Option<(Slot, Slot)>,
    /// What the figures of machines were when measuring began.
    figures: Option<BTreeMap<&'static str, u64>>,
    /// When measuring began, and how busy cores had been.
    cores: (u64, Vec<u64>),
    /// Who decided last by its own count: the leader, where only a leader decides.
    pub(crate) decider: Option<usize>,
}

/// How a slot was decided.
pub(crate) struct Decision {
    pub(crate) fast: bool,
    pub(crate) noop: bool,
    pub(crate) delays: u32,
}

impl Meter {
    /// A request reached a replica.
    pub(crate) fn asked(&mut self, token: Token, now_ns: u64) {
        self.asked_ns.insert(token, now_ns);
    }

    /// A replica answers a request, or refuses it.
    pub(crate) fn answered(&mut self, token: Token, is_done: bool, now_ns: u64) {
        let Some(asked_ns) = self.asked_ns.remove(&token) else {
            return;
        };
        if is_done {
            self.measured.latencies_ns.push(now_ns - asked_ns);
        } else {
            self.measured.refused += 1;
        }
    }

    /// A replica decided a slot.
    pub(crate) fn decided(&mut self, slot: Slot, decision: Decision, now_ns: u64) {
        let measured = &mut self.measured;
        measured.decided += 1;
        measured.fast += u64::from(decision.fast);
        measured.noops += u64::from(decision.noop);
        *measured.delays.entry(decision.delays).or_default() += 1;
        measured.lasted_ns = now_ns - *self.began_ns.get_or_insert(now_ns);
        let (first, last) = self.slots.unwrap_or((slot, slot));
        self.slots = Some((first.min(slot), last.max(slot)));
    }

    /// A replica's disk is given something to flush.
    pub(crate) fn flushed(&mut self) {
        self.measured.flushes += 1;
    }

    /// A machine says that something happened.
    pub(crate) fn branched(&mut self, name: &'static str) {
        *self.measured.branches.entry(name).or_default() += 1;
    }

    /// A replica sent messages to another.
    fn sent(&mut self, (from, to): (usize, usize), words: &[String]) {
        for line in words {
            let kind = line.split(' ').next().unwrap_or_default().to_owned();
            let count = self.measured.messages.entry((from, to, kind)).or_default();
            *count += 1;
        }
    }

    /// What the figures of all machines are now.
    fn told(&mut self, figures: BTreeMap<&'static str, u64>, busy_ns: Vec<u64>, now_ns: u64) {
        let Some(before) = &self.figures else {
            self.figures = Some(figures);
            self.cores = (now_ns, busy_ns);
            return;
        };
        let (began_ns, busy_before_ns) = &self.cores;
        let busy_ns = busy_ns.iter().zip(busy_before_ns);
        self.measured.cores_busy_ns = busy_ns.map(|(now, before)| now - before).collect();
        self.measured.lasted_offers_ns = now_ns - began_ns;
        let grown = |(name, now): (&'static str, u64)| {
            let before = before.get(name).copied().unwrap_or(0);
            (name, now.saturating_sub(before))
        };
        self.measured.figures = figures.into_iter().map(grown).collect();
    }

    /// All that was measured.
    pub(crate) fn finish(mut self) -> Measured {
        self.measured.latencies_ns.sort_unstable();
        self.measured.slots = self.slots.map_or(0, |(first, last)| last.0 - first.0 + 1);
        self.measured
    }
}

/// What a part of all times is at most; they ascend.
pub(crate) fn share_of(times_ns: &[u64], share: f64) -> u64 {
    let index = (times_ns.len() as f64 * share) as usize;
    let time = times_ns.get(index).or(times_ns.last());
    time.copied().unwrap_or(0)
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Measures something, if the run is measured and this is the part of it that counts.
    pub(crate) fn measure(&mut self, what: impl FnOnce(&mut Meter, u64)) {
        let now_ns = self.queue.now_ns();
        if let Some(meter) = &mut self.meter
            && self.phase == Phase::Faults
            && now_ns >= WARM_UP_NS
        {
            what(meter, now_ns);
        }
    }

    /// A client asks something, if that is measured there: whenever it is answered, it counts from now on.
    pub(crate) fn note_offer(&mut self, token: Token) {
        let now_ns = self.queue.now_ns();
        if let (Some(_), Some(meter)) = (self.plan.load.spread, &mut self.meter) {
            meter.asked(token, now_ns);
        }
    }

    /// Measures something at a client, if the run is measured there, and otherwise not.
    pub(crate) fn measure_offer(&mut self, what: impl FnOnce(&mut Meter, u64)) {
        if self.plan.load.spread.is_some() {
            self.measure(what);
        }
    }

    /// Measures something where it reaches or leaves a replica, if the run is measured there.
    pub(crate) fn measure_request(&mut self, what: impl FnOnce(&mut Meter, u64)) {
        if self.plan.load.spread.is_none() {
            self.measure(what);
        }
    }

    /// Counts the messages of a frame, if that is wanted.
    pub(crate) fn measure_frame(&mut self, from: usize, to: usize, frame: &Bytes) {
        let steady = self.setup.schedule.steady;
        if steady.is_some_and(|steady| steady.counts_messages) {
            let words = self.describe_frame(from, frame);
            self.measure(|meter, _| meter.sent((from, to), &words));
        }
    }

    /// Looks at what machines say of themselves: when measuring begins, and at its end.
    pub(crate) fn measure_figures(&mut self) {
        if self.meter.is_none() {
            return;
        }
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let figures = hosts.filter_map(|host| host.look().machine().map(Introspect::figures));
        let mut figures: Vec<_> = figures.flatten().collect();
        if self.plan.load.spread.is_some() {
            figures.extend(self.gateways.iter().flat_map(|remote| remote.figures()));
        }
        let mut sums = BTreeMap::new();
        for (name, value) in figures {
            if name.ends_with("_total") {
                *sums.entry(name).or_default() += value as u64;
            }
        }
        let busy_ns = self.cores.as_ref();
        let busy_ns = busy_ns.map_or(Vec::new(), |cores| cores.busy_ns(self.queue.now_ns()));
        self.measure(|meter, now_ns| meter.told(sums, busy_ns, now_ns));
    }

    /// Whether it is known what machines said of themselves when measuring began.
    pub(crate) fn has_begun_measuring(&self) -> bool {
        self.meter
            .as_ref()
            .is_none_or(|meter| meter.figures.is_some())
    }
}
