//! A cluster with a network and disks that misbehave as told. It watches what the replicas say and
//! decide, and reports the first thing that contradicts what was said or decided before.

use crate::rabia::{Config, DecidedSet, Message, Rabia, Record, Replica, Trail};
use crate::registry::Protocol;
use crate::shared::question::QuestionName;
use bytes::Bytes;
use quorate_core::{
    Boot, Class, ClientId, Command, Due, EntryId, Event, MICROS, Output, Past, Peers, Principal,
    RequestId, Seat, Slot,
};
use quorate_testkit::{Body, Disagreement, Packet, Watch};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

pub(super) use quorate_testkit::id;

pub(super) fn query(boot: u64, number: u64) -> QuestionName {
    let boot = Boot(boot);
    QuestionName { boot, number }
}

pub(super) const DELAY_NS: u64 = 100 * MICROS;

/// A small generator (xorshift64*).
#[derive(Clone)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// How the world treats packets and disks.
#[derive(Clone, Default)]
pub(super) struct Weather {
    pub(super) delay_ns: (u64, u64),
    pub(super) flush_ns: (u64, u64),
    pub(super) loss_percent: u64,
    pub(super) dup_percent: u64,
}

/// What happens to packets and disks, and what is watched.
pub(super) struct World {
    pub(super) weather: Weather,
    /// Links that lose everything that is sent.
    pub(super) blocked: BTreeSet<(usize, usize)>,
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// Takes lost promises for none.
    pub(super) amnesia: bool,
    pub(super) dice: Dice,
    /// The first thing that contradicts what was said or decided before.
    pub(super) violation: Option<String>,
    /// How many packets of each kind were sent.
    pub(super) sent: BTreeMap<&'static str, usize>,
    /// Decisions as replicas report them: who, which slot, whether fast, whether a no-op.
    pub(super) decided: Vec<(usize, Slot, bool, bool)>,
    /// By replica, when its disk has written what it was given.
    flush_due_ns: Vec<Option<u64>>,
    said: BTreeMap<(usize, Slot), (Option<EntryId>, Trail)>,
}

type Inner = quorate_testkit::Cluster<Replica, World>;

impl World {
    /// A number from a range, both ends included.
    fn draw(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.dice.below(high - low + 1)
    }
}

fn violate(cluster: &mut Inner, what: String) {
    cluster.watch.violation.get_or_insert(what);
    cluster.is_checked = false;
}

impl Watch<Replica> for World {
    const LOGS_TRAVEL: bool = true;
    const LOGS_TEAR: bool = true;

    fn wait_ns(&mut self, due: &Due) -> u64 {
        match due {
            Due::After(wait) => *wait,
            Due::Within(range) => self.draw((*range.start(), *range.end())),
        }
    }

    fn on_output(cluster: &mut Inner, me: usize, output: &mut Output<Replica>) -> bool {
        if let Output::CatchUp { through, .. } = output {
            assert!(*through >= cluster.nodes[me].next(), "it lacks something");
        }
        true
    }

    fn on_written(cluster: &mut Inner, me: usize) {
        let flush_ns = cluster.watch.weather.flush_ns;
        if flush_ns.1 == 0 {
            cluster.flush(me);
        } else if cluster.watch.flush_due_ns[me].is_none() {
            let wait = cluster.watch.draw(flush_ns);
            cluster.watch.flush_due_ns[me] = Some(cluster.now_ns + wait);
        }
    }

    fn on_record(cluster: &mut Inner, _: usize, record: &Record) -> bool {
        !cluster.watch.forget.is_some_and(|forget| forget(record))
    }

    fn on_send(cluster: &mut Inner, from: usize, _: Peers, message: &Message) {
        let mode = cluster.nodes[from].config.mode;
        let spelled_out = match message {
            Message::Slot(said) => vec![*said],
            Message::Nulls(nulls) => nulls.spelled_out(mode).collect(),
            _ => Vec::new(),
        };
        for said in &spelled_out {
            let (key, now) = ((from, said.slot), (said.prop, said.trail));
            let (prop, trail) = *cluster.watch.said.entry(key).or_insert(now);
            let extends = trail.is_prefix_of(&said.trail) || said.trail.is_prefix_of(&trail);
            if prop != said.prop || !extends {
                let what = format!("{from} said {prop:?} {trail:?}, now {said:?} (I1)");
                violate(cluster, what);
            } else if said.trail.len() > trail.len() {
                cluster.watch.said.insert(key, now);
            }
        }
    }

