//! The group as whoever runs a replica sees it: whom to be in touch with, which changes to propose, and
//! how a replica that is no member offers to become one.

use super::Host;
use super::reconfigure::standing;
use crate::epochs::precheck::{self, Limits, Refused, Seen, View};
use crate::epochs::{Note, Reconfigure, Succession};
use crate::frame::Body;
use crate::version::SupportedVersions;
use quorate_core::{Admission, Application, Catalogue, Machine, Member, Peers, ReplicaId, Slot};

impl<M: Machine, A: Application> Host<M, A> {
    /// Everybody this replica should be in touch with, ascending: the other members of the newest epoch
    /// and of the one before, and whoever has an address.
    #[must_use]
    pub fn acquaintances(&self) -> Vec<ReplicaId> {
        let addressed = self.context.epochs().addresses.keys().copied();
        let peers = self.context.membership.peers.iter().copied();
        let mut all: Vec<ReplicaId> = peers.chain(addressed).collect();
        all.retain(|id| *id != self.context.seat.me);
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Whether the newest epoch is known to be open: the last change is done.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let succession = self.transition.succession();
        succession.is_some_and(|succession| succession.is_open(&standing(&self.context)))
    }

    /// Members of the newest epoch that it takes to go on whichever they are: as many as are left when
    /// as many as may fail have.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.context.epoch().n() - self.context.applier.failures()
    }

    /// Which commands are carried out at present: what the group's alarms leave.
    #[must_use]
    pub fn admission(&self) -> Admission {
        self.context.applier.admission()
    }

    /// The versions of frames that this replica speaks.
    #[must_use]
    pub fn supported(&self) -> SupportedVersions {
        self.context.peer_versions.supported
    }

    /// What protocols there are.
    #[must_use]
    pub fn catalogue(&self) -> &'static dyn Catalogue {
        self.context.applier.catalogue()
    }

    /// Whether all payloads are safe with the members of the newest epoch.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.context.epochs().unsettled.is_none()
    }

    /// The first slot that a peer has not applied, as far as it has told.
    #[must_use]
    pub fn applied_by(&self, peer: ReplicaId) -> Slot {
        self.transfer.catch_up.applied_by(peer)
    }

    /// Whether a change would leave the group able to go on, as far as can be seen from here: `heard` are
    /// the replicas that a connection leads to, in the lives they are in, and the feature levels they know.
    ///
    /// # Errors
    /// [`Refused`]: why not now.
    pub fn may_change(&self, change: &Reconfigure, heard: &[(Member, u32)]) -> Result<(), Refused> {
        let seen = |(member, level), durable| Seen {
            member,
            ago_ns: 0,
            durable,
            level,
        };
        let peers = heard.iter();
        let peers = peers.map(|known| seen(*known, self.applied_by(known.0.id)));
        let own = (
            self.context.membership.me,
            self.context.peer_versions.supported.level(),
        );
        let own = seen(own, self.context.applied());
        let all: Vec<Seen> = peers.chain([own]).collect();
        let view = View {
            state: self.context.epochs(),
            applied: self.context.applied(),
            is_open: self.is_open(),
            seen: &all,
        };
        precheck::may_propose(
            &view,
            change,
            &Limits::default(),
            self.context.applier.catalogue(),
        )
    }

    /// Asks everybody how far they are: where a leader hears all, others may know little of each other. The
    /// answers are notes, and every frame tells how far its sender is.
    pub fn ask_around(&mut self) {
        for peer in self.acquaintances() {
            self.ask_progress(peer);
        }
    }

    /// Asks one replica how far it is, which is a sign of life.
    pub fn ask_progress(&mut self, peer: ReplicaId) {
        let (epoch, incarnation) = (
            self.context.epoch().number,
            self.context.membership.me.incarnation,
        );
        let note = Note::Ask { epoch };
        self.context
            .post(Peers::One(peer), &Body::Note { incarnation, note });
    }

    /// Offers to become a member, to one member after the other, once nearly everything is here. The
    /// driver repeats it now and then; whoever is a member, or has left, says nothing.
    pub fn volunteer(&mut self) {
        let has_left = self
            .transition
            .succession()
            .is_none_or(Succession::has_left);
        let behind = self.transfer.catch_up.ahead_by(self.context.applied());
        if self.context.is_member() || has_left || behind > Limits::default().lag_slots_max {
            return;
        }
        let epoch = self.context.epoch().number;
        let members = self.context.epoch().members.iter().map(|member| member.id);
        let members: Vec<ReplicaId> = members
            .filter(|id| self.context.peer_versions.is_up(*id))
            .collect();
        if let Some(to) = self.transition.asks_next(&members) {
            let incarnation = self.context.membership.me.incarnation;
            let note = Note::Ready { epoch };
            self.context
                .post(Peers::One(to), &Body::Note { incarnation, note });
        }
    }
}
