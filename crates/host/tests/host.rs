//! The host around the simplest protocol there is: replica 1 orders, the others follow.

mod catch_up;
mod damage;
mod disk;
mod driven;
mod flaws;
mod rollback;
mod sequencer;
mod snapshots;
mod staged;
mod stalled;

use bytes::Bytes;
use disk::Disk;
use driven::Driven;
use quorate_core::{
    Class, ClientId, Command, Durability, Now, Peers, Principal, Refusal, ReplicaId, RequestId,
    Seat, Slot,
};
use quorate_host::{
    Answer, Completed, Directive, Host, HostConfig, HostEvent, Request, Start, WireVersion,
};
use sequencer::{Journal, Sequencer, config, open};

type Replica = Host<Sequencer, Journal>;

fn at(ms: u64) -> Now {
    Now {
        mono_ns: ms * 1_000_000,
        clock_ns: ms * 1_000_000,
        clock_error_ns: u64::MAX,
    }
}

fn write(text: &'static str) -> Request<()> {
    Request::Write {
        body: Bytes::from_static(text.as_bytes()),
        principal: Principal(0),
        payloads: Vec::new(),
    }
}

fn command(seq: u64, acked: u64, class: Class, text: &'static str) -> Request<()> {
    Request::Command(Command {
        id: RequestId {
            client: ClientId(5),
            seq,
        },
        acked,
        class,
        principal: Principal(0),
        body: Bytes::from_static(text.as_bytes()),
        payloads: Vec::new(),
    })
}

/// One replica and its disk.
struct Node {
    host: Driven<Sequencer, Journal>,
    disk: Disk,
}

impl Node {
    fn new(me: u16) -> Node {
        Node::with(config(me))
    }

    fn with(config: HostConfig<Seat>) -> Node {
        let mut disk = Disk::default();
        let journal = Journal::default();
        let opened = Host::open(config, Start::FirstBoot, &mut disk, journal, at(0));
        let (host, _) = opened.expect("nothing can be wrong with a first boot");
        let host = Driven::new(host);
        let mut node = Node { host, disk };
        node.flush(at(0));
        node
    }

    /// Performs flushes until nothing is left to write.
    fn flush(&mut self, now: Now) {
        while let Some(flush) = self.host.take_flush(now) {
            self.disk.perform(&flush);
            self.host.completed(now, Completed::Flush(flush.through));
        }
    }

    /// Writes what nothing waits for, too.
    fn write_all(&mut self) {
        self.host.direct(at(0), Directive::WriteAll);
        self.flush(at(0));
    }

    /// Submits, orders and makes durable; returns the answers.
    fn run(&mut self, now: Now, requests: Vec<Request<()>>) -> Vec<Answer<Vec<String>>> {
        for (token, request) in requests.into_iter().enumerate() {
            self.host.submit(now, token as u64, request);
        }
        for _ in 0..3 {
            self.host.turn(now);
            self.flush(now);
        }
        let mut answers = self.host.take_answers();
        answers.sort_by_key(|(token, _)| *token);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }

    /// An orderly end and a new start.
    fn restart(mut self) -> Node {
        self.write_all();
        let Node { mut disk, .. } = self;
        let host = open(1, Start::Resume, &mut disk, Journal::default()).unwrap();
        let host = Driven::new(host);
        Node { host, disk }
    }
}

/// Carries all frames from one host to another; returns how many.
fn carry(from: &mut Driven<Sequencer, Journal>, to: &mut Node, now: Now) -> usize {
    let frames = from.take_frames();
    for frame in &frames {
        to.host
            .frame(now, ReplicaId(1), frame.chunks.concat().into());
        to.flush(now);
    }
    frames.len()
}

