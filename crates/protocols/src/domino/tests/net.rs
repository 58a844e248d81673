//! A cluster whose messages, disks and clocks move only as told. It watches what replicas deliver, and fails on the
//! first thing that contradicts what came before.

use crate::domino::{Config, Domino, Message, Record, Replica, Timer};
use crate::registry::Protocol;
use quorate_core::{Introspect, Outcome, RequestId};
use quorate_testkit::{Cluster, Disagreement, Packet, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// The first members of a cluster.
pub(super) const A: usize = 0;
pub(super) const B: usize = 1;
pub(super) const C: usize = 2;

/// What a test sees and spoils.
#[derive(Default)]
pub(super) struct Seen {
    /// What disks do not keep.
    pub(super) unwritten: Option<fn(&Record) -> bool>,
    /// By kind: how many messages left.
    pub(super) kinds: BTreeMap<&'static str, usize>,
}

impl Watch<Replica> for Seen {
    const LOGS_TEAR: bool = true;

    fn on_packet(cluster: &mut Cluster<Replica, Self>, packet: Packet<Replica>) {
        let kind = packet.message().map(kind);
        if let Some(kind) = kind {
            *cluster.watch.kinds.entry(kind).or_default() += 1;
        }
        cluster.wire.push_back(packet);
    }

    fn on_record(cluster: &mut Cluster<Replica, Self>, _: usize, record: &Record) -> bool {
        let unwritten = cluster.watch.unwritten;
        unwritten.is_none_or(|is_unwritten| !is_unwritten(record))
    }

    fn on_disagreement(_: &mut Cluster<Replica, Self>, me: usize, what: Disagreement) {
        panic!("what is delivered agrees (D1, D3), but not at {me}: {what:?}");
    }
}

/// A word for messages of a kind.
pub(super) fn kind(message: &Message) -> &'static str {
    match message {
        Message::Propose(_) => "propose",
        Message::Vote(_) => "vote",
        Message::Beat(_) => "beat",
        Message::Accept(_) => "accept",
        Message::Accepted(_) => "accepted",
        Message::Prepare(..) => "prepare",
        Message::Promise(_) => "promise",
        Message::Nack(..) => "nack",
        Message::Ask(_) => "ask",
        Message::Mark(_) => "mark",
        Message::ReadQ(_) => "question",
        Message::ReadA(..) => "answer",
    }
}

/// A cluster of replicas of Domino.
pub(super) struct Net(pub(super) Cluster<Replica, Seen>);

impl Deref for Net {
    type Target = Cluster<Replica, Seen>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Net {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Net {
    /// A cluster of so many members, with parameters.
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        Net::broken(n, params, |_| {})
    }

    /// A cluster in which a rule may be broken.
    pub(super) fn broken(n: usize, params: &[(&str, &str)], breaks: impl Fn(&mut Config)) -> Net {
        let mut configs = Vec::new();
        for me in 0..n {
            let seat = quorate_testkit::seat(Domino::NAME, n, me, 1 + me as u64, params);
            configs.push(Domino::config(&seat).unwrap());
            breaks(configs.last_mut().unwrap());
        }
        let configure = move |me: usize, boot| {
            let mut config: Config = configs[me].clone();
            config.seating.boot = boot;
            config
        };
        Net(Cluster::new(n, Seen::default(), configure))
    }

    /// Delivers everything that is on its way, and what that causes.
    pub(super) fn flow(&mut self) {
        self.0.run();
    }

    /// Time passes, in ns; timers that are due come due in their order, and messages arrive at once.
    pub(super) fn pass(&mut self, ns: u64) {
        let until = self.now_ns + ns;
        self.flow();
        while let Some((due, me, timer)) = self.next_timer().filter(|(due, ..)| *due <= until) {
            self.now_ns = self.now_ns.max(due);
            self.0.fire(me, timer);
            self.flow();
        }
        self.now_ns = until;
    }

    /// Takes messages of a kind, from one member to another, off the wire.
    pub(super) fn hold(&mut self, what: &str, from: usize, to: usize) -> Vec<Packet<Replica>> {
        self.take_packets(|packet| {
            let is_kind = packet
                .message()
                .is_some_and(|message| kind(message) == what);
            is_kind && (packet.from, packet.to) == (from, to)
        })
    }

    /// Delivers what was taken off the wire.
    pub(super) fn give(&mut self, held: Vec<Packet<Replica>>) {
        for packet in held {
            self.receive(packet);
        }
    }

    /// The process comes back with its disk, which is done again.
    pub(super) fn return_of(&mut self, me: usize) {
        self.nodes[me].is_stuck = false;
        self.restart(me);
    }

    /// How often a request is in the log of a replica.
    pub(super) fn times(&self, me: usize, request: RequestId) -> usize {
        self.nodes[me].times(request)
    }

    /// What a replica said of a request.
    pub(super) fn answer(&self, me: usize, request: RequestId) -> Option<&Outcome> {
        let mut replies = self.nodes[me].replies.iter();
        let reply = replies.find(|(id, _)| *id == request);
        reply.map(|(_, outcome)| outcome)
    }

    /// How many messages of a kind left.
    pub(super) fn sent(&self, what: &str) -> usize {
        self.watch.kinds.get(what).copied().unwrap_or_default()
    }

    /// Everything works again; time passes until all replicas that run have these requests, once each, and as much as
    /// any other.
    pub(super) fn come_to_rest(&mut self, requests: &[RequestId]) {
        self.cut.clear();
        for _ in 0..200 {
            self.pass(20_000_000);
            if self.is_at_rest(requests) {
                return;
            }
        }
        panic!("they do not come to rest: {:#?}", self.explained());
    }

    /// What all replicas that run know.
    pub(super) fn explained(&self) -> Vec<String> {
        let machines = self.nodes.iter().filter_map(|node| node.machine.as_ref());
        machines.map(Introspect::explain).collect()
    }

    fn is_at_rest(&self, requests: &[RequestId]) -> bool {
        let up = self.nodes.iter().filter(|node| node.machine.is_some());
        let lens: Vec<usize> = up.clone().map(|node| node.log.len()).collect();
        let is_even = lens.windows(2).all(|two| two[0] == two[1]);
        is_even
            && up
                .into_iter()
                .all(|node| requests.iter().all(|id| node.times(*id) == 1))
    }

    /// The timers that run anywhere.
    pub(super) fn timers(&self) -> Vec<Timer> {
        let all = self.nodes.iter().flat_map(|node| node.timers.keys());
        all.copied().collect()
    }
}
