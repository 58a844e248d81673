//! The group as whoever runs a replica sees it: whom to be in touch with, and which changes to propose.

use super::Look;
use crate::epochs::Reconfigure;
use crate::epochs::precheck::{self, Limits, Refused, Seen, View};
use crate::host::reconfigure::standing;
use crate::version::SupportedVersions;
use quorate_core::{Admission, Application, Catalogue, Machine, Member, ReplicaId, Slot};

impl<'a, M: Machine, A: Application> Look<'a, M, A> {
    /// Everybody this replica should be in touch with, ascending: the other members of the newest epoch
    /// and of the one before, and whoever has an address.
    #[must_use]
    pub fn acquaintances(self) -> Vec<ReplicaId> {
        self.host.context.acquaintances()
    }

    /// Whether the newest epoch is known to be open: the last change is done.
    #[must_use]
    pub fn is_open(self) -> bool {
        let succession = self.host.transition.succession();
        succession.is_some_and(|succession| succession.is_open(&standing(&self.host.context)))
    }

    /// Members of the newest epoch that it takes to go on whichever they are: as many as are left when
    /// as many as may fail have.
    #[must_use]
    pub fn quorum(self) -> usize {
        self.host.context.epoch().n() - self.host.context.applier.failures()
    }

    /// The commands that are carried out at present: those that the group's alarms leave.
    #[must_use]
    pub fn admission(self) -> Admission {
        self.host.context.applier.admission()
    }

    /// The versions of frames that this replica speaks.
    #[must_use]
    pub fn supported(self) -> SupportedVersions {
        self.host.context.peer_versions.supported
    }

    /// The protocols that an epoch may name.
    #[must_use]
    pub fn catalogue(self) -> &'static dyn Catalogue {
        self.host.context.applier.catalogue()
    }

    /// Whether all payloads are safe with the members of the newest epoch.
    #[must_use]
    pub fn is_settled(self) -> bool {
        self.host.context.epochs().unsettled.is_none()
    }

    /// The first slot that a peer has not applied, as far as it has told.
    #[must_use]
    pub fn applied_by(self, peer: ReplicaId) -> Slot {
        self.host.transfer.catch_up.applied_by(peer)
    }

    /// Whether a change would leave the group able to go on, as far as can be seen from here: `heard` are
    /// the replicas that a connection leads to, in the lives they are in, and the feature levels they know.
    ///
    /// # Errors
    /// [`Refused`]: why not now.
    pub fn may_change(self, change: &Reconfigure, heard: &[(Member, u32)]) -> Result<(), Refused> {
        let seen = |(member, level), durable| Seen {
            member,
            ago_ns: 0,
            durable,
            level,
        };
        let peers = heard.iter();
        let peers = peers.map(|known| seen(*known, self.applied_by(known.0.id)));
        let own = (
            self.host.context.membership.me,
            self.host.context.peer_versions.supported.level(),
        );
        let own = seen(own, self.host.context.applied());
        let all: Vec<Seen> = peers.chain([own]).collect();
        let view = View {
            state: self.host.context.epochs(),
            applied: self.host.context.applied(),
            is_open: self.is_open(),
            seen: &all,
        };
        precheck::may_propose(
            &view,
            change,
            &Limits::default(),
            self.host.context.applier.catalogue(),
        )
    }
}
