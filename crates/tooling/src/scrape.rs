//! Counters read from a server's Prometheus endpoint, before and after a run.

mod deadlines;

pub use deadlines::Deadlines;
use quorate_tls::{Connector, TlsError};
use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// What all scraped servers counted, summed.
///
/// The names differ between systems, the meaning does not, so the sums of etcd and of Quorate can
/// stand in one table.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counters {
    /// Flushes of the log to stable storage.
    pub log_syncs: f64,
    /// Flushes of anything else on the way of a write, such as etcd's backend commits.
    pub other_syncs: f64,
    /// Commands applied to the state machine.
    pub commands_applied: f64,
    /// Turns of the replicas' main loops.
    pub turns: f64,
    /// What is said of deadlines.
    pub deadlines: Deadlines,
}

impl Counters {
    /// Scrapes every URL and sums; `None` when no server answered.
    pub fn scrape(urls: &[String]) -> Option<Counters> {
        Counters::scrape_by(&Fetcher::default(), urls)
    }

    /// Scrapes every URL with a fetcher and sums; `None` when no server answered.
    pub fn scrape_by(fetcher: &Fetcher, urls: &[String]) -> Option<Counters> {
        let texts: Vec<String> = urls
            .iter()
            .filter_map(|url| fetcher.get(url, "/metrics").ok())
            .collect();
        if texts.is_empty() {
            return None;
        }
        Some(
            texts
                .iter()
                .map(|text| Counters::parse(text))
                .fold(Counters::default(), Counters::plus),
        )
    }

    /// What was counted between `earlier` and this scrape.
    pub fn since(self, earlier: Counters) -> Counters {
        Counters {
            log_syncs: self.log_syncs - earlier.log_syncs,
            other_syncs: self.other_syncs - earlier.other_syncs,
            commands_applied: self.commands_applied - earlier.commands_applied,
            turns: self.turns - earlier.turns,
            deadlines: self.deadlines.since(earlier.deadlines),
        }
    }

    fn parse(text: &str) -> Counters {
        let sum = |names: &[&str]| -> f64 {
            text.lines()
                .filter_map(sample)
                .filter(|(name, _)| names.contains(name))
                .map(|(_, value)| value)
                .sum()
        };
        // A server that speaks both vocabularies must not be counted twice: its own name wins.
        let first = |own: &str, others: &[&str]| match sum(&[own]) {
            0.0 => sum(others),
            own => own,
        };
        Counters {
            log_syncs: first(
                "quorate_log_syncs_total",
                &["etcd_disk_wal_fsync_duration_seconds_count"],
            ),
            other_syncs: match sum(&["quorate_log_syncs_total"]) {
                0.0 => sum(&["etcd_disk_backend_commit_duration_seconds_count"]),
                _ => 0.0,
            },
            commands_applied: first(
                "quorate_commands_applied_total",
                &["etcd_server_proposals_applied_total"],
            ),
            turns: sum(&["quorate_turns_total"]),
            deadlines: Deadlines::parse(text),
        }
    }

    fn plus(self, other: Counters) -> Counters {
        Counters {
            log_syncs: self.log_syncs + other.log_syncs,
            other_syncs: self.other_syncs + other.other_syncs,
            commands_applied: self.commands_applied + other.commands_applied,
            turns: self.turns + other.turns,
            deadlines: self.deadlines.plus(other.deadlines),
        }
    }
}

/// Fetches pages: in plain text, and over TLS where a URL says `https://`.
#[derive(Clone, Default)]
pub struct Fetcher {
    tls: Option<Arc<Connector>>,
    /// The value of the header that says who asks.
    authorization: Option<String>,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher")
            .field("tls", &self.tls)
            .field("is_authorized", &self.authorization.is_some())
            .finish()
    }
}

/// Fetches a path of a plain HTTP server and returns the body of a 200 answer.
pub fn get(url: &str, path: &str) -> Result<String, String> {
    Fetcher::default().get(url, path)
}

/// Gets a page within `patience`, for those who have less time.
pub fn get_within(url: &str, path: &str, patience: Duration) -> Result<String, String> {
    Fetcher::default().get_within(url, path, patience)
}

/// Posts a short text to a plain HTTP server: the status of its answer, and the body.
pub fn post(
    url: &str,
    path: &str,
    body: &str,
    patience: Duration,
) -> Result<(u16, String), String> {
    Fetcher::default().post(url, path, body, patience)
}

impl Fetcher {
    /// A fetcher that speaks TLS by these certificates; without them it knows only `http://`.
    pub fn new(tls: Option<Arc<Connector>>) -> Fetcher {
        Fetcher {
            tls,
            authorization: None,
        }
    }

    /// Sends a header that says who asks from now on, if this is the value of one.
    #[must_use]
    pub fn authorized(self, authorization: Option<String>) -> Fetcher {
        Fetcher {
            authorization,
            ..self
        }
    }

