//! A replica that follows: its server that takes nothing of the stream or ends the driver's connection, and its
//! patience with executors.

use bytes::Bytes;
use quorate_core::{Application, At, ReplicaId, Wire};
use quorate_redis_effects::{
    Command, Config, Conn, Driver, Flavour, GENESIS_OFFSET, Input, Life, MemoryFiles, Note, Output,
    ServerVersion, Shared, Stream,
};
use std::sync::Arc;

const LIFE: Life = Life(1);
const STEP_NS: u64 = 100_000_000;

const VERSION: ServerVersion = ServerVersion {
    flavour: Flavour::Valkey,
    number: (8, 1, 0),
};

/// The claim of another replica; no two that follow each other are of one.
fn claim(over: u64) -> Command {
    Command::Claim {
        over,
        by: ReplicaId(2 + (over % 2) as u16),
        boot: 1,
        version: VERSION,
    }
}

/// A driver, a stream that another replica makes longer, and a server that is at this offset.
struct Group {
    driver: Driver,
    stream: Stream,
    len: u64,
    now_ns: u64,
    offset: u64,
    /// Why servers were replaced.
    reloads: Vec<String>,
    claims: u64,
    /// Whether the executor answers probes.
    answers: bool,
    /// Connections for commands that the driver wants.
    connects: u64,
}

impl Group {
    fn new() -> Group {
        let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
        let mut stream = Stream::new(Arc::clone(&shared));
        stream.apply(At::default(), &claim(0).to_bytes(), &[]);
        let mut group = Group {
            driver: Driver::new(Config::new(ReplicaId(1), 1, VERSION), shared),
            stream,
            len: GENESIS_OFFSET,
            now_ns: 0,
            offset: GENESIS_OFFSET,
            reloads: Vec::new(),
            claims: 0,
            answers: false,
            connects: 0,
        };
        let (life, conn) = (LIFE, Conn::Control);
        group.tell(Input::Started { life });
        group.tell(Input::Opened { life, conn });
        group.say(Conn::Control, "+OK\r\n");
        let conn = Conn::Link;
        group.tell(Input::Opened { life, conn });
        group.say(Conn::Link, "PING\r\n");
        group.say(Conn::Link, &format!("PSYNC ? {}\r\n", GENESIS_OFFSET + 1));
        group.reloads.clear();
        group.connects = 0;
        group
    }

    /// The connection for commands ends, and what the server says on the next one, if the driver wants that.
    fn cut(&mut self, greeting: Option<&str>) {
        let (life, conn) = (LIFE, Conn::Control);
        let connects = self.connects;
        self.tell(Input::Closed { life, conn });
        while self.connects == connects && self.reloads.is_empty() {
            self.pass(1);
        }
        if let Some(greeting) = greeting {
            self.tell(Input::Opened { life, conn });
            self.say(Conn::Control, greeting);
        }
    }

    fn say(&mut self, conn: Conn, text: &str) {
        let (life, bytes) = (LIFE, Bytes::copy_from_slice(text.as_bytes()));
        self.tell(Input::Bytes { life, conn, bytes });
    }

    fn tell(&mut self, input: Input) {
        self.driver.input(self.now_ns, input);
        while let Some(output) = self.driver.output() {
            match output {
                Output::Write { conn, bytes, .. }
                    if conn == Conn::Control && bytes.ends_with(b"ROLE\r\n") =>
                {
                    let offset = self.offset;
                    let parts = "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n$9\r\nconnected\r\n";
                    self.say(Conn::Control, &format!("{parts}:{offset}\r\n"));
                }
                Output::Connect {
                    conn: Conn::Control,
                    ..
                } => self.connects += 1,
                Output::Note(Note::Reload { why, .. }) => self.reloads.push(why),
                Output::Submit { .. } => self.claims += 1,
                Output::Probe { peer, .. } if self.answers => self.tell(Input::PeerAlive { peer }),
                _ => {}
            }
        }
    }

    /// How long the driver waits, in milliseconds, before it claims over an epoch; another replica does so first.
    fn waits_before_claim(&mut self, over: u64) -> u64 {
        let began_ns = self.now_ns;
        while self.claims == 0 {
            self.now_ns += STEP_NS;
            self.tell(Input::Tick);
        }
        self.claims = 0;
        self.stream
            .apply(At::default(), &claim(over).to_bytes(), &[]);
        self.tell(Input::Shared);
        (self.now_ns - began_ns) / 1_000_000
    }

