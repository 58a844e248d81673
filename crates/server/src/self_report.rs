//! What a replica has the group note by itself: what it says of itself to clients, and that all know a
//! higher feature level.

use crate::core::Core;
use crate::error::ServerError;
use crate::group::ChangeError;
use crate::peer::handshake::PeerInfo;
use crate::replies::Reply;
use quorate_core::{Now, ReplicaId};
use quorate_host::epochs::{Face, Order};
use quorate_host::{FIRST_LEVEL, Request as HostRequest};
use quorate_protocols::ProtocolSet;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;

/// The time between two reports, while something is out of date, in ns.
const RECHECK_NS: u64 = 200_000_000;

/// The longest name or URL that is reported, in bytes; what is longer is cut off.
const TEXT_BYTES_MAX: usize = 512;

impl<P: ProtocolSet> Core<P> {
    /// Has the group note what is out of date, when it is time to look.
    pub(crate) fn report_self(&mut self, now: Now) {
        if self.group.report_at.is_none() && self.leads_unnamed() {
            self.group.report_at = Some(now.mono_ns);
        }
        if self
            .group
            .report_at
            .take_if(|at| *at <= now.mono_ns)
            .is_none()
        {
            return;
        }
        let about = self.links.about();
        let (level, known) = (self.host.look().epochs().level, self.level);
        let face = self.face().filter(|_| level > FIRST_LEVEL);
        let me = self.folder.meta().replica;
        if known > level || face.as_ref().is_some_and(|face| self.is_news(face)) {
            self.group.report_at = Some(now.mono_ns + RECHECK_NS);
        }
        if known > level && self.is_first() && self.all_know(known, &about) {
            tracing::info!(
                level = known,
                "all replicas know a higher feature level: the group's level is raised"
            );
            self.order(now, Order::Level { level: known });
        }
        if self.name_leader(now) {
            self.group.report_at = Some(now.mono_ns + RECHECK_NS);
        }
        if let Some(face) = face.filter(|face| self.is_news(face)) {
            self.order(now, Order::Publish { id: me, face });
        }
    }

    /// A program that does not know the feature level of its group does not know what commands mean.
    pub(crate) fn check_level(&self) -> Result<(), ServerError> {
        let (level, known) = (self.host.look().epochs().level, self.level);
        match level > known {
            true => Err(ServerError::Level { level, known }),
            false => Ok(()),
        }
    }

    /// What this replica says of itself to clients.
    fn face(&self) -> Option<Face> {
        let own = self.group.own(self.folder.meta().replica)?;
        let bounded = |text: &str| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        Some(Face {
            name: bounded(&own.name),
            client_url: bounded(&own.client_url),
        })
    }

    /// Whether the group could know this of this replica, and does not.
    fn is_news(&self, face: &Face) -> bool {
        let (me, state) = (self.folder.meta().replica, self.host.look().epochs());
        let is_of_group = self.host.look().is_member() || state.addresses.contains_key(&me);
        is_of_group && state.faces.get(&me) != Some(face)
    }

    /// Whether this is the first member of those that reach each other.
    pub(crate) fn is_first(&self) -> bool {
        let me = self.folder.meta().replica;
        let members = self.host.look().epoch().member_ids();
        let mut before = members.filter(|id| *id < me);
        self.host.look().is_member() && !before.any(|id| self.state.links_up.contains(&id))
    }

    /// Whether every member and everybody who may become one is there and knows a feature level.
    fn all_know(&self, level: u32, about: &BTreeMap<ReplicaId, PeerInfo>) -> bool {
        self.lagging(level, about).next().is_none()
    }

    /// Members and whoever may become one that are not there, or do not know a feature level.
    fn lagging<'a>(
        &'a self,
        level: u32,
        about: &'a BTreeMap<ReplicaId, PeerInfo>,
    ) -> impl Iterator<Item = ReplicaId> + 'a {
        let me = self.folder.meta().replica;
        let members = self.host.look().epoch().member_ids();
        let all = members.chain(self.host.look().epochs().addresses.keys().copied());
        all.filter(move |id| {
            let knows = about.get(id).is_some_and(|about| about.level >= level);
            *id != me && !(knows && self.state.links_up.contains(id))
        })
    }

    /// Replicas that keep the group from the highest feature level that this program knows, ascending.
    pub(crate) fn behind(&self) -> Vec<ReplicaId> {
        let known = self.level;
        if self.host.look().epochs().level >= known {
            return Vec::new();
        }
        let lagging: BTreeSet<ReplicaId> = self.lagging(known, &self.links.about()).collect();
        lagging.into_iter().collect()
    }

    /// Nobody waits for what it comes to: it is looked at again.
    pub(crate) fn order(&mut self, now: Now, order: Order) {
        let (reply, _) = oneshot::channel::<Result<(), ChangeError>>();
        let token = self.state.replies.insert(now.mono_ns, Reply::Change(reply));
        self.host.submit(now, token, HostRequest::Order(order));
    }
}
