//! A counter in three processes: start `counter 1`, `counter 2` and `counter 3`, each in a terminal of its own.
//!
//! A line with a number adds it to the counter, an empty line reads the counter.

use quorate::{Applied, Node, StateMachine, decode, encode};
use serde::{Deserialize, Serialize};

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    value: u64,
}

impl StateMachine for Counter {
    type Command = u64;
    type Reply = u64;
    type Query = ();
    type Answer = u64;

    fn apply(&mut self, _: &Applied, add: u64) -> u64 {
        self.value = self.value.wrapping_add(add);
        self.value
    }

    fn query(&self, (): &()) -> u64 {
        self.value
    }

    fn save(&self) -> Vec<u8> {
        encode(self).expect("a number always has a form")
    }

    fn load(bytes: &[u8]) -> Result<Self, String> {
        decode(bytes).map_err(|error| error.to_string())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let id: u16 = args.next().ok_or("usage: counter ID [PORT]")?.parse()?;
    let port: u16 = args.next().map_or(Ok(7000), |port| port.parse())?;
    let node = Node::<Counter>::builder("counter", id)
        .members((1..=3).map(|id| (id, format!("127.0.0.1:{}", port + id))))
        .folder(format!("counter-{id}"))
        .start()
        .await?;
    println!("node {id} runs");
    for line in std::io::stdin().lines() {
        let answer = match line?.trim().parse() {
            Ok(add) => node.submit(add).await,
            Err(_) => node.query(()).await,
        };
        match answer {
            Ok(value) => println!("{value}"),
            Err(error) => println!("{error}"),
        }
    }
    Ok(node.stop().await?)
}
