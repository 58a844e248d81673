//! Changes of the group itself: members come and go while everything else goes wrong.

use crate::disk::Disk;
use crate::node::Power;
use crate::subject::Subject;
use crate::world::{Event, World, replica};
use quorate_core::{Epoch, Incarnation, MILLIS, Machine, Member};
use quorate_host::epochs::{Configuration, Edit, Expect, Order, Reconfigure};
use quorate_host::{Request, Token};

/// The token of orders: nobody waits for what comes of them.
pub(crate) const ORDER: Token = Token::MAX - 1;

/// A kind of change.
#[derive(Clone, Copy, Debug)]
enum Change {
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
            .map(|host| host.epoch())
            .max_by_key(|epoch| epoch.number);
        newest.unwrap_or(&self.epoch)
    }

    /// Some member is asked to have the group change.
    pub(super) fn reconfigure(&mut self) {
        let is_asked = |index: &usize| {
            let host = self.nodes[*index].host.as_ref();
            host.is_some_and(|host| host.epoch().has(self.member(*index)))
        };
        let members: Vec<usize> = (0..self.nodes.len()).filter(is_asked).collect();
        let rng = &mut self.nemesis.rng;
        let Some(via) = rng.choice(&members).copied() else {
            return;
        };
        let change = [Change::Renew, Change::Remove, Change::Add, Change::Replace][rng.usize(..4)];
        let Some(host) = &self.nodes[via].host else {
            return;
        };
        let epoch = host.epoch().clone();
        let Some(configuration) = self.changed(&epoch, change) else {
            return;
        };
        let expect = Expect::of(&epoch);
        let order = Order::Reconfigure(Reconfigure {
            expect,
            configuration,
        });
        self.totals.hit(match change {
            Change::Renew => "epoch renewed",
            Change::Remove => "member removed",
            Change::Add => "member added",
            Change::Replace => "member replaced",
        });
        self.send_request(via, ORDER, Request::Order(order));
    }

    /// What an epoch becomes; `None` if it cannot be changed so now.
    fn changed(&mut self, epoch: &Epoch, change: Change) -> Option<Configuration> {
        let removed = match change {
            Change::Remove | Change::Replace => {
                let one = epoch.members[self.nemesis.rng.usize(..epoch.n())];
                Some(Edit::Remove(one.id))
            }
            Change::Renew | Change::Add => None,
        };
        let added = match change {
            Change::Add | Change::Replace => Some(Edit::Add(self.newcomer(epoch)?)),
            Change::Renew | Change::Remove => None,
        };
        let mut next = epoch.clone();
        for edit in added.into_iter().chain(removed) {
            let configuration = edit.of(&next).ok()??;
            next.members = configuration.members;
        }
        Some(Configuration::of(&next))
    }

    /// Somebody who may become a member: who has left comes back in a new life.
    fn newcomer(&mut self, epoch: &Epoch) -> Option<Member> {
        let is_out = |index: &usize| epoch.index_of(replica(*index)).is_none();
        let out: Vec<usize> = (0..self.nodes.len()).filter(is_out).collect();
        let index = self.nemesis.rng.choice(&out).copied()?;
        if self.nodes[index].left {
            self.begin_life(index);
        }
        let is_new = !self.nodes[index].was_member;
        is_new.then(|| self.member(index))
    }

    /// A replica that has left starts anew, with an empty disk and another incarnation.
    fn begin_life(&mut self, index: usize) {
        if self.nodes[index].host.is_some() {
            self.end_life(index, Power::Stays);
        }
        let incarnation = Incarnation(self.nemesis.rng.u128(1..));
        let node = &mut self.nodes[index];
        node.disk = Disk::new(self.plan.disk.recycle);
        node.incarnation = incarnation;
        (node.started, node.wiped, node.lost, node.left) = (false, false, false, false);
        node.was_member = false;
        self.queue.after(MILLIS, Event::Restart { node: index });
    }
}
