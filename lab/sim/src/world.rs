//! One seed: a whole cluster in virtual time, hurt first, then healed, and judged throughout.

use crate::agreement::Agreement;
use crate::capacity::{self, Cores, RigOf};
use crate::clients::Clients;
use crate::disk::Disk;
use crate::gateways::RemoteGateway;
use crate::inspect_disk::InspectionCache;
use crate::judge::Journal;
use crate::known_protocols::KnownProtocols;
use crate::leases::Leases;
use crate::meter::Meter;
use crate::mix::generator;
use crate::nemesis::{Fault, Forgotten, Nemesis, Sequel};
use crate::network::Network;
use crate::node::{Clock, Inbound, Node};
use crate::phases::Phase;
use crate::plan::{ClockPlan, Plan};
use crate::queue::Queue;
use crate::report::{Report, Totals, Violation};
use crate::rights::Rights;
use crate::schedule::Schedule;
use crate::servers::Servers;
use crate::simulator::Watch;
use crate::subject::Subject;
use crate::trace::Trace;
use crate::values::Values;
use crate::variations::vary;
use crate::watches::Watcher;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    ClusterId, Durability, Epoch, Incarnation, MILLIS, Machine, Member, ReplicaId, Seat, Slot,
};
use quorate_host::{Answer, Flaw, LogRead, Request, SnapshotRead, Token};
use std::collections::BTreeMap;

/// How often it is checked whether a phase is over.
pub(crate) const TICK_NS: u64 = 2 * MILLIS;

/// Gives the protocol's configuration of a seat.
pub(crate) type Configure<'a, M> = &'a dyn Fn(&Seat) -> Result<<M as Machine>::Config, String>;

/// What a seed is run with.
pub(crate) struct Setup<'a, M: Machine> {
    pub(crate) seed: u64,
    pub(crate) protocol: &'static str,
    /// The protocols that programs have.
    pub(crate) known: &'a KnownProtocols,
    pub(crate) replicas: usize,
    pub(crate) durability: Durability,
    pub(crate) params: &'a BTreeMap<String, String>,
    /// How much happens, and what goes wrong.
    pub(crate) schedule: &'a Schedule,
    /// The rare branches that protocols know.
    pub(crate) branches: &'a [&'static str],
    /// Crashes a cluster survives that loses its promises with each.
    pub(crate) failures_survived: usize,
    /// Whether answers ahead of the decision name slots.
    pub(crate) answers_name_slots: bool,
    /// A deliberate fault of the hosts.
    pub(crate) flaw: Option<Flaw>,
    /// One of the application.
    pub(crate) store_flaw: Option<quorate_etcd_store::Flaw>,
    /// A rule that drivers of servers break.
    pub(crate) effects_mutant: Option<quorate_redis_effects::Mutant>,
    pub(crate) configure: Configure<'a, M>,
    /// A message of the protocol in words.
    pub(crate) words: fn(&M::Message) -> String,
    pub(crate) watch: Watch,
}

/// Something that happens at a time. Kept small, for the queue moves events about.
pub(crate) enum Event<Q, R> {
    Frame {
        from: usize,
        to: usize,
        connection: u32,
        bytes: Bytes,
    },
    Turn {
        node: usize,
        at_ns: u64,
    },
    Wake {
        node: usize,
        at_ns: u64,
    },
    Flushed {
        node: usize,
        life: u32,
    },
    /// A step in writing long fragments is on stable storage.
    FragmentsStored {
        node: usize,
        life: u32,
    },
    /// Fragments of the first of the waiting payloads are made.
    Coded {
        node: usize,
        life: u32,
    },
    ReadDone {
        node: usize,
        life: u32,
        read: LogRead,
    },
    /// The first of the waiting writes to snapshot files is done.
    SnapshotWrite {
        node: usize,
        life: u32,
    },
    SnapshotRead {
        node: usize,
        life: u32,
        read: SnapshotRead,
    },
    /// A replica or gateway hears of a connection to another one.
    Link {
        node: usize,
        peer: usize,
        up: bool,
        /// When the connection came up or went down.
        of_ns: u64,
    },
    Request {
        node: usize,
        token: Token,
        request: Box<Request<Q>>,
    },
    Answer {
        token: Token,
        answer: Box<Answer<R>>,
    },
    Timeout {
        token: Token,
    },
    Retry {
        task: usize,
    },
    Client {
        client: usize,
    },
    Tenant {
        tenant: usize,
    },
    Compact,
    Fault(Fault),
    Sequel(Sequel),
    Crash {
        node: usize,
        life: u32,
    },
    Restart {
        node: usize,
    },
    Mend {
        links: Vec<(usize, usize)>,
    },
    Tick,
    /// Servers beside replicas, their drivers and clients go on.
    Servers,
    /// To links that carry only so much, where capacity is measured.
    Wire(capacity::Tick),
}

