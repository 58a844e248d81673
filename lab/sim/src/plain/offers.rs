//! Writes that come at random, whether those before are answered or not, or from clients of which each waits for its
//! answer, and how long they take.

use super::clients::key;
use super::remote_gateways::RemoteGateway;
use super::world::{Event, World};
use crate::network::exponential;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{Introspect, MILLIS, Principal, SECONDS, Wire};
use quorate_host::{Answer, Request};
use quorate_plain_store::{QueryAnswer, Write};
use quorate_tooling::keys::Keys;
use std::collections::BTreeMap;

/// When writes come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pace {
    /// At random, so many a second.
    Rate(u64),
    /// From so many clients, each the next as soon as the last is answered.
    Clients(u64),
}

/// Where they go, if there are no remote gateways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entrance {
    /// To all replicas alike.
    Any,
    /// To the leader.
    Leader,
}

/// What is written, and how often.
pub(super) struct Offers {
    /// Of its own, so that the same is offered to all clusters.
    rng: Rng,
    pace: Pace,
    entrance: Entrance,
    keys: Keys,
    /// Keys of each write.
    keys_each: usize,
    /// When those were offered that wait for their answer.
    waiting: BTreeMap<u64, u64>,
    latencies_ns: Vec<u64>,
    refused: u64,
}

/// When a client that was refused asks again.
const ASK_AGAIN_NS: u64 = MILLIS;

impl Offers {
    pub(super) fn new(
        seed: u64,
        pace: Pace,
        entrance: Entrance,
        keys: Keys,
        keys_each: usize,
    ) -> Offers {
        Offers {
            rng: Rng::with_seed(seed),
            pace,
            entrance,
            keys,
            keys_each,
            waiting: BTreeMap::new(),
            latencies_ns: Vec::new(),
            refused: 0,
        }
    }

    /// How many were refused so far.
    pub(super) fn refused(&self) -> u64 {
        self.refused
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
        let at_once = match offers.pace {
            Pace::Rate(_) => 1,
            Pace::Clients(count) => count,
        };
        self.offers = Some(offers);
        (0..at_once).for_each(|_| self.queue.after(0, Event::Offer));
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
        let figures = hosts
            .filter_map(|host| host.look().machine())
            .flat_map(Introspect::figures);
        let figures = figures.chain(self.gateways.iter().flat_map(RemoteGateway::figures));
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
            0 if offers.entrance == Entrance::Leader => self.decider.unwrap_or(0),
            0 => offers.rng.usize(..self.nodes.len()),
            gateways => self.nodes.len() + offers.rng.usize(..gateways),
        };
        offers.waiting.insert(token, self.queue.now_ns());
        let next_ns = match offers.pace {
            Pace::Rate(rate) => Some(exponential(&mut offers.rng, SECONDS / rate)),
            Pace::Clients(_) => None,
        };
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
        let delay = self.weather.client_ns(&mut self.rng);
        self.queue.after(delay, request);
        if let Some(next_ns) = next_ns {
            self.queue.after(next_ns, Event::Offer);
        }
    }

    pub(super) fn offer_answered(
        &mut self,
        token: u64,
        answer: &Answer<QueryAnswer>,
    ) -> Result<(), String> {
        let now_ns = self.queue.now_ns();
        let Some(offers) = &mut self.offers else {
            return Ok(());
        };
        let again_ns = match (offers.waiting.remove(&token), answer) {
            (Some(offered_ns), Answer::Applied(..)) => {
                offers.latencies_ns.push(now_ns - offered_ns);
                0
            }
            // More than is let in was offered.
            (_, Answer::Refused(_)) => {
                offers.refused += 1;
                ASK_AGAIN_NS
            }
            (_, other) => return Err(format!("a write was answered with {other:?}")),
        };
        if let Pace::Clients(_) = offers.pace {
            self.queue.after(again_ns, Event::Offer);
        }
        Ok(())
    }
}
