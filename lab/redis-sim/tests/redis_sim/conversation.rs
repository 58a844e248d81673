//! A conversation with a server as drivers and clients have it, told so that two servers can be compared.
//!
//! Offsets are told from where the server began, times and names of streams not at all. Where servers of different
//! versions say the same in two ways (`UNLINK` for `DEL`, one command as a transaction), one of them is told.

use bytes::{Bytes, BytesMut};
use quorate_redis_effects::{GENESIS_OFFSET, STREAM_ID};
use quorate_redis_sim::Socket;
use quorate_resp::{Limits, Reply, RequestParser, encode_request};
use std::collections::BTreeMap;

/// Words of a request.
pub(crate) type Words = &'static [&'static str];

/// Questions for its offset until a server stands where it should.
const ASKED_MAX: usize = 5_000;

/// One thing that happens in a conversation.
pub(crate) enum Step {
    /// Requests in one write, and a reply to each.
    Ask(Socket, &'static [Words]),
    /// A request that has no reply.
    Tell(Socket, Words),
    /// The server connects to its master, says what it has, and is told to continue.
    Follow,
    /// The master sends commands.
    Feed(&'static [Words]),
    /// The master sends half of a command.
    FeedHalf,
    /// The server is asked for its role until it has all commands that were fed or streamed.
    Stand,
    /// The tap is given so many commands.
    Streamed(usize),
}

/// A server that can be spoken to.
pub(crate) trait Server {
    /// Sends bytes on a connection, which is opened first if it is not.
    fn write(&mut self, socket: Socket, bytes: &[u8]);
    /// Bytes that came on a connection; waits for some.
    fn read(&mut self, socket: Socket) -> Bytes;
    /// Waits until the server has connected to its master.
    fn accept(&mut self);
}

/// A conversation with a server, as far as it is.
struct Conversation<'a> {
    server: &'a mut dyn Server,
    inputs: BTreeMap<Socket, BytesMut>,
    told: Vec<String>,
    /// The offset up to which the server was fed, or its stream was read.
    offset: u64,
}

/// What a server said in the steps of a conversation.
pub(crate) fn hold(server: &mut dyn Server, steps: &[Step]) -> Vec<String> {
    let mut conversation = Conversation {
        server,
        inputs: BTreeMap::new(),
        told: Vec::new(),
        offset: GENESIS_OFFSET,
    };
    for step in steps {
        conversation.take(step);
    }
    conversation.told
}

fn encoded(requests: &[Words]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for words in requests {
        encode_request(words, &mut bytes);
    }
    bytes
}

impl Conversation<'_> {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Ask(socket, requests) => {
                self.server.write(*socket, &encoded(requests));
                for words in *requests {
                    let reply = self.reply(*socket);
                    self.told.push(format!("{words:?}: {}", told(&reply)));
                }
            }
            Step::Tell(socket, words) => self.server.write(*socket, &encoded(&[words])),
            Step::Follow => self.follow(),
            Step::Feed(commands) => {
                let bytes = encoded(commands);
                self.offset += bytes.len() as u64;
                self.server.write(Socket::Link, &bytes);
            }
            Step::FeedHalf => self
                .server
                .write(Socket::Link, b"*3\r\n$3\r\nSET\r\n$1\r\n"),
            Step::Stand => self.stand(),
            Step::Streamed(count) => {
                let mut commands = 0;
                while commands < *count {
                    commands += usize::from(self.streamed());
                }
            }
        }
    }

    fn more(&mut self, socket: Socket) {
        let bytes = self.server.read(socket);
        self.inputs
            .entry(socket)
            .or_default()
            .extend_from_slice(&bytes);
    }

    fn reply(&mut self, socket: Socket) -> Reply {
        loop {
            let input = self.inputs.entry(socket).or_default();
            if let Some(reply) = Reply::take(input).expect("it speaks RESP") {
                return reply;
            }
            self.more(socket);
        }
    }

    /// The next request of the server on a connection, and how many bytes it has.
    fn request(&mut self, socket: Socket) -> (Vec<String>, u64) {
        let mut parser = RequestParser::new(Limits::default());
        loop {
            let input = self.inputs.entry(socket).or_default();
            let mut rest = input.clone();
            if let Some(words) = parser.next(&mut rest).expect("it speaks RESP") {
                let bytes = (input.len() - rest.len()) as u64;
                *input = rest;
                let words = words.iter();
                let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
                return (words.collect(), bytes);
            }
            parser = RequestParser::new(Limits::default());
            self.more(socket);
        }
    }

    fn follow(&mut self) {
        self.server.accept();
        self.inputs.remove(&Socket::Link);
        loop {
            let (words, _) = self.request(Socket::Link);
            let answer = match words[0].to_ascii_uppercase().as_str() {
                "PSYNC" => {
                    let from: u64 = words[2].parse().expect("an offset");
                    self.told
                        .push(format!("it has +{}", from - 1 - GENESIS_OFFSET));
                    let answer = format!("+CONTINUE {STREAM_ID}\r\n");
                    return self.server.write(Socket::Link, answer.as_bytes());
                }
                "AUTH" => {
                    self.told.push(format!("{words:?}"));
                    "+OK\r\n"
                }
                "PING" => "+PONG\r\n",
                _ => "+OK\r\n",
            };
            self.server.write(Socket::Link, answer.as_bytes());
        }
    }

    fn stand(&mut self) {
        let offset = self.offset;
        let mut text = String::new();
        for _ in 0..ASKED_MAX {
            self.server.write(Socket::Control, &encoded(&[&["ROLE"]]));
            let reply = self.reply(Socket::Control);
            let Reply::Array(parts) = &reply else {
                panic!("{reply:?} is no role");
            };
            let role = parts[0].text().unwrap_or_default();
            let (state, has) = match role.as_str() {
                "master" => (String::new(), &parts[1]),
                _ => (parts[3].text().unwrap_or_default(), &parts[4]),
            };
            let Reply::Integer(has) = has else {
                panic!("{reply:?} has no offset");
            };
            if *has == offset as i64 && matches!(state.as_str(), "" | "connected") {
                text = format!("{role} {state} with all of it");
                break;
            }
            text = format!("{role} {state} at {has} in the place of {offset}");
        }
        self.told.push(text);
    }

    /// A command of the stream; says whether it is one that counts.
    fn streamed(&mut self) -> bool {
        let (mut words, bytes) = self.request(Socket::Tap);
        self.offset += bytes;
        words[0].make_ascii_uppercase();
        if words[0] == "UNLINK" {
            words[0] = "DEL".to_owned();
        }
        let is_time = |word: &str| word.len() > 9 && word.starts_with(|c: char| c.is_ascii_digit());
        for word in words.iter_mut().filter(|word| is_time(word)) {
            *word = "(time)".to_owned();
        }
        // Where several commands are one is told by the offsets at which a server stands, not here.
        let counts = !matches!(words[0].as_str(), "MULTI" | "EXEC" | "PING");
        if counts {
            self.told.push(format!("tap: {words:?}"));
        }
        counts
    }
}

/// A reply as it is told.
fn told(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(text) => {
            let text = String::from_utf8_lossy(text);
            let persistence = text
                .lines()
                .find(|line| line.starts_with("rdb_last_bgsave_status"));
            format!("bulk {}", persistence.unwrap_or(&text))
        }
        Reply::Simple(text) if text.starts_with("CONTINUE") => "continue".to_owned(),
        Reply::Simple(text) if text.starts_with("FULLRESYNC") => "fullresync".to_owned(),
        Reply::Simple(text) => format!("simple {text}"),
        Reply::Error(text) => format!("error {text}"),
        Reply::Integer(number) => format!("integer {number}"),
        Reply::Array(parts) => {
            let parts: Vec<String> = parts.iter().map(told).collect();
            format!("{parts:?}")
        }
        other => format!("{other:?}"),
    }
}