/// The cluster, its clients and its judges.
pub(crate) struct World<'a, M: Machine, A: Subject> {
    pub(crate) setup: Setup<'a, M>,
    pub(crate) plan: Plan,
    pub(crate) queue: Queue<Event<A::Query, A::Answer>>,
    pub(crate) rng: Rng,
    pub(crate) nodes: Vec<Node<M, A>>,
    /// Remote gateways; on the network they are behind the replicas.
    pub(crate) gateways: Vec<RemoteGateway>,
    pub(crate) network: Network,
    pub(crate) clients: Clients<A>,
    pub(crate) leases: Leases,
    pub(crate) rights: Rights,
    pub(crate) journal: Journal,
    pub(crate) watchers: Vec<Watcher>,
    pub(crate) nemesis: Nemesis,
    /// A replica that runs on a copy of its folder which was put back at once.
    pub(crate) forgotten: Option<Forgotten>,
    pub(crate) agreement: Agreement,
    /// The last epoch that has been counted as a change that came about.
    pub(crate) counted: u64,
    pub(crate) trace: Trace,
    pub(crate) meter: Option<Meter>,
    /// The machines, where their capacity counts.
    pub(crate) rig: Option<RigOf<A>>,
    /// The cores of replicas and gateways, where nothing else of a machine counts.
    pub(crate) cores: Option<Cores>,
    pub(crate) phase: Phase,
    /// How many operations had ended when it was looked last, and since when.
    pub(crate) progress: (u64, u64),
    pub(crate) totals: Totals,
    pub(crate) epoch: Epoch,
    /// The newest epoch that any replica ever reached, those that are down included.
    pub(crate) reached: Epoch,
    /// Epochs that a member was asked for, and that may follow the newest.
    pub(crate) asked_for: Vec<Epoch>,
    pub(crate) cluster: ClusterId,
    pub(crate) values: Values,
    pub(crate) inspections: InspectionCache<M, A>,
    /// Redis servers beside the replicas.
    pub(crate) servers: Option<Servers>,
}

impl<'a, M: Machine, A: Subject> World<'a, M, A> {
    /// Prepares a seed; nothing runs yet.
    pub(crate) fn new(setup: Setup<'a, M>) -> Self {
        let mut rng = Rng::with_seed(xxhash_rust::xxh3::xxh3_64(&setup.seed.to_le_bytes()));
        let mut plan = setup.schedule.plan(&mut rng, setup.seed, setup.durability);
        plan.limits.flaw = setup.flaw;
        A::limit(&mut plan.load);
        let rig = setup.schedule.rig(setup.replicas);
        if rig.is_none() {
            plan.draw_long(&mut generator(setup.seed, "long"));
            plan.holds_back = generator(setup.seed, "hold back").bool();
        }
        let n = setup.replicas;
        let mut nodes: Vec<Node<M, A>> = (0..n)
            .map(|_| {
                let disk = Disk::new(plan.disk.recycle);
                let clock = draw_clock(&mut rng, &plan.clocks);
                Node::new(disk, clock, Incarnation(rng.u128(..)))
            })
            .collect();
        if let Some(wrong) = setup.schedule.steady.and_then(|steady| steady.wrong) {
            let clock = &mut nodes[wrong.replica].clock;
            (clock.offset_ns, clock.drift_ppm) = (wrong.offset_ns, wrong.drift_ppm);
        }
        let epoch = draw_epoch(&setup, &nodes, &mut rng, plan.draws_settings);
        let gateways = RemoteGateway::draw(plan.gateways, &plan.clocks, setup.seed);
        let mut network = Network::new(n + gateways.len());
        if let Some(places) = setup.schedule.steady.and_then(|steady| steady.places) {
            let endpoints = n + gateways.len();
            for (from, to) in (0..endpoints).flat_map(|a| (0..endpoints).map(move |b| (a, b))) {
                network.set_way(from, to, places.ways_ns[from][to]);
            }
        }
        let journal = Journal::default();
        let mut rights = Rights::new(plan.load.users, setup.seed);
        let mut watcher = |_| Watcher::draw(&mut rng, n, plan.load.keys, &journal).by(&mut rights);
        let watchers = (0..plan.load.watchers).map(&mut watcher).collect();
        World {
            leases: Leases::new(plan.load.tenants, plan.clocks.fast_ppm()),
            rights,
            journal,
            watchers,
            clients: Clients::new(&plan.load, setup.seed, &mut rng),
            cluster: ClusterId(rng.u128(..)),
            network,
            gateways,
            nemesis: Nemesis::new(setup.seed),
            forgotten: None,
            agreement: Agreement::new(setup.answers_name_slots),
            counted: 1,
            trace: Trace::new(setup.watch.lines.clone()),
            meter: setup.schedule.steady.is_some().then(Meter::default),
            rig,
            cores: setup.schedule.cores(n),
            queue: Queue::new(),
            phase: Phase::Faults,
            progress: (0, 0),
            totals: Totals::default(),
            values: Values::default(),
            inspections: InspectionCache::default(),
            servers: A::HAS_SERVERS.then(|| Servers::new(setup.seed, n, setup.effects_mutant)),
            reached: epoch.clone(),
            asked_for: Vec::new(),
            epoch,
            nodes,
            plan,
            rng,
            setup,
        }
    }

