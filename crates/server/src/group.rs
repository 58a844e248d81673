//! The group that this replica is in, as it changes: whom to be in touch with and where, changes that
//! operators ask for, and replicas that offer to become members.

mod change;

pub use change::{ChangeError, GroupChange};

use crate::core::Core;
use crate::error::ServerError;
use crate::handle::{Failure, MemberInfo};
use crate::peer::handshake::PeerInfo;
use crate::replies::Reply;
use quorate_core::{Member, Now, ReplicaId};
use quorate_host::epochs::{AlarmChange, Edit, Expect, GroupState, Order, Reconfigure, Scope};
use quorate_host::{ALARM_LEVEL, Directive, FIRST_LEVEL, Request as HostRequest, USERS_LEVEL};
use quorate_protocols::ProtocolSet;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::oneshot;

/// The time between two offers of a replica that is no member to become one, in ns.
const OFFER_EVERY_NS: u64 = 500_000_000;

/// The time after which a candidate that came too early is judged again, in ns.
const RECHECK_NS: u64 = 20_000_000;

/// What this replica was told when it started, and what it made of the group last.
#[derive(Debug)]
pub(crate) struct Group {
    told: Vec<MemberInfo>,
    told_addresses: Vec<(ReplicaId, String)>,
    /// What URLs of peer ports begin with.
    scheme: &'static str,
    /// When to offer to become a member next; `None` if it is to stay a learner.
    offers_at: Option<u64>,
    /// A learner that offered itself too early, when to judge it again, and until when, in ns.
    candidate: Option<(Member, u64, u64)>,
    /// Members that lost their data: they are connected in incarnations that the newest epoch does not list.
    lost: BTreeSet<ReplicaId>,
    /// When to look whether the group's feature level, or what it knows of this replica, is out of date.
    pub(crate) report_at: Option<u64>,
    /// Since when the leader that is named cannot be reached, in ns.
    pub(crate) leader_missed_since: Option<u64>,
    /// The newest epoch and the addresses that connections were last made for.
    met: Option<ConnectedTo>,
}

/// The newest epoch, whether the change to it is done, and the addresses.
type ConnectedTo = (u64, bool, BTreeMap<ReplicaId, String>);

impl Group {
    pub(crate) fn new(
        told: Vec<MemberInfo>,
        told_addresses: Vec<(ReplicaId, String)>,
        scheme: &'static str,
        volunteers: bool,
    ) -> Group {
        Group {
            told,
            told_addresses,
            scheme,
            offers_at: volunteers.then_some(0),
            candidate: None,
            lost: BTreeSet::new(),
            report_at: None,
            leader_missed_since: None,
            met: None,
        }
    }

    /// What this replica was told of itself.
    pub(crate) fn own(&self, me: ReplicaId) -> Option<&MemberInfo> {
        self.told.iter().find(|info| info.id == me)
    }

    /// Whether a member is known to have lost its data, and waits to be replaced by what it is now.
    pub(crate) fn is_lost(&self, id: ReplicaId) -> bool {
        self.lost.contains(&id)
    }

