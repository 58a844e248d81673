//! Three hosts of any protocol with a store, their disks, and frames between them that are lost,
//! delayed and mixed up.

use crate::disk::Disk;
use bytes::Bytes;
use fastrand::Rng;
use quorate_core::{
    Boot, ClusterId, Durability, Epoch, Group, Incarnation, Introspect, Machine, Member, Now,
    Peers, Principal, ReplicaId, Seat, Slot,
};
use quorate_etcd_api::etcdserverpb::{PutRequest, RangeRequest};
use quorate_etcd_store::{Query, QueryAnswer, Store, command};
use quorate_host::{
    Completed, Counters, Driver, Effects, Frame, Host, HostConfig, HostEvent, Limits, Pace,
    Request, Start, SupportedVersions, drive,
};
use quorate_protocols::{Protocol, Registered};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hasher};

const REPLICAS: usize = 3;
/// Frames on their way; more are lost.
const MAIL_MAX: usize = 200;
/// Kept of what was sent.
const SENT_MAX: usize = 3_000;

struct Node<P: Protocol> {
    host: Host<P::Machine, Store>,
    disk: Disk,
    now: Now,
    /// Frames that are to leave.
    frames: Vec<Frame>,
}

impl<P: Protocol> Driver for Node<P> {
    type Machine = P::Machine;
    type App = Store;
    type Error = Infallible;
    const PACE: Pace = Pace::AtOnce;

    fn host(&mut self) -> Option<&mut Host<P::Machine, Store>> {
        Some(&mut self.host)
    }

    fn now(&mut self) -> Now {
        self.now
    }

    fn configure(&mut self, seat: &Seat) -> Result<Config<P>, Infallible> {
        Ok(P::config(seat).expect("defaults are right"))
    }

    fn perform(&mut self, now: Now, effects: Effects<QueryAnswer>) -> Result<bool, Infallible> {
        let Node { disk, frames, .. } = self;
        frames.extend(effects.frames);
        let mut done = disk.keep(effects.snapshot_writes);
        done.extend(effects.snapshot_reads.iter().map(|read| {
            let (token, bytes) = (read.token, Ok(disk.read_snapshot_at(read)));
            Completed::SnapshotRead { token, bytes }
        }));
        done.extend(effects.reads.iter().map(|read| {
            let (token, bytes) = (read.token, Ok(disk.read_at(read.at, read.len)));
            Completed::Read { token, bytes }
        }));
        if let Some(release) = effects.release {
            disk.release(release);
        }
        let coding = effects.coding.into_iter();
        done.extend(coding.map(|coding| Completed::Coding(coding.perform())));
        done.extend(effects.fragment_step.map(|step| {
            disk.perform_step(&step);
            Completed::FragmentStep
        }));
        done.extend(effects.flush.map(|flush| {
            disk.perform(&flush);
            Completed::Flush(flush.through)
        }));
        let is_any_done = !done.is_empty();
        for done in done {
            self.host.completed(now, done);
        }
        Ok(is_any_done)
    }
}

pub(crate) struct Cluster<P: Protocol> {
    nodes: Vec<Node<P>>,
    /// Frames that were sent.
    pub(crate) sent: Vec<Bytes>,
    mail: Vec<(usize, usize, Bytes)>,
    /// It hears nobody, and nobody hears it.
    away: Option<usize>,
    durability: Durability,
    rng: Rng,
    now: Now,
    tokens: u64,
}

impl<P: Protocol> Cluster<P> {
    pub(crate) fn new(mut rng: Rng, durability: Durability) -> Self {
        let now = Now::default();
        let open = |index| {
            let mut disk = Disk::default();
            let config = config::<P>(index, durability, &mut rng);
            let host = Host::open(config, Start::FirstBoot, &mut disk, Store::new(), now);
            let (host, _) = host.expect("nothing can be wrong with a first boot");
            Node {
                host,
                disk,
                now,
                frames: Vec::new(),
            }
        };
        let nodes = (0..REPLICAS).map(open).collect();
        let mut cluster = Cluster {
            nodes,
            sent: Vec::new(),
            mail: Vec::new(),
            away: None,
            durability,
            rng,
            now,
            tokens: 0,
        };
        (0..REPLICAS).for_each(|index| cluster.turn(index));
        cluster
    }

    /// Something happens somewhere.
    pub(crate) fn advance(&mut self) {
        self.now.mono_ns += self.rng.u64(..3_000_000);
        self.now.clock_ns = self.now.mono_ns;
        let index = self.rng.usize(..REPLICAS);
        match self.rng.u8(..60) {
            0..=4 => self.submit(index),
            5 => {
                let peer = replica((index + 1) % REPLICAS);
                let version = self.rng.bool().then_some(SupportedVersions::SHIPPED.newest);
                self.nodes[index].host.link(self.now, peer, version);
                self.turn(index);
            }
            6 if self.rng.u8(..10) == 0 => self.restart(index),
            7 if self.rng.u8(..16) == 0 => {
                self.away = self.rng.bool().then_some(index);
            }
            7..=15 => self.turn(index),
            _ => self.deliver(),
        }
    }

