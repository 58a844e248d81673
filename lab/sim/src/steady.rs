//! Runs without faults, to measure what they cost: a network as it should be, and requests that
//! come whether those before them are answered or not.

use crate::capacity::RigPlan;
use crate::core_costs::CorePlan;
use crate::plan::{Arrivals, Links, Load, Plan, Spread};
use quorate_core::{MILLIS, SECONDS};
use quorate_host::Limits;

/// The network and the load of such a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steady {
    /// The least time a message takes, ns.
    pub(crate) delay_ns: u64,
    /// The mean of what it takes beyond that, ns.
    pub(crate) jitter_ns: u64,
    /// How often a message takes up to [`SPIKE_NS_MAX`] more.
    pub(crate) spike: f64,
    /// The longest time from an input's arrival to the turn that takes it, ns.
    pub(crate) service_max_ns: u64,
    /// How far clocks are off, ns.
    pub(crate) clock_offset_ns: u64,
    pub(crate) arrivals: Arrivals,
    /// How many requests must be answered.
    pub(crate) requests: u64,
    /// Machines whose capacity counts, and clients that wait for their answers, in the place of the network
    /// and the load.
    pub(crate) rig: Option<RigPlan>,
    /// The first replica that takes requests, counted from 0, and how many do; `None`: all.
    pub(crate) gateways: Option<(usize, usize)>,
    /// A clock that is wrong in its own way.
    pub(crate) wrong: Option<WrongClock>,
    /// Whether messages are counted by what they say.
    pub(crate) counts_messages: bool,
    /// Replicas that are far from each other, and a remote gateway that may be far from all.
    pub(crate) places: Option<Places>,
    /// Writes of the plain store, in the place of requests of etcd's.
    pub(crate) offers: Option<Offers>,
}

/// Writes of the plain store, measured for some time from where they are offered.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Offers {
    pub(crate) spread: Spread,
    pub(crate) clients: usize,
    /// Whether the leader takes them, where there are no remote gateways.
    pub(crate) is_led: bool,
    /// Remote gateways, which take all writes where there are any.
    pub(crate) gateways: usize,
    /// Whether clients are as far from where they ask as replicas are from each other, or are there.
    pub(crate) are_clients_far: bool,
    /// What cores and flushes take, if that counts.
    pub(crate) cores: Option<CorePlan>,
    /// How long is measured, ns.
    pub(crate) lasts_ns: u64,
}

/// Replicas at most that have places of their own, and a gateway.
pub(crate) const PLACES_MAX: usize = 10;

/// How far the replicas are from each other, and from a remote gateway behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    /// Whether there is that gateway. It takes all requests.
    pub(crate) has_gateway: bool,
    /// One way, ns, by endpoint; the gateway is behind the replicas.
    pub(crate) ways_ns: [[u64; PLACES_MAX]; PLACES_MAX],
    /// The longest that a client waits for an answer.
    pub(crate) patience_ns: u64,
}

/// One replica's synchronised clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WrongClock {
    /// Whose, counted from 0.
    pub(crate) replica: usize,
    /// How far it is ahead at the beginning, ns.
    pub(crate) offset_ns: i64,
    /// How much too fast it runs, parts per million.
    pub(crate) drift_ppm: i64,
}

/// What a message takes longer at most, now and then.
pub(crate) const SPIKE_NS_MAX: u64 = MILLIS;

impl Default for Steady {
    /// A request now and then at any replica, links without delay, clocks that are right.
    fn default() -> Steady {
        Steady {
            delay_ns: 0,
            jitter_ns: 0,
            spike: 0.0,
            service_max_ns: 0,
            clock_offset_ns: 0,
            arrivals: Arrivals::Every(SECONDS),
            requests: 0,
            rig: None,
            gateways: None,
            wrong: None,
            counts_messages: false,
            places: None,
            offers: None,
        }
    }
}

impl Steady {
    /// The links of such a run.
    pub(crate) fn links(&self) -> Links {
        Links {
            loss: 0.0,
            duplication: 0.0,
            delay_min_ns: self.delay_ns,
            jitter_ns: self.jitter_ns,
            has_even_jitter: self.offers.is_some(),
            spike: self.spike,
            spike_max_ns: SPIKE_NS_MAX,
            ordered: self.offers.is_none(),
            bytes_per_second: None,
        }
    }

    /// The plan of every seed, from any.
    pub(crate) fn plan(&self, drawn: &Plan) -> Plan {
        let mut plan = drawn.calm();
        plan.links = self.links();
        plan.disk.blocking = false;
        plan.load = Load {
            clients: 1,
            keys: 6,
            arrivals: Some(self.arrivals),
            timeout_ns: SECONDS,
            tenants: 0,
            watchers: 0,
            compact_every_ns: None,
            ..plan.load
        };
        plan.clocks.offset_max_ns = self.clock_offset_ns;
        plan.service_max_ns = self.service_max_ns;
        plan.limits = Limits {
            check_steps: true,
            ..Limits::default()
        };
        if let Some(places) = &self.places {
            plan.gateways = usize::from(places.has_gateway);
            plan.load.timeout_ns = places.patience_ns;
        }
        if let Some(rig) = &self.rig {
            rig.settle(&mut plan);
        }
        if let Some(offers) = &self.offers {
            plan.gateways = offers.gateways;
            plan.load.clients = offers.clients;
            plan.load.spread = Some(offers.spread);
            (plan.load.think_ns, plan.load.storm_every_ns) = (0, None);
            plan.load.answer_loss = 0.0;
        }
        plan
    }
}
