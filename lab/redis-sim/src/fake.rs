//! A deterministic server that speaks as Redis does to its driver, its replicas and its clients.
//!
//! It believes a wrong `+CONTINUE` without a word, as Redis does. Its replication stream begins each life as a master
//! with `SELECT`; scripts are transactions; random and timed commands are told by their effects.

use crate::data::{Data, Done};
use bytes::{Bytes, BytesMut};
use quorate_core::Encoder;
use quorate_redis_effects::{Rdb, genesis, offset_of};
use quorate_resp::{Limits, RequestParser, encode_request};
use std::collections::BTreeMap;
use xxhash_rust::xxh3::xxh3_64;

/// A connection to the server, or one of its own to its master.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Socket {
    /// The driver's connection for commands.
    Control,
    /// The driver's connection for the replication stream.
    Tap,
    /// The server's connection to its master.
    Link,
    /// The connection of a client.
    Client(u64),
}

/// Something that the server does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// Bytes are sent.
    Send(Socket, Bytes),
    /// The server connects to its master.
    Connect,
    /// The server closes the connection to its master.
    Disconnect,
    /// An RDB is complete.
    Saved,
}

struct Conversation {
    input: BytesMut,
    parser: RequestParser,
    transaction: Option<Vec<Vec<String>>>,
}

impl Default for Conversation {
    fn default() -> Self {
        Conversation {
            input: BytesMut::new(),
            parser: RequestParser::new(Limits::default()),
            transaction: None,
        }
    }
}

/// What the server's link to its master is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinkStep {
    Closed,
    /// Replies that are yet to come before the stream.
    Greeting(u8),
    Streaming,
}

/// A server in memory.
pub struct Fake {
    data: Data,
    offset: u64,
    is_master: bool,
    link: LinkStep,
    greeting: BytesMut,
    /// Commands of a transaction of the stream that is not complete, and their bytes.
    open: Option<(Vec<Vec<String>>, u64)>,
    conversations: BTreeMap<Socket, Conversation>,
    /// The own stream since it became a master.
    backlog: Vec<u8>,
    backlog_begin: u64,
    /// The offset up to which the tap was sent the stream, once it has acknowledged something.
    tap: Option<(u64, bool)>,
    has_selected: bool,
    rng: fastrand::Rng,
    skew_ms: i64,
    saved: Option<Bytes>,
    is_saving: bool,
    acts: Vec<Act>,
}

/// The name of the stream of a server that is a master.
const OWN_STREAM: &str = "9876543210987654321098765432109876543210";

/// Before the data in an RDB of these servers.
const DATA_MARK: &[u8] = b"\xfeFAKE";

/// The data of an RDB.
///
/// # Errors
/// The file is damaged.
pub fn load(rdb: &dyn Rdb) -> Result<(Data, u64), String> {
    let all = rdb.read(0, rdb.len() as usize)?;
    let offset = offset_of(rdb).ok_or("no offset")?;
    let Some(at) = all
        .windows(DATA_MARK.len())
        .position(|part| part == DATA_MARK)
    else {
        return match all == genesis(quorate_redis_effects::STREAM_ID).0 {
            true => Ok((Data::default(), offset)),
            false => Err("the RDB is torn".to_owned()),
        };
    };
    let body = all.slice(at + DATA_MARK.len()..);
    let Some(bytes) = body.len().checked_sub(8) else {
        return Err("the RDB is torn".to_owned());
    };
    let (body, sum) = (body.slice(..bytes), &body[bytes..]);
    if xxh3_64(&body).to_le_bytes() != *sum {
        return Err("the RDB is torn".to_owned());
    }
    Data::decode(body)
        .map(|data| (data, offset))
        .map_err(|e| e.to_string())
}

