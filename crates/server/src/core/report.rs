//! What a replica says of itself to those who ask.

use super::Core;
use crate::disk::Disk;
use crate::status::Status;
use quorate_protocols::ProtocolSet;

impl<P: ProtocolSet> Core<P> {
    /// All of it, as of now.
    pub(super) fn status(&self) -> Status {
        let meta = self.folder.meta();
        let epoch = self.host.look().epoch();
        Status {
            cluster: meta.cluster,
            me: meta.replica,
            incarnation: meta.incarnation,
            members: (self.group).members(
                meta.replica,
                self.host.look().epochs(),
                &self.links.about(),
            ),
            epochs: self.host.look().epochs().chain.epochs().cloned().collect(),
            level: self.host.look().epochs().level,
            behind: self.behind(),
            wire_version: self.host.look().supported().newest.0,
            is_open: self.host.look().is_open(),
            is_settled: self.host.look().is_settled(),
            payloads_lacking: self.host.look().payloads_lacking() as u64,
            recoded: self.host.look().recoded(),
            recode_rate: self.host.look().limits().recode_rate,
            protocol: epoch.protocol.clone(),
            params: epoch.params.clone(),
            durability: epoch.durability,
            is_member: self.host.look().is_member(),
            is_first: self.is_first(),
            leads: self.leads(),
            leader: self.leader(),
            term: self.term(),
            serving: self.host.look().is_serving(),
            applied: self.host.look().applied(),
            log_segments: self.folder.log_segments(),
            snapshot_bytes: self.folder.snapshot_bytes(),
            links_up: self.state.links_up.iter().copied().collect(),
            uptime: self.state.began.elapsed(),
            log_bytes: self.disk.as_ref().map_or(0, Disk::bytes),
            quorum: self.has_quorum(),
            clock: self.clock.error(self.clock.mono_ns()),
            alarms: self.alarms(),
            peer_proof: self.peer_proof,
            raised: self.raised(),
            difference: self.difference(),
            fragment_bytes: self.host.look().fragment_live_bytes(),
            fragment_file_bytes: self.disk.as_ref().map_or(0, Disk::fragment_bytes),
            free_bytes: self.disk.as_ref().and_then(Disk::free_bytes),
        }
    }
}
