//! What keeps a cluster from doing more, named from what its replicas measure at each place.

use super::gather::Seen;
use super::table::time;
use serde::Serialize;

/// The share of the time at which something is taken to have no more to give.
const SATURATED: f64 = 0.85;
/// Fewer commands than this in a second are no load.
const IDLE_PER_SECOND: f64 = 1.0;
/// More bytes than this that sockets to peers did not take yet say that links are full.
const QUEUED_BYTES: f64 = 1048576.0;
/// The way to a quorum limits if it takes more than this share of a request's time, and longer than [`FAR_US`].
const MOST: f64 = 0.5;
/// A way to a quorum shorter than this, in us, is as short as it gets.
const FAR_US: f64 = 300.0;

/// What limits, and the figures that say so: those of the replica where the limit is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Limit {
    /// `idle`, `machine-cpu`, `core-thread`, `disk-flush`, `network`, `quorum-distance` or `clients`.
    pub(super) kind: &'static str,
    /// The replica that was looked at.
    pub(super) replica_id: u16,
    /// The limit in words.
    pub(super) text: String,
    pub(super) shares: Shares,
}

/// What a replica was occupied with between two looks.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub(super) struct Shares {
    /// The share of the time that the machine's CPUs worked, for whatever process.
    pub(super) machine_cpu: f64,
    /// CPUs that the replica's process used.
    pub(super) process_cpus: f64,
    /// The share of the time that the thread of the protocol worked.
    pub(super) core_thread: f64,
    /// The share of the time that a flush of the log was under way.
    pub(super) disk_flush: f64,
    /// Bytes that sockets to peers did not take yet.
    pub(super) peer_queued_bytes: f64,
    /// Commands applied in a second.
    pub(super) commands_per_second: f64,
    /// The mean time of a request in us, as the core sees it.
    pub(super) total_us: f64,
    /// The mean time in us that a request waited for the others: until it was decided and applied, without one flush.
    pub(super) quorum_us: f64,
}

impl Shares {
    fn between(before: &Seen, now: &Seen) -> Option<Shares> {
        let seconds = (now.at - before.at).as_secs_f64();
        if seconds <= 0.0 {
            return None;
        }
        let added = |name: &str| now.reading.value(name) - before.reading.value(name);
        let spent = |place: &str| {
            let (now, before) = (now.reading.time_at(place), before.reading.time_at(place));
            (now.0 - before.0, now.1 - before.1)
        };
        let share_of = |place: &str| (spent(place).0 / seconds).clamp(0.0, 1.0);
        let mean_us = |place: &str| match spent(place) {
            (time_s, count) if count > 0.0 => time_s / count * 1e6,
            _ => 0.0,
        };
        let machine = |page: fn(&Seen) -> u64| page(now).saturating_sub(page(before)) as f64;
        let machine_ms = machine(|seen| seen.page.machine_total_ms);
        Some(Shares {
            machine_cpu: match machine_ms > 0.0 {
                true => machine(|seen| seen.page.machine_busy_ms) / machine_ms,
                false => 0.0,
            },
            process_cpus: added("process_cpu_seconds_total") / seconds,
            core_thread: share_of("turn"),
            disk_flush: share_of("log"),
            peer_queued_bytes: now.reading.of_peers("quorate_peer_queued_bytes"),
            commands_per_second: added("quorate_commands_applied_total") / seconds,
            total_us: mean_us("total"),
            quorum_us: (mean_us("order") - mean_us("log")).max(0.0),
        })
    }

    fn kind(&self) -> &'static str {
        let is_far = self.quorum_us > FAR_US && self.quorum_us > MOST * self.total_us;
        match self {
            _ if self.commands_per_second < IDLE_PER_SECOND => "idle",
            _ if self.peer_queued_bytes > QUEUED_BYTES => "network",
            _ if self.disk_flush > SATURATED => "disk-flush",
            _ if self.core_thread > SATURATED => "core-thread",
            _ if self.machine_cpu > SATURATED => "machine-cpu",
            _ if is_far => "quorum-distance",
            _ => "clients",
        }
    }

    /// How near something is to having no more to give.
    fn pressure(&self) -> f64 {
        let queued = match self.peer_queued_bytes > QUEUED_BYTES {
            true => 1.0,
            false => 0.0,
        };
        let shares = [self.machine_cpu, self.core_thread, self.disk_flush, queued];
        shares.into_iter().fold(0.0, f64::max)
    }

    fn in_words(&self, kind: &str, id: u16) -> String {
        let percent = |share: f64| format!("{:.0}%", share * 100.0);
        let (flush, core, machine) = (
            percent(self.disk_flush),
            percent(self.core_thread),
            percent(self.machine_cpu),
        );
        let (total, quorum) = (time(self.total_us), time(self.quorum_us));
        let at = format!("at replica {id}");
        let what = match kind {
            "idle" => return "nothing: hardly anybody asks for anything".to_owned(),
            "network" => format!(
                "network {at}: {:.0} MiB wait for links to peers",
                self.peer_queued_bytes / QUEUED_BYTES
            ),
            "disk-flush" => format!("disk flush {at}: one is under way {flush} of the time"),
            "core-thread" => {
                format!("CPU {at}: the thread of the protocol works {core} of the time")
            }
            "machine-cpu" => {
                format!("CPU {at}: the CPUs of its machine work {machine} of the time")
            }
            "quorum-distance" => format!(
                "distance to a quorum: {quorum} of the {total} that a request takes {at} pass until others answer"
            ),
            _ => format!("clients: they ask for no more; a request takes {total} {at}"),
        };
        format!("{what} (flush {flush}, protocol thread {core}, machine {machine})")
    }
}

