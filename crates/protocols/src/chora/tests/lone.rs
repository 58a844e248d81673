//! One replica among two others that only the test speaks for.

use super::net::seat;
use crate::chora::{
    Chora, Config, Header, Logged, Message, Pulse, Record, Replica, Segment, Timer, Value, ViewInit,
};
use crate::registry::Protocol;
use crate::shared::decided::DecidedSet;
use quorate_core::{
    Base, Boot, Entry, EntryBuilder, EntryId, Input, Lsn, Machine, MemberIndex, MemberSet, Now,
    Out, Output, Past, Peers, ReplicaId, Slot,
};
use std::sync::Arc;

/// A replica that restarts as the first of three, with a disk that is done at once.
pub(super) struct Lone {
    pub(super) machine: Replica,
    out: Out<Replica>,
    /// What it said, to whom.
    pub(super) said: Vec<(Peers, Message)>,
    pub(super) delivered: Vec<Slot>,
}

impl Lone {
    pub(super) fn new(edit: fn(&mut Config), records: Vec<Record>) -> Lone {
        let mut config = Chora::config(&seat(3, 0, &[("mode", "responsive")])).unwrap();
        edit(&mut config);
        let mut out = Out::default();
        let past = Past::Intact {
            next: Slot(0),
            base: DecidedSet::default(),
            records,
        };
        let machine = Replica::recover(&config, past, Now::default(), &mut out);
        let mut lone = Lone {
            machine,
            out,
            said: Vec::new(),
            delivered: Vec::new(),
        };
        lone.perform();
        lone
    }

    pub(super) fn step(&mut self, input: Input<Replica>) {
        self.machine.step(Now::default(), input, &mut self.out);
        self.perform();
    }

    pub(super) fn hear(&mut self, from: u16, message: Message) {
        let from = ReplicaId(from);
        self.step(Input::Message { from, message });
    }

    pub(super) fn fire(&mut self, timer: Timer) {
        self.step(Input::Timer(timer));
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
        self.step(Input::Installed {
            next: Slot(next),
            base,
        });
    }

    fn perform(&mut self) {
        let mut persisted = Lsn(0);
        for output in self.out.drain().collect::<Vec<_>>() {
            match output {
                Output::Send { to, message, .. } => self.said.push((to, message)),
                Output::Persist { lsn, .. } => persisted = lsn,
                Output::Deliver { slot, .. } => self.delivered.push(slot),
                _ => {}
            }
        }
        if persisted > Lsn(0) {
            self.step(Input::Durable(persisted));
        }
    }

    /// The last header said.
    pub(super) fn header(&self) -> Header {
        let mut said = self.said.iter().rev();
        let header = said.find_map(|(_, message)| match message {
            Message::Pulse(pulse) => Some(pulse.header.clone()),
            _ => None,
        });
        header.expect("it has said something")
    }

    /// Its log, as views of its entries.
    pub(super) fn eviews(&self) -> Vec<u64> {
        self.machine
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