    /// Members and learners, ascending, as replica `me` knows them.
    pub(crate) fn members(
        &self,
        me: ReplicaId,
        state: &GroupState,
        said: &BTreeMap<ReplicaId, PeerInfo>,
    ) -> Vec<MemberInfo> {
        let newest = state.chain.newest();
        let members = newest.members.iter().map(|member| member.id);
        let mut ids: Vec<ReplicaId> = members.chain(state.addresses.keys().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter()
            .map(|id| {
                let told = self.told.iter().find(|info| info.id == id).cloned();
                let mut info = told.unwrap_or_else(|| {
                    MemberInfo::told(id, format!("replica-{id}"), String::new())
                });
                info.has_started = id == me;
                info.stays_learner = state.learners.contains(&id);
                if let Some(url) = state.addresses.get(&id) {
                    info.peer_url.clone_from(url);
                }
                if info.peer_url.is_empty()
                    && let Some((_, at)) = self.told_addresses.iter().find(|(told, _)| *told == id)
                {
                    info.peer_url = format!("{}://{at}", self.scheme);
                }
                if let Some(face) = state.faces.get(&id) {
                    info.has_started = true;
                    info.name.clone_from(&face.name);
                    info.client_url.clone_from(&face.client_url);
                }
                // Who speaks for itself knows best.
                if let Some(about) = said.get(&id) {
                    info.has_started = true;
                    info.name.clone_from(&about.name);
                    info.client_url.clone_from(&about.client_url);
                }
                info.is_learner = newest.index_of(id).is_none();
                info
            })
            .collect()
    }

    /// The addresses of these replicas, as far as any replica told them. The group has forgotten those of members that
    /// it removed, which have to hear of that: they are where they were `connected` to.
    fn addresses(
        &self,
        state: &GroupState,
        ids: &[ReplicaId],
        connected: &[(ReplicaId, String)],
    ) -> Vec<(ReplicaId, String)> {
        let address = |id: &ReplicaId| {
            let decided = state.addresses.get(id).map(|url| host_port(url).to_owned());
            let mut others = self.told_addresses.iter().chain(connected);
            let other = others.find(|(other, _)| other == id);
            Some((*id, decided.or_else(|| Some(other?.1.clone()))?))
        };
        ids.iter().filter_map(address).collect()
    }
}

/// `host:port` of a URL.
fn host_port(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

impl<P: ProtocolSet> Core<P> {
    /// Has connections to whom the group consists of by now.
    pub(crate) fn meet(&mut self) {
        let state = self.host.look().epochs();
        let number = state.chain.newest().number;
        let is_done = self.host.look().is_open() && self.host.look().is_settled();
        let is_met = |(epoch, done, addresses): &ConnectedTo| {
            *epoch == number && *done == is_done && *addresses == state.addresses
        };
        if self.group.met.as_ref().is_some_and(is_met) {
            return;
        }
        let mut ids = self.host.look().acquaintances();
        if !self.host.look().is_member() {
            // What it was told may be all it knows of a group that went on long ago.
            ids.extend(self.group.told_addresses.iter().map(|(id, _)| *id));
            ids.sort_unstable();
            ids.dedup();
        }
        let connected = self.links.addresses().0;
        let addresses = self.group.addresses(state, &ids, &connected);
        for id in ids
            .iter()
            .filter(|id| !addresses.iter().any(|(known, _)| known == *id))
        {
            tracing::warn!(
                replica = %id,
                "no replica has told the address of this one, and --initial-cluster does not list it"
            );
        }
        if self.group.met.as_ref().is_none_or(|met| met.0 != number) {
            self.group.lost.clear();
        }
        if number > 1 {
            self.links.tell_newest(state.chain.newest());
        }
        self.group.met = Some((number, is_done, state.addresses.clone()));
        for peer in self.links.meet(&addresses) {
            if self.state.links_up.remove(&peer) {
                self.state.quorum.disconnected(peer);
                let now = self.clock.now();
                self.host.link(now, peer, None);
            }
        }
        self.links.wait_for(&self.former(is_done));
        self.group.report_at = Some(self.clock.now().mono_ns);
        self.watch_members(self.clock.now());
    }

    /// Former members, once nobody needs their data any more. A former member that has not heard of its removal asks.
    fn former(&self, is_done: bool) -> Vec<ReplicaId> {
        let state = self.host.look().epochs();
        let newest = state.chain.newest();
        let is_former =
            |id: &ReplicaId| newest.index_of(*id).is_none() && !state.addresses.contains_key(id);
        let all = self.host.look().acquaintances().into_iter();
        let is_over = is_done && self.host.look().is_member();
        all.filter(|id| is_over && is_former(id)).collect()
    }

    /// When to look after who would like to be a member: this replica, or one that offered itself.
    pub(crate) fn offers_at(&self) -> Option<u64> {
        let own = self
            .group
            .offers_at
            .filter(|_| !self.host.look().is_member());
        let candidate = self.group.candidate.map(|(_, at, _)| at);
        own.into_iter().chain(candidate).min()
    }

    /// Looks after that, when it is time.
    pub(crate) fn admit_candidates(&mut self, now: Now) {
        let is_due = |at: &mut u64| *at <= now.mono_ns;
        if !self.host.look().is_member() && self.group.offers_at.take_if(is_due).is_some() {
            self.group.offers_at = Some(now.mono_ns + OFFER_EVERY_NS);
            self.host.direct(now, Directive::Volunteer);
        }
        let candidate = self
            .group
            .candidate
            .take_if(|(_, at, _)| *at <= now.mono_ns);
        if let Some((member, _, until)) = candidate.filter(|(_, _, until)| *until > now.mono_ns) {
            self.try_to_admit(now, member, until);
        }
    }

    /// A learner would like to be a member.
    pub(crate) fn admit_learner(&mut self, now: Now, member: Member) {
        self.try_to_admit(now, member, now.mono_ns + OFFER_EVERY_NS);
    }

    /// Has the group take a learner in, or looks again in a moment, when others have told how far they are.
    fn try_to_admit(&mut self, now: Now, member: Member, until: u64) {
        let is_listed = self.host.look().epoch().index_of(member.id).is_some();
        let is_wanted = is_listed || self.host.look().epochs().addresses.contains_key(&member.id);
        let stays_learner = self.host.look().epochs().learners.contains(&member.id);
        if !is_wanted || stays_learner || self.links.latest_member(member.id) != Some(member) {
            return;
        }
        if is_listed {
            self.group.lost.insert(member.id);
        }
        let change = match is_listed {
            true => GroupChange::Replace(member.id),
            false => GroupChange::Promote(member.id),
        };
        if let Err(ChangeError::NotYet(_)) = self.order_of(&change) {
            self.group.candidate = Some((member, now.mono_ns + RECHECK_NS, until));
            return self.host.direct(now, Directive::AskAround);
        }
        let (reply, _) = oneshot::channel();
        self.change(now, change, reply);
    }

    /// Has the group decide a change, if it makes sense.
    pub(crate) fn change(
        &mut self,
        now: Now,
        change: GroupChange,
        reply: oneshot::Sender<Result<(), ChangeError>>,
    ) {
        match self.order_of(&change) {
            Ok(order) => {
                if let Some(left_out) = self.state.log.admit("change") {
                    tracing::info!(?change, left_out, "the group is asked to decide a change");
                }
                let token = self.state.replies.insert(now.mono_ns, Reply::Change(reply));
                self.host.submit(now, token, HostRequest::Order(order));
            }
            Err(why) => {
                tracing::debug!(?change, "no change: {why}");
                if matches!(why, ChangeError::NotYet(_)) {
                    self.host.direct(now, Directive::AskAround);
                }
                // Who asked may have left.
                let _ = reply.send(Err(why));
            }
        }
    }

    pub(crate) fn order_of(&self, change: &GroupChange) -> Result<Order, ChangeError> {
        let state = self.host.look().epochs();
        let is_listed = |id: ReplicaId| self.host.look().epoch().index_of(id).is_some();
        match change {
            GroupChange::Address { id, url } => Ok(Order::Address {
                id: *id,
                address: url.clone(),
            }),
            GroupChange::Forget(id) if !state.addresses.contains_key(id) => {
                Err(ChangeError::Unknown(*id))
            }
            GroupChange::Forget(id) => Ok(Order::Address {
                id: *id,
                address: String::new(),
            }),
            GroupChange::Remove(id) if !is_listed(*id) => Err(ChangeError::Unknown(*id)),
            GroupChange::Remove(id) => self.reconfigure(&Edit::Remove(*id)),
            GroupChange::Protocol {
                name,
                params,
                may_measure,
            } => {
                // Not when it is decided: programs of a group may be built with and without yardsticks.
                P::usable(name, *may_measure).map_err(ChangeError::Refused)?;
                self.reconfigure(&Edit::Protocol {
                    name: name.clone(),
                    params: params.clone(),
                })
            }
            GroupChange::Alarm { .. } if state.level < ALARM_LEVEL => {
                Err(ChangeError::unknown_at(state.level, "alarms", ALARM_LEVEL))
            }
            GroupChange::Alarm { alarm, is_raised } => Ok(Order::Alarm {
                alarm: *alarm,
                change: match is_raised {
                    true => AlarmChange::Raise(Scope::Group),
                    false => AlarmChange::End(Scope::Group),
                },
            }),
            GroupChange::Learn(_) | GroupChange::Lead(_) if state.level < USERS_LEVEL => {
                let what = "leaders by name and learners that wait to be promoted";
                Err(ChangeError::unknown_at(state.level, what, USERS_LEVEL))
            }
            GroupChange::Learn(id) => Ok(Order::Learn { id: *id }),
            GroupChange::Lead(id) => self.order_of_lead(*id),
            // Whether one that came back in a new incarnation is to be replaced by that, it says itself.
            GroupChange::Promote(id) if is_listed(*id) => Err(ChangeError::IsMember(*id)),
            GroupChange::Promote(id) if !state.addresses.contains_key(id) => {
                Err(ChangeError::Unknown(*id))
            }
            GroupChange::Promote(id) | GroupChange::Replace(id) => {
                let heard = self.heard().find(|member| member.id == *id);
                let Some(member) = heard else {
                    let why = format!("replica {id} is not connected: is it running?");
                    return Err(ChangeError::NotReady(why));
                };
                self.reconfigure(&match change {
                    GroupChange::Replace(_) => Edit::Replace(member),
                    _ => Edit::Add(member),
                })
            }
        }
    }

    fn reconfigure(&self, edit: &Edit) -> Result<Order, ChangeError> {
        let refused = |why: String| ChangeError::Refused(why);
        let epoch = self.host.look().epoch();
        let configuration = edit.of(epoch).map_err(|why| refused(why.to_string()))?;
        let Some(configuration) = configuration else {
            return Err(refused(
                "the configuration is as asked for already".to_owned(),
            ));
        };
        let change = Reconfigure {
            expect: Expect::of(epoch),
            configuration,
        };
        let about = self.links.about();
        let level = |id: ReplicaId| about.get(&id).map_or(FIRST_LEVEL, |about| about.level);
        let heard = self.heard().map(|member| (member, level(member.id)));
        let heard: Vec<(Member, u32)> = heard.collect();
        let judged = self.host.look().may_change(&change, &heard);
        judged.map_err(|why| ChangeError::not_proposed(&why))?;
        Ok(Order::Reconfigure(change))
    }

    /// Peers that a connection leads to.
    fn heard(&self) -> impl Iterator<Item = Member> {
        let up = self.state.links_up.iter();
        up.filter_map(|id| self.links.latest_member(*id))
    }

    /// The cluster goes on without this replica.
    pub(crate) fn removed(&self) -> ServerError {
        ServerError::Removed {
            me: self.folder.meta().replica,
            epoch: self.host.look().epoch().number,
            dir: self.folder.dir().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_an_url_is_found() {
        for url in ["http://a:1", "a:1", "http://a:1/"] {
            assert_eq!(host_port(url), "a:1");
        }
    }
}
