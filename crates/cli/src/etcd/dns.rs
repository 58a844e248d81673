//! SRV records, asked for as resolvers do: of the servers in `/etc/resolv.conf`, by UDP, and by TCP where an answer is
//! too long for that.

use rustix::rand::{GetRandomFlags, getrandom};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// The file that says whom to ask.
const RESOLVERS: &str = "/etc/resolv.conf";
/// The most servers that are asked, as in other resolvers.
const SERVERS_MAX: usize = 3;
/// How often each server is asked.
const ATTEMPTS: usize = 2;
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most records that are taken from an answer.
const RECORDS_MAX: usize = 256;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;
const PORT: u16 = 53;
const TYPE_SRV: u16 = 33;
const CLASS_IN: u16 = 1;
/// What is behind the question in a record, up to its length: type, class, time to live.
const RECORD_HEAD_BYTES: usize = 8;

/// Where a service is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Service {
    /// The name of a host, without a dot at its end.
    pub(super) host: String,
    pub(super) port: u16,
}

/// The servers that this machine asks.
pub(super) fn servers() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string(RESOLVERS).unwrap_or_default();
    let mut servers = listed(&text);
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

fn listed(text: &str) -> Vec<SocketAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver")
            && let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>)
        {
            servers.push((address, PORT).into());
        }
    }
    servers.truncate(SERVERS_MAX);
    servers
}

/// The services behind a name, by the first server that answers.
///
/// # Errors
/// That there is none, or that no server answers.
pub(super) fn services(name: &str, servers: &[SocketAddr]) -> Result<Vec<Service>, String> {
    let mut why = "there is nobody to ask".to_owned();
    for server in (0..ATTEMPTS).flat_map(|_| servers) {
        match ask(name, *server) {
            Ok(Some(found)) if !found.is_empty() => return Ok(found),
            Ok(_) => return Err(format!("there are no SRV records of {name}")),
            Err(error) => why = format!("{server}: {error}"),
        }
    }
    Err(format!("cannot look up SRV records of {name}: {why}"))
}

/// Asks one server; `None` if it knows that the name does not exist.
fn ask(name: &str, server: SocketAddr) -> io::Result<Option<Vec<Service>>> {
    let mut id = [0; 2];
    getrandom(&mut id[..], GetRandomFlags::empty())?;
    let question = question(name, id).ok_or_else(|| invalid("the name is too long"))?;
    let answer = by_udp(&question, server)?;
    match Message(&answer).read(&question)? {
        Answer::Truncated => {
            let answer = by_tcp(&question, server)?;
            match Message(&answer).read(&question)? {
                Answer::Truncated => Err(invalid("the answer is cut off")),
                answer => answer.found(),
            }
        }
        answer => answer.found(),
    }
}

fn by_udp(question: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server.is_ipv4() {
        true => Ipv4Addr::UNSPECIFIED.into(),
        false => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(server)?;
    socket.send(question)?;
    let until = Instant::now() + TIMEOUT;
    let mut bytes = vec![0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        socket.set_read_timeout(Some(left))?;
        let count = socket.recv(&mut bytes)?;
        // What answers another question is somebody else's, or a forgery.
        if Message(&bytes[..count]).is_about(question) {
            bytes.truncate(count);
            return Ok(bytes);
        }
    }
}

fn by_tcp(question: &[u8], server: SocketAddr) -> io::Result<Vec<u8>> {
    let mut connection = TcpStream::connect_timeout(&server, TIMEOUT)?;
    connection.set_read_timeout(Some(TIMEOUT))?;
    connection.set_write_timeout(Some(TIMEOUT))?;
    let length = (question.len() as u16).to_be_bytes();
    connection.write_all(&[&length, question].concat())?;
    let mut length = [0; 2];
    connection.read_exact(&mut length)?;
    let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
    connection.read_exact(&mut answer)?;
    match Message(&answer).is_about(question) {
        true => Ok(answer),
        false => Err(invalid("it answers another question")),
    }
}

/// The bytes of a question for SRV records; `None` if a name cannot be like this.
fn question(name: &str, id: [u8; 2]) -> Option<Vec<u8>> {
    let mut bytes = id.to_vec();
    // It is to be answered in full by the server, which asks on; one question, nothing else.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    let name = name.strip_suffix('.').unwrap_or(name);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok()?;
        if length == 0 || length > 63 {
            return None;
        }
        bytes.push(length);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend(TYPE_SRV.to_be_bytes());
    bytes.extend(CLASS_IN.to_be_bytes());
    (name.len() < NAME_BYTES_MAX).then_some(bytes)
}

/// What a server says.
#[derive(Debug)]
enum Answer {
    Found(Vec<Service>),
    NoSuchName,
    /// There was no room for all of it.
    Truncated,
}

impl Answer {
    fn found(self) -> io::Result<Option<Vec<Service>>> {
        match self {
            Answer::Found(found) => Ok(Some(found)),
            Answer::NoSuchName => Ok(None),
            Answer::Truncated => Err(invalid("the answer is cut off")),
        }
    }
}

/// The bytes of an answer.
struct Message<'a>(&'a [u8]);