    /// A frame that nobody sent arrives somewhere.
    pub(crate) fn forge(&mut self, frame: Bytes) {
        let to = self.rng.usize(..REPLICAS);
        let from = (to + self.rng.usize(1..REPLICAS)) % REPLICAS;
        self.give(to, from, frame);
    }

    /// A frame arrives.
    pub(crate) fn give(&mut self, to: usize, from: usize, frame: Bytes) {
        self.nodes[to].host.frame(self.now, replica(from), frame);
        self.turn(to);
    }

    /// Whether a frame that arrives is reported as no good; nothing else happens.
    pub(crate) fn is_reported(&mut self, to: usize, from: usize, frame: Bytes) -> bool {
        let host = &mut self.nodes[to].host;
        host.frame(self.now, replica(from), frame);
        let effects = host.take_effects(self.now);
        let is_bad = |event: &HostEvent| matches!(event, HostEvent::BadFrame { .. });
        let is_reported = effects.events.iter().any(is_bad);
        let Ok(_) = self.nodes[to].perform(self.now, effects);
        is_reported
    }

    /// What each host has come to.
    pub(crate) fn counters(&self) -> impl Iterator<Item = Counters> {
        self.nodes.iter().map(|node| node.host.look().counters())
    }

    /// All a host acts on: its machine, and what it applied.
    pub(crate) fn print(&self, index: usize) -> (u64, (Slot, u64)) {
        let mut hasher = DefaultHasher::new();
        let host = &self.nodes[index].host;
        let machine = host.look().machine().expect("nothing is missing");
        machine.fingerprint(&mut hasher);
        (hasher.finish(), host.look().digest())
    }

    fn submit(&mut self, index: usize) {
        self.tokens += 1;
        let key = Bytes::from(vec![b'a' + self.rng.u8(..4)]);
        let request = if self.rng.bool() {
            let put = PutRequest {
                key,
                value: Bytes::from(vec![b'v'; self.rng.usize(..200)]),
                ..PutRequest::default()
            };
            Request::Write {
                body: command::encode_put(&put),
                principal: Principal::default(),
                payloads: Vec::new(),
            }
        } else {
            Request::Read(Query::Range(RangeRequest {
                key,
                ..RangeRequest::default()
            }))
        };
        self.nodes[index]
            .host
            .submit(self.now, self.tokens, request);
        self.turn(index);
    }

    fn deliver(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let (from, to, frame) = self.mail.swap_remove(self.rng.usize(..self.mail.len()));
        let is_away = self.away.is_some_and(|away| [from, to].contains(&away));
        if !is_away && self.rng.u8(..10) > 0 {
            self.give(to, from, frame);
        }
    }

    /// The process ends, and another goes on from its disk, if that was not made useless by lies.
    fn restart(&mut self, index: usize) {
        let config = config::<P>(index, self.durability, &mut self.rng);
        let node = &mut self.nodes[index];
        let opened = Host::open(
            config,
            Start::Resume,
            &mut node.disk,
            Store::new(),
            self.now,
        );
        if let Ok((host, _)) = opened {
            node.host = host;
        }
        self.turn(index);
    }

    /// A turn, and everything it leads to.
    fn turn(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.now = self.now;
        let Ok(_) = drive(node);
        for frame in std::mem::take(&mut node.frames) {
            self.send(index, frame.to, frame.chunks.concat().into());
        }
    }

    fn send(&mut self, from: usize, to: Peers, frame: Bytes) {
        if self.sent.len() < SENT_MAX {
            self.sent.push(frame.clone());
        }
        for peer in (0..REPLICAS).filter(|peer| *peer != from) {
            if self.mail.len() < MAIL_MAX && (to == Peers::All || to == Peers::One(replica(peer))) {
                self.mail.push((from, peer, frame.clone()));
            }
        }
    }
}

fn replica(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

type Config<P> = <<P as Protocol>::Machine as Machine>::Config;

fn config<P: Protocol>(
    index: usize,
    durability: Durability,
    rng: &mut Rng,
) -> HostConfig<Config<P>> {
    let member = |index| Member {
        id: replica(index),
        incarnation: Incarnation(index as u128),
    };
    let seat = Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..REPLICAS).map(member).collect(),
            protocol: P::NAME.into(),
            durability,
            seed: 3,
            params: [].into(),
        },
        me: replica(index),
        boot: Boot(rng.u64(..)),
    };
    HostConfig {
        cluster: ClusterId(1),
        incarnation: Incarnation(index as u128),
        listed_as: Incarnation(index as u128),
        genesis: seat.epoch.clone(),
        catalogue: &Registered,
        machine: P::config(&seat).expect("defaults are right"),
        seat,
        supported: SupportedVersions::SHIPPED,
        limits: Limits {
            segment_bytes: 8 << 10,
            recent_bytes_max: 500,
            checkpoint_slots: 8,
            snapshot_slots: 10,
            snapshot_piece_bytes: 200,
            snapshot_chunk_bytes: 300,
            ..Limits::default()
        },
        jitter_seed: rng.u64(..),
    }
}
