//! The real servers behind replicas: which they are, and whether they have the same data.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use clap::ValueEnum;
use quorate_resp::{Reply, encode_request};
use rustix::process::{Pid, Signal, kill_process};

use super::operators_url;
use crate::faults::operators::operate;
use quorate_tooling::scrape;

/// What real servers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// One server executes for all.
    Effects,
    /// Each server carries out every command.
    Commands,
}

/// Real servers, one for each replica.
#[derive(Debug, Clone)]
pub(super) struct RealServers {
    /// The program to run; empty for the first in `PATH`.
    program: String,
    mode: Mode,
}

impl RealServers {
    pub(super) fn new(program: String, mode: Mode) -> RealServers {
        RealServers { program, mode }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// The options of `quorate up` for them.
    pub(super) fn options(&self) -> [String; 2] {
        let mode = match self.mode {
            Mode::Effects => "effects",
            Mode::Commands => "commands",
        };
        let server = match self.program.is_empty() {
            true => "--redis-server".to_owned(),
            false => format!("--redis-server={}", self.program),
        };
        [server, format!("--redis-mode={mode}")]
    }

    /// Compares what servers have: where one executes, what each has of keys that begin with this, when it is its turn;
    /// where each carries out all commands, what it was told and what it replied.
    pub(super) fn differ(
        &self,
        binary: &Path,
        endpoints: &[String],
        prefix: &str,
        patience: Duration,
    ) -> Result<(), String> {
        match self.mode {
            Mode::Effects => data_differs(binary, endpoints, prefix, patience),
            Mode::Commands => replies_differ(endpoints, patience),
        }
    }
}

/// Makes every replica the executor in turn, and compares what their servers have of keys that begin with this.
fn data_differs(
    binary: &Path,
    endpoints: &[String],
    prefix: &str,
    patience: Duration,
) -> Result<(), String> {
    let mut digests = Vec::new();
    for replica in 1..=endpoints.len() {
        let deadline = Instant::now() + patience;
        let digest = loop {
            let moved = operate(binary, &["redis", "move", &replica.to_string()], endpoints);
            let digest = moved.and_then(|_| digest(&endpoints[0], prefix, patience));
            match digest {
                Err(why) if Instant::now() > deadline => return Err(why),
                Err(_) => std::thread::sleep(AGAIN),
                Ok(digest) => break digest,
            }
        };
        digests.push(digest);
    }
    match digests.iter().all(|digest| *digest == digests[0]) {
        true => Ok(()),
        false => Err(format!("the servers have different data: {digests:?}")),
    }
}

/// Waits until all servers have carried out everything, and compares what that was.
fn replies_differ(endpoints: &[String], patience: Duration) -> Result<(), String> {
    let deadline = Instant::now() + patience;
    loop {
        let pages = (0..endpoints.len()).map(|index| {
            let page = scrape::get(&operators_url(endpoints, index)?, "/redis")?;
            serde_json::from_str(&page).map_err(|why| format!("{page}: {why}"))
        });
        let pages: Vec<serde_json::Value> = pages.collect::<Result<_, String>>()?;
        let are_equal = |names: &[&str]| {
            let mut names = names.iter();
            names.all(|name| pages.iter().all(|page| page[name] == pages[0][name]))
        };
        let is_through = |page: &serde_json::Value| page["offset"] == page["server_offset"];
        match pages.iter().all(is_through) && are_equal(&["offset"]) {
            true if are_equal(&["digest", "replies_digest"]) => return Ok(()),
            true => return Err(format!("the servers gave different replies: {pages:?}")),
            false if Instant::now() > deadline => {
                return Err(format!("the servers are not equally far: {pages:?}"));
            }
            false => std::thread::sleep(AGAIN),
        }
    }
}

/// Signals the servers that a replica runs.
pub(super) fn signal(replica: u32, signal: Signal) {
    let threads = fs::read_dir(format!("/proc/{replica}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    for list in lists {
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        for pid in pids.filter_map(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, signal);
        }
    }
}

/// A digest of the executor's keys that begin with this, which does not depend on the order within its tables.
fn digest(url: &str, prefix: &str, patience: Duration) -> Result<String, String> {
    let pattern = format!("{prefix}*");
    match ask(url, &["EVAL", DIGEST, "0", &pattern], patience)? {
        Reply::Bulk(digest) => Ok(String::from_utf8_lossy(&digest).into_owned()),
        other => Err(format!("{url} has no digest: {other:?}")),
    }
}

/// The reply to a request on a connection of its own.
pub(super) fn ask(url: &str, words: &[&str], patience: Duration) -> Result<Reply, String> {
    let address = url.rsplit('/').next().unwrap_or_default();
    let failed = |error: std::io::Error| format!("{url}: {error}");
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(patience)).map_err(failed)?;
    let mut request = Vec::new();
    encode_request(words, &mut request);
    stream.write_all(&request).map_err(failed)?;
    let mut input = BytesMut::new();
    loop {
        if let Some(reply) = Reply::take(&mut input).map_err(|_| format!("{url}: no reply"))? {
            return Ok(reply);
        }
        let mut space = [0; 4096];
        match stream.read(&mut space).map_err(failed)? {
            0 => return Err(format!("{url}: the connection was closed")),
            read => input.extend_from_slice(&space[..read]),
        }
    }
}

/// The pause before replicas are asked again.
const AGAIN: Duration = Duration::from_millis(50);
/// Names, values and times to live, in the order of names.
const DIGEST: &str = "local keys=redis.call('keys',ARGV[1]) table.sort(keys) local sum='' \
    for _,key in ipairs(keys) do local kind=redis.call('type',key).ok local value \
    if kind=='string' then value=redis.call('get',key) \
    elseif kind=='set' then local all=redis.call('smembers',key) table.sort(all) value=table.concat(all,',') \
    else value=redis.call('dump',key) end \
    sum=redis.sha1hex(sum..key..'='..value..'@'..redis.call('pexpiretime',key)) end return sum";
