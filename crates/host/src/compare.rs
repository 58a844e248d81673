//! Comparing digests with peers, and finding out who is odd where they differ.

use crate::api::HostEvent;
use crate::context::Context;
use crate::divergence::{ASK_AGAIN_NS, DigestOf, Divergence};
use crate::flaw::Flaw;
use crate::frame::Body;
use crate::snapshot::Snapshots;
use crate::timers::Timer;
use quorate_core::{Application, Machine, Now, ReplicaId, Slot};

/// What comparing digests works on.
pub(crate) struct DivergenceHandler<'a, M: Machine, A: Application> {
    context: &'a mut Context<M, A>,
    divergence: &'a mut Divergence,
    snapshots: &'a Snapshots<M, A>,
}

impl Divergence {
    /// Lends what comparing digests works on.
    pub(crate) fn with<'a, M: Machine, A: Application>(
        &'a mut self,
        context: &'a mut Context<M, A>,
        snapshots: &'a Snapshots<M, A>,
    ) -> DivergenceHandler<'a, M, A> {
        DivergenceHandler {
            context,
            divergence: self,
            snapshots,
        }
    }
}

impl<M: Machine, A: Application> DivergenceHandler<'_, M, A> {
    /// A peer's digest of something before a slot; the next turn looks into it if it differs from the own one.
    pub(crate) fn compare(&mut self, peer: ReplicaId, (of, slot): (DigestOf, Slot), theirs: u64) {
        let is_blind = self.context.limits.flaw == Some(Flaw::DigestsNotCompared);
        let mine = self.digest_of(of, slot).filter(|_| !is_blind);
        self.divergence.compare((of, slot), mine, (peer, theirs));
    }

    /// Begins to ask the members for their digests, if a difference was found.
    pub(crate) fn look_into_difference(&mut self, now: Now) {
        if self.divergence.begin(now.mono_ns) {
            self.ask_digests(now);
        }
    }

    /// The own digest, if it is kept.
    fn digest_of(&self, of: DigestOf, slot: Slot) -> Option<u64> {
        match of {
            DigestOf::Applied => self.context.applier.digest_at(slot),
            DigestOf::Snapshot => self.snapshots.digest_of(slot),
        }
    }

    /// Asks all members for their digests of what is applied here. What that comes to is an event.
    pub(crate) fn compare_states(&mut self) {
        self.divergence
            .confirm(self.context.applier.next(), self.context.applier.digest());
    }

    /// Asks the members for their digests that have not said them, until it is known who is odd.
    pub(crate) fn ask_digests(&mut self, now: Now) {
        self.judge_digests(now);
        let others = self.context.others();
        let Some(((of, slot), digest, silent)) = self.divergence.asks(&others) else {
            return;
        };
        for peer in silent {
            // A replica that turns out to be odd stops. The others know by then.
            self.context
                .post_claim(peer, &Body::Digest { of, slot, digest });
            self.context.post_claim(peer, &Body::AskDigest { of, slot });
        }
        self.context
            .timers
            .arm(Timer::Digests, now.mono_ns + ASK_AGAIN_NS);
    }

    /// A peer asks for a digest.
    pub(crate) fn tell_digest(&mut self, peer: ReplicaId, of: DigestOf, slot: Slot) {
        if let Some(digest) = self.digest_of(of, slot) {
            self.context
                .post_claim(peer, &Body::Digest { of, slot, digest });
        }
    }

    /// A peer says its digest.
    pub(crate) fn hear_digest(
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
        let members = self.context.epoch().member_ids();
        let members: Vec<ReplicaId> = members.collect();
        let judged = self
            .divergence
            .judge(now.mono_ns, self.context.seat.me, &members);
        self.context
            .effects
            .events
            .extend(judged.map(HostEvent::Compared));
    }
}
