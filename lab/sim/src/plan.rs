//! What one seed does to its cluster: every seed draws its own intensities, so that some are calm
//! and crowded, some are all crashes, and most are something in between.

use crate::nemesis::Fault;
use fastrand::Rng;
use quorate_core::{Durability, MICROS, MILLIS, SECONDS};
use quorate_host::Limits;
use std::collections::BTreeMap;

/// The intensities of one seed.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) links: Links,
    pub(crate) disk: DiskPlan,
    pub(crate) load: Load,
    /// Mean time between faults of each kind that strikes, ns.
    pub(crate) every_ns: BTreeMap<Fault, u64>,
    /// Longest time a crashed replica stays down, a pause or a partition lasts.
    pub(crate) outage_max_ns: u64,
    pub(crate) clocks: ClockPlan,
    /// Time from an input's arrival to the turn that takes it.
    pub(crate) service_max_ns: u64,
    pub(crate) limits: Limits,
    /// First only as many replicas are healed as the protocol needs, and must do without the rest.
    pub(crate) quorum_first: bool,
    /// Replicas that reach no more members than may fail give their machines nothing.
    pub(crate) holds_back: bool,
    /// Parameters of the protocol that were not given are drawn.
    pub(crate) draws_settings: bool,
    /// How many remote gateways there are.
    pub(crate) gateways: usize,
}

/// How clocks behave.
#[derive(Clone, Debug)]
pub(crate) struct ClockPlan {
    /// How far the synchronised ones are apart, and how far a [`Fault::ClockJump`] takes them.
    pub(crate) offset_max_ns: u64,
    /// How much faster or slower than time they run, parts per million.
    pub(crate) drift_max_ppm: i64,
    /// Whether monotonic clocks do, too.
    pub(crate) is_mono_off: bool,
    /// The error bound they claim, true or not; `None`: they claim none.
    pub(crate) claimed_error_ns: Option<u64>,
}

/// How the network behaves.
#[derive(Clone, Debug)]
pub(crate) struct Links {
    pub(crate) loss: f64,
    pub(crate) duplication: f64,
    pub(crate) delay_min_ns: u64,
    /// Mean of the random part of a delay.
    pub(crate) jitter_ns: u64,
    /// Whether that part is drawn evenly, up to twice its mean: otherwise it is now and then much longer.
    pub(crate) has_even_jitter: bool,
    pub(crate) spike: f64,
    pub(crate) spike_max_ns: u64,
    /// Frames of one link keep their order, as on one TCP connection.
    pub(crate) ordered: bool,
    /// What a link carries per second; frames wait for those before them. `None`: everything.
    pub(crate) bytes_per_second: Option<u64>,
}

/// How disks behave.
#[derive(Clone, Debug)]
pub(crate) struct DiskPlan {
    pub(crate) slow: f64,
    pub(crate) slow_max_ns: u64,
    /// The replica does nothing else while it waits for its disk.
    pub(crate) blocking: bool,
    pub(crate) recycle: bool,
    /// How often writing a snapshot fails, per piece.
    pub(crate) snapshot_failure: f64,
    /// How often the newest snapshot is damaged when a replica starts.
    pub(crate) snapshot_rot: f64,
    /// How often a disk is found damaged when a replica starts.
    pub(crate) rot: f64,
    /// How often a read in service fails, or gives other bytes.
    pub(crate) read_error: f64,
    /// How often a sync fails, so that what it was for may be lost.
    pub(crate) sync_failure: f64,
}

/// What clients do.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) clients: usize,
    pub(crate) keys: u8,
    /// Mean pause between the operations of a client.
    pub(crate) think_ns: u64,
    /// Requests come by themselves, whether those before them are answered or not.
    pub(crate) arrivals: Option<Arrivals>,
    /// The keys that those requests are about, if not the registers.
    pub(crate) spread: Option<Spread>,
    /// Clients act together, at multiples of this time.
    pub(crate) storm_every_ns: Option<u64>,
    pub(crate) timeout_ns: u64,
    pub(crate) answer_loss: f64,
    /// How often a client keeps two commands outstanding.
    pub(crate) pairs: f64,
    /// How often a client begins a new session.
    pub(crate) reopen: f64,
    /// Who keep leases.
    pub(crate) tenants: usize,
    pub(crate) watchers: usize,
    /// Clients ask everything etcd can do, not only for single keys.
    pub(crate) rich: bool,
    /// Clients ask for users, who get rights and lose them.
    pub(crate) users: bool,
    /// Mean time between compactions; `None`: there are none.
    pub(crate) compact_every_ns: Option<u64>,
}