    /// Fetches a path: the status of the answer, and its body.
    pub fn fetch(&self, url: &str, path: &str) -> Result<(u16, String), String> {
        self.ask(url, &format!("GET {path}"), b"", PATIENCE)
    }

    /// Fetches a path and returns the body of a 200 answer.
    pub fn get(&self, url: &str, path: &str) -> Result<String, String> {
        self.get_within(url, path, PATIENCE)
    }

    fn get_within(&self, url: &str, path: &str, patience: Duration) -> Result<String, String> {
        match self.ask(url, &format!("GET {path}"), b"", patience)? {
            (200, body) => Ok(body),
            (status, _) => Err(format!("{url}{path}: status {status}")),
        }
    }

    /// Posts a short text: the status of the answer, and its body.
    pub fn post(
        &self,
        url: &str,
        path: &str,
        body: &str,
        patience: Duration,
    ) -> Result<(u16, String), String> {
        self.post_bytes(url, path, body.as_bytes(), patience)
    }

    /// Posts bytes: the status of the answer, and its body.
    pub fn post_bytes(
        &self,
        url: &str,
        path: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<(u16, String), String> {
        self.ask(url, &format!("POST {path}"), body, patience)
    }

    fn ask(
        &self,
        url: &str,
        what: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<(u16, String), String> {
        let stream = self.request(url, what, body, patience)?;
        let of_url = |error| format!("{url}: {}", in_words(&error, patience));
        let answer = read_to_end(stream).map_err(of_url)?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| format!("{url}: not an HTTP answer"))?;
        let status = status(head).ok_or_else(|| format!("{url}: not an HTTP answer"))?;
        Ok((status, body.to_owned()))
    }

    /// Fetches a path whose answer may be long: the status of the answer, and its body if the status is not 200. The
    /// body of a 200 answer is written to `out`; whether it is whole has to be seen from itself.
    ///
    /// # Errors
    /// When there is no answer, or it cannot be read or written to its end.
    pub fn download(
        &self,
        url: &str,
        path: &str,
        patience: Duration,
        out: &mut impl Write,
    ) -> Result<(u16, String), DownloadError> {
        let stream = self.request(url, &format!("GET {path}"), b"", patience);
        let mut stream = BufReader::new(stream.map_err(DownloadError::NotBegun)?);
        let of_url = |error: io::Error| {
            DownloadError::Begun(format!("{url}{path}: {}", in_words(&error, patience)))
        };
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
            let mut rest = stream.by_ref().take(HEAD_BYTES_MAX as u64);
            if rest.read_line(&mut head).map_err(of_url)? == 0 {
                break;
            }
        }
        match status(&head) {
            Some(200) => {
                io::copy(&mut stream, out).map_err(of_url)?;
                Ok((200, String::new()))
            }
            Some(status) => {
                let mut body = String::new();
                let mut rest = stream.take(HEAD_BYTES_MAX as u64);
                rest.read_to_string(&mut body).map_err(of_url)?;
                Ok((status, body))
            }
            None => Err(of_url(io::Error::other("not an HTTP answer"))),
        }
    }

    /// Connects, and sends a request.
    fn request(
        &self,
        url: &str,
        what: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<Box<dyn ReadWrite>, String> {
        let authority = authority(url)?;
        let address = authority
            .to_socket_addrs()
            .map_err(|error| format!("{url}: {error}"))?
            .next()
            .ok_or_else(|| format!("{url}: the name resolves to no address"))?;
        // HTTP/1.0 makes the server close the connection after an unchunked body.
        let length = body.len();
        let who = match &self.authorization {
            Some(value) => format!("Authorization: {value}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "{what} HTTP/1.0\r\nHost: {authority}\r\n{who}Content-Length: {length}\r\n\r\n"
        );
        let of_url = |error: io::Error| format!("{url}: {}", in_words(&error, patience));
        let stream = TcpStream::connect_timeout(&address, PATIENCE);
        let stream = stream.map_err(|error| match error.kind() {
            io::ErrorKind::TimedOut => format!("{url}: no connection in {} s", PATIENCE.as_secs()),
            _ => of_url(error),
        })?;
        stream.set_read_timeout(Some(patience)).map_err(of_url)?;
        let mut stream: Box<dyn ReadWrite> = match (url.starts_with(HTTPS), &self.tls) {
            (false, _) => Box::new(stream),
            (true, None) => {
                return Err(format!(
                    "{url}: it wants TLS, and no certificates are given"
                ));
            }
            (true, Some(tls)) => {
                let host = authority
                    .rsplit_once(':')
                    .map_or(authority, |(host, _)| host);
                let stream = tls.connect_blocking(stream, host, patience);
                Box::new(stream.map_err(|error| match error {
                    TlsError::Timeout => of_url(io::ErrorKind::TimedOut.into()),
                    error => format!("{url}: {error}"),
                })?)
            }
        };
        stream
            .write_all(&[request.as_bytes(), body].concat())
            .map_err(of_url)?;
        stream.flush().map_err(of_url)?;
        Ok(stream)
    }
}

/// A connection, encrypted or not.
trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// Why a file did not come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DownloadError {
    /// Nobody was asked for it: the connection or the request failed.
    NotBegun(String),
    /// The answer ended too early, or could not be written.
    Begun(String),
}

/// The status of an answer with this head.
fn status(head: &str) -> Option<u16> {
    head.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What an error of a connection says when somebody does not answer.
pub const NO_ANSWER: &str = "no answer in ";

/// An error of a connection, for people: a time-out is no riddle of the operating system.
fn in_words(error: &io::Error, patience: Duration) -> String {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("{NO_ANSWER}{} s", patience.as_secs_f64())
        }
        _ => {
            let text = error.to_string();
            let words = text.split_once(" (os error ");
            words.map_or_else(|| text.clone(), |(words, _)| words.to_owned())
        }
    }
}

