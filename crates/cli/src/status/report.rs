//! What is made of two looks at a cluster: the object that `--json` prints, and the table shows.

use super::gather::{Gathered, Seen};
use quorate_core::majority;
use quorate_server::{Role, StatusPage};
use serde::Serialize;
use std::collections::BTreeMap;

/// The places a request passes, in its order.
pub(super) const PLACES: [&str; 7] = ["face", "ring", "order", "log", "network", "apply", "total"];
const QUEUES: [&str; 3] = ["face", "host", "peer"];

/// A cluster, as its replicas describe it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether a quorum of replicas serves.
    pub(super) healthy: bool,
    pub(super) replicas_serving: usize,
    pub(super) replicas_total: usize,
    /// How far apart the two looks were that recent figures are made of.
    pub(super) recent_seconds: f64,
    pub(super) replicas: Vec<ReplicaReport>,
}

/// The report of one replica.
#[derive(Debug, Serialize)]
pub(super) struct ReplicaReport {
    pub(super) replica_id: Option<u16>,
    pub(super) endpoint: String,
    pub(super) reachable: bool,
    /// Why it is not reachable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<StatusPage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) figures: Option<Figures>,
}

/// The figures of a replica, from its counters.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    /// Slots the furthest replica has applied and this one has not.
    pub(super) lag_slots: u64,
    pub(super) commands_per_second: f64,
    /// The share of slots decided by the replica's own count that needed no vote.
    pub(super) fast_share: Option<f64>,
    pub(super) fast_share_recent: Option<f64>,
    /// The lengths of queues, by place.
    pub(super) queue_lengths: BTreeMap<&'static str, u64>,
    /// What the protocol says of itself, by name.
    pub(super) protocol: BTreeMap<String, f64>,
    /// Turns of its core per second.
    pub(super) wakeups_per_second: f64,
    /// Latencies by place, since the replica's start.
    pub(super) latency: BTreeMap<&'static str, Latency>,
    /// Latencies by place, between the two looks.
    pub(super) latency_recent: BTreeMap<&'static str, Latency>,
}

/// A distribution, as exactly as its buckets tell.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) count: u64,
}

impl Report {
    /// Makes the report of two looks, the later one last.
    pub(super) fn of(before: &[Gathered], now: &[Gathered]) -> Report {
        let pages = || now.iter().filter_map(|sight| sight.seen.as_ref().ok());
        let serves = |seen: &&Seen| seen.page.role == Role::Voting && seen.page.has_quorum;
        let serving = pages().filter(serves).count();
        let total = pages()
            .map(|seen| seen.page.members.len())
            .max()
            .unwrap_or(0);
        let furthest = pages().map(|seen| seen.page.applied_slot).max();
        let earlier = |sight: &Gathered| {
            let same = before.iter().find(|earlier| earlier.url == sight.url)?;
            let same = same.seen.as_ref().ok()?;
            let now = sight.seen.as_ref().ok()?;
            // A restart begins all counters anew.
            (same.page.uptime_ms <= now.page.uptime_ms).then_some(same)
        };
        let gaps = now.iter().filter_map(|sight| {
            let seen = sight.seen.as_ref().ok()?;
            Some((seen.at - earlier(sight)?.at).as_secs_f64())
        });
        Report {
            healthy: total > 0 && serving >= majority(total),
            replicas_serving: serving,
            replicas_total: total,
            recent_seconds: gaps.fold(0.0, f64::max),
            replicas: now
                .iter()
                .map(|sight| replica(sight, earlier(sight), furthest.unwrap_or(0)))
                .collect(),
        }
    }

    /// Whether so many replicas lost their promises that they wait for each other for ever.
    pub(super) fn is_stuck(&self) -> bool {
        let pages = self.replicas.iter().filter_map(|one| one.status.as_ref());
        let rejoining = pages.filter(|page| page.role == Role::Rejoining).count();
        self.replicas_total - rejoining < majority(self.replicas_total) && rejoining > 0
    }

    /// A page of some replica that answered: what is equal on all is taken from there.
    pub(super) fn any_page(&self) -> Option<&StatusPage> {
        self.replicas.iter().find_map(|one| one.status.as_ref())
    }
}

fn replica(sight: &Gathered, before: Option<&Seen>, furthest: u64) -> ReplicaReport {
    let seen = sight.seen.as_ref();
    ReplicaReport {
        replica_id: sight.id,
        endpoint: sight.url.clone(),
        reachable: seen.is_ok(),
        reason: seen.err().cloned(),
        status: seen.ok().map(|seen| seen.page.clone()),
        figures: seen
            .ok()
            .map(|seen| figures(seen, before.unwrap_or(seen), furthest)),
    }
}

fn figures(now: &Seen, before: &Seen, furthest: u64) -> Figures {
    let seconds = (now.at - before.at).as_secs_f64();
    let added = |name: &str| now.reading.value(name) - before.reading.value(name);
    let per_second = |name: &str| match seconds > 0.0 {
        true => added(name) / seconds,
        false => 0.0,
    };
    let path = |path: &str| format!("quorate_decided_slots_total{{path=\"{path}\"}}");
    let share = |fast: f64, slow: f64| (fast + slow > 0.0).then(|| fast / (fast + slow));
    let (fast, slow) = (path("fast"), path("slow"));
    let queue = |place: &str| {
        let name = format!("quorate_queue_length{{place=\"{place}\"}}");
        now.reading.value(&name) as u64
    };
    let latencies = |recent: bool| {
        let place = |place: &'static str| {
            let mut histogram = now.reading.latency(place);
            if recent {
                histogram = histogram.since(&before.reading.latency(place));
            }
            let latency = Latency {
                p50_us: histogram.quantile_us(0.5)?,
                p99_us: histogram.quantile_us(0.99)?,
                count: histogram.count() as u64,
            };
            Some((place, latency))
        };
        PLACES.into_iter().filter_map(place).collect()
    };
    Figures {
        lag_slots: furthest.saturating_sub(now.page.applied_slot),
        commands_per_second: per_second("quorate_commands_applied_total"),
        fast_share: share(now.reading.value(&fast), now.reading.value(&slow)),
        fast_share_recent: share(added(&fast), added(&slow)),
        queue_lengths: QUEUES
            .into_iter()
            .map(|place| (place, queue(place)))
            .collect(),
        protocol: now.reading.protocol(),
        wakeups_per_second: per_second("quorate_turns_total"),
        latency: latencies(false),
        latency_recent: latencies(true),
    }
}
