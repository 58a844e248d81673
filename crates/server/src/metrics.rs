//! What a replica counts, under its own names and, where they mean the same, under etcd's.

mod certificates;
mod clock;
mod connections;
mod datagrams;
mod etcd_names;
mod memory;
mod protocol_gauges;
mod recorder;
mod storage;

use crate::budget::Budget;
use certificates::CertificateMetrics;
use clock::ClockMetrics;
pub use connections::ConnectionCounts;
use datagrams::DatagramMetrics;
use memory::MemoryMetrics;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit};
pub(crate) use protocol_gauges::ProtocolGauges;
use quorate_core::ReplicaId;
use quorate_host::Place;
use recorder::PageRecorder;
use std::fmt;
use storage::StorageMetrics;

/// Histogram samples between two clean-ups; without them the samples would pile up until somebody
/// scrapes.
const UPKEEP_SAMPLES: u32 = 1 << 16;

/// The handles of all metrics, registered once.
pub struct Metrics {
    recorder: PageRecorder,
    pub(crate) commands: Counter,
    pub(crate) duplicates: Counter,
    pub(crate) slots: Counter,
    pub(crate) noop_slots: Counter,
    pub(crate) caught_up_slots: Counter,
    pub(crate) log_syncs: Counter,
    pub(crate) log_bytes: Counter,
    pub(crate) log_size_bytes: Gauge,
    pub(crate) turns: Counter,
    pub(crate) frames: Counter,
    pub(crate) decided_fast: Counter,
    pub(crate) decided_slow: Counter,
    pub(crate) catch_ups: Counter,
    pub(crate) bad_frames: Counter,
    pub(crate) misbehaved: Counter,
    pub(crate) oversized_frames: Counter,
    pub(crate) peer_rejected: Counter,
    pub(crate) refused_datagrams: Counter,
    pub(crate) refused: Counter,
    pub(crate) withdrawn: Counter,
    pub(crate) has_quorum: Gauge,
    pub(crate) epoch: Gauge,
    pub(crate) level: Gauge,
    pub(crate) members_gone: Gauge,
    pub(crate) gateways_connected: Gauge,
    pub(crate) reactions: Counter,
    pub(crate) is_settled: Gauge,
    pub(crate) applied_slot: Gauge,
    pub(crate) waiting: Gauge,
    pub(crate) face_queue: Gauge,
    pub(crate) peer_queue: Gauge,
    pub(crate) sync_seconds: Histogram,
    /// Time in a face, from request to answer; time per command in the application; time to hand
    /// frames to the sockets; time for a turn of the core; time for a step in writing long fragments.
    pub(crate) face: Histogram,
    pub(crate) apply: Histogram,
    pub(crate) network: Histogram,
    pub(crate) turn: Histogram,
    pub(crate) long_writes: Histogram,
    pub(crate) snapshots: SnapshotMetrics,
    pub(crate) storage: StorageMetrics,
    memory: MemoryMetrics,
    certificates: CertificateMetrics,
    places: [Histogram; 4],
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// What is counted about snapshots.
pub(crate) struct SnapshotMetrics {
    pub(crate) taken: Counter,
    pub(crate) installed: Counter,
    pub(crate) failed: Counter,
    pub(crate) bytes: Gauge,
    pub(crate) seconds: Histogram,
    pub(crate) sent_bytes: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) log_segments: Gauge,
}

impl SnapshotMetrics {
    fn new(on: &Registry<'_>) -> Self {
        SnapshotMetrics {
            taken: on.counter(
                "quorate_snapshots_total",
                "Snapshots taken of the own state.",
            ),
            installed: on.counter(
                "quorate_snapshots_installed_total",
                "Snapshots of peers that took the place of the own state.",
            ),
            failed: on.counter(
                "quorate_snapshot_failures_total",
                "Snapshots that could not be taken, stored or used.",
            ),
            bytes: on.gauge("quorate_snapshot_bytes", "Length of the last snapshot."),
            seconds: on.histogram(
                "quorate_snapshot_seconds",
                "From the beginning of a snapshot until it was durable.",
                None,
            ),
            sent_bytes: on.counter(
                "quorate_snapshot_sent_bytes_total",
                "Bytes of snapshots sent to peers.",
            ),
            received_bytes: on.counter(
                "quorate_snapshot_received_bytes_total",
                "Bytes of snapshots fetched from peers.",
            ),
            log_segments: on.gauge("quorate_log_segments", "Segments of the log on disk."),
        }
    }
}

