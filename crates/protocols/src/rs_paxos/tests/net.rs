//! A cluster whose messages and disks move only as told. It watches what replicas propose and
//! deliver, and fails on the first thing that contradicts what came before.

use super::host;
use crate::multi_paxos::MultiPaxos;
use crate::registry::Protocol;
use crate::rs_paxos::{Accept, Ballot, Config, Message, Record, Replica, RsPaxos, Timer};
use bytes::Bytes;
use quorate_core::{
    Carry, Class, EntryId, Input, Now, Payload, Peers, RequestId, Seat, Slot, hollow_share,
};
use quorate_testkit::{Cluster, Disagreement, Packet, Watch};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

/// What is watched, and what is broken.
#[derive(Default)]
pub(super) struct Watched {
    /// Records that are not written.
    pub(super) forget: Option<fn(&Record) -> bool>,
    /// How many messages of each kind were sent, and how many fragments.
    pub(super) sent: BTreeMap<&'static str, usize>,
    proposed: BTreeMap<(Slot, Ballot), Option<EntryId>>,
}

impl Watch<Replica> for Watched {
    fn now(cluster: &mut Cluster<Replica, Self>, _: usize) -> Now {
        Now {
            mono_ns: cluster.now_ns,
            clock_ns: 5_000_000_000,
            clock_error_ns: 0,
        }
    }

    fn on_send(cluster: &mut Cluster<Replica, Self>, _: usize, _: Peers, message: &Message) {
        if let Message::Accept(Accept {
            ballot,
            slot,
            value,
            ..
        }) = message
        {
            let name = value.as_ref().map(|entry| entry.id);
            let proposed = &mut cluster.watch.proposed;
            let first = proposed.entry((*slot, *ballot)).or_insert(name);
            assert_eq!(*first, name, "one value per slot and ballot (I1)");
        }
    }

    fn on_packet(cluster: &mut Cluster<Replica, Self>, packet: Packet<Replica>) {
        let sent = &mut cluster.watch.sent;
        if let Some(message) = packet.message() {
            host::check_sender(message, packet.to);
            *sent.entry(kind_of(message)).or_default() += 1;
            if let Some(attachment) = message.attachment() {
                *sent.entry("fragment").or_default() += 1;
                assert!(attachment.entry.bulk_len() > 0);
            }
        }
        cluster.wire.push_back(packet);
    }

    fn on_record(cluster: &mut Cluster<Replica, Self>, me: usize, record: &Record) -> bool {
        host::check_sender(record, me);
        !cluster.watch.forget.is_some_and(|forget| forget(record))
    }

    fn on_deliver(cluster: &mut Cluster<Replica, Self>, me: usize, slot: Slot) {
        if !cluster.chosen.contains_key(&slot)
            && let Some(Some(entry)) = cluster.nodes[me].log.last()
        {
            host::check_rebuildable(cluster, entry);
        }
    }

    fn on_disagreement(_: &mut Cluster<Replica, Self>, me: usize, what: Disagreement) {
        match what {
            Disagreement::Slot { .. } => {
                panic!("one value is chosen per slot (I2), {me}: {what:?}")
            }
            Disagreement::Twice(..) => {
                panic!("every entry takes effect once (I12), {me}: {what:?}")
            }
        }
    }

    fn on_forget(_: &mut Cluster<Replica, Self>, me: usize, entry: EntryId) {
        panic!("{me} forgets {entry:?}, which it may have promised");
    }
}

fn kind_of(message: &Message) -> &'static str {
    match message {
        Message::Forward { .. } => "forward",
        Message::PreVote { .. } | Message::PreVoteOk { .. } => "pre-vote",
        Message::Prepare { .. } | Message::Promise(_) => "phase 1",
        Message::Nack { .. } => "nack",
        Message::Accept(_) => "accept",
        Message::Lacks { .. } => "lacks",
        Message::Spread { .. } | Message::Has { .. } => "spread",
        Message::Accepted { .. } => "accepted",
        Message::Commit { .. } => "commit",
        Message::Ask { .. } => "ask",
        Message::ReadQ { .. } | Message::ReadA { .. } => "read",
        Message::Rejoin { .. } | Message::RejoinA(_) => "rejoin",
    }
}

