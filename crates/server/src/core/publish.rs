//! What a scrape shows: figures that are brought up to date when somebody looks.

use super::Core;
use crate::disk::Disk;
use quorate_core::{Introspect, Now};
use quorate_host::Place;
use quorate_protocols::ProtocolSet;
use std::collections::BTreeMap;

impl<P: ProtocolSet> Core<P> {
    /// Brings figures up to date that somebody is about to look at.
    pub(super) fn publish(&mut self) {
        let counters = self.host.look().counters();
        let metrics = &self.metrics;
        metrics.turns.absolute(self.state.turns);
        metrics.face_queue.set(self.state.waited.0 as f64);
        metrics.peer_queue.set(self.state.waited.1 as f64);
        metrics.commands.absolute(counters.commands);
        metrics.duplicates.absolute(counters.duplicates);
        metrics.slots.absolute(counters.slots);
        metrics.noop_slots.absolute(counters.noops);
        metrics.caught_up_slots.absolute(counters.caught_up);
        metrics.log_syncs.absolute(counters.syncs);
        metrics.log_bytes.absolute(counters.log_bytes);
        metrics.frames.absolute(counters.frames);
        metrics
            .log_size_bytes
            .set(self.disk.as_ref().map_or(0, Disk::bytes) as f64);
        let storage = &metrics.storage;
        storage.fragment_bytes.absolute(counters.fragment_bytes);
        storage
            .fragment_moved_bytes
            .absolute(counters.fragment_moved_bytes);
        storage.gathered.absolute(counters.gathered);
        storage.rebuilt.absolute(counters.rebuilt);
        storage
            .lacking
            .set(self.host.look().payloads_lacking() as f64);
        let recoded = self.host.look().recoded();
        storage.recoded_bytes.set(recoded.done_bytes as f64);
        storage.recode_bytes.set(recoded.total_bytes as f64);
        metrics.epoch.set(self.host.look().epoch().number as f64);
        metrics
            .level
            .set(f64::from(self.host.look().epochs().level));
        metrics
            .is_settled
            .set(f64::from(u8::from(self.host.look().is_settled())));
        storage
            .fragment_live_bytes
            .set(self.host.look().fragment_live_bytes() as f64);
        let file_bytes = self.disk.as_ref().map_or(0, Disk::fragment_bytes);
        storage.fragment_file_bytes.set(file_bytes as f64);
        if let Some(disk) = &self.disk {
            storage.turned_over(disk.turnover());
        }
        let segments = self.disk.as_ref().map_or(0, Disk::segments);
        metrics.snapshots.log_segments.set(segments as f64);
        metrics
            .applied_slot
            .set(self.host.look().applied().0 as f64);
        let waiting = self.host.look().waiting() as f64;
        metrics.waiting.set(waiting);
        let gone = self.host.look().epoch().n() - self.reachable_members();
        metrics.members_gone.set(gone as f64);
        let gateways = self.links.gateways();
        metrics.gateways_connected.set(gateways as f64);
        let quorum = f64::from(u8::from(self.has_quorum()));
        metrics.has_quorum.set(quorum);
        let clock = self.clock.error(self.clock.mono_ns());
        self.metrics.clock(clock.source).show(&clock);
        self.publish_protocol_gauges();
    }

    /// Takes note of a time that a request or a flush spent at a place.
    pub(super) fn note_spent(&mut self, now: Now, place: Place, ns: u64) {
        self.metrics.spent(place, ns);
        if let Some(slow) = self.state.slow.note(now.mono_ns, place, ns)
            && let Some(left_out) = self.state.log.admit("slow request")
        {
            tracing::warn!(left_out, "{slow}");
        }
    }

    /// What the machine says of itself.
    fn publish_protocol_gauges(&mut self) {
        let mut figures = BTreeMap::new();
        if let Some(machine) = self.host.look().machine() {
            let own = machine.figures().into_iter();
            figures.extend(own.map(|(name, value)| ((name, None), value)));
            let of_peers = machine.peer_figures().into_iter();
            figures.extend(of_peers.map(|(peer, name, value)| ((name, Some(peer)), value)));
        }
        self.state.protocol_gauges.show(&self.metrics, figures);
    }
}
