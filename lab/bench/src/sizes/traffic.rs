//! Bytes sent and written within a stretch of time, as the replicas count them and as the kernel
//! does.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::sockets::{self, Sockets};
use crate::systems::ground::Running;
use quorate_tooling::process::Usage;
use quorate_tooling::scrape;

/// Bytes of a stretch of time, all replicas together unless it says otherwise.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Traffic {
    /// Sent by the replica that sent most to others, by its own count: the leader where one leads.
    pub most_sent_bytes: u64,
    /// Sent between replicas, by their own count.
    pub sent_bytes: u64,
    /// Bytes that replicas sent to each other, by the kernel's count of their sockets.
    pub kernel_sent_bytes: u64,
    /// Of these, sent again by TCP.
    pub kernel_resent_bytes: u64,
    /// Written to logs, by the replicas' own count.
    pub log_bytes: u64,
    /// Written to fragment stores, by their own count.
    pub bulk_bytes: u64,
    /// Of these, fragments that were moved out of segments that held little else.
    pub moved_bytes: u64,
    /// Written to disk by the kernel's count for the processes: pages that were made dirty.
    pub kernel_written_bytes: u64,
    /// Zeros that new segments were filled with, by the replicas' own count: none in a steady state,
    /// in which segments are used again. They and snapshots are all that the kernel counts and the
    /// replicas' own counters of log and fragment store do not.
    pub filled_bytes: u64,
    /// Segments that were used again.
    pub reused_segments: u64,
    /// Segments that were removed, because enough were kept.
    pub removed_segments: u64,
    /// Snapshots that were taken.
    pub snapshots: u64,
    /// Leaders that were elected.
    pub elections: u64,
}

/// Everything that is counted, at one time.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    replicas: Vec<Own>,
    usage: Usage,
    sockets: Sockets,
}

/// What one replica counts, since it began.
#[derive(Debug, Clone, Default, PartialEq)]
struct Own {
    /// To each replica; none to itself.
    sent: Vec<f64>,
    log: f64,
    bulk: f64,
    moved: f64,
    filled: f64,
    reused: f64,
    removed: f64,
    snapshots: f64,
    elections: f64,
}

impl Reading {
    /// Reads every counter.
    pub(crate) fn take(running: &Running) -> Result<Reading, String> {
        Ok(Reading {
            replicas: own(running)?,
            usage: Usage::of(&running.pids),
            sockets: sockets::read(&running.peers, &running.namespaces)?,
        })
    }

    /// Reads everything once nothing is under way any more: what clients were told is not all that
    /// a put costs, the slower replicas are still at it.
    pub(crate) fn settled(running: &Running) -> Result<Reading, String> {
        let deadline = Instant::now() + SETTLE_MAX;
        let mut before = Reading::take(running)?;
        loop {
            std::thread::sleep(SETTLE_POLL);
            let now = Reading::take(running)?;
            if now.moved_since(&before) < QUIET_BYTES {
                return Ok(now);
            }
            if Instant::now() > deadline {
                return Err(format!(
                    "the replicas were still sending and writing {} s after the last put",
                    SETTLE_MAX.as_secs()
                ));
            }
            before = now;
        }
    }

    /// Bytes queued, written, and sent by the kernel.
    fn moved_since(&self, earlier: &Reading) -> f64 {
        let each = self.replicas.iter().zip(&earlier.replicas);
        let own: f64 = each.map(|(now, was)| now.since(was)).sum();
        own + sockets::sent_between(&earlier.sockets, &self.sockets).bytes as f64
    }

    /// Zeros that new segments were filled with since `earlier`.
    pub(crate) fn filled_since(&self, earlier: &Reading) -> f64 {
        let each = self.replicas.iter().zip(&earlier.replicas);
        each.map(|(now, was)| now.filled - was.filled).sum()
    }

    /// Bytes that the replica which wrote least wrote to log and fragment store since `earlier`.
    pub(crate) fn least_written_since(&self, earlier: &Reading) -> f64 {
        let each = self.replicas.iter().zip(&earlier.replicas);
        let written = each.map(|(now, was)| now.written() - was.written());
        written.fold(f64::INFINITY, f64::min)
    }

    /// What came to pass since `earlier`.
    pub(crate) fn since(&self, earlier: &Reading) -> Traffic {
        let sum = |of: fn(&Own) -> f64| {
            let each = self.replicas.iter().zip(&earlier.replicas);
            each.map(|(now, was)| of(now) - of(was)).sum::<f64>() as u64
        };
        let sent = sockets::sent_between(&earlier.sockets, &self.sockets);
        Traffic {
            most_sent_bytes: self.most_sent(earlier) as u64,
            sent_bytes: sum(Own::sent),
            kernel_sent_bytes: sent.bytes,
            kernel_resent_bytes: sent.again,
            log_bytes: sum(|own| own.log),
            bulk_bytes: sum(|own| own.bulk),
            moved_bytes: sum(|own| own.moved),
            kernel_written_bytes: self.usage.since(earlier.usage).bytes_written,
            filled_bytes: sum(|own| own.filled),
            reused_segments: sum(|own| own.reused),
            removed_segments: sum(|own| own.removed),
            snapshots: sum(|own| own.snapshots),
            elections: sum(|own| own.elections),
        }
    }

