//! A Redis and its replicas: started, waited for, stopped.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Durability, RedisArgs};
use quorate_tooling::cleanup::TempDir;
use quorate_tooling::launch::{Launch, Running, StandardOutput, last_lines};
use quorate_tooling::ports::free_ports;
use quorate_tooling::process;

/// A master and its replicas.
#[derive(Debug)]
pub(super) struct RedisServers {
    /// The master's port; those of replicas follow.
    base: u16,
    servers: Vec<Running>,
    directory: TempDir,
}

impl RedisServers {
    pub(super) fn start(args: &RedisArgs, replicas: u8) -> Result<RedisServers, String> {
        let count = u16::from(replicas) + 1;
        let mut started = RedisServers {
            base: free_ports(count)?,
            servers: Vec::new(),
            directory: TempDir::new(args.place.parent()).map_err(|error| error.to_string())?,
        };
        for index in 0..count {
            started.start_one(&args.redis_server, index, args.durability)?;
        }
        started.await_replicas(replicas)?;
        Ok(started)
    }

    fn start_one(
        &mut self,
        program: &Path,
        index: u16,
        durability: Durability,
    ) -> Result<(), String> {
        let folder = self.directory.path().join(format!("redis-{index}"));
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let appends = match durability {
            Durability::Memory => "no",
            Durability::Disk => "yes",
        };
        let mut arguments: Vec<String> = [
            ("--port", (self.base + index).to_string()),
            ("--bind", "127.0.0.1".to_owned()),
            ("--dir", folder.display().to_string()),
            ("--save", String::new()),
            ("--appendonly", appends.to_owned()),
            ("--appendfsync", "always".to_owned()),
            ("--repl-diskless-sync-delay", "0".to_owned()),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        if index > 0 {
            let master = [self.base.to_string()];
            arguments.extend(["--replicaof".to_owned(), "127.0.0.1".to_owned()]);
            arguments.extend(master);
        }
        let log = self.directory.path().join(format!("redis-{index}.log"));
        let launch = Launch {
            output: StandardOutput::Logged,
            ..Launch::new(program, arguments, log)
        };
        self.servers.push(launch.start()?);
        Ok(())
    }

    /// Where the master listens.
    pub(super) fn master(&self) -> String {
        format!("127.0.0.1:{}", self.base)
    }

    /// Waits until the master has so many replicas that have acknowledged a write.
    fn await_replicas(&mut self, replicas: u8) -> Result<(), String> {
        let (deadline, mut has_written) = (Instant::now() + START_PATIENCE, false);
        loop {
            let told = ask(&self.master(), b"INFO replication\r\n").unwrap_or_default();
            let are_online =
                !told.is_empty() && told.matches("state=online").count() >= replicas.into();
            if are_online && !has_written {
                has_written = ask(&self.master(), b"SET first 1\r\n").is_ok();
            } else if are_online && have_all(&told, replicas) {
                return Ok(());
            }
            self.check_alive()?;
            if Instant::now() > deadline {
                return Err("Redis did not start, or its replicas do not follow it".to_owned());
            }
            std::thread::sleep(POLL);
        }
    }

    pub(super) fn pids(&self) -> Vec<u32> {
        let servers = self.servers.iter();
        servers
            .flat_map(|server| process::descendants(server.pid()))
            .collect()
    }

    pub(super) fn check_alive(&mut self) -> Result<(), String> {
        for (index, server) in self.servers.iter_mut().enumerate() {
            if let Some(how) = server.ended() {
                let log = self.directory.path().join(format!("redis-{index}.log"));
                let words = last_lines(&log, 3);
                return Err(format!("a Redis ended with {how}: {words}"));
            }
        }
        Ok(())
    }
}

impl Drop for RedisServers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            server.stop(STOP_PATIENCE);
        }
    }
}

/// Whether so many replicas have acknowledged all that the master has, as its `INFO replication` tells.
fn have_all(told: &str, replicas: u8) -> bool {
    let mut lines = told.lines();
    let all = lines.find_map(|line| line.strip_prefix("master_repl_offset:"));
    let acknowledged = all.map(|all| told.matches(&format!(",offset={all},")).count());
    acknowledged.is_some_and(|count| count >= replicas.into())
}

/// What a Redis answers to a question whose answer is one string.
pub(super) fn ask(server: &str, question: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(ANSWER_PATIENCE))?;
    stream.write_all(question)?;
    let (mut answer, mut space) = (Vec::new(), [0; 4096]);
    while !matches!(quorate_resp::reply_bytes(&answer), Ok(Some(_)) | Err(_)) {
        match stream.read(&mut space)? {
            0 => break,
            read => answer.extend_from_slice(&space[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

const START_PATIENCE: Duration = Duration::from_secs(60);
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_there_once_they_have_acknowledged_everything() {
        let told = |offset: u32| {
            format!(
                "slave0:ip=a,state=online,offset=42,lag=0\r\nslave1:ip=a,state=online,offset={offset},lag=0\r\n\
                 master_repl_offset:42\r\n"
            )
        };
        assert!(have_all(&told(42), 2));
        assert!(have_all(&told(0), 1) && !have_all(&told(0), 2));
        assert!(!have_all("", 0));
    }
}
