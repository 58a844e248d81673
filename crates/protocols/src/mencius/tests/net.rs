//! A cluster whose messages and disks move only as told. It watches what replicas deliver, and fails on the first
//! thing that contradicts what came before.

use crate::mencius::{Config, Mencius, Message, Record, Replica, Timer};
use crate::registry::Protocol;
use quorate_core::{Outcome, RequestId, Seat};
use quorate_testkit::{Cluster, Disagreement, Packet, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

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
            Disagreement::Slot { .. } => panic!("a slot has one value (M3), {me}: {what:?}"),
            Disagreement::Twice(..) => panic!("an entry takes effect once (M7), {me}: {what:?}"),
        }
    }
}

pub(super) fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Suggest { .. } => "suggest",
        Message::Noops { .. } => "no-ops",
        Message::Accept { .. } => "accept",
        Message::Skip { .. } => "skip",
        Message::Learn { .. } => "learn",
        Message::Decided { .. } => "decided",
        Message::Prepare { .. } => "prepare",
        Message::Promise { .. } => "promise",
        Message::Nack { .. } => "nack",
        Message::Ask { .. } => "ask",
        Message::ReadQ { .. } | Message::ReadA { .. } => "read",
    }
}

/// A cluster of replicas of Mencius.
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
    quorate_testkit::seat(Mencius::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::edited(n, params, |_| {})
    }

    /// A cluster whose configurations are changed by a mutant.
    pub(super) fn edited(n: usize, params: &[(&str, &str)], edit: impl Fn(&mut Config)) -> Net {
        let config = |me| {
            let mut config = Mencius::config(&seat(n, me, params)).unwrap();
            edit(&mut config);
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        let watched = Watched::default();
        Net(Cluster::new(n, watched, move |me, boot| {
            let mut config = configs[me].clone();
            config.seating.boot = boot;
            config
        }))
    }

    /// This cluster once every member has written something, and all know of it.
    pub(super) fn begun(mut self) -> Net {
        let n = self.nodes.len();
        for me in 0..n {
            let request = self.write(me);
            self.run();
            assert_eq!(self.times(me, request), 1);
        }
        self.watch.sent.clear();
        self
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(self.0.fire(me, timer), "{timer:?} is armed at {me}");
    }

    /// A replica suspects whom it waits for, whatever it has heard lately.
    pub(super) fn suspect(&mut self, me: usize) {
        self.fire(me, Timer::Suspect);
    }

    /// A replica suspects whom it waits for, and has heard nothing since it began to wait.
    pub(super) fn suspect_twice(&mut self, me: usize) {
        (0..2).for_each(|_| self.suspect(me));
    }

    /// Loses what is on its way and meets a condition, by sender and receiver.
    pub(super) fn lose(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.wire.retain(|packet| {
            let message = packet.message();
            !message.is_some_and(|message| is_lost(packet.from, packet.to, message))
        });
    }

    /// Loses everything that is on its way.
    pub(super) fn lose_all(&mut self) {
        self.wire.clear();
    }

    /// Takes what is on its way on a link off the wire, to be delivered later.
    pub(super) fn hold(&mut self, from: usize, to: usize) -> Vec<Packet<Replica>> {
        self.take_packets(|packet| (packet.from, packet.to) == (from, to))
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
        let states: Vec<String> = states.map(quorate_core::Introspect::explain).collect();
        panic!("they do not come to rest: {states:#?}");
    }

    fn is_settled(&self, requests: &[RequestId]) -> bool {
        let up = || self.nodes.iter().filter(|node| node.machine.is_some());
        // No-ops behind the last entry are nobody's business.
        let end = |node: &quorate_testkit::Node<Replica>| {
            node.log
                .iter()
                .rposition(Option::is_some)
                .map_or(0, |last| last + 1)
        };
        let longest = up().map(end).max();
        let has_all = |node: &quorate_testkit::Node<Replica>| {
            requests.iter().all(|request| node.times(*request) == 1)
        };
        up().all(|node| Some(end(node)) == longest && has_all(node))
    }
}
