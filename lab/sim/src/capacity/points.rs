//! The runs, and what they came to.

use super::costs::{Costs, mb_per_second};
use super::rig::{Hardware, Puts, Reading, RigPlan};
use super::theory::System;
use super::{CapacityOptions, LeaderWrites};
use crate::meter::share_of;
use crate::parallel::run_all;
use crate::plan::Arrivals;
use crate::simulator::Simulator;
use crate::steady::Steady;
use quorate_core::{Durability, MICROS};
use serde_json::{Value, json};

/// More puts than these say nothing more.
const PUTS_MAX: u64 = 20_000;

/// All that was measured.
pub(super) struct Points {
    pub(super) options: CapacityOptions,
    pub(super) costs: Costs,
    pub(super) systems: Vec<System>,
    /// By size, then by system.
    pub(super) all: Vec<Point>,
}

/// One run.
pub(super) struct Point {
    pub(super) system: System,
    pub(super) value_bytes: usize,
    /// What bytes alone allow, bytes a second.
    pub(super) allowed: f64,
    pub(super) reading: Reading,
}

/// Why there is nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// The options make no sense.
    Usage(String),
    /// A run broke a promise.
    Violated(String),
}

impl Points {
    /// Runs everything.
    pub(super) fn measure(options: &CapacityOptions) -> Result<Points, Failure> {
        let costs = Costs::of(options).map_err(Failure::Usage)?;
        let systems = options.systems.iter();
        let system = |name: &String| System::of(name, options.code, options.whole_replicas);
        let systems: Result<Vec<System>, String> = systems.map(system).collect();
        let systems = systems.map_err(Failure::Usage)?;
        let sizes = options.sizes.iter();
        let pairs = sizes.flat_map(|bytes| systems.iter().map(|system| (*system, *bytes)));
        let pairs: Vec<(System, usize)> = pairs.collect();
        let hardware = costs.hardware(options.shared_link);
        let run = |(system, bytes): &(System, usize)| point(*system, *bytes, &hardware, options);
        let all = run_all(&pairs, options.jobs, run);
        let all = all.into_iter().collect::<Result<Vec<Point>, Failure>>()?;
        Ok(Points {
            options: options.clone(),
            costs,
            systems,
            all,
        })
    }

    /// How often the throughput of RS-Paxos a point has, if that was measured.
    pub(super) fn ratio(&self, point: &Point) -> Option<f64> {
        let mut same = self
            .all
            .iter()
            .filter(|p| p.value_bytes == point.value_bytes);
        let base = same.find(|p| p.system.protocol == "rs-paxos")?;
        Some(point.mb_per_second() / base.mb_per_second())
    }

    pub(super) fn as_json(&self) -> Value {
        let options = &self.options;
        let points = self.all.iter().map(|point| {
            let mut value = point.as_json();
            value["ratio"] = json!(self.ratio(point));
            value
        });
        json!({
            "costs_file": options.costs.as_ref().map(|path| path.display().to_string()),
            "costs": self.costs,
            "shared_link": options.shared_link,
            "leader_waits": options.leader_waits,
            "leader_writes_whole": options.leader_writes == LeaderWrites::Whole,
            "clients": options.clients,
            "seed": options.seed,
            "points": points.collect::<Vec<_>>(),
        })
    }
}