/// A cluster of RS-Paxos's replicas.
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

pub(crate) fn seat<P: Protocol>(n: usize, me: usize, params: &[(&str, &str)]) -> Seat {
    quorate_testkit::seat(P::NAME, n, me, me as u64 + 1, params)
}

impl Net {
    pub(super) fn new(n: usize, params: &[(&str, &str)]) -> Net {
        let config = |me| MultiPaxos::config(&seat::<MultiPaxos>(n, me, params)).unwrap();
        Net::of((0..n).map(config).collect())
    }

    /// A cluster that codes values.
    pub(super) fn coded(n: usize, params: &[(&str, &str)]) -> Net {
        let config = |me| RsPaxos::config(&seat::<RsPaxos>(n, me, params)).unwrap();
        Net::of((0..n).map(config).collect())
    }

    pub(super) fn of(configs: Vec<Config>) -> Net {
        let (n, watched) = (configs.len(), Watched::default());
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

    /// This cluster with a leader, and nothing on its way.
    pub(super) fn led(mut self, leader: usize) -> Net {
        self.write(leader);
        self.elect(leader);
        assert_eq!(self.nodes[leader].log.len(), 1);
        self
    }

    pub(super) fn submit(&mut self, me: usize, class: Class, payloads: Vec<Payload>) -> RequestId {
        self.0
            .submit(me, class, Bytes::from_static(b"set x"), payloads)
    }

    /// Writes so many bytes that travel with what they are written by.
    pub(super) fn write_inline(&mut self, me: usize, len: usize) -> RequestId {
        let body = Bytes::from(vec![7; len]);
        self.0.submit(me, Class::Write, body, Vec::new())
    }

    /// Writes a value that is a payload.
    pub(super) fn write_bulk(&mut self, me: usize) -> RequestId {
        self.write_bytes(me, Bytes::from_static(b"a long value"))
    }

    pub(super) fn write_bytes(&mut self, me: usize, bytes: Bytes) -> RequestId {
        self.submit(me, Class::Write, vec![Payload::of(bytes)])
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

    /// Delivers everything that is on its way, and what it causes.
    pub(super) fn run(&mut self) {
        self.run_losing(|_, _, _| false);
    }

    /// Delivers everything that is on its way, and what it causes, but for messages that are lost, by
    /// sender and receiver.
    pub(super) fn run_losing(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        loop {
            self.0.run_losing(|packet| is_it(packet, &is_lost));
            if !(0..self.nodes.len()).any(|me| self.gather(me)) {
                return;
            }
        }
    }

    /// Delivers everything; what this replica wants gathered takes longer.
    pub(super) fn run_but_gather(&mut self, me: usize) {
        self.0.run();
        assert!(!self.nodes[me].gathers.is_empty(), "it waits for payloads");
    }

    /// Gathers what a replica wants, as far as others that it reaches have fragments enough. Says
    /// whether anything came of it.
    pub(super) fn gather(&mut self, me: usize) -> bool {
        let wanted = std::mem::take(&mut self.nodes[me].gathers);
        let (here, missing): (Vec<_>, Vec<_>) = wanted
            .into_iter()
            .partition(|entry| host::can_rebuild(self, me, entry));
        self.nodes[me].gathers = missing;
        for entry in &here {
            let share = Some(hollow_share(entry, 1, 0));
            self.step(me, Input::Held(entry.clone().with_share(share)));
        }
        !here.is_empty()
    }

    /// Loses what is on its way and meets a condition, by sender and receiver.
    pub(super) fn lose(&mut self, is_lost: impl Fn(usize, usize, &Message) -> bool) {
        self.wire.retain(|packet| !is_it(packet, &is_lost));
    }
}

fn is_it(packet: &Packet<Replica>, holds: impl Fn(usize, usize, &Message) -> bool) -> bool {
    let message = packet.message();
    message.is_some_and(|message| holds(packet.from, packet.to, message))
}
