//! A whole exchange in virtual time: participants, gateways, three replicas and the network between them.
//!
//! Everything but the agreement of the replicas is what runs in earnest. Of the agreement there is what it promises:
//! what is committed stays, and what a leader has done beyond that may survive its death or not. Nothing but the seed
//! decides what happens. With faults, leaders and gateways die, clocks are wrong, stamps are forged, and packets are
//! lost and repeated; without them, delays and a time for each order make it a model of machines for each role.

mod audit;
mod faults;
mod figures;
mod gateways;
mod leader;
mod network;
mod paper;
mod participants;
mod world;

pub(crate) use network::exponential;
pub(crate) use participants::{Name, Participants};

pub use figures::paper_table;
pub use paper::{Saturated, paper, saturate};

use crate::fair::{InboundUnfairness, OutboundUnfairness, SequencerStats};
use crate::histogram::Histogram;

/// How many of a million requests may come late in the seeds whose leaders choose their delays.
const LATE_PER_MILLION: u32 = 20_000;

/// What is simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scenario {
    /// How many participants there are; they are spread over the gateways.
    pub participants: u16,
    /// How many gateways there are, at least one.
    pub gateways: u16,
    /// How many symbols are traded, at least one.
    pub symbols: u16,
    /// How many requests participants make in all.
    pub requests: u64,
    /// The mean time between two requests, in ns, of all participants together.
    pub between_ns: u64,
    /// The delay from a stamp to its release to the log, in ns.
    pub order_delay_ns: u64,
    /// How many of a million requests may come late: the leader chooses its delay by that, and begins with
    /// `order_delay_ns`. Where it is not told, the delay stays.
    pub late_per_million: Option<u32>,
    /// The time for which gateways hold market data, in ns.
    pub hold_ns: u64,
    /// The shortest time that a packet is under way, in ns.
    pub way_ns: u64,
    /// The mean of what is added to that time for each packet, in ns.
    pub jitter_ns: u64,
    /// The time that the engine takes for a request, in ns.
    pub engine_ns: u64,
    /// Whether the leader waits for a quorum of three replicas; otherwise there is one.
    pub is_replicated: bool,
    /// Whether leaders and gateways die, clocks are wrong, stamps are forged and packets are lost.
    pub has_faults: bool,
    /// How far the first gateway's clock is ahead, in ns.
    pub clock_error_ns: i64,
    /// Whether gateways whose clocks are wrong are found.
    pub watches_clocks: bool,
    /// Whether the exchange has the fault, on purpose, that market data shows what is not committed.
    pub publishes_early: bool,
}

impl Default for Scenario {
    fn default() -> Self {
        Scenario {
            participants: 12,
            gateways: 4,
            symbols: 3,
            requests: 300,
            between_ns: 200_000,
            order_delay_ns: 200_000,
            late_per_million: None,
            hold_ns: 300_000,
            way_ns: 30_000,
            jitter_ns: 20_000,
            engine_ns: 1_000,
            is_replicated: true,
            has_faults: false,
            clock_error_ns: 0,
            watches_clocks: true,
            publishes_early: false,
        }
    }
}

impl Scenario {
    /// The exchange with leaders, gateways, clocks and the network at fault. Where a seed is odd, leaders choose their
    /// delays.
    #[must_use]
    pub fn with_faults() -> Scenario {
        Scenario {
            has_faults: true,
            ..Scenario::default()
        }
    }

    /// Runs a seed to its end, and checks everything that must hold.
    ///
    /// # Errors
    /// What does not hold.
    pub fn run(&self, seed: u64) -> Result<Seen, String> {
        let chosen = (self.has_faults && !seed.is_multiple_of(2)).then_some(LATE_PER_MILLION);
        let scenario = Scenario {
            late_per_million: self.late_per_million.or(chosen),
            ..*self
        };
        world::World::new(scenario, seed).run()
    }
}

/// What was seen of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The requests that were executed, each once.
    pub executed: u64,
    /// How often a request came to the log again.
    pub repeated: u64,
    /// How many trades there were.
    pub trades: u64,
    /// How often a leader died.
    pub leaders_died: u64,
    /// How many requests a leader had executed that died with it.
    pub lost_with_leader: u64,
    /// How often a gateway died.
    pub gateways_died: u64,
    /// The virtual time from the first request to the last answer, in ns.
    pub time_ns: u64,
    /// The delay from a stamp to its release that the last leader chose, in ns.
    pub order_delay_ns: u64,
    /// How requests came to the sequencers.
    pub sequencer: SequencerStats,
    /// Requests that were overtaken, by when a gateway first had them.
    pub inbound: InboundUnfairness,
    /// Requests that were overtaken, by their stamps in the log.
    pub inbound_by_stamp: InboundUnfairness,
    /// Requests that were overtaken of those that came over the first gateway, by their stamps in the log.
    pub inbound_by_stamp_of_first: InboundUnfairness,
    /// How market data was shown.
    pub outbound: OutboundUnfairness,
    /// The times from a request to its answer.
    pub latency: Histogram,
}

#[cfg(test)]
mod tests;
