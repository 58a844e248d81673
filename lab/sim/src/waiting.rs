//! What a driver knows of those who wait: who has left, and that nothing can be decided for now.

use crate::clients::Clients;
use crate::leases::Leases;
use crate::nemesis::ORDER;
use crate::servers::Servers;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;
use quorate_host::{Directive, Token};

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Has a replica drop what nobody waits for any more, and hold back what cannot be decided.
    pub(crate) fn look_after_waiting(&mut self, index: usize) {
        let holds_back = self.plan.holds_back && self.is_cut_off(index);
        let is_held = self.rig.is_none().then_some(holds_back);
        let (now_ns, clients) = (self.queue.now_ns(), &self.clients);
        let node = &mut self.nodes[index];
        if let (Some(host), Some(holds_back)) = (&mut node.host, is_held) {
            let now = node.clock.now(now_ns);
            host.direct(now, Directive::HoldBack(holds_back));
            host.withdraw(now, |token| is_wanted(clients, token));
        }
    }

    /// Withdraws the requests at a gateway whose clients wait no longer.
    pub(crate) fn look_after_gateway(&mut self, gateway: usize) {
        let (now_ns, clients) = (self.queue.now_ns(), &self.clients);
        let remote = &mut self.gateways[gateway];
        let now = remote.clock.now(now_ns);
        if let Some(gateway) = &mut remote.gateway {
            gateway.withdraw(now, |token| is_wanted(clients, token));
        }
    }

    /// Whether no more members are up and can be reached than may fail.
    fn is_cut_off(&self, index: usize) -> bool {
        let is_reached = |peer: &usize| {
            let is_open = self.network.is_open(index, *peer) && self.network.is_open(*peer, index);
            *peer == index || is_open && self.nodes[*peer].host.is_some()
        };
        let Some(host) = &self.nodes[index].host else {
            return false;
        };
        let is_member = |peer: &usize| host.look().epoch().index_of(self.number(*peer)).is_some();
        let members = (0..self.nodes.len()).filter(is_member);
        members.filter(is_reached).count() <= host.look().epoch().n() - host.look().quorum()
    }
}

/// Whether somebody waits for the answer to a request sent under this token.
fn is_wanted<A: Subject>(clients: &Clients<A>, token: Token) -> bool {
    let is_other = token == ORDER || Leases::owns(token) || Servers::owns(token);
    is_other || clients.is_waiting(token)
}
