//! What a server is sent, and what comes back: bodies and reads in one order, pipelined on one connection.

use crate::body::Entry;
use bytes::{Bytes, BytesMut};
use quorate_core::WireError;
use quorate_redis_store::{Call, Request, find};
use quorate_resp::{Resp, encode_request, reply_bytes};
use std::collections::VecDeque;
use std::fmt;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::body::Origin;
use crate::rules::is_select;

/// Errors of a server that say something about it, not about the call: they are never an answer.
const OF_SERVERS: [&[u8]; 8] = [
    b"-BUSY ",
    b"-LOADING ",
    b"-MISCONF ",
    b"-NOAUTH ",
    b"-NOPERM ",
    b"-NOREPLICAS ",
    b"-OOM ",
    b"-READONLY ",
];

/// Something that a server has done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// The body at a position was carried out.
    Entry {
        /// The position of the body.
        position: u64,
        /// Who waits for the replies.
        origin: Origin,
        /// The replies, one behind the other; one if the body is a transaction.
        replies: Bytes,
    },
    /// A read was answered.
    Read {
        /// The number it was given.
        number: u64,
        /// The replies, one behind the other.
        replies: Bytes,
    },
    /// The server has begun to save its state.
    Saving {
        /// The position that the file will have: all bodies before it are in it.
        position: u64,
        /// The digest of the replies to them.
        replies: u64,
    },
}

/// Why a server is of no use any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken(String);

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

/// What is to come back.
#[derive(Debug)]
struct Awaited {
    /// Replies that set the connection up: none of them may be an error.
    set_up: usize,
    /// Replies before those that count.
    skipped: usize,
    /// Replies that count.
    taken: usize,
    of: AwaitedOf,
}

#[derive(Debug)]
enum AwaitedOf {
    Entry {
        position: u64,
        origin: Origin,
        is_atomic: bool,
        /// Whether a call has a reply that is equal on every server.
        is_digested: Vec<bool>,
    },
    Read(u64),
    Save(u64),
}

/// A server's connection, without its bytes' way.
#[derive(Debug)]
pub struct Pipe {
    out: Vec<u8>,
    input: BytesMut,
    /// Replies of the oldest request that have come, and their bytes.
    come: (usize, usize),
    /// Bytes of those that do not count.
    skipped_bytes: usize,
    awaited: VecDeque<Awaited>,
    /// What the connection is set to, as far as that is known.
    db: Option<u32>,
    resp: Resp,
    /// A digest of all replies to bodies, in order.
    replies: u64,
}

impl Pipe {
    /// A connection to a server whose state has a digest of replies.
    #[must_use]
    pub fn new(replies: u64) -> Pipe {
        Pipe {
            out: Vec::new(),
            input: BytesMut::new(),
            come: (0, 0),
            skipped_bytes: 0,
            awaited: VecDeque::new(),
            db: Some(0),
            resp: Resp::Two,
            replies,
        }
    }