/// When requests come.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrivals {
    /// One by one, evenly.
    Every(u64),
    /// At random, with this mean time between two, ns.
    About(u64),
    /// From clients of which each waits for its answer.
    Answered,
}

/// The keys of requests that come by themselves: more than clients have registers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Spread {
    /// How many keys there are.
    pub(crate) keys: u64,
    /// How much more often some are chosen: the i-th as often as 1 / i^skew says.
    pub(crate) skew: f64,
    /// Keys of each write, one or two.
    pub(crate) keys_each: usize,
    /// Bytes of a value, at least.
    pub(crate) value_bytes: usize,
}

impl Plan {
    /// Draws a plan. `ops` are to be spread over the simulated time of a seed.
    pub(crate) fn draw(rng: &mut Rng, ops: u64, durability: Durability) -> Plan {
        let calm = rng.u8(..5) == 0;
        let mut sometimes = |range: std::ops::Range<u64>| {
            let every = rng.u64(range) * MILLIS;
            (!calm && rng.bool()).then_some(every)
        };
        let every_ns = [
            (Fault::Crash, sometimes(150..2_000)),
            (Fault::CrashAll, sometimes(1_500..6_000)),
            (Fault::Pause, sometimes(200..2_000)),
            (Fault::Partition, sometimes(150..1_500)),
            (Fault::Reset, sometimes(50..800)),
            (Fault::ClockJump, sometimes(200..2_000)),
        ];
        let mut plan = Plan {
            links: Links::draw(rng, calm),
            disk: DiskPlan::draw(rng, calm),
            load: Load::draw(rng, ops),
            every_ns: BTreeMap::new(),
            outage_max_ns: rng.u64(20..600) * MILLIS,
            clocks: ClockPlan::draw(rng),
            service_max_ns: [1, 20 * MICROS, 100 * MICROS][rng.usize(..3)],
            limits: limits(rng, durability),
            quorum_first: false,
            holds_back: false,
            draws_settings: false,
            gateways: 0,
        };
        // After the limits, so that the rest of a seed's plan does not depend on it.
        let wipes = durability == Durability::Disk && !calm && rng.u8(..3) == 0;
        let wipe = (Fault::Wipe, wipes.then(|| rng.u64(500..3_000) * MILLIS));
        let faults = every_ns.into_iter().chain([wipe]);
        plan.every_ns = faults.filter_map(|(f, every)| Some((f, every?))).collect();
        snapshots(rng, &mut plan.limits);
        if !calm && rng.u8(..4) == 0 {
            plan.disk.snapshot_failure = rng.f64() * 0.05;
        }
        if !calm && rng.u8(..3) == 0 {
            plan.disk.snapshot_rot = rng.f64() * 0.5;
        }
        plan.load.draw_chores(rng);
        plan
    }

    /// From which length on payloads are long, and how few bytes of them go to the disk at once.
    pub(crate) fn draw_long(&mut self, rng: &mut Rng) {
        let otherwise = self.limits.long_bytes_min;
        self.limits.long_bytes_min = [1, 8, 64, otherwise][rng.usize(..4)];
        self.limits.long_step_bytes = [4, 16, 128][rng.usize(..3)];
    }

    /// The plan without its faults.
    pub(crate) fn calm(&self) -> Plan {
        let mut plan = self.clone();
        plan.heal();
        plan.every_ns.clear();
        plan.disk.snapshot_rot = 0.0;
        plan.clocks = ClockPlan {
            offset_max_ns: MILLIS,
            drift_max_ppm: 0,
            is_mono_off: false,
            claimed_error_ns: None,
        };
        plan
    }

    /// What remains when the faults are over.
    pub(crate) fn heal(&mut self) {
        self.links.loss = 0.0;
        self.links.duplication = 0.0;
        self.links.spike = 0.0;
        self.links.jitter_ns = self.links.jitter_ns.min(100 * MICROS);
        self.links.bytes_per_second = None;
        self.disk.slow = 0.0;
        self.disk.snapshot_failure = 0.0;
        self.disk.rot = 0.0;
        self.disk.read_error = 0.0;
        self.disk.sync_failure = 0.0;
        self.load.answer_loss = 0.0;
    }
}

impl ClockPlan {
    /// How much too fast a monotonic clock may run, parts per million.
    pub(crate) fn fast_ppm(&self) -> u64 {
        if self.is_mono_off {
            self.drift_max_ppm.unsigned_abs()
        } else {
            0
        }
    }

    fn draw(rng: &mut Rng) -> ClockPlan {
        ClockPlan {
            offset_max_ns: [0, MILLIS, 50 * MILLIS, 2 * SECONDS][rng.usize(..4)],
            drift_max_ppm: 200,
            is_mono_off: false,
            claimed_error_ns: None,
        }
    }
}

