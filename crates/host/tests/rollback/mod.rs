//! A replica whose folder is replaced by an older copy of it: peers remember, and it notices.

use super::disk::Disk;
use super::driven::Driven;
use super::sequencer::{Journal, config};
use super::{Node, at, write};
use bytes::Bytes;
use quorate_core::{Boot, Peers, ReplicaId};
use quorate_host::epochs::Order;
use quorate_host::{Flaw, Host, HostEvent, Request, Start, SupportedVersions};

/// Three replicas, of which some may be down, connected with each other.
struct Trio {
    nodes: [Option<Node>; 3],
    now_ms: u64,
    boots: u64,
}

impl Trio {
    /// Replicas that claim how far their promises go: the group knows that.
    fn new(flaw: Option<Flaw>) -> Trio {
        let node = |me| {
            let mut config = config(me);
            config.limits.flaw = flaw;
            Some(Node::with(config))
        };
        let mut trio = Trio {
            nodes: [1, 2, 3].map(node),
            now_ms: 1,
            boots: 100,
        };
        for at in 0..3 {
            trio.connect(at);
        }
        trio.submit(Request::Order(Order::Level { level: 3 }));
        trio.submit(write("a"));
        trio.run(500);
        trio
    }

    fn up(&mut self, index: usize) -> &mut Node {
        self.nodes[index].as_mut().expect("it is up")
    }

    fn connect(&mut self, index: usize) {
        let now = at(self.now_ms);
        for other in (0..3).filter(|other| *other != index) {
            let up = self.nodes[other].is_some();
            let version = up.then_some(SupportedVersions::SHIPPED.newest);
            for (from, to) in [(index, other), (other, index)] {
                if let Some(node) = &mut self.nodes[from] {
                    node.host.link(now, ReplicaId(to as u16 + 1), version);
                }
            }
        }
    }

    /// Replica 1 orders a request.
    fn submit(&mut self, request: Request<()>) {
        let now = at(self.now_ms);
        self.up(0).host.submit(now, 1, request);
        self.run(50);
    }

    /// Time goes on, and everything arrives at once.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 10 {
            self.now_ms += 10;
            let now = at(self.now_ms);
            for index in 0..3 {
                let Some(node) = &mut self.nodes[index] else {
                    continue;
                };
                node.host.turn(now);
                if let Some(seat) = node.host.look().next_seat() {
                    node.host.begin_epoch(now, seat.clone(), &seat);
                }
                node.flush(now);
                node.host.take_answers();
                for frame in node.host.take_frames() {
                    let bytes = Bytes::from(frame.chunks.concat());
                    let is_for = |to: usize| match frame.to {
                        Peers::All => true,
                        Peers::One(id) => id == ReplicaId(to as u16 + 1),
                    };
                    for to in (0..3).filter(|to| *to != index && is_for(*to)) {
                        if let Some(node) = &mut self.nodes[to] {
                            let from = ReplicaId(index as u16 + 1);
                            node.host.frame(now, from, bytes.clone());
                        }
                    }
                }
            }
        }
    }

    /// The process of a replica ends; what it leaves on its disk.
    fn kill(&mut self, index: usize) -> Disk {
        let node = self.nodes[index].take().expect("it is up");
        let now = at(self.now_ms);
        for other in self.nodes.iter_mut().flatten() {
            other.host.link(now, ReplicaId(index as u16 + 1), None);
        }
        node.disk
    }

    fn start(&mut self, index: usize, mut disk: Disk, flaw: Option<Flaw>) {
        self.boots += 1;
        let mut config = config(index as u16 + 1);
        config.limits.flaw = flaw;
        config.seat.boot = Boot(self.boots);
        let now = at(self.now_ms);
        let opened = Host::open(config, Start::Resume, &mut disk, Journal::default(), now);
        let (host, _) = opened.expect("the folder is whole");
        let host = Driven::new(host);
        let node = Node { host, disk };
        self.nodes[index] = Some(node);
        self.connect(index);
    }

    fn noticed(&mut self, index: usize) -> bool {
        let events = self.up(index).host.take_events();
        let is_notice = |event: &HostEvent| matches!(event, HostEvent::RolledBack { .. });
        events.iter().any(is_notice)
    }

    fn takes_part(&mut self, index: usize) -> bool {
        self.up(index).host.look().machine().is_some()
    }
}

