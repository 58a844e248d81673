//! Cores that are busy with one message at a time: what limits a cluster whose links and disks do not.
//!
//! A replica or a gateway has one core. What comes takes it for the socket and for the step of the
//! protocol, what leaves for the socket; a turn waits until the core has done what came before it, and
//! meanwhile more comes. A real server beside a replica has another core, and replies once it has carried out what
//! came before.

use super::serial::Serial;
use crate::core_costs::CorePlan;
use crate::subject::Subject;
use crate::world::World;
use quorate_core::Machine;
use quorate_host::Request;

/// Bytes around a request, and around a frame.
const REQUEST_BYTES: usize = 64;
const HEADER_BYTES: usize = 16;
/// An answer to a write, with what is around it.
const ANSWER_BYTES: usize = 64;

/// The cores of all replicas and gateways, and of the servers beside replicas.
pub(crate) struct Cores {
    plan: CorePlan,
    /// By endpoint: replicas, then gateways.
    all: Vec<Serial>,
    /// By replica; idle where there are no servers.
    servers: Vec<Serial>,
}

impl Cores {
    pub(crate) fn new(replicas: usize, gateways: usize, plan: CorePlan) -> Cores {
        Cores {
            plan,
            all: vec![Serial::default(); replicas + gateways],
            servers: vec![Serial::default(); replicas],
        }
    }

    /// How long each was busy until now: replicas, gateways, servers.
    pub(crate) fn busy_ns(&self, now_ns: u64) -> Vec<u64> {
        let all = self.all.iter().chain(&self.servers);
        all.map(|core| core.busy_ns(now_ns)).collect()
    }

    /// The servers of all replicas are given a command: how long until that of one of them has replied. Other replicas
    /// learn up to a message's delay later what is to be done; for how much their servers do, that is the same.
    fn servers_reply_ns(&mut self, now_ns: u64, replica: usize) -> u64 {
        let Some(server) = self.plan.server else {
            return 0;
        };
        let relayed_ns = self.plan.costs.socket(server.command_bytes)
            + self.plan.costs.socket(ANSWER_BYTES as u64);
        let mut replies_ns = now_ns;
        for (at, (core, line)) in self.all.iter_mut().zip(&mut self.servers).enumerate() {
            core.take(now_ns, relayed_ns as u64);
            let done_ns = line.take(now_ns, server.command_ns);
            if at == replica {
                replies_ns = done_ns;
            }
        }
        replies_ns - now_ns
    }
}

impl<M: Machine, A: Subject> World<'_, M, A> {
    /// How long from now until the core of a replica or gateway has done what it was given; no time
    /// where cores do not count.
    pub(crate) fn core_ns(&self, endpoint: usize) -> u64 {
        let now_ns = self.queue.now_ns();
        match &self.cores {
            Some(cores) => cores.all[endpoint].free_ns(now_ns) - now_ns,
            None => self.rig_core_ns(endpoint),
        }
    }

    /// A frame of so many bytes comes.
    pub(crate) fn core_takes_in(&mut self, endpoint: usize, bytes: usize) {
        let now_ns = self.queue.now_ns();
        if let Some(cores) = &mut self.cores {
            let (costs, bytes) = (&cores.plan.costs, (bytes + HEADER_BYTES) as u64);
            let takes_ns = costs.socket(bytes) + costs.step(bytes);
            cores.all[endpoint].take(now_ns, takes_ns as u64);
        }
    }

    /// A client's request comes.
    pub(crate) fn core_takes_in_request(&mut self, endpoint: usize, request: &Request<A::Query>) {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            _ => 0,
        };
        self.core_takes_in(endpoint, body + REQUEST_BYTES);
    }

    /// A frame of so many bytes leaves: how long until the socket has it.
    pub(crate) fn core_sends_ns(&mut self, endpoint: usize, bytes: usize) -> u64 {
        let now_ns = self.queue.now_ns();
        let Some(cores) = &mut self.cores else {
            return 0;
        };
        let takes_ns = cores.plan.costs.socket((bytes + HEADER_BYTES) as u64);
        cores.all[endpoint].take(now_ns, takes_ns as u64) - now_ns
    }

    /// An answer leaves: how long until the socket has it. Where replicas have servers, theirs has to have replied; a
    /// gateway has the leader's reply a message later.
    pub(crate) fn core_answers_ns(&mut self, endpoint: usize) -> u64 {
        let (now_ns, replicas) = (self.queue.now_ns(), self.nodes.len());
        let leader = self.meter.as_ref().and_then(|meter| meter.decider);
        let replica = match endpoint < replicas {
            true => endpoint,
            false => leader.unwrap_or(0),
        };
        let cores = self.cores.as_mut();
        let mut replies_ns = cores.map_or(0, |cores| cores.servers_reply_ns(now_ns, replica));
        if replies_ns > 0 && endpoint >= replicas {
            replies_ns += self.plan.links.delay_min_ns + self.plan.links.jitter_ns;
        }
        replies_ns.max(self.core_sends_ns(endpoint, ANSWER_BYTES))
    }

    /// How long until a flush is done that begins when the core is free; `None` where cores do not
    /// count.
    pub(crate) fn core_flushes_ns(&self, replica: usize) -> Option<u64> {
        let cores = self.cores.as_ref()?;
        Some(self.core_ns(replica) + cores.plan.flush_ns)
    }
}
