//! The fault atlas: named kinds of trouble, alone, together, or mixed by the seed.
//!
//! A profile adds its faults to a plan that has none, from a generator of its own: what it does
//! to a seed does not depend on the other profiles.

use crate::nemesis::Fault;
use crate::plan::{ClockPlan, Plan};
use fastrand::Rng;
use quorate_core::{Durability, MILLIS, SECONDS};

/// A named kind of trouble.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The faults that many seeds of it must show, as counted in [`crate::Totals::faults`].
    pub(crate) shows: &'static [&'static str],
    /// Adds its faults to the plan.
    pub(crate) hurt: fn(&mut Draw<'_>),
}

/// What a profile draws with.
pub(crate) struct Draw<'a> {
    /// Where its faults go.
    pub(crate) plan: &'a mut Plan,
    pub(crate) rng: Rng,
    /// The plan with the faults every seed draws for [`CLASSIC`].
    pub(crate) classic: &'a Plan,
    pub(crate) durability: Durability,
}

/// The profile that is a mixture itself, with generators of its own.
pub(crate) const CLASSIC: &str = "classic";

/// The profile that changes the group itself.
pub(crate) const EPOCHS: &str = "epochs";

/// The profile that changes the group's protocol.
pub(crate) const SWITCHES: &str = "switches";

/// The profile that raises the feature level.
pub(crate) const LEVELS: &str = "levels";

/// The profile that has remote gateways.
pub(crate) const GATEWAYS: &str = "gateways";

/// The profile that puts old copies of folders back.
pub(crate) const OLD_COPIES: &str = "old-copies";

/// The profile that has users.
pub(crate) const USERS: &str = "users";

/// The profiles that take part only where they are named, whatever else does.
pub(crate) const NAMED: [&str; 3] = [GATEWAYS, OLD_COPIES, USERS];

/// The profiles that change what the group knows of itself: they take part only where they are named.
pub(crate) const CHANGING: [&str; 3] = [EPOCHS, SWITCHES, LEVELS];