#[test]
fn an_old_copy_is_noticed_before_its_machine_takes_part() {
    for restarts in [false, true] {
        let mut trio = Trio::new(None);
        // Taken while it runs.
        let copy = trio.up(0).disk.clone();
        trio.submit(write("b"));
        trio.run(300);
        trio.kill(0);
        if restarts {
            for other in [1, 2] {
                let disk = trio.kill(other);
                trio.start(other, disk, None);
            }
        }
        trio.start(0, copy, None);
        assert!(!trio.takes_part(0));
        trio.run(100);
        assert!(trio.noticed(0) && trio.takes_part(0));
        assert!(trio.up(0).host.look().app().lines.contains(&"b".to_owned()));
        // The loss counts as one: neither the next start nor a peer takes it for another.
        trio.run(300);
        let disk = trio.kill(0);
        trio.start(0, disk, None);
        trio.run(100);
        assert!(!trio.noticed(0));
    }
}

#[test]
fn an_older_copy_is_noticed_after_a_copy_was() {
    let mut trio = Trio::new(None);
    let oldest = trio.up(0).disk.clone();
    trio.submit(write("b"));
    trio.run(300);
    let older = trio.kill(0);
    for copy in [oldest.clone(), older, oldest] {
        trio.start(0, copy, None);
        trio.run(400);
        trio.submit(write("c"));
        trio.run(400);
        trio.kill(0);
    }
    // Each start began with fewer losses than the others knew of.
    let again = trio.nodes[1]
        .as_mut()
        .unwrap()
        .host
        .look()
        .remembers(ReplicaId(1));
    assert!(again.unwrap().0 == 3, "losses are counted: {again:?}");
}

#[test]
fn the_newer_of_two_folders_is_an_old_copy_once_the_older_one_was_used() {
    let mut trio = Trio::new(None);
    let older = trio.up(0).disk.clone();
    trio.submit(write("b"));
    trio.run(300);
    let newer = trio.kill(0);
    // Only replicas that remember nothing of the newer folder hear of what is promised on the older one.
    let (second, third) = (trio.kill(1), trio.kill(2));
    drop((second, third));
    let mut trio = Trio::new(None);
    trio.kill(0);
    trio.start(0, older, None);
    trio.run(100);
    assert!(!trio.noticed(0));
    trio.submit(write("c"));
    trio.run(300);
    trio.kill(0);
    trio.start(0, newer, None);
    trio.run(100);
    assert!(trio.noticed(0));
}

#[test]
fn a_restart_is_not_taken_for_an_old_copy_and_waits_for_no_more_than_answers() {
    let mut trio = Trio::new(None);
    for round in 0..12 {
        trio.submit(write("b"));
        let disk = trio.kill(0);
        trio.start(0, disk, None);
        assert!(!trio.takes_part(0));
        trio.run(20);
        assert!(trio.takes_part(0), "round {round}");
        assert!(!trio.noticed(0), "round {round}");
    }
}

#[test]
fn without_enough_answers_the_wait_is_two_seconds() {
    let mut trio = Trio::new(None);
    let disk = trio.kill(0);
    trio.kill(2);
    trio.start(0, disk, None);
    trio.run(1_900);
    assert!(!trio.takes_part(0), "one of two others is not enough");
    trio.run(200);
    assert!(trio.takes_part(0));
}

/// Whether a peer takes what an old copy orders that heard no answer.
fn takes_messages_of_an_old_copy(flaw: Option<Flaw>) -> bool {
    let mut trio = Trio::new(flaw);
    let copy = trio.up(0).disk.clone();
    trio.submit(write("b"));
    trio.run(300);
    trio.kill(0);
    let others = [trio.nodes[1].take(), trio.nodes[2].take()];
    trio.start(0, copy, flaw);
    trio.run(2_100);
    assert!(trio.takes_part(0), "nobody told it");
    trio.up(0).host.take_frames();
    let now = at(trio.now_ms);
    let old = trio.up(0);
    old.host.submit(now, 7, write("c"));
    old.host.turn(now);
    old.flush(now);
    let frames = old.host.take_frames();
    [trio.nodes[1], trio.nodes[2]] = others;
    for frame in frames {
        let bytes = Bytes::from(frame.chunks.concat());
        trio.up(1).host.frame(now, ReplicaId(1), bytes);
    }
    trio.run(50);
    !trio.noticed(0)
}

#[test]
fn messages_of_an_old_copy_are_refused() {
    assert!(!takes_messages_of_an_old_copy(None));
    assert!(takes_messages_of_an_old_copy(Some(Flaw::ClaimsNotChecked)));
}