impl Links {
    fn draw(rng: &mut Rng, calm: bool) -> Links {
        let mut sometimes = |max: f64| {
            if !calm && rng.bool() {
                rng.f64() * max
            } else {
                0.0
            }
        };
        let (loss, duplication, spike) = (sometimes(0.3), sometimes(0.1), sometimes(0.05));
        Links {
            loss,
            duplication,
            delay_min_ns: rng.u64(20..200) * MICROS,
            jitter_ns: [5, 50, 300, 2_000][rng.usize(..4)] * MICROS,
            has_even_jitter: false,
            spike,
            spike_max_ns: rng.u64(5..200) * MILLIS,
            ordered: rng.u8(..4) == 0,
            bytes_per_second: None,
        }
    }
}

impl DiskPlan {
    fn draw(rng: &mut Rng, calm: bool) -> DiskPlan {
        DiskPlan {
            slow: if !calm && rng.bool() {
                rng.f64() * 0.05
            } else {
                0.0
            },
            slow_max_ns: rng.u64(2..50) * MILLIS,
            blocking: rng.bool(),
            recycle: rng.bool(),
            snapshot_failure: 0.0,
            snapshot_rot: 0.0,
            rot: 0.0,
            read_error: 0.0,
            sync_failure: 0.0,
        }
    }
}

impl Load {
    fn draw(rng: &mut Rng, ops: u64) -> Load {
        let clients = rng.usize(4..=10);
        // A little faster than needed: operations take their time, too.
        let think_ns = clients as u64 * 4 * SECONDS / ops.max(1);
        Load {
            clients,
            keys: rng.u8(1..=6),
            think_ns,
            arrivals: None,
            spread: None,
            storm_every_ns: (rng.u8(..3) == 0).then_some(think_ns.max(1)),
            timeout_ns: rng.u64(10..300) * MILLIS,
            answer_loss: if rng.bool() { rng.f64() * 0.1 } else { 0.0 },
            pairs: if rng.bool() { rng.f64() * 0.5 } else { 0.0 },
            reopen: if rng.bool() { rng.f64() * 0.05 } else { 0.0 },
            tenants: 0,
            watchers: 0,
            rich: false,
            users: false,
            compact_every_ns: None,
        }
    }

    /// Other clients in number, together as busy as before.
    pub(crate) fn crowd(&mut self, clients: usize) {
        self.think_ns = self.think_ns * clients as u64 / self.clients as u64;
        self.clients = clients;
    }

    fn draw_chores(&mut self, rng: &mut Rng) {
        self.tenants = rng.usize(..=4);
        self.watchers = rng.usize(..=4);
        self.compact_every_ns = rng.bool().then(|| rng.u64(200..2_000) * MILLIS);
    }
}

/// Snapshots in quick succession, of many pieces and chunks.
fn snapshots(rng: &mut Rng, limits: &mut Limits) {
    limits.snapshot_slots = [0, rng.u64(10..200), rng.u64(10..50)][rng.usize(..3)];
    limits.snapshot_bytes = [0, rng.u64(500..20_000)][rng.usize(..2)];
    limits.snapshot_piece_bytes = [20, 200, 4 << 10][rng.usize(..3)];
    limits.snapshot_chunk_bytes = [50, 500, 64 << 10][rng.usize(..3)];
    limits.snapshot_rate = [50_000, 1_000_000, 64 << 20][rng.usize(..3)];
    // Not drawn for itself, so that seeds go on meaning what they meant.
    limits.recode_rate = match limits.snapshot_rate {
        50_000 => 20_000,
        _ => u64::MAX,
    };
}

/// Small sizes, so that a short run reaches what takes hours otherwise: full segments, entries
/// that are no longer in memory, answers in several parts.
fn limits(rng: &mut Rng, durability: Durability) -> Limits {
    let recent_bytes_max = match durability {
        Durability::Disk => [256, 4 << 10, 1 << 20][rng.usize(..3)],
        Durability::Memory => [2 << 10, 16 << 10, 1 << 20][rng.usize(..3)],
    };
    let segment_bytes = [6 << 10, 16 << 10, 64 << 10][rng.usize(..3)];
    Limits {
        recent_bytes_max,
        command_bytes_max: 64 << 10,
        requests_max: 1 << 10,
        segment_bytes,
        fragment_segment_bytes: segment_bytes,
        catch_up_bytes_max: [200, 4 << 10, 1 << 20][rng.usize(..3)],
        checkpoint_slots: rng.u64(8..64),
        check_steps: true,
        ..Limits::default()
    }
}