/// The metrics of the link to one peer.
#[derive(Clone)]
pub struct PeerMetrics {
    pub(crate) connected: Gauge,
    pub(crate) failed_dials: Counter,
    pub(crate) sent_frames: Counter,
    pub(crate) sent_bytes: Counter,
    pub(crate) dropped: Counter,
    pub(crate) queued_bytes: Gauge,
    pub(crate) received_frames: Counter,
    pub(crate) received_bytes: Counter,
    pub(crate) datagrams: DatagramMetrics,
}

impl fmt::Debug for PeerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerMetrics")
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Registers every metric with a new recorder.
    #[must_use]
    pub fn new() -> Self {
        let recorder = PageRecorder::new();
        let on = Registry(&recorder);
        Metrics {
            commands: on.counter("quorate_commands_applied_total", "Commands applied."),
            duplicates: on.counter(
                "quorate_commands_duplicate_total",
                "Commands answered from a saved result instead of executing them twice.",
            ),
            slots: on.counter("quorate_slots_total", "Slots applied."),
            noop_slots: on.counter("quorate_noop_slots_total", "Slots without an entry."),
            caught_up_slots: on.counter(
                "quorate_caught_up_slots_total",
                "Slots learned from peers' logs.",
            ),
            log_syncs: on.counter("quorate_log_syncs_total", "Flushes of the log that synced."),
            log_bytes: on.counter("quorate_log_bytes_total", "Bytes written to the log."),
            log_size_bytes: on.gauge("quorate_log_size_bytes", "Size of the log on disk."),
            turns: on.counter(
                "quorate_turns_total",
                "Turns of the core: how often it woke up.",
            ),
            frames: on.counter(
                "quorate_frames_total",
                "Frames to peers, a broadcast counted once.",
            ),
            decided_fast: on.labelled(
                "quorate_decided_slots_total",
                "Slots decided by this replica's own count, by path.",
                ("path", "fast"),
            ),
            decided_slow: on.labelled("quorate_decided_slots_total", "", ("path", "slow")),
            catch_ups: on.counter("quorate_catch_ups_total", "Times this replica fell behind."),
            bad_frames: on.counter("quorate_peer_bad_frames_total", "Frames nobody could use."),
            misbehaved: on.counter(
                "quorate_peer_misbehaved_total",
                "Messages that broke the protocol.",
            ),
            oversized_frames: on.counter(
                "quorate_peer_oversized_frames_total",
                "Frames dropped because no peer would take them.",
            ),
            peer_rejected: on.counter(
                "quorate_peer_rejected_connections_total",
                "Connections to the peer port that were refused or closed for what they sent.",
            ),
            refused_datagrams: on.counter(
                "quorate_peer_refused_datagrams_total",
                "Datagrams at the peer port that were not from a peer, or damaged.",
            ),
            refused: on.counter("quorate_requests_refused_total", "Requests refused."),
            withdrawn: on.counter(
                "quorate_requests_withdrawn_total",
                "Requests dropped because their clients were told that nobody answers, or had left, before \
                 they were offered to another replica or logged.",
            ),
            has_quorum: on.gauge(
                "quorate_has_quorum",
                "Whether a quorum of replicas can be reached.",
            ),
            applied_slot: on.gauge("quorate_applied_slot", "The first slot not applied."),
            epoch: on.gauge(
                "quorate_epoch",
                "The configuration the cluster is in, counted from 1.",
            ),
            level: on.gauge(
                "quorate_feature_level",
                "What commands mean: raised once all replicas run a program that knows it.",
            ),
            gateways_connected: on.gauge(
                "quorate_gateways_connected",
                "Gateways without a replica that are connected to this one.",
            ),
            members_gone: on.gauge(
                "quorate_members_unreachable",
                "Members of the present configuration that cannot be reached from here.",
            ),
            reactions: on.counter(
                "quorate_reactions_total",
                "Changes that this replica asked for because members could not be reached.",
            ),
            is_settled: on.gauge(
                "quorate_epoch_settled",
                "Whether all payloads are safe with the members of the present epoch.",
            ),
            waiting: on.labelled_gauge("quorate_queue_length", "What waits.", ("place", "host")),
            face_queue: on.labelled_gauge("quorate_queue_length", "", ("place", "face")),
            peer_queue: on.labelled_gauge("quorate_queue_length", "", ("place", "peer")),
            sync_seconds: on.histogram(
                "quorate_log_sync_seconds",
                "Writing and syncing one flush.",
                None,
            ),
            face: on.place("face"),
            apply: on.place("apply"),
            network: on.place("network"),
            turn: on.place("turn"),
            long_writes: on.place("bulk"),
            snapshots: SnapshotMetrics::new(&on),
            storage: StorageMetrics::new(&on),
            memory: MemoryMetrics::new(&on),
            certificates: CertificateMetrics::default(),
            places: ["ring", "order", "log", "total"].map(|place| on.place(place)),
            recorder,
        }
    }

    /// The text of a Prometheus scrape; empty in a build without the feature `metrics-page`.
    #[must_use]
    pub fn render(&self) -> String {
        self.memory.publish();
        self.publish_certificates();
        let mut page = self.recorder.render();
        etcd_names::add(&mut page);
        page
    }

    /// Shows from now on what clients take of this budget. There is one for each process.
    pub fn show_client_memory(&self, budget: Budget) {
        self.memory.show(budget);
    }

    /// The metrics of the link to `peer`.
    #[must_use]
    pub fn peer(&self, peer: ReplicaId) -> PeerMetrics {
        self.link(&peer.to_string())
    }

    /// The metrics of the links to all remote gateways together, whose numbers nobody uses twice.
    pub(crate) fn gateways(&self) -> PeerMetrics {
        self.link("gateways")
    }

    fn link(&self, peer: &str) -> PeerMetrics {
        let on = Registry(&self.recorder);
        let counter = |name, help| on.labelled(name, help, ("peer", peer));
        let gauge = |name, help| on.labelled_gauge(name, help, ("peer", peer));
        PeerMetrics {
            connected: gauge(
                "quorate_peer_connected",
                "Whether frames can be sent to it.",
            ),
            failed_dials: counter("quorate_peer_failed_dials_total", "Connections not made."),
            sent_frames: counter("quorate_peer_sent_frames_total", "Frames sent."),
            sent_bytes: counter("quorate_peer_sent_bytes_total", "Bytes sent."),
            dropped: counter(
                "quorate_peer_dropped_frames_total",
                "Frames dropped unsent.",
            ),
            queued_bytes: gauge(
                "quorate_peer_queued_bytes",
                "Bytes the socket did not take yet.",
            ),
            received_frames: counter("quorate_peer_received_frames_total", "Frames received."),
            received_bytes: counter("quorate_peer_received_bytes_total", "Bytes received."),
            datagrams: DatagramMetrics::new(&on, peer),
        }
    }

    /// What is shown of the clock, by who says so.
    pub(crate) fn clock(&self, source: &str) -> ClockMetrics {
        ClockMetrics::new(&Registry(&self.recorder), source)
    }

    /// The counter of a named rare branch.
    pub(crate) fn branch(&self, name: &'static str) -> Counter {
        let help = "Rare branches of the protocol, by name.";
        Registry(&self.recorder).labelled("quorate_branches_total", help, ("branch", name))
    }

    /// A figure of the protocol in force.
    pub(crate) fn spent(&self, place: Place, ns: u64) {
        let at = match place {
            Place::Ring => 0,
            Place::Order => 1,
            Place::Log => 2,
            Place::Total => 3,
        };
        self.places[at].record(seconds(ns));
    }
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Counts samples and cleans up after them now and then.
#[derive(Debug, Default)]
pub(crate) struct HistogramUpkeep {
    samples: u32,
}

