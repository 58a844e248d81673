//! Replicas of RS-Paxos whose long fragments are made and written when a test says so.

use crate::disk::Disk;
use crate::driven::Driven;
use bytes::Bytes;
use quorate_core::{
    Boot, ClusterId, Durability, Epoch, Group, Incarnation, Member, Now, Peers, Principal,
    ReplicaId, Seat, Slot,
};
use quorate_etcd_api::etcdserverpb::PutRequest;
use quorate_etcd_store::{Store, command};
use quorate_host::{
    Answer, Completed, Flaw, Frame, Host, HostConfig, HostEvent, Limits, Request, Start,
    SupportedVersions, Token,
};
use quorate_protocols::rs_paxos::{Config, Replica, RsPaxos};
use quorate_protocols::{Protocol, Registered};

const REPLICAS: usize = 5;

pub(crate) struct Node {
    pub(crate) host: Driven<Replica, Store>,
    pub(crate) disk: Disk,
    /// Its steps are performed as soon as there are any.
    pub(crate) stores: bool,
    /// Whether a synced flush was performed since it was last looked at.
    pub(crate) synced: bool,
    /// Whether it gets all messages, or only those that fragments are attached to.
    pub(crate) hears_all: bool,
    /// The clock of all but the first, which stands still.
    pub(crate) stands_at: Option<Now>,
    pub(crate) answers: Vec<(Token, Answer<<Store as quorate_core::Application>::Answer>)>,
}

/// The clocks of all but the first stand still, so that none of them stands for election.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: Now,
    boots: u64,
    limits: Limits,
}

impl Cluster {
    /// Replicas of which the first leads.
    pub(crate) fn led(flaw: Option<Flaw>) -> Cluster {
        Cluster::led_with(limits(flaw))
    }

    /// The same with other limits.
    pub(crate) fn led_with(limits: Limits) -> Cluster {
        let now = Now::default();
        let open = |index| {
            let mut disk = Disk::default();
            let config = config((index, index as u64), limits);
            let host = Host::open(config, Start::FirstBoot, &mut disk, Store::new(), now);
            let (host, _) = host.expect("nothing can be wrong with a first boot");
            Node::new(host, disk, (index > 0).then_some(now))
        };
        let nodes = (0..REPLICAS).map(open).collect();
        let mut cluster = Cluster {
            nodes,
            now,
            boots: REPLICAS as u64,
            limits,
        };
        (0..REPLICAS).for_each(|index| cluster.link(index));
        cluster.submit(0, 1, b"small");
        for _ in 0..1_000 {
            cluster.now.mono_ns += 1_000_000;
            cluster.settle();
            if cluster.is_answered(0, 1) {
                return cluster;
            }
        }
        panic!("nothing was decided: {:?}", cluster.nodes[0].answers);
    }

    fn link(&mut self, index: usize) {
        for peer in (0..REPLICAS).filter(|peer| *peer != index) {
            let version = Some(SupportedVersions::SHIPPED.newest);
            let node = &mut self.nodes[index];
            node.host.link(node.clock(self.now), replica(peer), version);
        }
    }

    pub(crate) fn submit(&mut self, index: usize, token: Token, value: &'static [u8]) {
        let put = PutRequest {
            key: Bytes::from_static(b"key"),
            value: Bytes::from_static(value),
            ..PutRequest::default()
        };
        let (body, payloads) = command::split_put(put, Some(LONG));
        let request = Request::Write {
            body,
            payloads,
            principal: Principal::default(),
        };
        self.nodes[index].host.submit(self.now, token, request);
        self.nodes[index].host.turn(self.now);
    }

    pub(crate) fn is_answered(&self, index: usize, token: Token) -> bool {
        let mut answers = self.nodes[index].answers.iter();
        answers.any(|(of, answer)| *of == token && matches!(answer, Answer::Applied(..)))
    }

    /// Everything that follows, at this time, but for steps of replicas that are not to store.
    pub(crate) fn settle(&mut self) {
        loop {
            let (mut mail, mut is_coding) = (Vec::new(), false);
            for (from, node) in self.nodes.iter_mut().enumerate() {
                node.work(node.clock(self.now));
                let frames = node.host.take_frames();
                mail.extend(frames.into_iter().map(|frame| (from, frame)));
                is_coding |= node.code();
            }
            if mail.is_empty() && !is_coding {
                return;
            }
            for (from, frame) in mail {
                self.deliver(from, &frame);
            }
        }
    }

