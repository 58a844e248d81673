//! What goes wrong in a cluster with the plain store, and when.

use fastrand::Rng;
use quorate_core::{MICROS, MILLIS, SECONDS};

/// What a seed draws: how bad things are, each kind of fault in about half of the seeds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// Frames lost, of a thousand.
    pub(super) lost: u32,
    /// Frames that come twice, of a thousand.
    pub(super) repeated: u32,
    /// What a frame takes beyond the least.
    pub(super) jitter_ns: u64,
    /// What a sync takes at most.
    pub(super) sync_ns_max: u64,
    /// What may strike.
    pub(super) crashes: bool,
    pub(super) pauses: bool,
    pub(super) cuts: bool,
    pub(super) clocks: bool,
}

/// What strikes, for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The replica's process ends, and its machine loses what was not synced.
    Crash,
    /// It does nothing.
    Pause,
    /// Nothing passes between it and the others.
    Cut,
    /// Its clock is this far off.
    Clock(i64),
}

impl Weather {
    pub(super) fn draw(rng: &mut Rng) -> Weather {
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        Weather {
            lost: some(30),
            repeated: some(30),
            jitter_ns: [50, 300, 3_000][rng.usize(..3)] * MICROS,
            sync_ns_max: [100, 1_000][rng.usize(..2)] * MICROS,
            crashes: rng.bool(),
            pauses: rng.bool(),
            cuts: rng.bool(),
            clocks: rng.bool(),
        }
    }

    /// None at all.
    pub(super) fn calm(self) -> Weather {
        Weather {
            lost: 0,
            repeated: 0,
            ..self
        }
    }

    /// What strikes next, and for how long.
    pub(super) fn fault(&self, rng: &mut Rng) -> Option<(Fault, u64)> {
        let far = [MILLIS, 50 * MILLIS, 3_600 * SECONDS][rng.usize(..3)].cast_signed();
        let off = if rng.bool() { far } else { -far };
        let all = [
            (self.crashes, Fault::Crash),
            (self.pauses, Fault::Pause),
            (self.cuts, Fault::Cut),
            (self.clocks, Fault::Clock(off)),
        ];
        let may: Vec<Fault> = all
            .into_iter()
            .filter(|(may, _)| *may)
            .map(|(_, f)| f)
            .collect();
        let fault = rng.choice(may)?;
        Some((fault, rng.u64(5 * MILLIS..300 * MILLIS)))
    }
}
