//! Connections that begin something and do not go on.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::closed::Closed;
use super::{Target, wire};

/// Opens connections that say nothing, a part of HTTP/2's preface, or a part of the head of a request. Each must
/// be closed in time, and is made anew until the end.
pub(super) async fn run(target: &Target) -> Result<String, String> {
    let head = wire::call(1, "/etcdserverpb.KV/Put");
    let beginnings = [
        Vec::new(),
        wire::PREFACE[..10].to_vec(),
        b"GET /health HTTP/1.1\r\nHost: a".to_vec(),
        [wire::PREFACE, &head[..20]].concat(),
    ];
    let mut attackers = JoinSet::new();
    for number in 0..target.connections as usize {
        for authority in target.clients.clone() {
            let bytes = beginnings[number % beginnings.len()].clone();
            let over = target.over;
            attackers.spawn(async move { keep_opening(&authority, &bytes, over).await });
        }
    }
    let mut closed = Closed::default();
    while let Some(attacker) = attackers.join_next().await {
        closed.merge(attacker.map_err(|error| error.to_string())??);
    }
    Ok(closed.to_string())
}

/// How many connections the server closed, and the longest time that took.
async fn keep_opening(authority: &str, bytes: &[u8], over: Instant) -> Result<Closed, String> {
    let mut closed = Closed::default();
    while Instant::now() < over {
        let Ok(mut connection) = wire::connect(authority, bytes).await else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let began = Instant::now();
        if !wire::is_closed_within(&mut connection, CLOSED_WITHIN).await {
            let text = bytes.escape_ascii();
            return Err(format!(
                "a connection that said \"{text}\" was not closed within {CLOSED_WITHIN:?}"
            ));
        }
        closed.note(began.elapsed());
    }
    Ok(closed)
}

const PAUSE: Duration = Duration::from_millis(100);
/// Ten seconds is what the replica gives; the rest is for a busy machine.
const CLOSED_WITHIN: Duration = Duration::from_secs(14);
