//! A cluster whose messages and disks move only as told. It watches what replicas deliver, and fails on the first
//! thing that contradicts what came before.

use crate::fast_paxos::{Config, FastPaxos, Message, Record, Replica, Timer};
use crate::registry::Protocol;
use quorate_core::{Introspect, Outcome, RequestId, Seat};
use quorate_testkit::{Cluster, Disagreement, Node, Packet, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;
pub(super) const D: usize = 3;
pub(super) const E: usize = 4;

/// What is watched, and what is broken.
#[derive(Default)]
pub(super) struct Watched {
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// How many messages of each kind were sent.
    pub(super) sent: BTreeMap<&'static str, usize>,
}

impl Watch<Replica> for Watched {
    const LOGS_TEAR: bool = true;

    fn on_packet(cluster: &mut Cluster<Replica, Self>, packet: Packet<Replica>) {
        if let Some(message) = packet.message() {
            let sent = &mut cluster.watch.sent;
            *sent.entry(kind_of(message)).or_default() += 1;
        }
        cluster.wire.push_back(packet);
    }

    fn on_record(cluster: &mut Cluster<Replica, Self>, _: usize, record: &Record) -> bool {
        !cluster.watch.forget.is_some_and(|forget| forget(record))
    }

    fn on_disagreement(_: &mut Cluster<Replica, Self>, me: usize, what: Disagreement) {
        match what {
            Disagreement::Slot { .. } => panic!("a slot has one value (F1), {me}: {what:?}"),
            Disagreement::Twice(..) => panic!("an entry takes effect once (F5), {me}: {what:?}"),
        }
    }
}

pub(super) fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Propose(_) => "propose",
        Message::FastVote(_) => "fast vote",
        Message::Accept(_) => "accept",
        Message::Accepted(..) => "accepted",
        Message::Commit(_) => "commit",
        Message::Prepare(..) => "prepare",
        Message::Promise(_) => "promise",
        Message::Nack(_) => "nack",
        Message::Ask(_) => "ask",
        Message::ReadQ(_) | Message::ReadA(..) => "read",
    }
}

/// A cluster of replicas of Fast Paxos.
pub(super) struct Net(Cluster<Replica, Watched>);

impl Deref for Net {
    type Target = Cluster<Replica, Watched>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

pub(super) fn seat(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    quorate_testkit::seat(FastPaxos::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::edited(n, params, |_| {})
    }

    /// A cluster whose configurations are changed by a mutant.
    pub(super) fn edited(n: usize, params: &[(&str, &str)], edit: impl Fn(&mut Config)) -> Net {
        let config = |me| {
            let mut config = FastPaxos::config(&seat(n, me, params)).unwrap();
            edit(&mut config);
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        Net(Cluster::new(n, Watched::default(), move |me, boot| {
            let mut config = configs[me].clone();
            config.seating.boot = boot;
            config
        }))
    }

    /// This cluster once the first member leads, and everybody has delivered a first write of its clients.
    pub(super) fn begun(mut self) -> Net {
        let request = self.write(A);
        self.fire(A, Timer::Election);
        self.settle(&[request]);
        assert!(self.leads(A));
        self.quiet();
        self.watch.sent.clear();
        self
    }

    /// What was armed comes due until nobody waits.
    pub(super) fn quiet(&mut self) {
        for _ in 0..20 {
            for me in 0..self.nodes.len() {
                let timers: Vec<Timer> = self.nodes[me].timers.keys().copied().collect();
                for timer in timers {
                    self.0.fire(me, timer);
                }
                self.run();
            }
        }
    }

    pub(super) fn leads(&self, me: usize) -> bool {
        self.machine(me).leads() == Some(true)
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(self.0.fire(me, timer), "{timer:?} is armed at {me}");
    }

    /// A replica that waits hears no leader for long, and asks for promises.
    pub(super) fn stand(&mut self, me: usize) {
        for _ in 0..2 {
            if self.nodes[me].timers.contains_key(&Timer::Election) {
                self.fire(me, Timer::Election);
            }
        }
    }

    /// Loses everything that is on its way.
    pub(super) fn lose_all(&mut self) {
        self.wire.clear();
    }

    /// Loses everything that is on its way, but for what is of a kind.
    pub(super) fn lose_but(&mut self, kind: &str) {
        let kept = self.hold_all(kind);
        self.wire = kept.into();
    }

    /// Takes what is on its way and of a kind off the wire, by sender and receiver, to be delivered later.
    pub(super) fn hold(&mut self, kind: &str, from: usize, to: usize) -> Vec<Packet<Replica>> {
        self.take_packets(|packet| {
            let is_of_kind = packet
                .message()
                .is_some_and(|message| kind_of(message) == kind);
            is_of_kind && (packet.from, packet.to) == (from, to)
        })
    }

    /// Takes what is on its way and of a kind off the wire.
    pub(super) fn hold_all(&mut self, kind: &str) -> Vec<Packet<Replica>> {
        let is_of_kind = |message: &Message| kind_of(message) == kind;
        self.take_packets(|packet| packet.message().is_some_and(is_of_kind))
    }

    /// Delivers what is on its way and of a kind, by sender and receiver, and nothing that it causes.
    pub(super) fn pass_kind(&mut self, kind: &str, from: usize, to: usize) {
        let held = self.hold(kind, from, to);
        assert!(
            !held.is_empty(),
            "a {kind} is on its way from {from} to {to}"
        );
        self.release(held);
    }

    /// Delivers what was held.
    pub(super) fn release(&mut self, held: Vec<Packet<Replica>>) {
        held.into_iter().for_each(|packet| self.receive(packet));
    }

    /// The process comes back with its disk, which gets done again.
    pub(super) fn restart(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        Cluster::restart(self, me);
    }

    /// How often a request is in the decided log of a replica.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        self.nodes[me].outcome(request).cloned()
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }

    /// All links work again; whoever waits repeats itself, until everybody has delivered the same and the requests
    /// are there, once each.
    pub(super) fn settle(&mut self, requests: &[RequestId]) {
        self.cut.clear();
        self.run();
        for _ in 0..60 {
            if self.is_settled(requests) {
                return;
            }
            for me in 0..self.nodes.len() {
                let timers = self.nodes[me].timers.keys().copied();
                let timers: Vec<Timer> = timers.filter(|timer| *timer != Timer::Patience).collect();
                for timer in timers {
                    // What a timer causes may disarm another.
                    self.0.fire(me, timer);
                }
                self.run();
            }
        }
        let states = self.nodes.iter().flat_map(|node| node.machine.as_ref());
        let states: Vec<String> = states.map(Introspect::explain).collect();
        panic!("they do not come to rest: {states:#?}");
    }

    fn is_settled(&self, requests: &[RequestId]) -> bool {
        let up = || self.nodes.iter().filter(|node| node.machine.is_some());
        let longest = up().map(|node| node.log.len()).max();
        let has_all =
            |node: &Node<Replica>| requests.iter().all(|request| node.times(*request) == 1);
        up().all(|node| Some(node.log.len()) == longest && has_all(node))
    }
}
