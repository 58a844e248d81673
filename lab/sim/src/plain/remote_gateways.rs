//! Remote gateways, in front of a cluster with the plain store: killed at any time, and followed by others under
//! other numbers. They have the numbers behind the replicas' on the network, each its own for ever.

use super::world::{Event, World};
use crate::node::Clock;
use crate::world::replica;
use bytes::Bytes;
use quorate_core::{Application, Boot, Group, MILLIS, ReplicaId, Seat};
use quorate_host::{
    Answer, Gateway, GatewayConfig, GatewayEffects, Limits, Request, SupportedVersions,
};
use quorate_plain_store::{Query, Store};
use quorate_protocols::{RemoteGatewayMachine, remote_gateway_config};

/// A gateway, or one that was.
pub(super) struct RemoteGateway {
    gateway: Option<Gateway<RemoteGatewayMachine>>,
    me: ReplicaId,
    pub(super) clock: Clock,
    turn_at_ns: Option<u64>,
}

impl RemoteGateway {
    /// What its machine says of itself.
    pub(super) fn figures(&self) -> Vec<(&'static str, f64)> {
        self.gateway.as_ref().map_or(Vec::new(), Gateway::figures)
    }

    /// Whether nothing waits, and all that it answered is known to be decided.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.gateway.as_ref().map(Gateway::waiting);
        waiting.is_none_or(|waiting| waiting == 0)
    }
}

impl World {
    /// Under which number the others know a replica or a gateway.
    pub(super) fn number(&self, endpoint: usize) -> ReplicaId {
        match endpoint.checked_sub(self.nodes.len()) {
            None => replica(endpoint),
            Some(at) => self.gateways[at].me,
        }
    }

    /// The gateways there are.
    pub(super) fn living_gateways(&self) -> Vec<usize> {
        let first = self.nodes.len();
        let living = self.gateways.iter().enumerate();
        let living = living.filter(|(_, remote)| remote.gateway.is_some());
        living.map(|(at, _)| first + at).collect()
    }

    /// The one with this number.
    pub(super) fn gateway_called(&self, id: ReplicaId) -> Option<usize> {
        let mut living = self.living_gateways().into_iter();
        living.find(|endpoint| self.number(*endpoint) == id)
    }

    /// A gateway starts, where the protocol has any.
    pub(super) fn open_gateway(&mut self) {
        let me = ReplicaId(self.rng.u16(ReplicaId::GATEWAYS..));
        let boot = Boot(self.rng.u64(..));
        let seat = Seat {
            group: Group(0),
            epoch: self.epoch.clone(),
            me,
            boot,
        };
        let Some(machine) = remote_gateway_config(&seat, Store::touches()) else {
            return;
        };
        let config = GatewayConfig {
            group: seat.group,
            me,
            boot,
            epoch: seat.epoch,
            supported: SupportedVersions::SHIPPED,
            limits: Limits {
                check_steps: true,
                ..Limits::default()
            },
            join: Store::join,
            jitter_seed: self.rng.u64(..),
        };
        let clock = Clock::right();
        let now = clock.now(self.queue.now_ns());
        let endpoint = self.nodes.len() + self.gateways.len();
        self.gateways.push(RemoteGateway {
            gateway: Some(Gateway::new(config, Some(&machine), now)),
            me,
            clock,
            turn_at_ns: None,
        });
        self.link_gateway(endpoint, true);
        self.gateway_turn_soon(endpoint);
    }

    /// A gateway is killed, and another one starts.
    pub(super) fn kill_gateway(&mut self, endpoint: usize) {
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.gateway.take().is_some() {
            *self.outcome.faults.entry("kill of a gateway").or_default() += 1;
            self.link_gateway(endpoint, false);
            self.open_gateway();
        }
    }

    fn link_gateway(&mut self, endpoint: usize, up: bool) {
        for index in 0..self.nodes.len() {
            for (node, peer) in [(index, endpoint), (endpoint, index)] {
                let delay = self.rng.u64(..MILLIS);
                self.queue.after(delay, Event::Link { node, peer, up });
            }
        }
    }

    pub(super) fn gateway_link(&mut self, endpoint: usize, peer: usize, up: bool) {
        let version = up.then_some(SupportedVersions::SHIPPED.newest);
        self.at_gateway(endpoint, |gateway, now| {
            gateway.link(now, replica(peer), version);
        });
    }

    pub(super) fn gateway_frame(&mut self, endpoint: usize, from: usize, bytes: Bytes) {
        self.at_gateway(endpoint, |gateway, now| {
            gateway.frame(now, replica(from), bytes);
        });
    }

    pub(super) fn gateway_request(&mut self, endpoint: usize, token: u64, asked: Request<Query>) {
        self.at_gateway(endpoint, |gateway, now| gateway.submit(now, token, asked));
    }

    fn at_gateway(
        &mut self,
        endpoint: usize,
        happens: impl FnOnce(&mut Gateway<RemoteGatewayMachine>, quorate_core::Now),
    ) {
        let now = self.now(endpoint);
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if let Some(gateway) = &mut remote.gateway {
            happens(gateway, now);
            self.gateway_turn_soon(endpoint);
        }
    }

    fn gateway_turn_soon(&mut self, endpoint: usize) {
        let delay = self.turn_comes_after_ns(endpoint);
        self.gateway_turn_after(endpoint, delay);
    }

    fn gateway_turn_after(&mut self, endpoint: usize, delay_ns: u64) {
        let at_ns = self.queue.now_ns() + delay_ns;
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.turn_at_ns.is_none_or(|due| due > at_ns) {
            remote.turn_at_ns = Some(at_ns);
            let (node, life) = (endpoint, 0);
            self.queue.after(delay_ns, Event::Turn { node, life });
        }
    }

    pub(super) fn gateway_turn(&mut self, endpoint: usize) -> Result<(), String> {
        let (now, busy_ns) = (self.now(endpoint), self.core_free_after_ns(endpoint));
        let due = self.gateways[endpoint - self.nodes.len()].turn_at_ns;
        if self.is_overtaken(due) {
            return Ok(());
        }
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        remote.turn_at_ns = None;
        if let Some(busy_ns @ 1..) = busy_ns {
            self.gateway_turn_after(endpoint, busy_ns);
            return Ok(());
        }
        let Some(gateway) = &mut remote.gateway else {
            return Ok(());
        };
        let GatewayEffects {
            frames,
            answers,
            events,
        } = gateway.turn(now);
        let wake = gateway.next_wake();
        let wake_ns = wake.map(|due| remote.clock.time_of(due));
        self.note(endpoint, events)?;
        for frame in frames {
            self.send(endpoint, frame.to, frame.chunks.concat().into());
        }
        for (token, answer) in answers {
            let answer = match answer {
                Answer::Applied(slot, result) => Answer::Applied(slot, result),
                Answer::Refused(refusal) => Answer::Refused(refusal),
                other => return Err(format!("a gateway answered with {other:?}")),
            };
            self.answer_leaves(endpoint, token, answer);
        }
        if let Some(at_ns) = wake_ns {
            let now_ns = self.queue.now_ns();
            self.gateway_turn_after(endpoint, at_ns.max(now_ns + 1) - now_ns);
        }
        Ok(())
    }
}