    /// Requests under way.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.awaited.len()
    }

    /// The digest of the replies to all bodies that were carried out.
    #[must_use]
    pub fn replies(&self) -> u64 {
        self.replies
    }

    /// The number of bytes to send.
    #[must_use]
    pub fn output_bytes(&self) -> usize {
        self.out.len()
    }

    /// Takes the bytes to send.
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }

    /// Where bytes of the server go.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Has a body carried out.
    ///
    /// # Errors
    /// When it is none: the application took it, so this program is not the one that did.
    pub fn entry(&mut self, position: u64, entry: &Entry) -> Result<(), WireError> {
        let request = entry.request()?;
        let is_digested = request.calls.iter().map(is_digested).collect();
        let of = AwaitedOf::Entry {
            position,
            origin: entry.origin,
            is_atomic: request.atomic,
            is_digested,
        };
        self.send(&request, of);
        Ok(())
    }

    /// Has calls answered that change nothing.
    pub fn read(&mut self, number: u64, request: &Request) {
        self.send(request, AwaitedOf::Read(number));
    }

    /// Has the server save its state behind the bodies before a position.
    pub fn save(&mut self, position: u64) {
        encode_request(&["BGSAVE"], &mut self.out);
        self.awaited.push_back(Awaited {
            set_up: 0,
            skipped: 0,
            taken: 1,
            of: AwaitedOf::Save(position),
        });
    }

    /// Writes calls, and notes which replies are to come.
    fn send(&mut self, request: &Request, of: AwaitedOf) {
        let mut set_up = 0;
        if self.resp != request.resp {
            let version = match request.resp {
                Resp::Two => "2",
                Resp::Three => "3",
            };
            encode_request(&["HELLO", version], &mut self.out);
            self.resp = request.resp;
            set_up += 1;
        }
        if self.db != Some(request.db) {
            encode_request(&["SELECT", &request.db.to_string()], &mut self.out);
            self.db = Some(request.db);
            set_up += 1;
        }
        let count = request.calls.len();
        if request.atomic {
            encode_request(&["MULTI"], &mut self.out);
        }
        for call in &request.calls {
            encode_request(&call.args, &mut self.out);
            if is_select(&call.args) {
                self.db = None;
            }
        }
        let (skipped, taken) = match request.atomic {
            true => (set_up + 1 + count, 1),
            false => (set_up, count),
        };
        if request.atomic {
            encode_request(&["EXEC"], &mut self.out);
        }
        self.awaited.push_back(Awaited {
            set_up,
            skipped,
            taken,
            of,
        });
    }

    /// Something that the server has done since.
    ///
    /// # Errors
    /// When what came is not an answer: the server is to be replaced.
    pub fn next_done(&mut self) -> Result<Option<Done>, Broken> {
        let Some(awaited) = self.awaited.front() else {
            return match self.input.is_empty() {
                true => Ok(None),
                false => Err(Broken("it said what nobody asked for".to_owned())),
            };
        };
        let (set_up, skipped) = (awaited.set_up, awaited.skipped);
        let all = skipped + awaited.taken;
        while self.come.0 < all {
            let (count, at) = self.come;
            let bytes = reply_bytes(&self.input[at..]);
            let bytes = bytes.map_err(|why| Broken(format!("its answer is none: {why}")))?;
            let Some(bytes) = bytes else {
                return Ok(None);
            };
            check(&self.input[at..at + bytes], count < set_up)?;
            self.come = (count + 1, at + bytes);
            if count < skipped {
                self.skipped_bytes = at + bytes;
            }
        }
        let (_, bytes) = std::mem::take(&mut self.come);
        let mut replies = self.input.split_to(bytes).freeze();
        drop(replies.split_to(std::mem::take(&mut self.skipped_bytes)));
        let awaited = self.awaited.pop_front();
        awaited
            .map(|awaited| self.done(awaited.of, replies))
            .transpose()
    }

    fn done(&mut self, of: AwaitedOf, replies: Bytes) -> Result<Done, Broken> {
        Ok(match of {
            AwaitedOf::Entry {
                position,
                origin,
                is_atomic,
                is_digested,
            } => {
                self.replies = digest(&replies, is_atomic, &is_digested, self.replies);
                Done::Entry {
                    position,
                    origin,
                    replies,
                }
            }
            AwaitedOf::Read(number) => Done::Read { number, replies },
            AwaitedOf::Save(position) if replies.starts_with(b"+") => Done::Saving {
                position,
                replies: self.replies,
            },
            AwaitedOf::Save(_) => return Err(Broken(said("it does not save", &replies))),
        })
    }
}

fn said(what: &str, reply: &[u8]) -> String {
    format!("{what}: {}", String::from_utf8_lossy(reply).trim_end())
}

/// Refuses what is no answer to a call, and every error where the connection is set up.
fn check(reply: &[u8], is_set_up: bool) -> Result<(), Broken> {
    let is_of_server = OF_SERVERS.iter().any(|word| reply.starts_with(word));
    match is_of_server || is_set_up && reply.starts_with(b"-") {
        true => Err(Broken(said("it refuses to answer", reply))),
        false => Ok(()),
    }
}

/// Whether the reply to a call is equal on every server: writes' are, and what is read may have any order.
fn is_digested(call: &Call) -> bool {
    let command = find(&call.args[0]);
    command.is_some_and(|command| command.is_write() && command.name != "sort")
}

