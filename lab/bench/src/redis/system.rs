//! What is compared: started, waited for, stopped.

use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use super::{Durability, RedisArgs};
use crate::cluster::Cluster;
use quorate_tooling::cleanup::TempDir;
use quorate_tooling::launch::{Launch, Running, StandardOutput, last_lines};
use quorate_tooling::ports::free_ports;
use quorate_tooling::process;

/// A system to compare.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum System {
    /// One Redis, and as many replicas, all of which each batch waits for.
    Redis {
        /// The number of replicas.
        replicas: u8,
    },
    /// A cluster of Quorate under a protocol.
    Quorate {
        /// The protocol's name.
        protocol: String,
        /// Whether it is run by the other program.
        is_other: bool,
    },
}

impl System {
    /// Reads what the option `--systems` names.
    pub(super) fn parse(text: &str) -> Result<System, String> {
        if text == "redis" {
            return Ok(System::Redis { replicas: 0 });
        }
        if let Some(replicas) = text.strip_prefix("wait-") {
            let replicas = replicas
                .parse()
                .ok()
                .filter(|count| (1..=8).contains(count));
            let replicas = replicas.ok_or("wait-N: from 1 to 8 replicas")?;
            return Ok(System::Redis { replicas });
        }
        let (protocol, is_other) = match text.strip_suffix("-other") {
            Some(protocol) => (protocol, true),
            None => (text, false),
        };
        let known = quorate_protocols::names();
        match known.contains(&protocol) {
            true => Ok(System::Quorate {
                protocol: protocol.to_owned(),
                is_other,
            }),
            false => Err(format!(
                "neither redis, wait-N nor one of {}",
                known.join(", ")
            )),
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            System::Redis { replicas: 0 } => f.write_str("redis"),
            System::Redis { replicas } => write!(f, "wait-{replicas}"),
            System::Quorate { protocol, is_other } => {
                f.write_str(protocol)?;
                f.write_str(if *is_other { "-other" } else { "" })
            }
        }
    }
}

impl Serialize for System {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A system that serves.
#[derive(Debug)]
pub(super) struct Started {
    /// Where clients go, as `host:port`.
    pub(super) servers: Vec<String>,
    /// Replicas that each batch of writes waits for.
    pub(super) wait_for: Option<u8>,
    running: Processes,
}

#[derive(Debug)]
enum Processes {
    Redis(RedisServers),
    Quorate(Cluster),
}

impl Started {
    pub(super) fn start(args: &RedisArgs, system: &System) -> Result<Started, String> {
        match system {
            System::Redis { replicas } => {
                let servers = RedisServers::start(args, *replicas)?;
                Ok(Started {
                    servers: vec![address(servers.base)],
                    wait_for: (*replicas > 0).then_some(*replicas),
                    running: Processes::Redis(servers),
                })
            }
            System::Quorate { protocol, is_other } => {
                let program = match args.other.as_ref().filter(|_| *is_other) {
                    Some(program) => program.clone(),
                    None => args.place.binary()?,
                };
                let mut options = vec![
                    "--face=redis".to_owned(),
                    format!("--protocol={protocol}"),
                    format!("--durability={}", args.durability.name()),
                ];
                options.extend_from_slice(&args.quorate_option);
                let cluster =
                    Cluster::quorate(&program, args.replicas, args.place.parent(), &options)?;
                let host = |url: &String| url.rsplit('/').next().map(str::to_owned);
                let mut servers: Vec<String> = cluster.endpoints.iter().filter_map(host).collect();
                if args.asked > 0 {
                    servers.truncate(args.asked);
                }
                Ok(Started {
                    servers,
                    wait_for: None,
                    running: Processes::Quorate(cluster),
                })
            }
        }
    }

    /// Every process of the system.
    pub(super) fn pids(&self) -> Vec<u32> {
        match &self.running {
            Processes::Redis(servers) => servers.pids(),
            Processes::Quorate(cluster) => cluster.pids(),
        }
    }

    /// Fails if a process has ended.
    pub(super) fn check_alive(&mut self) -> Result<(), String> {
        match &mut self.running {
            Processes::Redis(servers) => servers.check_alive(),
            Processes::Quorate(cluster) => cluster.check_alive(),
        }
    }
}

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// A master and its replicas.
#[derive(Debug)]
struct RedisServers {
    /// The master's port; those of replicas follow.
    base: u16,
    servers: Vec<Running>,
    directory: TempDir,
}

impl RedisServers {
    fn start(args: &RedisArgs, replicas: u8) -> Result<RedisServers, String> {
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

    /// Waits until the master has so many replicas that follow.
    fn await_replicas(&mut self, replicas: u8) -> Result<(), String> {
        let deadline = Instant::now() + START_PATIENCE;
        loop {
            let told = ask(&address(self.base), b"INFO replication\r\n").unwrap_or_default();
            if !told.is_empty() && told.matches("state=online").count() >= replicas.into() {
                return Ok(());
            }
            self.check_alive()?;
            if Instant::now() > deadline {
                return Err("Redis did not start, or its replicas do not follow it".to_owned());
            }
            std::thread::sleep(POLL);
        }
    }

    fn pids(&self) -> Vec<u32> {
        let servers = self.servers.iter();
        servers
            .flat_map(|server| process::descendants(server.pid()))
            .collect()
    }

    fn check_alive(&mut self) -> Result<(), String> {
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

/// What a Redis answers to a question whose answer is one string.
fn ask(server: &str, question: &[u8]) -> std::io::Result<String> {
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
    fn systems_are_named_as_they_are_shown() {
        for text in ["redis", "wait-2", "rabia", "multi-paxos-other"] {
            assert_eq!(System::parse(text).unwrap().to_string(), text);
        }
        for bad in ["", "wait-0", "wait-x", "raft", "redis-other"] {
            assert!(System::parse(bad).is_err(), "{bad}");
        }
    }
}
