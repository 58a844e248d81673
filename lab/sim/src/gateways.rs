//! Remote gateways: machines without a replica, on which one gateway runs after the other.
//!
//! A gateway that is killed is forgotten with all it knew; the next one draws a number and a boot of its own.
//! What they answer is judged with everything else. They have the numbers behind the replicas' on the network,
//! and are told of newer epochs as connections would tell them.

use crate::mix::generator;
use crate::node::{Clock, Inbound};
use crate::plan::ClockPlan;
use crate::recording::What;
use crate::report::Violation;
use crate::subject::Subject;
use crate::world::{Event, World, draw_clock, replica};
use quorate_core::{Boot, Epoch, Group, MILLIS, Machine, ReplicaId, Seat};
use quorate_host::{
    Answer, Gateway, GatewayConfig, GatewayEffects, Request, SupportedVersions, Token,
};
use quorate_protocols::{RemoteGatewayConfig, RemoteGatewayMachine, remote_gateway_config};

/// The time between two questions for an epoch that nobody who runs knows, in ns.
const ASK_AGAIN_NS: u64 = 100 * MILLIS;

/// The machine that gateways run on.
pub(crate) struct RemoteGateway {
    /// `None` while there is none.
    pub(crate) gateway: Option<Gateway<RemoteGatewayMachine>>,
    pub(crate) clock: Clock,
    /// The number of the present gateway, or the last.
    me: ReplicaId,
    boot: Boot,
    inbox: Vec<Arrived>,
    turn_at_ns: Option<u64>,
    wake_at_ns: Option<u64>,
}

/// What a turn takes in.
enum Arrived {
    Input(Inbound<()>),
    /// Connections told of this epoch.
    Epoch(Box<Epoch>),
}

impl RemoteGateway {
    pub(crate) fn draw(count: usize, clocks: &ClockPlan, seed: u64) -> Vec<RemoteGateway> {
        let mut rng = generator(seed, "gateway clocks");
        let one = |_| RemoteGateway {
            gateway: None,
            clock: draw_clock(&mut rng, clocks),
            me: ReplicaId(ReplicaId::GATEWAYS),
            boot: Boot(0),
            inbox: Vec::new(),
            turn_at_ns: None,
            wake_at_ns: None,
        };
        (0..count).map(one).collect()
    }

    /// What its machine says of itself.
    pub(crate) fn figures(&self) -> Vec<(&'static str, f64)> {
        self.gateway.as_ref().map_or(Vec::new(), Gateway::figures)
    }

    /// Whether nothing waits, and all that it answered is known to be decided.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.gateway.as_ref().map(Gateway::waiting);
        waiting.is_none_or(|waiting| waiting == 0)
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// Under which number the others know a replica or a gateway.
    pub(crate) fn number(&self, endpoint: usize) -> ReplicaId {
        match endpoint.checked_sub(self.nodes.len()) {
            None => replica(endpoint),
            Some(gateway) => self.gateways[gateway].me,
        }
    }

    /// What it speaks.
    pub(crate) fn supported(&self, endpoint: usize) -> SupportedVersions {
        let node = self.nodes.get(endpoint);
        node.map_or(SupportedVersions::SHIPPED, |node| node.supported)
    }

    /// A new gateway starts.
    pub(crate) fn open_gateway(&mut self, index: usize) {
        if self.gateways[index].gateway.is_some() {
            return;
        }
        let rng = &mut self.nemesis.rng;
        let me = ReplicaId(rng.u16(ReplicaId::GATEWAYS..));
        let boot = Boot(rng.u64(..));
        let config = GatewayConfig {
            group: Group(0),
            me,
            boot,
            epoch: self.newest_epoch().clone(),
            supported: SupportedVersions::SHIPPED,
            limits: self.plan.limits,
            join: A::commands().join,
            jitter_seed: self.nemesis.rng.u64(..),
        };
        let machine = machine::<A>(&config.epoch, me, boot);
        let now_ns = self.queue.now_ns();
        let remote = &mut self.gateways[index];
        (remote.me, remote.boot) = (me, boot);
        let now = remote.clock.now(now_ns);
        remote.gateway = Some(Gateway::new(config, machine.as_ref(), now));
        self.trace
            .event(now_ns, "open gateway", &[index as u64, boot.0], || {
                format!("g{} as {me}", index + 1)
            });
        self.record(|| What::Note(format!("g{} starts", index + 1)));
        let endpoint = self.nodes.len() + index;
        for node in 0..self.nodes.len() {
            for (node, peer) in [(node, endpoint), (endpoint, node)] {
                let delay = self.nemesis.rng.u64(..MILLIS);
                self.tell_of_link((node, peer), true, now_ns, delay);
            }
        }
    }

