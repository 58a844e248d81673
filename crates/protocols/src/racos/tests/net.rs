//! A cluster whose network loses and repeats messages, whose disks forget what was not flushed or everything, and
//! whose segments are counted.

mod segments;

pub(super) use super::dice::Dice;
use crate::rabia::weak_mvc;
use crate::racos::{Config, Message, Racos, Record, Replica, Spread};
use crate::registry::{Protocol, Sabotage};
use bytes::Bytes;
use quorate_core::{
    Carry, Class, EntryId, Introspect, MILLIS, Now, Output, Payload, Peers, Record as _, Slot, Wire,
};
use quorate_testkit::{Cluster, Packet, Watch, seat};
use segments::segment_len;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

/// What a test breaks in a cluster of Racos, and what it watches there.
pub(super) struct Watched {
    sabotage: Option<Sabotage<Replica>>,
    /// How many segments rebuild each value that was spread.
    codes: BTreeMap<EntryId, u8>,
    /// Values of which some replica let its segment go.
    forgotten: BTreeSet<EntryId>,
    /// Segments of decided values that hosts keep, by replica.
    kept: Vec<BTreeSet<EntryId>>,
    /// Bytes of messages and their segments, sent and received, by all replicas.
    pub(super) moved: u64,
    /// Bytes of records and their segments, written by all replicas.
    pub(super) written: u64,
    /// Time that passes before a timer fires, in ns.
    pub(super) fired_ns: u64,
}

type Inner = Cluster<Replica, Watched>;

impl Watch<Replica> for Watched {
    const LOGS_TEAR: bool = true;

    /// The time is the number of steps.
    fn now(cluster: &mut Inner, _: usize) -> Now {
        cluster.now_ns += 1;
        Now {
            mono_ns: cluster.now_ns,
            clock_ns: cluster.now_ns,
            clock_error_ns: 0,
        }
    }

    fn on_output(cluster: &mut Inner, _: usize, output: &mut Output<Replica>) -> bool {
        match cluster.watch.sabotage {
            Some(Sabotage::Output(change)) => change(output),
            _ => true,
        }
    }

    /// Disks are flushed on demand.
    fn on_written(_: &mut Inner, _: usize) {}

    fn on_performed(cluster: &mut Inner, _: usize) {
        segments::check_decided(cluster);
    }

    fn on_record(cluster: &mut Inner, me: usize, record: &Record) -> bool {
        cluster.watch.written += segments::written_len(cluster, me, record);
        true
    }

    fn on_send(cluster: &mut Inner, _: usize, _: Peers, message: &Message) {
        if let Message::Mvc(weak_mvc::Message::Batch { entry }) = message
            && entry.bulk_len() > 0
            && !cluster.nodes[0].config.merged
        {
            segments::check_holders(cluster, entry, "is a candidate");
        }
        // Whoever lost its disk may not know that a value was dead, and spreads it anew.
        if let Message::Spread(Spread { manifest, .. }) = message {
            let (id, code) = (manifest.entry.id, manifest.code);
            cluster.watch.forgotten.remove(&id);
            cluster.watch.codes.insert(id, code);
        }
    }

    fn on_packet(cluster: &mut Inner, packet: Packet<Replica>) {
        if let Some(message) = packet.message() {
            let len = message.to_bytes().len() as u64 + segment_len(message.attachment());
            // By who sends it, and by who receives it.
            cluster.watch.moved += 2 * len;
        }
        cluster.wire.push_back(packet);
    }

    fn on_deliver(cluster: &mut Inner, me: usize, slot: Slot) {
        let Some(Some(entry)) = cluster.nodes[me].log.last() else {
            return;
        };
        let (id, is_long) = (entry.id, entry.bulk_len() > 0);
        if is_long && segments::holds(cluster, me, id) {
            cluster.watch.kept[me].insert(id);
        }
        if !cluster.chosen.contains_key(&slot) {
            let is_forgotten = cluster.watch.forgotten.contains(&id);
            assert!(!is_forgotten, "C5: {id:?} was let go");
        }
    }