    fn deliver(&mut self, from: usize, frame: &Frame) {
        for (to, node) in self.nodes.iter_mut().enumerate() {
            let is_meant = match frame.to {
                Peers::All => to != from,
                Peers::One(peer) => peer == replica(to),
            };
            if is_meant && (frame.bulk || node.hears_all) {
                let bytes = frame.chunks.concat().into();
                node.host.frame(node.clock(self.now), replica(from), bytes);
            }
        }
    }

    /// The process of a replica ends, and another goes on from what is written.
    pub(crate) fn restart(&mut self, index: usize) {
        self.boots += 1;
        let config = config((index, self.boots), self.limits);
        let node = &mut self.nodes[index];
        let now = node.clock(self.now);
        let opened = Host::open(config, Start::Resume, &mut node.disk, Store::new(), now);
        let (host, found) = opened.unwrap();
        assert_eq!(found.fragment_store.damage, []);
        *node = Node::new(host, std::mem::take(&mut node.disk), node.stands_at);
        self.link(index);
    }

    /// Writes what a replica was not to store.
    pub(crate) fn store(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.stores = true;
        node.work(node.clock(self.now));
    }
}

impl Node {
    fn new(host: Host<Replica, Store>, disk: Disk, stands_at: Option<Now>) -> Node {
        Node {
            host: Driven::new(host),
            disk,
            stores: true,
            synced: false,
            hears_all: true,
            stands_at,
            answers: Vec::new(),
        }
    }

    fn clock(&self, of_the_first: Now) -> Now {
        self.stands_at.unwrap_or(of_the_first)
    }

    /// Makes fragments; says whether there were any to make.
    fn code(&mut self) -> bool {
        let coding = self.host.take_coding();
        let is_coding = !coding.is_empty();
        for one in coding {
            self.host
                .completed(Now::default(), Completed::Coding(one.perform()));
        }
        is_coding
    }

    /// Flushes and steps until there is nothing more to do.
    fn work(&mut self, now: Now) {
        loop {
            self.host.turn(now);
            self.code();
            self.answers.extend(self.host.take_answers());
            for event in self.host.take_events() {
                assert!(!matches!(event, HostEvent::BadFrame { .. }), "{event:?}");
            }
            if let Some(flush) = self.host.take_flush(now) {
                self.synced |= flush.sync;
                self.disk.perform(&flush);
                self.host.completed(now, Completed::Flush(flush.through));
            } else if let Some(step) = self
                .stores
                .then(|| self.host.take_fragment_step())
                .flatten()
            {
                self.disk.perform_step(&step);
                self.host.completed(now, Completed::FragmentStep);
            } else {
                return;
            }
        }
    }
}

/// From which length on values are long here.
pub(crate) const LONG: usize = 100;

fn replica(index: usize) -> ReplicaId {
    ReplicaId(index as u16 + 1)
}

/// Under which almost everything is long.
pub(crate) fn limits(flaw: Option<Flaw>) -> Limits {
    Limits {
        long_bytes_min: LONG / 4,
        long_step_bytes: 16,
        flaw,
        ..Limits::default()
    }
}

fn config((index, boot): (usize, u64), limits: Limits) -> HostConfig<Config> {
    let member = |index| Member {
        id: replica(index),
        incarnation: Incarnation(index as u128),
    };
    let params = [("k", "3"), ("payload_min", "100"), ("spread_min", "100")];
    let params = params.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let seat = Seat {
        group: Group(0),
        epoch: Epoch {
            number: 1,
            first_slot: Slot(0),
            members: (0..REPLICAS).map(member).collect(),
            protocol: RsPaxos::NAME.into(),
            durability: Durability::Disk,
            seed: 3,
            params: params.into(),
        },
        me: replica(index),
        boot: Boot(boot),
    };
    HostConfig {
        cluster: ClusterId(1),
        incarnation: Incarnation(index as u128),
        listed_as: Incarnation(index as u128),
        genesis: seat.epoch.clone(),
        catalogue: &Registered,
        machine: RsPaxos::config(&seat).expect("the parameters are right"),
        seat,
        supported: SupportedVersions::SHIPPED,
        limits,
        jitter_seed: index as u64,
    }
}