    /// Runs the seed to its end, or to the first violation.
    pub(crate) fn run(mut self) -> Report {
        let violation = self.begin().and_then(|()| self.go()).err();
        self.trace_servers();
        let frames = &self.network.counts;
        self.totals.dropped = frames.dropped();
        let named = frames.named().into_iter().filter(|(_, count)| *count > 0);
        self.totals.faults.extend(named);
        self.count_clocks();
        self.totals.simulated_ns = self.queue.now_ns();
        self.totals.ops = self.clients.completed;
        let unwritten = self.rig_unwritten();
        let mut measured = self.meter.map(Meter::finish);
        if let (Some(measured), Some(rig)) = (&mut measured, self.rig) {
            measured.reading = rig.finish(unwritten);
        }
        Report {
            seed: self.setup.seed,
            digest: self.trace.digest(),
            totals: self.totals,
            violation,
            measured,
        }
    }

    /// What clocks did wrong from the beginning.
    fn count_clocks(&mut self) {
        for node in &self.nodes {
            if node.clock.drift_ppm.abs() > 200 {
                self.totals.hit("clock drifts");
            }
            if node.clock.claimed_error_ns < node.clock.offset_ns.unsigned_abs() {
                self.totals.hit("clock claims a wrong bound");
            }
        }
    }

    fn begin(&mut self) -> Result<(), Violation> {
        let plan = format!("{:?}", self.plan);
        self.trace.event(0, "plan", &[], || plan);
        for node in 0..self.nodes.len() {
            self.open(node)?;
        }
        (0..self.gateways.len()).for_each(|gateway| self.open_gateway(gateway));
        for client in 0..self.clients.count() {
            let delay = self.rng.u64(..MILLIS);
            self.queue.after(delay, Event::Client { client });
        }
        self.schedule_chores();
        self.schedule_faults();
        self.queue.after(TICK_NS, Event::Tick);
        self.servers_go_on()
    }

    fn go(&mut self) -> Result<(), Violation> {
        let mut since_tick = self.since_now();
        while self.phase != Phase::Done {
            let Some(event) = self.queue.next() else {
                return Err(Violation::new(
                    "liveness",
                    "nothing is left to happen".into(),
                ));
            };
            if let Event::Tick = event {
                since_tick = self.since_now();
            }
            self.check_events(&mut since_tick)?;
            let happened = self.happen(event);
            self.tolerate(happened)?;
            if self.is_broken() {
                return self.see_difference_noticed();
            }
        }
        let history = self.clients.history();
        let chores = self.leases.history(self.clients.count());
        match A::judge(history, chores, &self.rights.sights, &self.journal) {
            // What was acknowledged within the window may be lost.
            Err(_) if self.forgotten.is_some() => self.totals.hit("lost within the window"),
            Err(why) => return Err(Violation::new("linearizability", why)),
            Ok(()) => self.judge_servers()?,
        }
        Ok(())
    }

