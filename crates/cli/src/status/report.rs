//! What is made of two looks at a cluster: the object that `--json` prints, and the table shows.

use super::gather::{Gathered, Seen};
use super::limit::{self, Limit};
use super::problems::{self, Problem};
use quorate_core::majority;
use quorate_server::{Role, StatusPage};
use serde::Serialize;
use std::collections::BTreeMap;

/// The places a request passes, in its order.
pub(super) const PLACES: [&str; 7] = ["face", "ring", "order", "log", "network", "apply", "total"];
const QUEUES: [&str; 3] = ["face", "host", "peer"];

/// A cluster, as its replicas describe it. `docs/reference/status.md` has every name.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether nothing is wrong: whether there are no problems.
    pub(super) healthy: bool,
    /// Whether a quorum of replicas serves.
    pub(super) serves: bool,
    /// Members that vote and reach a quorum.
    pub(super) replicas_serving: usize,
    /// Members. Learners are none.
    pub(super) replicas_total: usize,
    /// What an operator should do something about.
    pub(super) problems: Vec<Problem>,
    /// What is worth knowing and harms nobody.
    pub(super) notes: Vec<Problem>,
    /// The leader; `None` where nobody told.
    pub(super) leader: Option<LeaderReport>,
    /// The replica that has applied the least; `None` where all have applied the same.
    pub(super) furthest_behind: Option<BehindReport>,
    /// What keeps the cluster from doing more.
    pub(super) limit: Option<Limit>,
    /// Space on the disks of those that answered.
    pub(super) disk: Option<DiskReport>,
    /// How far apart the two looks were that recent figures are made of.
    pub(super) recent_seconds: f64,
    pub(super) replicas: Vec<ReplicaReport>,
}

/// The member that leads, and what that means.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct LeaderReport {
    /// The member that leads, or is named to clients; `None` while none is known.
    pub(super) replica_id: Option<u16>,
    /// The term under which it is named to clients.
    pub(super) term: u64,
    /// Whether the protocol has a leader; where it has none, one member is named to clients that ask.
    pub(super) by_protocol: bool,
}

/// A replica that has to catch up.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct BehindReport {
    pub(super) replica_id: u16,
    pub(super) slots: u64,
}

/// The space that replicas take, and where the least is left.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct DiskReport {
    /// The bytes of the replica that takes most: log, snapshots and fragments.
    pub(super) used_bytes_most: u64,
    /// The bytes that are free where the least are; `None` for replicas in memory.
    pub(super) free_bytes_least: Option<u64>,
    /// The replica of that disk.
    pub(super) free_bytes_least_replica_id: Option<u16>,
}

/// The report of one replica.
#[derive(Debug, Serialize)]
pub(super) struct ReplicaReport {
    pub(super) replica_id: Option<u16>,
    pub(super) endpoint: String,
    pub(super) reachable: bool,
    /// Whether it takes connections and does not answer.
    pub(super) frozen: bool,
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
    /// Makes the report of what was seen.
    pub(super) fn of(sights: &[Gathered]) -> Report {
        let pages = || sights.iter().filter_map(|sight| sight.seen.as_ref().ok());
        let serves = |seen: &&Seen| seen.page.role == Role::Voting && seen.page.has_quorum;
        let serving = pages().filter(serves).count();
        let total = pages()
            .map(|seen| (seen.page.members.iter()).filter(|member| !member.is_learner))
            .map(Iterator::count)
            .max()
            .unwrap_or(0);
        let furthest = pages().map(|seen| seen.page.applied_slot).max();
        let gaps = sights.iter().filter_map(|sight| {
            let seen = sight.seen.as_ref().ok()?;
            Some((seen.at - earlier(sight)?.at).as_secs_f64())
        });
        let found = problems::find(sights);
        Report {
            healthy: total > 0 && found.problems.is_empty(),
            serves: total > 0 && serving >= majority(total),
            replicas_serving: serving,
            replicas_total: total,
            problems: found.problems,
            notes: found.notes,
            leader: leader(pages().map(|seen| &seen.page)),
            furthest_behind: furthest_behind(pages().map(|seen| &seen.page)),
            limit: limit::of_cluster(
                sights
                    .iter()
                    .filter_map(|sight| Some((earlier(sight)?, sight.seen.as_ref().ok()?))),
            ),
            disk: disk(pages().map(|seen| &seen.page)),
            recent_seconds: gaps.fold(0.0, f64::max),
            replicas: sights
                .iter()
                .map(|sight| replica(sight, furthest.unwrap_or(0)))
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

/// What a replica said before, unless it has started again since: a restart begins all counters anew.
fn earlier(sight: &Gathered) -> Option<&Seen> {
    let (before, now) = (sight.before.as_ref()?, sight.seen.as_ref().ok()?);
    (before.page.uptime_ms <= now.page.uptime_ms).then_some(before)
}

/// The leader by the protocol where it has one, else the one that most members name, the first of them where that
/// cannot be told.
fn leader<'a>(pages: impl Iterator<Item = &'a StatusPage> + Clone) -> Option<LeaderReport> {
    let by_protocol = pages.clone().any(|page| page.leads.is_some());
    // A former leader may not know yet: the one of the latest term is the present one.
    let leading = pages.clone().filter(|page| page.leads == Some(true));
    let leading =
        leading.max_by_key(|page| (page.leader == Some(page.replica_id), page.leader_term));
    let naming = pages.max_by_key(|page| (page.leader.is_some(), page.leader_term));
    let told = leading.or(naming)?;
    Some(LeaderReport {
        replica_id: match leading {
            Some(page) => Some(page.replica_id),
            None if by_protocol => None,
            None => told.leader,
        },
        term: told.leader_term,
        by_protocol,
    })
}

fn furthest_behind<'a>(
    pages: impl Iterator<Item = &'a StatusPage> + Clone,
) -> Option<BehindReport> {
    let furthest = pages.clone().map(|page| page.applied_slot).max()?;
    let last = pages.min_by_key(|page| page.applied_slot)?;
    let slots = furthest - last.applied_slot;
    (slots > 0).then_some(BehindReport {
        replica_id: last.replica_id,
        slots,
    })
}

fn disk<'a>(pages: impl Iterator<Item = &'a StatusPage> + Clone) -> Option<DiskReport> {
    let used = pages.clone().map(disk_used).max()?;
    let least = pages.filter_map(|page| Some((page.disk_free_bytes?, page.replica_id)));
    let least = least.min();
    Some(DiskReport {
        used_bytes_most: used,
        free_bytes_least: least.map(|(bytes, _)| bytes),
        free_bytes_least_replica_id: least.map(|(_, id)| id),
    })
}

/// Bytes that a replica's data takes.
pub(super) fn disk_used(page: &StatusPage) -> u64 {
    page.log_bytes + page.snapshot_bytes + page.fragment_file_bytes
}

fn replica(sight: &Gathered, furthest: u64) -> ReplicaReport {
    let seen = sight.seen.as_ref();
    let before = earlier(sight);
    ReplicaReport {
        replica_id: sight.id,
        endpoint: sight.url.clone(),
        reachable: seen.is_ok(),
        frozen: sight.is_frozen(),
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