impl Fake {
    /// A server that begins with an RDB as a replica.
    ///
    /// # Errors
    /// The file is damaged.
    pub fn start(rdb: &dyn Rdb, seed: u64, skew_ms: i64) -> Result<Fake, String> {
        let (data, offset) = load(rdb)?;
        let mut fake = Fake {
            data,
            offset,
            is_master: false,
            link: LinkStep::Closed,
            greeting: BytesMut::new(),
            open: None,
            conversations: BTreeMap::new(),
            backlog: Vec::new(),
            backlog_begin: offset,
            tap: None,
            has_selected: false,
            rng: fastrand::Rng::with_seed(seed),
            skew_ms,
            saved: None,
            is_saving: false,
            acts: Vec::new(),
        };
        fake.acts.push(Act::Connect);
        Ok(fake)
    }

    /// The acts since the last call, in order.
    pub fn take_acts(&mut self) -> Vec<Act> {
        std::mem::take(&mut self.acts)
    }

    /// Whether it is a replica that has the stream, its offset, and a digest of its data.
    pub fn standing(&self) -> (bool, u64, u64) {
        (self.is_master, self.offset, self.data.digest())
    }

    /// The RDB that was saved.
    pub fn take_rdb(&mut self) -> Option<Bytes> {
        self.saved.take()
    }