    fn on_packet(cluster: &mut Inner, packet: Packet<Replica>) {
        let world = &mut cluster.watch;
        *world.sent.entry(kind_of(&packet.body)).or_default() += 1;
        let is_blocked = world.blocked.contains(&(packet.from, packet.to));
        let copies = if is_blocked || world.dice.percent(world.weather.loss_percent) {
            0
        } else {
            1 + u64::from(world.dice.percent(world.weather.dup_percent))
        };
        for _ in 0..copies {
            let delay_ns = cluster.watch.draw(cluster.watch.weather.delay_ns);
            let due_ns = cluster.now_ns + delay_ns;
            let packet = packet.clone();
            cluster.wire.push_back(Packet { due_ns, ..packet });
        }
    }

    fn on_disagreement(cluster: &mut Inner, me: usize, what: Disagreement) {
        match what {
            Disagreement::Slot { slot, first, now } => violate(
                cluster,
                format!("{slot:?}: {me} delivers {now:?}, another {first:?} (I5)"),
            ),
            Disagreement::Twice(..) => panic!("every batch once (I7): {what:?}"),
        }
    }

    fn on_gather(_: &mut Inner, me: usize, entry: quorate_core::Entry) {
        panic!("{me} orders everything whole, {entry:?} too");
    }

    fn on_forget(_: &mut Inner, me: usize, entry: EntryId) {
        panic!("{me} orders all that is offered, {entry:?} too");
    }

    fn on_event(cluster: &mut Inner, me: usize, event: Event) {
        match event {
            Event::Decided {
                slot, fast, noop, ..
            } => cluster.watch.decided.push((me, slot, fast, noop)),
            Event::Branch(name) => *cluster.branches.entry(name).or_default() += 1,
            Event::Misbehaved { peer, what } => {
                violate(cluster, format!("{me} says {peer:?} misbehaved: {what}"));
            }
        }
    }
}

fn kind_of(body: &Body<Replica>) -> &'static str {
    match body {
        Body::Message(Message::Batch { .. }) => "batch",
        Body::Message(Message::Need { .. }) => "need",
        Body::Message(Message::Have { .. }) => "have",
        Body::Message(Message::Slot(_)) => "slot",
        Body::Message(Message::Nulls(_)) => "nulls",
        Body::Message(Message::Decided { .. }) => "decided",
        Body::Message(Message::ReadQ(_) | Message::ReadA { .. }) => "read",
        Body::Message(
            Message::Recover { .. } | Message::RecoverA { .. } | Message::Nudge { .. },
        ) => "rejoin",
        Body::Fetch(_) => "fetch",
        Body::Log(..) => "log",
    }
}

/// A cluster of Rabia's replicas.
pub(super) struct Cluster(Inner);

impl Deref for Cluster {
    type Target = Inner;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Cluster {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(super) fn seat(n: usize, me: usize, boot: u64, params: &[(&str, &str)]) -> Seat {
    quorate_testkit::seat(Rabia::NAME, n, me, boot, params)
}

pub(super) fn config(n: usize, me: usize, params: &[(&str, &str)]) -> Config {
    Rabia::config(&seat(n, me, me as u64 + 1, params)).unwrap()
}

pub(super) fn command(seq: u64, class: Class) -> Command {
    Command {
        id: RequestId {
            client: ClientId(1),
            seq,
        },
        acked: 0,
        class,
        principal: Principal(0),
        body: Bytes::from_static(b"set x"),
        payloads: Vec::new(),
    }
}

impl Cluster {
    /// A healthy cluster in lock step: every message takes `DELAY_NS`, disks are instantaneous.
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Cluster {
        Cluster::with(n, params, 1, |_| {})
    }

    pub(super) fn with(
        n: usize,
        params: &[(&str, &str)],
        seed: u64,
        sabotage: impl Fn(&mut Config),
    ) -> Cluster {
        let world = World {
            weather: Weather {
                delay_ns: (DELAY_NS, DELAY_NS),
                ..Weather::default()
            },
            blocked: BTreeSet::new(),
            forget: None,
            amnesia: false,
            dice: Dice::new(seed),
            violation: None,
            sent: BTreeMap::new(),
            decided: Vec::new(),
            flush_due_ns: vec![None; n],
            said: BTreeMap::new(),
        };
        let configs = (0..n).map(|me| {
            let mut config = config(n, me, params);
            config.seed = seed;
            sabotage(&mut config);
            config
        });
        let configs: Vec<Config> = configs.collect();
        Cluster(Inner::new(n, world, move |me, boot| Config {
            boot,
            ..configs[me].clone()
        }))
    }

    pub(super) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].machine.is_some()
    }

