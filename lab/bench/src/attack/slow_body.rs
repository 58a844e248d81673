//! Requests whose bodies come a few bytes at a time.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::closed::Closed;
use super::{Target, wire};

/// Opens connections with a put each that never comes to its end. Each must be closed in time, and is made anew
/// until the end.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let mut attackers = JoinSet::new();
    for _ in 0..target.connections {
        for authority in target.clients.clone() {
            let over = target.over;
            attackers.spawn(async move { keep_putting(&authority, over).await });
        }
    }
    let mut closed = Closed::default();
    while let Some(attacker) = attackers.join_next().await {
        closed.merge(attacker.map_err(|error| error.to_string())??);
    }
    Ok(closed.to_string())
}

/// How many connections the server closed, and the longest time that took.
async fn keep_putting(authority: &str, over: Instant) -> Result<Closed, String> {
    let mut begin = [wire::PREFACE, &wire::call(1, "/etcdserverpb.KV/Put")].concat();
    // A message of a mebibyte.
    begin.extend(wire::data(1, &[0, 0, 0x10, 0, 0]));
    let mut closed = Closed::default();
    while Instant::now() < over {
        let Ok(mut connection) = wire::connect(authority, &begin).await else {
            tokio::time::sleep(TRICKLE_EVERY).await;
            continue;
        };
        let began = Instant::now();
        if timeout(CLOSED_WITHIN, trickle(&mut connection))
            .await
            .is_err()
        {
            return Err(format!(
                "a put of 10 bytes a second was not ended within {CLOSED_WITHIN:?}"
            ));
        }
        closed.note(began.elapsed());
    }
    Ok(closed)
}

/// Says ten bytes of the body every second until the server closes the connection.
async fn trickle(connection: &mut TcpStream) {
    let piece = wire::data(1, &[7; 10]);
    while !wire::is_closed_within(connection, TRICKLE_EVERY).await {
        if connection.write_all(&piece).await.is_err() {
            return;
        }
    }
}

const TRICKLE_EVERY: Duration = Duration::from_secs(1);
/// Ten seconds is what the replica gives; the rest is for a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(14);
