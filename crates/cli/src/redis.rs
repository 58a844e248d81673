//! `quorate redis`: which replica's server executes, how far the others are, and what they hold as a file.

mod cluster;
mod convert;
mod cutover;
mod export;
mod feed;
mod follower;
mod import;
mod moving;
mod own_commands;
mod source;
mod spool;

use crate::Failure;
use crate::endpoints::{Asked, Endpoints};
use clap::{Args, Subcommand};
use cutover::CutoverOptions;
use export::ExportOptions;
use import::{AbandonOptions, ImportOptions};
use moving::MoveOptions;
use quorate_server::first_url;
use serde_json::Value;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a replica says what its server does, or how far the data of another server is in its own store.
const PAGE: &str = "/redis";
/// Where the data of replicas without a real server is.
const OWN_STORE: &str = "the data of this cluster is in a store of Quorate's own";
/// The role of such a replica on its page.
const OWN: &str = "own";

/// What to show or to change of the real servers behind the Redis face.
#[derive(Subcommand, Debug)]
pub(crate) enum RedisCommand {
    /// Show which replica's server executes commands, and how far the others are
    Status(Common),
    /// Have another replica's server execute commands: clients reconnect
    Move(MoveOptions),
    /// Write everything that the cluster holds to an RDB file, which Redis and Valkey load
    Export(ExportOptions),
    /// Bring over everything that a running Redis or Valkey has, and follow it until the cutover
    Import(Box<ImportOptions>),
    /// Have the cluster take over from the server that it follows
    Cutover(CutoverOptions),
    /// Give up an import: the cluster is emptied, and serves clients
    Abandon(AbandonOptions),
}

/// The options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    endpoints: Endpoints,
}

/// A replica, and what it says of its server.
struct Server {
    id: u16,
    /// The address for operators.
    url: String,
    page: Result<Value, String>,
    /// The page of a replica that has a store of its own in the place of a server.
    own: Option<Value>,
    /// When it was asked and when it had answered, by the clock of this machine, in us since the Unix epoch.
    asked_us: (i64, i64),
}

/// How far a clock is ahead of this machine's, and by how much that may be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ahead {
    us: i64,
    within_us: i64,
}

impl Server {
    /// The replica's clock against this machine's, if it told of its clock: it was read while it was asked.
    fn ahead(&self) -> Option<Ahead> {
        let told = self.page.as_ref().ok()?["clock_us"].as_i64()?;
        let (asked, answered) = self.asked_us;
        Some(Ahead {
            us: told - (asked + (answered - asked) / 2),
            within_us: (answered - asked + 1) / 2,
        })
    }

    /// The role of the replica, in a word; none if it does not answer, or has no real server.
    fn role(&self) -> &str {
        let page = self.page.as_ref().ok();
        page.and_then(|page| page["role"].as_str())
            .unwrap_or_default()
    }

    /// A number on its page; 0 if it does not answer.
    fn number(&self, name: &str) -> u64 {
        let page = self.page.as_ref().ok();
        page.and_then(|page| page[name].as_u64())
            .unwrap_or_default()
    }

    /// Whether its users are not those of a replica with this page.
    fn has_other_users(&self, page: &Value) -> bool {
        let own = self.page.as_ref().ok().map(|own| &own["users_mark"]);
        own.is_some_and(|own| *own != page["users_mark"])
    }

    /// The replica's clock against that of another one, for people.
    fn clock(&self, other: &Server) -> Option<String> {
        let (own, other) = (self.ahead()?, other.ahead()?);
        let ms = |us: i64| us as f64 / 1000.0;
        let within = ms(own.within_us + other.within_us);
        Some(format!("{:+.1}±{within:.1} ms", ms(own.us - other.us)))
    }
}

/// The clock of this machine, in us since the Unix epoch.
fn clock_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// Runs a subcommand of `quorate redis`.
pub(crate) fn run(command: &RedisCommand) -> Result<(), Failure> {
    match command {
        RedisCommand::Status(common) => {
            let servers = servers(&common.endpoints.open()?)?;
            print!("{}{}", table(&servers), import_line(&servers));
            Ok(())
        }
        RedisCommand::Move(options) => moving::run(options),
        RedisCommand::Export(options) => export::run(options),
        RedisCommand::Import(options) => import::run(options),
        RedisCommand::Cutover(options) => cutover::run(options),
        RedisCommand::Abandon(options) => import::abandon(options),
    }
}

/// All replicas, as far as they answer. They are asked at once: one that is frozen takes its time.
fn servers(asked: &Asked) -> Result<Vec<Server>, Failure> {
    let status = asked.first_status_page()?;
    let members = status.members.iter();
    let members = members.map(|member| (member.replica_id, first_url(&member.client_url)));
    Ok(std::thread::scope(|scope| {
        let asking: Vec<_> = members
            .map(|(id, url)| scope.spawn(move || server(asked, id, url)))
            .collect();
        let servers = asking.into_iter().filter_map(|asking| asking.join().ok());
        servers.collect()
    }))
}

