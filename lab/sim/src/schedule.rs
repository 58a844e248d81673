//! How much happens in a seed and what goes wrong: what the command line says of it.

use crate::capacity::{Cores, Rig};
use crate::meter::WARM_UP_NS;
use crate::mix::Mix;
use crate::nemesis::{FAULTS, Fault};
use crate::options::SimOptions;
use crate::plan::Plan;
use crate::steady::{Offers, Steady};
use fastrand::Rng;
use quorate_core::{Durability, MILLIS};
use std::ops::Range;

/// The same for all seeds of a run.
pub(crate) struct Schedule {
    pub(crate) mix: Mix,
    /// Operations to be done before the faults end.
    pub(crate) ops: u64,
    /// The least time under faults, ns.
    pub(crate) hurt_ns: u64,
    /// How many clients there are, if not as many as the seed draws.
    clients: Option<usize>,
    /// Whether they think.
    restless: bool,
    /// Kinds of faults that do not strike.
    without: Vec<Fault>,
    /// A run without faults, in the place of all that.
    pub(crate) steady: Option<Steady>,
}

impl Schedule {
    /// # Errors
    /// Says which name is unknown, and which are known.
    pub(crate) fn new(options: &SimOptions) -> Result<Schedule, String> {
        let without = options.without.iter().map(|name| fault(name));
        Ok(Schedule {
            mix: Mix::parse(&options.profile)?,
            ops: options.ops,
            hurt_ns: options.hurt_ms * MILLIS,
            clients: options.clients.map(usize::from),
            restless: options.restless,
            without: without.collect::<Result<_, _>>()?,
            steady: None,
        })
    }

    /// A run without faults.
    pub(crate) fn steady(steady: Steady) -> Schedule {
        let lasts_ns = steady
            .offers
            .map_or(0, |offers| WARM_UP_NS + offers.lasts_ns);
        Schedule {
            mix: Mix::Chosen(Vec::new()),
            ops: steady.requests,
            hurt_ns: lasts_ns,
            clients: None,
            restless: false,
            without: Vec::new(),
            steady: Some(steady),
        }
    }

    /// The machines of so many replicas, where their capacity counts.
    pub(crate) fn rig<C>(&self, replicas: usize) -> Option<Rig<C>> {
        let plan = self.steady.as_ref().and_then(|steady| steady.rig)?;
        Some(Rig::new(replicas, plan))
    }

    /// The writes of the plain store that are measured.
    pub(crate) fn offers(&self) -> Option<Offers> {
        self.steady.and_then(|steady| steady.offers)
    }

    /// The cores of so many replicas and of all gateways, where they count.
    pub(crate) fn cores(&self, replicas: usize) -> Option<Cores> {
        let offers = self.offers()?;
        let plan = offers.cores?;
        Some(Cores::new(replicas, offers.gateways, plan))
    }

    /// Those of so many replicas that take requests.
    pub(crate) fn gateways(&self, replicas: usize) -> Range<usize> {
        let gateways = self.steady.and_then(|steady| steady.gateways);
        gateways.map_or(0..replicas, |(first, count)| first..first + count)
    }

    /// Draws the plan of a seed.
    pub(crate) fn plan(&self, rng: &mut Rng, seed: u64, durability: Durability) -> Plan {
        let classic = Plan::draw(&mut rng.fork(), self.ops, durability);
        if let Some(steady) = &self.steady {
            return steady.plan(&classic);
        }
        let mut plan = self.mix.plan(seed, classic, durability);
        plan.every_ns
            .retain(|fault, _| !self.without.contains(fault));
        if let Some(clients) = self.clients {
            plan.load.crowd(clients);
        }
        if self.restless {
            (plan.load.think_ns, plan.load.storm_every_ns) = (0, None);
        }
        plan
    }
}

fn fault(name: &str) -> Result<Fault, String> {
    let found = FAULTS.iter().find(|(_, known)| *known == name);
    found.map(|(fault, _)| *fault).ok_or_else(|| {
        let known: Vec<_> = FAULTS.iter().map(|(_, name)| *name).collect();
        format!("unknown fault {name}: known are {}", known.join(", "))
    })
}
