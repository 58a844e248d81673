//! `quorate redis`: which replica's server executes, how far the others are, and what they hold as a file.

mod export;

use crate::Failure;
use crate::endpoints::{Asked, Endpoints};
use clap::{Args, Subcommand};
use export::ExportOptions;
use quorate_server::first_url;
use serde_json::Value;
use std::time::{Duration, Instant};

/// How long the executor may take to change.
const MOVED_WITHIN: Duration = Duration::from_secs(10);
/// The pause between two looks at who executes.
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// What to show or to change of the real servers behind the Redis face.
#[derive(Subcommand, Debug)]
pub(crate) enum RedisCommand {
    /// Show which replica's server executes commands, and how far the others are
    Status(Common),
    /// Have another replica's server execute commands: clients reconnect
    Move(MoveOptions),
    /// Write everything that the cluster holds to an RDB file, which Redis and Valkey load
    Export(ExportOptions),
}

/// The options of every command.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    endpoints: Endpoints,
}

/// The options of `quorate redis move`.
#[derive(Args, Debug)]
pub(crate) struct MoveOptions {
    /// The number of the replica that is to execute
    #[arg(value_name = "ID")]
    id: u16,
    #[command(flatten)]
    common: Common,
}

/// A replica, and what it says of its server.
struct Server {
    id: u16,
    /// The address for operators.
    url: String,
    page: Result<Value, String>,
}

/// Runs a subcommand of `quorate redis`.
pub(crate) fn run(command: &RedisCommand) -> Result<(), Failure> {
    match command {
        RedisCommand::Status(common) => {
            let (_, servers) = servers(common)?;
            print!("{}", table(&servers));
            Ok(())
        }
        RedisCommand::Move(options) => move_to(options),
        RedisCommand::Export(options) => export::run(options),
    }
}

/// All replicas, as far as they answer.
fn servers(common: &Common) -> Result<(Asked, Vec<Server>), Failure> {
    let asked = common.endpoints.open()?;
    let status = common.endpoints.status_page()?;
    let servers = status.members.iter().map(|member| {
        let url = first_url(&member.client_url).to_owned();
        let page = asked.get(&url, "/redis").and_then(|text| {
            serde_json::from_str(&text).map_err(|_| {
                "it has no real server: the data of this cluster is in Quorate's own store"
                    .to_owned()
            })
        });
        Server {
            id: member.replica_id,
            url,
            page,
        }
    });
    let servers = servers.collect();
    Ok((asked, servers))
}

fn table(servers: &[Server]) -> String {
    let mut out = String::from("replica  role           offset        lag  clients  server\n");
    for server in servers {
        let id = server.id;
        out += &match &server.page {
            Err(why) => format!("{id:>7}  {why}\n"),
            Ok(page) => {
                let text = |name: &str| page[name].as_str().unwrap_or_default().to_owned();
                let number = |name: &str| page[name].as_u64().unwrap_or_default();
                format!(
                    "{id:>7}  {:<13}  {:>6}  {:>9}  {:>7}  {}{}\n",
                    text("role"),
                    number("offset"),
                    number("lag_bytes"),
                    number("clients"),
                    text("server"),
                    match text("failure") {
                        why if why.is_empty() => String::new(),
                        why => format!(": {why}"),
                    }
                )
            }
        };
    }
    out
}

/// The replica that executes, as far as one answers that does.
fn executor(servers: &[Server]) -> Option<&Server> {
    let executes =
        |server: &&Server| matches!(&server.page, Ok(page) if page["role"] == "executing");
    servers.iter().find(executes)
}

fn move_to(options: &MoveOptions) -> Result<(), Failure> {
    let (asked, all) = servers(&options.common)?;
    let id = options.id;
    if !all.iter().any(|server| server.id == id) {
        return Err(Failure::Failed(format!(
            "there is no replica {id} in this cluster"
        )));
    }
    let Some(now) = executor(&all) else {
        let why = all.iter().find_map(|server| server.page.as_ref().err());
        return Err(Failure::Failed(match why {
            Some(why) => format!("no replica says that it executes: {why}"),
            None => "no replica executes: one will once a client asks for something".to_owned(),
        }));
    };
    if now.id != id {
        asked.post_at(&now.url, "/redis/move", &id)?;
    }
    let deadline = Instant::now() + MOVED_WITHIN;
    loop {
        let (_, all) = servers(&options.common)?;
        if executor(&all).is_some_and(|server| server.id == id) {
            print!("{}", table(&all));
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::Failed(format!(
                "replica {id} does not execute after {} s",
                MOVED_WITHIN.as_secs()
            )));
        }
        std::thread::sleep(LOOK_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_does_not_answer_is_in_the_table() {
        let page =
            r#"{"role":"executing","offset":7,"lag_bytes":0,"clients":2,"server":"Redis 7.0.15"}"#;
        let servers = [
            Server {
                id: 1,
                url: String::new(),
                page: serde_json::from_str(page).map_err(|_| String::new()),
            },
            Server {
                id: 2,
                url: String::new(),
                page: Err("nobody answers".to_owned()),
            },
        ];
        let table = table(&servers);
        assert!(table.contains("      1  executing           7"), "{table}");
        assert!(table.contains("      2  nobody answers"), "{table}");
        assert_eq!(executor(&servers).map(|server| server.id), Some(1));
    }
}
