//! Cores that are busy with one message at a time: what limits a cluster whose links and disks do not.
//!
//! A replica or a gateway has one core. What comes takes it for the socket and for the step of the protocol, what
//! leaves for the socket; a turn waits until the core has done what came before it, and meanwhile more comes.

use super::world::World;
use crate::capacity::{CoreCosts, Serial};
use quorate_host::Request;
use quorate_plain_store::Query;

/// Bytes around a request, and around a frame.
const REQUEST_BYTES: usize = 64;
const HEADER_BYTES: usize = 16;

/// Of all replicas and gateways.
pub(super) struct Cores {
    costs: CoreCosts,
    /// What a flush takes, ns.
    flush_ns: u64,
    /// By endpoint: replicas, then gateways.
    all: Vec<Serial>,
}

impl Cores {
    pub(super) fn new(endpoints: usize, costs: CoreCosts, flush_ns: u64) -> Cores {
        Cores {
            costs,
            flush_ns,
            all: vec![Serial::default(); endpoints],
        }
    }

    /// How long each was busy until now.
    pub(super) fn busy_ns(&self, now_ns: u64) -> Vec<u64> {
        self.all.iter().map(|core| core.busy_ns(now_ns)).collect()
    }
}

impl World {
    /// How long until a core has done what it was given; `None` where cores do not count.
    pub(super) fn core_free_after_ns(&self, endpoint: usize) -> Option<u64> {
        let now_ns = self.queue.now_ns();
        let cores = self.cores.as_ref()?;
        Some(cores.all[endpoint].free_ns(now_ns) - now_ns)
    }

    /// Something of so many bytes comes.
    pub(super) fn core_takes_in(&mut self, endpoint: usize, bytes: usize) {
        let now_ns = self.queue.now_ns();
        if let Some(cores) = &mut self.cores {
            let bytes = (bytes + HEADER_BYTES) as u64;
            let takes_ns = cores.costs.socket(bytes) + cores.costs.step(bytes);
            cores.all[endpoint].take(now_ns, takes_ns as u64);
        }
    }

    pub(super) fn core_takes_in_request(&mut self, endpoint: usize, request: &Request<Query>) {
        let body = match request {
            Request::Write { body, .. } => body.len(),
            _ => 0,
        };
        self.core_takes_in(endpoint, body + REQUEST_BYTES);
    }

    /// Something of so many bytes leaves: how long until the socket has it.
    pub(super) fn core_sends_ns(&mut self, endpoint: usize, bytes: usize) -> u64 {
        let now_ns = self.queue.now_ns();
        let Some(cores) = &mut self.cores else {
            return 0;
        };
        let takes_ns = cores.costs.socket((bytes + HEADER_BYTES) as u64) as u64;
        cores.all[endpoint].take(now_ns, takes_ns) - now_ns
    }

    /// How long until a flush that begins when the core is free is done; `None` where cores do not count.
    pub(super) fn core_flushes_ns(&self, endpoint: usize) -> Option<u64> {
        let free_ns = self.core_free_after_ns(endpoint)?;
        let cores = self.cores.as_ref()?;
        Some(free_ns + cores.flush_ns)
    }
}
