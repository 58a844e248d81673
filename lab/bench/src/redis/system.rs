//! What is compared: started, waited for, stopped.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Serialize, Serializer};

use super::RedisArgs;
use super::servers::{RedisServers, ask};
use crate::cluster::Cluster;
use quorate_tooling::scrape;

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
        /// Where the data is, and which replicas clients go to.
        store: Store,
        /// Whether it is run by the other program.
        is_other: bool,
    },
}

/// Where the data of a cluster is, and which of its replicas clients go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Store {
    /// The data is in the embedded store, and clients go to all replicas.
    Embedded,
    /// The data is in real servers, and clients go to the replica that executes.
    Executor,
    /// The data is in real servers, and clients go to all replicas, most of which pass them on.
    Spread,
    /// The data is in real servers, each of which carries out all commands, and clients go to all replicas.
    Commands,
}

impl Store {
    /// What is before and behind the protocol's name in the name of a system.
    fn affixes(self) -> (&'static str, &'static str) {
        match self {
            Store::Embedded => ("", ""),
            Store::Executor => ("effects-", ""),
            Store::Spread => ("effects-", "-spread"),
            Store::Commands => ("commands-", ""),
        }
    }

    /// The options of `quorate up` for it, with this program as real server.
    fn options(self, server: &Path) -> Vec<String> {
        let server = format!("--redis-server={}", server.display());
        match self {
            Store::Embedded => Vec::new(),
            Store::Executor | Store::Spread => vec![server],
            Store::Commands => vec![server, "--redis-mode=commands".to_owned()],
        }
    }
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
        // Those that say more come first.
        let stores = [
            Store::Spread,
            Store::Executor,
            Store::Commands,
            Store::Embedded,
        ];
        let (protocol, store) = stores
            .into_iter()
            .find_map(|store| {
                let (before, behind) = store.affixes();
                let protocol = protocol.strip_prefix(before)?.strip_suffix(behind)?;
                Some((protocol, store))
            })
            .unwrap_or((protocol, Store::Embedded));
        let known = quorate_protocols::names();
        match known.contains(&protocol) {
            true => Ok(System::Quorate {
                protocol: protocol.to_owned(),
                store,
                is_other,
            }),
            false => Err(format!(
                "neither redis, wait-N nor one of {}, with effects- or commands- before it or not",
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
            System::Quorate {
                protocol,
                store,
                is_other,
            } => {
                let (before, behind) = store.affixes();
                let other = if *is_other { "-other" } else { "" };
                write!(f, "{before}{protocol}{behind}{other}")
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
                    servers: vec![servers.master()],
                    wait_for: (*replicas > 0).then_some(*replicas),
                    running: Processes::Redis(servers),
                })
            }
            System::Quorate {
                protocol,
                store,
                is_other,
            } => Started::start_quorate(args, protocol, *store, *is_other),
        }
    }

    fn start_quorate(
        args: &RedisArgs,
        protocol: &str,
        store: Store,
        is_other: bool,
    ) -> Result<Started, String> {
        let program = match args.other.as_ref().filter(|_| is_other) {
            Some(program) => program.clone(),
            None => args.place.binary()?,
        };
        let mut options = vec![
            "--face=redis".to_owned(),
            format!("--protocol={protocol}"),
            format!("--durability={}", args.durability.name()),
        ];
        options.extend(store.options(&args.redis_server));
        options.extend_from_slice(&args.quorate_option);
        let cluster = Cluster::quorate(&program, args.replicas, args.place.parent(), &options)?;
        let host = |url: &String| url.rsplit('/').next().map(str::to_owned);
        let mut servers: Vec<String> = cluster.endpoints.iter().filter_map(host).collect();
        match store {
            Store::Executor => servers = vec![executor(&servers)?],
            _ if args.asked > 0 => servers.truncate(args.asked),
            _ => {}
        }
        Ok(Started {
            servers,
            wait_for: None,
            running: Processes::Quorate(cluster),
        })
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

/// The replica that executes, of those that serve clients there.
fn executor(servers: &[String]) -> Result<String, String> {
    let deadline = Instant::now() + EXECUTOR_PATIENCE;
    let first = servers.first().ok_or("there is no replica")?;
    let admin = ask(first, ADMIN).map_err(|error| format!("{first}: {error}"))?;
    let admin = admin.lines().last().unwrap_or_default();
    loop {
        // Replicas claim to execute where a client waits.
        let served = ask(first, b"PING\r\n").is_ok_and(|answer| answer.starts_with("+PONG"));
        let page = scrape::get(&format!("http://{admin}"), "/redis")?;
        let page: serde_json::Value = serde_json::from_str(&page)
            .map_err(|error| format!("http://{admin}/redis: {error}"))?;
        let number = page["executor"]
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        let named = number.and_then(|number| servers.get(number.checked_sub(1)?));
        match named.filter(|_| served) {
            Some(named) => return Ok(named.clone()),
            None if Instant::now() > deadline => return Err(format!("{first} knows no executor")),
            None => std::thread::sleep(POLL),
        }
    }
}

/// What asks for the address of operators.
const ADMIN: &[u8] = b"*2\r\n$7\r\nQUORATE\r\n$5\r\nADMIN\r\n";
const EXECUTOR_PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_named_as_they_are_shown() {
        for text in [
            "redis",
            "wait-2",
            "rabia",
            "multi-paxos-other",
            "effects-nezha",
            "effects-rabia-spread-other",
            "commands-multi-paxos",
        ] {
            assert_eq!(System::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "wait-0",
            "wait-x",
            "paxos-raft",
            "redis-other",
            "rabia-spread",
            "commands-rabia-spread",
        ] {
            assert!(System::parse(bad).is_err(), "{bad}");
        }
    }
}
