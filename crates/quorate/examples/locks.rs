//! Locks over plain HTTP, with fencing tokens: `locks ID [PORT]` for each of three nodes; HTTP is at PORT + 10 + ID.
//!
//! `curl -X POST localhost:7011/locks/printer/alice/5000` takes the lock `printer` for alice for 5,000 ms and prints a
//! token, or who has it. `curl -X DELETE localhost:7011/locks/printer/TOKEN` gives it back. A resource that a lock
//! guards refuses tokens below the highest it has seen: who was too slow, and lost the lock meanwhile, does no harm.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, post};
use quorate::{Applied, Error, Node, StateMachine, decode, encode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who has which lock.
#[derive(Default, Serialize, Deserialize)]
struct Locks(BTreeMap<String, Holder>);

#[derive(Clone, Serialize, Deserialize)]
struct Holder {
    owner: String,
    token: u64,
    /// When the lock is free again, by the time of the log in ns.
    until_ns: u64,
}

#[derive(Serialize, Deserialize)]
enum Command {
    Acquire {
        lock: String,
        owner: String,
        ttl_ms: u64,
    },
    Release {
        lock: String,
        token: u64,
    },
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Held(Holder),
    Released(bool),
}

impl StateMachine for Locks {
    type Command = Command;
    type Reply = Reply;
    type Query = String;
    type Answer = Option<Holder>;

    fn apply(&mut self, at: &Applied, command: Command) -> Reply {
        // Locks that ended are no more than memory, which is bounded by those that are held.
        self.0.retain(|_, holder| holder.until_ns > at.time_ns);
        match command {
            Command::Acquire {
                lock,
                owner,
                ttl_ms,
            } => {
                let ends = at.time_ns.saturating_add(ttl_ms.saturating_mul(1_000_000));
                let holder = self.0.entry(lock).or_insert(Holder {
                    owner,
                    token: at.token,
                    until_ns: ends,
                });
                Reply::Held(holder.clone())
            }
            Command::Release { lock, token } => {
                let is_held = self
                    .0
                    .get(&lock)
                    .is_some_and(|holder| holder.token == token);
                if is_held {
                    self.0.remove(&lock);
                }
                Reply::Released(is_held)
            }
        }
    }

    fn query(&self, lock: &String) -> Option<Holder> {
        self.0.get(lock).cloned()
    }

    fn save(&self) -> Vec<u8> {
        encode(self).expect("names and numbers always have a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|error| error.to_string())
    }
}

type Shared = State<Arc<Node<Locks>>>;

async fn acquire(
    State(node): Shared,
    Path((lock, owner, ttl_ms)): Path<(String, String, u64)>,
) -> (StatusCode, String) {
    let command = Command::Acquire {
        lock,
        owner: owner.clone(),
        ttl_ms,
    };
    match node.submit(command).await {
        Ok(Reply::Held(holder)) if holder.owner == owner => {
            (StatusCode::OK, format!("{}\n", holder.token))
        }
        Ok(Reply::Held(holder)) => (StatusCode::CONFLICT, format!("{} has it\n", holder.owner)),
        other => failed(other),
    }
}

async fn release(
    State(node): Shared,
    Path((lock, token)): Path<(String, u64)>,
) -> (StatusCode, String) {
    match node.submit(Command::Release { lock, token }).await {
        Ok(Reply::Released(true)) => (StatusCode::OK, "released\n".to_owned()),
        Ok(Reply::Released(false)) => (StatusCode::NOT_FOUND, "not held\n".to_owned()),
        other => failed(other),
    }
}

/// What HTTP has for a request that came to nothing.
fn failed(result: Result<Reply, Error>) -> (StatusCode, String) {
    match result {
        Ok(_) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "another reply\n".to_owned(),
        ),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let id: u16 = args.next().ok_or("usage: locks ID [PORT]")?.parse()?;
    let port: u16 = args.next().map_or(Ok(7000), |port| port.parse())?;
    let node = Node::<Locks>::builder("locks", id)
        .members((1..=3).map(|id| (id, format!("127.0.0.1:{}", port + id))))
        .folder(format!("locks-{id}"))
        .start()
        .await?;
    let routes = Router::new()
        .route("/locks/{lock}/{owner}/{ttl_ms}", post(acquire))
        .route("/locks/{lock}/{token}", delete(release))
        .with_state(Arc::new(node));
    let address = format!("127.0.0.1:{}", port + 10 + id);
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("http://{address}");
    Ok(axum::serve(listener, routes).await?)
}