/// Reads an answer to its end.
fn read_to_end(mut stream: impl Read) -> io::Result<String> {
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        // Servers end connections as they like: the answer says how long it is.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof && !answer.is_empty() => {}
        read => drop(read?),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// The `host:port` of an `http://host:port[/...]` URL, or one with `https://`.
pub fn authority(url: &str) -> Result<&str, String> {
    let rest = url
        .strip_prefix("http://")
        .or_else(|| url.strip_prefix(HTTPS));
    let rest = rest.unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(authority),
        _ => Err(format!(
            "'{url}' is not an endpoint: expected http://HOST:PORT"
        )),
    }
}

/// The sum of a metric's samples on a page of metrics.
pub fn value(page: &str, name: &str) -> f64 {
    let samples = page.lines().filter_map(sample);
    samples
        .filter(|(its, _)| *its == name)
        .map(|(_, value)| value)
        .sum()
}

/// The sum of those samples of a metric that have this label, written `name="value"`.
pub fn labelled(page: &str, name: &str, label: &str) -> f64 {
    let has_label = |line: &&str| {
        let labels = line
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'));
        labels.is_some_and(|(labels, _)| labels.split(',').any(|one| one == label))
    };
    let samples = page.lines().filter(has_label).filter_map(sample);
    samples
        .filter(|(its, _)| *its == name)
        .map(|(_, value)| value)
        .sum()
}

/// One `name{labels} value` line, labels dropped.
fn sample(line: &str) -> Option<(&str, f64)> {
    if line.starts_with('#') {
        return None;
    }
    let name = line.split(['{', ' ']).next()?;
    let rest = line
        .rsplit_once('}')
        .map_or_else(|| &line[name.len()..], |(_, rest)| rest);
    Some((name, rest.split_ascii_whitespace().next()?.parse().ok()?))
}

const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a head, or of a refusal, that are read at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
const HTTPS: &str = "https://";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let text = "# HELP x\nquorate_log_syncs_total{replica=\"0\"} 3\n\
                    quorate_log_syncs_total{replica=\"1\"} 4\nquorate_turns_total 9\n\
                    etcd_disk_wal_fsync_duration_seconds_count 100\n";
        let counters = Counters::parse(text);
        assert_eq!((counters.log_syncs, counters.turns), (7.0, 9.0));
    }

    #[test]
    fn etcd_is_read_by_its_own_names() {
        let text = "etcd_disk_wal_fsync_duration_seconds_count 10\n\
                    etcd_disk_backend_commit_duration_seconds_count 2\n\
                    etcd_server_proposals_applied_total 1.5e+03\n";
        let counters = Counters::parse(text);
        assert_eq!(counters.log_syncs, 10.0);
        assert_eq!(counters.other_syncs, 2.0);
        assert_eq!(counters.commands_applied, 1500.0);
    }

    /// Scenario: somebody takes connections and says nothing, as a frozen process does, by the kernel's grace.
    #[test]
    fn silence_is_said_to_be_silence() {
        let frozen = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", frozen.local_addr().unwrap());
        let patience = Duration::from_millis(20);
        let error = get_within(&url, "/status", patience).unwrap_err();
        assert_eq!(error, format!("{url}: no answer in 0.02 s"));
    }

    #[test]
    fn an_endpoint_needs_a_host_and_a_port() {
        assert_eq!(authority("http://127.0.0.1:2379/x"), Ok("127.0.0.1:2379"));
        assert_eq!(authority("localhost:1"), Ok("localhost:1"));
        assert!(authority("http://localhost").is_err());
        assert_eq!(authority("https://localhost:1"), Ok("localhost:1"));
    }
}
