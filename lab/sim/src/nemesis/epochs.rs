//! Changes of the group itself: members come and go while everything else goes wrong.

use crate::disk::Disk;
use crate::node::Power;
use crate::subject::Subject;
use crate::world::{Event, World, replica};
use quorate_core::{Epoch, Incarnation, MILLIS, Machine, Member, ReplicaId};
use quorate_host::epochs::{
    Alarm, AlarmChange, AlarmKind, Configuration, Edit, Expect, Face, Order, Reconfigure, Scope,
};
use quorate_host::{Request, SupportedVersions, Token};
use std::collections::BTreeMap;

/// The token of orders: nobody waits for what comes of them.
pub(crate) const ORDER: Token = Token::MAX - 1;

/// Alarms are about this one.
const STRANGER: ReplicaId = ReplicaId(1000);

/// A kind of change.
#[derive(Clone, Copy, Debug)]
enum EpochChange {
    /// The same configuration once more.
    Renew,
    Remove,
    Add,
    /// One leaves and another comes.
    Replace,
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// A replica in its present life.
    pub(crate) fn member(&self, index: usize) -> Member {
        Member {
            id: replica(index),
            incarnation: self.nodes[index].incarnation,
        }
    }

    /// The newest epoch that any replica has reached.
    pub(crate) fn newest_epoch(&self) -> &Epoch {
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let newest = hosts
            .map(|host| host.look().epoch())
            .max_by_key(|epoch| epoch.number);
        newest.unwrap_or(&self.epoch)
    }

    /// A member that may be asked to have the group change, its epoch and its feature level.
    fn asked(&mut self) -> Option<(usize, Epoch, u32)> {
        let is_asked = |index: &usize| {
            let host = self.nodes[*index].host.as_ref();
            host.is_some_and(|host| host.look().epoch().has(self.member(*index)))
        };
        let members: Vec<usize> = (0..self.nodes.len()).filter(is_asked).collect();
        let via = self.nemesis.rng.choice(&members).copied()?;
        let host = self.nodes[via].host.as_ref()?;
        Some((via, host.look().epoch().clone(), host.look().epochs().level))
    }

    /// Asks a member for a configuration, unless too many of those who stay have lost promises for it.
    fn ask_for(&mut self, via: usize, epoch: &Epoch, configuration: Configuration) {
        let next = configuration.behind(epoch, epoch.first_slot);
        let stays = |index: &usize| [epoch, &next].iter().all(|of| of.has(self.member(*index)));
        let staying = (0..self.nodes.len()).filter(stays);
        let lost = staying.filter(|index| self.is_without_promises(*index));
        if lost.count() > self.failures_of(&next) {
            return;
        }
        let reached = self.reached.number;
        self.asked_for.retain(|asked| asked.number > reached);
        self.asked_for.push(next);
        let expect = Expect::of(epoch);
        let order = Order::Reconfigure(Reconfigure {
            expect,
            configuration,
        });
        self.send_request(via, ORDER, Request::Order(order));
    }

    /// The cluster is to go on with another protocol, or with other parameters.
    pub(super) fn switch_protocol(&mut self) {
        let Some((via, epoch, level)) = self.asked() else {
            return;
        };
        let rng = &mut self.nemesis.rng;
        let catalogue = self.setup.known.catalogue;
        let is_open = |name: &&str| *name == epoch.protocol || level >= catalogue.level_of(name);
        let known = self.setup.known.names.iter().copied().filter(is_open);
        let known: Vec<&str> = known.collect();
        let n = epoch.n();
        let name = known[rng.usize(..known.len())].to_owned();
        let mut params = BTreeMap::new();
        if name.ends_with("paxos") {
            params.insert("payload_min".into(), ["1", "4096"][rng.usize(..2)].into());
        }
        if ["rs-paxos", "racos"].contains(&name.as_str()) {
            params.insert("k".into(), rng.usize(1..=n).to_string());
        }
        let next = Edit::Protocol { name, params };
        let Ok(Some(configuration)) = next.of(&epoch) else {
            return;
        };
        let next = configuration.behind(&epoch, epoch.first_slot);
        if catalogue.numbers(level, &next).is_ok() {
            self.totals.hit("protocol switched");
            self.ask_for(via, &epoch, configuration);
        }
    }

    /// The group notes that all know a higher feature level, and then what replicas say of themselves to
    /// clients, and alarms.
    pub(super) fn keep_up(&mut self) {
        let Some((via, _, level)) = self.asked() else {
            return;
        };
        let known = SupportedVersions::SHIPPED.level();
        let order = if level < known {
            self.totals.hit("feature level raised");
            Order::Level { level: known }
        } else if self.nemesis.rng.bool() {
            self.alarm(via)
        } else if self.nemesis.rng.bool() {
            self.lead(via)
        } else {
            self.totals.hit("published");
            let port = self.nemesis.rng.u16(1..4);
            let face = Face {
                name: format!("replica-{via}"),
                client_url: format!("http://replica-{via}:{port}"),
            };
            let id = replica(via);
            Order::Publish { id, face }
        };
        self.send_request(via, ORDER, Request::Order(order));
    }