const HEAD_BYTES: usize = 12;

impl Message<'_> {
    /// Whether it is an answer to this question.
    fn is_about(&self, question: &[u8]) -> bool {
        let same = |range: std::ops::Range<usize>| {
            let (mine, asked) = (self.0.get(range.clone()), question.get(range));
            mine.zip(asked)
                .is_some_and(|(mine, asked)| mine.eq_ignore_ascii_case(asked))
        };
        same(0..2) && same(4..6) && same(HEAD_BYTES..question.len()) && self.0[2] & 0x80 != 0
    }

    fn read(&self, question: &[u8]) -> io::Result<Answer> {
        let damaged = || invalid("the answer is damaged");
        let head = self.0.get(..HEAD_BYTES).ok_or_else(damaged)?;
        if head[2] & 2 != 0 {
            return Ok(Answer::Truncated);
        }
        match head[3] & 15 {
            0 => {}
            3 => return Ok(Answer::NoSuchName),
            code => return Err(invalid(&format!("the server says error {code}"))),
        }
        let count = usize::from(u16::from_be_bytes([head[6], head[7]]));
        let found = self.records(question.len(), count.min(RECORDS_MAX));
        found.map(Answer::Found).ok_or_else(damaged)
    }

    /// The services among so many records that begin at `at`; `None` if these are none.
    fn records(&self, mut at: usize, count: usize) -> Option<Vec<Service>> {
        let mut found = Vec::new();
        for _ in 0..count {
            at = self.name(at)?.1;
            let (kind, class) = (self.word(at)?, self.word(at + 2)?);
            let length = usize::from(self.word(at + RECORD_HEAD_BYTES)?);
            let data = at + RECORD_HEAD_BYTES + 2;
            at = data + length;
            if (kind, class) == (TYPE_SRV, CLASS_IN) {
                // Behind priority and weight: all of them are wanted, in no order.
                let (port, (host, _)) = (self.word(data + 4)?, self.name(data + 6)?);
                found.push(Service { host, port });
            }
        }
        (at <= self.0.len()).then_some(found)
    }

    fn word(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// The name at a place, and where what follows it begins.
    fn name(&self, mut at: usize) -> Option<(String, usize)> {
        let mut name = String::new();
        let mut end = None;
        loop {
            let length = usize::from(*self.0.get(at)?);
            match length >> 6 {
                0 if length == 0 => return Some((name, end.unwrap_or(at + 1))),
                0 => {
                    let label = self.0.get(at + 1..at + 1 + length)?;
                    if !name.is_empty() {
                        name.push('.');
                    }
                    name.push_str(str::from_utf8(label).ok()?);
                    at += 1 + length;
                }
                // The rest is somewhere before this: so it ends.
                3 => {
                    let to = usize::from(self.word(at)? & 0x3fff);
                    end = end.or(Some(at + 2));
                    at = (to < at).then_some(to)?;
                }
                _ => return None,
            }
            if name.len() > NAME_BYTES_MAX {
                return None;
            }
        }
    }
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

#[cfg(test)]
mod tests;