/// What limits the cluster: what does so at the replica that is nearest to its end.
pub(super) fn of_cluster<'a>(looks: impl Iterator<Item = (&'a Seen, &'a Seen)>) -> Option<Limit> {
    let shares = looks.filter_map(|(before, now)| {
        let shares = Shares::between(before, now)?;
        Some((now.page.replica_id, shares))
    });
    // Of replicas that are alike, the one at which requests take longest.
    let order = |shares: &Shares| (shares.pressure() > SATURATED, shares.total_us);
    let (replica_id, shares) = shares.max_by(|(_, one), (_, other)| {
        let (one, other) = (order(one), order(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    })?;
    let kind = shares.kind();
    Some(Limit {
        kind,
        replica_id,
        text: shares.in_words(kind, replica_id),
        shares,
    })
}

#[cfg(test)]
mod tests {
    use super::super::scrape::Reading;
    use super::*;
    use quorate_server::StatusPage;
    use std::time::{Duration, Instant};

    /// A replica at ease under load.
    const AT_EASE: Shares = Shares {
        machine_cpu: 0.3,
        process_cpus: 0.2,
        core_thread: 0.2,
        disk_flush: 0.4,
        peer_queued_bytes: 0.0,
        commands_per_second: 500.0,
        total_us: 900.0,
        quorum_us: 100.0,
    };

    #[test]
    fn each_limit_is_named_by_what_is_measured() {
        let kind = |change: fn(&mut Shares)| {
            let mut shares = AT_EASE;
            change(&mut shares);
            shares.kind()
        };
        assert_eq!(kind(|_| {}), "clients");
        assert_eq!(kind(|one| one.commands_per_second = 0.0), "idle");
        assert_eq!(kind(|one| one.disk_flush = 0.9), "disk-flush");
        assert_eq!(kind(|one| one.core_thread = 0.9), "core-thread");
        assert_eq!(kind(|one| one.machine_cpu = 0.95), "machine-cpu");
        assert_eq!(kind(|one| one.peer_queued_bytes = 2e6), "network");
        assert_eq!(kind(|one| one.quorum_us = 700.0), "quorum-distance");
    }

    fn seen(replica_id: u16, at: Instant, busy_ms: u64, metrics: &str) -> Seen {
        let page = StatusPage {
            replica_id,
            machine_busy_ms: busy_ms,
            machine_total_ms: 4 * busy_ms,
            ..StatusPage::default()
        };
        Seen {
            page,
            reading: Reading::parse(metrics),
            at,
        }
    }

    fn page_of(commands: u32, log_s: f64, order_s: f64) -> String {
        format!(
            "quorate_commands_applied_total {commands}\n\
             quorate_latency_seconds_sum{{place=\"log\"}} {log_s}\n\
             quorate_latency_seconds_count{{place=\"log\"}} {commands}\n\
             quorate_latency_seconds_sum{{place=\"order\"}} {order_s}\n\
             quorate_latency_seconds_count{{place=\"order\"}} {commands}\n\
             quorate_latency_seconds_sum{{place=\"total\"}} {order_s}\n\
             quorate_latency_seconds_count{{place=\"total\"}} {commands}\n"
        )
    }

    /// Scenario: the disk of one of two replicas is slow, and the figures of both looks say where.
    #[test]
    fn the_replica_with_the_limit_is_named() {
        let began = Instant::now();
        let later = began + Duration::from_secs(1);
        let first = [1, 2].map(|id| seen(id, began, 100, ""));
        let second = [
            seen(1, later, 200, &page_of(100, 0.1, 5.0)),
            seen(2, later, 200, &page_of(100, 0.95, 1.0)),
        ];
        let limit = of_cluster(first.iter().zip(&second)).unwrap();
        assert_eq!((limit.kind, limit.replica_id), ("disk-flush", 2));
        assert_eq!(limit.shares.machine_cpu, 0.25);
        let expected = "disk flush at replica 2: one is under way 95% of the time";
        assert!(limit.text.starts_with(expected), "{}", limit.text);
    }
}
