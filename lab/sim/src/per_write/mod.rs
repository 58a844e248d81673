//! What a write takes under a protocol, in virtual time: message delays, messages and flushes of a lone write, and
//! throughput and latency where cores and disks are the limit.
//!
//! Whole clusters with the plain store, disks and no faults, all set up alike. A lone client stands at one replica
//! after the other, and every write is an entry of its own; many clients stand at all replicas, and entries hold
//! what waits.

mod hosts;

pub use hosts::{CoreTimes, put_in_memory};

use crate::calm::{Calm, Cluster};
use crate::core_costs::{CoreCosts, CorePlan};
use crate::meter::{Measured, share_of};
use crate::plan::{Arrivals, Spread};
use crate::simulator::Simulator;
use crate::steady::{Offers, Steady};
use quorate_core::{Durability, MICROS, MILLIS, SECONDS};
use serde::Serialize;
use std::collections::BTreeMap;

/// Every message of a lone write takes so long, and nothing else does.
const DELAY_NS: u64 = MILLIS;
/// A flush, where it counts: short enough that it changes nothing else.
const FLUSH_NS: u64 = 100 * MICROS;
/// How long lone writes are measured.
const LONE_NS: u64 = SECONDS;
/// How long many clients are measured.
const CROWD_NS: u64 = 250 * MILLIS;
/// Keys of all writes, and bytes of a value.
const KEYS: u64 = 100_000;
const VALUE_BYTES: usize = 256;

/// A protocol as it is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The name in tables.
    pub name: &'static str,
    /// The name of the protocol, as in the registry.
    pub protocol: &'static str,
    /// Parameters that are not as they are by default.
    pub params: &'static [(&'static str, &'static str)],
}

/// What a lone write takes.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Lone {
    /// Time to the answer in message delays, of a client beside the replica where that is least.
    pub delays_least: f64,
    /// Time to the answer in message delays, of a client beside the replica where that is most.
    pub delays_most: f64,
    /// Flushes that the answer waits for one after the other.
    pub flushes_in_sequence: f64,
    /// Flushes of all replicas together.
    pub flushes: f64,
    /// Messages of all replicas together.
    pub messages: f64,
    /// Messages that the busiest replica sends and receives, whose client it is.
    pub messages_busiest: f64,
}

/// What many clients see, each with one write under way.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Crowd {
    /// How many there are.
    pub clients: u32,
    /// Writes answered a second.
    pub writes_per_second: f64,
    /// Half of all writes take at most so long, us.
    pub p50_us: f64,
}

/// A way to measure, on so many replicas.
#[derive(Clone, Copy, Debug)]
pub struct PerWrite {
    /// The protocol as it is run.
    pub way: Way,
    /// Replicas of the cluster.
    pub replicas: u16,
    /// What the seed of runs is.
    pub seed: u64,
}

impl PerWrite {
    /// What a lone write takes.
    ///
    /// # Errors
    /// What is wrong with the parameters, or the promise that a run broke.
    pub fn lone(&self) -> Result<Lone, String> {
        let mut at_replicas = Vec::new();
        for replica in 0..usize::from(self.replicas) {
            at_replicas.push((self.lone_at(replica, 0)?, self.lone_at(replica, FLUSH_NS)?));
        }
        at_replicas.sort_by_key(|(quick, _)| half_of(quick));
        let delays = |measured: &Measured| half_of(measured) as f64 / DELAY_NS as f64;
        let (Some((best, with_flushes)), Some((worst, _))) =
            (at_replicas.first(), at_replicas.last())
        else {
            return Err("there are no replicas".to_owned());
        };
        let waits_ns = half_of(with_flushes).saturating_sub(half_of(best));
        let writes = best.latencies_ns.len().max(1) as f64;
        let by_pair = || best.messages.iter();
        let touches = |replica: usize| {
            let own = by_pair().filter(|((from, to, _), _)| replica == *from || replica == *to);
            own.map(|(_, count)| count).sum::<u64>()
        };
        let busiest = (0..self.replicas.into()).map(touches).max();
        Ok(Lone {
            delays_least: delays(best),
            delays_most: delays(worst),
            flushes_in_sequence: waits_ns as f64 / FLUSH_NS as f64,
            flushes: best.flushes as f64 / writes,
            messages: by_pair().map(|(_, count)| count).sum::<u64>() as f64 / writes,
            messages_busiest: busiest.unwrap_or(0) as f64 / writes,
        })
    }