    pub(crate) fn happen(&mut self, event: Event<A::Query, A::Answer>) -> Result<(), Violation> {
        match event {
            Event::Turn { node, at_ns } if node >= self.nodes.len() => {
                return self.gateway_turn(node, at_ns);
            }
            Event::Wake { node, at_ns } if node >= self.nodes.len() => {
                self.gateway_wakes(node, at_ns);
            }
            Event::Restart { node } if node >= self.nodes.len() => {
                self.open_gateway(node - self.nodes.len());
            }
            Event::Frame {
                from,
                to,
                connection,
                bytes,
            } => {
                self.frame_arrives(from, to, connection, bytes);
            }
            Event::Turn { node, at_ns } if self.nodes[node].turn_at_ns == Some(at_ns) => {
                return self.turn(node);
            }
            Event::Wake { node, at_ns } if self.nodes[node].wake_at_ns == Some(at_ns) => {
                self.nodes[node].wake_at_ns = None;
                self.turn_soon(node);
            }
            Event::Turn { .. } | Event::Wake { .. } => {}
            Event::Flushed { node, life } => self.flush_done(node, life),
            Event::FragmentsStored { node, life } => self.fragments_stored(node, life),
            Event::Coded { node, life } => self.coded(node, life),
            Event::ReadDone { node, life, read } => self.read_done(node, life, &read),
            Event::SnapshotWrite { node, life } => self.snapshot_write_done(node, life),
            Event::SnapshotRead { node, life, read } => self.snapshot_read_done(node, life, &read),
            Event::Link {
                node,
                peer,
                up,
                of_ns,
            } => self.hear_of_link((node, peer), up, of_ns),
            Event::Request {
                node,
                token,
                request,
            } => {
                self.measure_request(|meter, now_ns| meter.asked(token, now_ns));
                self.core_takes_in_request(node, &request);
                self.arrive(node, Inbound::Request { token, request });
            }
            Event::Answer { token, answer } => return self.answer_arrives(token, *answer),
            Event::Timeout { token } => self.timeout(token),
            Event::Retry { task } => self.retry(task),
            Event::Client { client } => self.client_acts(client),
            Event::Tenant { tenant } => self.tenant_acts(tenant),
            Event::Compact => self.compact(),
            Event::Fault(fault) => return self.strike(fault),
            Event::Sequel(sequel) => self.follow(sequel)?,
            Event::Crash { node, life } if self.nodes[node].life == life => self.crash(node),
            Event::Crash { .. } => {}
            Event::Restart { node } => return self.open_unless_left_out(node),
            Event::Mend { links } => {
                self.note_links("mend", &links);
                self.network.mend(&links);
            }
            Event::Tick => return self.tick(),
            Event::Servers => return self.servers_go_on(),
            Event::Wire(tick) => self.rig_happens(tick),
        }
        Ok(())
    }
}

/// The first epoch of a cluster.
fn draw_epoch<M: Machine, A: Subject>(
    setup: &Setup<'_, M>,
    nodes: &[Node<M, A>],
    rng: &mut Rng,
    draws_settings: bool,
) -> Epoch {
    let members = nodes.iter().enumerate().map(|(i, node)| Member {
        id: replica(i),
        incarnation: node.incarnation,
    });
    let mut epoch = Epoch {
        number: 1,
        first_slot: Slot(0),
        members: members.collect(),
        protocol: setup.protocol.into(),
        durability: setup.durability,
        seed: rng.u64(..),
        params: setup.params.clone(),
    };
    if draws_settings {
        vary(&mut epoch, &mut generator(setup.seed, "settings"));
    }
    epoch
}

/// The number of a replica, from its index.
pub(crate) fn replica(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

pub(crate) fn draw_clock(rng: &mut Rng, plan: &ClockPlan) -> Clock {
    let (offset_max, drift_max) = (plan.offset_max_ns as i64, plan.drift_max_ppm);
    Clock {
        offset_ns: rng.i64(-offset_max..=offset_max),
        drift_ppm: rng.i64(-drift_max..=drift_max),
        claimed_error_ns: plan.claimed_error_ns.unwrap_or(u64::MAX),
        stopped_ns: None,
        mono_ppm: if plan.is_mono_off {
            rng.i64(-drift_max..=drift_max)
        } else {
            0
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_etcd_store::{Query, QueryAnswer};

    #[test]
    fn events_are_small() {
        assert!(size_of::<Event<Query, QueryAnswer>>() <= 64);
    }
}