/// One run.
fn point(
    system: System,
    value_bytes: usize,
    hardware: &Hardware,
    options: &CapacityOptions,
) -> Result<Point, Failure> {
    let clients = u64::from(options.clients);
    let volume = (options.volume << 20) / value_bytes as u64;
    let count = volume
        .min(PUTS_MAX)
        .max(u64::from(options.rounds) * clients);
    let puts = Puts {
        clients: usize::from(options.clients),
        value_bytes,
        is_led: system.is_led,
        warm_up: clients.max(count / 5),
        count,
    };
    let rig = RigPlan {
        hardware: *hardware,
        puts,
        whole: system.whole(options.leader_writes),
        leader_waits: options.leader_waits,
    };
    let steady = Steady {
        delay_ns: hardware.link.delay_ns,
        clock_offset_ns: 100 * MICROS,
        arrivals: Arrivals::Every(1),
        requests: count,
        rig: Some(rig),
        ..Steady::default()
    };
    let k = system.k.map(|k| k.to_string());
    let params: Vec<(&str, &str)> = k.iter().map(|k| ("k", k.as_str())).collect();
    let (protocol, replicas) = (system.protocol, system.replicas);
    let simulator = Simulator::steady(protocol, replicas, Durability::Disk, &params, steady)
        .map_err(Failure::Usage)?;
    let report = simulator.seed(options.seed);
    let violated = |why: String| {
        let (name, size) = (system.name(), super::size(value_bytes));
        Failure::Violated(format!("{name}, {size}: {why}"))
    };
    if let Some(violation) = report.violation {
        return Err(violated(violation.to_string()));
    }
    let reading = report.measured.and_then(|measured| measured.reading);
    Ok(Point {
        system,
        value_bytes,
        allowed: system.allowed(hardware, value_bytes, options.leader_writes),
        reading: reading.ok_or_else(|| violated("it ended before it was measured".into()))?,
    })
}

impl Point {
    /// Bytes of the values that were answered.
    pub(super) fn committed(&self) -> u64 {
        self.reading.answered * self.value_bytes as u64
    }

    pub(super) fn mb_per_second(&self) -> f64 {
        mb_per_second(self.committed(), self.reading.lasted_ns)
    }

    /// So many bytes for each that was committed.
    pub(super) fn each(&self, bytes: u64) -> f64 {
        bytes as f64 / self.committed().max(1) as f64
    }

    /// The busiest resource, and which part of the time it was busy, in percent.
    pub(super) fn binds(&self) -> (&'static str, f64) {
        let all = self.resources().into_iter();
        let busier = |a: &(_, f64), b: &(_, f64)| a.1.total_cmp(&b.1);
        all.max_by(busier).unwrap_or(("nothing", 0.0))
    }

    /// Which part of the time each resource was busy, in percent, at the replica where it was busiest.
    pub(super) fn resources(&self) -> [(&'static str, f64); 4] {
        let busy = &self.reading.busy;
        let percent = |of: fn(&super::rig::Busy) -> u64| {
            let most = busy.iter().map(of).max().unwrap_or(0);
            most as f64 * 100.0 / self.reading.lasted_ns.max(1) as f64
        };
        [
            ("link", percent(|busy| busy.link)),
            ("disk", percent(|busy| busy.disk)),
            ("core", percent(|busy| busy.core)),
            ("bulk thread", percent(|busy| busy.aside)),
        ]
    }

    /// The time a part of the puts took at most.
    pub(super) fn latency_ns(&self, share: f64) -> u64 {
        share_of(&self.reading.latencies_ns, share)
    }

    fn as_json(&self) -> Value {
        let busy = self.resources().into_iter();
        let busy = busy.map(|(name, percent)| (name.to_owned(), json!(percent)));
        json!({
            "system": self.system.name(),
            "value_bytes": self.value_bytes,
            "puts": self.reading.answered,
            "mb_per_second": self.mb_per_second(),
            "bytes_allow_mb_per_second": self.allowed / 1e6,
            "binds": self.binds().0,
            "busy_percent": busy.collect::<serde_json::Map<_, _>>(),
            "p50_us": self.latency_ns(0.5) / MICROS,
            "p95_us": self.latency_ns(0.95) / MICROS,
            "p99_us": self.latency_ns(0.99) / MICROS,
            "sent_per_byte": self.each(self.reading.sent),
            "written_per_byte": self.each(self.reading.written),
            "unwritten_bytes": self.reading.unwritten,
            "dropped_frames": self.reading.dropped,
            "failed_puts": self.reading.failed,
        })
    }
}