    /// Submits one command and returns its id.
    pub(super) fn submit(&mut self, me: usize, class: Class) -> RequestId {
        let body = Bytes::from_static(b"set x");
        self.0.submit(me, class, body, Vec::new())
    }

    /// Everything persisted so far is durable now; what waited for it leaves.
    pub(super) fn flush(&mut self, me: usize) {
        self.watch.flush_due_ns[me] = None;
        self.0.flush(me);
    }

    /// When the next thing happens by itself.
    fn next_due_ns(&self) -> Option<u64> {
        let packets = self.wire.iter().map(|packet| packet.due_ns);
        let timers = self.next_timer().map(|(due_ns, ..)| due_ns);
        let flushes = self.watch.flush_due_ns.iter().copied().flatten();
        packets.chain(timers).chain(flushes).min()
    }

    /// Does the next thing if it is due by then. Packets first, then disks, then timers.
    fn advance(&mut self, until_ns: u64) -> bool {
        let Some(due_ns) = self.next_due_ns().filter(|due| *due <= until_ns) else {
            return false;
        };
        self.now_ns = self.now_ns.max(due_ns);
        let mut packets = self.wire.iter();
        if let Some(first) = packets.position(|packet| packet.due_ns == due_ns) {
            let packet = self.wire.remove(first).expect("it is on its way");
            self.receive(packet);
            return true;
        }
        let mut flushes = self.watch.flush_due_ns.iter();
        if let Some(node) = flushes.position(|due| *due == Some(due_ns)) {
            self.flush(node);
            return true;
        }
        let (_, me, timer) = self.next_timer().expect("nothing else is due");
        self.fire(me, timer)
    }

    pub(super) fn run_for(&mut self, ns: u64) {
        let until_ns = self.now_ns + ns;
        while self.watch.violation.is_none() && self.advance(until_ns) {}
        self.now_ns = until_ns;
    }

    /// Runs until nothing is in flight, on its way to disk, or armed. False if that takes more
    /// than `ns`.
    pub(super) fn run_until_silent(&mut self, ns: u64) -> bool {
        let until_ns = self.now_ns + ns;
        while self.watch.violation.is_none() && self.advance(until_ns) {}
        self.next_due_ns().is_none()
    }

    /// The process dies; what was not flushed is gone.
    pub(super) fn crash(&mut self, me: usize) {
        self.watch.flush_due_ns[me] = None;
        self.0.crash(me);
    }

    /// The process comes back with its disk.
    pub(super) fn restart(&mut self, me: usize) {
        match self.nodes[me].is_blank {
            true => self.restart_lost(me),
            false => self.0.restart(me),
        }
    }

    /// The process comes back with nothing; with amnesia, it does not know that.
    pub(super) fn restart_lost(&mut self, me: usize) {
        if !self.watch.amnesia {
            return self.lose_disk(me);
        }
        let node = &mut self.nodes[me];
        node.disk.clear();
        node.log.clear();
        (node.log_flushed, node.is_blank) = (0, true);
        node.base = DecidedSet::default();
        let past = Past::Intact {
            next: Slot(0),
            base: DecidedSet::default(),
            records: Vec::new(),
        };
        self.start(me, past);
    }

    /// Whether a replica is up and beyond what it may have lost.
    pub(super) fn is_serving(&self, me: usize) -> bool {
        self.nodes[me].is_serving()
    }

    /// Ids in the log of a replica, NULLs left out.
    pub(super) fn entries(&self, me: usize) -> Vec<EntryId> {
        self.nodes[me].names().into_iter().flatten().collect()
    }

    /// The slot a request was delivered in at a replica.
    pub(super) fn slot_of(&self, me: usize, request: RequestId) -> Option<Slot> {
        self.nodes[me].slots_of(request).next()
    }

    pub(super) fn has_everywhere(&self, request: RequestId) -> bool {
        (0..self.nodes.len()).all(|me| self.slot_of(me, request).is_some())
    }

    /// The first slot behind every request that some replica has delivered.
    pub(super) fn first_without_effect(&self) -> Slot {
        let last = self
            .nodes
            .iter()
            .filter_map(|node| node.log.iter().rposition(Option::is_some));
        Slot(last.max().map_or(0, |slot| slot as u64 + 1))
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }

    #[track_caller]
    pub(super) fn assert_sound(&self) {
        assert_eq!(self.watch.violation, None);
    }
}
