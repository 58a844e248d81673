//! The timers of one host: few, so a sorted map is enough.

use quorate_core::{Due, Now};
use std::collections::BTreeMap;

/// How long after the last news peers are told how far this replica is, the first time, in ns; each
/// further time takes four times as long.
const BEAT_NS: u64 = 200_000_000;
/// How often peers are told that, before a quiet replica falls silent.
const BEATS: u32 = 3;

/// How long until a timer is due, in ns. The driver gave the seed, so that a run repeats from its seed.
pub(crate) fn draw(jitter_seed: &mut u64, due: &Due) -> u64 {
    match due {
        Due::After(ns) => *ns,
        Due::Within(range) => {
            // SplitMix64.
            *jitter_seed = jitter_seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = *jitter_seed;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            range.start() + (z ^ (z >> 31)) % (range.end() - range.start() + 1)
        }
    }
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer<T> {
    /// The machine's own.
    Machine(T),
    /// Look whether a peer is still ahead, and fetch from it if so.
    Lag,
    /// The fetch under way takes too long: ask another peer.
    FetchTimeout,
    /// Write what nothing waits for.
    WriteBehind,
    /// Ask another peer for what is damaged here.
    ReadRepair,
    /// Ask for the next part of a snapshot, or another peer for the one that did not come.
    Pull,
    /// Nobody has asked for the snapshot in memory for long.
    Forget,
    /// Ask everybody for payloads that are still wanted.
    Gather,
    /// See whether all payloads of earlier epochs are here, and say so.
    Settle,
    /// Tell peers how far this replica is, after activity has ended.
    Beat,
    /// Say again what may not have been heard about epochs.
    Epochs,
    /// Claim a promise that became durable, where no other frame did.
    Claim,
    /// Write down what peers claim.
    Note,
    /// Ask again for the digests of peers, where some differ.
    Digests,
    /// Ask again what peers remember, or go on without.
    Ask,
    /// Ask another member where reads may be answered.
    Mark,
}

/// Armed timers and when they are due, on the monotonic clock in ns.
#[derive(Clone, Debug)]
pub(crate) struct Timers<T> {
    due: BTreeMap<Timer<T>, u64>,
    /// Draws the jitter of timers.
    jitter_seed: u64,
    /// Beats since the last news.
    beats: u32,
}

impl<T: Copy + Ord> Timers<T> {
    pub(crate) fn new(jitter_seed: u64) -> Self {
        Timers {
            due: BTreeMap::new(),
            jitter_seed,
            beats: 0,
        }
    }

    /// Arms or moves a timer.
    pub(crate) fn arm(&mut self, timer: Timer<T>, at_ns: u64) {
        self.due.insert(timer, at_ns);
    }

    /// Arms or moves a timer of the machine.
    pub(crate) fn arm_machine(&mut self, now: Now, timer: T, due: &Due) {
        let at_ns = now.mono_ns.saturating_add(draw(&mut self.jitter_seed, due));
        self.arm(Timer::Machine(timer), at_ns);
    }

    /// There is news: peers are told how far this replica is a few times, ever more rarely; then it is silent. A peer
    /// whose last messages were lost learns that it misses something.
    pub(crate) fn begin_beats(&mut self, now: Now) {
        self.arm_beat(now, 0);
    }

    /// A beat was sent: the next one is later.
    pub(crate) fn next_beat(&mut self, now: Now) {
        self.arm_beat(now, self.beats + 1);
    }

    fn arm_beat(&mut self, now: Now, beats: u32) {
        self.beats = beats;
        if beats < BEATS {
            self.arm(Timer::Beat, now.mono_ns + (BEAT_NS << (2 * beats)));
        }
    }

    pub(crate) fn disarm(&mut self, timer: Timer<T>) {
        self.due.remove(&timer);
    }

    /// Disarms all that are the machine's.
    pub(crate) fn disarm_machine(&mut self) {
        self.due
            .retain(|timer, _| !matches!(timer, Timer::Machine(_)));
    }

    pub(crate) fn is_armed(&self, timer: Timer<T>) -> bool {
        self.due.contains_key(&timer)
    }

    /// Those that are armed, and when they are due.
    pub(crate) fn armed(&self) -> impl Iterator<Item = (Timer<T>, u64)> {
        self.due.iter().map(|(timer, at_ns)| (*timer, *at_ns))
    }

    /// When the earliest is due.
    pub(crate) fn next(&self) -> Option<u64> {
        self.due.values().min().copied()
    }

    /// Disarms and returns the earliest timer due by `now_ns`.
    pub(crate) fn pop_due(&mut self, now_ns: u64) -> Option<Timer<T>> {
        let (timer, at_ns) = self.due.iter().min_by_key(|(_, at_ns)| **at_ns)?;
        let (timer, at_ns) = (*timer, *at_ns);
        (at_ns <= now_ns).then(|| {
            self.due.remove(&timer);
            timer
        })
    }
}