    fn on_forget(cluster: &mut Inner, me: usize, id: EntryId) {
        let mut chosen = cluster.chosen.values().flatten();
        let is_decided = chosen.any(|entry| entry.id == id);
        assert!(!is_decided, "C5: {id:?} is let go, and decided");
        // Whoever has none lets nothing go.
        if segments::holds(cluster, me, id) {
            cluster.watch.forgotten.insert(id);
        }
        let node = &mut cluster.nodes[me];
        let is_other = |record: &Record| record.entry().is_none_or(|entry| entry.id != id);
        node.disk.retain(|(_, record)| is_other(record));
        node.gathers.retain(|entry| entry.id != id);
    }
}

/// A cluster of Racos's replicas.
pub(super) struct Net(Inner);

impl Deref for Net {
    type Target = Inner;

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
    pub(super) fn new(
        n: usize,
        params: &[(&str, &str)],
        sabotage: Option<Sabotage<Replica>>,
    ) -> Net {
        let config = |me| {
            let mut config = Racos::config(&seat(Racos::NAME, n, me, 1, params)).expect("right");
            if let Some(Sabotage::Config(change)) = sabotage {
                change(&mut config);
            }
            config
        };
        let configs: Vec<Config> = (0..n).map(config).collect();
        let watched = Watched {
            sabotage,
            codes: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            kept: vec![BTreeSet::new(); n],
            moved: 0,
            written: 0,
            fired_ns: 2 * MILLIS,
        };
        Net(Cluster::new(n, watched, move |me, boot| {
            let mut config = configs[me].clone();
            config.mvc.boot = boot;
            config
        }))
    }

    /// A client writes a value that is spread, or a short one that is not.
    pub(super) fn submit(&mut self, me: usize, is_long: bool) {
        let value = Bytes::from(self.commands.to_le_bytes().to_vec());
        self.submit_value(me, value, is_long);
    }

    pub(super) fn submit_value(&mut self, me: usize, value: Bytes, is_long: bool) {
        let payloads = is_long.then(|| Payload::of(value)).into_iter().collect();
        let body = Bytes::from_static(b"put");
        self.0.submit(me, Class::Write, body, payloads);
    }

    /// A flush of all at once. Says whether anything had to be flushed.
    pub(super) fn flush_all(&mut self) -> bool {
        let is_any = self.nodes.iter().any(|node| node.unflushed() > 0);
        (0..self.nodes.len()).for_each(|me| self.flush(me));
        is_any
    }

    /// A node stops; its disk keeps some of the records that were not flushed.
    pub(super) fn crash(&mut self, me: usize, dice: &mut Dice) {
        let open = self.nodes[me].unflushed();
        let lost = if open > 0 { dice.below(open + 1) } else { 0 };
        self.tear(me, open - lost);
    }

    /// A node comes back with an empty disk.
    pub(super) fn lose(&mut self, me: usize) {
        self.watch.kept[me].clear();
        self.lose_disk(me);
    }

    pub(super) fn fire(&mut self, me: usize, which: usize) {
        let timers = &self.nodes[me].timers;
        let timer = timers.keys().nth(which % timers.len().max(1)).copied();
        if let Some(timer) = timer {
            self.now_ns += self.watch.fired_ns;
            self.0.fire(me, timer);
        }
    }

    pub(super) fn timers(&self) -> usize {
        self.nodes.iter().map(|node| node.timers.len()).sum()
    }

    /// A packet arrives, and a copy of it stays on the network if it is to come again.
    pub(super) fn take(&mut self, which: usize, is_again: bool) {
        let packet = match is_again {
            true => self.wire[which].clone(),
            false => self.wire.swap_remove_back(which).expect("it is there"),
        };
        self.receive(packet);
    }

    /// What waits for what.
    pub(super) fn describe(&self) -> String {
        let of = |node: &quorate_testkit::Node<Replica>| {
            let why = node.machine.as_ref().map(Introspect::explain);
            let (log, timers) = (node.log.len(), &node.timers);
            format!("\n{log} delivered, {timers:?}, {}", why.unwrap_or_default())
        };
        self.nodes.iter().map(of).collect()
    }

    pub(super) fn delivered(&self, me: usize) -> usize {
        self.nodes[me].log.len()
    }

    pub(super) fn is_level(&self) -> bool {
        let len = self.chosen.len();
        self.nodes.iter().all(|node| node.log.len() == len)
    }
}
