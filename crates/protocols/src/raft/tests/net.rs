//! A cluster whose messages and disks move only as told. It watches who leads and what replicas deliver, and
//! fails on the first thing that contradicts what came before.

use crate::raft::{Config, Message, Raft, Record, Replica, Timer};
use crate::registry::Protocol;
use crate::shared::led::Led;
use quorate_core::{Outcome, Peers, RequestId, Seat, Slot};
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
    /// Who led each term.
    leaders: BTreeMap<u64, usize>,
}

impl Watch<Replica> for Watched {
    fn on_send(cluster: &mut Cluster<Replica, Self>, me: usize, _: Peers, message: &Message) {
        if let Message::Append(append) = message {
            let leaders = &mut cluster.watch.leaders;
            let first = *leaders.entry(append.term).or_insert(me);
            assert_eq!(first, me, "one leader per term (R1)");
        }
    }

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
            Disagreement::Slot { .. } => panic!("delivered slots are equal (R5), {me}: {what:?}"),
            Disagreement::Twice(..) => panic!("an entry takes effect once (R10), {me}: {what:?}"),
        }
    }
}

fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Offer { .. } => "offer",
        Message::PreVote { .. } | Message::PreVoteOk { .. } => "pre-vote",
        Message::Vote { .. } | Message::Voted { .. } => "vote",
        Message::Append(append) if append.entries.is_empty() => "commit",
        Message::Append(_) => "append",
        Message::Appended { .. } => "appended",
        Message::Behind(_) => "behind",
        Message::Newer { .. } => "newer",
        Message::Led { .. } => "led",
        Message::Ask { .. } => "ask",
        Message::ReadQ { .. } | Message::ReadA { .. } => "read",
        Message::Rejoin { .. } | Message::RejoinA(_) => "rejoin",
    }
}

/// A cluster of Raft's replicas.
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
    quorate_testkit::seat(Raft::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::edited(n, params, |_| {})
    }

    /// A cluster whose configurations are changed by a mutant.
    pub(super) fn edited(n: usize, params: &[(&str, &str)], edit: impl Fn(&mut Config)) -> Net {
        let config = |me| {
            let mut config = Raft::config(&seat(n, me, params)).unwrap();
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

    /// A cluster in which `leader` leads, and nothing is on its way.
    pub(super) fn led_by(leader: usize, n: usize, params: &[(&str, &str)]) -> Net {
        Net::new(n, params).led(leader)
    }

    /// This cluster with a leader, one write, and nothing on its way.
    pub(super) fn led(mut self, leader: usize) -> Net {
        self.write(leader);
        self.elect(leader);
        assert_eq!(self.nodes[leader].log.len(), 2, "a no-op and a write");
        self
    }

    /// Lets a timer fire that must be armed.
    pub(super) fn fire(&mut self, me: usize, timer: Timer) {
        assert!(self.0.fire(me, timer), "{timer:?} is armed at {me}");
    }

    /// Lets a replica stand, and everything that follows happen.
    pub(super) fn elect(&mut self, me: usize) {
        self.fire(me, Timer::Election);
        self.run();
    }

    /// Lets a replica stand, and get the votes of others; what it says as leader stays on its way.
    pub(super) fn stand(&mut self, me: usize, voters: &[usize]) {
        self.fire(me, Timer::Election);
        for _ in 0..2 {
            for voter in voters {
                self.pass(me, *voter);
            }
            for voter in voters {
                self.pass(*voter, me);
            }
        }
    }

    /// Delivers everything that is on its way, and what it causes, but for messages that are lost, by
    /// sender and receiver.
    pub(super) fn run_losing(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.0.run_losing(|packet| is_it(packet, &is_lost));
    }

    /// Loses what is on its way and meets a condition, by sender and receiver.
    pub(super) fn lose(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.wire.retain(|packet| !is_it(packet, &is_lost));
    }

    /// Loses everything that is on its way.
    pub(super) fn lose_all(&mut self) {
        self.wire.clear();
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

    pub(super) fn leads(&self, me: usize) -> bool {
        let machine = self.nodes[me].machine.as_ref();
        machine.is_some_and(Led::is_leader)
    }

    pub(super) fn term(&self, me: usize) -> u64 {
        self.machine(me).term
    }

    /// The terms in the log of a replica that is not delivered, by slot.
    pub(super) fn terms(&self, me: usize) -> Vec<(Slot, u64)> {
        let log = self.machine(me).log.iter();
        log.map(|(slot, entry)| (slot, entry.term)).collect()
    }

    pub(super) fn votes(&self, me: usize) -> bool {
        self.nodes[me].is_serving()
    }

    pub(super) fn outcome(&self, me: usize, request: RequestId) -> Option<Outcome> {
        self.nodes[me].outcome(request).cloned()
    }

    pub(super) fn count(&self, name: &str) -> usize {
        self.watch.sent.get(name).copied().unwrap_or(0)
    }
}

fn is_it(packet: &Packet<Replica>, holds: impl Fn(usize, usize, &Message) -> bool) -> bool {
    let message = packet.message();
    message.is_some_and(|message| holds(packet.from, packet.to, message))
}