/// The digest behind some replies. Of an error its first word counts: versions of servers say more in their own words.
fn digest(replies: &[u8], is_atomic: bool, is_digested: &[bool], before: u64) -> u64 {
    let head = replies.iter().position(|byte| *byte == b'\n');
    let mut rest = match is_atomic && replies.starts_with(b"*") {
        true => &replies[head.map_or(0, |end| end + 1)..],
        false => replies,
    };
    let mut digest = before;
    for is_digested in is_digested {
        let Ok(Some(bytes)) = reply_bytes(rest) else {
            break;
        };
        let (reply, others) = rest.split_at(bytes);
        rest = others;
        if *is_digested {
            let first = reply.split(|byte| *byte == b' ').next();
            let counted = match reply.starts_with(b"-") {
                true => first.unwrap_or(reply),
                false => reply,
            };
            digest = xxh3_64_with_seed(counted, digest);
        }
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::body;

    fn request(db: u32, atomic: bool, calls: &[&str]) -> Request {
        let calls = calls.iter().map(|call| Call {
            args: call
                .split(' ')
                .map(|word| Bytes::copy_from_slice(word.as_bytes()))
                .collect(),
        });
        Request {
            db,
            atomic,
            calls: calls.collect(),
            ..Request::default()
        }
    }

    fn entry(number: u64, request: &Request) -> Entry {
        Entry::of(&body(Origin { boot: 1, number }, request)).expect("it is one")
    }

    fn words(pipe: &mut Pipe) -> Vec<String> {
        let text = String::from_utf8(pipe.take_output()).unwrap();
        let words = text
            .split("\r\n")
            .filter(|word| !word.starts_with(['*', '$']));
        words
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn replies_come_back_in_order_without_what_was_added() {
        let mut pipe = Pipe::new(0);
        pipe.entry(5, &entry(1, &request(0, false, &["incr a", "incr b"])))
            .unwrap();
        pipe.read(9, &request(2, false, &["get a"]));
        pipe.entry(6, &entry(2, &request(2, true, &["incr a", "select 0"])))
            .unwrap();
        pipe.save(7);
        pipe.entry(7, &entry(3, &request(0, false, &["incr a"])))
            .unwrap();
        assert_eq!(
            words(&mut pipe).join(" "),
            "incr a incr b SELECT 2 get a MULTI incr a select 0 EXEC BGSAVE SELECT 0 incr a"
        );
        let answers = b":1\r\n:1\r\n+OK\r\n$-1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n\
            *2\r\n:1\r\n+OK\r\n+Background\r\n+OK\r\n:2\r\n";
        let mut seen = Vec::new();
        // However the bytes arrive.
        for byte in answers {
            pipe.input().extend_from_slice(&[*byte]);
            seen.extend(pipe.next_done().unwrap());
        }
        let of = |position, number, replies: &'static str| Done::Entry {
            position,
            origin: Origin { boot: 1, number },
            replies: replies.into(),
        };
        let digest_at_save = match &seen[3] {
            Done::Saving {
                position: 7,
                replies,
            } => *replies,
            other => panic!("{other:?}"),
        };
        assert_eq!(seen[0], of(5, 1, ":1\r\n:1\r\n"));
        let read = Done::Read {
            number: 9,
            replies: "$-1\r\n".into(),
        };
        assert_eq!(seen[1], read);
        assert_eq!(seen[2], of(6, 2, "*2\r\n:1\r\n+OK\r\n"));
        assert_eq!(seen[4], of(7, 3, ":2\r\n"));
        assert_eq!((seen.len(), pipe.waiting()), (5, 0));
        assert_ne!(pipe.replies(), digest_at_save);
    }

    #[test]
    fn replies_to_writes_are_digested_and_texts_of_errors_are_not() {
        let digest_of = |calls: &[&str], answers: &[u8]| {
            let mut pipe = Pipe::new(0);
            pipe.entry(0, &entry(1, &request(0, false, calls))).unwrap();
            pipe.input().extend_from_slice(answers);
            pipe.next_done().unwrap();
            pipe.replies()
        };
        let incr = |answer: &[u8]| digest_of(&["incr a"], answer);
        assert_ne!(incr(b":1\r\n"), incr(b":2\r\n"));
        assert_eq!(incr(b"-ERR a\r\n"), incr(b"-ERR other words\r\n"));
        assert_ne!(incr(b"-ERR a\r\n"), incr(b"-WRONGTYPE a\r\n"));
        let read = |answer: &[u8]| digest_of(&["incr a", "hkeys h"], answer);
        assert_eq!(read(b":1\r\n*1\r\n+a\r\n"), read(b":1\r\n*1\r\n+b\r\n"));
    }

    #[test]
    fn a_server_that_speaks_of_itself_is_replaced() {
        for bytes in [&b"-OOM no\r\n"[..], b"-MISCONF no\r\n", b"what\r\n"] {
            let mut pipe = Pipe::new(0);
            pipe.entry(0, &entry(1, &request(0, false, &["incr a"])))
                .unwrap();
            pipe.input().extend_from_slice(bytes);
            assert!(pipe.next_done().is_err(), "{bytes:?}");
        }
        let mut pipe = Pipe::new(0);
        pipe.input().extend_from_slice(b"+OK\r\n");
        assert!(pipe.next_done().is_err(), "nothing was asked");
        let mut pipe = Pipe::new(0);
        pipe.read(1, &request(9, false, &["get a"]));
        pipe.input()
            .extend_from_slice(b"-ERR DB index is out of range\r\n$-1\r\n");
        assert!(pipe.next_done().is_err(), "it reads another database");
    }
}