    /// A gateway is killed, and another one starts in its place.
    pub(crate) fn kill_gateway(&mut self) {
        if self.gateways.is_empty() {
            return;
        }
        let index = self.nemesis.rng.usize(..self.gateways.len());
        if self.gateways[index].gateway.take().is_none() {
            return;
        }
        self.totals.hit("gateway killed");
        let now_ns = self.queue.now_ns();
        self.trace
            .event(now_ns, "kill gateway", &[index as u64], || {
                format!("g{}", index + 1)
            });
        self.record(|| What::Note(format!("g{} is killed", index + 1)));
        let remote = &mut self.gateways[index];
        remote.inbox.clear();
        (remote.turn_at_ns, remote.wake_at_ns) = (None, None);
        let (endpoint, me) = (self.nodes.len() + index, remote.me);
        for node in 0..self.nodes.len() {
            self.network.reset(endpoint, node);
            if self.nemesis.rng.bool() {
                let peer = me;
                let version = None;
                self.arrive(node, Inbound::Link { peer, version });
            }
        }
        let delay = self.nemesis.rng.u64(..=self.plan.outage_max_ns);
        self.queue.after(delay, Event::Restart { node: endpoint });
    }

    /// One of the gateways, or the replica that was drawn.
    pub(crate) fn maybe_gateway(&mut self, node: usize) -> usize {
        if self.setup.schedule.steady.is_some() {
            return self.nodes.len();
        }
        let rng = &mut self.nemesis.rng;
        match rng.bool() {
            true => self.nodes.len() + rng.usize(..self.gateways.len()),
            false => node,
        }
    }

    /// Puts an input into a gateway's inbox.
    pub(crate) fn arrive_at_gateway(&mut self, endpoint: usize, input: Inbound<A::Query>) {
        let input = match input {
            Inbound::Frame { from, bytes } => Inbound::Frame { from, bytes },
            Inbound::Link { peer, version } => Inbound::Link { peer, version },
            Inbound::Request { token, request } => {
                let request = Box::new(without_query(*request));
                Inbound::Request { token, request }
            }
            _ => unreachable!("it has no disk"),
        };
        self.take_in(endpoint, Arrived::Input(input));
    }

    fn take_in(&mut self, endpoint: usize, arrived: Arrived) {
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.gateway.is_some() {
            remote.inbox.push(arrived);
            self.gateway_turn_soon(endpoint);
        }
    }

    fn gateway_turn_soon(&mut self, endpoint: usize) {
        let now_ns = self.queue.now_ns();
        let busy_ns = self.core_ns(endpoint);
        let delay = busy_ns + self.nemesis.rng.u64(..=self.plan.service_max_ns);
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.turn_at_ns.is_none() {
            let (node, at_ns) = (endpoint, now_ns + delay);
            remote.turn_at_ns = Some(at_ns);
            self.queue.after(delay, Event::Turn { node, at_ns });
        }
    }

    pub(crate) fn gateway_wakes(&mut self, endpoint: usize, at_ns: u64) {
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.wake_at_ns == Some(at_ns) {
            remote.wake_at_ns = None;
            self.gateway_turn_soon(endpoint);
        }
    }