    /// The replica that sent most to each of the others since `earlier`: while values are put, that
    /// is the leader. A follower sends much as well if clients ask it, but to the leader alone.
    pub(crate) fn leader_since(&self, earlier: &Reading) -> usize {
        let least = |replica: &usize| {
            let (now, was) = (
                &self.replicas[*replica].sent,
                &earlier.replicas[*replica].sent,
            );
            let others = (0..now.len()).filter(|other| other != replica);
            others
                .map(|other| now[other] - was[other])
                .fold(f64::INFINITY, f64::min)
        };
        let replicas = 0..self.replicas.len();
        replicas
            .max_by(|one, other| least(one).total_cmp(&least(other)))
            .unwrap_or(0)
    }

    fn most_sent(&self, earlier: &Reading) -> f64 {
        let each = self.replicas.iter().zip(&earlier.replicas);
        each.map(|(now, was)| now.sent() - was.sent())
            .fold(0.0, f64::max)
    }
}

impl Own {
    fn parse(page: &str, replicas: usize) -> Own {
        let elected = ("quorate_branches_total", "branch=\"elected\"");
        Own {
            sent: (1..=replicas)
                .map(|other| {
                    let peer = format!("peer=\"{other}\"");
                    scrape::labelled(page, "quorate_peer_sent_bytes_total", &peer)
                })
                .collect(),
            log: scrape::value(page, "quorate_log_bytes_total"),
            bulk: scrape::value(page, "quorate_bulk_bytes_total"),
            moved: scrape::value(page, "quorate_bulk_moved_bytes_total"),
            filled: scrape::value(page, "quorate_segment_filled_bytes_total"),
            reused: scrape::value(page, "quorate_segments_reused_total"),
            removed: scrape::value(page, "quorate_segments_removed_total"),
            snapshots: scrape::value(page, "quorate_snapshots_total"),
            elections: scrape::labelled(page, elected.0, elected.1),
        }
    }

    fn sent(&self) -> f64 {
        self.sent.iter().sum()
    }

    fn written(&self) -> f64 {
        self.log + self.bulk
    }

    fn since(&self, earlier: &Own) -> f64 {
        let all = |own: &Own| own.sent() + own.written() + own.filled;
        all(self) - all(earlier)
    }
}

fn own(running: &Running) -> Result<Vec<Own>, String> {
    let each = running.endpoints.iter();
    let replicas = each.len();
    each.map(|url| scrape::get(url, "/metrics").map(|page| Own::parse(&page, replicas)))
        .collect()
}

const SETTLE_POLL: Duration = Duration::from_millis(250);
const SETTLE_MAX: Duration = Duration::from_secs(60);
/// Between two looks at all replicas: heartbeats are less, a value is more.
const QUIET_BYTES: f64 = 32_768.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(pages: [String; 5]) -> Reading {
        Reading {
            replicas: pages.iter().map(|page| Own::parse(page, 5)).collect(),
            usage: Usage::default(),
            sockets: Sockets::new(),
        }
    }

    fn page(sent: [u64; 5], more: &str) -> String {
        let sent = sent.iter().enumerate().map(|(other, bytes)| {
            format!(
                "quorate_peer_sent_bytes_total{{peer=\"{}\"}} {bytes}\n",
                other + 1
            )
        });
        sent.collect::<String>() + more
    }

    #[test]
    fn the_leader_is_who_sends_much_to_everybody_within_the_stretch() {
        let idle = || page([0; 5], "");
        let led = page([9000, 0, 9000, 9000, 9000], "");
        let before = reading([idle(), led, idle(), idle(), idle()]);
        let counted = "quorate_log_bytes_total 5\nquorate_bulk_bytes_total 7\n\
                       quorate_segment_filled_bytes_total{store=\"bulk\"} 4\n\
                       quorate_segment_filled_bytes_total{store=\"log\"} 3\n\
                       quorate_branches_total{branch=\"elected\"} 2\n\
                       quorate_branches_total{branch=\"rejoined\"} 9\n";
        // What clients told the first replica was passed on to the third.
        let after = reading([
            page([0, 1, 500, 1, 1], ""),
            page([9010, 0, 9010, 9010, 9010], ""),
            page([100, 100, 0, 100, 100], counted),
            idle(),
            idle(),
        ]);
        let leader = after.leader_since(&before);
        assert_eq!(leader, 2);
        let traffic = after.since(&before);
        assert_eq!((traffic.most_sent_bytes, traffic.sent_bytes), (503, 943));
        assert_eq!((traffic.log_bytes, traffic.bulk_bytes), (5, 7));
        assert_eq!((traffic.filled_bytes, traffic.elections), (7, 2));
        assert_eq!(after.filled_since(&before), 7.0);
        assert_eq!(after.least_written_since(&before), 0.0);
    }
}