fn applied(slot: u64, text: &str) -> Answer<Vec<String>> {
    Answer::Applied(Slot(slot), Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn what_depends_on_a_record_waits_for_the_disk_and_what_promises_nothing_does_not() {
    let mut leader = Node::new(1);
    leader.host.take_frames();
    leader.host.submit(at(1), 0, write("a"));
    leader.host.turn(at(1));
    let early = leader.host.take_frames();
    assert_eq!(early.len(), 1, "the offer leaves before the flush");
    assert!(leader.host.take_answers().is_empty());
    leader.flush(at(1));
    assert_eq!(
        leader.host.take_frames().len(),
        1,
        "the order leaves behind it"
    );
}

#[test]
fn writes_wait_for_the_hosts_own_session_and_are_answered_in_slots() {
    let mut leader = Node::new(1);
    let answers = leader.run(at(1), vec![write("a"), write("b")]);
    assert_eq!(answers, [applied(1, "1:a"), applied(1, "2:b")]);
    assert_eq!(leader.run(at(2), vec![write("c")]), [applied(2, "3:c")]);
}

#[test]
fn a_command_sent_twice_is_executed_once() {
    let mut leader = Node::new(1);
    let open = command(0, 0, Class::OpenSession, "");
    leader.run(at(1), vec![open]);
    let first = leader.run(at(2), vec![command(1, 0, Class::Write, "a")]);
    assert_eq!(first, [applied(1, "1:a")]);
    assert_eq!(
        leader.run(at(3), vec![command(1, 0, Class::Write, "a")]),
        first
    );
    leader.run(at(4), vec![command(2, 1, Class::Write, "b")]);
    let forgotten = leader.run(at(5), vec![command(1, 1, Class::Write, "a")]);
    assert_eq!(forgotten, [Answer::Refused(Refusal::Forgotten)]);
    assert_eq!(leader.host.look().app().lines, ["a", "b"]);
}

#[test]
fn at_most_once_survives_a_restart() {
    let mut leader = Node::new(1);
    leader.run(at(1), vec![command(0, 0, Class::OpenSession, "")]);
    let first = leader.run(at(2), vec![command(1, 0, Class::Write, "a")]);
    let mut leader = leader.restart();
    assert_eq!(leader.host.look().app().lines, ["a"]);
    assert_eq!(
        leader.run(at(3), vec![command(1, 0, Class::Write, "a")]),
        first
    );
    assert_eq!(leader.host.look().app().lines, ["a"]);
}

#[test]
fn a_command_without_a_session_is_refused_not_executed() {
    let mut leader = Node::new(1);
    let answers = leader.run(at(1), vec![command(1, 0, Class::Write, "a")]);
    assert_eq!(answers, [Answer::Refused(Refusal::NoSession)]);
    assert!(leader.host.look().app().lines.is_empty());
}

/// Scenario: the opening of the session of an earlier boot is decided late, between the opening of this boot's session
/// and a write under it, and so ends it. The client waits a little longer, and gets its answer.
#[test]
fn a_write_whose_session_an_earlier_boot_ended_is_executed_all_the_same() {
    let mut leader = Node::new(1);
    assert_eq!(leader.run(at(1), vec![write("a")]), [applied(1, "1:a")]);
    // Of the owner 2, which is replica 1.
    let late = command(0, 0, Class::OpenSession, "\u{2}\0\0\0\0\0\0\0");
    let answers = leader.run(at(2), vec![late, write("b")]);
    assert_eq!(answers[1], applied(4, "2:b"), "{answers:?}");
}

#[test]
fn a_read_sees_every_write_answered_before_it() {
    let mut leader = Node::new(1);
    leader.run(at(1), vec![write("a")]);
    let answers = leader.run(at(2), vec![Request::Read(()), Request::Peek(())]);
    let lines = vec!["a".to_string()];
    // The linearizable read went through the log and saw one slot more: its own.
    let expected = [
        Answer::Read(Slot(3), lines.clone()),
        Answer::Read(Slot(2), lines),
    ];
    assert_eq!(answers, expected);
}

#[test]
fn too_large_and_too_many_are_refused_at_once() {
    let mut leader = Node::new(1);
    let limits = config(1).limits;
    let body = Bytes::from(vec![0; limits.command_bytes_max + 1]);
    let large = Request::Write {
        body,
        principal: Principal(0),
        payloads: Vec::new(),
    };
    leader.host.submit(at(1), 0, large);
    for token in 1..=limits.requests_max as u64 + 1 {
        leader.host.submit(at(1), token, write("a"));
    }
    let last = limits.requests_max as u64 + 1;
    assert_eq!(
        leader.host.take_answers(),
        [
            (0, Answer::Refused(Refusal::TooLarge)),
            (last, Answer::Refused(Refusal::Overloaded))
        ]
    );
}

#[test]
fn damage_in_the_own_log_ends_an_answer_early_and_is_reported() {
    let mut leader = Node::new(1);
    for ms in 1..200 {
        leader.run(
            at(ms),
            vec![write("some text that takes a little room in the log")],
        );
    }
    leader.host.take_frames();
    let mut follower = Node::new(2);
    carry(&mut leader.host, &mut follower, at(300));
    let fetch = sequencer::fetch_frame(Slot(0));
    leader.host.frame(at(301), ReplicaId(2), fetch);
    let reads = leader.host.take_reads();
    assert!(reads.len() > 2);
    for (index, read) in reads.iter().enumerate() {
        let mut bytes = leader.disk.read_at(read.at, read.len).to_vec();
        bytes[40] ^= u8::from(index == 2);
        leader.host.completed(
            at(301),
            Completed::Read {
                token: read.token,
                bytes: Ok(bytes.into()),
            },
        );
    }
    let reported = |event: &HostEvent| matches!(event, HostEvent::Damaged { slot: Slot(2), .. });
    assert!(leader.host.take_events().iter().any(reported));
    for frame in leader.host.take_frames() {
        follower
            .host
            .frame(at(302), ReplicaId(1), frame.chunks.concat().into());
    }
    assert_eq!(follower.host.look().applied(), Slot(2));
}

#[test]
fn hostile_frames_are_reported_and_change_nothing() {
    let (mut leader, mut follower) = (Node::new(1), Node::new(2));
    leader.run(at(1), vec![write("a")]);
    let frames: Vec<Vec<u8>> = leader
        .host
        .take_frames()
        .iter()
        .map(|frame| frame.chunks.concat())
        .collect();
    let mut dice = fastrand::Rng::with_seed(3);
    for _ in 0..20_000 {
        let frame = &frames[dice.usize(..frames.len())];
        let mut bytes = frame[..dice.usize(..=frame.len())].to_vec();
        if !bytes.is_empty() && dice.bool() {
            let at = dice.usize(..bytes.len().min(6));
            bytes[at] = dice.u8(..);
        }
        follower
            .host
            .frame(at(2), ReplicaId(dice.u16(..5)), bytes.into());
        follower.host.take_events();
        follower.host.take_frames();
    }
}

#[test]
fn a_replica_that_ran_before_does_not_take_an_empty_log_for_a_new_one() {
    let mut disk = Disk::default();
    for _ in 0..2 {
        let opened = Host::<sequencer::Sequencer, Journal>::open(
            config(1),
            Start::Resume,
            &mut disk,
            Journal::default(),
            at(0),
        );
        let (mut host, opened) = opened.unwrap();
        assert!(
            opened.lost_promises,
            "nor does it the next time: {opened:?}"
        );
        let flush = host.take_effects(at(0)).flush.unwrap();
        disk.perform(&flush);
        host.completed(at(0), Completed::Flush(flush.through));
    }
}

#[test]
fn a_diskless_replica_answers_without_any_flush() {
    let mut config = config(1);
    config.seat.epoch.durability = Durability::Memory;
    let mut disk = Disk::default();
    let (mut host, _) = Replica::open(
        config,
        Start::FirstBoot,
        &mut disk,
        Journal::default(),
        at(0),
    )
    .unwrap();
    host.submit(at(1), 0, write("a"));
    for _ in 0..2 {
        host.turn(at(1));
    }
    let effects = host.take_effects(at(1));
    assert_eq!(effects.flush, None);
    assert_eq!(effects.answers, [(0, applied(1, "1:a"))]);
}

#[test]
fn a_quiet_replica_falls_silent() {
    let mut leader = Node::new(1);
    leader.run(at(1), vec![write("a")]);
    let mut now = 1;
    while let Some(due_ns) = leader.host.look().next_wake() {
        now = (due_ns / 1_000_000).max(now) + 1;
        assert!(now < 60_000, "still ticking after a minute");
        leader.host.turn(at(now));
        leader.host.take_frames();
    }
    assert!(now > 1);
}

/// Scenario: the leader has said all it had to say and is silent; a follower heard none of it. The follower
/// beats, and is answered, so that it knows what to fetch; who knows as much is not answered.
#[test]
fn the_beat_of_one_who_is_behind_is_answered() {
    let (mut leader, mut follower) = (Node::new(1), Node::new(2));
    leader.run(at(1), vec![write("a")]);
    leader.host.take_frames();
    let beat = |host: &mut Driven<Sequencer, Journal>, to: u16| {
        host.link(at(2), ReplicaId(to), Some(WireVersion(1)));
        let mut frames = host.take_frames();
        assert_eq!(frames.len(), 1);
        Bytes::from(frames.remove(0).chunks.concat())
    };
    let early = beat(&mut follower.host, 1);
    leader.host.frame(at(3), ReplicaId(2), early);
    let answers = leader.host.take_frames();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].to, Peers::One(ReplicaId(2)));
    let late = beat(&mut leader.host, 2);
    follower.host.frame(at(3), ReplicaId(1), late);
    assert_eq!(follower.host.take_frames(), [], "the leader is not behind");
    let wake_ns = follower.host.look().next_wake();
    assert!(wake_ns.is_some(), "it will fetch what it lacks");
}