/// A replica, and what it says of its server.
fn server(asked: &Asked, id: u16, url: &str) -> Server {
    let asked_us = clock_us();
    let told: Result<Option<Value>, String> = match asked.find(url, PAGE) {
        Ok(Some(text)) => {
            serde_json::from_str(&text).map_err(|error| format!("{url}{PAGE}: {error}"))
        }
        Ok(None) => Ok(None),
        Err(why) => Err(why),
    };
    let without = || Err(format!("it has no real server: {OWN_STORE}"));
    let (page, own) = match told {
        Ok(Some(page)) if page["role"] == OWN => (without(), Some(page)),
        Ok(Some(page)) => (Ok(page), None),
        Ok(None) => (without(), None),
        Err(why) => (Err(why), None),
    };
    Server {
        id,
        url: url.to_owned(),
        page,
        own,
        asked_us: (asked_us, clock_us()),
    }
}

fn table(servers: &[Server]) -> String {
    let mut out =
        String::from("replica  role           offset        lag  clients  clock          server\n");
    let executor = executor(servers);
    for server in servers {
        let id = server.id;
        out += &match &server.page {
            Err(why) => format!("{id:>7}  {why}\n"),
            Ok(page) => {
                let text = |name: &str| page[name].as_str().unwrap_or_default().to_owned();
                let number = |name: &str| page[name].as_u64().unwrap_or_default();
                format!(
                    "{id:>7}  {:<13}  {:>6}  {:>9}  {:>7}  {:<13}  {}{}\n",
                    text("role"),
                    number("offset"),
                    number("lag_bytes") + number("lag"),
                    number("clients"),
                    executor
                        .filter(|executor| executor.id != id)
                        .and_then(|executor| server.clock(executor))
                        .unwrap_or_default(),
                    text("server"),
                    match text("failure") {
                        why if !why.is_empty() => format!(": {why}"),
                        _ if executor.is_some_and(|executor| executor.has_other_users(page)) =>
                            ": its users (--redis-acl-file, --requirepass) are not those of the executor"
                                .to_owned(),
                        _ => String::new(),
                    }
                )
            }
        };
    }
    out
}

/// What is said of an import, if one goes on.
fn import_line(servers: &[Server]) -> String {
    let pages = servers
        .iter()
        .filter_map(|server| server.page.as_ref().ok().or(server.own.as_ref()));
    let furthest = pages.max_by_key(|page| page["offset"].as_u64());
    let number = |name: &str| {
        furthest
            .and_then(|page| page[name].as_u64())
            .unwrap_or_default()
    };
    let own = furthest.filter(|page| page["role"] == OWN);
    let failure = own.and_then(|page| page["failure"].as_str());
    let import = furthest.and_then(|page| page["import"].as_str());
    match (import, failure) {
        (Some("loading"), Some(why)) => format!(
            "import: {why}; begin it anew (quorate redis import), or give it up (quorate redis abandon)\n"
        ),
        (Some("loading"), None) => {
            "import: the data of another server is being brought over; no client is served until \
                            quorate redis cutover, or abandon\n"
                .to_owned()
        }
        (Some("following"), _) => format!(
            "import: everything of another server is here up to its offset {}; no client is served until quorate redis \
             cutover, or abandon\n",
            number("import_source") + number("offset").saturating_sub(number("import_len"))
        ),
        _ => String::new(),
    }
}

/// The replica that executes, as far as one answers that does. One that was deposed may not have heard of it yet.
fn executor(servers: &[Server]) -> Option<&Server> {
    let executing = servers.iter().filter(|server| server.role() == "executing");
    executing.max_by_key(|server| server.number("epoch"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_does_not_answer_is_in_the_table() {
        let page = |role: &str, clock: i64| {
            let page = serde_json::json!({"role": role, "offset": 7, "lag_bytes": 0, "clients": 2,
                                          "server": "Redis 7.0.15", "clock_us": clock,
                                          "users_mark": clock % 7});
            Ok(page)
        };
        let servers = [
            Server {
                id: 1,
                url: String::new(),
                page: page("executing", 1_000_000),
                own: None,
                asked_us: (1_000_000, 1_000_200),
            },
            Server {
                id: 2,
                url: String::new(),
                page: Err("nobody answers".to_owned()),
                own: None,
                asked_us: (0, 0),
            },
            Server {
                id: 3,
                url: String::new(),
                page: page("following", 3_500_000),
                own: None,
                asked_us: (1_001_000, 1_001_000),
            },
        ];
        let table = table(&servers);
        assert!(table.contains("      1  executing           7"), "{table}");
        assert!(table.contains("      2  nobody answers"), "{table}");
        assert!(table.contains("  +2499.1±0.1 ms  Redis"), "{table}");
        assert!(!table.contains("+0.0"), "{table}");
        let other_users = table.lines().filter(|line| line.contains("its users"));
        assert!(other_users.eq([table.lines().nth(3).unwrap()]), "{table}");
        assert_eq!(executor(&servers).map(|server| server.id), Some(1));
    }
}
