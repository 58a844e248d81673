//! What goes wrong in a cluster with the plain store, and when.

use fastrand::Rng;
use quorate_core::{MICROS, MILLIS, SECONDS};
use std::ops::Range;

/// What a frame takes longer at most that is late.
pub(super) const LATE_NS_MAX: u64 = MILLIS;

/// What a seed draws: how bad things are, each kind of fault in about half of the seeds.
#[derive(Clone, Debug)]
pub(super) struct Weather {
    /// Frames lost, of a thousand.
    pub(super) lost: u32,
    /// Frames that come twice, of a thousand.
    pub(super) repeated: u32,
    /// What a frame takes at least, and beyond that at most.
    pub(super) delay_ns: u64,
    pub(super) jitter_ns: u64,
    /// Frames that take up to [`LATE_NS_MAX`] more, of a thousand.
    pub(super) late: u32,
    /// What a client's words take to a replica and back, if they take any time.
    pub(super) clients_ns: Option<Range<u64>>,
    /// What a sync takes at most.
    pub(super) sync_ns_max: u64,
    /// What may strike.
    pub(super) crashes: bool,
    pub(super) pauses: bool,
    pub(super) cuts: bool,
    pub(super) clocks: bool,
}

/// A fault and how long it lasts.
pub(super) struct Strike {
    pub(super) fault: Fault,
    pub(super) lasts_ns: u64,
}

/// What goes wrong with a replica, for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// The replica's process ends, and its machine loses what was not synced.
    Crash,
    /// The replica does nothing.
    Pause,
    /// Nothing passes between it and the others.
    Cut,
    /// The replica's clock is this far off.
    Clock(i64),
}

impl Weather {
    pub(super) fn draw(rng: &mut Rng) -> Weather {
        let mut some = |most: u32| if rng.bool() { rng.u32(1..=most) } else { 0 };
        Weather {
            lost: some(30),
            repeated: some(30),
            delay_ns: 50 * MICROS,
            jitter_ns: [50, 300, 3_000][rng.usize(..3)] * MICROS,
            late: 0,
            clients_ns: Some(10 * MICROS..200 * MICROS),
            sync_ns_max: [100, 1_000][rng.usize(..2)] * MICROS,
            crashes: rng.bool(),
            pauses: rng.bool(),
            cuts: rng.bool(),
            clocks: rng.bool(),
        }
    }

    /// Nothing goes wrong, and clients are where their replica is.
    pub(super) fn steady(delay_ns: u64, jitter_ns: u64, late: u32) -> Weather {
        Weather {
            lost: 0,
            repeated: 0,
            delay_ns,
            jitter_ns,
            late,
            clients_ns: None,
            sync_ns_max: 100 * MICROS,
            crashes: false,
            pauses: false,
            cuts: false,
            clocks: false,
        }
    }

    /// No frame is lost any more, or comes twice.
    pub(super) fn calm(&mut self) {
        (self.lost, self.repeated) = (0, 0);
    }

    /// What a frame takes.
    pub(super) fn frame_ns(&self, rng: &mut Rng) -> u64 {
        let jitter_ns = rng.u64(..self.jitter_ns.max(1));
        let is_late = self.late > 0 && rng.u32(..1000) < self.late;
        let late_ns = if is_late { rng.u64(..LATE_NS_MAX) } else { 0 };
        self.delay_ns + jitter_ns + late_ns
    }

    /// What a client's words take.
    pub(super) fn client_ns(&self, rng: &mut Rng) -> u64 {
        self.clients_ns.clone().map_or(0, |range| rng.u64(range))
    }

    /// What strikes next.
    pub(super) fn strike(&self, rng: &mut Rng) -> Option<Strike> {
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
        let lasts_ns = rng.u64(5 * MILLIS..300 * MILLIS);
        Some(Strike { fault, lasts_ns })
    }
}
