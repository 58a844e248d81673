//! What is counted about the own disk: segments, damage and its repair.

use super::Registry;
use crate::disk::Turnover;
use metrics::{Counter, Gauge};
use quorate_host::{HostEvent, Opened};

/// What is counted about the segments of one store.
struct TurnoverMetrics {
    filled: Counter,
    reused: Counter,
    removed: Counter,
}

impl TurnoverMetrics {
    fn new(on: &Registry<'_>, store: &str) -> Self {
        let counter = |name, help| on.labelled(name, help, ("store", store));
        TurnoverMetrics {
            filled: counter(
                "quorate_segment_filled_bytes_total",
                "Zeros that new segments were filled with before their first use.",
            ),
            reused: counter(
                "quorate_segments_reused_total",
                "Released segments that were taken to be written over.",
            ),
            removed: counter(
                "quorate_segments_removed_total",
                "Released segments that were removed, because enough were kept.",
            ),
        }
    }
}

/// What is counted about damage.
pub(crate) struct StorageMetrics {
    damaged: Counter,
    repaired: Counter,
    missing: Gauge,
    lost: Counter,
    /// Bytes written to the fragment store.
    pub(crate) fragment_bytes: Counter,
    /// Bytes written to the fragment store to move fragments out of its segments.
    pub(crate) fragment_moved_bytes: Counter,
    /// Bytes of fragments in the fragment store, and of its segments.
    pub(crate) fragment_live_bytes: Gauge,
    pub(crate) fragment_file_bytes: Gauge,
    /// What became of segments of the log, and of those of the fragment store.
    turnover: [TurnoverMetrics; 2],
    /// Payloads put together from fragments, and own fragments made anew.
    pub(crate) gathered: Counter,
    pub(crate) rebuilt: Counter,
    pub(crate) lacking: Gauge,
    /// Bytes of payloads of earlier epochs that are here under the present code, and of all of them.
    pub(crate) recoded_bytes: Gauge,
    pub(crate) recode_bytes: Gauge,
    /// Whether writing waits for space.
    pub(crate) full: Gauge,
}

impl StorageMetrics {
    pub(super) fn new(on: &Registry<'_>) -> Self {
        StorageMetrics {
            damaged: on.counter(
                "quorate_storage_damage_total",
                "Places in log, fragment store, snapshots and identity that were found damaged or could \
                not be read.",
            ),
            repaired: on.counter(
                "quorate_storage_repaired_slots_total",
                "Decided slots that damage had taken and a peer had.",
            ),
            missing: on.gauge(
                "quorate_storage_missing_slots",
                "Decided slots that are missing here and are being fetched from peers.",
            ),
            lost: on.counter(
                "quorate_storage_lost_promises_total",
                "Starts after which this replica had to recover before it voted.",
            ),
            fragment_bytes: on.counter(
                "quorate_bulk_bytes_total",
                "Bytes written to the fragment store, headers and moved fragments included.",
            ),
            fragment_moved_bytes: on.counter(
                "quorate_bulk_moved_bytes_total",
                "Bytes of fragments written again, out of segments that held little else.",
            ),
            fragment_live_bytes: on.gauge(
                "quorate_bulk_live_bytes",
                "Bytes of payloads' fragments that are wanted.",
            ),
            fragment_file_bytes: on.gauge(
                "quorate_bulk_size_bytes",
                "Size of the fragment store on disk.",
            ),
            turnover: ["log", "bulk"].map(|store| TurnoverMetrics::new(on, store)),
            gathered: on.counter(
                "quorate_payloads_gathered_total",
                "Payloads put together from fragments, for readers, a new leader, or a rebuild.",
            ),
            lacking: on.gauge(
                "quorate_fragments_lacking",
                "Live payloads of which this replica is known to lack its own fragment.",
            ),
            recoded_bytes: on.gauge(
                "quorate_recoded_bytes",
                "Bytes of values of earlier epochs that this replica holds under the present one's code.",
            ),
            recode_bytes: on.gauge(
                "quorate_recode_bytes",
                "Bytes of all values of earlier epochs that were there when the present one began.",
            ),
            rebuilt: on.counter(
                "quorate_fragments_rebuilt_total",
                "Own fragments of payloads that were lacking and were made anew.",
            ),
            full: on.gauge(
                "quorate_storage_full",
                "Whether the log waits for space on its disk.",
            ),
        }
    }

    /// What became of the segments of the log, and of those of the fragment store, so far.
    pub(crate) fn turned_over(&self, stores: [&Turnover; 2]) {
        for (metrics, turnover) in self.turnover.iter().zip(stores) {
            let (filled, reused, removed) = turnover.read();
            metrics.filled.absolute(filled);
            metrics.reused.absolute(reused);
            metrics.removed.absolute(removed);
        }
    }

    /// What opening the folder and the log in it found.
    pub(crate) fn opened(&self, is_folder_damaged: bool, found: &Opened) {
        let places =
            found.damage.len() + found.fragment_store.damage.len() + found.bad_snapshots.len();
        let places = places + usize::from(is_folder_damaged);
        self.damaged.increment(places as u64);
        self.missing.set(missing(found) as f64);
        self.lost.increment(u64::from(found.lost_promises));
    }

    /// Notes what was found or mended while the replica runs.
    pub(crate) fn note(&self, event: &HostEvent) {
        match event {
            HostEvent::Damaged { at, slot, why } => {
                self.damaged.increment(1);
                tracing::warn!(
                    segment = at.segment, offset = at.offset, %slot,
                    "the log is damaged here, the entry is fetched from a peer: {why}"
                );
            }
            HostEvent::FragmentDamaged { payload, why } => {
                self.damaged.increment(1);
                tracing::warn!(?payload, "a fragment is damaged and will be rebuilt: {why}");
            }
            HostEvent::Mended { slot } => {
                self.repaired.increment(1);
                tracing::info!(%slot, "a damaged entry was fetched from a peer");
            }
            HostEvent::Repaired { next, slots } => {
                self.repaired.increment(*slots);
                self.missing.set(0.0);
                tracing::info!(%next, slots, "nothing is missing in the log any more");
            }
            HostEvent::RolledBack {
                peer,
                remembered,
                found,
            } => tracing::warn!(
                %peer,
                remembered_segment = remembered.segment,
                remembered_offset = remembered.offset,
                found_segment = found.segment,
                found_offset = found.offset,
                "this data folder is an older copy: a peer remembers promises that its log does not hold; the \
                 replica recovers from its peers before it votes again"
            ),
            _ => {}
        }
    }
}

fn missing(found: &Opened) -> u64 {
    found.missing.iter().map(|(from, to)| to.0 - from.0).sum()
}
