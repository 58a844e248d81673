//! Comparing digests with peers, and finding out who is odd where they differ.

use super::Host;
use crate::api::HostEvent;
use crate::divergence::{ASK_AGAIN_NS, DigestOf};
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::timers::Timer;
use crate::version::WireVersion;
use quorate_core::{Application, Machine, Now, Peers, ReplicaId, Slot};

impl<M: Machine, A: Application> Host<M, A> {
    /// The digest that frames carry: of everything applied. Older programs keep only those of checkpoints.
    pub(super) fn shown_digest(&self, version: WireVersion) -> (Slot, u64) {
        match version.has_claims() {
            true => (self.applier.next(), self.applier.digest()),
            false => self.applier.checkpoint(),
        }
    }

    /// A peer's digest of something before a slot; the next turn looks into it if it differs from the own one.
    pub(crate) fn compare(&mut self, peer: ReplicaId, (of, slot): (DigestOf, Slot), theirs: u64) {
        let is_blind = self.limits.flaw == Some(Flaw::DigestsNotCompared);
        if let Some(mine) = self
            .digest_of(of, slot)
            .filter(|mine| *mine != theirs && !is_blind)
        {
            self.divergence.found((of, slot), mine, (peer, theirs));
        }
    }

    /// Begins to ask the members for their digests, if a difference was found.
    pub(super) fn look_into_difference(&mut self, now: Now) {
        if self.divergence.begin(now.mono_ns) {
            self.ask_digests(now);
        }
    }

    /// The own digest, if it is kept.
    fn digest_of(&self, of: DigestOf, slot: Slot) -> Option<u64> {
        match of {
            DigestOf::Applied => self.applier.digest_at(slot),
            DigestOf::Snapshot => self.snapshots.digest_of(slot),
        }
    }

    /// Asks all members for their digests of what is applied here. What that comes to is an event.
    pub fn compare_states(&mut self) {
        self.divergence
            .confirm(self.applier.next(), self.applier.digest());
    }

    /// Asks the members for their digests that have not said them, until it is known who is odd.
    pub(super) fn ask_digests(&mut self, now: Now) {
        self.judge_digests(now);
        let others = self.others();
        let Some(((of, slot), digest, silent)) = self.divergence.asks(&others) else {
            return;
        };
        for peer in silent {
            // A replica that turns out to be odd stops. The others know by then.
            self.post_claim(peer, &Body::Digest { of, slot, digest });
            self.post_claim(peer, &Body::AskDigest { of, slot });
        }
        self.arm(Timer::Digests, now.mono_ns + ASK_AGAIN_NS);
    }

    /// A peer asks for a digest.
    pub(super) fn tell_digest(&mut self, peer: ReplicaId, of: DigestOf, slot: Slot) {
        if let Some(digest) = self.digest_of(of, slot) {
            self.post_claim(peer, &Body::Digest { of, slot, digest });
        }
    }

    /// A peer says its digest.
    pub(super) fn hear_digest(
        &mut self,
        now: Now,
        peer: ReplicaId,
        (of, slot): (DigestOf, Slot),
        digest: u64,
    ) {
        self.compare(peer, (of, slot), digest);
        self.divergence.heard(peer, (of, slot), digest);
        self.judge_digests(now);
    }

    fn judge_digests(&mut self, now: Now) {
        let members = self.epoch().members.iter().map(|member| member.id);
        let members: Vec<ReplicaId> = members.collect();
        let judged = self.divergence.judge(now.mono_ns, self.seat.me, &members);
        self.events.extend(judged.map(HostEvent::Compared));
    }

    /// Sends what only replicas understand that speak the version with claims and digests.
    pub(super) fn post_claim(&mut self, peer: ReplicaId, body: &Body) {
        if self.peer_versions.towards(Peers::One(peer)).has_claims() {
            self.post(Peers::One(peer), body);
        }
    }
}
