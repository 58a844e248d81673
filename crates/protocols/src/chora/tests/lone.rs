//! One replica among two others that only the test speaks for.

use super::net::seat;
use crate::chora::{
    Chora, Config, Header, Logged, Message, Pulse, Record, Replica, Segment, Timer, Value, ViewInit,
};
use crate::registry::Protocol;
use crate::shared::decided::DecidedSet;
use quorate_core::{
    Base, Boot, Entry, EntryBuilder, EntryId, Input, Lsn, MemberIndex, MemberSet, Now, Peers,
    ReplicaId, Slot,
};
use quorate_testkit::{Cluster, Packet, Watch, index};
use std::sync::Arc;

/// What a replica said, to whom.
#[derive(Default)]
struct Said(Vec<(Peers, Message)>);

impl Watch<Replica> for Said {
    fn now(_: &mut Cluster<Replica, Self>, _: usize) -> Now {
        Now::default()
    }

    fn on_send(cluster: &mut Cluster<Replica, Self>, _: usize, to: Peers, message: &Message) {
        cluster.watch.0.push((to, message.clone()));
    }

    /// Nobody is there.
    fn on_packet(_: &mut Cluster<Replica, Self>, _: Packet<Replica>) {}
}

/// A replica that restarts as the first of three, with a disk that is done at once. The others are down.
pub(super) struct Lone(Cluster<Replica, Said>);

impl Lone {
    pub(super) fn new(edit: fn(&mut Config), records: Vec<Record>) -> Lone {
        let mut config = Chora::config(&seat(3, 0, &[("mode", "responsive")])).unwrap();
        edit(&mut config);
        let configure = move |_, boot| Config {
            boot,
            ..config.clone()
        };
        let mut cluster = Cluster::new(3, Said::default(), configure);
        cluster.is_checked = false;
        (0..3).for_each(|me| cluster.crash(me));
        cluster.nodes[0].disk = records.into_iter().map(|record| (Lsn(0), record)).collect();
        cluster.watch.0.clear();
        cluster.restart(0);
        Lone(cluster)
    }

    pub(super) fn machine(&self) -> &Replica {
        self.0.machine(0)
    }

    /// The messages that the replica said, and to whom.
    pub(super) fn said(&self) -> &[(Peers, Message)] {
        &self.0.watch.0
    }

    pub(super) fn forget_said(&mut self) {
        self.0.watch.0.clear();
    }

    /// How many slots it delivered.
    pub(super) fn delivered(&self) -> usize {
        self.0.nodes[0].log.len()
    }

    pub(super) fn hear(&mut self, from: u16, message: Message) {
        self.0.hear(index(ReplicaId(from)), 0, &message);
    }

    /// A timer fires, armed or not.
    pub(super) fn fire(&mut self, timer: Timer) {
        self.0.step(0, Input::Timer(timer));
    }

    /// The host caught up: slots before `next` hold nothing, and the last VIEW-INIT was that of a view.
    pub(super) fn install(&mut self, next: u64, view: u64) {
        let mut base = DecidedSet::default();
        if view > 0 {
            let id = EntryId {
                origin: ReplicaId(0),
                boot: Boot(0).of_epoch(1),
                seq: view,
            };
            base.advance(Slot(0), Some(&EntryBuilder::default().finish(id, 0)));
        }
        let next = Slot(next);
        self.0.step(0, Input::Installed { next, base });
    }

    /// The last header said.
    pub(super) fn header(&self) -> Header {
        let mut said = self.said().iter().rev();
        let header = said.find_map(|(_, message)| match message {
            Message::Pulse(pulse) => Some(pulse.header.clone()),
            _ => None,
        });
        header.expect("it has said something")
    }

    /// The replica's log, as views of its entries.
    pub(super) fn eviews(&self) -> Vec<u64> {
        self.machine()
            .log
            .entries()
            .map(|logged| logged.eview)
            .collect()
    }
}

pub(super) fn entry(name: u64) -> Value {
    let id = EntryId {
        origin: ReplicaId(3),
        boot: Boot(9),
        seq: name,
    };
    Value::Entry(named(id))
}

fn named(id: EntryId) -> Entry {
    EntryBuilder::default().finish(id, 0)
}

pub(super) fn logged(slot: u64, eview: u64, value: Value) -> Logged {
    Logged {
        slot: Slot(slot),
        eview,
        value,
    }
}

/// VIEW-INIT of the second member, which everybody proposes under.
pub(super) fn init(view: u64, at: u64, segments: &[(u64, u64)]) -> Arc<ViewInit> {
    let segment = |(eview, first): &(u64, u64)| Segment {
        eview: *eview,
        first: Slot(*first),
    };
    Arc::new(ViewInit {
        view,
        initiator: MemberIndex::new(1),
        at: Slot(at),
        pattern: MemberSet::first(3).iter().collect(),
        segments: segments.iter().map(segment).collect(),
    })
}

/// A pulse of a view, in which so much is acknowledged.
pub(super) fn pulse(view: u64, start: u64, ack: u64, recover: Vec<Logged>) -> Message {
    Message::Pulse(Box::new(Pulse {
        header: Header {
            view,
            start: Some(Slot(start)),
            round: 0,
            pace_ns: 0,
            sent_ns: 0,
            ack: Slot(ack),
            commit: Slot(0),
            latest: Slot(0),
            asks: false,
            lives: Default::default(),
        },
        proposal: None,
        nack: Vec::new(),
        recover,
    }))
}
