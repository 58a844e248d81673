//! The fault atlas: named kinds of trouble, alone, together, or mixed by the seed.
//!
//! A profile adds its faults to a plan that has none, from a generator of its own: what it does
//! to a seed does not depend on the other profiles. [`Mix::Swarm`], the default, leaves some out in
//! every seed, for faults also hide each other.

use crate::nemesis::Fault;
use crate::plan::{ClockPlan, Plan};
use fastrand::Rng;
use quorate_core::{Durability, MILLIS, SECONDS};
use std::collections::{BTreeMap, BTreeSet};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// A named kind of trouble.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// The faults that many seeds of it must show, as counted in [`crate::Totals::faults`].
    shows: &'static [&'static str],
    /// Adds its faults to the plan.
    hurt: fn(&mut Draw<'_>),
}

/// What a profile draws with.
struct Draw<'a> {
    /// Where its faults go.
    plan: &'a mut Plan,
    rng: Rng,
    /// The plan with the faults every seed draws for [`CLASSIC`].
    classic: &'a Plan,
    durability: Durability,
}

/// The name of the mixture of all profiles.
const SWARM: &str = "swarm";
/// The profile that is a mixture itself, with generators of its own.
const CLASSIC: &str = "classic";

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
        what: "clocks run up to 500 ppm too fast or too slow",
        shows: &["clock drifts"],
        hurt: |d| d.plan.clocks.drift_max_ppm = 500,
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

/// Which profiles seeds are run with.
#[derive(Clone)]
pub(crate) enum Mix {
    /// Each seed draws some.
    Swarm,
    /// These, always.
    Chosen(Vec<&'static Profile>),
}

impl Mix {
    /// Finds the profiles of these names.
    ///
    /// # Errors
    /// Says which name is unknown, and which are known.
    pub(crate) fn parse(names: &[String]) -> Result<Mix, String> {
        if names == [SWARM] {
            return Ok(Mix::Swarm);
        }
        for name in names {
            check(name)?;
        }
        let is_chosen = |profile: &&Profile| names.iter().any(|name| name == profile.name);
        Ok(Mix::Chosen(PROFILES.iter().filter(is_chosen).collect()))
    }

    /// The names of the profiles that take part in a seed: chosen together, they do to it what
    /// this mix does.
    pub(crate) fn names(&self, seed: u64) -> Vec<&'static str> {
        self.profiles(seed)
            .iter()
            .map(|profile| profile.name)
            .collect()
    }

    fn profiles(&self, seed: u64) -> Vec<&'static Profile> {
        match self {
            Mix::Swarm => swarm(seed),
            Mix::Chosen(profiles) => profiles.clone(),
        }
    }

    /// Faults that many seeds must show and none of these has. Without disks, some cannot.
    pub(crate) fn unseen(&self, seen: &BTreeMap<&'static str, u64>) -> Vec<&'static str> {
        let profiles = match self {
            Mix::Swarm => PROFILES.iter().collect(),
            Mix::Chosen(profiles) => profiles.clone(),
        };
        let expected: BTreeSet<_> = profiles.iter().flat_map(|profile| profile.shows).collect();
        let unseen = expected
            .into_iter()
            .filter(|fault| !seen.contains_key(**fault));
        unseen.copied().collect()
    }

    /// The plan of a seed, from the one with the classic faults.
    pub(crate) fn plan(&self, seed: u64, classic: Plan, durability: Durability) -> Plan {
        let chosen = self.profiles(seed);
        if let [only] = &chosen[..]
            && only.name == CLASSIC
        {
            return classic;
        }
        let mut plan = classic.calm();
        plan.load.rich = true;
        plan.quorum_first = generator(seed, "quorum first").bool();
        for profile in chosen {
            (profile.hurt)(&mut Draw {
                plan: &mut plan,
                rng: generator(seed, profile.name),
                classic: &classic,
                durability,
            });
        }
        plan
    }
}

fn check(name: &str) -> Result<(), String> {
    let mut known = PROFILES.iter().map(|profile| profile.name);
    if known.any(|known| known == name) {
        return Ok(());
    }
    let known: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
    Err(format!(
        "unknown profile {name}: known are {}, and on its own {SWARM}",
        known.join(", ")
    ))
}

/// Some profiles: a few, a quarter or half of them.
fn swarm(seed: u64) -> Vec<&'static Profile> {
    let mut rng = generator(seed, SWARM);
    let one_in = [2, 4, 8][rng.usize(..3)];
    PROFILES.iter().filter(|_| rng.u8(..one_in) == 0).collect()
}

/// The lines of `--list-profiles`: name, tab, what it does.
pub(crate) fn lines() -> Vec<String> {
    let one = |profile: &Profile| format!("{}\t{}", profile.name, profile.what);
    let swarm = format!("{SWARM}\teach seed draws some of the others (the default)");
    PROFILES.iter().map(one).chain([swarm]).collect()
}

/// A generator for one purpose: the same whatever else a seed draws.
pub(crate) fn generator(seed: u64, purpose: &str) -> Rng {
    Rng::with_seed(xxh3_64_with_seed(purpose.as_bytes(), seed))
}
