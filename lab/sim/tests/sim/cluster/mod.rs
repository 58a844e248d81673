//! A few replicas whose every frame and flush a test holds in its hand.

use bytes::Bytes;
use quorate_core::{
    Boot, ClusterId, Durability, Epoch, Group, Incarnation, Machine, Member, Now, Peers, Principal,
    ReplicaId, SECONDS, Seat, Slot,
};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_etcd_store::{Query, QueryAnswer as Found, Store};
use quorate_host::{
    Answer, Completed, Countdowns, Directive, Flush, Host, HostConfig, Limits, LogSource, Request,
    Start, SupportedVersions, Token,
};
use quorate_protocols::{Protocol, Registered};
use std::collections::BTreeMap;
use std::io;

/// Rounds of a millisecond within which everything must come to rest.
const ROUNDS_MAX: usize = 10_000;

/// What is written of a log.
#[derive(Clone, Default)]
pub(crate) struct Disk(BTreeMap<u64, Vec<u8>>);

impl Disk {
    pub(crate) fn perform(&mut self, flush: &Flush) {
        for write in &flush.writes {
            let file = self.0.entry(write.segment).or_default();
            file.resize(write.segment_bytes as usize, 0);
            let bytes = write.chunks.concat();
            file[write.offset as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }
}

impl LogSource for Disk {
    fn list(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.0.keys().copied().collect())
    }

    fn read(&mut self, segment: u64) -> io::Result<Bytes> {
        Ok(Bytes::copy_from_slice(&self.0[&segment]))
    }

    fn snapshots(&mut self) -> io::Result<Vec<(Slot, u64)>> {
        Ok(Vec::new())
    }

    fn read_snapshot(&mut self, _: Slot, _: u64, _: usize) -> io::Result<Bytes> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Opens replica `index` of `replicas`.
pub(crate) fn open<P: Protocol>(
    (index, replicas): (usize, usize),
    durability: Durability,
    start: Start,
    disk: &mut Disk,
) -> Host<P::Machine, Store> {
    let member = |index: usize| Member {
        id: id(index),
        incarnation: Incarnation(1 + index as u128),
    };
    let epoch = Epoch {
        number: 1,
        first_slot: Slot(0),
        members: (0..replicas).map(member).collect(),
        protocol: P::NAME.into(),
        durability,
        seed: 7,
        params: BTreeMap::new(),
    };
    let seat = Seat {
        group: Group(0),
        epoch,
        me: id(index),
        boot: Boot(1 + u64::from(start == Start::Resume)),
    };
    let config = HostConfig {
        cluster: ClusterId(1),
        incarnation: Incarnation(1 + index as u128),
        listed_as: Incarnation(1 + index as u128),
        genesis: seat.epoch.clone(),
        catalogue: &Registered,
        machine: P::config(&seat).expect("the parameters are sound"),
        seat,
        supported: SupportedVersions::SHIPPED,
        limits: Limits::default(),
        jitter_seed: index as u64,
    };
    let opened = Host::open(config, start, disk, Store::new(), at(0));
    opened.expect("it opens").0
}

fn id(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

pub(crate) fn at(ns: u64) -> Now {
    Now {
        mono_ns: ns,
        clock_ns: ns,
        clock_error_ns: u64::MAX,
    }
}

/// Replicas, joined by a wire that carries what the test lets it carry.
pub(crate) struct Cluster<M: Machine> {
    pub(crate) hosts: Vec<Host<M, Store>>,
    /// What the log of each is written to.
    pub(crate) disks: Vec<Disk>,
    /// The configuration of a machine in a seat.
    configure: fn(&Seat) -> M::Config,
    /// Who began which epoch, and whether it ordered commands at once.
    pub(crate) began: Vec<(usize, u64, bool)>,
    countdowns: Vec<Countdowns>,
    /// Frames under way: from, to, bytes.
    pub(crate) wire: Vec<(usize, usize, Bytes)>,
    /// Stopped: takes no turn and hears nothing.
    pub(crate) stopped: Vec<bool>,
    pub(crate) now_ns: u64,
    answers: BTreeMap<Token, Answer<Found>>,
    tokens: Token,
}

impl<M: Machine> Cluster<M> {
    /// Replicas without disks.
    pub(crate) fn new<P: Protocol<Machine = M>>(replicas: usize) -> Self {
        Cluster::begin::<P>(replicas, Durability::Memory)
    }

    pub(crate) fn begin<P: Protocol<Machine = M>>(replicas: usize, durability: Durability) -> Self {
        let mut disks = vec![Disk::default(); replicas];
        let disk = |(index, disk)| open::<P>((index, replicas), durability, Start::FirstBoot, disk);
        let mut cluster = Cluster {
            hosts: disks.iter_mut().enumerate().map(disk).collect(),
            disks,
            began: Vec::new(),
            configure: |seat| P::config(seat).expect("the parameters are sound"),
            countdowns: (0..replicas).map(|_| Countdowns::default()).collect(),
            wire: Vec::new(),
            stopped: vec![false; replicas],
            now_ns: SECONDS,
            answers: BTreeMap::new(),
            tokens: 0,
        };
        (0..replicas).for_each(|index| cluster.connect(index));
        cluster
    }

    /// A replica reaches all others.
    fn connect(&mut self, index: usize) {
        let version = Some(SupportedVersions::SHIPPED.newest);
        for peer in (0..self.hosts.len()).filter(|peer| *peer != index) {
            self.hosts[index].link(at(self.now_ns), id(peer), version);
        }
    }

    /// A replica starts again, opened by this. What is under way to it is lost.
    pub(crate) fn replace(&mut self, index: usize, open: impl FnOnce(&mut Disk) -> Host<M, Store>) {
        self.wire.retain(|(_, to, _)| *to != index);
        self.hosts[index] = open(&mut self.disks[index]);
        self.connect(index);
        let version = Some(SupportedVersions::SHIPPED.newest);
        for peer in (0..self.hosts.len()).filter(|peer| *peer != index) {
            self.hosts[peer].link(at(self.now_ns), id(index), None);
            self.hosts[peer].link(at(self.now_ns), id(index), version);
        }
    }

    /// Asks a replica something.
    pub(crate) fn ask(&mut self, index: usize, request: Request<Query>) -> Token {
        self.tokens += 1;
        self.hosts[index].submit(at(self.now_ns), self.tokens, request);
        self.tokens
    }

    pub(crate) fn write(&mut self, index: usize, body: Bytes) -> Token {
        self.ask(index, write(body))
    }

    /// The answer, if there is one yet.
    pub(crate) fn answer(&self, token: Token) -> Option<&Answer<Found>> {
        self.answers.get(&token)
    }

    /// A turn of one replica: what it says is under way then.
    pub(crate) fn turn(&mut self, index: usize) {
        let now = at(self.now_ns);
        let host = &mut self.hosts[index];
        if let Some(seat) = host.look().next_seat() {
            let (config, number) = ((self.configure)(&seat), seat.epoch.number);
            host.begin_epoch(now, seat, &config);
            self.began.push((index, number, host.look().is_serving()));
        }
        host.turn(now);
        let effects = host.take_effects(now);
        if let Some(flush) = &effects.flush {
            self.disks[index].perform(flush);
            host.completed(now, Completed::Flush(flush.through));
        }
        for countdown in effects.countdowns {
            self.countdowns[index].set(self.now_ns, countdown);
        }
        for frame in effects.frames {
            let bytes = Bytes::from(frame.chunks.concat());
            for to in (0..self.stopped.len()).filter(|to| *to != index) {
                if matches!(frame.to, Peers::All) || frame.to == Peers::One(id(to)) {
                    self.wire.push((index, to, bytes.clone()));
                }
            }
        }
        self.answers.extend(effects.answers);
    }

    /// Delivers what is under way now, save to those that are stopped.
    pub(crate) fn deliver(&mut self) {
        for (from, to, bytes) in std::mem::take(&mut self.wire) {
            if self.stopped[to] {
                self.wire.push((from, to, bytes));
            } else {
                self.hosts[to].frame(at(self.now_ns), id(from), bytes);
            }
        }
    }

    /// Has a replica order what its countdowns have come to.
    pub(crate) fn order_due(&mut self, index: usize) -> usize {
        let mut count = 0;
        while let Some(body) = self.countdowns[index].take_due(self.now_ns) {
            self.hosts[index].direct(at(self.now_ns), Directive::OrderDue(body));
            count += 1;
        }
        count
    }

    /// Lets time pass and everybody who runs work, until something holds.
    pub(crate) fn run_until(&mut self, holds: impl Fn(&Self) -> bool) {
        for _ in 0..ROUNDS_MAX {
            if holds(self) {
                return;
            }
            self.now_ns += 1_000_000;
            self.deliver();
            for index in (0..self.hosts.len())
                .filter(|i| !self.stopped[*i])
                .collect::<Vec<_>>()
            {
                self.turn(index);
            }
        }
        panic!("it never came to that");
    }

    /// Writes through a replica, and waits for the answer.
    pub(crate) fn done(&mut self, index: usize, body: Bytes) {
        let token = self.write(index, body);
        self.run_until(|cluster| cluster.answer(token).is_some());
        let answer = self.answer(token);
        assert!(matches!(answer, Some(Answer::Applied(..))), "{answer:?}");
    }

    /// Waits until all have applied the same.
    pub(crate) fn level(&mut self) {
        self.run_until(|cluster| {
            let first = cluster.hosts[0].look().digest();
            cluster
                .hosts
                .iter()
                .all(|host| host.look().digest() == first)
        });
    }
}

pub(crate) fn write(body: Bytes) -> Request<Query> {
    Request::Write {
        body,
        principal: Principal(0),
        payloads: Vec::new(),
    }
}

pub(crate) fn put(key: &str, value: &str, lease: i64) -> Bytes {
    Store::encode_put(&PutRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        value: Bytes::copy_from_slice(value.as_bytes()),
        lease,
        ..PutRequest::default()
    })
}

pub(crate) fn range(key: &str, range_end: &str) -> Query {
    Query::Range(RangeRequest {
        key: Bytes::copy_from_slice(key.as_bytes()),
        range_end: Bytes::copy_from_slice(range_end.as_bytes()),
        ..RangeRequest::default()
    })
}