    /// The stream gets longer by one unit.
    fn grow(&mut self) {
        let bytes = Bytes::from_static(b"*1\r\n$4\r\nPING\r\n");
        let start = self.len;
        self.len += bytes.len() as u64;
        let piece = Command::Effects {
            epoch: 1,
            start,
            bytes,
            last: true,
        };
        self.stream.apply(At::default(), &piece.to_bytes(), &[]);
        self.tell(Input::Shared);
    }

    /// Seconds in which the driver is told the time when it wants to be.
    fn pass(&mut self, seconds: u64) {
        let end_ns = self.now_ns + seconds * 1_000_000_000;
        while self.now_ns < end_ns {
            self.now_ns += STEP_NS;
            if self.driver.deadline().is_some() {
                self.tell(Input::Tick);
            }
        }
    }
}

#[test]
fn a_server_that_answers_and_takes_nothing_is_replaced() {
    let mut group = Group::new();
    group.grow();
    group.pass(29);
    assert_eq!(group.reloads, Vec::<String>::new());
    group.pass(3);
    assert_eq!(group.reloads, ["it takes nothing of the stream"]);
}

#[test]
fn a_server_that_stops_after_it_had_all_is_replaced() {
    let mut group = Group::new();
    group.pass(60);
    assert_eq!(group.driver.deadline(), None, "nothing is to be done");
    group.grow();
    group.offset = group.len;
    group.pass(60);
    assert_eq!(group.driver.deadline(), None, "it has all again");
    group.grow();
    group.pass(29);
    assert_eq!(group.reloads, Vec::<String>::new());
    group.pass(3);
    assert_eq!(group.reloads, ["it takes nothing of the stream"]);
}

#[test]
fn a_server_that_takes_the_stream_slowly_stays() {
    let mut group = Group::new();
    for _ in 0..10 {
        group.grow();
        group.grow();
        group.pass(20);
        group.offset += 14;
    }
    assert_eq!(group.reloads, Vec::<String>::new());
}

#[test]
fn where_executors_change_often_each_is_given_longer() {
    let mut group = Group::new();
    group.tell(Input::Waiting(true));
    let waits: Vec<u64> = (1..7).map(|over| group.waits_before_claim(over)).collect();
    assert_eq!(waits, [800, 1600, 3200, 6400, 6400, 6400]);
    group.tell(Input::Waiting(false));
    group.pass(60);
    group.tell(Input::Waiting(true));
    let waits: Vec<u64> = (7..10).map(|over| group.waits_before_claim(over)).collect();
    assert_eq!(waits, [6400, 800, 1600], "it has served for a minute");
}

#[test]
fn an_executor_that_is_cut_off_is_given_no_longer() {
    let mut group = Group::new();
    for over in 1..6 {
        group.pass(4);
        group.tell(Input::Waiting(true));
        let peer = ReplicaId(2 + (over + 1) as u16 % 2);
        let down = true;
        group.tell(Input::PeerDown { peer, down });
        assert_eq!(group.waits_before_claim(over), 200);
        let down = false;
        group.tell(Input::PeerDown { peer, down });
        group.tell(Input::Waiting(false));
    }
}

/// Clients wait half a second, and come again after a while.
fn wait_and_give_up(group: &mut Group, times: u32, pause_steps: u64) {
    for _ in 0..times {
        group.tell(Input::Waiting(true));
        for _ in 0..5 {
            group.now_ns += STEP_NS;
            group.tell(Input::Tick);
        }
        group.tell(Input::Waiting(false));
        group.now_ns += pause_steps * STEP_NS;
    }
}

#[test]
fn an_executor_is_given_up_though_no_client_waits_that_long() {
    let mut group = Group::new();
    wait_and_give_up(&mut group, 2, 1);
    assert_eq!(group.claims, 1, "it was silent for 1100 ms");
}

#[test]
fn an_executor_that_answers_is_not_given_up_whenever_clients_come() {
    let mut group = Group::new();
    group.answers = true;
    wait_and_give_up(&mut group, 20, 1);
    wait_and_give_up(&mut group, 20, 20);
    group.answers = false;
    wait_and_give_up(&mut group, 20, 31);
    assert_eq!(group.claims, 0);
}

#[test]
fn a_connection_that_somebody_ended_is_opened_again() {
    let mut group = Group::new();
    for _ in 0..100 {
        group.cut(Some("+OK\r\n"));
        group.grow();
        group.offset = group.len;
        group.pass(2);
    }
    assert_eq!(group.reloads, Vec::<String>::new());
    assert_eq!(group.driver.status().server_offset, group.len);
}

#[test]
fn a_server_that_takes_no_connection_is_replaced() {
    let mut group = Group::new();
    while group.reloads.is_empty() {
        group.cut(None);
    }
    assert_eq!(group.reloads, ["the server closed the driver's connection"]);
    assert!(group.connects > 1, "{}", group.connects);
}
