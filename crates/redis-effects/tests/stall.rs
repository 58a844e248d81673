//! A server that answers, and takes nothing of the stream.

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

/// A driver, a stream that another replica makes longer, and a server that is at this offset.
struct Group {
    driver: Driver,
    stream: Stream,
    len: u64,
    now_ns: u64,
    offset: u64,
    /// Why servers were replaced.
    reloads: Vec<String>,
}

impl Group {
    fn new() -> Group {
        let shared = Shared::new(Arc::new(MemoryFiles), Box::new(|| {}));
        let mut stream = Stream::new(Arc::clone(&shared));
        let claim = Command::Claim {
            over: 0,
            by: ReplicaId(2),
            boot: 1,
            version: VERSION,
        };
        stream.apply(At::default(), &claim.to_bytes(), &[]);
        let mut group = Group {
            driver: Driver::new(Config::new(ReplicaId(1), 1, VERSION), shared),
            stream,
            len: GENESIS_OFFSET,
            now_ns: 0,
            offset: GENESIS_OFFSET,
            reloads: Vec::new(),
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
        group
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
                Output::Note(Note::Reload { why, .. }) => self.reloads.push(why),
                _ => {}
            }
        }
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
