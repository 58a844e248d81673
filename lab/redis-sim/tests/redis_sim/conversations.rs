//! One list of conversations, held with the server of the simulation and with a real one.

use crate::conversation::{Server, Step, hold};
use crate::real::Real;
use bytes::{Bytes, BytesMut};
use quorate_redis_effects::{STREAM_ID, genesis};
use quorate_redis_sim::{Act, Fake, Socket};
use std::collections::BTreeMap;

const CONTROL: Socket = Socket::Control;
const TAP: Socket = Socket::Tap;
const CLIENT: Socket = Socket::Client(1);
const OTHER: Socket = Socket::Client(2);

const SCRIPT: &str = "redis.call('SET', 'script:time', string.format('%d-time', redis.call('TIME')[1])) \
                      return redis.call('INCR', KEYS[1])";

/// How a driver greets the tap.
const GREETED: [Step; 4] = [
    Step::Ask(TAP, &[&["AUTH", "default", "password"]]),
    Step::Ask(TAP, &[&["REPLCONF", "listening-port", "1"]]),
    Step::Ask(TAP, &[&["REPLCONF", "capa", "psync2"]]),
    // Where the stream of every conversation has a length that is written here: 27 bytes were fed.
    Step::Ask(TAP, &[&["PSYNC", STREAM_ID, "29"]]),
];

/// A server that follows, and takes office at offset 28.
const PROMOTED: [Step; 4] = [
    Step::Follow,
    Step::Feed(&[&["SET", "a", "1"]]),
    Step::Stand,
    Step::Ask(CONTROL, &[&["REPLICAOF", "NO", "ONE"]]),
];

fn conversations() -> Vec<(&'static str, Vec<Step>)> {
    let mut all = vec![("follows", follows())];
    all.push(("executes", executing(commands())));
    all.push(("executes transactions", executing(transactions())));
    all.push(("is deposed", executing(deposed(0))));
    all.push(("is deposed with a tail", executing(deposed(1))));
    all
}

fn executing(then: Vec<Step>) -> Vec<Step> {
    let mut steps = Vec::from(PROMOTED);
    steps.extend([Step::Stand]);
    steps.extend(GREETED);
    steps.push(Step::Tell(TAP, &["REPLCONF", "ACK", "28"]));
    steps.extend(then);
    steps
}

fn follows() -> Vec<Step> {
    vec![
        Step::Follow,
        Step::Stand,
        Step::Feed(&[&["SELECT", "0"], &["SET", "a", "1"], &["INCR", "a"]]),
        Step::Stand,
        Step::Feed(&[&["MULTI"], &["INCR", "a"], &["SADD", "s", "m"], &["EXEC"]]),
        Step::Stand,
        Step::Feed(&[
            &["SET", "b", "x", "PXAT", "4000000000000"],
            &["DEL", "b"],
            &["PUBLISH", "c", "m"],
        ]),
        Step::Stand,
        Step::Ask(CLIENT, &[&["GET", "a"], &["GET", "b"], &["PING"]]),
        Step::Ask(
            CLIENT,
            &[&["SET", "a", "2"], &["INCR", "a"], &["SPOP", "s"]],
        ),
        Step::Ask(CONTROL, &[&["BGSAVE"]]),
        // Half a command: it is promoted at the offset before it.
        Step::FeedHalf,
        Step::Ask(CONTROL, &[&["REPLICAOF", "NO", "ONE"]]),
        Step::Stand,
        Step::Ask(CLIENT, &[&["GET", "a"]]),
    ]
}

fn commands() -> Vec<Step> {
    vec![
        Step::Ask(
            CLIENT,
            &[&["SET", "k", "1"], &["GET", "k"], &["GET", "none"]],
        ),
        Step::Streamed(2),
        Step::Stand,
        Step::Ask(
            CLIENT,
            &[
                &["INCR", "n"],
                &["INCR", "n"],
                &["GET", "n"],
                &["INCR", "t"],
            ],
        ),
        Step::Ask(
            CLIENT,
            &[
                &["SET", "t", "text"],
                &["INCR", "t"],
                &["SADD", "t", "m"],
                &["SPOP", "t"],
            ],
        ),
        Step::Streamed(4),
        Step::Ask(
            CLIENT,
            &[
                &["SADD", "s", "m"],
                &["SADD", "s", "m"],
                &["GET", "s"],
                &["INCR", "s"],
            ],
        ),
        Step::Ask(CLIENT, &[&["SPOP", "s"], &["SPOP", "s"]]),
        Step::Streamed(2),
        Step::Stand,
        Step::Ask(CLIENT, &[&["DEL", "k"], &["DEL", "k"]]),
        Step::Streamed(1),
    ]
}