impl HistogramUpkeep {
    pub(crate) fn sampled(&mut self, metrics: &Metrics, count: usize) {
        self.samples = self
            .samples
            .saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        if self.samples >= UPKEEP_SAMPLES {
            self.samples = 0;
            metrics.recorder.run_upkeep();
        }
    }
}

struct Registry<'a>(&'a PageRecorder);

const METADATA: Metadata<'static> = Metadata::new("quorate", Level::INFO, None);

impl Registry<'_> {
    fn counter(&self, name: &'static str, help: &'static str) -> Counter {
        self.0
            .describe_counter(KeyName::from_const_str(name), None, help.into());
        self.0
            .register_counter(&Key::from_static_name(name), &METADATA)
    }

    fn labelled(&self, name: &'static str, help: &'static str, label: (&str, &str)) -> Counter {
        if !help.is_empty() {
            self.0
                .describe_counter(KeyName::from_const_str(name), None, help.into());
        }
        self.0.register_counter(&key(name, label), &METADATA)
    }

    fn gauge(&self, name: &'static str, help: &'static str) -> Gauge {
        self.describe_gauge(name, help);
        self.0
            .register_gauge(&Key::from_static_name(name), &METADATA)
    }

    fn describe_gauge(&self, name: &'static str, help: &'static str) {
        if !help.is_empty() {
            self.0
                .describe_gauge(KeyName::from_const_str(name), None, help.into());
        }
    }

    fn labelled_gauge(&self, name: &'static str, help: &'static str, label: (&str, &str)) -> Gauge {
        self.describe_gauge(name, help);
        self.0.register_gauge(&key(name, label), &METADATA)
    }

    /// The latency of one station of a request inside a replica.
    fn place(&self, place: &str) -> Histogram {
        let help = "Time spent, by place: face (request to answer), ring (queue before the \
                    protocol), order (protocol to answer), log (one flush), network (frames to \
                    sockets), apply (one command), turn (of the core), bulk (a step in writing long \
                    fragments), total (as the core sees it).";
        self.histogram("quorate_latency_seconds", help, Some(place))
    }

    fn histogram(&self, name: &'static str, help: &'static str, place: Option<&str>) -> Histogram {
        self.0.describe_histogram(
            KeyName::from_const_str(name),
            Some(Unit::Seconds),
            help.into(),
        );
        let key = match place {
            Some(place) => key(name, ("place", place)),
            None => Key::from_static_name(name),
        };
        self.0.register_histogram(&key, &METADATA)
    }
}