    /// One turn of a gateway.
    pub(crate) fn gateway_turn(&mut self, endpoint: usize, at_ns: u64) -> Result<(), Violation> {
        let now_ns = self.queue.now_ns();
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if remote.turn_at_ns != Some(at_ns) {
            return Ok(());
        }
        remote.turn_at_ns = None;
        if self.core_ns(endpoint) > 0 {
            self.gateway_turn_soon(endpoint);
            return Ok(());
        }
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        let now = remote.clock.now(now_ns);
        let (me, boot) = (remote.me, remote.boot);
        let inbox = std::mem::take(&mut remote.inbox);
        let Some(gateway) = &mut remote.gateway else {
            return Ok(());
        };
        for arrived in inbox {
            match arrived {
                Arrived::Input(Inbound::Frame { from, bytes }) => gateway.frame(now, from, bytes),
                Arrived::Input(Inbound::Link { peer, version }) => gateway.link(now, peer, version),
                Arrived::Input(Inbound::Request { token, request }) => {
                    gateway.submit(now, token, *request);
                }
                Arrived::Input(_) => {}
                Arrived::Epoch(epoch) => {
                    let machine = machine::<A>(&epoch, me, boot);
                    gateway.begin_epoch(now, *epoch, machine.as_ref());
                }
            }
        }
        self.look_after_gateway(endpoint - self.nodes.len());
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        let Some(gateway) = &mut remote.gateway else {
            return Ok(());
        };
        let GatewayEffects {
            frames,
            answers,
            events,
        } = gateway.turn(now);
        let is_behind = gateway.is_behind();
        let (number, wake_ns) = (gateway.epoch().number, gateway.next_wake());
        let mut wake_ns = wake_ns.map(|due| remote.clock.time_of(due).max(now_ns + 1));
        self.note_events(endpoint, events)?;
        frames.iter().for_each(|frame| self.send(endpoint, frame));
        for (token, answer) in answers {
            self.gateway_answers(endpoint, token, answer)?;
        }
        if is_behind && !self.tell_newer_epoch(endpoint, number) {
            let again_ns = now_ns + ASK_AGAIN_NS;
            wake_ns = Some(wake_ns.map_or(again_ns, |wake_ns| wake_ns.min(again_ns)));
        }
        let remote = &mut self.gateways[endpoint - self.nodes.len()];
        if let Some(at_ns) = wake_ns
            && remote.wake_at_ns.is_none_or(|planned| planned > at_ns)
        {
            remote.wake_at_ns = Some(at_ns);
            let (node, delay) = (endpoint, at_ns - now_ns);
            self.queue.after(delay, Event::Wake { node, at_ns });
        }
        Ok(())
    }

    /// Hands a gateway the newest epoch that a running replica knows, if it comes after the gateway's own. Says whether
    /// it does: not while whoever spoke of a later one is down.
    fn tell_newer_epoch(&mut self, endpoint: usize, number: u64) -> bool {
        let newest = self.newest_epoch();
        let is_newer = newest.number > number;
        if is_newer {
            let newest = Box::new(newest.clone());
            self.take_in(endpoint, Arrived::Epoch(newest));
        }
        is_newer
    }

    fn gateway_answers(
        &mut self,
        endpoint: usize,
        token: Token,
        answer: Answer<()>,
    ) -> Result<(), Violation> {
        let answer = match answer {
            Answer::Applied(slot, result) => Answer::Applied(slot, result),
            Answer::Refused(refusal) => Answer::Refused(refusal),
            Answer::Read(..) | Answer::Payload(_) => unreachable!("it reads nothing"),
        };
        self.answer_leaves(endpoint, token, answer)
    }
}

/// The same request of who reads nothing.
fn without_query<Q>(request: Request<Q>) -> Request<()> {
    match request {
        Request::Command(command) => Request::Command(command),
        Request::Write {
            body,
            payloads,
            principal,
        } => Request::Write {
            body,
            payloads,
            principal,
        },
        _ => unreachable!("clients ask replicas for everything else"),
    }
}

fn machine<A: Subject>(epoch: &Epoch, me: ReplicaId, boot: Boot) -> Option<RemoteGatewayConfig> {
    let seat = Seat {
        group: Group(0),
        epoch: epoch.clone(),
        me,
        boot,
    };
    remote_gateway_config(&seat, A::commands().touches)
}
