//! Writes that come at random, whether those before are answered or not, and how long they take.

use super::apart::Apart;
use super::clients::key;
use super::keys::Keys;
use super::world::{Event, World};
use crate::network::exponential;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Machine, Principal, SECONDS, Wire};
use quorate_host::{Answer, Host, Request};
use quorate_plain::{Answer as Found, Write};
use std::collections::BTreeMap;

/// What is written, and how often.
pub(super) struct Offers {
    /// Of its own, so that the same is offered to all clusters.
    rng: Rng,
    mean_ns: u64,
    keys: Keys,
    /// Keys of each write.
    keys_each: usize,
    /// When those were offered that wait for their answer.
    waiting: BTreeMap<u64, u64>,
    latencies_ns: Vec<u64>,
}

impl Offers {
    /// So many a second.
    pub(super) fn new(seed: u64, rate: u64, keys: Keys, keys_each: usize) -> Offers {
        Offers {
            rng: Rng::with_seed(seed),
            mean_ns: SECONDS / rate,
            keys,
            keys_each,
            waiting: BTreeMap::new(),
            latencies_ns: Vec::new(),
        }
    }

    /// The next write.
    fn write(&mut self, value: u64) -> Write {
        let value = Bytes::from(value.to_string());
        // As many draws for one as for two.
        let drawn = [(); 2].map(|()| self.keys.choose(&mut self.rng));
        let mut write = Write::default();
        for (at, number) in drawn[..self.keys_each].iter().enumerate() {
            // Twice the same is one.
            if !drawn[..at].contains(number) {
                write = write.and_put(key(*number), value.clone());
            }
        }
        write
    }
}

impl World {
    /// Begins the replicas, and offers from now on: to gateways, where there are any.
    pub(super) fn begin_offers(&mut self, offers: Offers) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            self.open(node)?;
        }
        self.offers = Some(offers);
        self.queue.after(0, Event::Offer);
        Ok(())
    }

    /// Goes on for so long: how long those writes took that were answered meanwhile.
    pub(super) fn take_offers(&mut self, lasts_ns: u64) -> Result<Vec<u64>, String> {
        self.run_until(self.queue.now_ns() + lasts_ns, |_| false)?;
        let offers = self.offers.as_mut();
        Ok(offers.map_or(Vec::new(), |offers| {
            std::mem::take(&mut offers.latencies_ns)
        }))
    }

    /// What machines say of themselves under this name, summed up.
    pub(super) fn figure(&self, wanted: &str) -> f64 {
        let hosts = self.nodes.iter().filter_map(|node| node.host.as_ref());
        let figures = hosts.filter_map(Host::machine).flat_map(Machine::figures);
        let figures = figures.chain(self.gateways.iter().flat_map(Apart::figures));
        let values = figures.filter(|(name, _)| *name == wanted);
        values.map(|(_, value)| value).sum()
    }

    pub(super) fn offer(&mut self) {
        let Some(offers) = &mut self.offers else {
            return;
        };
        self.tokens += 1;
        let token = self.tokens;
        let write = offers.write(token);
        let node = match self.gateways.len() {
            0 => offers.rng.usize(..self.nodes.len()),
            gateways => self.nodes.len() + offers.rng.usize(..gateways),
        };
        offers.waiting.insert(token, self.queue.now_ns());
        let next_ns = exponential(&mut offers.rng, offers.mean_ns);
        let request = Request::Write {
            body: write.to_bytes(),
            payloads: Vec::new(),
            principal: Principal::default(),
        };
        let request = Event::Request {
            node,
            token,
            request,
        };
        self.queue.after(0, request);
        self.queue.after(next_ns, Event::Offer);
    }

    pub(super) fn offer_answered(
        &mut self,
        token: u64,
        answer: &Answer<Found>,
    ) -> Result<(), String> {
        let now_ns = self.queue.now_ns();
        let Some(offers) = &mut self.offers else {
            return Ok(());
        };
        match (offers.waiting.remove(&token), answer) {
            (Some(offered_ns), Answer::Applied(..)) => {
                offers.latencies_ns.push(now_ns - offered_ns);
                Ok(())
            }
            // More than is let in was offered.
            (_, Answer::Refused(_)) => Ok(()),
            (_, other) => Err(format!("a write was answered with {other:?}")),
        }
    }
}