fn key(name: &'static str, (label, value): (&str, &str)) -> Key {
    Key::from_parts(name, vec![Label::new(label.to_owned(), value.to_owned())])
}

#[cfg(all(test, feature = "metrics-page"))]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_shows_our_names_and_etcds() {
        let metrics = Metrics::new();
        metrics.commands.absolute(5);
        metrics.sync_seconds.record(0.001);
        metrics.branch("catch-up").increment(1);
        metrics.peer(ReplicaId(2)).sent_frames.increment(3);
        metrics.spent(Place::Log, 150_000);
        let budget = Budget::new(1000);
        let mut charge = budget.account().charge();
        charge.resize_anyway(10);
        metrics.show_client_memory(budget);
        let text = metrics.render();
        for line in [
            "quorate_commands_applied_total 5",
            "etcd_server_proposals_applied_total 5",
            "quorate_branches_total{branch=\"catch-up\"} 1",
            "quorate_peer_sent_frames_total{peer=\"2\"} 3",
            "etcd_network_peer_sent_bytes_total{To=\"2\"} 0",
            "etcd_disk_wal_fsync_duration_seconds_count 1",
            "quorate_latency_seconds_bucket{place=\"log\",le=\"0.00025\"} 1",
            "# HELP quorate_slots_total Slots applied.",
            "quorate_client_memory_bytes 10",
            "quorate_client_memory_limit_bytes 1000",
            "quorate_client_memory_refused_total 0",
        ] {
            assert!(text.contains(line), "{line} is missing from\n{text}");
        }
    }
}