/// All profiles, in the order they are listed to people.
pub(crate) const PROFILES: &[Profile] = &[
    Profile {
        name: "calm",
        what: "no faults",
        shows: &[],
        hurt: |_| {},
    },
    Profile {
        name: CLASSIC,
        what: "loss, duplication, delays, partitions, resets, crashes, wipes, pauses, clock jumps: some in each seed",
        shows: &["crash", "reset"],
        hurt: classic,
    },
    Profile {
        name: "loss",
        what: "up to 30 % of frames, and some answers to clients, are lost",
        shows: &["frame lost"],
        hurt: |d| {
            d.plan.links.loss = d.rng.f64() * 0.3;
            d.plan.load.answer_loss = d.rng.f64() * 0.1;
        },
    },
    Profile {
        name: "duplication",
        what: "up to 30 % of frames arrive twice",
        shows: &["frame duplicated"],
        hurt: |d| d.plan.links.duplication = d.rng.f64() * 0.3,
    },
    Profile {
        name: "reordering",
        what: "frames overtake each other: delays vary by milliseconds",
        shows: &["frame overtaken"],
        hurt: |d| {
            d.plan.links.ordered = false;
            d.plan.links.jitter_ns = d.rng.u64(1..8) * MILLIS;
        },
    },
    Profile {
        name: "delay-spikes",
        what: "up to 5 % of frames take up to 200 ms longer",
        shows: &["frame delayed by a spike"],
        hurt: |d| {
            d.plan.links.spike = d.rng.f64() * 0.05;
            d.plan.links.spike_max_ns = d.rng.u64(5..200) * MILLIS;
        },
    },
    Profile {
        name: "slow-links",
        what: "single links take up to 50 ms longer for a while",
        shows: &["slow link", "frame on a slow link"],
        hurt: |d| d.strike(Fault::SlowLink, 100..1_000),
    },
    Profile {
        name: "bandwidth",
        what: "links carry 64 KiB to 2 MiB per second; frames queue by their size, and are dropped when too much waits",
        shows: &["frame waited for bandwidth"],
        hurt: |d| d.plan.links.bytes_per_second = Some(64 << (10 + d.rng.u8(..6))),
    },
    Profile {
        name: "resets",
        what: "connections break and come back",
        shows: &["reset"],
        hurt: |d| d.strike(Fault::Reset, 50..800),
    },
    Profile {
        name: "partitions",
        what: "the cluster falls into two halves, both ways or one way",
        shows: &["partition", "partition one way"],
        hurt: |d| d.strike(Fault::Partition, 150..1_500),
    },
    Profile {
        name: "one-way",
        what: "single links carry nothing in one direction",
        shows: &["link cut one way"],
        hurt: |d| d.strike(Fault::OneWay, 100..1_000),
    },
    Profile {
        name: "bridges",
        what: "two halves that only one replica connects",
        shows: &["partition with a bridge"],
        hurt: |d| d.strike(Fault::Bridge, 150..1_500),
    },
    Profile {
        name: "crashes",
        what: "power fails at single replicas",
        shows: &["crash"],
        hurt: |d| d.strike(Fault::Crash, 150..2_000),
    },
    Profile {
        name: "blackouts",
        what: "power fails everywhere at once",
        shows: &["blackout"],
        hurt: |d| d.strike(Fault::CrashAll, 1_500..6_000),
    },
    Profile {
        name: "pauses",
        what: "replicas stop for a while and go on",
        shows: &["pause"],
        hurt: |d| d.strike(Fault::Pause, 200..2_000),
    },
    Profile {
        name: "restarts",
        what: "processes are killed and started again at once; what was written and not synced is still there",
        shows: &["restart"],
        hurt: |d| d.strike(Fault::Restart, 100..1_500),
    },
    Profile {
        name: "rolling-restarts",
        what: "all replicas restart, one after the other",
        shows: &["rolling restart"],
        hurt: |d| d.strike(Fault::RollingRestart, 500..3_000),
    },
    Profile {
        name: "rolling-upgrade",
        what: "replicas change over to a program with a newer wire version, one after the other, and back",
        shows: &[
            "rolling upgrade",
            "rolling downgrade",
            "frame in a newer version",
        ],
        hurt: |d| d.strike(Fault::RollingUpgrade, 300..1_500),
    },
    Profile {
        name: "restart-storms",
        what: "a replica crashes again and again, within milliseconds of each start",
        shows: &["restart storm"],
        hurt: |d| d.strike(Fault::RestartStorm, 400..3_000),
    },
    Profile {
        name: "wipes",
        what: "power fails at a replica, and its disk is replaced by an empty one",
        shows: &["wipe"],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.strike(Fault::Wipe, 500..3_000);
            }
        },
    },
    Profile {
        name: "clock-leaps",
        what: "clocks jump up to an hour either way",
        shows: &["clock leap"],
        hurt: |d| d.strike(Fault::ClockLeap, 200..2_000),
    },
    Profile {
        name: "clock-drift",
        what: "clocks, the monotonic ones too, run up to 500 ppm too fast or too slow",
        shows: &["clock drifts"],
        hurt: |d| {
            d.plan.clocks.drift_max_ppm = 500;
            d.plan.clocks.is_mono_off = true;
        },
    },
    Profile {
        name: "stuck-clocks",
        what: "clocks stand still for a while",
        shows: &["clock stopped"],
        hurt: |d| d.strike(Fault::ClockStop, 200..2_000),
    },
    Profile {
        name: "backward-clocks",
        what: "clocks are set back by up to two seconds, again and again",
        shows: &["clock set back"],
        hurt: |d| d.strike(Fault::ClockBack, 50..500),
    },
    Profile {
        name: "clock-bounds",
        what: "clocks are seconds apart and claim an error of a millisecond",
        shows: &["clock jump", "clock claims a wrong bound"],
        hurt: |d| {
            d.plan.clocks = ClockPlan {
                offset_max_ns: d.rng.u64(1..5) * SECONDS,
                claimed_error_ns: Some(MILLIS),
                ..d.plan.clocks
            };
            d.strike(Fault::ClockJump, 200..2_000);
        },
    },
    Profile {
        name: "slow-disks",
        what: "up to 5 % of syncs take up to 50 ms",
        shows: &["slow sync"],
        hurt: |d| {
            d.plan.disk.slow = d.rng.f64() * 0.05;
            d.plan.disk.slow_max_ns = d.rng.u64(2..50) * MILLIS;
        },
    },
    Profile {
        name: "snapshot-faults",
        what: "writing a snapshot fails now and then, processes restart, and may find the newest one damaged",
        shows: &["snapshot write failed", "snapshot rotten"],
        hurt: |d| {
            d.strike(Fault::Restart, 200..1_000);
            d.plan.disk.snapshot_failure = d.rng.f64() * 0.05;
            d.plan.disk.snapshot_rot = d.rng.f64() * 0.5;
        },
    },
    Profile {
        name: "bit-rot",
        what: "log and snapshots of a replica that starts are damaged: flipped bits, lost sectors, misdirected writes",
        shows: &[
            "bit rot",
            "lost sector",
            "misdirected write",
            "snapshot rot",
            "slots lost to damage",
            "promises lost to damage",
            "repaired",
        ],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.plan.disk.rot = d.rng.f64();
                d.strike(Fault::Crash, 150..1_000);
            }
        },
    },
    Profile {
        name: "rot-everywhere",
        what: "power fails everywhere, and then every disk is damaged, each elsewhere",
        shows: &["damage everywhere", "slots lost to damage", "repaired"],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.strike(Fault::Rot, 500..3_000);
            }
        },
    },
    Profile {
        name: "read-errors",
        what: "up to a third of reads in service fail, or give other bytes than were written; peers need many",
        shows: &["damage found in service", "damage mended"],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.plan.disk.read_error = d.rng.f64() * 0.3;
                d.plan.limits.recent_bytes_max = 1 << d.rng.u8(4..10);
                d.strike(Fault::Crash, 200..1_000);
            }
        },
    },
    Profile {
        name: "failed-syncs",
        what: "a sync fails now and then, what it was for may be lost, and the replica stops",
        shows: &["failed sync"],
        hurt: |d| d.plan.disk.sync_failure = d.rng.f64() * 0.002,
    },
    Profile {
        name: EPOCHS,
        what: "members are added, removed and replaced",
        shows: &[
            "epoch renewed",
            "member removed",
            "member added",
            "member replaced",
            "member left",
        ],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.plan.quorum_first = false;
                d.strike(Fault::Reconfigure, 50..1_000);
            }
        },
    },
    Profile {
        name: SWITCHES,
        what: "the cluster goes from one protocol to another",
        shows: &["protocol switched"],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.plan.quorum_first = false;
                d.strike(Fault::Switch, 50..1_000);
            }
        },
    },
    Profile {
        name: LEVELS,
        what: "the group raises its feature level, replicas publish where they serve clients, alarms are raised and end, \
               and leaders are moved",
        shows: &[
            "feature level raised",
            "published",
            "alarm raised",
            "alarm ended",
            "leader moved",
        ],
        hurt: |d| d.strike(Fault::Upkeep, 100..1_000),
    },
    Profile {
        name: GATEWAYS,
        what: "some clients write through gateways without a replica, which are killed and begin new lives",
        shows: &["gateway killed", "answered by a gateway"],
        hurt: |d| {
            d.plan.gateways = d.rng.usize(1..=3);
            d.strike(Fault::Gateway, 20..800);
        },
    },
    Profile {
        name: OLD_COPIES,
        what: "copies of data folders, taken while in use or not, are put back later",
        shows: &[
            "folder copied while it was in use",
            "folder copied while it was not in use",
            "old copy put back",
            "old copy put back in a blackout",
            "old copy noticed",
        ],
        hurt: |d| {
            if d.durability == Durability::Disk {
                d.plan.quorum_first = false;
                d.strike(Fault::Upkeep, 20..200);
                let is_recent = d.rng.u8(..4) == 0;
                // What machines assert of each other does not hold with one that forgot its promises.
                d.plan.limits.check_steps &= !is_recent;
                match is_recent {
                    true => d.strike(Fault::RecentCopy, 50..800),
                    false => d.strike(Fault::OldCopy, 50..400),
                }
                d.strike(Fault::Crash, 300..2_000);
            }
        },
    },
    Profile {
        name: "full-disks",
        what: "disks have no space for another segment or snapshot for a while",
        shows: &["full disk"],
        hurt: |d| d.strike(Fault::FullDisk, 200..2_000),
    },
    Profile {
        name: USERS,
        what: "clients ask for users, whose rights an administrator changes all the time",
        shows: &[
            "right taken away",
            "request refused for rights",
            "watch ended for rights",
        ],
        hurt: |d| {
            let load = &mut d.plan.load;
            load.users = true;
            load.watchers = load.watchers.max(2);
            load.tenants = load.tenants.max(1);
        },
    },
    // Last: which of the others take part in a seed does not depend on it.
    Profile {
        name: "settings",
        what: "parameters of the protocol that were not given are drawn, where it names values to try",
        shows: &[],
        hurt: |d| d.plan.draws_settings = true,
    },
];

impl Draw<'_> {
    /// A fault strikes again and again, at a mean interval drawn from a range in ms.
    fn strike(&mut self, fault: Fault, every_ms: std::ops::Range<u64>) {
        let every_ns = self.rng.u64(every_ms) * MILLIS;
        self.plan.every_ns.insert(fault, every_ns);
    }
}

fn classic(d: &mut Draw<'_>) {
    d.plan.links = d.classic.links.clone();
    d.plan.disk = d.classic.disk.clone();
    d.plan.clocks = d.classic.clocks.clone();
    d.plan.load.answer_loss = d.classic.load.answer_loss;
    d.plan.every_ns.extend(&d.classic.every_ns);
}