    /// Some member is to be the leader, if the protocol has one that makes room.
    fn lead(&mut self, via: usize) -> Order {
        self.totals.hit("leader moved");
        let (members, after) = match &self.nodes[via].host {
            Some(host) => {
                let state = host.look().epochs();
                (
                    host.look().epoch().member_ids().collect(),
                    state.leader.term,
                )
            }
            None => (Vec::new(), 0),
        };
        let id = self.nemesis.rng.choice(&members).copied();
        let id = id.unwrap_or(replica(via));
        Order::Lead { id, after }
    }

    /// An alarm that is raised ends, or else one begins. It is about a replica that is no member, so that nothing is
    /// refused because of it: what is, clients of the simulator do not ask for again.
    fn alarm(&mut self, via: usize) -> Order {
        let state = self.nodes[via]
            .host
            .as_ref()
            .map(|host| host.look().epochs());
        let raised = state.and_then(|state| state.alarms.iter().next());
        if let Some((alarm, scope)) = raised {
            self.totals.hit("alarm ended");
            let change = AlarmChange::End(scope);
            return Order::Alarm { alarm, change };
        }
        self.totals.hit("alarm raised");
        let rng = &mut self.nemesis.rng;
        let alarm = Alarm {
            kind: [AlarmKind::NoSpace, AlarmKind::Corrupt][rng.usize(..2)],
            id: STRANGER,
        };
        let change = AlarmChange::Raise(Scope::Member);
        Order::Alarm { alarm, change }
    }

    /// Some member is asked to have the group change.
    pub(super) fn reconfigure(&mut self) {
        let Some((via, epoch, _)) = self.asked() else {
            return;
        };
        let kinds = [
            EpochChange::Renew,
            EpochChange::Remove,
            EpochChange::Add,
            EpochChange::Replace,
        ];
        let change = kinds[self.nemesis.rng.usize(..4)];
        let Some(configuration) = self.changed(via, &epoch, change) else {
            return;
        };
        self.totals.hit(match change {
            EpochChange::Renew => "epoch renewed",
            EpochChange::Remove => "member removed",
            EpochChange::Add => "member added",
            EpochChange::Replace => "member replaced",
        });
        self.ask_for(via, &epoch, configuration);
    }

    /// What an epoch becomes; `None` if it cannot be changed so now.
    fn changed(&mut self, via: usize, epoch: &Epoch, change: EpochChange) -> Option<Configuration> {
        let removed = match change {
            EpochChange::Remove | EpochChange::Replace => {
                let one = epoch.members[self.nemesis.rng.usize(..epoch.n())];
                Some(Edit::Remove(one.id))
            }
            EpochChange::Renew | EpochChange::Add => None,
        };
        let added = match change {
            EpochChange::Add | EpochChange::Replace => Some(Edit::Add(self.newcomer(via, epoch)?)),
            EpochChange::Renew | EpochChange::Remove => None,
        };
        let mut next = epoch.clone();
        for edit in added.into_iter().chain(removed) {
            let configuration = edit.of(&next).ok()??;
            next.members = configuration.members;
        }
        Some(Configuration::of(&next))
    }

    /// Somebody who may become a member: who has left comes back in a new life. The group has to know
    /// first where it is.
    fn newcomer(&mut self, via: usize, epoch: &Epoch) -> Option<Member> {
        let is_out = |index: &usize| epoch.index_of(replica(*index)).is_none();
        let out: Vec<usize> = (0..self.nodes.len()).filter(is_out).collect();
        let index = self.nemesis.rng.choice(&out).copied()?;
        if self.nodes[index].left {
            self.begin_life(index);
        }
        let id = replica(index);
        let is_known = self.nodes[via].host.as_ref();
        let is_known =
            is_known.is_some_and(|host| host.look().epochs().addresses.contains_key(&id));
        if !is_known {
            let address = format!("replica-{id}");
            let order = Order::Address { id, address };
            self.send_request(via, ORDER, Request::Order(order));
            return None;
        }
        // One that lost promises, if it has made any, would be told nothing where it is among few.
        let node = &self.nodes[index];
        (!node.was_member && !node.lost).then(|| self.member(index))
    }

    /// A replica that has left starts anew, with an empty disk and another incarnation.
    fn begin_life(&mut self, index: usize) {
        if self.nodes[index].host.is_some() {
            self.end_life(index, Power::Stays);
        }
        let incarnation = Incarnation(self.nemesis.rng.u128(1..));
        let node = &mut self.nodes[index];
        node.disk = Disk::new(self.plan.disk.recycle);
        (node.incarnation, node.disk_life) = (incarnation, incarnation);
        (node.started, node.wiped, node.lost, node.left) = (false, false, false, false);
        node.was_member = false;
        self.queue.after(MILLIS, Event::Restart { node: index });
    }
}