fn transactions() -> Vec<Step> {
    vec![
        Step::Ask(CLIENT, &[&["INCR", "n"]]),
        Step::Streamed(2),
        Step::Ask(CLIENT, &[&["EVAL", SCRIPT, "1", "n"]]),
        Step::Streamed(2),
        Step::Ask(
            CLIENT,
            &[
                &["MULTI"],
                &["SET", "m", "1"],
                &["INCR", "m"],
                &["GET", "m"],
                &["EXEC"],
            ],
        ),
        Step::Streamed(2),
        // Commands of others do not get between those of a transaction.
        Step::Ask(CLIENT, &[&["MULTI"], &["INCR", "m"]]),
        Step::Ask(OTHER, &[&["INCR", "m"]]),
        Step::Ask(CLIENT, &[&["EXEC"]]),
        Step::Streamed(2),
        Step::Ask(CLIENT, &[&["MULTI"], &["GET", "m"], &["EXEC"]]),
        Step::Ask(CLIENT, &[&["EXEC"], &["NOSUCH"]]),
        Step::Ask(CLIENT, &[&["PUBLISH", "channel", "word"]]),
        Step::Streamed(1),
        Step::Ask(CLIENT, &[&["SET", "short", "x", "PX", "20"]]),
        Step::Streamed(2),
        Step::Stand,
        Step::Ask(CLIENT, &[&["GET", "short"]]),
        // Servers refuse a stream while another reply waits to be sent, and one that they do not have.
        Step::Ask(
            OTHER,
            &[&["REPLCONF", "capa", "psync2"], &["PSYNC", STREAM_ID, "29"]],
        ),
        Step::Ask(Socket::Client(3), &[&["PSYNC", STREAM_ID, "1000000"]]),
    ]
}

/// A deposed executor follows again, and believes a master that says so whatever it has more.
fn deposed(tail: usize) -> Vec<Step> {
    let mut steps = vec![Step::Ask(CLIENT, &[&["SET", "k", "1"]]), Step::Streamed(2)];
    if tail > 0 {
        steps.extend([Step::Ask(CLIENT, &[&["INCR", "n"]]), Step::Streamed(1)]);
    }
    steps.extend([
        Step::Ask(CONTROL, &[&["REPLICAOF", "127.0.0.1", "PORT"]]),
        Step::Follow,
        Step::Stand,
        Step::Feed(&[&["INCR", "n"]]),
        Step::Stand,
        Step::Ask(CLIENT, &[&["GET", "n"], &["SET", "k", "2"]]),
    ]);
    steps
}

/// The server of the simulation, whose time passes when it is listened to.
struct Simulated {
    fake: Fake,
    output: BTreeMap<Socket, BytesMut>,
    connects: usize,
    now_ms: u64,
}

impl Simulated {
    fn new() -> Simulated {
        let fake = Fake::start(&genesis(STREAM_ID), 1, 0).expect("it begins");
        Simulated {
            fake,
            output: BTreeMap::new(),
            connects: 0,
            now_ms: 1_700_000_000_000,
        }
    }

    fn collect(&mut self) {
        for act in self.fake.take_acts() {
            match act {
                Act::Send(socket, bytes) => {
                    self.output
                        .entry(socket)
                        .or_default()
                        .extend_from_slice(&bytes);
                }
                Act::Connect => self.connects += 1,
                Act::Disconnect | Act::Saved => {}
            }
        }
    }
}

impl Server for Simulated {
    fn write(&mut self, socket: Socket, bytes: &[u8]) {
        self.fake.receive(socket, bytes, self.now_ms);
        self.collect();
    }

    fn read(&mut self, socket: Socket) -> Bytes {
        self.collect();
        let output = self.output.entry(socket).or_default();
        if output.is_empty() {
            self.now_ms += 1;
            assert!(
                self.now_ms < 1_700_000_010_000,
                "nothing comes on {socket:?}"
            );
            self.fake.tick(self.now_ms);
            self.collect();
        }
        self.output.remove(&socket).unwrap_or_default().freeze()
    }

    fn accept(&mut self) {
        self.collect();
        assert!(self.connects > 0, "it does not connect to its master");
        self.connects = 0;
        self.output.remove(&Socket::Link);
        self.fake.link_opened();
    }
}

#[test]
fn the_server_of_the_simulation_speaks_as_real_ones() {
    let Some(program) = Real::program() else {
        println!("skipped: REDIS_SERVER names no program");
        return;
    };
    for (name, steps) in conversations() {
        let right = hold(&mut Real::start(&program), &steps);
        assert_eq!(
            hold(&mut Simulated::new(), &steps),
            right,
            "a server that {name}"
        );
    }
}

/// What is compared is there, with a real server or without.
#[test]
fn conversations_are_held_to_their_ends() {
    for (name, steps) in conversations() {
        let told = hold(&mut Simulated::new(), &steps);
        assert!(told.len() > 5, "a server that {name}: {told:?}");
    }
}