    fn clock_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_add_signed(self.skew_ms)
    }

    /// Time passes: keys of a master end, and what is being saved is complete.
    pub fn tick(&mut self, now_ms: u64) {
        if self.is_master {
            let effects = self.data.expire(self.clock_ms(now_ms));
            for effect in effects {
                self.replicate(vec![effect]);
            }
        }
        if std::mem::take(&mut self.is_saving) {
            self.acts.push(Act::Saved);
        }
        self.stream();
    }

    /// The link is open: the server says what it has.
    pub fn link_opened(&mut self) {
        self.link = LinkStep::Greeting(5);
        self.greeting.clear();
        let from = (self.offset + 1).to_string();
        let greetings: [&[&str]; 6] = [
            &["PING"],
            &["AUTH", "secret"],
            &["REPLCONF", "listening-port", "0"],
            &["REPLCONF", "capa", "eof", "capa", "psync2"],
            &["REPLCONF", "version", "9.1.2"],
            &["PSYNC", "0123456789012345678901234567890123456789", &from],
        ];
        for greeting in greetings {
            self.send(Socket::Link, greeting);
        }
    }

    /// The link is closed: a replica opens another.
    pub fn link_closed(&mut self) {
        if self.link != LinkStep::Closed && !self.is_master {
            self.acts.push(Act::Connect);
        }
        self.link = LinkStep::Closed;
        self.open = None;
    }

    /// A connection of the driver or of a client is closed.
    pub fn closed(&mut self, socket: Socket) {
        self.conversations.remove(&socket);
        if socket == Socket::Tap {
            self.tap = None;
        }
    }

    fn send(&mut self, socket: Socket, words: &[&str]) {
        let mut out = Vec::new();
        encode_request(words, &mut out);
        self.acts.push(Act::Send(socket, out.into()));
    }

    fn reply(&mut self, socket: Socket, bytes: impl Into<Bytes>) {
        self.acts.push(Act::Send(socket, bytes.into()));
    }

    /// Bytes arrive on a connection.
    pub fn receive(&mut self, socket: Socket, bytes: &[u8], now_ms: u64) {
        if socket == Socket::Link {
            self.master_sent(bytes);
            return;
        }
        let conversation = self.conversations.entry(socket).or_default();
        conversation.input.extend_from_slice(bytes);
        let mut has_replied = false;
        while let Some(conversation) = self.conversations.get_mut(&socket) {
            let Ok(Some(request)) = conversation.parser.next(&mut conversation.input) else {
                break;
            };
            let words: Vec<String> = request
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            // As servers do while a reply waits to be sent.
            if has_replied && words[0].eq_ignore_ascii_case("psync") {
                let text = "-ERR SYNC and PSYNC are invalid with pending output\r\n";
                self.reply(socket, text);
                continue;
            }
            has_replied = true;
            self.request(socket, &words, now_ms);
        }
        self.stream();
    }

    fn request(&mut self, socket: Socket, words: &[String], now_ms: u64) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = words[0].to_ascii_uppercase();
        match (name.as_str(), &words[1..]) {
            ("AUTH", _) => self.reply(socket, "+OK\r\n"),
            ("ROLE", _) => {
                let offset = self.offset;
                let state = match self.link {
                    LinkStep::Streaming => "connected",
                    _ => "connecting",
                };
                let text = match self.is_master {
                    true => format!("*3\r\n$6\r\nmaster\r\n:{offset}\r\n*0\r\n"),
                    false => format!(
                        "*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:1\r\n${}\r\n{state}\r\n:{offset}\r\n",
                        state.len()
                    ),
                };
                self.reply(socket, text);
            }
            ("REPLICAOF", ["NO", "ONE"]) => {
                self.become_master();
                self.reply(socket, "+OK\r\n");
            }
            ("REPLICAOF", _) => {
                self.is_master = false;
                self.tap = None;
                self.link = LinkStep::Closed;
                self.reply(socket, "+OK\r\n");
                self.acts.push(Act::Connect);
            }
            ("REPLCONF", [what, ..]) if what.eq_ignore_ascii_case("ack") => {
                if let Some((_, acknowledged)) = &mut self.tap {
                    *acknowledged = true;
                }
            }
            ("REPLCONF", _) => self.reply(socket, "+OK\r\n"),
            ("PSYNC", [_, from]) => self.psync(socket, from.parse().unwrap_or(0)),
            ("BGSAVE", _) => {
                self.save();
                self.reply(socket, "+Background saving started\r\n");
            }
            ("INFO", _) => {
                let is_saving = u8::from(self.is_saving);
                let text = format!(
                    "# Persistence\r\nrdb_bgsave_in_progress:{is_saving}\r\nrdb_last_bgsave_status:ok\r\n"
                );
                self.reply(socket, format!("${}\r\n{text}\r\n", text.len()));
            }
            _ => self.client_request(socket, &name, &words, now_ms),
        }
    }

    fn client_request(&mut self, socket: Socket, name: &str, words: &[&str], now_ms: u64) {
        if !self.is_master && !matches!(name, "GET" | "PING") {
            let text = "-READONLY You can't write against a read only replica.\r\n";
            return self.reply(socket, text);
        }
        let conversation = self.conversations.entry(socket).or_default();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        match (name, conversation.transaction.take()) {
            ("MULTI", _) => {
                conversation.transaction = Some(Vec::new());
                self.reply(socket, "+OK\r\n");
            }
            ("EXEC", Some(commands)) => {
                let mut reply = format!("*{}\r\n", commands.len()).into_bytes();
                let mut effects = Vec::new();
                for command in commands {
                    let done = self.execute(&command, now_ms);
                    reply.extend_from_slice(&done.reply);
                    effects.extend(done.effects);
                }
                self.replicate(effects);
                self.reply(socket, reply);
            }
            ("EXEC", None) => self.reply(socket, "-ERR EXEC without MULTI\r\n"),
            (_, Some(mut commands)) => {
                commands.push(words);
                conversation.transaction = Some(commands);
                self.reply(socket, "+QUEUED\r\n");
            }
            (_, None) => {
                let done = self.execute(&words, now_ms);
                self.replicate(done.effects);
                self.reply(socket, done.reply);
            }
        }
    }

    fn execute(&mut self, words: &[String], now_ms: u64) -> Done {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let now_ms = self.clock_ms(now_ms);
        // A replica waits for its master to say so.
        let over = self.is_master.then(|| self.data.expire(now_ms));
        for effect in over.into_iter().flatten() {
            self.replicate(vec![effect]);
        }
        let chance = self.rng.u64(..);
        self.data.execute(&words, now_ms, chance)
    }

    /// Effects become part of the own stream; several are one transaction.
    fn replicate(&mut self, effects: Vec<Vec<String>>) {
        if effects.is_empty() || !self.is_master {
            return;
        }
        let mut commands = Vec::new();
        if !std::mem::replace(&mut self.has_selected, true) {
            commands.push(vec!["SELECT".to_owned(), "0".to_owned()]);
        }
        let is_one = effects.len() == 1;
        commands.extend((!is_one).then(|| vec!["MULTI".to_owned()]));
        commands.extend(effects);
        commands.extend((!is_one).then(|| vec!["EXEC".to_owned()]));
        let before = self.backlog.len();
        for command in commands {
            encode_request(&command, &mut self.backlog);
        }
        self.offset += (self.backlog.len() - before) as u64;
    }

    fn become_master(&mut self) {
        if self.is_master {
            return;
        }
        self.is_master = true;
        self.open = None;
        self.has_selected = false;
        self.backlog.clear();
        self.backlog_begin = self.offset;
        if self.link != LinkStep::Closed {
            self.link = LinkStep::Closed;
            self.acts.push(Act::Disconnect);
        }
    }

    fn psync(&mut self, socket: Socket, from: u64) {
        if self.is_master && from > self.backlog_begin && from <= self.offset + 1 {
            self.tap = Some((from - 1, false));
            self.reply(socket, format!("+CONTINUE {OWN_STREAM}\r\n"));
        } else {
            self.reply(socket, format!("+FULLRESYNC {OWN_STREAM} 1\r\n"));
        }
    }

    /// The tap gets what it does not have.
    fn stream(&mut self) {
        if let Some((sent, true)) = self.tap
            && sent < self.offset
        {
            let rest = &self.backlog[(sent - self.backlog_begin) as usize..];
            let bytes = Bytes::copy_from_slice(rest);
            self.tap = Some((self.offset, true));
            self.acts.push(Act::Send(Socket::Tap, bytes));
        }
    }

    fn save(&mut self) {
        let mut file = genesis(quorate_redis_effects::STREAM_ID).0.to_vec();
        let mark = b"\xfa\x0brepl-offset";
        let at = file.windows(mark.len()).position(|part| part == mark);
        file.truncate(at.unwrap_or(0) + mark.len());
        let offset = self.offset.to_string();
        file.push(offset.len() as u8);
        file.extend_from_slice(offset.as_bytes());
        file.extend_from_slice(DATA_MARK);
        let mut body = Encoder::new();
        self.data.encode(&mut body);
        let body = body.into_bytes();
        file.extend_from_slice(&body);
        file.extend_from_slice(&xxh3_64(&body).to_le_bytes());
        self.saved = Some(file.into());
        self.is_saving = true;
    }

    fn master_sent(&mut self, bytes: &[u8]) {
        if self.is_master || self.link == LinkStep::Closed {
            return;
        }
        self.greeting.extend_from_slice(bytes);
        while let LinkStep::Greeting(left) = self.link {
            let end = self.greeting.windows(2).position(|two| two == b"\r\n");
            let Some(end) = end else {
                return;
            };
            let line = self.greeting.split_to(end + 2);
            self.link = match (left, line.starts_with(b"+CONTINUE")) {
                (0, true) => {
                    self.conversations.remove(&Socket::Link);
                    LinkStep::Streaming
                }
                (0, false) => return,
                _ => LinkStep::Greeting(left - 1),
            };
        }
        let rest = self.greeting.split();
        let conversation = self.conversations.entry(Socket::Link).or_default();
        conversation.input.extend_from_slice(&rest);
        while let Some(conversation) = self.conversations.get_mut(&Socket::Link) {
            let before = conversation.input.len();
            let Ok(Some(request)) = conversation.parser.next(&mut conversation.input) else {
                return;
            };
            let bytes = (before - conversation.input.len()) as u64;
            let words: Vec<String> = request
                .iter()
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect();
            self.follow(words, bytes);
        }
    }

    /// A command of the stream. Until a transaction is complete, the server stands before it.
    fn follow(&mut self, words: Vec<String>, bytes: u64) {
        match (words[0].to_ascii_uppercase().as_str(), &mut self.open) {
            ("MULTI", None) => self.open = Some((Vec::new(), bytes)),
            ("EXEC", Some(_)) => {
                if let Some((commands, before)) = self.open.take() {
                    for command in &commands {
                        self.apply(command);
                    }
                    self.offset += before + bytes;
                }
            }
            (_, Some((commands, before))) => {
                commands.push(words);
                *before += bytes;
            }
            (_, None) => {
                self.apply(&words);
                self.offset += bytes;
            }
        }
    }

    fn apply(&mut self, words: &[String]) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let _ = self.data.execute(&words, 0, 0);
    }
}