    /// What so many clients see where cores take these times, and a flush as long as the lone write's.
    ///
    /// # Errors
    /// As [`PerWrite::lone`].
    pub fn crowd(&self, clients: u32, cores: CoreTimes) -> Result<Crowd, String> {
        let calm = Calm::usual(self.seed);
        let offers = Offers {
            clients: clients as usize,
            lasts_ns: CROWD_NS,
            ..offers(cores.0, FLUSH_NS)
        };
        let cluster = self.cluster(&[]);
        let simulator = calm.simulator(&cluster, Arrivals::Answered, offers);
        let measured = calm.measure(&simulator.map_err(|why| self.named(&why))?);
        let measured = measured.map_err(|why| self.named(&why))?;
        let lasted_ns = measured.lasted_offers_ns.max(1);
        Ok(Crowd {
            clients,
            writes_per_second: measured.latencies_ns.len() as f64 * SECONDS as f64
                / lasted_ns as f64,
            p50_us: half_of(&measured) as f64 / MICROS as f64,
        })
    }

    fn lone_at(&self, replica: usize, flush_ns: u64) -> Result<Measured, String> {
        let steady = Steady {
            delay_ns: DELAY_NS,
            jitter_ns: 0,
            spike: 0.0,
            service_max_ns: 0,
            arrivals: Arrivals::Answered,
            gateways: Some((replica, 1)),
            counts_messages: true,
            offers: Some(offers(CoreCosts::default(), flush_ns)),
            ..Steady::default()
        };
        let round_trip_us = (2 * DELAY_NS / MICROS).to_string();
        let cluster = self.cluster(&[("batch_commands", "1"), ("rtt_us", &round_trip_us)]);
        let params: Vec<(&str, &str)> = cluster
            .params
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
            .collect();
        let (replicas, durability) = (cluster.replicas, cluster.durability);
        let simulator = Simulator::steady(cluster.protocol, replicas, durability, &params, steady);
        let report = simulator.map_err(|why| self.named(&why))?.seed(self.seed);
        match (report.violation, report.measured) {
            (None, Some(measured)) if !measured.latencies_ns.is_empty() => Ok(measured),
            (Some(violation), _) => Err(self.named(&violation.to_string())),
            _ => Err(self.named("no write was answered")),
        }
    }

    fn cluster(&self, params: &[(&str, &str)]) -> Cluster<'static> {
        let all = params.iter().chain(self.way.params);
        let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Cluster {
            protocol: self.way.protocol,
            replicas: self.replicas.into(),
            durability: Durability::Disk,
            params: all.collect::<BTreeMap<_, _>>(),
        }
    }

    fn named(&self, why: &str) -> String {
        format!("{}: {why}", self.way.name)
    }
}

/// Writes of one client that stands at its replica.
fn offers(costs: CoreCosts, flush_ns: u64) -> Offers {
    Offers {
        spread: Spread {
            keys: KEYS,
            skew: 0.0,
            keys_each: 1,
            value_bytes: VALUE_BYTES,
        },
        clients: 1,
        is_led: false,
        gateways: 0,
        are_clients_far: false,
        cores: Some(CorePlan {
            costs,
            flush_ns,
            server: None,
        }),
        lasts_ns: LONE_NS,
    }
}

/// What half of all writes take at most, ns.
fn half_of(measured: &Measured) -> u64 {
    share_of(&measured.latencies_ns, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lone(protocol: &'static str, params: &'static [(&'static str, &'static str)]) -> Lone {
        let way = Way {
            name: protocol,
            protocol,
            params,
        };
        let per_write = PerWrite {
            way,
            replicas: 3,
            seed: 0,
        };
        per_write.lone().unwrap()
    }

    #[test]
    fn a_lone_write_takes_what_its_protocol_says() {
        for (protocol, least, most, messages) in [
            ("multi-paxos", 2.0, 4.0, 4.0),
            ("raft", 2.0, 4.0, 4.0),
            ("fast-paxos", 2.0, 3.0, 6.0),
        ] {
            let found = lone(protocol, &[]);
            assert_eq!(
                [found.delays_least, found.delays_most],
                [least, most],
                "{protocol}: {found:?}"
            );
            assert_eq!(found.flushes_in_sequence, 1.0, "{protocol}: {found:?}");
            assert!(
                (found.messages - messages).abs() < 2.1,
                "{protocol}: {found:?}"
            );
        }
    }
}
