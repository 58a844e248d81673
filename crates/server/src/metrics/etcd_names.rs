//! The names that etcd has for what is measured here under others: dashboards and alerts for etcd find them.
//!
//! They are added to a page that is written, so that nothing is counted twice while requests run.

use std::fmt::Write;

/// A name of etcd's.
struct Name {
    /// The family here that it is another name of.
    of: &'static str,
    etcds: &'static str,
    help: &'static str,
    labels: Labels,
}

/// What becomes of the labels of a sample.
enum Labels {
    /// Labels stay as they are.
    Kept,
    /// Only the sample with this label counts, and stands alone.
    Without(&'static str),
    /// The peer is called this, and samples that are of several peers are left out.
    Peer(&'static str),
}

const NAMES: &[Name] = &[
    Name {
        of: "quorate_has_quorum",
        etcds: "etcd_server_has_leader",
        help: "Whether a quorum can be reached.",
        labels: Labels::Kept,
    },
    Name {
        of: "quorate_commands_applied_total",
        etcds: "etcd_server_proposals_applied_total",
        help: "Commands applied.",
        labels: Labels::Kept,
    },
    // What is decided is applied in the same turn.
    Name {
        of: "quorate_commands_applied_total",
        etcds: "etcd_server_proposals_committed_total",
        help: "Commands decided.",
        labels: Labels::Kept,
    },
    Name {
        of: "quorate_requests_refused_total",
        etcds: "etcd_server_proposals_failed_total",
        help: "Requests refused.",
        labels: Labels::Kept,
    },
    Name {
        of: "quorate_queue_length",
        etcds: "etcd_server_proposals_pending",
        help: "Requests waiting for an answer.",
        labels: Labels::Without("place=\"host\""),
    },
    Name {
        of: "quorate_log_sync_seconds",
        etcds: "etcd_disk_wal_fsync_duration_seconds",
        help: "Writing and syncing one flush.",
        labels: Labels::Kept,
    },
    Name {
        of: "quorate_snapshot_seconds",
        etcds: "etcd_disk_backend_snapshot_duration_seconds",
        help: "From the beginning of a snapshot until it was durable.",
        labels: Labels::Kept,
    },
    Name {
        of: "quorate_peer_connected",
        etcds: "etcd_network_active_peers",
        help: "Whether frames can be sent to it.",
        labels: Labels::Peer("Remote"),
    },
    Name {
        of: "quorate_peer_sent_bytes_total",
        etcds: "etcd_network_peer_sent_bytes_total",
        help: "Bytes sent.",
        labels: Labels::Peer("To"),
    },
    Name {
        of: "quorate_peer_received_bytes_total",
        etcds: "etcd_network_peer_received_bytes_total",
        help: "Bytes received.",
        labels: Labels::Peer("From"),
    },
    Name {
        of: "quorate_peer_dropped_frames_total",
        etcds: "etcd_network_peer_sent_failures_total",
        help: "Frames dropped unsent.",
        labels: Labels::Peer("To"),
    },
];

/// Adds etcd's names to a page in the text format of Prometheus.
pub(super) fn add(page: &mut String) {
    let mut added = String::new();
    for name in NAMES {
        name.show(page, &mut added);
    }
    page.push_str(&added);
}

impl Name {
    /// Writes the family under etcd's name, if the page has it.
    fn show(&self, page: &str, out: &mut String) {
        let Some((_, family)) = page.split_once(&format!("# TYPE {} ", self.of)) else {
            return;
        };
        let mut lines = family.lines();
        let kind = lines.next().unwrap_or_default();
        let samples = lines.take_while(|line| line.starts_with(self.of));
        let samples: Vec<String> = samples.filter_map(|line| self.sample(line)).collect();
        // A family of peers is missing where there are none.
        if !samples.is_empty() || matches!(self.labels, Labels::Kept) {
            let (name, help) = (self.etcds, self.help);
            // A String takes everything.
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
            out.extend(samples);
            out.push('\n');
        }
    }

    /// A line of the page under etcd's name; `None` if it is not to be there.
    fn sample(&self, line: &str) -> Option<String> {
        let rest = line.strip_prefix(self.of)?;
        let rest = match self.labels {
            Labels::Kept => rest.to_owned(),
            Labels::Without(label) => rest.strip_prefix(&format!("{{{label}}}"))?.to_owned(),
            Labels::Peer(label) => {
                let (peer, value) = rest.strip_prefix("{peer=\"")?.split_once("\"}")?;
                let peer: u16 = peer.parse().ok()?;
                format!("{{{label}=\"{peer:x}\"}}{value}")
            }
        };
        Some(format!("{}{rest}\n", self.etcds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_stand_under_etcds_names_as_well() {
        let mut page = "\
# HELP quorate_queue_length What waits.
# TYPE quorate_queue_length gauge
quorate_queue_length{place=\"face\"} 4
quorate_queue_length{place=\"host\"} 7

# TYPE quorate_peer_sent_bytes_total counter
quorate_peer_sent_bytes_total{peer=\"gateways\"} 1
quorate_peer_sent_bytes_total{peer=\"11\"} 99

# TYPE quorate_log_sync_seconds histogram
quorate_log_sync_seconds_bucket{le=\"0.1\"} 3
quorate_log_sync_seconds_sum 0.5
quorate_log_sync_seconds_count 3

"
        .to_owned();
        add(&mut page);
        let added = page.split_once("seconds_count 3\n\n").unwrap().1;
        let expected = "\
# HELP etcd_server_proposals_pending Requests waiting for an answer.
# TYPE etcd_server_proposals_pending gauge
etcd_server_proposals_pending 7

# HELP etcd_disk_wal_fsync_duration_seconds Writing and syncing one flush.
# TYPE etcd_disk_wal_fsync_duration_seconds histogram
etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.1\"} 3
etcd_disk_wal_fsync_duration_seconds_sum 0.5
etcd_disk_wal_fsync_duration_seconds_count 3

# HELP etcd_network_peer_sent_bytes_total Bytes sent.
# TYPE etcd_network_peer_sent_bytes_total counter
etcd_network_peer_sent_bytes_total{To=\"b\"} 99

";
        assert_eq!(added, expected);
    }

    #[test]
    fn a_page_without_metrics_stays_empty() {
        let mut page = String::new();
        add(&mut page);
        assert_eq!(page, "");
    }
}
